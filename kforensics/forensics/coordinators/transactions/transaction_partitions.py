"""The partitions of decided transactions, from coordinator records or markers, grouped with markers by producer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE, State, TopicPartition
from kforensics.forensics.coordinators.partition_markers import TransactionMarkerArray
from kforensics.forensics.coordinators.transactions.history import (
    UNKNOWN_SET,
    Coordinators,
    CoordinatorTransactionArray,
)
from kforensics.forensics.coordinators.transactions.transitions import MAX_PRODUCER_EPOCH, TV2
from kforensics.forensics.core.record_types import TransactionOutcome
from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray

__all__ = [
    "TRANSACTION_PARTITION",
    "KeyGroups",
    "MarkerStatus",
    "TransactionPartitionArray",
    "decided_outcomes",
    "decided_partitions",
    "group_numbers",
    "has_unique_key",
    "is_by_operator",
    "key_groups",
]


class MarkerStatus(IntEnum):
    """Whether a partition has the marker of a transaction that lists it.

    MATCHED: it has the marker, which ended data. EMPTY: the marker ended no data. PENDING: none yet, markers are being
    sent. UNSENT: none, and the decision was superseded. MISSING: none. SPLIT: the marker has the other outcome.
    AMBIGUOUS: several transactions of one epoch cannot be distinguished. NOT_COVERED: the marker may be outside the
    available log. NOT_SUPPLIED: no replica of the partition is among the files.
    """

    MATCHED = 0
    EMPTY = 1
    PENDING = 2
    UNSENT = 3
    MISSING = 4
    SPLIT = 5
    AMBIGUOUS = 6
    NOT_COVERED = 7
    NOT_SUPPLIED = 8


# A partition that a transaction lists.
TRANSACTION_PARTITION = np.dtype(
    [
        ("transaction", "i8"),  # index of the transaction
        ("partition", "i4"),  # number of the partition
        ("marker_status", "i1"),
        ("marker", "i8"),  # index of its marker, -1 if there is none
        ("is_exact", "?"),
    ]
)
TransactionPartitionArray: TypeAlias = StructArray


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """Groups of listed partitions and markers with the same producer id, producer epoch and partition.

    Attributes:
        count: number of groups.
        of_partitions: group of each TRANSACTION_PARTITION record.
        of_markers: group of each marker.
    """

    count: int
    of_partitions: IntArray
    of_markers: IntArray


def key_groups(
    transactions: CoordinatorTransactionArray, listed: TransactionPartitionArray, markers: TransactionMarkerArray
) -> KeyGroups:
    """Return the groups of listed partitions and markers that share a key."""
    indexes = listed["transaction"]
    keys = [
        np.concatenate([transactions["producer_id"][indexes], markers["producer_id"]]),
        np.concatenate([transactions["marker_epoch"][indexes], markers["marker_epoch"]]),
        np.concatenate([listed["partition"], markers["partition"]]),
    ]
    numbers, count = group_numbers(keys)
    return KeyGroups(count, numbers[: len(listed)], numbers[len(listed) :])


def group_numbers(keys: list[IntArray]) -> tuple[IntArray, int]:
    """Return a number for each row, the same for rows with equal keys, and the count of numbers.

    Args:
        keys: columns that together are the key.
    """
    order = np.lexsort(keys)
    if not len(order):
        return order, 0
    differs = np.zeros(len(order), bool)
    for key in keys:
        differs[1:] |= np.diff(key[order]) != 0
    numbers = np.empty(len(order), "i8")
    numbers[order] = np.cumsum(differs)
    return numbers, int(differs.sum()) + 1


def decided_partitions(
    coordinators: Coordinators, markers: TransactionMarkerArray, numbers: Mapping[TopicPartition, int]
) -> TransactionPartitionArray:
    """Return the partitions of all transactions whose outcome is decided, without their marker status yet.

    If compaction left only the Complete record of a transaction, its partitions are unknown. With version 2 of the
    protocol the epoch identifies its markers, and so the partitions that have one.

    Args:
        coordinators: the transactions.
        markers: the markers of all partitions.
        numbers: numbers of partitions.
    """
    from_markers = _partitions_of_markers(coordinators.transactions, markers)
    rows = np.concatenate([_listed_partitions(coordinators, numbers), from_markers])
    return rows[np.lexsort((rows["partition"], rows["transaction"]))]


def _listed_partitions(coordinators: Coordinators, numbers: Mapping[TopicPartition, int]) -> TransactionPartitionArray:
    transactions = coordinators.transactions
    decided = np.flatnonzero((transactions["marker_epoch"] != NONE) & (transactions["partitions"] != UNKNOWN_SET))
    sets = transactions["partitions"][decided]
    lengths = np.array([len(partitions) for partitions in coordinators.partition_sets], "i8")
    members = np.array([numbers[name] for partitions in coordinators.partition_sets for name in partitions], "i4")
    starts = np.cumsum(lengths) - lengths
    counts = lengths[sets] if len(sets) else np.zeros(0, "i8")
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return _without_status(
        np.repeat(decided, counts), members[np.repeat(starts[sets], counts) + within] if len(within) else within
    )


def _without_status(transactions: IntArray, partitions: IntArray) -> TransactionPartitionArray:
    rows = np.empty(len(transactions), TRANSACTION_PARTITION)
    rows["transaction"], rows["partition"] = transactions, partitions
    rows["marker_status"], rows["marker"], rows["is_exact"] = NONE, NONE, True
    return rows


def _partitions_of_markers(
    transactions: CoordinatorTransactionArray, markers: TransactionMarkerArray
) -> TransactionPartitionArray:
    """Return the partitions with a marker of a transaction whose own partitions are unknown."""
    unlisted = (transactions["partitions"] == UNKNOWN_SET) & (transactions["transaction_version"] >= TV2)
    indexes = np.flatnonzero(unlisted & (transactions["marker_epoch"] != NONE))
    keys = [np.concatenate([transactions[name][indexes], markers[name]]) for name in ("producer_id", "marker_epoch")]
    groups, count = group_numbers(keys)
    owner = np.full(count, NONE, "i8")
    owner[groups[: len(indexes)]] = indexes
    owners = owner[groups[len(indexes) :]]
    pairs = np.unique(np.stack([owners, markers["partition"].astype("i8")], axis=1)[owners != NONE], axis=0)
    return _without_status(pairs[:, 0], pairs[:, 1])


def decided_outcomes(status: IntArray) -> IntArray:
    """Return the outcomes that the states of decided transactions require, as numbers of ``TransactionOutcome``."""
    committed = np.isin(status, (State.PREPARE_COMMIT, State.COMPLETE_COMMIT))
    return np.where(committed, TransactionOutcome.COMMITTED, TransactionOutcome.ABORTED).astype("i1")


def has_unique_key(coordinators: Coordinators) -> BoolArray:
    """Return which transactions are the only ones with their producer id and epoch, missing records included."""
    transactions = coordinators.transactions
    numbers, count = group_numbers([transactions["producer_id"], transactions["marker_epoch"]])
    unique: BoolArray = np.bincount(numbers, minlength=count)[numbers] == 1
    history_complete = coordinators.ids["history_complete"][transactions["id"]] if len(transactions) else unique
    return unique & (history_complete | (transactions["transaction_version"] >= TV2))


def is_by_operator(markers: TransactionMarkerArray) -> BoolArray:
    """Return which markers an operator may have written: an ABORT with the epoch of its data.

    Rule: ``Admin.abortTransaction`` sends the current epoch of the producer in the partition. In version 2 a
    coordinator sends the next epoch, unless there is none.
    """
    same_epoch = (markers["data_epoch"] == markers["marker_epoch"]) & (markers["data_epoch"] != MAX_PRODUCER_EPOCH)
    by_operator: BoolArray = same_epoch & (markers["outcome"] == TransactionOutcome.ABORTED)
    return by_operator
