"""The offsets that groups committed in one partition of ``__consumer_offsets``, as values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import RecordPosition
from kforensics.forensics.coordinators.record_issues import CommitIssue, CommitIssueKind
from kforensics.forensics.core.record_arrays import take_rows
from kforensics.forensics.partition.lost_end import MissingEnd
from kforensics.forensics.partition.replica_ranks import NO_RANK, ReplicaRank
from kforensics.parsers.format.array_types import IntArray, StructArray
from kforensics.parsers.format.byte_slices import ByteSlices, arrow_binary
from kforensics.parsers.log.log_rows import Place
from kforensics.parsers.messages.message_columns import texts_of

if TYPE_CHECKING:
    from kforensics.forensics.coordinators.consumer_groups.commit_tables import CommitsInForce
    from kforensics.forensics.coordinators.consumer_groups.group_states import GroupState

__all__ = [
    "GROUP_KEY",
    "OFFSET_COMMITS",
    "RECORD_POSITION",
    "Commit",
    "Commits",
    "FirstRecords",
    "GroupKeys",
    "GroupPartition",
    "OffsetReset",
    "is_of_another_topic",
]

# The types of the records that contain a committed offset.
OFFSET_COMMITS = (0, 1)

# Group, topic and partition.
GroupPartition: TypeAlias = tuple[str, str, int]
GROUP_KEY = np.dtype(
    [
        ("group", "i4"),  # number of the group
        ("topic", "i4"),  # number of the topic
        ("partition", "i4"),
    ]
)
PARTITION_BITS, PARTITION_MASK = 32, 0xFFFFFFFF
RECORD_POSITION = np.dtype([("segment", "i4"), ("position", "i8"), ("offset", "i8")])  # as ``RecordPosition``


class Commit(NamedTuple):
    """A committed offset; a tuple, because there may be many.

    Attributes:
        segment: number of the segment of its record.
        position: position of the record's batch.
        offset: offset of the record.
        producer_id: producer id of the transaction, -1 if it was committed without one.
        producer_epoch: producer epoch of the transaction, -1 if it was committed without one.
        time: timestamp of the record, or of the marker if it took effect later; NO_TIME if unknown.
        committed: the committed offset.
        leader_epoch: the committed leader epoch, -1 if none.
        metadata: the client's metadata, None for a removal.
        topic_id: topic id, None if it was not written, as up to 4.0.
    """

    segment: int
    position: int
    offset: int
    producer_id: int
    producer_epoch: int
    time: int
    committed: int
    leader_epoch: int
    metadata: str | None
    topic_id: str | None


class OffsetReset(NamedTuple):
    """A commit of a lower offset than the one in force, or of another topic id, or after the one in force was removed.

    Attributes:
        key: group, topic and partition.
        commit: the commit.
        before: the commit that was in force before, None if no record has it.
        removal: the record that removed that commit, None if it was not removed; ``committed`` is the time at which the
            group had become empty before, NO_TIME if no record shows it, and ``leader_epoch`` 1 if the same batch
            removed the group.
        group: the state of the group when the commit took effect, None if no record shows it.
    """

    key: GroupPartition
    commit: Commit
    before: Commit | None
    removal: Commit | None
    group: GroupState | None

    @property
    def outlived_topic(self) -> bool:
        """Whether the offset of a deleted topic was in force for the one that was created again, and did not go back.

        A group that starts from it skips what the new topic has before it. Its coordinator removes the offset when the
        topic is deleted, unless it is not running then: ``GroupCoordinatorService.onPartitionsDeleted``.
        """
        before = self.before
        if before is None or self.removal is not None:
            return False
        return is_of_another_topic(before, self.commit.topic_id) and 0 < before.committed <= self.commit.committed


def is_of_another_topic(commit: Commit, topic_id: str | None) -> bool:
    """Return whether a commit is known to be of another topic with the same name.

    Args:
        commit: the commit.
        topic_id: topic id of a partition or of another commit, None if it is unknown.
    """
    return None not in {commit.topic_id, topic_id} and commit.topic_id != topic_id


@dataclass(frozen=True, slots=True)
class GroupKeys:
    """Groups, topics and partitions as columns.

    Attributes:
        groups: names of groups by number, in UTF-8.
        topics: names of topics by number, in UTF-8.
        rows: GROUP_KEY records.
    """

    groups: ByteSlices
    topics: ByteSlices
    rows: StructArray

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[GroupPartition]:
        (groups, group_names), (topics, topic_names) = self.named("group"), self.named("topic")
        columns = (codes.tolist() for codes in (groups, topics, self.rows["partition"]))
        for group, topic, partition in zip(*columns, strict=True):
            yield group_names[group], topic_names[topic], partition

    def named(self, column: str) -> tuple[IntArray, list[str]]:
        """Return the column ``group`` or ``topic`` dictionary-encoded: the codes of the rows, and the names."""
        numbers, codes = np.unique(self.rows[column], return_inverse=True)
        return codes, texts_of((self.groups if column == "group" else self.topics).take(numbers))

    def take(self, indexes: IntArray) -> GroupKeys:
        """Return some of the rows, by index."""
        return GroupKeys(self.groups, self.topics, take_rows(self.rows, indexes))

    def partitions(self) -> tuple[list[tuple[str, int]], IntArray]:
        """Return the distinct topics with partitions, and the index of each row's in them."""
        partitions = self.rows["partition"].astype("i8") & PARTITION_MASK
        numbers = self.rows["topic"].astype("i8") << PARTITION_BITS | partitions
        _, first, codes = np.unique(numbers, return_index=True, return_inverse=True)
        return [(topic, partition) for _, topic, partition in self.take(first)], codes

    def sorted_indexes(self) -> IntArray:
        """Return the indexes of the rows by group, topic and partition."""
        ranks = [_ranks(texts)[self.rows[name]] for name, texts in (("topic", self.topics), ("group", self.groups))]
        return np.lexsort((self.rows["partition"], *ranks))


