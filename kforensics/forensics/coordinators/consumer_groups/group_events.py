"""The history of one group: its states, runs of its commits by partition, removals and resets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.connectors import Connector
from kforensics.forensics.coordinators.consumer_groups.checkpoints import Checkpoint
from kforensics.forensics.coordinators.consumer_groups.commit_columns import CommitColumns
from kforensics.forensics.coordinators.consumer_groups.commits import Commit, Commits, GroupPartition
from kforensics.forensics.coordinators.consumer_groups.committers import NO_COMMITTER, Committer, committer_of
from kforensics.forensics.coordinators.consumer_groups.group_coordinator import GroupCoordinator
from kforensics.forensics.coordinators.consumer_groups.group_lags import lags_of, out_of_range
from kforensics.forensics.coordinators.consumer_groups.group_rows import LAG_COLUMNS, clients_of
from kforensics.forensics.coordinators.consumer_groups.group_states import GroupRecord, GroupState, GroupStates
from kforensics.forensics.coordinators.consumer_groups.late_commits import LateCommits
from kforensics.forensics.coordinators.consumer_groups.reset_causes import ResetCause, reset_reason
from kforensics.forensics.coordinators.consumer_groups.share_states import SharePartition
from kforensics.forensics.coordinators.coordinator_records import NONE, TopicPartition
from kforensics.forensics.coordinators.record_issues import CommitIssueKind
from kforensics.forensics.core.cluster_tables import GROUP_EVENTS
from kforensics.forensics.core.record_types import NO_TIME, TransactionOutcome
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.partition.lost_end import missing_end
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.producer_history import transactions_before
from kforensics.parsers.log.log_rows import Place

__all__ = ["GroupEvent", "GroupEventKind", "GroupEvents", "GroupStory", "group_story"]


class GroupEventKind(StrEnum):
    """What happened to a group."""

    STATE = "state"
    COMMITS = "commits"
    ABORTED = "aborted"
    PENDING = "pending"
    REMOVED = "removed"
    RESET = "reset"
    LAG = "lag"
    OUT_OF_RANGE = "out-of-range"
    DELIVERY = "delivery"
    CHECKPOINT = "checkpoint"


# The columns with the member that made the commit of a reset.
MEMBER_COLUMNS = ("member", "client_id", "client_host")
OUTCOMES = {TransactionOutcome.ABORTED: GroupEventKind.ABORTED, TransactionOutcome.OPEN: GroupEventKind.PENDING}


class GroupEvent(NamedTuple):
    """An event in the history of a group, or a run of equal ones.

    Attributes:
        kind: what happened.
        record: its first record.
        last_time: timestamp of its last record, NO_TIME if unknown.
        times: how many records.
        partition: topic and partition, None for an event of the group.
        first: the committed offset, of a reset the one before, of a checkpoint that in the source; None if there is
            none.
        last: the last committed offset, of a checkpoint where the group goes on in the mirror.
        state: the state of the group, for an event of the group.
        cause: why, for a reset or an offset that is out of range.
        why: what shows the cause, or what was delivered, or what is missing; None if there is nothing to add.
        is_exact: whether the files leave no other explanation, and no record before can be missing.
        producer_id: producer id of a reset in a transaction, -1 for any other event.
        committer: who made the commit of a reset.
        lag: where a committed offset is in the log of its partition: the values of LAG_COLUMNS; None for other events.
        effective_offset: offset of the record with which it took effect, of a reset in a transaction, or of a commit
            whose offset was removed before, that of its marker; -1 for that of ``record``.
    """

    kind: GroupEventKind
    record: GroupRecord
    last_time: int
    times: int = 1
    partition: TopicPartition | None = None
    first: int | None = None
    last: int | None = None
    state: GroupState | None = None
    cause: str | None = None
    why: str | None = None
    is_exact: bool = True
    producer_id: int = NONE
    committer: Committer = NO_COMMITTER
    lag: Mapping[str, Any] | None = None
    effective_offset: int = NONE

    @property
    def order(self) -> tuple[int, bool]:
        """Sorts the events of a group by when they took effect; a reset follows the commit that made it."""
        return max(self.record.offset, self.effective_offset), self.kind is GroupEventKind.RESET


class GroupEvents:
    """Collects the events of one group from the chunks of its partition of ``__consumer_offsets``.

    Runs of commits grow with the rewinds of the group, not with its commits.

    Args:
        group: the group.
        state: the partition, whose transactions show which commits took effect.
    """

    def __init__(self, group: str, state: PartitionState) -> None:
        self._group, self._state = group, state
        self._open: dict[tuple[TopicPartition, GroupEventKind], GroupEvent] = {}
        self._late = LateCommits(GroupCoordinator.of(state))
        self._events, self._states = list[GroupEvent](), list[GroupEvent]()

    def take_states(self, states: GroupStates) -> None:
        """Take the states of groups after a chunk."""
        for state in states.changes_of(self._group):
            event = GroupEvent(GroupEventKind.STATE, state.record, state.record.time, state=state)
            event = event._replace(is_exact=state.record.offset >= self._state.first_uncompacted_offset)
            if self._states and self._states[-1].record[:2] == state.record[:2]:
                self._states[-1] = event  # the records of a batch take effect together
            else:
                self._states.append(event)

    def take_commits(self, commits: CommitColumns) -> None:
        """Take the commits of a chunk."""
        codes, names = commits.keys.named("group")
        if self._group not in names:
            return
        rows = np.flatnonzero(codes == names.index(self._group))
        kinds, markers = self._kinds(commits, rows)
        keys = commits.keys.take(rows)
        times = commits.times[rows].tolist()
        for row, time, kind, marker, (_, topic, partition) in zip(
            rows.tolist(), times, kinds, markers, keys, strict=True
        ):
            numbers = commits.rows[row]
            record = GroupRecord(commits.segment, int(numbers["position"]), int(numbers["offset"]), time)
            committed = None if kind is GroupEventKind.REMOVED else int(commits.committed[row])
            event = GroupEvent(kind, record, time, 1, (topic, partition), committed, committed)
            is_exact = record.offset >= self._state.first_uncompacted_offset
            event = event._replace(is_exact=is_exact, effective_offset=marker)
            for placed in self._late.take(event, is_removal=kind is GroupEventKind.REMOVED):
                self._add(placed)

    def _kinds(self, commits: CommitColumns, rows: np.ndarray) -> tuple[list[GroupEventKind], list[int]]:
        """Return what each record does, and the offset of the COMMIT with which it takes effect, else -1.

        It removes the offset, or commits one that takes effect, or not, or not yet.
        """
        markers = [NONE] * len(rows)
        kinds = [GroupEventKind.REMOVED if commits.is_tombstone[row] else GroupEventKind.COMMITS for row in rows]
        numbers = commits.rows[rows]
        transactional = np.flatnonzero(numbers["is_transactional"])
        producers, offsets = (numbers[name][transactional].astype("i8") for name in ("producer_id", "offset"))
        ended = transactions_before(self._state, producers, offsets + 1)
        for index, offset, row in zip(transactional.tolist(), offsets.tolist(), ended, strict=True):
            if row["producer_id"] != NONE and row["last_offset"] >= offset:
                kinds[index] = OUTCOMES.get(TransactionOutcome(row["outcome"]), kinds[index])
                markers[index] = int(row["marker_offset"]) if kinds[index] is GroupEventKind.COMMITS else NONE
        return kinds, markers

    def _add(self, event: GroupEvent) -> None:
        """Add an event of a partition to its run, or begin a new one."""
        place = event.partition or ("", NONE)
        run = self._open.get((place, event.kind))
        continues = run is not None and (event.first is None or (run.last is not None and event.first >= run.last))
        if run is not None and continues and run.why == event.why:
            self._open[place, event.kind] = run._replace(
                times=run.times + 1, last_time=event.last_time, last=event.last
            )
            return
        self._close(place)
        self._open[place, event.kind] = event

    def _close(self, place: TopicPartition) -> None:
        for kind in GroupEventKind:
            if run := self._open.pop((place, kind), None):
                self._events.append(run)

    def finish(self) -> list[GroupEvent]:
        """Return the events in the order of the log, after the last chunk."""
        for event in self._late.rest():
            self._add(event)
        for place, _ in list(self._open):
            self._close(place)
        states = (None, *self._states, None)
        changes = [
            _with_migration(before, event)
            for before, event, after in zip(states, states[1:], states[2:], strict=False)
            if event and not _is_migrated(event, after) and (before is None or not _is_same(before, event))
        ]
        return sorted([*self._events, *changes], key=lambda event: event.order)

    def with_effective_offsets(self, resets: Iterable[GroupEvent]) -> Iterator[GroupEvent]:
        """Yield resets with the offset of the marker with which those in transactions took effect."""
        resets = list(resets)
        producers = np.array([event.producer_id for event in resets], "i8")
        offsets = np.array([event.record.offset for event in resets], "i8")
        ended = transactions_before(self._state, producers, offsets + 1)
        for event, row in zip(resets, ended, strict=True):
            is_within = event.producer_id != NONE and row["last_offset"] >= event.record.offset
            yield event._replace(effective_offset=int(row["marker_offset"])) if is_within else event


def _is_migrated(event: GroupEvent, after: GroupEvent | None) -> bool:
    """Return whether the removal of a group is that of its records of another protocol, which it went on without.

    Both are one batch, whose new record compaction may have taken. A new group begins with generation 1.
    Rule: ``GroupMetadataManager.convertToClassicGroup`` and ``convertToConsumerGroup``.
    """
    state, following = event.state, after and after.state
    if state is None or following is None or state.removed_in is None or event.is_exact:
        return False
    return following.kind != state.kind and following.removed_in is None and following.generation > 1


def _with_migration(before: GroupEvent | None, event: GroupEvent) -> GroupEvent:
    """Return the state of a group; with its new type, if it has another one than before and was not removed."""
    if before is None or before.state is None or event.state is None or before.state.kind == event.state.kind:
        return event
    is_other_group = before.state.removed_in is not None and not _is_migrated(before, event)
    return event if is_other_group else event._replace(why=f"became {event.state.kind}")


def _is_same(before: GroupEvent, after: GroupEvent) -> bool:
    """Return whether nothing changed that is shown."""
    shown = ("kind", "name", "members", "generation", "protocol")
    return all(getattr(before.state, name) == getattr(after.state, name) for name in shown)


@dataclass(frozen=True, slots=True)
class GroupStory:
    """The history of a group.

    Attributes:
        group: its name.
        place: its partition of ``__consumer_offsets``.
        paths: paths of the segments of that partition.
        state: its last state, None if it has no records of its own: its offsets were committed without members.
        events: its events, in the order of the log.
        connector: what is known about the sink connector whose group it is; None if nothing is.
        lagging_since: as that of its commits.
        is_created: whether commits created it, and its coordinator still has it.
    """

    group: str
    place: Place
    paths: tuple[str, ...]
    state: GroupState | None
    events: tuple[GroupEvent, ...]
    connector: Connector | None = None
    lagging_since: int | None = None
    is_created: bool = False

    @property
    def state_name(self) -> str:
        """The state as Kafka's tools write it; a group without records of its own has been created by a commit."""
        return self.state.name if self.state is not None else "Empty" if self.is_created else "Dead"

    @property
    def rows(self) -> Iterator[Rows]:
        """The rows of the table ``group_events``."""
        events = self.events
        states = [event.state for event in events]
        members = [state if state is not None and state.members else None for state in states]
        columns = {
            "group": [self.group] * len(events),
            "event": [str(event.kind) for event in events],
            "times": [event.times for event in events],
            "first_timestamp": [_null(event.record.time) for event in events],
            "last_timestamp": [_null(event.last_time) for event in events],
            "committed_topic": [event.partition and event.partition[0] for event in events],
            "committed_partition": [event.partition and event.partition[1] for event in events],
            "first_committed": [event.first for event in events],
            "last_committed": [event.last for event in events],
            "state": [state and state.name for state in states],
            "generation": [state.generation if state and state.generation != NONE else None for state in states],
            "members": [None if state is None else len(state.members) for state in states],
            "clients": [state and clients_of(state) for state in members],
            "cause": [event.cause for event in events],
            "exact": [event.is_exact for event in events],
            "why": [event.why for event in events],
            **{name: [getattr(event.committer, name) for event in events] for name in MEMBER_COLUMNS},
            "producer_id": [None if event.producer_id == NONE else event.producer_id for event in events],
            "transactional_id": [event.committer.transactional_id for event in events],
            **{name: [event.lag and event.lag[name] for event in events] for name in LAG_COLUMNS},
            "path": [self.paths[event.record.segment] for event in events],
            "position": [event.record.position for event in events],
            "offset": [event.record.offset for event in events],
        }
        yield Rows(GROUP_EVENTS, len(events), {**self.place._asdict(), **columns})


