"""The partitions of decided transactions, from coordinator records or markers, grouped with markers by producer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain
from typing import TypeAlias

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE, State, TopicPartition
from kforensics.forensics.coordinators.transactions.history import UNKNOWN_SET, Coordinators
from kforensics.forensics.coordinators.transactions.transitions import MAX_PRODUCER_EPOCH, TV2
from kforensics.forensics.core.packed_rows import StructRows
from kforensics.forensics.core.record_arrays import concat_rows, take_rows
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
    "may_be_by_operator",
]


LARGEST_I4 = int(np.iinfo("i4").max)
# Transactions whose partitions are listed at a time.
AT_ONCE = 1 << 16


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


def key_groups(transactions: StructRows, listed: TransactionPartitionArray, markers: StructRows) -> KeyGroups:
    """Return the groups of listed partitions and markers that share a key."""
    indexes = listed["transaction"]
    columns = ((transactions[name][indexes], markers[name]) for name in ("producer_id", "marker_epoch"))
    pairs = chain(columns, [(listed["partition"], markers["partition"])])
    numbers, count = group_numbers(np.concatenate(pair) for pair in pairs)
    return KeyGroups(count, numbers[: len(listed)], numbers[len(listed) :])


def group_numbers(keys: Iterable[IntArray]) -> tuple[IntArray, int]:
    """Return a number for each row, the same for rows with equal keys, and the count of numbers.

    Args:
        keys: columns that together are the key, at least one.
    """
    length, varying = 0, list[IntArray]()
    for key in keys:
        length = len(key)
        # Of the rows of one producer many columns have one value, which need not be kept.
        if length and key.min() != key.max():
            varying.append(key)
    del key
    dtype = "i4" if length <= LARGEST_I4 else "i8"
    if not varying:
        return np.zeros(length, dtype), min(length, 1)
    order = np.lexsort(varying)
    differs = np.zeros(length, bool)
    while varying:
        in_order = varying.pop()[order]
        differs[1:] |= in_order[1:] != in_order[:-1]
    del in_order
    numbers = np.empty(length, dtype)
    numbers[order] = np.cumsum(differs, dtype=dtype)
    return numbers, int(differs.sum()) + 1


def decided_partitions(
    coordinators: Coordinators, markers: StructRows, numbers: Mapping[TopicPartition, int]
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
    rows = concat_rows([_listed_partitions(coordinators, numbers), from_markers])
    transactions, partitions = rows["transaction"], rows["partition"]
    follows = (transactions[1:] > transactions[:-1]) | (
        (transactions[1:] == transactions[:-1]) & (partitions[1:] >= partitions[:-1])
    )
    return rows if follows.all() else take_rows(rows, np.lexsort((partitions, transactions)))


def _listed_partitions(coordinators: Coordinators, numbers: Mapping[TopicPartition, int]) -> TransactionPartitionArray:
    transactions = coordinators.transactions
    decided = np.flatnonzero((transactions["marker_epoch"] != NONE) & (transactions["partitions"] != UNKNOWN_SET))
    sets = transactions["partitions"][decided]
    lengths = np.array([len(partitions) for partitions in coordinators.partition_sets], "i8")
    members = np.array([numbers[name] for partitions in coordinators.partition_sets for name in partitions], "i4")
    starts = np.cumsum(lengths) - lengths
    rows, place = _without_status(int(lengths[sets].sum())), 0
    # The indexes that follow take four times as much as the rows, so they are computed for some of them at a time.
    for start in range(0, len(decided), AT_ONCE):
        some, sets_of_some = (column[start : start + AT_ONCE] for column in (decided, sets))
        counts = lengths[sets_of_some]
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        own = rows[place : place + len(within)]
        own["transaction"] = np.repeat(some, counts)
        own["partition"] = members[np.repeat(starts[sets_of_some], counts) + within]
        place += len(within)
    return rows


def _without_status(count: int) -> TransactionPartitionArray:
    rows = np.empty(count, TRANSACTION_PARTITION)
    rows["marker_status"], rows["marker"], rows["is_exact"] = NONE, NONE, True
    return rows


def _partitions_of_markers(transactions: StructRows, markers: StructRows) -> TransactionPartitionArray:
    """Return the partitions with a marker of a transaction whose own partitions are unknown."""
    unlisted = (transactions["partitions"] == UNKNOWN_SET) & (transactions["transaction_version"] >= TV2)
    indexes = np.flatnonzero(unlisted & (transactions["marker_epoch"] != NONE))
    if not len(indexes):
        return np.empty(0, TRANSACTION_PARTITION)
    names = ("producer_id", "marker_epoch")
    groups, count = group_numbers(np.concatenate([transactions[name][indexes], markers[name]]) for name in names)
    owner = np.full(count, NONE, "i8")
    owner[groups[: len(indexes)]] = indexes
    owners = owner[groups[len(indexes) :]]
    pairs = np.unique(np.stack([owners, markers["partition"].astype("i8")], axis=1)[owners != NONE], axis=0)
    rows = _without_status(len(pairs))
    rows["transaction"], rows["partition"] = pairs[:, 0], pairs[:, 1]
    return rows


def decided_outcomes(status: IntArray) -> IntArray:
    """Return the outcomes that the states of decided transactions require, as numbers of ``TransactionOutcome``."""
    committed = np.isin(status, (State.PREPARE_COMMIT, State.COMPLETE_COMMIT))
    return np.where(committed, TransactionOutcome.COMMITTED, TransactionOutcome.ABORTED).astype("i1")


def has_unique_key(coordinators: Coordinators) -> BoolArray:
    """Return which transactions are the only ones with their producer id and epoch, missing records included."""
    transactions = coordinators.transactions
    numbers, count = group_numbers(transactions[name] for name in ("producer_id", "marker_epoch"))
    unique: BoolArray = np.bincount(numbers, minlength=count)[numbers] == 1
    history_complete = coordinators.ids["history_complete"][transactions["id"]] if len(transactions) else unique
    return unique & (history_complete | (transactions["transaction_version"] >= TV2))


def is_by_operator(markers: StructRows) -> BoolArray:
    """Return which markers an operator may have written: an ABORT with the epoch of its data.

    Rule: ``Admin.abortTransaction`` sends the current epoch of the producer in the partition. In version 2 a
    coordinator sends the next epoch, unless there is none.
    """
    return may_be_by_operator(markers["marker_epoch"], markers["data_epoch"], markers["outcome"])


def may_be_by_operator(marker_epochs: IntArray, data_epochs: IntArray, outcomes: IntArray) -> BoolArray:
    """Return the same of the columns of markers.

    Args:
        marker_epochs: epochs of the markers.
        data_epochs: highest epochs of the data that they ended.
        outcomes: their outcomes, as numbers of ``TransactionOutcome``.
    """
    same_epoch = (data_epochs == marker_epochs) & (data_epochs != MAX_PRODUCER_EPOCH)
    by_operator: BoolArray = same_epoch & (outcomes == TransactionOutcome.ABORTED)
    return by_operator