def _ranks(texts: ByteSlices) -> IntArray:
    """Return the rank of each text; by bytes, UTF-8 has the order of Python's texts."""
    import pyarrow.compute as pc  # small logs do not need it

    ranks = np.empty(len(texts), "i4")
    ranks[np.asarray(pc.sort_indices(arrow_binary(texts)))] = np.arange(len(texts))
    return ranks


class FirstRecords(Mapping[str, RecordPosition]):
    """The position of the first available record of each group.

    Args:
        names: names of groups, in UTF-8.
        rows: RECORD_POSITION records.
    """

    def __init__(self, names: ByteSlices, rows: StructArray) -> None:
        self.names, self._rows = names, rows

    def __getitem__(self, name: str) -> RecordPosition:
        return self.position(self._by_name[name])

    @cached_property
    def _by_name(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self)}

    def __iter__(self) -> Iterator[str]:
        return iter(texts_of(self.names))

    def __len__(self) -> int:
        return len(self._rows)

    def position(self, number: int) -> RecordPosition:
        """Return the position of a group by its number."""
        return RecordPosition(*self._rows[number].item())


@dataclass(frozen=True, slots=True)
class Commits:
    """The committed offsets in a partition of ``__consumer_offsets``.

    Attributes:
        place: the partition.
        paths: paths of its segments.
        last: the commit in force, by group, topic and partition.
        groups: the position of the first available record of each group.
        pending: groups that wait for the end of a transaction, by its producer id.
        waiting: the groups' partitions with a pending commit, for which a broker returns no stable offset.
        issues: issues with commits, at most MOST of each kind.
        issue_counts: number of issues of each kind.
        resets: commits of lower offsets and commits after a removal, at most MOST.
        reset_count: number of them all.
        states: the last state of each group with records of its own.
        without_offsets: groups whose commits were all removed or aborted, but which their coordinator still has.
        log_end_offset: log end offset of the partition.
        is_whole: whether the whole log can be read.
        lagging_since: since when its leader may have later offsets, in ms, NO_TIME if it may always have; None if it
            was in sync at last, or nothing is known.
        left_by_shutdown: whether that is when its broker was shut down, so that it has all that was there before.
        missing_end: what shows that it lacks records after its end; None if nothing does.
        rank: its rank among the replicas of the partition.
    """

    place: Place
    paths: tuple[str, ...]
    last: CommitsInForce
    groups: FirstRecords
    pending: Mapping[int, tuple[str, ...]]
    waiting: frozenset[GroupPartition] = frozenset()
    issues: tuple[CommitIssue, ...] = ()
    issue_counts: Mapping[CommitIssueKind, int] = field(default_factory=dict)
    resets: tuple[OffsetReset, ...] = ()
    reset_count: int = 0
    states: Mapping[str, GroupState] = field(default_factory=dict)
    without_offsets: frozenset[str] = frozenset()
    log_end_offset: int = 0
    is_whole: bool = True
    lagging_since: int | None = None
    left_by_shutdown: bool = False
    missing_end: MissingEnd | None = None
    rank: ReplicaRank = NO_RANK

    @property
    def may_lack_later(self) -> bool:
        """Whether later offsets than those in force may be missing, from a replica out of sync or a missing end."""
        return self.lagging_since is not None or self.missing_end is not None

    def has_created(self, group: str) -> bool:
        """Return whether commits created a group that its coordinator still has, if it has no records of its own."""
        with_offsets = {*self.last.keys_by_row.named("group")[1], *(name for name, _, _ in self.waiting)}
        return group in with_offsets or group in self.without_offsets