def _null(time: int) -> int | None:
    return None if time == NO_TIME else time


def group_story(cluster: Cluster, commits: Commits, group: str, events: GroupEvents) -> GroupStory:
    """Return the history of a group with its resets and their causes, and at last where its offsets are in their logs.

    Args:
        cluster: the cluster, with the partitions of the group as far as they are available.
        commits: the partition of ``__consumer_offsets`` with the group.
        group: the group.
        events: collected its events from that partition.
    """
    resets = events.with_effective_offsets([*_resets(cluster, commits, group), *_regressions(cluster, commits, group)])
    together = sorted([*resets, *events.finish()], key=lambda event: event.order)
    story = (*together, *_at_the_end(cluster, commits, group))
    state, lagging = commits.states.get(group), commits.lagging_since
    created = commits.has_created(group)
    return GroupStory(group, commits.place, commits.paths, state, story, lagging_since=lagging, is_created=created)


def with_deliveries(
    story: GroupStory, state: PartitionState, deliveries: Iterable[SharePartition], topics: Mapping[str, str]
) -> GroupStory:
    """Return the history of a share group with what it has delivered of its partitions.

    Args:
        story: its history.
        state: the partition of ``__share_group_state`` with the group.
        deliveries: what that shows.
        topics: names of topics by their id.
    """
    events, is_at_end = [], missing_end(state) is None
    for one in sorted(deliveries, key=lambda one: (topics.get(one.topic_id, one.topic_id), one.partition)):
        record = one.record._replace(segment=len(story.paths) + one.record.segment)
        partition = (topics.get(one.topic_id, one.topic_id), one.partition)
        offsets = (one.start_offset if one.start_offset >= 0 else None, one.ranges[-1].last if one.ranges else None)
        kind, why, is_exact = GroupEventKind.DELIVERY, one.description, one.is_whole and is_at_end
        events.append(GroupEvent(kind, record, record.time, 1, partition, *offsets, why=why, is_exact=is_exact))
    paths = tuple(segment.path for segment in state.partition.segments)
    return replace(story, events=(*story.events, *events), paths=(*story.paths, *paths))


