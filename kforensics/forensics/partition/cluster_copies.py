"""Distinguishes copies of one cluster that lie in different folders.

Evidence often has a broker twice: before and after a restart, on two days, or beside a backup of its disk. A broker has
a partition once, and a topic has one id, so that such copies show.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations, product, takewhile
from typing import TypeAlias

from kforensics.forensics.partition.log_places import partitions_in
from kforensics.parsers.files.log_names import METADATA_TOPIC

__all__ = ["CopiedLogDir", "copies_by_names", "copy_folders"]

# The paths that a path cannot be in one copy with.
_Conflicts: TypeAlias = Mapping[str, set[str]]


@dataclass(slots=True)
class CopiedLogDir:
    """What a log directory shows of the copy that it belongs to.

    Attributes:
        path: the directory.
        broker_id: id of its broker, None if it is unknown.
        directory_id: its id, None if it is unknown.
        partitions: topics and numbers of its partitions.
        topic_ids: topics with their ids.
        newest_ms: newest modification time of the files of its partitions, 0 if it is unknown.
    """

    path: str
    broker_id: int | None
    directory_id: str | None
    partitions: set[tuple[str | None, int | None]] = field(default_factory=set)
    topic_ids: set[tuple[str, str]] = field(default_factory=set)
    newest_ms: int = 0

    def add(self, topic: str, partition: int | None, topic_id: str | None, newest_ms: int | None) -> None:
        """Add a partition; the metadata log of every cluster has the same topic id."""
        self.partitions.add((topic, partition))
        self.newest_ms = max(self.newest_ms, newest_ms or 0)
        if topic_id is not None and topic != METADATA_TOPIC:
            self.topic_ids.add((topic, topic_id))


@dataclass(slots=True)
class _Copy:
    """Log directories of one copy.

    Attributes:
        log_dirs: the log directories.
        others: paths that cannot be of this copy.
        parents: the folders that they lie in.
        topic_ids: topics with their ids.
    """

    log_dirs: list[CopiedLogDir]
    others: set[str]
    parents: set[str]
    topic_ids: set[tuple[str, str]]

    @classmethod
    def of(cls, log_dirs: list[CopiedLogDir], conflicts: _Conflicts) -> _Copy:
        others = {path for each in log_dirs for path in conflicts.get(each.path, ())}
        topic_ids = {topic_id for each in log_dirs for topic_id in each.topic_ids}
        return cls(log_dirs, others, {_parent(each.path) for each in log_dirs}, topic_ids)

    @property
    def is_possible(self) -> bool:
        return all(each.path not in self.others for each in self.log_dirs)

    def may_have(self, other: _Copy) -> bool:
        """Return whether other log directories may be of this copy: nothing speaks against it, and something for it.

        Clusters may have been set up with the same id. Then they have no topic with the same id.
        """
        is_related = not self.parents.isdisjoint(other.parents) or not self.topic_ids.isdisjoint(other.topic_ids)
        return is_related and all(each.path not in self.others for each in other.log_dirs)

    def add(self, other: _Copy) -> None:
        self.log_dirs += other.log_dirs
        self.others |= other.others
        self.parents |= other.parents
        self.topic_ids |= other.topic_ids


def copy_folders(log_dirs: Sequence[CopiedLogDir]) -> dict[str, str]:
    """Return for each log directory of a cluster the folder that names its copy; empty if there is one copy.

    Log directories belong to one copy if they lie in the same folder, unless it has a broker twice. Then the newest of
    its folders that can be of one copy are, if they lie side by side or share the id of a topic; the next ones are of
    another copy, and so on.
    """
    conflicts = defaultdict[str, set[str]](set)
    for one, other in (*_of_brokers(log_dirs), *_of_topics(log_dirs)):
        conflicts[one].add(other)
        conflicts[other].add(one)
    if not conflicts:
        return {}
    copies = _copies(sorted(log_dirs, key=lambda each: each.path), 0, conflicts)
    folders = [_common_folder([each.path for each in copy.log_dirs]) for copy in copies]
    several = {folder for folder, count in Counter(folders).items() if count > 1}
    return {
        each.path: copy.log_dirs[0].path if folder in several else folder
        for copy, folder in zip(copies, folders, strict=True)
        for each in copy.log_dirs
    }


def copies_by_names(identities: Mapping[str, tuple[int | None, str | None]]) -> dict[str, str]:
    """Return what :func:`copy_folders` does, by the names of folders; empty if each broker has one log directory.

    Args:
        identities: broker id and directory id by log directory.
    """
    if len({broker_id for broker_id, _ in identities.values()}) == len(identities):
        return {}
    return copy_folders([CopiedLogDir(path, *ids, partitions_in(path, None)) for path, ids in identities.items()])


def _of_brokers(log_dirs: Iterable[CopiedLogDir]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of log directories that are copies of one."""
    brokers = defaultdict[int, list[CopiedLogDir]](list)
    for each in log_dirs:
        if each.broker_id is not None:
            brokers[each.broker_id].append(each)
    for of_broker in brokers.values():
        yield from ((one.path, other.path) for one, other in combinations(of_broker, 2) if _are_copies(one, other))


