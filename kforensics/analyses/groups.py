"""The groups of clusters, and the history of one of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter

from kforensics.analyses.connect import connector_in
from kforensics.analyses.explain import PartitionReader
from kforensics.analyses.partitions import Investigation, OnUnreadable, ignore
from kforensics.analyses.topics import check_topics, is_numbered, is_selected, similar
from kforensics.errors import InputError, UsageError
from kforensics.forensics.audit.cluster_result import best_commits, best_histories, best_replicas
from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.component_names import group_naming
from kforensics.forensics.coordinators.consumer_groups.checkpoints import checkpoint_alias, read_checkpoints
from kforensics.forensics.coordinators.consumer_groups.commit_replay import commits_of
from kforensics.forensics.coordinators.consumer_groups.commits import Commits
from kforensics.forensics.coordinators.consumer_groups.group_events import (
    GroupEvents,
    GroupStory,
    group_story,
    with_checkpoints,
    with_deliveries,
)
from kforensics.forensics.coordinators.consumer_groups.group_rows import GroupList, group_rows
from kforensics.forensics.coordinators.consumer_groups.share_states import share_partitions_of
from kforensics.forensics.coordinators.coordinator_records import NONE, TopicPartition
from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
from kforensics.forensics.coordinators.transactions.history import Coordinators
from kforensics.forensics.core.cluster_tables import GROUP_EVENTS, GROUPS
from kforensics.forensics.core.formatting import format_count
from kforensics.forensics.metadata.cluster_events import removed_topics_in
from kforensics.forensics.partition.partition_files import CONSUMER_OFFSETS, Partition
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.replica_ranks import ReplicaRank, best_ranked
from kforensics.parsers.files.log_names import SHARE_GROUP_STATE
from kforensics.parsers.tables.schemas import Table

__all__ = ["GroupsRequest", "answer_groups", "why_unknown_group"]

NO_COORDINATOR = f"no partition of {CONSUMER_OFFSETS} is under the paths; add its log directory"


@dataclass(frozen=True, slots=True)
class GroupsRequest:
    """Which groups are there, or what happened to one of them?

    Attributes:
        group: the group whose history to show; None for all groups.
        topics: only offsets of these topics, and groups that have any; all if it is empty.
        numbers: only offsets of partitions with these numbers; all if it is empty.
    """

    group: str | None = None
    topics: tuple[str, ...] = ()
    numbers: tuple[range, ...] = ()

    @property
    def table(self) -> Table:
        """The table of the rows."""
        return GROUPS if self.group is None else GROUP_EVENTS

    def selects(self, topic: str | None, number: int | None) -> bool:
        """Return whether the offsets of a partition are asked for."""
        return is_selected(topic, self.topics) and is_numbered(number, self.numbers)

    @property
    def is_partial(self) -> bool:
        """Whether only some topics or partitions are asked for."""
        return bool(self.topics or self.numbers)


def answer_groups(
    investigation: Investigation, request: GroupsRequest, on_unreadable: OnUnreadable
) -> Iterator[GroupList | GroupStory]:
    """Yield the groups of each cluster, or the history of one in each cluster that has it.

    Args:
        investigation: all partitions under the paths.
        request: what to show.
        on_unreadable: takes the error of a partition that cannot be read; the next partition follows.

    Raises:
        UsageError: no log of a group coordinator is under the paths, none has the group, or there is no such topic.
    """
    reader = PartitionReader(investigation, on_unreadable)
    everything = [one for one in (*investigation.partitions, *investigation.neighbors) if one.has_log]
    coordinators = _coordinators(investigation)
    if not coordinators and reader.is_complete:
        raise UsageError(NO_COORDINATOR)
    by_cluster = defaultdict[str, list[tuple[Commits, GroupEvents | None]]](list)
    for state in reader.states(coordinators):
        events = None if request.group is None else GroupEvents(request.group, state)
        try:
            commits = commits_of(
                state,
                None if events is None else events.take_commits,
                on_states=None if events is None else events.take_states,
            )
        except InputError as error:
            reader.skip(error)
        else:
            by_cluster[investigation.clusters.name_of(state.partition)].append((commits, events))
    if reader.is_complete:
        committed = {key[1] for replicas in by_cluster.values() for commits, _ in replicas for key in commits.last}
        check_topics(request.topics, committed | {one.place.topic for one in everything})
    for name, replicas in by_cluster.items():
        members = [one for one in everything if investigation.clusters.name_of(one) == name]
        yield from _answers(reader, request, members, replicas)
    if request.group is not None and reader.is_complete:
        _require_group(request.group, [[commits for commits, _ in replicas] for replicas in by_cluster.values()])


def _require_group(group: str, clusters: Iterable[list[Commits]]) -> None:
    """Raise an error if no cluster has a group, by the replicas that count."""
    known = set[str]()
    for replicas in clusters:
        best = best_commits(replicas)
        if any(group in _groups(commits) for commits in best):
            return
        newest = {commits.place.partition: commits.place.log_dir for commits in best}
        for place in (commits.place for commits in replicas if group in _groups(commits)):
            raise UsageError(
                f"there is no record of the group {group!r} in {CONSUMER_OFFSETS}-{place.partition} in "
                f"{newest[place.partition]}, which is newer than the one in {place.log_dir}, where it has some"
            )
        known.update(*map(_groups, best))
    raise UsageError(_unknown_group(group, known))


def why_unknown_group(investigation: Investigation, group: str) -> str | None:
    """Return the error for a group without a record in the logs of its coordinators; None if it has one."""
    reader = PartitionReader(investigation, ignore, needs_settings=False)
    known = set[str]()
    coordinators = _coordinators(investigation)
    for state in reader.states(coordinators):
        try:
            known |= _groups(commits_of(state))
        except InputError as error:
            reader.skip(error)
    if group in known:
        return None
    return _unknown_group(group, known) if coordinators else NO_COORDINATOR


def _unknown_group(group: str, known: set[str]) -> str:
    hint = (
        similar(group, sorted(known))
        or f"there {'is' if len(known) == 1 else 'are'} {format_count(len(known), 'group')}"
    )
    return f"there is no record of the group {group!r} in {CONSUMER_OFFSETS}; {hint}"


def _coordinators(investigation: Investigation) -> list[Partition]:
    everything = (*investigation.partitions, *investigation.neighbors)
    return [one for one in everything if one.has_log and one.place.topic == CONSUMER_OFFSETS]


def _groups(commits: Commits) -> set[str]:
    return {*commits.groups, *commits.states}


def _answers(
    reader: PartitionReader,
    request: GroupsRequest,
    members: list[Partition],
    replicas: list[tuple[Commits, GroupEvents | None]],
) -> Iterator[GroupList | GroupStory]:
    """Yield the groups of a cluster, or the history of the one that is asked for, if it has it."""
    best = best_commits(commits for commits, _ in replicas)
    if request.group is not None:
        best = [commits for commits in best if request.group in _groups(commits)]
    if not best:
        return
    cluster = _cluster(reader, members, best, request)
    if request.group is None:
        selected = _committed(best, request) if request.is_partial else None
        yield replace(group_rows(cluster, selected), cluster=reader.investigation.clusters.name_of(members[0]))
        return
    for commits, events in replicas:
        if events is not None and any(commits is one for one in best):
            story = group_story(cluster, commits, request.group, events)
            if story.state is not None and story.state.kind == "share":
                story = _with_deliveries(reader, story, members)
            story = _with_checkpoints(reader, _with_connector(reader, story, members), members)
            shown = (event for event in story.events if event.partition is None or request.selects(*event.partition))
            yield replace(story, events=tuple(shown))


def _with_deliveries(reader: PartitionReader, story: GroupStory, members: list[Partition]) -> GroupStory:
    """Return the history of a share group with the end of each of its partitions, from the logs of its state."""
    states = reader.states([one for one in members if one.place.topic == SHARE_GROUP_STATE])
    topics = {one.topic_id: one.place.topic for one in members if one.topic_id is not None and one.place.topic}
    for state in best_ranked(states, attrgetter("partition.place.partition"), ReplicaRank.of, _length):
        try:
            story = with_deliveries(story, state, share_partitions_of(state, story.group), topics)
        except InputError as error:
            reader.skip(error)
    return story


def _length(state: PartitionState) -> tuple[int]:
    return (state.log_end_offset,)


def _with_connector(reader: PartitionReader, story: GroupStory, members: list[Partition]) -> GroupStory:
    """Return the history of a group with what is known about its sink connector."""
    topics = [event.partition[0] for event in story.events if event.partition is not None]
    naming = group_naming(story.group, story.state, topics)
    if naming is None or naming.connector is None:
        return story
    name = reader.investigation.clusters.name_of(members[0])
    return replace(story, connector=connector_in(reader, name, naming.connector))


def _with_checkpoints(reader: PartitionReader, story: GroupStory, members: list[Partition]) -> GroupStory:
    """Return the history of a group with the last checkpoints of MirrorMaker, from the longest log of each source."""
    for alias in sorted({alias for one in members if (alias := checkpoint_alias(one.place.topic)) is not None}):
        logs = (one for one in members if checkpoint_alias(one.place.topic) == alias)
        log = max(logs, key=lambda one: (one.segments[-1].base_offset or 0, one.segments[-1].size))
        try:
            of_group = [one for one in read_checkpoints(log).values() if one.group == story.group]
        except InputError as error:
            reader.skip(error)
        else:
            story = with_checkpoints(story, of_group, alias, [segment.path for segment in log.segments])
    return story


def _committed(best: list[Commits], request: GroupsRequest) -> set[TopicPartition]:
    """Return the partitions with a committed offset that are asked for."""
    partitions = {key[1:] for commits in best for key in (*commits.last, *commits.waiting)}
    return {place for place in partitions if request.selects(*place)}


def _cluster(reader: PartitionReader, members: list[Partition], best: list[Commits], request: GroupsRequest) -> Cluster:
    """Return a cluster with its groups and the logs of the partitions that they have committed."""
    wanted = _committed(best, request) | {
        reset.key[1:] for commits in best for reset in commits.resets if request.group in (None, reset.key[0])
    }
    logs = [one for one in members if (one.place.topic, one.place.partition) in wanted]
    # With what is known of remote storage, which shows where a log starts.
    markers = best_replicas(map(PartitionMarkers.of, reader.investigation.of(logs).states(reader.skip)))
    rules = reader.investigation.known_rules.across({one.place.log_dir for one in members})
    cluster = Cluster.of((), markers, rules, commits=best)
    if request.group is not None and _has_transactional_resets(best, request.group):
        histories = reader.histories()[reader.investigation.clusters.name_of(members[0])]
        cluster = replace(cluster, coordinators=Coordinators.of(best_histories(histories)))
    try:
        return replace(cluster, removed_topics=removed_topics_in(members))
    except InputError as error:
        reader.skip(error)
        return cluster


def _has_transactional_resets(best: list[Commits], group: str) -> bool:
    """Return whether a transaction lowered an offset of a group; its coordinator knows whose it was."""
    changes = [(change.key, change.commit) for commits in best for change in commits.resets]
    changes += [(change.key, change.commit) for commits in best for change in commits.issues]
    return any(key[0] == group and commit.producer_id != NONE for key, commit in changes)
