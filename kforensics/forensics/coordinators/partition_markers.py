"""What a data partition contributes to the transactions of its cluster: its markers and its open transactions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE, TopicPartition
from kforensics.forensics.coordinators.refused_markers import OldFormat
from kforensics.forensics.coordinators.time_coverage import TimeCoverage
from kforensics.forensics.core.packed_rows import RowPacker, StructRows, column_at, search_column, with_column
from kforensics.forensics.core.record_arrays import concat_rows, take_rows
from kforensics.forensics.core.record_types import NO_TIME, EmptyMarkerArray, TransactionArray
from kforensics.forensics.partition.blocking_transactions import (
    UNKNOWN,
    appended_by,
    elapsed_since,
    hanging_evidence,
    last_times,
)
from kforensics.forensics.partition.creation_order import is_one_older, times_since_creation
from kforensics.forensics.partition.damaged_markers import damaged_markers, is_damaged, precedes_damage
from kforensics.forensics.partition.epoch_starts import EpochStarts, epoch_starts
from kforensics.forensics.partition.kept_times import kept_until
from kforensics.forensics.partition.log_starts import EarlierStart
from kforensics.forensics.partition.lost_watermarks import Watermark
from kforensics.forensics.partition.marker_times import marker_pages
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.replica_ranks import NO_RANK, ReplicaRank
from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray
from kforensics.parsers.log.log_rows import Place

__all__ = [
    "NO_MARKERS",
    "OPEN_TRANSACTION",
    "TRANSACTION_MARKER",
    "OpenTransactionArray",
    "PartitionMarkers",
    "TransactionMarkerArray",
]

# A marker and the data that it ended.
TRANSACTION_MARKER = np.dtype(
    [
        ("partition", "i4"),  # number of the partition, set by the join
        ("producer_id", "i8"),
        ("marker_offset", "i8"),
        ("marker_epoch", "i2"),
        ("coordinator_epoch", "i4"),
        ("outcome", "i1"),
        ("marker_timestamp", "i8"),
        ("first_offset", "i8"),  # of the data; this and the next three are -1 if it ended none
        ("last_offset", "i8"),
        ("lowest_epoch", "i2"),
        ("data_epoch", "i2"),  # the highest one
        ("first_timestamp", "i8"),  # NO_TIME if it ended none
        (
            "written_by",
            "i8",
        ),  # time of the first marker, of any producer, after the first data; NO_TIME if it ended none
        ("segment", "i4"),
        ("position", "i8"),
    ]
)
NO_MARKERS = np.empty(0, TRANSACTION_MARKER)
MARKER_FIELDS = ("producer_id", "marker_offset", "marker_epoch", "coordinator_epoch", "outcome", "marker_timestamp")
# A transaction without a marker.
OPEN_TRANSACTION = np.dtype(
    [
        ("producer_id", "i8"),
        ("producer_epoch", "i2"),
        ("lowest_epoch", "i2"),
        ("first_offset", "i8"),
        ("last_offset", "i8"),
        ("first_timestamp", "i8"),
        ("last_time", "i8"),  # time of its last batch, no earlier than the marker before it
        ("idle_ms", "i8"),  # how long it had been idle, as far as the copy shows
        ("previous_marker", "i8"),  # offset of the last marker of its producer before it; -1 if there is none
        ("coordinator_epoch", "i4"),  # of that marker
        ("appended_after", "i8"),  # time of the last marker, of any producer, before it; NO_TIME if there is none
        ("appended_by", "i8"),  # latest time at which its last batch can have been written, by the broker's clock
        ("precedes_damage", "?"),  # damaged bytes follow it, which may have been its marker
        ("segment", "i4"),
        ("position", "i8"),
    ]
)
TRANSACTION_FIELDS = (
    *("producer_id", "producer_epoch", "lowest_epoch", "first_offset", "last_offset", "first_timestamp"),
    *("segment", "position"),
)
TransactionMarkerArray: TypeAlias = StructArray
OpenTransactionArray: TypeAlias = StructArray


@dataclass(frozen=True, slots=True)
class PartitionMarkers:
    """The markers and open transactions of one partition, as far as its log is available.

    Attributes:
        place: the partition.
        paths: paths of its segments.
        markers: TRANSACTION_MARKER records, in the order of the log; packed if they are very many.
        open_transactions: OPEN_TRANSACTION records, by first offset.
        forgotten: first offsets of the open transactions that its broker has forgotten.
        coverage: which time its log covers.
        kept_until: newest time of its files, if the copy has kept file times: :func:`.kept_times.kept_until`.
        log_start_offset: first visible offset on disk.
        visible_start_offset: its log start offset; with remote storage it may be before the first segment on disk.
        log_end_offset: its log end offset.
        high_watermark: from the checkpoint of its broker, None if that lacks the partition.
        has_append_times: whether all its timestamps are append times.
        offset_gaps: number of offset gaps in its log, with a lost end.
        is_broken: whether its log has unreadable or damaged batches, which may be markers.
        topic_id: from ``partition.metadata``, None if unknown.
        epoch_starts: its leader epochs with their start offsets.
        earlier_start: the log start of the checkpoint, if it is before the first leader epoch.
        old_format: what its leader may have refused markers of, in message format 0 or 1; None if it has refused none.
        times: oldest and newest time of its log, None if its beginning is gone: :func:`.times_since_creation`.
        watermark: its high watermark, with the times of the files; None if they were not asked for.
        rank: its rank among the replicas of the partition.
    """

    place: Place
    paths: tuple[str, ...]
    markers: StructRows
    open_transactions: OpenTransactionArray
    coverage: TimeCoverage
    forgotten: tuple[int, ...] = ()
    kept_until: int = NO_TIME
    log_start_offset: int = 0
    visible_start_offset: int = 0
    log_end_offset: int = 0
    high_watermark: int | None = None
    has_append_times: bool = False
    offset_gaps: int = 0
    is_broken: bool = False
    topic_id: str | None = None
    epoch_starts: EpochStarts = ()
    earlier_start: EarlierStart | None = None
    old_format: OldFormat | None = None
    times: tuple[int, int] | None = None
    watermark: Watermark | None = None
    rank: ReplicaRank = NO_RANK

    def is_of_one_topic(self, other: PartitionMarkers) -> bool:
        """Return whether a replica of a partition with the same name is not known to be of another topic.

        Topics without ids may have been deleted and created again.
        """
        if self.topic_id != other.topic_id:
            return False
        if self.topic_id is not None or self.times is None or other.times is None:
            return True
        return not is_one_older((self.times, other.times))

    def tolerating(self, further_ms: int) -> PartitionMarkers:
        """Return the same, if the clocks of brokers may differ by more than was assumed when its log was read."""
        return replace(self, coverage=self.coverage.tolerating(further_ms))

    @classmethod
    def of(cls, state: PartitionState) -> PartitionMarkers:
        """Return the markers and open transactions of a partition."""
        markers = _with_written_by(_markers(state))
        starts = epoch_starts(state)
        coverage = TimeCoverage.of(state, markers, starts)
        return cls(
            place=state.partition.place,
            paths=tuple(segment.path for segment in state.partition.segments),
            markers=markers,
            open_transactions=_open_transactions(state, markers),
            coverage=coverage,
            forgotten=tuple(state.transaction_store.forgotten["first_offset"].tolist()),
            kept_until=kept_until(state, coverage.newest_marker),
            log_start_offset=state.local_log_start_offset,
            visible_start_offset=state.log_start_offset,
            log_end_offset=state.log_end_offset,
            high_watermark=state.high_watermark,
            has_append_times=state.log.has_append_times,
            offset_gaps=state.log.offset_gaps + state.log_gaps.has_lost_end,
            is_broken=state.is_broken or state.log.has_damaged_batches,
            topic_id=state.partition.topic_id,
            epoch_starts=starts,
            earlier_start=state.earlier_start,
            old_format=OldFormat.of(state, markers, coverage),
            times=times_since_creation(state),
            watermark=Watermark.of(state, starts),
            rank=ReplicaRank.of(state),
        )

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset, if the whole log is replicated."""
        blocking_transaction = self.open_transactions["first_offset"][:1].tolist()
        return max(self.log_start_offset, blocking_transaction[0]) if blocking_transaction else self.log_end_offset

    def has_passed(self, offsets: IntArray) -> BoolArray:
        """Return which transactions are not open here, by their first offsets, though their markers may be gone.

        A cleaner removes markers below the last stable offset, and retention below the high watermark: with all of
        the log, an open transaction is forgotten where a replica begins after it. Damage may hide that a transaction
        is open, and what its broker has forgotten may be open elsewhere.
        """
        passed: BoolArray = (offsets < self.last_stable_offset) & (not self.is_broken)
        return passed & ~np.isin(offsets, self.forgotten)

    @property
    def name(self) -> TopicPartition:
        """Topic and partition."""
        return self.place.topic or "", NONE if self.place.partition is None else self.place.partition

    def begins_with(self, producer_ids: IntArray, epochs: IntArray) -> BoolArray:
        """Return for which producer ids a transaction begins with the given epoch; none if the log is broken.

        A transaction that ended in the epoch of its data does not count: before version 2 many have the same epoch.
        """
        if self.is_broken:
            return np.zeros(len(epochs), bool)
        rows = self.markers
        ended = (rows["first_offset"] != NONE) & (rows["marker_epoch"] != rows["lowest_epoch"])
        first_epochs = np.concatenate(
            [
                _producer_epochs(rows["producer_id"][ended], rows["lowest_epoch"][ended]),
                _producer_epochs(self.open_transactions["producer_id"], self.open_transactions["lowest_epoch"]),
            ]
        )
        first_epochs.sort()
        wanted = _producer_epochs(producer_ids, epochs)
        begins: BoolArray = np.searchsorted(first_epochs, wanted, "right") > np.searchsorted(first_epochs, wanted)
        return begins

    def path(self, segment: int) -> str | None:
        """Return the path of a segment by its number; None for -1."""
        return self.paths[segment] if segment >= 0 else None


