"""Rows of ``groups`` and ``committed_offsets``, and the outcomes of transactions in rows of ``group_offsets``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.component_names import COMPONENTS, GroupNaming, group_naming
from kforensics.forensics.coordinators.consumer_groups.commits import Commits, GroupPartition
from kforensics.forensics.coordinators.consumer_groups.group_states import CLASSIC, GroupState
from kforensics.forensics.coordinators.coordinator_records import NONE, TopicPartition
from kforensics.forensics.coordinators.record_issues import CommitIssueKind
from kforensics.forensics.core.cluster_tables import COMMITTED_OFFSETS, GROUPS
from kforensics.forensics.core.record_arrays import free_unused
from kforensics.forensics.core.record_types import NO_TIME, TransactionOutcome
from kforensics.forensics.core.reporting import MOST
from kforensics.forensics.core.result_rows import Nullable, Rows, RowStream, Words, nullable
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.producer_history import transactions_before
from kforensics.parsers.format.array_types import Column, IntArray

__all__ = ["LAG_COLUMNS", "GroupList", "clients_of", "committed_rows", "group_rows", "offsets_of", "with_outcomes"]

# Rows of a part.
PART_ROWS = 1 << 14
# The columns with where an offset is in the log of its partition.
LAG_COLUMNS = (
    *("log_start_offset", "last_stable_offset", "high_watermark", "high_watermark_source", "log_end_offset"),
    *("lag", "stable_lag", "high_watermark_lag"),
)
# The columns that count partitions of a group.
COUNTS = ("partitions", "pending", "without_lag", "beyond_end")
OFFSET_COLUMNS = ("committed_topic", "committed_partition", *LAG_COLUMNS)
HIGH_WATERMARK_SOURCES = ("log end", "checkpoint")
OUTCOME_TEXTS = {
    TransactionOutcome.COMMITTED: "committed",
    TransactionOutcome.ABORTED: "aborted",
    TransactionOutcome.OPEN: "pending",
}


def committed_rows(cluster: Cluster) -> Iterator[RowStream]:
    """Yield the offsets in force of each partition of ``__consumer_offsets``, by group, topic and partition."""
    ends = _ends(cluster)
    for commits in cluster.commits:
        if commits.last:
            yield RowStream(COMMITTED_OFFSETS, partial(_rows_in_force, commits, ends))


class _Ends(NamedTuple):
    """Offsets of the log of a partition; the high watermark is NONE if no checkpoint has it."""

    log_end_offset: int = 0
    last_stable_offset: int = 0
    log_start_offset: int = 0
    high_watermark: int = NONE


def _ends(cluster: Cluster) -> dict[TopicPartition, _Ends]:
    """Return the offsets of the logs of the partitions among the files."""
    return {
        markers.name: _Ends(
            markers.log_end_offset,
            markers.last_stable_offset,
            markers.visible_start_offset,
            NONE if markers.high_watermark is None else markers.high_watermark,
        )
        for markers in cluster.marker_join.by_partition.values()
    }


def offsets_of(cluster: Cluster, commits: Commits, group: str) -> Iterator[tuple[GroupPartition, dict[str, Any]]]:
    """Yield the offsets of a group in force, by topic and partition, and OFFSET_COLUMNS of ``committed_offsets``.

    Args:
        cluster: the cluster, with the committed partitions as far as they are available.
        commits: the partition of ``__consumer_offsets`` with the group.
        group: the group.
    """
    codes, names = commits.last.keys_by_row.named("group")
    if group in names:
        rows = np.flatnonzero(codes == names.index(group))
        rows = rows[commits.last.keys_by_row.take(rows).sorted_indexes()]
        columns = {**commits.place._asdict(), **_columns(commits, _ends(cluster), rows)}
        for values in Rows(COMMITTED_OFFSETS, len(rows), columns).only(*OFFSET_COLUMNS):
            row = dict(zip(OFFSET_COLUMNS, values, strict=True))
            yield (group, row["committed_topic"], row["committed_partition"]), row


def _rows_in_force(commits: Commits, ends: Mapping[TopicPartition, _Ends]) -> Iterator[Rows]:
    """Yield the offsets in force in one partition of ``__consumer_offsets``.

    Args:
        commits: the partition.
        ends: the offsets of the logs of the committed partitions among the files.
    """
    order = commits.last.keys_by_row.sorted_indexes()
    free_unused()
    for first in range(0, len(order), PART_ROWS):
        columns = _columns(commits, ends, order[first : first + PART_ROWS])
        yield Rows(COMMITTED_OFFSETS, len(columns["position"]), {**commits.place._asdict(), **columns})


def _columns(commits: Commits, ends: Mapping[TopicPartition, _Ends], indexes: IntArray) -> dict[str, Any]:
    """Return the columns of some commits, by index."""
    keys, table = commits.last.keys_by_row.take(indexes), commits.last.table.select(indexes)
    rows, none_committed = table.rows, table.rows["producer_id"] == NONE
    partitions, codes = commits.last.partitions
    known = [ends.get(name) for name in partitions]
    is_unknown = np.array([pair is None for pair in known])[codes[indexes]]
    end, stable, start, high = np.array([one or _Ends() for one in known], "i8")[codes[indexes]].T
    has_checkpoint = high != NONE
    source = Words(np.where(is_unknown, NONE, has_checkpoint), HIGH_WATERMARK_SOURCES)
    return {
        "group": Words(*keys.named("group")),
        "committed_topic": Words(*keys.named("topic")),
        "committed_partition": keys.rows["partition"],
        "committed_offset": rows["committed"],
        "committed_leader_epoch": nullable(rows["leader_epoch"], NONE),
        "metadata": table.metadata.tolist(),
        "committed_topic_id": [text.decode("ascii") or None for text in rows["topic_id"].tolist()],
        "transactional": ~none_committed,
        **{name: nullable(rows[name], none_committed) for name in ("producer_id", "producer_epoch")},
        "effective_timestamp": nullable(rows["time"], NO_TIME),
        "pending": commits.last.is_waiting[indexes],
        "log_end_offset": nullable(end, is_unknown),
        "last_stable_offset": nullable(stable, is_unknown),
        "lag": nullable(end - rows["committed"], is_unknown),
        "stable_lag": nullable(stable - rows["committed"], is_unknown),
        "log_start_offset": nullable(start, is_unknown),
        "high_watermark": nullable(high, is_unknown | ~has_checkpoint),
        "high_watermark_source": source,
        "high_watermark_lag": nullable(np.where(has_checkpoint, high, end) - rows["committed"], is_unknown),
        "path": Words(rows["segment"], commits.paths),
        **{name: rows[name] for name in ("position", "offset")},
    }


@dataclass(frozen=True, slots=True)
class GroupList:
    """The groups of a cluster.

    Attributes:
        cluster: name of the cluster.
        coordinators: how many partitions of ``__consumer_offsets`` are available.
        parts: rows of the table ``groups``, by coordinator partition.
        is_counted: whether the resets of all groups are counted; there may be too many to keep.
        lagging: how many of these partitions are out of sync, so that their leaders may have later offsets.
    """

    cluster: str
    coordinators: int
    parts: tuple[Rows, ...]
    is_counted: bool = True
    lagging: int = 0

    @property
    def rows(self) -> Iterator[Rows]:
        """The rows."""
        return iter(self.parts)


def group_rows(cluster: Cluster, partitions: Collection[TopicPartition] | None = None) -> GroupList:
    """Return the groups of a cluster by name, with what they have committed.

    Args:
        cluster: the cluster, with the logs of committed partitions as far as they are available.
        partitions: only offsets of these partitions, and groups that have any; None for all.
    """
    parts = tuple(_group_part(cluster, commits, partitions) for commits in cluster.commits)
    is_counted = all(commits.reset_count <= MOST for commits in cluster.commits)
    lagging = sum(commits.lagging_since is not None for commits in cluster.commits)
    return GroupList("", len(cluster.commits), tuple(part for part in parts if len(part)), is_counted, lagging)


class _Offsets:
    """What a group has committed: numbers of partitions, lags, and the time of the last commit."""

    def __init__(self) -> None:
        self.partitions = self.pending = self.lag = self.stable_lag = self.high_watermark_lag = 0
        self.without_lag = self.beyond_end = 0
        self.last_time = NO_TIME
        self.topics = set[str]()

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row of ``committed_offsets``."""
        self.partitions += 1
        self.topics.add(row["committed_topic"])
        self.pending += bool(row["pending"])
        if row["lag"] is None:
            self.without_lag += 1
        else:
            # An offset beyond the end of one partition has not read the records of another.
            self.lag += max(row["lag"], 0)
            self.stable_lag += max(row["stable_lag"], 0)
            self.high_watermark_lag += max(row["high_watermark_lag"], 0)
            self.beyond_end += row["lag"] < 0
        if row["effective_timestamp"] is not None:
            self.last_time = max(self.last_time, row["effective_timestamp"])