def with_checkpoints(
    story: GroupStory, checkpoints: Iterable[Checkpoint], alias: str, paths: Sequence[str]
) -> GroupStory:
    """Return the history of a group with the checkpoints that MirrorMaker has written of it in another cluster.

    Args:
        story: its history.
        checkpoints: the checkpoints of the group.
        alias: the alias of the source cluster.
        paths: paths of the segments with the checkpoints.
    """
    kind, why = GroupEventKind.CHECKPOINT, f"cluster {alias}"
    events = []
    for one in sorted(checkpoints, key=lambda one: one[:3]):
        record = one.record._replace(segment=len(story.paths) + one.record.segment)
        offsets = one.upstream_offset, one.offset
        events.append(GroupEvent(kind, record, record.time, 1, (one.topic, one.partition), *offsets, why=why))
    return replace(story, events=(*story.events, *events), paths=(*story.paths, *paths))


def _resets(cluster: Cluster, commits: Commits, group: str) -> Iterator[GroupEvent]:
    for reset in commits.resets:
        if reset.key[0] == group:
            reason, committer = reset_reason(cluster, reset), committer_of(cluster, *reset[:2], reset.group)
            before = None if reset.before is None else reset.before.committed
            event = _reset_event(reset.key, reset.commit, before, str(reason.cause))
            is_exact = reason.is_certain and commits.is_whole
            yield event._replace(why=reason.why, is_exact=is_exact, committer=committer)


