"""Offsets that groups committed, replayed in columns: what :mod:`.commit_records` says, many thousand records a step.

What is kept from step to step grows with the number of groups and partitions, not with that of records.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kforensics.forensics.coordinators.consumer_groups.commit_columns import CommitColumns, KeyBook, commit_columns
from kforensics.forensics.coordinators.consumer_groups.commit_effects import Effects, Kind
from kforensics.forensics.coordinators.consumer_groups.commit_pending import NO_PENDING, Markers, Pending, settled
from kforensics.forensics.coordinators.consumer_groups.commit_states import KeyStates, Taking
from kforensics.forensics.coordinators.consumer_groups.commit_tables import CommitTable
from kforensics.forensics.coordinators.consumer_groups.commit_types import CommitRemark, Commits, GroupPartition, Spoken
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.reporting import MOST
from kforensics.forensics.partition.partition_state import Case
from kforensics.parsers.columns.batch_columns import COMMIT
from kforensics.parsers.columns.record_columns import CHUNK_ROWS, RecordColumns, record_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.kernels.policy import Choice, kernels_for

__all__ = ["commits_in_columns"]


def commits_in_columns(
    case: Case,
    keep: Callable[[CommitColumns], None] | None = None,
    kernels: Choice = kernels_for,
    chunk_rows: int = CHUNK_ROWS,
) -> Commits:
    """Return the offsets in a partition of ``__consumer_offsets``.

    Args:
        case: the partition.
        keep: told of all records with a committed offset, in the order of the log.
        kernels: gives the compiled kernels, if reading so many bytes is worth it.
        chunk_rows: records at a time, about.

    Raises:
        InputError: a segment cannot be read.
    """
    replay = _Replay(case.rules.max_txn_timeout_ms)
    for segment, found in enumerate(case.partition.segments):
        with open_source(found.path) as source:
            for records in record_chunks(source, kernels(source.size), chunk_rows):
                commits = replay.take(segment, records)
                if keep is not None and len(commits):
                    keep(commits)
    return replay.commits(case)


class _Replay:
    """Takes chunks of a partition in the order of its log."""

    def __init__(self, within_ms: int) -> None:
        self._within_ms = within_ms
        self._book, self._states = KeyBook(), KeyStates()
        self._pending = NO_PENDING
        self._remarks: list[CommitRemark] = []
        self._counts: dict[Spoken, int] = {}
        self._records = 0

    def take(self, segment: int, records: RecordColumns) -> CommitColumns:
        """Take the next chunk; returns the commits in it."""
        commits = commit_columns(segment, records, self._book)
        at = commits.at + self._records
        brought = np.flatnonzero(commits.is_read & commits.rows["is_transactional"])
        pending = Pending(at[brought], at[brought], commits.keys[brought], CommitTable.of(commits, brought))
        markers = _markers(records, self._records)
        self._pending, done, by = settled(self._pending.followed_by(pending), markers)
        done.table.rows["time"] = markers.timestamp[by]
        others = np.flatnonzero(commits.is_tombstone | (commits.is_read & ~commits.rows["is_transactional"]))
        kinds = np.where(commits.is_tombstone[others], Kind.REMOVED, Kind.PLAIN)
        taking = Taking(
            np.concatenate([commits.keys[others], done.keys]),
            np.append(kinds, np.full(len(done), Kind.TRANSACTIONAL)),
            np.append(at[others], markers.at[by]),
            np.append(np.zeros(len(others), "i8"), done.first),
            CommitTable.joined([CommitTable.of(commits, others), done.table]),
        )
        self._apply(taking)
        self._records += len(records)
        return commits

    def _apply(self, taking: Taking) -> None:
        """Let commits take effect, and remark on them."""
        if not len(taking.keys):
            return
        self._states.make_room(len(self._book.keys))
        effects, at, first = self._states.behind(taking)
        said = [
            (Spoken.MIXED, effects.mixed(), effects.in_force),
            (Spoken.ZOMBIE, self._zombies(effects), effects.index),
            (Spoken.REGRESSED, effects.regressed(), effects.index),
        ]
        rows = np.concatenate([which for _, which, _ in said])
        stages = np.repeat(np.arange(len(said)), [len(which) for _, which, _ in said])
        names = list(self._book.keys) if len(rows) else []
        for turn in np.lexsort((stages, first[rows], at[rows])).tolist():
            spoken, _, before = said[stages[turn]]
            row = int(rows[turn])
            self._remark(spoken, names, effects, row, int(before[row - 1]))
        self._states.take(effects, at, first)

    def _zombies(self, effects: Effects) -> Records:
        """Return the rows in which a producer comes back that another one had replaced a short while before."""
        which = effects.returns()
        # As Python's integers, for the time of a damaged record may be any number.
        times = (effects.rows(some)["time"].tolist() for some in (which, effects.other[which - 1]))
        found: Records = which[[later - earlier <= self._within_ms for later, earlier in zip(*times, strict=True)]]
        return found

    def _remark(self, spoken: Spoken, names: list[GroupPartition], effects: Effects, row: int, before: int) -> None:
        self._counts[spoken] = self._counts.get(spoken, 0) + 1
        if self._counts[spoken] <= MOST:
            commits = (effects.table.commit(int(effects.source[one])) for one in (row, before))
            self._remarks.append(CommitRemark(spoken, names[effects.keys[row]], *commits))

    def commits(self, case: Case) -> Commits:
        """Return what was said, once every chunk was taken."""
        names = list(self._book.keys)
        keys, table = self._states.in_force()
        return Commits(
            place=case.partition.place,
            paths=tuple(segment.path for segment in case.partition.segments),
            last={names[key]: table.commit(row) for row, key in enumerate(keys.tolist())},
            groups=self._book.groups,
            pending=self._waiting(names),
            waiting=frozenset(names[key] for key in self._pending.keys.tolist()),
            remarks=tuple(self._remarks),
            counts=self._counts,
            log_end_offset=case.log_end_offset,
            is_whole=not case.is_broken and not case.log.damage,
        )

    def _waiting(self, names: list[GroupPartition]) -> dict[int, tuple[str, ...]]:
        """Return by producer id the groups that wait for its marker."""
        pending, found = self._pending, dict[int, dict[str, None]]()
        producers, keys = pending.table.rows["producer_id"].tolist(), pending.keys.tolist()
        for row in np.argsort(pending.first).tolist():
            found.setdefault(producers[row], {}).setdefault(names[keys[row]][0])
        return {producer: tuple(groups) for producer, groups in found.items()}


def _markers(records: RecordColumns, behind: int) -> Markers:
    """Return the ends of transactions in a chunk: the first record of a control batch says what it is."""
    rows = records.rows
    begins = np.diff(rows["position"], prepend=-1) != 0
    at = np.flatnonzero(begins & rows["is_control"])
    return Markers(at + behind, rows["producer_id"][at], rows["control"][at] == COMMIT, rows["timestamp"][at])
