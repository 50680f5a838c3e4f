"""What a join of transactions with markers shows as a whole: sums that can be added up over the producers of a cluster.

Checks use these instead of all rows, so that no process has to hold every transaction of a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE, State
from kforensics.forensics.coordinators.transactions.clock_differences import NO_DIFFERENCES, tolerated_difference_ms
from kforensics.forensics.coordinators.transactions.history import Coordinators
from kforensics.forensics.coordinators.transactions.transaction_partitions import (
    MarkerStatus,
    TransactionPartitionArray,
    group_numbers,
)
from kforensics.forensics.core.packed_rows import StructRows, column_at
from kforensics.forensics.core.record_arrays import concat_rows, take_rows
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS
from kforensics.parsers.format.array_types import IntArray, StructArray

__all__ = ["COORDINATOR_EPOCH", "OFFSETS_ONLY", "UNKNOWN_OUTCOME", "JoinTotals", "with_certain_marker"]

# Statuses for which only the number of transactions in a partition matters.
COUNTED_STATUSES = (MarkerStatus.NOT_SUPPLIED, MarkerStatus.NOT_COVERED, MarkerStatus.AMBIGUOUS)

# How many transactions have a status in a partition, and the index of the first of them.
UNKNOWN_OUTCOME = np.dtype([("marker_status", "i1"), ("partition", "i4"), ("transaction", "i8"), ("count", "i8")])
# How many committed transactions of an id have consumer offsets only, and the index of the first of them.
OFFSETS_ONLY = np.dtype([("id", "i4"), ("transaction", "i8"), ("count", "i8")])
# When a coordinator certainly used an epoch for the first time.
COORDINATOR_EPOCH = np.dtype([("coordinator", "i4"), ("epoch", "i4"), ("time", "i8")])
NO_OUTCOMES, NO_OFFSETS, NO_EPOCHS = (
    np.empty(0, dtype) for dtype in (UNKNOWN_OUTCOME, OFFSETS_ONLY, COORDINATOR_EPOCH)
)
# Transactions, and partitions that they list, which are added up at a time.
AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class JoinTotals:
    """What a join shows as a whole.

    Attributes:
        unknown_outcomes: UNKNOWN_OUTCOME records, by status and partition.
        offsets_only: OFFSETS_ONLY records, by id.
        epochs: COORDINATOR_EPOCH records.
        clock_differences: how many markers show that clocks differ, by the difference: :mod:`.clock_differences`.
    """

    unknown_outcomes: StructArray
    offsets_only: StructArray
    epochs: StructArray
    clock_differences: IntArray = field(default_factory=lambda: NO_DIFFERENCES)

    @classmethod
    def of(
        cls,
        coordinators: Coordinators,
        listed: TransactionPartitionArray,
        markers: StructRows,
        differences: IntArray,
    ) -> JoinTotals:
        """Return the totals of a join.

        Args:
            coordinators: the transactions.
            listed: their partitions with their markers.
            markers: the markers of all partitions.
            differences: how many of them show that clocks differ.
        """
        transactions = coordinators.transactions
        # A few sums of each chunk take less memory than the rows of all of them.
        chunks = [listed[start : start + AT_ONCE] for start in range(0, len(listed), AT_ONCE)]
        totals = cls.merged(
            [
                *(cls._of_listed(transactions, chunk, markers) for chunk in chunks),
                *(
                    cls.added_up(NO_OUTCOMES, _offsets_only(coordinators, start), NO_EPOCHS)
                    for start in range(0, len(transactions), AT_ONCE)
                ),
            ]
        )
        return replace(totals, clock_differences=differences)

    @classmethod
    def _of_listed(cls, transactions: StructRows, listed: TransactionPartitionArray, markers: StructRows) -> JoinTotals:
        counted = listed[np.isin(listed["marker_status"], COUNTED_STATUSES)]
        names = ("marker_status", "partition", "transaction")
        unknown = _ones(UNKNOWN_OUTCOME, {name: counted[name] for name in names})
        return cls.added_up(unknown, NO_OFFSETS, _first_epochs(transactions, listed, markers))

    @classmethod
    def merged(cls, parts: Iterable[JoinTotals]) -> JoinTotals:
        """Return the totals of several joins, with the same numbers of transactions, partitions and ids."""
        every = list(parts)
        merged = cls.added_up(
            concat_rows([NO_OUTCOMES, *(one.unknown_outcomes for one in every)]),
            concat_rows([NO_OFFSETS, *(one.offsets_only for one in every)]),
            concat_rows([NO_EPOCHS, *(one.epochs for one in every)]),
        )
        return replace(merged, clock_differences=sum((one.clock_differences for one in every), NO_DIFFERENCES))

    @classmethod
    def added_up(cls, unknown_outcomes: StructArray, offsets_only: StructArray, epochs: StructArray) -> JoinTotals:
        """Return totals of rows with any keys, in any order."""
        return cls(
            _added_up(unknown_outcomes, ("marker_status", "partition"), "transaction"),
            _added_up(offsets_only, ("id",), "transaction"),
            _added_up(epochs, ("coordinator", "epoch"), "time"),
        )

    def renumbered(self, transactions: IntArray) -> JoinTotals:
        """Return the totals with other numbers of transactions.

        Args:
            transactions: the new number of each.
        """
        unknown, offsets_only = self.unknown_outcomes.copy(), self.offsets_only.copy()
        for rows in (unknown, offsets_only):
            rows["transaction"] = transactions[rows["transaction"]]
        return replace(self, unknown_outcomes=unknown, offsets_only=offsets_only)

    def tolerated_ms(self, skew_ms: int) -> int:
        """Return by how much the clocks of brokers may differ, at least as much as is tolerated anyway."""
        return tolerated_difference_ms(self.clock_differences, skew_ms)

    @property
    def clocks_differ(self) -> bool:
        """Whether enough markers show that clocks differ by more than is tolerated anyway."""
        return self.tolerated_ms(1) > 1

    def epochs_before(self, coordinators: IntArray, times: IntArray) -> IntArray:
        """Return the highest epoch that a coordinator had certainly used before a time, -1 if none.

        Args:
            coordinators: numbers of coordinators.
            times: a time for each of them.
        """
        highest = np.full(len(times), NONE, "i8")
        for coordinator, epoch, time in self.epochs.tolist():  # sorted: the highest epoch comes last
            highest[(coordinators == coordinator) & (times > time)] = epoch
        return highest


def _ones(dtype: np.dtype[np.void], columns: dict[str, IntArray]) -> StructArray:
    rows = np.ones(len(columns["transaction"]), dtype)
    for name, column in columns.items():
        rows[name] = column
    return rows


def _added_up(rows: StructArray, keys: Sequence[str], least: str) -> StructArray:
    """Return one row for each key: the smallest value of a field, and the sum of the counts; sorted by the key."""
    order = np.lexsort([rows[name] for name in (least, *reversed(keys))])
    rows = take_rows(rows, order)
    numbers, count = group_numbers([rows[name] for name in reversed(keys)])
    first = np.searchsorted(numbers, np.arange(count))
    added_up: StructArray = take_rows(rows, first)
    if "count" in (rows.dtype.names or ()):
        added_up["count"] = np.bincount(numbers, rows["count"], count) if count else 0
    return added_up


def _offsets_only(coordinators: Coordinators, start: int) -> StructArray:
    """Return committed transactions that list partitions of ``__consumer_offsets`` and no others, from one on."""
    transactions = coordinators.transactions[start : start + AT_ONCE]
    is_committed = np.isin(transactions["status"], (State.PREPARE_COMMIT, State.COMPLETE_COMMIT))
    sets = coordinators.partition_sets
    is_only = [bool(names) and all(topic == CONSUMER_OFFSETS for topic, _ in names) for names in sets]
    # An unknown set is -1, which indexes the False at the end.
    rows = np.flatnonzero(is_committed & np.array([*is_only, False], bool)[transactions["partitions"]])
    return _ones(OFFSETS_ONLY, {"id": transactions["id"][rows], "transaction": rows + start})


def with_certain_marker(listed: TransactionPartitionArray) -> IntArray:
    """Return the indexes of listed partitions whose marker is certain."""
    return np.flatnonzero((listed["marker"] != NONE) & listed["is_exact"])


def _first_epochs(transactions: StructRows, listed: TransactionPartitionArray, markers: StructRows) -> StructArray:
    """Return when each coordinator certainly used each epoch for the first time, by its own markers.

    The leader epoch of a Prepare record is no lower limit: it rises whenever followers leave or return, and a
    coordinator that stays sends the epoch with which it was elected. An epoch above that of the Complete record was
    never its own, and shows nothing of others.
    """
    rows = listed[with_certain_marker(listed)]
    last = column_at(transactions, "complete_leader_epoch", rows["transaction"])
    used = column_at(markers, "coordinator_epoch", rows["marker"])
    rows = rows[(last != NONE) & (used <= last)]
    epochs = np.empty(len(rows), COORDINATOR_EPOCH)
    epochs["coordinator"] = column_at(transactions, "coordinator", rows["transaction"])
    epochs["epoch"] = column_at(markers, "coordinator_epoch", rows["marker"])
    epochs["time"] = column_at(markers, "marker_timestamp", rows["marker"])
    return epochs
