"""The question of ``mirror``: what did MirrorMaker make of the records, transactions and offsets of a topic?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kforensics.analyses.partitions import NO_LOG, OnUnreadable
from kforensics.analyses.topics import check_topics, is_numbered, is_selected
from kforensics.errors import InputError, UsageError
from kforensics.forensics.coordinators.consumer_groups.checkpoints import (
    CheckpointsInForce,
    checkpoint_alias,
    read_checkpoints,
)
from kforensics.forensics.coordinators.consumer_groups.commit_replay import commits_of
from kforensics.forensics.coordinators.consumer_groups.commits import Commits
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.mirrors.group_offsets import GroupRecords
from kforensics.forensics.mirrors.mirror_names import MirroredTopic, mirrored_topics, sync_alias
from kforensics.forensics.mirrors.mirror_rows import MirrorComparison, comparison_of
from kforensics.forensics.mirrors.offset_syncs import OffsetSync, read_offset_syncs
from kforensics.forensics.mirrors.record_matching import match_logs
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import CONSUMER_OFFSETS, Partition, partitions_of
from kforensics.parsers.files.discover import Notify, find_files
from kforensics.parsers.files.log_names import parse_folder_name
from kforensics.parsers.files.source import file_name
from kforensics.render.streams import watched, watcher

__all__ = ["MirrorRequest", "compare_mirrors"]

LogsByName = dict[tuple[str, int], Partition]


@dataclass(frozen=True, slots=True)
class MirrorRequest:
    """Which mirrors to compare with their sources.

    Attributes:
        source: log directories of the source cluster: a folder, a glob, an archive or a URI.
        target: those of the target cluster.
        topics: topics of the source, names or globs; all that have a mirror if it is empty.
        numbers: ranges of the numbers of partitions; all if it is empty.
        mirror_topic: the mirror of the only topic; None to find it by its name.
    """

    source: str
    target: str
    topics: tuple[str, ...] = ()
    numbers: tuple[range, ...] = ()
    mirror_topic: str | None = None

    @classmethod
    def of(
        cls, paths: Sequence[str], topics: Sequence[str], numbers: Sequence[range], mirror_topic: str | None
    ) -> MirrorRequest:
        """Return the request about two paths.

        Raises:
            UsageError: there are not two paths.
        """
        if len(paths) != 2:
            raise UsageError(
                "name two paths, the source and the target; of several brokers, their common folder or a glob in quotes"
            )
        return cls(paths[0], paths[1], tuple(topics), tuple(numbers), mirror_topic)


@dataclass(frozen=True, slots=True)
class _Side:
    """The logs of a cluster.

    Attributes:
        logs: the longest log of each partition.
        as_of_ms: when the newest of its files was written.
        is_complete: whether all files could be listed.
    """

    logs: LogsByName
    as_of_ms: int
    is_complete: bool

    @property
    def topics(self) -> set[str]:
        """The names of its topics."""
        return {topic for topic, _ in self.logs}


def compare_mirrors(request: MirrorRequest, notify: Notify, on_unreadable: OnUnreadable) -> Iterator[MirrorComparison]:
    """Return the comparison of each partition with its mirror, by topic and partition, as each is made.

    What is wrong with the request is raised at once, before a caller begins to write.

    Args:
        request: what to compare.
        notify: takes a sentence for each path that cannot be read.
        on_unreadable: takes the error of a partition that cannot be read; the next partition follows.

    Raises:
        UsageError: there is no log, no such topic, or no topic has a mirror.
    """
    source, target = _side(request.source, notify), _side(request.target, notify)
    if source.is_complete:
        check_topics(request.topics, source.topics)
    rules = Rules(max(source.as_of_ms, target.as_of_ms), is_assumed=True)
    compared = [
        (names, number, log, target.logs.get((names.mirror, number)))
        for names in _pairs(request, source, target)
        for (topic, number), log in sorted(source.logs.items(), key=lambda item: item[0])
        if topic == names.topic and is_numbered(number, request.numbers)
    ]
    return _comparisons(source, target, rules, compared, on_unreadable)


def _comparisons(
    source: _Side,
    target: _Side,
    rules: Rules,
    compared: Sequence[tuple[MirroredTopic, int, Partition, Partition | None]],
    on_unreadable: OnUnreadable,
) -> Iterator[MirrorComparison]:
    meter = watcher()
    meter.expect({each.folder: each.size for _, _, *logs in compared for each in logs if each is not None})
    groups = _group_records(source, target, rules, on_unreadable)
    for names, number, log, mirror in compared:
        try:
            syncs = _syncs(source.logs, target.logs, names, number) if mirror else ()
            logs = match_logs(log, mirror, rules) if mirror else None
            yield comparison_of(log.place, names, logs, syncs, groups.offsets_of(names, number))
        except InputError as error:
            on_unreadable(error)
        for each in (log, mirror):
            if each is not None:
                meter.finish(each.folder)


def _side(path: str, notify: Notify) -> _Side:
    files, unreadable = find_files([path], notify)
    copies = defaultdict[tuple[str, int], list[Partition]](list)
    for partition in partitions_of(files):
        name, place = parse_folder_name(file_name(partition.folder)), partition.place
        is_live = name is not None and name.state == "live"
        if partition.has_log and is_live and place.topic is not None and place.partition is not None:
            copies[place.topic, place.partition].append(partition)
    if not copies and not unreadable:
        raise UsageError(NO_LOG.format(path))
    logs = {name: max(every, key=_length) for name, every in copies.items()}
    return _Side(logs, max((file.mtime_ms or 0 for file in files), default=0), not unreadable)


def _length(log: Partition) -> tuple[int, int]:
    """Return what is larger for a replica that is further: the offset and size of its last segment."""
    return (log.segments[-1].base_offset or 0, log.segments[-1].size)


def _pairs(request: MirrorRequest, source: _Side, target: _Side) -> list[MirroredTopic]:
    topics = sorted(topic for topic in source.topics if is_selected(topic, request.topics))
    if request.mirror_topic is not None:
        if not request.topics or len(topics) != 1:
            raise UsageError("--mirror-topic names the mirror of one topic; name that with --topic")
        if target.is_complete:
            check_topics([request.mirror_topic], target.topics)
        return [MirroredTopic(topics[0], request.mirror_topic, None)]
    every = mirrored_topics(source.topics, target.topics)
    pairs = [names for names in every if names.topic in topics]
    if not pairs and source.is_complete and target.is_complete:
        raise UsageError(
            f"no topic under {request.target} is named as the mirror of one under {request.source}; "
            "name both with --topic and --mirror-topic"
        )
    return pairs


def _syncs(source: LogsByName, target: LogsByName, names: MirroredTopic, number: int) -> tuple[OffsetSync, ...]:
    """Return the offset syncs of a partition.

    On the source cluster their topic has the alias of the target cluster, which is not known here. If there are several
    such topics, none is taken, since the syncs may be about other mirrors.
    """
    on_source = [log for (topic, _), log in source.items() if sync_alias(topic) is not None]
    on_target = [
        log
        for (topic, _), log in target.items()
        if (alias := sync_alias(topic)) is not None and names.alias in (alias, None)
    ]
    candidates = on_source or on_target
    if len(candidates) != 1:
        return ()
    return tuple(read_offset_syncs(candidates[0]).get((names.topic, number), ()))


def _group_records(source: _Side, target: _Side, rules: Rules, on_unreadable: OnUnreadable) -> GroupRecords:
    """Return what both clusters show of the offsets of groups, without partitions that cannot be read."""
    checkpoints: CheckpointsInForce | None = None
    logs = sorted(target.logs.items(), key=lambda item: item[0])
    for log in watched([log for (topic, _), log in logs if checkpoint_alias(topic) is not None]):
        try:
            checkpoints = {**(checkpoints or {}), **read_checkpoints(log)}
        except InputError as error:
            on_unreadable(error)
    committed, own = (tuple(_commits(side, rules, on_unreadable)) for side in (source, target))
    return GroupRecords(committed, own, checkpoints)


def _commits(side: _Side, rules: Rules, on_unreadable: OnUnreadable) -> Iterator[Commits]:
    for log in watched([log for (topic, _), log in side.logs.items() if topic == CONSUMER_OFFSETS]):
        try:
            yield commits_of(examine(log, rules))
        except InputError as error:
            on_unreadable(error)
