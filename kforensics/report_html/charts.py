"""Builds the charts of a report as Vega-Lite from the parts of a store that a chart can show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kforensics.forensics.core.tables import RESULTS, STORED
from kforensics.parsers.log.log_rows import Place
from kforensics.parsers.tables.arrow import arrow_schema_of
from kforensics.parsers.tables.schemas import arrow_schema
from kforensics.report_html.page_rows import topic_partition
from kforensics.report_html.report_tables import REPORT_TABLES
from kforensics.report_html.store_reader import StoreReader, first_rows

if TYPE_CHECKING:
    from kforensics.plots import Plot

# Partitions with a chart of each kind, and the first rows of a table from which these partitions are taken.
MAX_CHART_PARTITIONS, RANKED_ROWS = 3, 1000
MAX_CHART_ROWS = 200_000
MAX_DISTRIBUTED_TRANSACTIONS = 1000
MAX_DAMAGED_FILES = 40
LSO_TIMES_NOTE = "Times are those of last writes of transactions and of their markers."
RECENT_BATCHES_NOTE = "The last batches of each producer, at most five, by which the broker detects retries."
PLACE_NAMES = Place._fields
TRANSACTION_CHART_COLUMNS = (
    *PLACE_NAMES,
    *("producer_id", "outcome", "records", "first_offset", "last_offset", "marker_offset", "marker_epoch"),
    *("first_timestamp", "last_timestamp", "marker_timestamp"),
)
LSO_HISTORY_COLUMNS = (
    *PLACE_NAMES,
    *("from_high_watermark", "to_high_watermark", "last_stable_offset", "producer_id"),
)
TRANSACTIONAL_IDS, NAME_COLUMNS = "transactional_ids", ("producer_id", "transactional_id")
PRODUCER_CHART_COLUMNS = (*PLACE_NAMES, "producer_id", "producer_epoch", "recent_batches")
RECENT_BATCH_COLUMNS = (
    *PLACE_NAMES,
    *("producer_id", "producer_epoch", "base_offset", "last_offset", "base_sequence", "last_sequence"),
)
# Of the tables of the timeline, in the order of its arguments.
TIMELINE_COLUMNS = {
    "cluster_events": (
        *("topic", "partition", "timestamp", "kind", "node_id", "name", "value", "previous", "partitions"),
    ),
    "transactions": ("outcome", "first_timestamp", "last_timestamp", "marker_timestamp"),
    "incidents": ("since", "severity", "kind"),
}
BATCH_HISTOGRAMS, PRODUCER_BATCHES = "batch_histograms", "producer_batches"
BATCH_COLUMNS = (
    *("log_dir", "topic", "partition", "producer_id", "compression_type"),
    *("size_from", "batches", "records", "bytes"),
)
RATIO_COLUMNS = ("log_dir", "topic", "partition", "producer_id", "compression_ratio")
INTERNAL_NOTE = "Without internal topics."
KNOWN_TIME_COLUMNS = (*PLACE_NAMES, "last_offset", "max_timestamp")
DAMAGE_COLUMNS = ("path", "start", "end", "reason", "inside_batch")
ATOMICITY_COLUMNS = tuple(
    column.name for column in RESULTS["distributed_transactions"].columns if column.name not in ("path", "position")
)
# After this number of sequences a producer continues at 0: DefaultRecordBatch.decrementSequence.
SEQUENCE_RANGE = 1 << 31


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart of a report.

    Attributes:
        name: name in the page.
        section: name of its section.
        title: title of the chart.
        notes: sentences about the data it shows.
        spec: Vega-Lite specification without a title.
    """

    name: str
    section: str
    title: str
    notes: tuple[str, ...]
    spec: Mapping[str, Any]


def report_figures(store: StoreReader) -> list[Figure]:
    """Return the charts of a store.

    Raises:
        InputError: a table cannot be read.
        MissingExtraError: Altair is not installed.
    """
    from kforensics import plots  # raises MissingExtraError without Altair

    charts = [
        *_timeline_charts(store, plots),
        *_transaction_charts(store, plots),
        *_sequence_charts(store, plots),
        *_batch_charts(store, plots),
        *_atomicity_charts(store, plots),
        *_damage_charts(store, plots),
    ]
    return [_figure(index, *chart) for index, chart in enumerate(charts)]


SectionChart = tuple[str, "Plot", tuple[str, ...]]


def _figure(index: int, section: str, plot: Plot, notes: Sequence[str]) -> Figure:
    spec = plot.to_dict()
    title = spec.pop("title", "")
    if isinstance(title, str):
        title = {"text": title}
    for name in ("$schema", "width"):
        spec.pop(name, None)
    sentences = [f"{line[:1].upper()}{line[1:]}." for line in title.get("subtitle", [])]
    return Figure(f"figure-{index}", section, title.get("text", ""), (*sentences, *notes), spec)