def _are_copies(one: CopiedLogDir, other: CopiedLogDir) -> bool:
    """Return whether two log directories with the same broker id are copies of one, rather than two disks of a broker.

    Disks of a broker have ids of their own since 3.7, are mostly side by side, and share a partition only if it was
    moved, or deleted and created again, while they were copied. In other folders they may be of clusters that were set
    up with the same cluster id, or of a disk that was formatted again.
    """
    shared = len(one.partitions & other.partitions)
    if not shared:
        return False
    has_ids, is_beside = None not in (one.directory_id, other.directory_id), _parent(one.path) == _parent(other.path)
    if has_ids and (is_beside or one.directory_id == other.directory_id):
        return one.directory_id == other.directory_id
    if not has_ids and not is_beside:
        return True
    return 2 * shared >= min(len(one.partitions), len(other.partitions))


def _of_topics(log_dirs: Iterable[CopiedLogDir]) -> Iterator[tuple[str, str]]:
    """Yield the pairs of log directories that have other ids of a topic, and no topic with the same id.

    A topic that was deleted and created again between the copies of two brokers also has two ids, but then these
    brokers share the ids of other topics.
    """
    topics = defaultdict[str, dict[str, list[str]]](lambda: defaultdict(list))
    for each in log_dirs:
        for topic, topic_id in each.topic_ids:
            topics[topic][topic_id].append(each.path)
    single_ids = (ids.values() for ids in topics.values() if len(ids) == 1)
    shared = {pair for (paths,) in single_ids for pair in permutations(paths, 2)}
    for ids in topics.values():
        for left, right in combinations(ids.values(), 2):
            yield from (pair for pair in product(left, right) if pair[0] != pair[1] and pair not in shared)


def _copies(log_dirs: list[CopiedLogDir], depth: int, conflicts: _Conflicts) -> list[_Copy]:
    """Return the copies, those of most log directories and then the newest first.

    Args:
        log_dirs: log directories whose paths begin with the same names.
        depth: how many names these are.
        conflicts: the paths that cannot be of one copy.
    """
    whole = _Copy.of(log_dirs, conflicts)
    if whole.is_possible:
        return [whole]
    folders = defaultdict[tuple[str, ...], list[CopiedLogDir]](list)
    for each in log_dirs:
        names = each.path.split("/")
        folders[tuple(names[: depth + 1]) if depth < len(names) else (*names, each.path)].append(each)
    parts = [copy for inside in folders.values() for copy in _copies(inside, depth + 1, conflicts)]
    copies: list[_Copy] = []
    for part in sorted(parts, key=_rank):
        own = next((copy for copy in copies if copy.may_have(part)), None)
        if own is None:
            copies.append(part)
        else:
            own.add(part)
    return copies


def _rank(copy: _Copy) -> tuple[int, int, str]:
    newest_ms = max(each.newest_ms for each in copy.log_dirs)
    return -len(copy.log_dirs), -newest_ms, copy.log_dirs[0].path


def _common_folder(paths: Sequence[str]) -> str:
    """Return the deepest folder that contains all log directories."""
    folders = zip(*(_parent(path).split("/") for path in paths), strict=False)
    common = [names[0] for names in takewhile(lambda names: len({*names}) == 1, folders)]
    return "/".join(common) or (os.sep if common else os.curdir)


def _parent(log_dir: str) -> str:
    return log_dir.rstrip("/").rpartition("/")[0]
