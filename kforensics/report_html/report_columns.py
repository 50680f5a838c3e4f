"""The tables of a report: which of a store, which columns, in what order, and how values are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kforensics.forensics.core.tables import RESULTS
from kforensics.parsers.log.log_rows import Place
from kforensics.parsers.tables.schemas import TABLES, Column
from kforensics.report_html.chosen_findings import WORST_FIRST
from kforensics.report_html.stored_evidence import Store
from kforensics.report_html.top_rows import By

__all__ = ["SHOWN_TABLES", "ShownTable", "kind_of"]

COUNTS = frozenset(
    (
        *("segments", "records", "batches", "producers", "open_transactions", "committed", "aborted", "findings"),
        *("hidden_records", "transactions", "inits", "producer_ids", "partition_count", "markers", "empty_markers"),
        *("missing_markers", "contrary_markers", "unverifiable", "other_batches", "other_records", "left_out"),
        "records_per_batch",
        "lag",
        "stable_lag",
    )
)
SIZES = frozenset(("bytes", "hidden_bytes", "size", "key_size", "value_size"))
POSITIONS = frozenset(("position", "batch_position", "start", "end"))
VERDICTS = ("unread", "critical", "error", "warning", "info", "clean")
# By offset, the place first.
PLACED = tuple(By(name) for name in ("topic", "partition", "broker_id", "log_dir", "first_offset"))


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A table of a report.

    Attributes:
        name: of the table in the store.
        caption: what it shows.
        columns: beside the place, which is written as one column.
        order: which rows come first, and stay where there are too many.
        kept: a column, and what gives a mask of the rows to show by its values; None shows all.
    """

    name: str
    caption: str
    columns: tuple[str, ...]
    order: tuple[By, ...]
    kept: tuple[str, Callable[[pa.Array], Any]] | None = None

    def batches(self, store: Store, more: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
        """Yield the rows that may be shown, with the place, the columns and what they are ordered by.

        Args:
            store: where they are.
            more: further columns.

        Raises:
            InputError: the table cannot be read.
        """
        told = () if self.kept is None else (self.kept[0],)
        wanted = (*Place._fields, *self.columns, *(by.column for by in self.order), *told, *more)
        for batch in store.batches(self.name, list(dict.fromkeys(wanted))):
            yield batch if self.kept is None else batch.filter(self.kept[1](batch[self.kept[0]]))

    @property
    def statements(self) -> tuple[Column, ...]:
        """What the store's statement says of the columns."""
        by_name = {column.name: column for column in {**TABLES, **RESULTS}[self.name].columns}
        return tuple(by_name[name] for name in self.columns)


def kind_of(column: Column) -> str:
    """Return how values of a column are written and compared."""
    name = column.name
    if column.type == "bool":
        return "flag"
    if name in ("severity", "verdict"):
        return "severity"
    if name.endswith(("timestamp", "elected_at", "mtime_ms")):
        return "time"
    if name.endswith("_ms"):
        return "duration"
    for kind, names in (("size", SIZES), ("count", COUNTS), ("position", POSITIONS)):
        if name in names:
            return kind
    if name.endswith("_share"):
        return "share"
    return "number" if column.type.startswith(("int", "float")) else "text"


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


SHOWN_TABLES: dict[str, ShownTable] = {
    table.name: table
    for table in (
        ShownTable(
            "partitions",
            "Partitions, the worst first",
            _words("""verdict findings bytes segments batches records records_per_batch first_offset log_end_offset
                last_stable_offset open_transactions committed aborted producers control_bytes_share newest_timestamp
                read"""),
            (By("verdict", words=VERDICTS), By("findings", descending=True), *PLACED[:4]),
        ),
        ShownTable(
            "findings",
            "Findings, the worst first",
            _words("""severity code message first_offset last_offset producer_id producer_epoch exactness cause path
                position"""),
            WORST_FIRST,
        ),
        ShownTable(
            "lso",
            "Partitions whose last stable offset is held back, the longest silent first",
            _words("""last_stable_offset log_end_offset high_watermark producer_id producer_epoch first_offset
                last_timestamp age_ms open_transactions hidden_records hidden_bytes exact"""),
            (By("age_ms", descending=True), *PLACED),
            ("producer_id", pc.is_valid),
        ),
        ShownTable(
            "transactions",
            "Transactions of partitions: open ones, then aborted and committed ones, the longest first",
            _words("""outcome producer_id producer_epoch first_offset last_offset marker_offset records bytes
                first_timestamp marker_timestamp duration_ms coordinator_epoch first_offset_exact"""),
            (By("outcome", words=("open", "aborted", "committed")), By("duration_ms", descending=True), *PLACED),
        ),
        ShownTable(
            "producers",
            "Producers, by aborted transactions and by all",
            _words("""producer_id producer_epoch transactions aborted records bytes transaction_ms last_sequence
                last_offset last_timestamp coordinator_epoch current_txn_first_offset expired in_snapshot"""),
            (By("aborted", descending=True), By("transactions", descending=True), By("producer_id"), *PLACED[:4]),
        ),
        ShownTable(
            "transactional_ids",
            "Transactional ids, by their last use",
            _words("""transactional_id state removed producer_id producer_epoch transaction_timeout_ms start_timestamp
                last_timestamp transactions committed aborted partitions"""),
            (By("last_timestamp", descending=True), By("transactional_id"), *PLACED[:4]),
        ),
        ShownTable(
            "distributed_transactions",
            "Transactions in all their partitions: those that are not atomic first",
            _words("""atomic transactional_id producer_id producer_epoch state outcome partition_count markers
                missing_markers contrary_markers unverifiable start_timestamp decided_timestamp completed_timestamp
                partitions"""),
            (
                By("atomic", words=("no", "unverifiable", "pending", "yes")),
                By("start_timestamp", descending=True),
                By("transactional_id"),
                *PLACED[:4],
            ),
        ),
        ShownTable(
            "committed_offsets",
            "Offsets of groups, those furthest behind first",
            _words("""group committed_topic committed_partition committed_offset log_end_offset lag last_stable_offset
                stable_lag pending transactional effective_timestamp"""),
            (By("lag", descending=True), *(By(name) for name in ("group", "committed_topic", "committed_partition"))),
        ),
        ShownTable(
            "replica_differences",
            "Where replicas differ",
            _words("""kind first_offset last_offset records other_records other_broker_id loser lowest_leader_epoch
                highest_leader_epoch other_lowest_leader_epoch other_highest_leader_epoch folder other_folder"""),
            (By("records", descending=True), *PLACED),
        ),
        ShownTable(
            "lost_records",
            "Records that a later leader did not have or wrote over",
            _words("""offset outcome known_committed again_at timestamp producer_id producer_epoch sequence key
                value_size folder"""),
            (*PLACED[:4], By("offset")),
        ),
        ShownTable(
            "leader_epoch_lineage",
            "Leader epochs that not all replicas have alike",
            _words("leader_epoch start_offset first_offset last_offset noted leader elected_at unclean in_sync folder"),
            (*PLACED[:4], By("leader_epoch")),
            ("shared", pc.invert),
        ),
        ShownTable(
            "duplicates",
            "What is there twice",
            _words("""level view records first_partition first_offset second_offset first_producer_id
                second_producer_id first_timestamp second_timestamp why"""),
            (By("records", descending=True), *PLACED, By("second_offset")),
        ),
        ShownTable(
            "damage",
            "Bytes that could not be read",
            _words("reason start end detail next_good_position inside_batch path"),
            (By("path"), By("start")),
        ),
    )
}