def _group_part(cluster: Cluster, commits: Commits, partitions: Collection[TopicPartition] | None) -> Rows:
    """Return the groups of one partition of ``__consumer_offsets``."""
    offsets, resets = dict[str, _Offsets](), Counter[str]()
    names = (
        *("group", "committed_topic", "committed_partition", "pending", "effective_timestamp"),
        *("lag", "stable_lag", "high_watermark_lag"),
    )
    for part in _rows_in_force(commits, _ends(cluster)):
        for values in part.only(*names):
            row = dict(zip(names, values, strict=True))
            if partitions is None or (row["committed_topic"], row["committed_partition"]) in partitions:
                offsets.setdefault(row["group"], _Offsets()).add(row)
    for group, topic, partition in commits.waiting - set(commits.last):
        if partitions is None or (topic, partition) in partitions:
            offsets.setdefault(group, _Offsets()).pending += 1
    resets.update(reset.key[0] for reset in commits.resets)
    resets.update(issue.key[0] for issue in commits.issues if issue.kind is CommitIssueKind.REGRESSED)
    groups = sorted({*commits.groups, *commits.states} if partitions is None else offsets)
    known = [(name, commits.states.get(name), offsets.get(name, _Offsets())) for name in groups]
    with_commits = [
        (state, bool(sums.partitions or sums.pending or name in commits.without_offsets)) for name, state, sums in known
    ]
    columns = {
        "group": groups,
        **_state_columns(with_commits),
        **{name: [getattr(sums, name) for *_, sums in known] for name in COUNTS},
        **{
            name: [getattr(sums, name) if sums.partitions > sums.without_lag else None for *_, sums in known]
            for name in ("lag", "stable_lag", "high_watermark_lag")
        },
        "resets": [resets[name] for name in groups],
        "last_commit_timestamp": [_known_time(sums.last_time) for *_, sums in known],
        **_component_columns([group_naming(name, state, sums.topics) for name, state, sums in known]),
    }
    return Rows(GROUPS, len(groups), {**commits.place._asdict(), **columns})


