"""Tables of committed offsets, and the resolution of pending ones when the marker of their transaction arrives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from kforensics.forensics.coordinators.consumer_groups.commit_columns import CommitColumns, TextColumn
from kforensics.forensics.coordinators.consumer_groups.commits import Commit, GroupKeys, GroupPartition
from kforensics.forensics.coordinators.coordinator_records import NEVER
from kforensics.forensics.core.record_arrays import concat_rows, put_rows, take_rows
from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray, TextArray

COMMITTED_OFFSET = np.dtype(
    [
        ("segment", "i4"),
        ("position", "i8"),
        ("offset", "i8"),
        ("producer_id", "i8"),
        ("producer_epoch", "i2"),
        ("time", "i8"),
        ("committed", "i8"),
        ("leader_epoch", "i4"),
        ("topic_id", "S22"),  # as Kafka writes it, empty if there is none
    ]
)
CommittedOffsetArray: TypeAlias = StructArray
# The index of a marker or a removal that is not there (yet).
NO_FOLLOWING = -1


@dataclass(frozen=True, slots=True)
class CommitTable:
    """Committed offsets, one per row.

    Attributes:
        rows: COMMITTED_OFFSET records.
        metadata: the metadata of each row, as objects, because it may be different in every row.
    """

    rows: CommittedOffsetArray
    metadata: TextArray

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def empty(cls, count: int = 0) -> CommitTable:
        """Return a table of empty rows."""
        return cls(np.zeros(count, COMMITTED_OFFSET), np.empty(count, "O"))

    @classmethod
    def joined(cls, tables: Sequence[CommitTable]) -> CommitTable:
        """Return the rows of all tables, concatenated."""
        rows = concat_rows([cls.empty().rows, *(table.rows for table in tables)])
        return cls(rows, np.concatenate([table.metadata for table in tables]))

    @classmethod
    def of(cls, commits: CommitColumns, indexes: IntArray) -> CommitTable:
        """Return some commits, by index; of a commit that could not be read only the position has a meaning."""
        rows, records = np.zeros(len(indexes), COMMITTED_OFFSET), take_rows(commits.rows, indexes)
        rows["segment"] = commits.segment
        for name in ("position", "offset", "producer_id", "producer_epoch"):
            rows[name] = records[name]
        rows["time"] = commits.times[indexes]
        rows["committed"], rows["leader_epoch"] = commits.committed[indexes], commits.leader_epoch[indexes]
        topic_ids = np.array([text or "" for text in _with_null(commits.topic_id)], COMMITTED_OFFSET["topic_id"])
        rows["topic_id"] = topic_ids[commits.topic_id.codes[indexes]]
        metadata = np.fromiter(_with_null(commits.metadata), "O")
        return cls(rows, metadata[commits.metadata.codes[indexes]])

    def extended(self, count: int) -> CommitTable:
        """Return the rows of the table followed by empty ones, so that there are ``count``."""
        if len(self) == count:
            return self
        extended = CommitTable.empty(count)
        put_rows(extended.rows, slice(len(self)), self.rows)
        extended.metadata[: len(self)] = self.metadata
        return extended

    def select(self, indexes: IntArray | slice) -> CommitTable:
        """Return some of the rows, by index."""
        return CommitTable(take_rows(self.rows, indexes), self.metadata[indexes])

    def put(self, indexes: IntArray, other: CommitTable) -> None:
        """Replace some rows with those of another table."""
        put_rows(self.rows, indexes, other.rows)
        self.metadata[indexes] = other.metadata

    def commit(self, row: int) -> Commit:
        """Return a row as a value."""
        *numbers, topic_id = self.rows[row].item()
        return Commit._make((*numbers, self.metadata[row], topic_id.decode("ascii") or None))


class CommitsInForce(Mapping[GroupPartition, Commit]):
    """Commits by group, topic and partition, as columns. A commit is made when it is looked up.

    Args:
        keys: group, topic and partition of each commit.
        table: the commits.
        is_waiting: whether an open transaction has committed a newer one.
    """

    def __init__(self, keys: GroupKeys, table: CommitTable, is_waiting: BoolArray) -> None:
        self.keys_by_row, self.table, self.is_waiting = keys, table, is_waiting

    def __getitem__(self, key: GroupPartition) -> Commit:
        return self.table.commit(self._rows[key])

    @cached_property
    def _rows(self) -> dict[GroupPartition, int]:
        return {key: row for row, key in enumerate(self)}

    def __iter__(self) -> Iterator[GroupPartition]:
        return iter(self.keys_by_row)

    def __len__(self) -> int:
        return len(self.keys_by_row)

    def at(self, row: int) -> tuple[GroupPartition, Commit]:
        """Return a commit by its number, with its key."""
        return next(iter(self.keys_by_row.take(np.array([row])))), self.table.commit(row)

    def of_partition(self, topic: str, partition: int) -> Iterator[tuple[str, Commit]]:
        """Yield the groups with an offset of a partition, and their commits."""
        names, codes = self.partitions
        if (topic, partition) in names:
            for row in np.flatnonzero(codes == names[topic, partition]).tolist():
                (group, _, _), commit = self.at(row)
                yield group, commit

    @cached_property
    def partitions(self) -> tuple[Mapping[tuple[str, int], int], IntArray]:
        """The codes of the partitions with committed offsets, and the code of each commit's partition."""
        names, codes = self.keys_by_row.partitions()
        return {name: code for code, name in enumerate(names)}, codes


def _with_null(texts: TextColumn) -> list[str | None]:
    """Return the values of a column with a None at the end, which the code -1 indexes."""
    return [*texts.values, None]


