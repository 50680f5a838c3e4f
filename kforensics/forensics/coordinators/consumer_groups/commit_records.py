"""The reading of ``__consumer_offsets`` record by record: what small logs get, and what all others must equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from kforensics.forensics.coordinators.consumer_groups.commit_types import (
    OFFSET_COMMITS,
    Commit,
    CommitRecord,
    CommitRemark,
    Commits,
    GroupPartition,
    Seat,
    Spoken,
)
from kforensics.forensics.coordinators.coordinator_records import NONE
from kforensics.forensics.core.reporting import MOST
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS, Case
from kforensics.parsers.files.source import Source, open_source
from kforensics.parsers.format.control import control_of
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import records_of
from kforensics.parsers.messages.internal_records import decode_record

__all__ = ["commits_by_record"]


def commits_by_record(case: Case, keep: Callable[[CommitRecord], None] | None = None) -> Commits:
    """Return the offsets in a partition of ``__consumer_offsets``.

    Args:
        case: the partition.
        keep: told of every record with a committed offset, in the order of the log.

    Raises:
        InputError: a segment cannot be read.
    """
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
            waiting=frozenset(chain.from_iterable(self._pending.values())),
            remarks=tuple(self._remarks),
            counts=self._counts,
            log_end_offset=case.log_end_offset,
            is_whole=not case.is_broken and not case.log.damage,
        )


def _groups(keys: Mapping[GroupPartition, Commit]) -> Iterator[str]:
    return iter(dict.fromkeys(group for group, _, _ in keys))
