"""Distinguishes copies of one cluster that lie in different folders.

Evidence often has a broker twice: before and after a restart, on two days, or beside a backup of its disk. A broker has
a partition once, and a topic has one id, so that such copies show.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product, takewhile
from typing import TypeAlias

from kforensics.parsers.files.log_names import METADATA_TOPIC

__all__ = ["LogDir", "copy_folders"]

_Pair: TypeAlias = frozenset[str]


@dataclass(slots=True)
class LogDir:
    """What a log directory shows of the copy that it belongs to.

    Attributes:
        path: the directory.
        broker_id: id of its broker, None if it is unknown.
        directory_id: its id, None if it is unknown.
        partitions: topics and numbers of its partitions.
        topic_ids: topics with their ids.
        extent: base offsets and sizes of all last segments, which grow as long as a broker runs.
    """

    path: str
    broker_id: int | None
    directory_id: str | None
    partitions: set[tuple[str, int | None]] = field(default_factory=set)
    topic_ids: set[tuple[str, str]] = field(default_factory=set)
    extent: int = 0

    def add(self, topic: str, partition: int | None, topic_id: str | None, last_segment: tuple[int, int]) -> None:
        """Add a partition; the metadata log of every cluster has the same topic id."""
        self.partitions.add((topic, partition))
        self.extent += sum(last_segment)
        if topic_id is not None and topic != METADATA_TOPIC:
            self.topic_ids.add((topic, topic_id))


def copy_folders(log_dirs: Sequence[LogDir]) -> dict[str, str]:
    """Return for each log directory of a cluster the folder that names its copy; empty if there is one copy.

    Log directories belong to one copy if they lie in the same folder, unless it has a broker twice. If a broker
    has two copies, its newest one stays with the other brokers.
    """
    conflicts = {*_of_brokers(log_dirs), *_of_topics(log_dirs)}
    if not conflicts:
        return {}
    groups = _groups(sorted(log_dirs, key=lambda each: each.path), 0, conflicts)
    names: dict[str, str] = {}
    for group in groups:
        folder = _common_folder([each.path for each in group])
        name = group[0].path if folder in names.values() else folder
        names.update((each.path, name) for each in group)
    return names


def _of_brokers(log_dirs: Iterable[LogDir]) -> Iterable[_Pair]:
    """Yield the pairs of log directories that are copies of one."""
    brokers = defaultdict[int, list[LogDir]](list)
    for each in log_dirs:
        if each.broker_id is not None:
            brokers[each.broker_id].append(each)
    for of_broker in brokers.values():
        yield from (frozenset((one.path, other.path)) for one, other in combinations(of_broker, 2) if _same(one, other))


def _same(one: LogDir, other: LogDir) -> bool:
    """Return whether two log directories with the same broker id are copies of one, rather than two disks of a broker.

    Disks of a broker have ids of their own since 3.7, are mostly side by side, and share a partition only if it was
    moved, or deleted and created again, while they were copied. In other folders they may be of clusters that were set
    up with the same cluster id, or of a disk that was formatted again.
    """
    shared = len(one.partitions & other.partitions)
    has_ids, is_beside = None not in (one.directory_id, other.directory_id), _parent(one.path) == _parent(other.path)
    if not shared or (has_ids and (is_beside or one.directory_id == other.directory_id)):
        return shared > 0 and one.directory_id == other.directory_id
    return not (has_ids or is_beside) or 2 * shared >= min(len(one.partitions), len(other.partitions))


def _of_topics(log_dirs: Iterable[LogDir]) -> Iterable[_Pair]:
    """Yield the pairs of log directories that have other ids of a topic, and no topic with the same id.

    A topic that was deleted and created again between the copies of two brokers also has two ids, but then these
    brokers share the ids of other topics.
    """
    topics = defaultdict[str, dict[str, list[str]]](lambda: defaultdict(list))
    for each in log_dirs:
        for topic, topic_id in each.topic_ids:
            topics[topic][topic_id].append(each.path)
    single_ids = (ids.values() for ids in topics.values() if len(ids) == 1)
    shared = {frozenset(pair) for (paths,) in single_ids for pair in combinations(paths, 2)}
    for ids in topics.values():
        for left, right in combinations(ids.values(), 2):
            yield from (pair for pair in map(frozenset, product(left, right)) if len(pair) > 1 and pair not in shared)


def _groups(log_dirs: list[LogDir], depth: int, conflicts: set[_Pair]) -> list[list[LogDir]]:
    """Return the copies, those of most log directories and then the newest first.

    Args:
        log_dirs: log directories whose paths begin with the same names.
        depth: how many names these are.
        conflicts: the pairs that cannot be of one copy.
    """
    if len(log_dirs) == 1 or not _conflict(log_dirs, conflicts):
        return [log_dirs]
    folders = defaultdict[str, list[LogDir]](list)
    for each in log_dirs:
        folders["".join(each.path.split("/")[depth : depth + 1])].append(each)
    parts = [group for inside in folders.values() for group in _groups(inside, depth + 1, conflicts)]
    groups: list[list[LogDir]] = []
    for part in sorted(parts, key=lambda part: (-len(part), -sum(each.extent for each in part), part[0].path)):
        own = next((group for group in groups if not _conflict([*group, *part], conflicts)), None)
        if own is None:
            groups.append(part)
        else:
            own += part
    return groups


def _conflict(log_dirs: Iterable[LogDir], conflicts: Iterable[_Pair]) -> bool:
    paths = {each.path for each in log_dirs}
    return any(pair <= paths for pair in conflicts)


def _common_folder(paths: Sequence[str]) -> str:
    """Return the deepest folder that contains all log directories."""
    folders = zip(*(_parent(path).split("/") for path in paths), strict=False)
    return "/".join(names[0] for names in takewhile(lambda names: len({*names}) == 1, folders)) or os.curdir


def _parent(log_dir: str) -> str:
    return log_dir.rstrip("/").rpartition("/")[0]
