"""What partitions of ``__consumer_offsets`` say of groups, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from kforensics.forensics.coordinators.coordinator_records import NONE
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.format.uuid_text import ZERO
from kforensics.parsers.log.log_rows import Place
from kforensics.parsers.messages.internal_records import DecodedMessage

__all__ = ["OFFSET_COMMITS", "Commit", "CommitRecord", "CommitRemark", "Commits", "GroupPartition", "Seat", "Spoken"]

# Numbers of the two record types that hold a committed offset.
OFFSET_COMMITS = (0, 1)

GroupPartition: TypeAlias = tuple[str, str, int]


class Commit(NamedTuple):
    """A committed offset; a tuple, for there may be many.

    Attributes:
        segment: number of the segment of its record.
        position: of the record's batch.
        offset: of the record.
        producer_id: of the transaction, -1 if it was committed without one.
        producer_epoch: of that.
        time: of the record, or, where it took effect later, of the marker; NO_TIME if nothing tells.
        committed: the offset.
        leader_epoch: -1 if none was committed.
        metadata: what the client wrote beside it.
        topic_id: of the topic, None if it was not written, as up to 4.0.
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


class CommitRecord(NamedTuple):
    """A record that holds a committed offset, or removes one.

    Attributes:
        segment: number of the segment.
        batch: its batch.
        record: the record.
        found: what it says.
    """

    segment: int
    batch: Batch
    record: Record
    found: DecodedMessage

    @property
    def key(self) -> GroupPartition:
        """Group, topic and partition."""
        key = self.found.key or {}
        return key["group"], key["topic"], key["partition"]

    @property
    def topic_id(self) -> str | None:
        """Topic id, None if it was not written."""
        topic_id = (self.found.value or {}).get("topicId", ZERO)
        return None if topic_id == ZERO else str(topic_id)

    def commit(self) -> Commit | None:
        """Return what was committed; None if nothing was, or it cannot be read."""
        value, batch, record = self.found.value, self.batch, self.record
        if value is None:
            return None
        return Commit(
            *(self.segment, batch.position, record.offset),
            NONE if batch.producer_id is None else batch.producer_id,
            NONE if batch.producer_epoch is None else batch.producer_epoch,
            NO_TIME if record.timestamp < 0 else record.timestamp,
            value["offset"],
            value.get("leaderEpoch", NONE),
            value["metadata"],
            self.topic_id,
        )


class Spoken(IntEnum):
    """What there is to say of a commit."""

    REGRESSED = 0
    ZOMBIE = 1
    MIXED = 2


class CommitRemark(NamedTuple):
    """Something about a commit.

    Attributes:
        spoken: what.
        key: group, topic and partition.
        commit: the commit.
        before: the one it does not go with.
    """

    spoken: Spoken
    key: GroupPartition
    commit: Commit
    before: Commit


class Seat(NamedTuple):
    """Where the first record of a group stands."""

    segment: int
    position: int
    offset: int


@dataclass(frozen=True, slots=True)
class Commits:
    """What a partition of ``__consumer_offsets`` says of groups.

    Attributes:
        place: which partition.
        paths: of its segments.
        last: the commit in force, by group, topic and partition.
        groups: where each group has its first record on hand.
        pending: by producer id the groups that wait for the end of its transaction.
        waiting: what of these groups a broker does not give as stable until then.
        remarks: what is to be said of commits, no more than MOST of a kind.
        counts: how many there are of each kind.
        log_end_offset: its log end offset.
        is_whole: whether all of the log can be read.
    """

    place: Place
    paths: tuple[str, ...]
    last: Mapping[GroupPartition, Commit]
    groups: Mapping[str, Seat]
    pending: Mapping[int, tuple[str, ...]]
    waiting: frozenset[GroupPartition] = frozenset()
    remarks: tuple[CommitRemark, ...] = ()
    counts: Mapping[Spoken, int] = field(default_factory=dict)
    log_end_offset: int = 0
    is_whole: bool = True
