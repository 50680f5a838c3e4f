"""What a cluster was at an offset or a time, by its metadata log: the answer of ``cluster``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

from kforensics.analyses.partitions import Investigation, OnUnreadable
from kforensics.analyses.questions import Answer, Question
from kforensics.analyses.times import parse_time
from kforensics.analyses.topics import is_selected
from kforensics.errors import InputError, UsageError
from kforensics.forensics.checks.check import findings_of
from kforensics.forensics.checks.partition import metadata_snapshots
from kforensics.forensics.core.formatting import format_time
from kforensics.forensics.metadata.cluster_metadata import in_force, longest_copy, replay_start
from kforensics.forensics.metadata.image_changes import (
    Change,
    HistoryStep,
    Touched,
    change_rows,
    changes_between,
    history_of,
    history_rows,
    selected_changes,
    touched_between,
)
from kforensics.forensics.metadata.image_entities import Entity, EntityFilter, entity_rows, stream_of
from kforensics.forensics.metadata.image_replay import ImageReplay
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.files.log_names import METADATA_TOPIC
from kforensics.parsers.log.log_rows import Place

__all__ = ["ClusterAnswer", "ClusterQuestion", "Point"]

ALL = EntityFilter()
CHECKS = (metadata_snapshots.CHECK,)
# Smaller numbers are offsets, larger ones times in ms: 2001-09-09.
FIRST_TIME = 10**12
DIFF = "--diff {!r} is not a pair; write --diff 1200..1300, two times, or two log directories among the paths"


class Point(NamedTuple):
    """A point of a metadata log.

    Attributes:
        offset: all records below this offset.
        time_ms: all records up to this time.
        path: all records of the copy in this folder.
    """

    offset: int | None = None
    time_ms: int | None = None
    path: str | None = None

    @classmethod
    def of(cls, text: str, zone: tzinfo = UTC) -> Point | None:
        """Return the point of a log that a user names by an offset or a time, None if it is neither."""
        time = parse_time(text, zone)
        if time is None or time < 0:
            return None
        is_offset = text.isdecimal() and time < FIRST_TIME
        return cls(offset=time) if is_offset else cls(time_ms=time)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAnswer(Answer):
    """The image of a cluster, what changed in it, or the history of one of its partitions.

    Attributes:
        name: name of the cluster; empty if it is unknown.
        where: where its metadata log is.
        replay: its image; None if there is no metadata log.
        selection: which of its entities to show.
        entities: what log directories alone show, if there is no metadata log.
        before: the earlier image, if changes are asked for.
        changes: what changed since then.
        partition: the partition whose history is asked for.
        steps: its history.
    """

    name: str
    where: Place
    replay: ImageReplay | None = None
    selection: EntityFilter = ALL
    entities: tuple[Entity, ...] = ()
    before: ImageReplay | None = None
    changes: tuple[Change, ...] = ()
    partition: str | None = None
    steps: tuple[HistoryStep, ...] = ()

    @property
    def place(self) -> Place:
        """Where the findings are."""
        return self.where


@dataclass(frozen=True, slots=True)
class ClusterQuestion(Question[ClusterAnswer]):
    """What was a cluster?

    Attributes:
        at: offset or time as text; None for the end of the log.
        diff: two of them, or two log directories, with ``..`` between; None for one image.
        history: a partition as ``TOPIC-PARTITION``; None for the image.
        broker: only what concerns this node; None for all.
        topics: only topics with these names or globs; everything if it is empty.
        numbers: only partitions with these numbers; all if it is empty.
        zone: the zone of times that name none.

    Raises:
        UsageError: a value cannot be read, or two of them do not go together.
    """

    at: str | None = None
    diff: str | None = None
    history: str | None = None
    broker: int | None = None
    topics: tuple[str, ...] = ()
    numbers: tuple[range, ...] = ()
    zone: tzinfo = UTC
    points: tuple[Point, ...] = field(init=False, default=())
    table: str = field(init=False, default="cluster_image")
    has_findings: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.diff is not None and (self.at is not None or self.history is not None):
            raise UsageError("--diff compares two images; leave --at and --history out")
        if self.diff is not None:
            object.__setattr__(self, "points", self._pair(self.diff))
            object.__setattr__(self, "table", "cluster_changes")
        elif self.at is not None:
            point = Point.of(self.at, self.zone)
            if point is None:
                raise UsageError(f"--at {self.at!r} is neither an offset nor a time; write 1200 or 2026-11-01T10:00")
            object.__setattr__(self, "points", (point,))
        if self.history is not None:
            _topic_partition(self.history)
            object.__setattr__(self, "table", "partition_history")

    def _pair(self, text: str) -> tuple[Point, Point]:
        position = text.find("..")
        while position >= 0:
            points = [self._point(part) for part in (text[:position], text[position + 2 :])]
            first, second = points
            if first is not None and second is not None and (first.path is None) == (second.path is None):
                for one, other in ((first.offset, second.offset), (first.time_ms, second.time_ms)):
                    if one is not None and other is not None and one > other:
                        raise UsageError(f"--diff {text!r} goes back; write the earlier one first")
                return first, second
            position = text.find("..", position + 1)
        raise UsageError(DIFF.format(text))

    def _point(self, text: str) -> Point | None:
        known = Point.of(text, self.zone)
        is_path = text and (Path(text).is_dir() or "://" in text)
        return known or (Point(path=text.rstrip("/")) if is_path else None)

    @property
    def selection(self) -> EntityFilter:
        """Which entities to show."""
        is_topic = partial(is_selected, patterns=self.topics) if self.topics else None
        return EntityFilter(is_topic, self.numbers, self.broker)

    def answers(self, investigation: Investigation, on_unreadable: OnUnreadable) -> Iterator[ClusterAnswer]:
        """Yield the answer for each cluster.

        Args:
            investigation: the partitions.
            on_unreadable: takes the error of a metadata log that cannot be read; the next cluster follows.

        Raises:
            UsageError: a log does not have the offset or time.
        """
        by_cluster: dict[str, list[Partition]] = {}
        for partition in (*investigation.partitions, *investigation.neighbors):
            by_cluster.setdefault(investigation.clusters.name_of(partition), []).append(partition)
        if self.points and self.points[0].path is not None:
            copies = [_copy_under(str(point.path), by_cluster) for point in self.points]
            yield self._changes(investigation.clusters.name_of(copies[1]), copies[0], copies[1])
            return
        for name, partitions in sorted(by_cluster.items()):
            copies = [one for one in partitions if one.place.topic == METADATA_TOPIC and one.has_log]
            try:
                if copies:
                    metadata = longest_copy(in_force(copies) or copies)
                    states = investigation.of((metadata,)).states(on_unreadable, needs_settings=False)
                    findings = tuple(finding for state in states for finding in findings_of(state, CHECKS))
                    yield replace(self._answer(name, metadata), findings=findings)
                else:
                    yield self._without_metadata(name, partitions)
            except InputError as error:
                on_unreadable(error)

    def _answer(self, name: str, metadata: Partition) -> ClusterAnswer:
        if self.diff is not None:
            return self._changes(name, metadata, metadata)
        replay = _replay_of(metadata, self.points[0] if self.points else Point())
        if self.history is not None:
            return self._history(name, metadata, replay, self.history)
        _check_reached(replay.run(), self.points[0] if self.points else Point())
        rows = entity_rows(replay, self.selection)
        return ClusterAnswer(rows=rows, name=name, where=metadata.place, replay=replay, selection=self.selection)

    @staticmethod
    def _history(name: str, metadata: Partition, replay: ImageReplay, partition: str) -> ClusterAnswer:
        topic, number = _topic_partition(partition)
        steps = tuple(history_of(replay, topic, number))
        if not steps:
            raise UsageError(f"the metadata log has no partition {partition}; kforensics cluster --topic lists some")
        rows = history_rows(metadata.place, topic, number, steps)
        where = metadata.place
        return ClusterAnswer(rows=rows, name=name, where=where, replay=replay, partition=partition, steps=steps)

    def _changes(self, name: str, first: Partition, second: Partition) -> ClusterAnswer:
        before, after = (_replay_of(copy, point) for copy, point in zip((first, second), self.points, strict=True))
        _check_reached(before.run(), self.points[0])
        if _continues(before, after):
            touched = touched_between(after.begin(), before.offset)
        else:
            touched = Touched()
            after.run()
        _check_reached(after, self.points[1])
        changes = tuple(selected_changes(changes_between(before, after, touched), self.selection))
        rows = change_rows(second.place, changes)
        return ClusterAnswer(rows=rows, name=name, where=second.place, replay=after, before=before, changes=changes)

    def _without_metadata(self, name: str, partitions: Sequence[Partition]) -> ClusterAnswer:
        if self.diff is not None or self.history is not None or self.at is not None:
            options = "--at, --diff and --history need it"
            raise UsageError(f"there is no log of {METADATA_TOPIC} under or around the paths; {options}")
        shown = tuple(filter(self.selection.selects, entities_of_log_dirs(partitions)))
        place = Place(None, None, None, None)
        rows = stream_of(place, None, None, partial(iter, shown))
        return ClusterAnswer(rows=rows, name=name, where=place, entities=shown)


def _topic_partition(text: str) -> tuple[str, int]:
    topic, _, number = text.rpartition("-")
    if not topic or not (number.isdecimal() and number.isascii()):
        raise UsageError(
            f"--history {text!r} is not a partition; write the topic, a hyphen and the number, as in orders-0"
        )
    return topic, int(number)


def _copy_under(path: str, by_cluster: dict[str, list[Partition]]) -> Partition:
    copies = [
        partition
        for partitions in by_cluster.values()
        for partition in partitions
        if partition.place.topic == METADATA_TOPIC
        and partition.has_log
        and f"{partition.folder}/".startswith(f"{path}/")
    ]
    if not copies:
        raise UsageError(f"--diff: there is no log of {METADATA_TOPIC} in {path}; name it among the paths, too")
    return longest_copy(copies)


def _replay_of(metadata: Partition, point: Point) -> ImageReplay:
    return ImageReplay(metadata, at=point.offset, at_ms=point.time_ms)


def _check_reached(replay: ImageReplay, point: Point) -> None:
    """Check that a log has a point.

    Raises:
        UsageError: it begins later or ends earlier.
    """
    start, time = replay.start, replay.timestamp
    if not replay.is_complete:
        whole_start, snapshot = replay_start(replay.metadata)
        if snapshot is not None:
            raise UsageError(f"the metadata log is available from offset {whole_start} on; give a later offset or time")
    if (point.offset is not None and point.offset < start) or (
        point.time_ms is not None and replay.offset == start and time is not None and time > point.time_ms
    ):
        since = f", at {format_time(time)}" if time is not None and point.time_ms is not None else ""
        raise UsageError(f"the metadata log is available from offset {start} on{since}; give a later offset or time")
    if point.offset is not None and point.offset > replay.offset:
        raise UsageError(f"the metadata log ends at offset {replay.offset}; give this offset or a lower one")


def _continues(before: ImageReplay, after: ImageReplay) -> bool:
    """Return whether the log of the second image has the records after the first one."""
    is_one_log = before.metadata.log_dir.cluster_id == after.metadata.log_dir.cluster_id
    start, _ = replay_start(after.metadata, after.at)
    return is_one_log and start <= before.offset


def entities_of_log_dirs(partitions: Sequence[Partition]) -> Iterator[Entity]:
    """Yield what log directories alone show: brokers, topics and the replicas that are there.

    Args:
        partitions: the partitions of one cluster.
    """
    topics: dict[tuple[str, str | None], dict[int, set[int]]] = {}
    brokers: dict[int, set[str]] = {}
    for partition in partitions:
        broker, log_dir, topic, number = partition.place
        if broker is not None:
            brokers.setdefault(broker, set()).add(log_dir or "")
        if topic is not None and number is not None:
            replicas = topics.setdefault((topic, partition.topic_id), {}).setdefault(number, set())
            replicas.update(() if broker is None else (broker,))
    for broker, log_dirs in sorted(brokers.items()):
        yield Entity("broker", (broker,), str(broker), node_id=broker, value=",".join(sorted(log_dirs)))
    ordered = sorted(topics.items(), key=lambda item: (item[0][0], item[0][1] or ""))
    for (topic, topic_id), numbers in ordered:
        count = f"at least {max(numbers) + 1}"
        yield Entity("topic", (topic, topic_id), topic, topic=topic, topic_id=topic_id, value=count)
    for (topic, topic_id), numbers in ordered:
        for number, replicas in sorted(numbers.items()):
            owners = ",".join(map(str, sorted(replicas)))
            name, key = f"{topic}-{number}", (topic, topic_id, number)
            yield Entity("partition", key, name, topic=topic, topic_id=topic_id, number=number, value=owners)
