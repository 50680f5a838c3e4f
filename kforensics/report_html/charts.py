"""The charts of a report, as Vega-Lite; of a large store only what a chart can show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kforensics.forensics.core.tables import RESULTS
from kforensics.parsers.log.log_rows import Place
from kforensics.parsers.tables.arrow import arrow_schema_of
from kforensics.parsers.tables.schemas import TABLES
from kforensics.report_html.page_rows import place_name
from kforensics.report_html.recent_batches import known_moments, recent_batches
from kforensics.report_html.report_columns import SHOWN_TABLES
from kforensics.report_html.stored_evidence import Store
from kforensics.report_html.top_rows import first_rows

if TYPE_CHECKING:
    from kforensics.plots import Plot

__all__ = ["Figure", "figures"]

PLACE = Place._fields
# Partitions that have charts of a kind, and rows that are read for one chart.
PARTITIONS, ROWS = 3, 200_000
# Rows in whose order partitions are chosen.
FIRST = 1000
DISTRIBUTED = 1000
OVER_TIME = "Of the times at which transactions wrote, and their markers."
# Files that a map of damage shows.
FILES = 40
LANES = (
    *PLACE,
    *("producer_id", "outcome", "records", "first_offset", "last_offset", "marker_offset", "marker_epoch"),
    *("first_timestamp", "last_timestamp", "marker_timestamp"),
)
HISTORY = (*PLACE, "from_high_watermark", "to_high_watermark", "last_stable_offset", "producer_id")
DAMAGE = ("path", "start", "end", "reason", "inside_batch")
ATOMICITY = tuple(
    column.name for column in RESULTS["distributed_transactions"].columns if column.name not in ("path", "position")
)


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart.

    Attributes:
        name: what it is called in the page.
        section: the section it stands in.
        title: what it shows, and of what.
        notes: what to know about it, sentence by sentence.
        spec: the chart as Vega-Lite, without a title.
    """

    name: str
    section: str
    title: str
    notes: tuple[str, ...]
    spec: Mapping[str, Any]


def figures(store: Store) -> list[Figure]:
    """Return the charts of a store.

    Raises:
        InputError: a table cannot be read.
        MissingExtraError: what draws them is not installed.
    """
    from kforensics import plots  # who reports without charts does without Altair

    found = [
        *_of_held(store, plots),
        *_of_sequences(store, plots),
        *_of_clusters(store, plots),
        *_of_files(store, plots),
    ]
    return [_figure(nth, *each) for nth, each in enumerate(found)]


Drawn = tuple[str, "Plot", tuple[str, ...]]


def _figure(nth: int, section: str, plot: Plot, notes: Sequence[str]) -> Figure:
    spec = plot.to_dict()
    title = spec.pop("title", "")
    if isinstance(title, str):
        title = {"text": title}
    for name in ("$schema", "width"):
        spec.pop(name, None)
    subtitle = title.get("subtitle", [])
    return Figure(f"figure-{nth}", section, title.get("text", ""), (*_sentences(subtitle), *notes), spec)


def _sentences(subtitle: Sequence[str]) -> Iterator[str]:
    return (f"{line[:1].upper()}{line[1:]}." for line in subtitle)


def _of_held(store: Store, plots: Any) -> Iterator[Drawn]:
    """Yield how the last stable offset moved, and transactions, where it is held back longest or aborts are many."""
    held = _places(store, "lso")
    for place in held:
        history, notes = _of_place(store, "lso_history", HISTORY, place)
        if history.num_rows:
            yield "lso", plots.lso(history), notes
            found, more = _of_place(store, "transactions", LANES, place)
            yield "lso", plots.lso_over_time(history, known_moments(found)), (OVER_TIME, *more)
    busy = [place for place in _places(store, "transactions") if place not in held]
    for nth, place in enumerate((held + busy)[:PARTITIONS]):
        found, notes = _of_place(store, "transactions", LANES, place)
        yield "transactions", plots.transactions(found), ("By offset.", *notes)
        if nth == 0:
            yield "transactions", plots.transactions(found, by="time"), ("By time.", *notes)


