"""The offsets that groups committed in one partition of ``__consumer_offsets``, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from kforensics.forensics.coordinators.coordinator_records import RecordPosition
from kforensics.forensics.coordinators.record_issues import CommitIssue, CommitIssueKind
from kforensics.parsers.log.log_rows import Place

__all__ = ["OFFSET_COMMITS", "Commit", "Commits", "GroupPartition"]

# The types of the records that contain a committed offset.
OFFSET_COMMITS = (0, 1)

# Group, topic and partition.
GroupPartition: TypeAlias = tuple[str, str, int]


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
        metadata: the client's metadata.
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
    metadata: str
    topic_id: str | None


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
        log_end_offset: log end offset of the partition.
        is_whole: whether the whole log can be read.
    """

    place: Place
    paths: tuple[str, ...]
    last: Mapping[GroupPartition, Commit]
    groups: Mapping[str, RecordPosition]
    pending: Mapping[int, tuple[str, ...]]
    waiting: frozenset[GroupPartition] = frozenset()
    issues: tuple[CommitIssue, ...] = ()
    issue_counts: Mapping[CommitIssueKind, int] = field(default_factory=dict)
    log_end_offset: int = 0
    is_whole: bool = True