@dataclass(frozen=True, slots=True)
class EndMarkers:
    """Transaction markers in the order of the log.

    Attributes:
        at: number of the record in the log.
        producer_id: producer id.
        is_commit: whether it is a COMMIT.
        timestamp: timestamp of the record.
        offset: offset of the record.
    """

    at: IntArray
    producer_id: IntArray
    is_commit: BoolArray
    timestamp: IntArray
    offset: IntArray


@dataclass(frozen=True, slots=True)
class PendingCommits:
    """Commits of open transactions in the order of the log; the last one of a transaction and key counts.

    Attributes:
        at: number of the record in the log.
        first: number of the first record of the same transaction and key, which determines when it takes effect among
            the commits of its transaction.
        keys: numbers of group, topic and partition.
        table: the commits.
    """

    at: IntArray
    first: IntArray
    keys: IntArray
    table: CommitTable

    def __len__(self) -> int:
        return len(self.at)

    def followed_by(self, other: PendingCommits) -> PendingCommits:
        """Return these commits and others, concatenated."""
        return PendingCommits(
            np.concatenate([self.at, other.at]),
            np.concatenate([self.first, other.first]),
            np.concatenate([self.keys, other.keys]),
            CommitTable.joined([self.table, other.table]),
        )

    def select(self, indexes: IntArray, first: IntArray) -> PendingCommits:
        """Return some of the commits, by index, with new values of ``first``."""
        return PendingCommits(self.at[indexes], first, self.keys[indexes], self.table.select(indexes))


NO_PENDING = PendingCommits(np.empty(0, "i8"), np.empty(0, "i8"), np.empty(0, "i8"), CommitTable.empty())


def resolve_pending(
    pending: PendingCommits, markers: EndMarkers, removals: tuple[IntArray, IntArray]
) -> tuple[PendingCommits, PendingCommits, IntArray]:
    """Resolve pending commits with the markers and the removals of a chunk.

    Rule: ``OffsetMetadataManager.replay``. A removal takes the pending commits of its key, of all transactions, so that
    a later marker has nothing of them. ``GroupCoordinator.keeps_pending`` says which removals leave them.

    Args:
        pending: pending commits, those of the chunk included.
        markers: the markers in the chunk.
        removals: the number of the record of each removal in the chunk that takes pending commits, and of its key.

    Returns:
        The commits that are still pending, those whose transaction ended, and the index of the marker of each of the
        latter.
    """
    pending, marker = _not_removed(pending, markers, removals)
    if not len(pending):
        return pending, pending, np.empty(0, "i8")
    groups = _combined(marker, _dense(pending.table.rows["producer_id"]))
    groups = _combined(groups, _dense(pending.keys))
    order = np.argsort(groups, kind="stable")
    begins = np.flatnonzero(np.diff(groups[order], prepend=NO_FOLLOWING - 1))
    lasts = order[np.append(begins[1:], len(order)) - 1]
    first = pending.first[order[begins]]
    is_open = marker[lasts] == NO_FOLLOWING
    still_pending, ended = np.flatnonzero(is_open), np.flatnonzero(~is_open)
    still_pending = still_pending[np.argsort(pending.at[lasts[still_pending]])]
    return (
        pending.select(lasts[still_pending], first[still_pending]),
        pending.select(lasts[ended], first[ended]),
        marker[lasts[ended]],
    )


def _not_removed(
    pending: PendingCommits, markers: EndMarkers, removals: tuple[IntArray, IntArray]
) -> tuple[PendingCommits, IntArray]:
    """Return the commits that are not removed before their transaction ends, and the index of the marker of each."""
    if not len(pending):
        return pending, np.empty(0, "i8")
    marker = _following(pending.table.rows["producer_id"], pending.at, markers.producer_id, markers.at)
    at, keys = removals
    if not len(at):
        return pending, marker
    removed_at = np.append(at, NEVER)[_following(pending.keys, pending.at, keys, at)]
    # Without a marker or a removal it is NEVER, after all records.
    kept = np.flatnonzero(np.append(markers.at, NEVER)[marker] <= removed_at)
    return pending.select(kept, pending.first[kept]), marker[kept]


def _following(owners: IntArray, at: IntArray, other_owners: IntArray, other_at: IntArray) -> IntArray:
    """Return for each row the index of the next of the other rows with the same owner, NO_FOLLOWING if there is none.

    Args:
        owners: the producer or the key of each row.
        at: number of the record of each row.
        other_owners: those of the other rows.
        other_at: number of the record of each other row.
    """
    count = len(at)
    owners = np.concatenate([owners, other_owners])
    order = np.lexsort((np.concatenate([at, other_at]), owners))
    slots = np.where(order >= count, np.arange(len(order)), len(order))
    following = np.minimum.accumulate(slots[::-1])[::-1]
    # Without a following row the slot is the one after the last, which is masked below.
    nexts = np.append(order, NO_FOLLOWING)[following]
    same_owner = (following < len(order)) & (owners[nexts] == owners[order])
    indexes = np.empty(len(order), "i8")
    indexes[order] = np.where(same_owner, nexts - count, NO_FOLLOWING)
    return indexes[:count]


def _dense(values: IntArray) -> IntArray:
    """Return the ranks of values among the distinct ones."""
    ranks: IntArray = np.unique(values, return_inverse=True)[1]
    return ranks


def _combined(major: IntArray, minor: IntArray) -> IntArray:
    """Return one number for each pair, in the order of the first and then the second."""
    return (major - NO_FOLLOWING) * (int(minor.max()) + 1) + minor
