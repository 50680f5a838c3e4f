"""Offsets that groups committed, in the order in which they took effect.

Rule: ``OffsetMetadataManager.replay`` and ``replayEndTransactionMarker``: what a transaction commits takes effect with
its COMMIT marker, unless a commit that stands behind it in the log has done so before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from kforensics.forensics.case import CONSUMER_OFFSETS, Case
from kforensics.forensics.cluster.coordinator_records import NONE
from kforensics.forensics.replay.results import NO_TIME
from kforensics.forensics.telling import MOST
from kforensics.parsers.batches import walk
from kforensics.parsers.control import control_of
from kforensics.parsers.log_rows import Place, records_of
from kforensics.parsers.messages.records import DecodedMessage, decode_record
from kforensics.parsers.rows import Batch, Record
from kforensics.parsers.source import Source, open_source

__all__ = ["Commit", "CommitRecord", "CommitRemark", "Commits", "GroupPartition", "Spoken", "commits_of"]

# Numbers of the two record types that hold a committed offset.
OFFSET_COMMITS = (0, 1)
NO_TOPIC_ID = "A" * 22

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
        topic_id = (self.found.value or {}).get("topicId", NO_TOPIC_ID)
        return None if topic_id == NO_TOPIC_ID else str(topic_id)

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
    remarks: tuple[CommitRemark, ...] = ()
    counts: Mapping[Spoken, int] = field(default_factory=dict)
    log_end_offset: int = 0
    is_whole: bool = True


def commits_of(case: Case, keep: Callable[[CommitRecord], None] | None = None) -> Commits:
    """Return the offsets in a partition of ``__consumer_offsets``; its log is read once more, record by record.

    Args:
        case: the partition, examined as any other one is.
        keep: told of every record with a committed offset, in the order of the log.

    Raises:
        InputError: a segment cannot be read.
        ValueError: it is a partition of another topic.
    """
    if case.partition.place.topic != CONSUMER_OFFSETS:
        raise ValueError(f"{case.partition.name} holds no offsets of groups")
    reading = _Reading(case.rules.max_txn_timeout_ms, keep or _forget)
    for segment, found in enumerate(case.partition.segments):
        with open_source(found.path) as source:
            for batch in walk(source):
                if isinstance(batch, Batch) and batch.crc_valid:
                    reading.take(source, segment, batch)
    return reading.commits(case)


def _forget(_record: CommitRecord) -> None:
    pass


@dataclass(slots=True)
class _Key:
    """What is remembered of a group's offset in a partition.

    Attributes:
        commit: the commit in force, None if there is none.
        transactional: the last one that a transaction brought, None if another one came since.
        other: the last one that the producer before that one's brought.
        modes: whether commits came with transactions, and whether some came without.
    """

    commit: Commit | None = None
    transactional: Commit | None = None
    other: Commit | None = None
    modes: tuple[bool, bool] = (False, False)


class _Reading:
    """Takes the batches of a partition in the order of its log."""

    def __init__(self, within_ms: int, keep: Callable[[CommitRecord], None]) -> None:
        self._within_ms, self._keep = within_ms, keep
        self._keys: dict[GroupPartition, _Key] = {}
        self._pending: dict[int, dict[GroupPartition, Commit]] = {}
        self._groups: dict[str, Seat] = {}
        self._remarks: list[CommitRemark] = []
        self._counts: dict[Spoken, int] = {}

    def take(self, source: Source, segment: int, batch: Batch) -> None:
        """Take the next batch."""
        if batch.is_control:
            first = next(records_of(source, batch), None)
            if isinstance(first, Record):
                self._end(batch, first)
            return
        for record in records_of(source, batch):
            if isinstance(record, Record):
                self._take_record(segment, batch, record)

    def _end(self, batch: Batch, marker: Record) -> None:
        pending = self._pending.pop(NONE if batch.producer_id is None else batch.producer_id, {})
        if control_of(marker)[0] == "COMMIT":
            for key, commit in pending.items():
                self._transactional(key, commit._replace(time=marker.timestamp))

    def _take_record(self, segment: int, batch: Batch, record: Record) -> None:
        found = decode_record(CONSUMER_OFFSETS, record.key, record.value)
        if found.key is None or "group" not in found.key:
            return
        self._groups.setdefault(found.key["group"], Seat(segment, batch.position, record.offset))
        if found.type_id not in OFFSET_COMMITS:
            return
        told = CommitRecord(segment, batch, record, found)
        self._keep(told)
        commit = told.commit()
        if record.value is None:
            self._keys.pop(told.key, None)
        elif commit is not None:
            self._committed(told.key, commit, in_transaction=batch.is_transactional)

    def _committed(self, key: GroupPartition, commit: Commit, *, in_transaction: bool) -> None:
        if in_transaction:
            self._pending.setdefault(commit.producer_id, {})[key] = commit
            return
        known = self._keys.setdefault(key, _Key())
        self._in_mode(known, key, commit, transactional=False)
        known.commit, known.transactional, known.other = commit, None, None

    def _transactional(self, key: GroupPartition, commit: Commit) -> None:
        """Let the commit of a transaction take effect."""
        known = self._keys.setdefault(key, _Key())
        self._in_mode(known, key, commit, transactional=True)
        before, other = known.transactional, known.other
        if before is not None and before.producer_id != commit.producer_id:
            if other is not None and other.producer_id == commit.producer_id and self._is_zombie(other, before, commit):
                self._remark(Spoken.ZOMBIE, key, commit, before)
            known.other = before
        if before is not None and commit.committed < before.committed and commit.topic_id == before.topic_id:
            self._remark(Spoken.REGRESSED, key, commit, before)
        known.transactional = commit
        if known.commit is None or known.commit.offset < commit.offset:
            known.commit = commit

    def _is_zombie(self, other: Commit, before: Commit, commit: Commit) -> bool:
        return commit.time - other.time <= self._within_ms and commit.committed <= before.committed

    def _in_mode(self, known: _Key, key: GroupPartition, commit: Commit, *, transactional: bool) -> None:
        with_some, without = known.modes
        modes = (with_some or transactional, without or not transactional)
        if all(modes) and modes != known.modes and known.commit is not None:
            self._remark(Spoken.MIXED, key, commit, known.commit)
        known.modes = modes

    def _remark(self, spoken: Spoken, key: GroupPartition, commit: Commit, before: Commit) -> None:
        self._counts[spoken] = self._counts.get(spoken, 0) + 1
        if self._counts[spoken] <= MOST:
            self._remarks.append(CommitRemark(spoken, key, commit, before))

    def commits(self, case: Case) -> Commits:
        """Return what was said, once every batch was taken."""
        return Commits(
            place=case.partition.place,
            paths=tuple(segment.path for segment in case.partition.segments),
            last={key: known.commit for key, known in self._keys.items() if known.commit is not None},
            groups=self._groups,
            pending={producer: tuple(_groups(keys)) for producer, keys in self._pending.items()},
            remarks=tuple(self._remarks),
            counts=self._counts,
            log_end_offset=case.log_end_offset,
            is_whole=not case.is_broken and not case.log.damage,
        )


def _groups(keys: Mapping[GroupPartition, Commit]) -> Iterator[str]:
    return iter(dict.fromkeys(group for group, _, _ in keys))