def _timeline_charts(store: StoreReader, plots: Any) -> Iterator[SectionChart]:
    """Yield the timeline of the cluster, if the store has anything with a time."""
    tables, notes = [], list[str]()
    for name, columns in TIMELINE_COLUMNS.items():
        batches, note = _limit(store.batches(name, columns))
        tables.append(_table(name, columns, batches))
        notes += [f"{name.replace('_', ' ').capitalize()}: {sentence.lower()}" for sentence in note]
    chart = plots.timeline(*tables)
    if any(chart.to_dict()["datasets"].values()):
        yield "timeline", chart, tuple(notes)


def _transaction_charts(store: StoreReader, plots: Any) -> Iterator[SectionChart]:
    """Yield charts of LSO and transactions, for the longest blocked partitions and those with most aborts."""
    blocked = _top_places(store, "lso")
    names = _table(TRANSACTIONAL_IDS, NAME_COLUMNS, _limit(store.batches(TRANSACTIONAL_IDS, NAME_COLUMNS))[0])
    for place in blocked:
        history, notes = _partition_rows(store, "lso_history", LSO_HISTORY_COLUMNS, place)
        if history.num_rows:
            yield "lso", plots.lso(history, transactional_ids=names), notes
            rows, row_notes = _partition_rows(store, "transactions", TRANSACTION_CHART_COLUMNS, place)
            chart = plots.lso_over_time(history, known_times(rows), transactional_ids=names)
            yield "lso", chart, (LSO_TIMES_NOTE, *row_notes)
    others = [place for place in _top_places(store, "transactions") if place not in blocked]
    for index, place in enumerate((blocked + others)[:MAX_CHART_PARTITIONS]):
        rows, notes = _partition_rows(store, "transactions", TRANSACTION_CHART_COLUMNS, place)
        yield "transactions", plots.transactions(rows), ("By offset.", *notes)
        if index == 0:
            yield "transactions", plots.transactions(rows, by="time"), ("By time.", *notes)


def _sequence_charts(store: StoreReader, plots: Any) -> Iterator[SectionChart]:
    """Yield a chart of sequences, for a partition with findings about them or else the one with most aborts."""
    places = (*_top_places(store, "findings", _is_sequence_finding), *_top_places(store, "producers"))
    for place in dict.fromkeys(places):
        producers, notes = _partition_rows(store, "producers", PRODUCER_CHART_COLUMNS, place)
        batches = recent_batches(producers)
        if batches.num_rows:
            yield "producers", plots.sequences(batches), (RECENT_BATCHES_NOTE, *notes)
            return


def _is_sequence_finding(batch: pa.RecordBatch) -> Any:
    return pc.starts_with(batch["code"], "seq-")


def _batch_charts(store: StoreReader, plots: Any) -> Iterator[SectionChart]:
    """Yield charts of the sizes of batches and of their compression; of internal topics only if there are no others."""
    batches, notes = _limit(store.batches(BATCH_HISTOGRAMS, BATCH_COLUMNS))
    histograms = _table(BATCH_HISTOGRAMS, BATCH_COLUMNS, batches)
    is_internal = pc.starts_with(histograms["topic"], "__").fill_null(False)  # noqa: FBT003  # Arrow's signature
    users = histograms.filter(pc.invert(is_internal))
    if users.num_rows:
        notes = (*([INTERNAL_NOTE] if users.num_rows < histograms.num_rows else []), *notes)
        histograms = users
    if not histograms.num_rows:
        return
    producers = _table(PRODUCER_BATCHES, RATIO_COLUMNS, _limit(store.batches(PRODUCER_BATCHES, RATIO_COLUMNS))[0])
    yield "batches", plots.batch_sizes(histograms), notes
    yield "batches", plots.stored_compression(histograms, producers), ()


def _atomicity_charts(store: StoreReader, plots: Any) -> Iterator[SectionChart]:
    table = REPORT_TABLES["distributed_transactions"]
    distributed = first_rows(store.batches(table.name, ATOMICITY_COLUMNS), table.order, MAX_DISTRIBUTED_TRANSACTIONS)
    if distributed is None or not distributed.num_rows:
        return
    producers = pc.unique(distributed["producer_id"])
    batches, notes = _limit(
        batch.filter(pc.is_in(batch["producer_id"], producers))
        for batch in store.batches("transactions", TRANSACTION_CHART_COLUMNS)
    )
    transactions = _table("transactions", TRANSACTION_CHART_COLUMNS, batches)
    yield "cluster", plots.atomicity(distributed, transactions), notes


