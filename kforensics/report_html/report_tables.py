"""Declares the tables of a report: their columns, sort order and row filter, and how values are formatted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kforensics.forensics.core.tables import STORED
from kforensics.parsers.log.log_rows import Place
from kforensics.parsers.tables.schemas import Column
from kforensics.report_html.incident_rows import WORST_FIRST
from kforensics.report_html.store_reader import SortKey, StoreReader

COUNT_COLUMNS = frozenset(
    (
        *("segments", "records", "batches", "producers", "open_transactions", "committed", "aborted", "findings"),
        *("hidden_records", "transactions", "inits", "producer_ids", "partition_count", "markers", "empty_markers"),
        *("missing_markers", "contrary_markers", "unverifiable", "other_batches", "other_records", "left_out"),
        "records_per_batch",
        "lag",
        "stable_lag",
    )
)
SIZE_COLUMNS = frozenset(("bytes", "hidden_bytes", "size", "key_size", "value_size"))
POSITION_COLUMNS = frozenset(("position", "batch_position", "start", "end"))
VERDICT_RANKING = ("unread", "critical", "error", "warning", "info", "clean")
# Rows of equal rank are sorted by partition and offset.
BY_PLACE = tuple(SortKey(name) for name in ("topic", "partition", "broker_id", "log_dir", "first_offset"))


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table of a report.

    Attributes:
        name: name of the table in the store.
        caption: caption of the table.
        columns: columns besides those of the place.
        order: sort order, which also decides which rows are shown.
        row_filter: a column, and a function that returns the mask of the rows to show from its values; None shows all.
    """

    name: str
    caption: str
    columns: tuple[str, ...]
    order: tuple[SortKey, ...]
    row_filter: tuple[str, Callable[[pa.Array], Any]] | None = None

    def batches(self, store: StoreReader) -> Iterator[pa.RecordBatch]:
        """Yield the filtered rows, with the columns of the place, of the table and of the sort order.

        Raises:
            InputError: the table cannot be read.
        """
        filter_columns = () if self.row_filter is None else (self.row_filter[0],)
        names = (*Place._fields, *self.columns, *(key.column for key in self.order), *filter_columns)
        for batch in store.batches(self.name, list(dict.fromkeys(names))):
            yield batch if self.row_filter is None else batch.filter(self.row_filter[1](batch[self.row_filter[0]]))

    @property
    def column_docs(self) -> tuple[Column, ...]:
        """The columns of the store's table, with their descriptions."""
        by_name = {column.name: column for column in STORED[self.name].columns}
        return tuple(by_name[name] for name in self.columns)


def column_kind(column: Column) -> str:
    """Return the kind of a column, by which the page formats and sorts its values."""
    name = column.name
    if column.type == "bool":
        return "flag"
    if name in ("severity", "verdict"):
        return "severity"
    if name.endswith(("timestamp", "elected_at", "mtime_ms")):
        return "time"
    if name.endswith("_ms"):
        return "duration"
    for kind, names in (("size", SIZE_COLUMNS), ("count", COUNT_COLUMNS), ("position", POSITION_COLUMNS)):
        if name in names:
            return kind
    if name.endswith("_share"):
        return "share"
    return "number" if column.type.startswith(("int", "float")) else "text"


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


