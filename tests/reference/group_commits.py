"""The reference for committed offsets of groups: ``__consumer_offsets`` read record by record.

It defines the correct result. ``commit_replay`` must return equal offsets and equal rows, on intact and on damaged
logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from kforensics.forensics.coordinators.consumer_groups.commits import (
    OFFSET_COMMITS,
    Commit,
    Commits,
    GroupPartition,
    OffsetReset,
)
from kforensics.forensics.coordinators.consumer_groups.group_coordinator import CHECK_MS, GroupCoordinator
from kforensics.forensics.coordinators.consumer_groups.group_states import GroupRecord, GroupState, GroupStates
from kforensics.forensics.coordinators.coordinator_records import NONE, RecordPosition
from kforensics.forensics.coordinators.record_issues import CommitIssue, CommitIssueKind, IssueRecorder
from kforensics.forensics.core.cluster_tables import GROUP_OFFSETS
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.reporting import MOST
from kforensics.forensics.core.result_rows import RowChunks, Rows
from kforensics.forensics.partition.lost_end import missing_end
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS, PartitionState
from kforensics.forensics.partition.replica_ranks import ReplicaRank
from kforensics.parsers.files.source import Source, open_source
from kforensics.parsers.format.control_records import control_fields
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.format.text_encoding import ZERO_UUID
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import read_records
from kforensics.parsers.messages.internal_records import DecodedMessage, decode_record

__all__ = ["commits_by_record"]


class CommitRecord(NamedTuple):
    """A record that contains a committed offset, or removes one.

    Attributes:
        segment: number of the segment.
        batch: its batch.
        record: the record.
        message: its decoded key and value.
    """

    segment: int
    batch: Batch
    record: Record
    message: DecodedMessage

    @property
    def key(self) -> GroupPartition:
        """Group, topic and partition."""
        key = self.message.key or {}
        return key["group"], key["topic"], key["partition"]

    @property
    def topic_id(self) -> str | None:
        """Topic id, None if it was not written."""
        topic_id = (self.message.value or {}).get("topicId", ZERO_UUID)
        return None if topic_id == ZERO_UUID else str(topic_id)

    def commit(self) -> Commit | None:
        """Return the committed offset; None if there is none or it cannot be read."""
        value, batch, record = self.message.value, self.batch, self.record
        if value is None:
            return None
        return Commit(
            *(self.segment, batch.position, record.offset),
            NONE if batch.producer_id is None else batch.producer_id,
            NONE if batch.producer_epoch is None else batch.producer_epoch,
            next((time for time in (record.timestamp, value["commitTimestamp"]) if time >= 0), NO_TIME),
            value["offset"],
            value.get("leaderEpoch", NONE),
            value["metadata"],
            self.topic_id,
        )

    def row(self, paths: list[str]) -> tuple[Any, ...]:
        """Return the row of ``group_offsets``."""
        segment, batch, record, message = self
        value = message.value or {}
        return (
            *(paths[segment], batch.position, record.offset, _null(record.timestamp)),
            *(*self.key, batch.is_transactional, _null(batch.producer_id), _null(batch.producer_epoch), None),
            *(record.value is None, message.version),
            *(value.get("offset"), _null(value.get("leaderEpoch")), value.get("metadata"), self.topic_id),
            *(value.get("commitTimestamp"), _null(value.get("expireTimestamp")), message.error),
        )


def _null(number: int | None) -> int | None:
    return None if number == NONE else number


def commits_by_record(state: PartitionState, keep: Callable[[Rows], None] | None = None) -> Commits:
    """Return the committed offsets in a partition of ``__consumer_offsets``.

    Args:
        state: the state of the partition.
        keep: called with rows of ``group_offsets``, in the order of the log.
    """
    paths = [segment.path for segment in state.partition.segments]
    rows = RowChunks(GROUP_OFFSETS, state.partition.place, keep or (lambda _rows: None))
    reading = _Reading(state, lambda record: rows.add(record.row(paths)))
    for number, path in enumerate(paths):
        with open_source(path) as source:
            for batch in walk(source):
                if isinstance(batch, Batch) and batch.crc_valid:
                    reading.take(source, number, batch)
    rows.finish()
    return reading.commits(state)


@dataclass(slots=True)
class _KeyState:
    """What is remembered of a key.

    Attributes:
        commit: the commit in force, None if there is none.
        in_transaction: whether it came with a transaction.
        other: the last commit of the previous producer.
        modes: whether commits came with transactions, and whether commits came without.
        removal: the first record that removed the commit since the last one, None if there is none.
        lost: the commit that it removed, None if there was none.
    """

    commit: Commit | None = None
    in_transaction: bool = False
    other: Commit | None = None
    modes: tuple[bool, bool] = (False, False)
    removal: Commit | None = None
    lost: Commit | None = None


class _Reading:
    """Takes the batches of a partition in the order of its log."""

    def __init__(self, state: PartitionState, keep: Callable[[CommitRecord], None]) -> None:
        self._zombie_window_ms, self._keep = state.rules.max_txn_timeout_ms, keep
        self._coordinator = GroupCoordinator.of(state)
        self._keys: dict[GroupPartition, _KeyState] = {}
        # The last commit of each open transaction, by its producer id, and key, in the order of the first ones.
        self._pending: dict[tuple[int, GroupPartition], Commit] = {}
        self._groups: dict[str, RecordPosition] = {}
        self._with_commits = set[str]()
        # When an offset of a group was last removed or aborted, whether it was removed, and whether that was loaded.
        self._ends = dict[str, tuple[int, bool, bool]]()
        self._issues = IssueRecorder[CommitIssueKind, CommitIssue]()
        self._states, self._resets, self._at = GroupStates(), list[OffsetReset](), 0
        # The removals of the batch, whose group may be removed after them.
        self._removals: list[tuple[GroupPartition, Commit]] = []
        self._removed_groups = set[str]()
        # The last offset of each segment, of those that are not beyond the log end.
        self._log_end_offset, self._reached = state.log_end_offset, dict[int, int]()

    def take(self, source: Source, segment: int, batch: Batch) -> None:
        """Take the next batch."""
        if batch.is_control:
            first = next(read_records(source, batch), None)
            if isinstance(first, Record) and self._is_new(segment, first):
                self._end(batch, first)
            return
        for record in read_records(source, batch):
            if isinstance(record, Record) and self._is_new(segment, record):
                self._take_record(segment, batch, record)
        for key, removal in self._removals:
            known = self._keys[key]
            if key[0] in self._removed_groups:
                with_group = removal._replace(leader_epoch=1)
                known.removal = with_group if known.removal is removal else known.removal
                self._resets = [
                    reset._replace(removal=with_group) if reset.removal is removal else reset for reset in self._resets
                ]
        self._removals.clear()
        self._removed_groups.clear()

    def _is_new(self, segment: int, record: Record) -> bool:
        """Return whether no earlier segment has reached a record: a broker goes on after the last offset read."""
        before = [offset for number, offset in self._reached.items() if number < segment]
        if record.offset < self._log_end_offset:
            self._reached[segment] = record.offset
        return all(record.offset > offset for offset in before)

    def _end(self, batch: Batch, marker: Record) -> None:
        ended = NONE if batch.producer_id is None else batch.producer_id
        is_commit = control_fields(marker)[0] == "COMMIT"
        for producer, key in [pending for pending in self._pending if pending[0] == ended]:
            commit = self._pending.pop((producer, key))
            if is_commit:
                self._transactional(key, commit._replace(time=marker.timestamp))
            else:
                self._end_of(key[0], marker, marker.timestamp, is_removed=False)

    def _end_of(self, group: str, record: Record, time: int, *, is_removed: bool) -> None:
        is_loaded = bool(self._coordinator.has_loaded(np.array([record.offset]), np.array([time]))[0])
        self._ends[group] = (time, is_removed, is_loaded)

    def _take_record(self, segment: int, batch: Batch, record: Record) -> None:
        message = decode_record(CONSUMER_OFFSETS, record.key, record.value)
        self._at += 1
        time = NO_TIME if record.timestamp < 0 else record.timestamp
        if record.key is not None and len(record.key) > 1:
            place = GroupRecord(segment, batch.position, record.offset, time)
            self._states.add(self._at, place, record.key, record.value)
            self._removed_groups |= {
                group for group, state in self._states.last.items() if state.removed_in == (segment, batch.position)
            }
        if message.key is None or "group" not in message.key:
            return
        self._groups.setdefault(message.key["group"], RecordPosition(segment, batch.position, record.offset))
        if message.type_id not in OFFSET_COMMITS:
            return
        decoded = CommitRecord(segment, batch, record, message)
        self._keep(decoded)
        commit = decoded.commit()
        if record.value is None:
            self._removed(decoded)
        elif commit is not None:
            self._with_commits.add(decoded.key[0])
            self._committed(decoded.key, commit, in_transaction=batch.is_transactional)

    def _removed(self, decoded: CommitRecord) -> None:
        # A tombstone takes what is pending, too: a marker that comes later has nothing of it.
        time = NO_TIME if decoded.record.timestamp < 0 else decoded.record.timestamp
        if not self._keeps_pending(decoded.record.offset, time):
            self._pending = {pending: commit for pending, commit in self._pending.items() if pending[1] != decoded.key}
        self._end_of(decoded.key[0], decoded.record, time, is_removed=True)
        known = self._keys.get(decoded.key, _KeyState())
        if known.removal is None or known.commit is not None:
            segment, batch, record, _ = decoded
            state = self._states.last.get(decoded.key[0])
            emptied = NO_TIME if state is None else state.emptied
            producer = (
                NONE if batch.producer_id is None else batch.producer_id,
                NONE if batch.producer_epoch is None else batch.producer_epoch,
            )
            removal = Commit(segment, batch.position, record.offset, *producer, time, emptied, 0, None, None)
            self._removals.append((decoded.key, removal))
            known = _KeyState(removal=removal, lost=known.commit)
        # A key that is committed again is the newest one.
        self._keys.pop(decoded.key, None)
        self._keys[decoded.key] = known

    def _reset(self, key: GroupPartition, known: _KeyState, commit: Commit, *, is_lower: bool) -> None:
        """Note a commit that follows a removal, or is lower than the one before; call it before it takes effect."""
        before = known.lost if known.removal is not None else known.commit
        reset = OffsetReset(key, commit, before, known.removal, self._states.last.get(key[0]))
        # One of a transaction that was open when the offset was removed did not start again.
        starts_again = known.removal is not None and commit.offset > known.removal.offset
        if starts_again or (known.removal is None and (is_lower or reset.outlived_topic)):
            self._resets.append(reset)
        if known.removal is not None:
            known.removal = known.lost = None
            self._keys[key] = self._keys.pop(key)

    def _committed(self, key: GroupPartition, commit: Commit, *, in_transaction: bool) -> None:
        if in_transaction:
            self._pending[commit.producer_id, key] = commit
            return
        known = self._keys.setdefault(key, _KeyState())
        is_lower = known.commit is not None and commit.committed < known.commit.committed
        self._reset(key, known, commit, is_lower=is_lower)
        state = self._states.last.get(key[0])
        is_of_tool = commit.leader_epoch == NONE and state is not None and not state.members
        if not is_of_tool:
            self._in_mode(known, key, commit, transactional=False)
        known.commit, known.in_transaction, known.other = commit, False, None

    def _transactional(self, key: GroupPartition, commit: Commit) -> None:
        """Let the commit of a transaction take effect, unless one with a higher offset in the log did before."""
        known = self._keys.setdefault(key, _KeyState())
        if known.commit is not None and known.commit.offset >= commit.offset:
            return
        before, other = known.commit if known.in_transaction else None, known.other
        is_regression = (
            before is not None and commit.committed < before.committed and commit.topic_id == before.topic_id
        )
        is_lower = known.commit is not None and commit.committed < known.commit.committed
        self._reset(key, known, commit, is_lower=is_lower and not is_regression)
        self._in_mode(known, key, commit, transactional=True)
        if before is not None and before.producer_id != commit.producer_id:
            if (
                other is not None
                and other.producer_id == commit.producer_id
                and self._is_zombie(key, other, before, commit)
            ):
                self._add(CommitIssueKind.ZOMBIE, key, commit, before)
            known.other = before
        if before is not None and is_regression:
            self._add(CommitIssueKind.REGRESSED, key, commit, before)
        known.commit, known.in_transaction = commit, True

    def _is_zombie(self, key: GroupPartition, other: Commit, before: Commit, commit: Commit) -> bool:
        if commit.time - other.time > self._zombie_window_ms or commit.committed > before.committed:
            return False
        state = self._states.last.get(key[0])
        has_moved = state is not None and state.moved > before.offset
        return commit.committed < before.committed or not has_moved

    def _in_mode(self, known: _KeyState, key: GroupPartition, commit: Commit, *, transactional: bool) -> None:
        with_transaction, without = known.modes
        modes = (with_transaction or transactional, without or not transactional)
        if all(modes) and modes != known.modes and known.commit is not None:
            self._add(CommitIssueKind.MIXED, key, commit, known.commit)
        known.modes = modes

    def _add(self, kind: CommitIssueKind, key: GroupPartition, commit: Commit, before: Commit) -> None:
        if self._issues.count(kind):
            self._issues.kept.append(CommitIssue(kind, key, commit, before, self._states.last.get(key[0])))

    def commits(self, state: PartitionState) -> Commits:
        """Return the committed offsets, after the last batch."""
        return Commits(
            place=state.partition.place,
            paths=tuple(segment.path for segment in state.partition.segments),
            # In columns elsewhere; equal to these.
            last=cast("Any", {key: known.commit for key, known in self._keys.items() if known.commit is not None}),
            groups=cast("Any", self._groups),
            pending=_groups(self._pending),
            waiting=frozenset(key for _, key in self._pending),
            issues=tuple(self._issues.kept),
            issue_counts=self._issues.counts,
            resets=tuple(self._resets[:MOST]),
            reset_count=len(self._resets),
            states={group: last for group, last in self._states.last.items() if not self._is_another(group, last)},
            without_offsets=self._without_offsets(state.rules.as_of_ms),
            log_end_offset=state.log_end_offset,
            is_whole=not state.is_broken and not state.log.damage and missing_end(state) is None,
            missing_end=missing_end(state),
            rank=ReplicaRank.of(state),
        )

    def _keeps_pending(self, offset: int, time: int) -> bool:
        return bool(self._coordinator.keeps_pending(np.array([offset]), np.array([time]))[0])

    def _without_offsets(self, as_of_ms: int) -> frozenset[str]:
        """Return the groups without an offset in force or pending that their coordinator still has."""
        coordinator, kept = self._coordinator.with_groups(self._states.last.values()), set[str]()
        for group in self._with_commits - self._with_offsets():
            time, is_removed, is_loaded = self._ends.get(group, (0, False, False))
            is_recent = time != NO_TIME and as_of_ms < time + CHECK_MS
            if coordinator.keeps_group(is_removed=is_removed, is_loaded=is_loaded, is_recent=is_recent):
                kept.add(group)
        return frozenset(kept)

    def _with_offsets(self) -> set[str]:
        """Return the groups with an offset in force or a pending one."""
        in_force = {key[0] for key, known in self._keys.items() if known.commit is not None}
        return in_force | {key[0] for _, key in self._pending}

    def _is_another(self, group: str, last: GroupState) -> bool:
        """Return whether a group was removed and has a later offset, committed or pending."""
        commits = [(key, known.commit) for key, known in self._keys.items()]
        commits += [(key, commit) for (_, key), commit in self._pending.items()]
        offsets = (commit.offset for (name, *_), commit in commits if name == group and commit is not None)
        newest = max(offsets, default=-1)
        if last.removed_in is None or newest == -1:
            return False
        return newest > last.record.offset or self._keeps_pending(last.record.offset, last.record.time)


def _groups(pending: Iterable[tuple[int, GroupPartition]]) -> dict[int, tuple[str, ...]]:
    groups = dict[int, dict[str, None]]()
    for producer, (group, _, _) in pending:
        groups.setdefault(producer, {}).setdefault(group)
    return {producer: tuple(names) for producer, names in groups.items()}