def _damage_charts(store: StoreReader, plots: Any) -> Iterator[SectionChart]:
    batches, notes = _limit(store.batches("damage", DAMAGE_COLUMNS))
    damage = _table("damage", DAMAGE_COLUMNS, batches)
    if damage.num_rows:
        paths = pc.unique(damage["path"])
        files = store.table("files", ("path", "size"), lambda batch: pc.is_in(batch["path"], paths))
        shown = min(len(paths), MAX_DAMAGED_FILES)
        counts = f"{len(paths):,} of {store.count('files'):,} files have damage; the worst {shown} are shown."
        yield "damage", plots.damage_map(files, damage).properties(title="Damage"), (counts, *notes)


def _top_places(
    store: StoreReader, name: str, row_filter: Callable[[pa.RecordBatch], Any] | None = None
) -> list[Place]:
    """Return the partitions of the first rows of a report's table.

    Args:
        store: the store.
        name: name of the table.
        row_filter: returns the mask of the rows to consider; None considers all.
    """
    table = REPORT_TABLES[name]
    batches: Iterable[pa.RecordBatch] = table.batches(store)
    if row_filter is not None:
        batches = (batch.filter(row_filter(batch)) for batch in batches)
    selected = first_rows(batches, table.order, RANKED_ROWS)
    rows = [] if selected is None else selected.select(PLACE_NAMES).to_pylist()
    return list(dict.fromkeys(Place(**row) for row in rows if row["topic"] is not None))[:MAX_CHART_PARTITIONS]


def _partition_rows(
    store: StoreReader, name: str, columns: Sequence[str], place: Place
) -> tuple[pa.Table, tuple[str, ...]]:
    """Return the rows of one partition, and notes that name it."""
    values = {field: pa.array([value]) for field, value in place._asdict().items()}

    def is_in_partition(batch: pa.RecordBatch) -> Any:
        masks = [pc.is_in(batch[field], value.cast(batch[field].type)) for field, value in values.items()]
        return reduce(pc.and_, masks)

    batches, notes = _limit(batch.filter(is_in_partition(batch)) for batch in store.batches(name, columns))
    broker = "" if place.broker_id is None else f" on broker {place.broker_id}"
    partition = f"{topic_partition(place._asdict())}{broker}, {place.log_dir}."
    return _table(name, columns, batches), (partition, *notes)


def _limit(batches: Iterator[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], tuple[str, ...]]:
    """Return the first rows, and a note if there are more."""
    first: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        count += len(batch)
        if len(batch):
            first.append(batch)
        if count > MAX_CHART_ROWS:
            return first, (f"Based on the first {count:,} rows; the store has more.",)
    return first, ()


def _table(name: str, columns: Sequence[str], batches: Sequence[pa.RecordBatch]) -> pa.Table:
    schema = arrow_schema_of(STORED[name])
    return pa.Table.from_batches(batches, pa.schema([schema.field(column) for column in columns]))


def recent_batches(producers: pa.Table) -> pa.Table:
    """Return the last batches of producers as rows of the table ``batches``, with the columns that are known.

    Args:
        producers: rows of the table ``producers``.
    """
    schema = arrow_schema("batches")
    rows = [batch for row in producers.to_pylist() for batch in _recent_batches(row)]
    return pa.Table.from_pylist(rows, pa.schema([schema.field(name) for name in RECENT_BATCH_COLUMNS]))


def _recent_batches(producer: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    shared = {name: producer[name] for name in RECENT_BATCH_COLUMNS if name in producer}
    for batch in producer["recent_batches"] or ():
        if batch["last_sequence"] < 0:
            continue
        yield {
            **shared,
            "base_offset": batch["last_offset"] - batch["offset_delta"],
            "last_offset": batch["last_offset"],
            "base_sequence": (batch["last_sequence"] - batch["offset_delta"]) % SEQUENCE_RANGE,
            "last_sequence": batch["last_sequence"],
        }


def known_times(transactions: pa.Table) -> pa.Table:
    """Return the known offsets and timestamps of a log as rows of the table ``batches``.

    They are the last batch of each transaction and its marker.

    Args:
        transactions: rows of the table ``transactions``.
    """
    place = [transactions[name] for name in PLACE_NAMES]
    parts = [
        pa.table([*place, transactions[offset], transactions[timestamp].cast("int64")], names=list(KNOWN_TIME_COLUMNS))
        for offset, timestamp in (("last_offset", "last_timestamp"), ("marker_offset", "marker_timestamp"))
    ]
    batches = pa.concat_tables(parts)
    return batches.filter(pc.and_(pc.is_valid(batches["last_offset"]), pc.is_valid(batches["max_timestamp"])))