def _producer_epochs(producer_ids: IntArray, epochs: IntArray) -> IntArray:
    """Return one number for each producer id and epoch; producer ids start at 0."""
    numbers: IntArray = producer_ids.astype("i8") << 16 | epochs.astype("i8") & 0xFFFF
    return numbers


def _markers(state: PartitionState) -> StructRows:
    """Return all sound markers, packed if they are very many."""
    damaged, packer = damaged_markers(state), RowPacker(TRANSACTION_MARKER)
    for rows in _pages(state):
        packer.add(take_rows(rows, ~is_damaged(damaged, rows, "marker_offset")))
    return packer.rows()


def _pages(state: PartitionState) -> Iterator[TransactionMarkerArray]:
    """Yield all markers in the order of the log, page by page of the transaction store."""
    held = NO_MARKERS
    for closed, empty in marker_pages(state):
        # This page may begin with markers at the offset at which the one before ends.
        offsets = held["marker_offset"]
        end = int(np.searchsorted(offsets, offsets[-1])) if len(held) else 0
        if end:
            yield held[:end]
        held = _in_order(concat_rows([held[end:], _markers_with_data(closed), _markers_without_data(empty)]))
    yield held


def _in_order(markers: TransactionMarkerArray) -> TransactionMarkerArray:
    """Sort markers; damaged logs have several at one offset, whose order must not depend on where they come from."""
    return take_rows(markers, np.lexsort([markers[name] for name in ("position", "segment", "marker_offset")]))