def _of_sequences(store: Store, plots: Any) -> Iterator[Drawn]:
    """Yield the last sequences of producers, where something is wrong with sequences or else where most is aborted."""
    for place in dict.fromkeys((*_places(store, "findings", _is_of_sequences), *_places(store, "producers"))):
        found, notes = _of_place(store, "producers", (*PLACE, "producer_id", "producer_epoch", "recent_batches"), place)
        batches = recent_batches(found)
        if batches.num_rows:
            said = "The last batches of each producer, five at most, by which a broker knows a retry."
            yield "producers", plots.sequences(batches), (said, *notes)
            return


def _is_of_sequences(batch: pa.RecordBatch) -> Any:
    return pc.starts_with(batch["code"], "seq-")


def _of_clusters(store: Store, plots: Any) -> Iterator[Drawn]:
    shown = SHOWN_TABLES["distributed_transactions"]
    found = first_rows(store.batches(shown.name, ATOMICITY), shown.order, DISTRIBUTED)
    if found is None or not found.num_rows:
        return
    producers = pc.unique(found["producer_id"])
    there, notes = _limited(
        batch.filter(pc.is_in(batch["producer_id"], producers)) for batch in store.batches("transactions", LANES)
    )
    yield "cluster", plots.atomicity(found, _table("transactions", LANES, there)), notes


def _of_files(store: Store, plots: Any) -> Iterator[Drawn]:
    batches, notes = _limited(store.batches("damage", DAMAGE))
    damage = _table("damage", DAMAGE, batches)
    if damage.num_rows:
        paths = pc.unique(damage["path"])
        files = store.table("files", ("path", "size"), lambda batch: pc.is_in(batch["path"], paths))
        drawn = min(len(paths), FILES)
        said = f"{len(paths):,} of {store.count('files'):,} files have damage; the worst {drawn} are drawn."
        yield "damage", plots.damage_map(files, damage).properties(title="Damage"), (said, *notes)


def _places(store: Store, table: str, kept: Callable[[pa.RecordBatch], Any] | None = None) -> list[Place]:
    """Return the partitions of the first rows of a table, in its order."""
    shown = SHOWN_TABLES[table]
    batches = shown.batches(store)
    found = first_rows(batches if kept is None else (one.filter(kept(one)) for one in batches), shown.order, FIRST)
    rows = [] if found is None else found.select(PLACE).to_pylist()
    return list(dict.fromkeys(Place(**row) for row in rows if row["topic"] is not None))[:PARTITIONS]


def _of_place(store: Store, table: str, columns: Sequence[str], place: Place) -> tuple[pa.Table, tuple[str, ...]]:
    wanted = {name: pa.array([value]) for name, value in place._asdict().items()}

    def of_place(batch: pa.RecordBatch) -> Any:
        masks = [pc.is_in(batch[name], value.cast(batch[name].type)) for name, value in wanted.items()]
        return reduce(pc.and_, masks)

    batches, notes = _limited(batch.filter(of_place(batch)) for batch in store.batches(table, columns))
    broker = "" if place.broker_id is None else f" on broker {place.broker_id}"
    where = f"{place_name(place._asdict())}{broker}, {place.log_dir}"
    return _table(table, columns, batches), (f"{where}.", *notes)


def _limited(batches: Iterator[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], tuple[str, ...]]:
    """Return the first rows, and what to say if there are more."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        count += len(batch)
        if len(batch):
            held.append(batch)
        if count > ROWS:
            return held, (f"Drawn of the first {count:,} rows of the store; there are more.",)
    return held, ()


def _table(name: str, columns: Sequence[str], batches: Sequence[pa.RecordBatch]) -> pa.Table:
    schema = arrow_schema_of({**TABLES, **RESULTS}[name])
    return pa.Table.from_batches(batches, pa.schema([schema.field(column) for column in columns]))