def _state_columns(states: list[tuple[GroupState | None, bool]]) -> dict[str, Any]:
    """Return the columns of the states of groups, and of groups without records of their own that had commits.

    Rule: ``OffsetMetadataManager.replay``. A commit creates the group, which stays without offsets until its removal is
    written; a tombstone creates none.
    """
    known = [state for state, _ in states]
    return {
        "type": [state.kind if state else CLASSIC for state in known],
        "state": [state.name if state else "Empty" if has_commits else "Dead" for state, has_commits in states],
        "generation": [state.generation if state and state.generation != NONE else None for state in known],
        "protocol": [state.protocol if state else None for state in known],
        "members": [len(state.members) if state else 0 for state in known],
        "clients": [clients_of(state) if state else None for state in known],
        "emptied_timestamp": [_known_time(state.emptied) if state else None for state in known],
    }


def _component_columns(namings: list[GroupNaming | None]) -> dict[str, list[str | None]]:
    return {
        "component": [COMPONENTS[naming.component] if naming else None for naming in namings],
        "component_source": [naming.source if naming else None for naming in namings],
        "component_next": [naming.next_step if naming else None for naming in namings],
    }


def clients_of(state: GroupState) -> str | None:
    """Return the client ids of the members of a group, each once, with commas; None without members."""
    return ",".join(sorted({*state.members.values()})) if state.members else None


def _known_time(time: int) -> int | None:
    return None if time == NO_TIME else time


def with_outcomes(state: PartitionState, rows: Rows) -> Rows:
    """Return rows of ``group_offsets`` with the outcomes of their transactions.

    Args:
        state: the state of the partition of ``__consumer_offsets``.
        rows: some of its records, in the order of the log.
    """
    producers, offsets = _numbers(rows.columns["producer_id"]), _numbers(rows.columns["offset"])
    codes = np.full(len(rows), NONE, "i8")
    transactional = np.flatnonzero(_numbers(rows.columns["transactional"]) & (producers != NONE))
    # The last transaction that begins at the record or before it, unless it ended before the record.
    transactions = transactions_before(state, producers[transactional], offsets[transactional] + 1)
    inside = (transactions["producer_id"] != NONE) & (transactions["last_offset"] >= offsets[transactional])
    outcomes = list(OUTCOME_TEXTS)
    codes[transactional[inside]] = [
        outcomes.index(TransactionOutcome(outcome)) for outcome in transactions["outcome"][inside].tolist()
    ]
    return replace(rows, columns={**rows.columns, "outcome": Words(codes, tuple(OUTCOME_TEXTS.values()))})


def _numbers(column: Any) -> Column:
    """Return a column as numbers, NONE for null."""
    if isinstance(column, Nullable):
        return np.where(column.null, NONE, column.numbers)
    return np.asarray(column)