def _with_written_by(markers: StructRows) -> StructRows:
    """Set when the first data of each marker had been written; returns the markers."""

    def written_by(part: StructRows) -> IntArray:
        first = part["first_offset"]
        times = _times_at(markers, search_column(markers, "marker_offset", first, "right"))
        return np.where(first == NONE, NO_TIME, times)

    return with_column(markers, "written_by", written_by)


def _times_at(markers: StructRows, indexes: IntArray, otherwise: int = NO_TIME) -> IntArray:
    """Return the times of markers; another value for the index after the last and for the one before the first."""
    times: IntArray = np.full(len(indexes), otherwise)
    exist = (indexes >= 0) & (indexes < len(markers))
    times[exist] = column_at(markers, "marker_timestamp", indexes[exist])
    return times


def _markers_with_data(transactions: TransactionArray) -> TransactionMarkerArray:
    markers = _common_fields(transactions)
    for name in ("first_offset", "last_offset", "lowest_epoch", "first_timestamp"):
        markers[name] = transactions[name]
    markers["data_epoch"] = transactions["highest_epoch"]
    for name in ("segment", "position"):
        markers[name] = transactions[f"marker_{name}"]
    return markers


def _markers_without_data(empty_markers: EmptyMarkerArray) -> TransactionMarkerArray:
    markers = _common_fields(empty_markers)
    for name in ("first_offset", "last_offset", "lowest_epoch", "data_epoch"):
        markers[name] = NONE
    markers["first_timestamp"] = NO_TIME
    for name in ("segment", "position"):
        markers[name] = empty_markers[name]
    return markers


def _common_fields(rows: StructArray) -> TransactionMarkerArray:
    markers = np.empty(len(rows), TRANSACTION_MARKER)
    markers["partition"], markers["written_by"] = NONE, NO_TIME
    for name in MARKER_FIELDS:
        markers[name] = rows[name]
    return markers


def _open_transactions(state: PartitionState, markers: StructRows) -> OpenTransactionArray:
    transactions = state.open_transactions
    rows = np.empty(len(transactions), OPEN_TRANSACTION)
    for name in TRANSACTION_FIELDS:
        rows[name] = transactions[name]
    rows["last_time"], _ = last_times(state, transactions)
    rows["idle_ms"] = elapsed_since(state, rows["last_time"])
    evidence = hanging_evidence(state, transactions)
    rows["previous_marker"] = evidence["marker_offset"]
    rows["coordinator_epoch"] = evidence["coordinator_epoch"]
    before = search_column(markers, "marker_offset", transactions["first_offset"]) - 1
    rows["appended_after"] = _times_at(markers, before)
    following = search_column(markers, "marker_offset", transactions["last_offset"])
    rows["appended_by"] = appended_by(state, transactions, _times_at(markers, following, UNKNOWN))
    rows["precedes_damage"] = precedes_damage(state, transactions)
    return rows
