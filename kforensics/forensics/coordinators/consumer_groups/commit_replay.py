"""Reads the committed offsets of groups from the log of ``__consumer_offsets``, in columns, chunk by chunk.

What is kept between chunks grows with the number of groups' partitions, not with that of records.
``tests/reference/group_commits.py`` does the same record by record; both give equal results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kforensics.forensics.coordinators.consumer_groups.commit_columns import CommitColumns, KeyNumbers, commit_columns
from kforensics.forensics.coordinators.consumer_groups.commit_effects import (
    NO_INDEX,
    ChunkEffects,
    EffectKind,
    KeyStates,
    SortedEffects,
)
from kforensics.forensics.coordinators.consumer_groups.commit_tables import (
    NO_PENDING,
    CommitsInForce,
    CommitTable,
    EndMarkers,
    PendingCommits,
    resolve_pending,
)
from kforensics.forensics.coordinators.consumer_groups.commits import Commits, GroupKeys, GroupPartition, OffsetReset
from kforensics.forensics.coordinators.consumer_groups.created_groups import CreatedGroups, Ends
from kforensics.forensics.coordinators.consumer_groups.group_coordinator import GroupCoordinator
from kforensics.forensics.coordinators.consumer_groups.group_states import GroupState, GroupStates
from kforensics.forensics.coordinators.coordinator_records import NONE
from kforensics.forensics.coordinators.record_issues import CommitIssue, CommitIssueKind, IssueRecorder
from kforensics.forensics.coordinators.repeated_records import records_read_once
from kforensics.forensics.core.record_arrays import free_unused
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.reporting import MOST
from kforensics.forensics.partition.lagging_replica import lag_of
from kforensics.forensics.partition.lost_end import missing_end
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS, PartitionState
from kforensics.forensics.partition.replica_ranks import ReplicaRank
from kforensics.parsers.columns.batch_columns import COMMIT
from kforensics.parsers.columns.record_columns import RecordColumns
from kforensics.parsers.format.array_types import BoolArray, IntArray
from kforensics.parsers.kernels.policy import KernelPolicy, kernels_for
from kforensics.parsers.messages.message_columns import texts_of

__all__ = ["commits_of"]

# Approximate number of records per chunk: a chunk of records with different keys takes a kilobyte per record.
CHUNK_ROWS = 1 << 15


def commits_of(
    state: PartitionState,
    emit: Callable[[CommitColumns], None] | None = None,
    kernels: KernelPolicy = kernels_for,
    chunk_rows: int = CHUNK_ROWS,
    on_states: Callable[[GroupStates], None] | None = None,
) -> Commits:
    """Return the committed offsets in a partition of ``__consumer_offsets``; reads its log once more.

    Records that a segment repeats are left out.

    Args:
        state: the state of the partition.
        emit: called with the committed offsets of each chunk, in the order of the log.
        kernels: chooses the compiled kernels if they pay off for so many bytes.
        chunk_rows: approximate number of records per chunk.
        on_states: called with the states of groups after each chunk, before ``emit``.

    Raises:
        InputError: a segment cannot be read.
        ValueError: it is a partition of another topic.
    """
    if state.partition.place.topic != CONSUMER_OFFSETS:
        raise ValueError(f"{state.partition.name} is not a partition of {CONSUMER_OFFSETS}")
    # A group coordinator reads its whole log, so it does not forget commits with a transaction.
    has_transactions = len(state.transaction_store) + len(state.transaction_store.forgotten) > 0
    replay = _Replay(state, has_transactions=has_transactions)
    for number, records in records_read_once(state.partition.segments, state.log_end_offset, kernels, chunk_rows):
        commits = replay.take(number, records)
        if on_states is not None:
            on_states(replay.groups)
        if emit is not None and len(commits):
            emit(commits)
        free_unused()
    return replay.commits(state)


class _Replay:
    """Replays the chunks of a partition in the order of its log."""

    def __init__(self, state: PartitionState, *, has_transactions: bool) -> None:
        self._zombie_window_ms, self._has_transactions = state.rules.max_txn_timeout_ms, has_transactions
        self._coordinator = GroupCoordinator.of(state)
        self._created = CreatedGroups(self._coordinator)
        self._known, self._states = KeyNumbers(), KeyStates()
        self._pending = NO_PENDING
        self._issues = IssueRecorder[CommitIssueKind, CommitIssue]()
        self.groups, self._resets, self._reset_count = GroupStates(), list[OffsetReset](), 0
        self._records = 0
        # Where the last batch so far is: a large one may continue in the next chunk.
        self._segment = self._last_batch = -1

    def take(self, segment: int, records: RecordColumns) -> CommitColumns:
        """Replay the next chunk; return the commits in it."""
        commits = commit_columns(segment, records, self._known)
        self.groups.take(segment, records, self._records)
        at = commits.indexes + self._records
        in_transaction = np.flatnonzero(commits.is_read & commits.rows["is_transactional"])
        table = CommitTable.of(commits, in_transaction)
        pending = PendingCommits(at[in_transaction], at[in_transaction], commits.numbers[in_transaction], table)
        markers = _end_markers(records, self._records, self._last_batch if segment == self._segment else -1)
        keeps_pending = self._coordinator.keeps_pending(commits.rows["offset"], commits.times)
        takes_pending = commits.is_tombstone & ~keeps_pending
        removals = (at[takes_pending], commits.numbers[takes_pending])
        self._pending, ended, marker = resolve_pending(self._pending.followed_by(pending), markers, removals)
        self._note_groups(commits, at, self._aborted(ended, markers, marker))
        is_commit = np.flatnonzero(markers.is_commit[marker])
        effective, marker = ended.select(is_commit, ended.first[is_commit]), marker[is_commit]
        effective.table.rows["time"] = markers.timestamp[marker]
        is_plain = commits.is_read & ~commits.rows["is_transactional"]
        immediate = np.flatnonzero(commits.is_tombstone | is_plain)
        kinds = np.where(commits.is_tombstone[immediate], EffectKind.REMOVED, EffectKind.PLAIN)
        kinds[self._by_tools(commits, immediate, at)] = EffectKind.TOOL
        immediate_table = CommitTable.of(commits, immediate)
        self._describe_removals(commits, immediate, at, immediate_table)
        effects = ChunkEffects(
            np.concatenate([commits.numbers[immediate], effective.keys]),
            np.append(kinds, np.full(len(effective), EffectKind.TRANSACTIONAL)),
            np.append(at[immediate], markers.at[marker]),
            np.append(np.zeros(len(immediate), "i8"), effective.first),
            CommitTable.joined([immediate_table, effective.table]),
        )
        self._apply(effects)
        self._records += len(records)
        self._segment, self._last_batch = segment, int(records.rows["position"][-1])
        return commits

    def _aborted(self, ended: PendingCommits, markers: EndMarkers, marker: IntArray) -> Ends:
        """Return the commits of aborted transactions, by their groups.

        Args:
            ended: commits of transactions that ended.
            markers: the markers in the chunk.
            marker: index of the marker of each commit.
        """
        aborted = np.flatnonzero(~markers.is_commit[marker])
        groups, by = self._known.keys.rows["group"][ended.keys[aborted]], marker[aborted]
        return Ends(markers.at[by], groups, markers.offset[by], markers.timestamp[by])

    def _note_groups(self, commits: CommitColumns, at: IntArray, aborted: Ends) -> None:
        """Note the groups of a chunk's commits, and which of their offsets were removed or aborted."""
        groups, rows = commits.keys.rows["group"], np.flatnonzero(commits.is_tombstone)
        removed = Ends(at[rows], groups[rows], commits.rows["offset"][rows], commits.times[rows])
        self._created.take(groups[commits.is_read], removed, aborted)

    def _without_offsets(self, keys: GroupKeys, has_offset: BoolArray, as_of_ms: int) -> frozenset[str]:
        """Return the groups without an offset in force or pending that their coordinator still has.

        Args:
            keys: all keys.
            has_offset: which of them have an offset in force or a pending one.
            as_of_ms: time of evaluation.
        """
        coordinator = self._coordinator.with_groups(self.groups.last.values())
        numbers = self._created.without_offsets(coordinator, keys.rows["group"][has_offset], as_of_ms)
        return frozenset(texts_of(keys.groups.take(numbers)))

    def _apply(self, chunk: ChunkEffects) -> None:
        """Let commits take effect, and record issues with them."""
        if not len(chunk.keys):
            return
        self._states.reserve(len(self._known))
        effects, at, first = self._states.sort_by_key(chunk)
        # Kinds of issues with the rows that have them; the earlier commit is the row before.
        issues = [
            (CommitIssueKind.MIXED, effects.mixed()),
            (CommitIssueKind.ZOMBIE, self._zombies(effects, at)),
            (CommitIssueKind.REGRESSED, effects.regressed()),
        ]
        rows = np.concatenate([kind_rows for _, kind_rows in issues])
        ranks = np.repeat(np.arange(len(issues)), [len(kind_rows) for _, kind_rows in issues])
        for index in np.lexsort((ranks, first[rows], at[rows])).tolist():
            kind, _ = issues[ranks[index]]
            row = int(rows[index])
            if self._issues.count(kind):
                commit, before = (effects.table.commit(int(source)) for source in effects.source[[row, row - 1]])
                (key,) = self._known.keys.take(effects.keys[row : row + 1])
                group = self.groups.before(key[0], int(at[row]))
                self._issues.kept.append(CommitIssue(kind, key, commit, before, group))
        self._add_resets(effects, at, first)
        self._states.remember(effects, at, first)

    def _by_tools(self, commits: CommitColumns, indexes: IntArray, at: IntArray) -> IntArray:
        """Return which commits are as tools send them: without a leader epoch, to a group without members.

        Of a group without records nothing is known: consumers that assign partitions themselves have none.
        """
        is_candidate = commits.is_read[indexes] & (commits.leader_epoch[indexes] == NONE)
        candidates = np.flatnonzero(is_candidate & self._has_transactions)
        if not len(candidates):
            return candidates
        rows = indexes[candidates]
        codes, names = commits.keys.take(rows).named("group")
        return candidates[self.groups.had_no_members(names, codes, at[rows])]

    def _describe_removals(self, commits: CommitColumns, indexes: IntArray, at: IntArray, table: CommitTable) -> None:
        """Set when the group of each removal had become empty, and whether the same batch removes the group."""
        removals = np.flatnonzero(commits.is_tombstone[indexes])
        table.rows["committed"][removals], table.rows["leader_epoch"][removals] = NO_TIME, 0
        if not self.groups.last:
            return
        keys = commits.keys.take(indexes[removals])
        for row, index, (group, _, _) in zip(removals.tolist(), indexes[removals].tolist(), keys, strict=True):
            state = self.groups.before(group, int(at[index]))
            batch = (commits.segment, int(table.rows["position"][row]))
            table.rows["committed"][row] = NO_TIME if state is None else state.emptied
            table.rows["leader_epoch"][row] = self.groups.is_removed_in(group, batch)

    def _add_resets(self, effects: SortedEffects, at: IntArray, first: IntArray) -> None:
        """Record commits of lower offsets and commits after a removal."""
        rows = effects.resets()
        self._reset_count += len(rows)
        rows = rows[np.lexsort((first[rows], at[rows]))][: MOST - len(self._resets)]
        for row in rows.tolist():
            (key,) = self._known.keys.take(effects.keys[row : row + 1])
            removal = int(effects.first_removal[row - 1]) if effects.begins_life[row] else NO_INDEX
            commit, before, removed = (
                None if index == NO_INDEX else effects.table.commit(int(effects.source[index]))
                for index in (row, int(effects.previous[row]), removal)
            )
            if commit is not None:
                group = self.groups.before(key[0], int(at[row]))
                self._resets.append(OffsetReset(key, commit, before, removed, group))

    def _zombies(self, effects: SortedEffects, at: IntArray) -> IntArray:
        """Return the rows in which a producer commits again shortly after another one replaced it.

        Not those with an equal offset of a partition that may have been assigned to one member, then to the other.
        """
        returns = effects.returns()
        # Python integers, because the time of a damaged record may be any number.
        times = (effects.rows(rows)["time"].tolist() for rows in (returns, effects.other[returns - 1]))
        soon = [later - earlier <= self._zombie_window_ms for later, earlier in zip(*times, strict=True)]
        zombies: IntArray = returns[soon]
        rows, before = effects.rows(zombies), effects.rows(zombies - 1)
        has_moved: BoolArray = rows["committed"] == before["committed"]
        equal = np.flatnonzero(has_moved)
        keys = self._known.keys.take(effects.keys[zombies[equal]])
        for index, (group, _, _) in zip(equal.tolist(), keys, strict=True):
            state = self.groups.before(group, int(at[zombies[index]]))
            has_moved[index] = state is not None and state.has_moved_since(int(before["offset"][index]))
        remaining: IntArray = zombies[~has_moved]
        return remaining

    def commits(self, state: PartitionState) -> Commits:
        """Return the committed offsets, after the last chunk."""
        keys, waiting = self._known.keys, self._known.keys.take(self._pending.keys)
        in_force, table = self._states.in_force()
        is_waiting = np.zeros(len(keys), "?")
        is_waiting[self._pending.keys] = True
        has_offset = is_waiting.copy()
        has_offset[in_force] = True
        lag, missing = lag_of(state), missing_end(state)
        return Commits(
            place=state.partition.place,
            paths=tuple(segment.path for segment in state.partition.segments),
            last=CommitsInForce(keys.take(in_force), table, is_waiting[in_force]),
            groups=self._known.first_records,
            pending=self._pending_groups(list(waiting)),
            waiting=frozenset(waiting),
            issues=tuple(self._issues.kept),
            issue_counts=self._issues.counts,
            resets=tuple(self._resets),
            reset_count=self._reset_count,
            states=self._states_of_groups(keys.take(in_force), table),
            without_offsets=self._without_offsets(keys, has_offset, state.rules.as_of_ms),
            log_end_offset=state.log_end_offset,
            is_whole=not state.is_broken and not state.log.damage and missing is None,
            lagging_since=None if lag is None else lag.since,
            left_by_shutdown=lag is not None and lag.left_by_shutdown,
            missing_end=missing,
            rank=ReplicaRank.of(state),
        )

    def _states_of_groups(self, in_force: GroupKeys, table: CommitTable) -> dict[str, GroupState]:
        """Return the last states of groups, without those that were removed and have offsets again.

        Rule: ``OffsetMetadataManager.replay``. A commit for a group that is not there creates a classic one without
        members, which has no record of its own; so does a commit of an open transaction. An offset from before the
        removal does so when the old coordinator loads the log.
        """
        states = self.groups.last
        removed = {group: state.record for group, state in states.items() if state.removed_in is not None}
        offsets = np.array([record.offset for record in removed.values()], "i8")
        offsets[self._coordinator.keeps_pending(offsets, np.array([one.time for one in removed.values()], "i8"))] = NONE
        since = dict(zip(removed, offsets.tolist(), strict=True))
        pending = self._known.keys.take(self._pending.keys)
        created = set[str]()
        for keys, rows in ((in_force, table.rows), (pending, self._pending.table.rows)) if removed else ():
            codes, names = keys.named("group")
            newest = np.full(len(names), NONE, "i8")
            np.maximum.at(newest, codes, rows["offset"])
            created.update(
                group for group, offset in zip(names, newest.tolist(), strict=True) if offset > since.get(group, offset)
            )
        return {group: state for group, state in states.items() if group not in created}

    def _pending_groups(self, keys: Sequence[GroupPartition]) -> dict[int, tuple[str, ...]]:
        """Return the groups that wait for the marker of each producer id."""
        groups = dict[int, dict[str, None]]()
        producers = self._pending.table.rows["producer_id"].tolist()
        for row in np.argsort(self._pending.first).tolist():
            groups.setdefault(producers[row], {}).setdefault(keys[row][0])
        return {producer: tuple(names) for producer, names in groups.items()}


def _end_markers(records: RecordColumns, records_before: int, last_batch: int) -> EndMarkers:
    """Return the transaction markers in a chunk: the first record of a control batch is the marker.

    Args:
        records: the chunk.
        records_before: number of records before it.
        last_batch: position of the last batch before it in its segment, -1 for none.
    """
    rows = records.rows
    begins_batch = np.diff(rows["position"], prepend=last_batch) != 0
    indexes = np.flatnonzero(begins_batch & rows["is_control"])
    is_commit = rows["control"][indexes] == COMMIT
    times, offsets = rows["timestamp"][indexes], rows["offset"][indexes]
    return EndMarkers(indexes + records_before, rows["producer_id"][indexes], is_commit, times, offsets)
