"""The elections of leaders that a cluster's metadata tells of, and which of them were unclean.

Rule: ``PartitionRegistration.merge`` and, since metadata version 3.2, ``LeaderRecoveryState``: a leader that was not in
sync is recorded as recovering in the very record that elects it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kforensics.forensics.metadata.metadata_records import metadata_records
from kforensics.forensics.partition.partition_files import Partition

__all__ = ["Election", "elections_in"]

RECOVERING = 1
NO_LEADER, UNCHANGED = -1, -2
WANTED = ("PartitionRecord", "PartitionChangeRecord")

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Election:
    """An election of a leader.

    Attributes:
        leader_epoch: the epoch it began.
        leader: the broker elected.
        timestamp: when the controller wrote it, in ms.
        in_sync: replicas in sync before it.
        is_unclean: whether the leader was not in sync.
    """

    leader_epoch: int
    leader: int
    timestamp: int
    in_sync: tuple[int, ...]
    is_unclean: bool


@dataclass(frozen=True, slots=True)
class _Registration:
    """What the metadata says of a partition so far.

    Attributes:
        leader_epoch: epoch of the leader.
        in_sync: replicas in sync.
    """

    leader_epoch: int
    in_sync: tuple[int, ...]


def elections_in(partitions: Iterable[Partition]) -> dict[Key, tuple[Election, ...]]:
    """Return the elections by topic id and partition, in their order; empty where no metadata is among the partitions.

    Args:
        partitions: of any topics. Of several copies of the metadata the longest one is read.

    Raises:
        InputError: the metadata cannot be read.
    """
    found: dict[Key, list[Election]] = {}
    known: dict[Key, _Registration] = {}
    for timestamp, kind, value in metadata_records(partitions, WANTED):
        key = value["topicId"], value["partitionId"]
        before = known.get(key)
        if kind == "PartitionRecord":
            known[key] = _Registration(value["leaderEpoch"], tuple(value["isr"]))
        elif before is not None:
            known[key] = _merged(before, value)
            if value["leader"] not in {NO_LEADER, UNCHANGED} and timestamp is not None:
                found.setdefault(key, []).append(_election(known[key], before, timestamp, value))
    return {key: tuple(elections) for key, elections in found.items()}


def _merged(before: _Registration, value: Mapping[str, Any]) -> _Registration:
    """Return what is known after a change; any leader in it, the same one too, begins an epoch."""
    after = before if value["leader"] == UNCHANGED else replace(before, leader_epoch=before.leader_epoch + 1)
    return after if value["isr"] is None else replace(after, in_sync=tuple(value["isr"]))


def _election(after: _Registration, before: _Registration, timestamp: int, value: Mapping[str, Any]) -> Election:
    is_unclean = value.get("leaderRecoveryState") == RECOVERING
    return Election(after.leader_epoch, value["leader"], timestamp, before.in_sync, is_unclean)