def _regressions(cluster: Cluster, commits: Commits, group: str) -> Iterator[GroupEvent]:
    for issue in commits.issues:
        if issue.kind is CommitIssueKind.REGRESSED and issue.key[0] == group:
            committer = committer_of(cluster, issue.key, issue.commit, None)
            event = _reset_event(issue.key, issue.commit, issue.before.committed, str(ResetCause.TRANSACTION))
            yield event._replace(why=committer.why, is_exact=commits.is_whole, committer=committer)


def _reset_event(key: GroupPartition, commit: Commit, before: int | None, cause: str) -> GroupEvent:
    record = GroupRecord(commit.segment, commit.position, commit.offset, commit.time)
    event = GroupEvent(GroupEventKind.RESET, record, commit.time, 1, key[1:], before, commit.committed)
    return event._replace(cause=cause, producer_id=commit.producer_id)


def _at_the_end(cluster: Cluster, commits: Commits, group: str) -> Iterator[GroupEvent]:
    """Yield where the offsets in force are in their logs, then those that the logs do not have; without times."""
    for lag in lags_of(cluster, commits, group):
        event = _end_event(GroupEventKind.LAG, lag.key, lag.commit)
        yield event._replace(why=lag.why, is_exact=commits.is_whole, lag=lag.columns)
    for out in out_of_range(cluster, commits, group):
        event = _end_event(GroupEventKind.OUT_OF_RANGE, out.key, out.commit)
        yield event._replace(cause=str(out.cause), why=out.why, is_exact=out.is_certain)


def _end_event(kind: GroupEventKind, key: GroupPartition, commit: Commit) -> GroupEvent:
    record = GroupRecord(commit.segment, commit.position, commit.offset, NO_TIME)
    return GroupEvent(kind, record, NO_TIME, 1, key[1:], commit.committed, commit.committed)