REPORT_TABLES: dict[str, ReportTable] = {
    table.name: table
    for table in (
        ReportTable(
            "partitions",
            "Partitions, worst first",
            _names("""verdict findings bytes segments batches records records_per_batch first_offset log_end_offset
                last_stable_offset open_transactions committed aborted producers control_bytes_share newest_timestamp
                read"""),
            (SortKey("verdict", ranking=VERDICT_RANKING), SortKey("findings", descending=True), *BY_PLACE[:4]),
        ),
        ReportTable(
            "findings",
            "Findings, worst first",
            _names("""severity code message first_offset last_offset producer_id producer_epoch exactness cause path
                position"""),
            WORST_FIRST,
        ),
        ReportTable(
            "lso",
            "Partitions with a stuck LSO, longest idle first",
            _names("""last_stable_offset log_end_offset high_watermark producer_id producer_epoch first_offset
                last_timestamp age_ms open_transactions hidden_records hidden_bytes exact"""),
            (SortKey("age_ms", descending=True), *BY_PLACE),
            ("producer_id", pc.is_valid),
        ),
        ReportTable(
            "transactions",
            "Transactions: open or forgotten, then aborted, then committed; longest first",
            _names("""outcome producer_id producer_epoch first_offset last_offset marker_offset records bytes
                first_timestamp marker_timestamp duration_ms coordinator_epoch first_offset_exact"""),
            (
                SortKey("outcome", ranking=("open", "forgotten", "aborted", "committed")),
                SortKey("duration_ms", descending=True),
                *BY_PLACE,
            ),
        ),
        ReportTable(
            "producers",
            "Producers, by aborted transactions, then by all transactions",
            _names("""producer_id producer_epoch transactions aborted records bytes transaction_ms last_sequence
                last_offset last_timestamp coordinator_epoch current_txn_first_offset expired in_snapshot"""),
            (
                SortKey("aborted", descending=True),
                SortKey("transactions", descending=True),
                SortKey("producer_id"),
                *BY_PLACE[:4],
            ),
        ),
        ReportTable(
            "transactional_ids",
            "Transactional ids, last used first",
            _names("""transactional_id state removed producer_id producer_epoch transaction_timeout_ms start_timestamp
                last_timestamp transactions committed aborted partitions"""),
            (SortKey("last_timestamp", descending=True), SortKey("transactional_id"), *BY_PLACE[:4]),
        ),
        ReportTable(
            "distributed_transactions",
            "Transactions across partitions, not atomic first",
            _names("""atomic transactional_id producer_id producer_epoch state outcome partition_count markers
                missing_markers contrary_markers unverifiable start_timestamp decided_timestamp completed_timestamp
                partitions"""),
            (
                SortKey("atomic", ranking=("no", "unverifiable", "pending", "yes")),
                SortKey("start_timestamp", descending=True),
                SortKey("transactional_id"),
                *BY_PLACE[:4],
            ),
        ),
        ReportTable(
            "committed_offsets",
            "Committed offsets of groups, largest lag first",
            _names("""group committed_topic committed_partition committed_offset log_end_offset lag last_stable_offset
                stable_lag pending transactional effective_timestamp"""),
            (
                SortKey("lag", descending=True),
                *(SortKey(name) for name in ("group", "committed_topic", "committed_partition")),
            ),
        ),
        ReportTable(
            "replica_differences",
            "Differences between replicas",
            _names("""kind first_offset last_offset records other_records other_broker_id loser lowest_leader_epoch
                highest_leader_epoch other_lowest_leader_epoch other_highest_leader_epoch folder other_folder"""),
            (SortKey("records", descending=True), *BY_PLACE),
        ),
        ReportTable(
            "lost_records",
            "The records that a later leader did not have or overwrote",
            _names("""offset outcome known_committed again_at timestamp producer_id producer_epoch sequence key
                value_size folder"""),
            (*BY_PLACE[:4], SortKey("offset")),
        ),
        ReportTable(
            "leader_epoch_lineage",
            "Leader epochs that differ between replicas",
            _names("leader_epoch start_offset first_offset last_offset noted leader elected_at unclean in_sync folder"),
            (*BY_PLACE[:4], SortKey("leader_epoch")),
            ("shared", pc.invert),
        ),
        ReportTable(
            "duplicates",
            "Duplicate records",
            _names("""level view records first_partition first_offset second_offset first_producer_id
                second_producer_id first_timestamp second_timestamp why"""),
            (SortKey("records", descending=True), *BY_PLACE, SortKey("second_offset")),
        ),
        ReportTable(
            "damage",
            "Bytes that could not be decoded",
            _names("reason start end detail next_good_position inside_batch path"),
            (SortKey("path"), SortKey("start")),
        ),
    )
}
