"""The partitions that transactions list, one by one, and which markers have the key of a transaction's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE, State, TopicPartition
from kforensics.forensics.coordinators.transactions.histories import Coordinators
from kforensics.forensics.coordinators.transactions.transaction import UNKNOWN_SET
from kforensics.forensics.coordinators.transactions.transitions import LAST_EPOCH, TV2
from kforensics.forensics.core.record_types import Ending, Records

__all__ = [
    "PART",
    "Groups",
    "Verdict",
    "endings_of",
    "groups_of",
    "is_by_operator",
    "is_only_one",
    "numbered",
    "parts_of",
]


class Verdict(IntEnum):
    """What a partition says of a transaction that lists it."""

    GOOD = 0
    EMPTY = 1
    PENDING = 2
    UNSENT = 3
    MISSING = 4
    SPLIT = 5
    UNCLEAR = 6
    UNCOVERED = 7
    UNSUPPLIED = 8


# A partition that a transaction lists.
PART = np.dtype(
    [
        ("instance", "i8"),  # index of the transaction
        ("partition", "i4"),  # number of the partition
        ("verdict", "i1"),
        ("mark", "i8"),  # index of its marker, -1 if there is none
        ("is_exact", "?"),
    ]
)


@dataclass(frozen=True, slots=True)
class Groups:
    """Parts and markers of the same producer id, epoch and partition, by number.

    Attributes:
        count: how many there are.
        of_parts: for each part its group.
        of_marks: for each marker its group.
    """

    count: int
    of_parts: Records
    of_marks: Records


def groups_of(instances: Records, parts: Records, marks: Records) -> Groups:
    """Return which parts and markers go together."""
    mine = parts["instance"]
    keys = [
        np.concatenate([instances["producer_id"][mine], marks["producer_id"]]),
        np.concatenate([instances["marker_epoch"][mine], marks["marker_epoch"]]),
        np.concatenate([parts["partition"], marks["partition"]]),
    ]
    numbers, count = numbered(keys)
    return Groups(count, numbers[: len(parts)], numbers[len(parts) :])


def numbered(keys: list[Records]) -> tuple[Records, int]:
    """Return a number for each row, the same for rows with the same keys, and how many numbers there are.

    Args:
        keys: columns.
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


def parts_of(coordinators: Coordinators, marks: Records, numbers: Mapping[TopicPartition, int]) -> Records:
    """Return the PART records of all transactions whose end was decided, their verdicts still open.

    Of a transaction of which the cleaner left only the Complete record nobody knows the partitions; with version 2 of
    the protocol its markers are known by their epoch, and so are partitions that have one.

    Args:
        coordinators: what is known of transactions.
        marks: MARK records.
        numbers: of partitions.
    """
    listed, lone = _listed(coordinators, numbers), _lone(coordinators.instances, marks)
    found = np.concatenate([listed, lone])
    return found[np.lexsort((found["partition"], found["instance"]))]


def _listed(coordinators: Coordinators, numbers: Mapping[TopicPartition, int]) -> Records:
    instances = coordinators.instances
    decided = np.flatnonzero((instances["marker_epoch"] != NONE) & (instances["partitions"] != UNKNOWN_SET))
    sets = instances["partitions"][decided]
    lengths = np.array([len(one) for one in coordinators.sets], "i8")
    members = np.array([numbers[name] for one in coordinators.sets for name in one], "i4")
    starts = np.cumsum(lengths) - lengths
    counts = lengths[sets] if len(sets) else np.zeros(0, "i8")
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return _open(
        np.repeat(decided, counts), members[np.repeat(starts[sets], counts) + within] if len(within) else within
    )


def _open(instances: Any, partitions: Any) -> Records:
    found = np.empty(len(instances), PART)
    found["instance"], found["partition"] = instances, partitions
    found["verdict"], found["mark"], found["is_exact"] = NONE, NONE, True
    return found


def _lone(instances: Records, marks: Records) -> Records:
    lone = (instances["partitions"] == UNKNOWN_SET) & (instances["transaction_version"] >= TV2)
    which = np.flatnonzero(lone & (instances["marker_epoch"] != NONE))
    keys = [np.concatenate([instances[name][which], marks[other]]) for name, other in _KEY.items()]
    group, count = numbered(keys)
    owner = np.full(count, NONE, "i8")
    owner[group[: len(which)]] = which
    owners = owner[group[len(which) :]]
    pairs = np.unique(np.stack([owners, marks["partition"].astype("i8")], axis=1)[owners != NONE], axis=0)
    return _open(pairs[:, 0], pairs[:, 1])


_KEY = {"producer_id": "producer_id", "marker_epoch": "marker_epoch"}


def endings_of(status: Records) -> Records:
    """Return for the states of decided transactions how markers must end them, as numbers of ``Ending``."""
    committed = np.isin(status, (State.PREPARE_COMMIT, State.COMPLETE_COMMIT))
    return np.where(committed, Ending.COMMITTED, Ending.ABORTED).astype("i1")


def is_only_one(coordinators: Coordinators) -> Records:
    """Return which transactions are the only ones with their producer id and epoch, even among those not on hand."""
    instances = coordinators.instances
    keys = [instances["producer_id"], instances["marker_epoch"]]
    numbers, count = numbered(keys)
    only: Records = np.bincount(numbers, minlength=count)[numbers] == 1
    told = coordinators.ids["is_told"][instances["id"]] if len(instances) else only
    return only & (told | (instances["transaction_version"] >= TV2))


def is_by_operator(marks: Records) -> Records:
    """Return which markers an operator may have written: an ABORT with the epoch of its data.

    Rule: ``Admin.abortTransaction`` sends the current epoch of the producer in the partition. In version 2 a
    coordinator sends the next one, unless there is none.
    """
    ended = (marks["data_epoch"] == marks["marker_epoch"]) & (marks["data_epoch"] != LAST_EPOCH)
    operators: Records = ended & (marks["ending"] == Ending.ABORTED)
    return operators
