"""Data whose marker its leader refused, because the topic had been set to message format 0 or 1.

In these formats a leader appends no marker. A coordinator takes the refusal for done and completes the transaction, so
its data stays open, until a broker up to 3.2 loads the log: it forgets all producers, and all consumers receive the
data. Rule: ``KafkaApis.handleWriteTxnMarkersRequest`` (UNSUPPORTED_FOR_MESSAGE_FORMAT),
``TransactionMarkerRequestCompletionHandler`` up to 3.9, and ``UnifiedLog.rebuildProducerState``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NEVER, NONE
from kforensics.forensics.core.packed_rows import StructRows, search_column
from kforensics.forensics.core.record_arrays import take_rows
from kforensics.forensics.core.record_types import NO_TIME, TransactionOutcome
from kforensics.forensics.partition.kept_times import kept_until
from kforensics.forensics.partition.log_summary import LogSummary, goes_back
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.format.array_types import BoolArray, Column, IntArray, StructArray

if TYPE_CHECKING:
    from kforensics.forensics.coordinators.time_coverage import TimeCoverage

__all__ = ["RAISE_FORMAT", "OldFormat", "are_refused", "may_have_refused"]

RAISE_FORMAT = (
    "First set message.format.version of the topic to 0.11.0 or later again: with an older one its leader refuses "
    "every marker, also that of an abort. "
)
END_FIELDS = ("producer_id", "data_epoch", "marker_epoch", "decided", "completed")
UNENDED_DATA = np.dtype(
    [
        ("producer_id", "i8"),
        ("lowest_epoch", "i2"),
        ("first_offset", "i8"),
        ("last_offset", "i8"),
        ("first_timestamp", "i8"),
        ("appended_after", "i8"),  # time of the last marker, of any producer, before it; NO_TIME if there is none
        ("is_forgotten", "?"),  # by a broker that loaded the log
    ]
)


class OldFormat(NamedTuple):
    """What a partition has without markers from before its topic was set to message format 0 or 1.

    Attributes:
        data: UNENDED_DATA records: data without a marker that batches of an old format follow, where no marker can have
            been lost or cleaned.
        reaches: time until which the log surely has what was appended; NEVER if its broker was stopped, NO_TIME if
            nothing shows it.
    """

    data: StructArray
    reaches: int

    @classmethod
    def of(cls, state: PartitionState, markers: StructRows, coverage: TimeCoverage) -> OldFormat | None:
        """Return the same of a partition, None if no batch of an old format can follow a transaction.

        Args:
            state: the partition.
            markers: its markers.
            coverage: which time its log covers.
        """
        return cls(_unended(state, markers), _reaches(state, coverage)) if may_have_refused(state.log) else None

    def refused(self, ends: dict[str, Column], skew_ms: int) -> BoolArray:
        """Return for which transactions without a marker it was surely refused.

        Of several transactions of one epoch it is the first that was decided after the data was written.

        Args:
            ends: the columns END_FIELDS of the transactions.
            skew_ms: maximum difference between the clocks of brokers.
        """
        refused = np.zeros(len(ends["decided"]), bool)
        epochs = np.where(ends["data_epoch"] == NONE, ends["marker_epoch"], ends["data_epoch"])
        for row in self.data:
            may_be = (ends["producer_id"] == row["producer_id"]) & (epochs >= row["lowest_epoch"])
            written = max(int(row["appended_after"]), int(row["first_timestamp"]), 0)
            indexes = np.flatnonzero(may_be & (ends["decided"] >= written - skew_ms) & (ends["completed"] != NO_TIME))
            if len(indexes):
                first = indexes[ends["decided"][indexes].argmin()]
                # Not the sum, which overflows if it is NEVER.
                refused[first] = ends["completed"][first] < self.reaches - skew_ms
        return refused

    def data_of(self, producer_id: int, epoch: int) -> StructArray:
        """Return the data of a producer in an epoch, as at most one UNENDED_DATA record."""
        rows = self.data
        return take_rows(rows, (rows["producer_id"] == producer_id) & (rows["lowest_epoch"] <= epoch))[:1]

    def are_data(self, first_offsets: IntArray) -> BoolArray:
        """Return which transactions, by first offset, are still open."""
        is_open: BoolArray = np.isin(first_offsets, self.data["first_offset"][~self.data["is_forgotten"]])
        return is_open


def are_refused(
    old_formats: Mapping[int, OldFormat | None],
    partitions: IntArray,
    candidates: BoolArray,
    column: Callable[[str, IntArray], Column],
    skew_ms: int,
) -> BoolArray:
    """Return for which listed partitions their leader surely refused the marker, with data that stays without one.

    Args:
        old_formats: what leaders may have refused markers of, by number of the partition.
        partitions: number of each listed partition.
        candidates: which of them have no marker of a complete transaction.
        column: returns a field of the transactions of some listed partitions.
        skew_ms: maximum difference between the clocks of brokers.
    """
    refused = np.zeros(len(candidates), bool)
    for number, old_format in old_formats.items():
        if old_format is not None:
            rows = np.flatnonzero(candidates & (partitions == number))
            refused[rows] = old_format.refused({name: column(name, rows) for name in END_FIELDS}, skew_ms)
    return refused


def may_have_refused(log: LogSummary) -> bool:
    """Return whether a log shows that its leader may have refused markers: it ends or goes on in an old format."""
    return log.ends_in_old_format or goes_back(log)


def _reaches(state: PartitionState, coverage: TimeCoverage) -> int:
    """Return the time until which a log surely has what was appended: when its last segment was written to.

    That of a replica out of sync shows nothing of its leader, and the time at which a file was copied nothing at all.
    """
    if coverage.lag is not None or not state.partition.segments:
        return NO_TIME
    if coverage.copied_at == NEVER:
        return NEVER
    written, is_kept = state.partition.segments[-1].mtime_ms, kept_until(state, coverage.newest_marker) != NO_TIME
    return NO_TIME if written is None or not is_kept else min(written, state.rules.as_of_ms)


def _unended(state: PartitionState, markers: StructRows) -> StructArray:
    log, transactions = state.log, state.transaction_store.unended
    rows = np.empty(len(transactions), UNENDED_DATA)
    for name in ("producer_id", "lowest_epoch", "first_offset", "last_offset", "first_timestamp"):
        rows[name] = transactions[name]
    before = search_column(markers, "marker_offset", transactions["first_offset"]) - 1
    rows["appended_after"] = [NO_TIME if n == NONE else int(markers[n]["marker_timestamp"]) for n in before.tolist()]
    rows["is_forgotten"] = transactions["outcome"] == TransactionOutcome.FORGOTTEN
    runs_after = log.epochs["first_offset"][log.epochs["after_old_format"]]
    is_whole = not (state.is_broken or log.has_damaged_batches or log.offset_gaps or state.log_gaps.has_lost_end)
    is_followed = log.ends_in_old_format | (rows["last_offset"] < runs_after.max(initial=NONE))
    return take_rows(rows, is_whole & is_followed & (rows["first_offset"] >= state.first_uncompacted_offset))
