"""Recognizes partitions that moved to another log directory of their broker: nothing of them is missing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import NamedTuple

from kforensics.errors import InputError
from kforensics.forensics.partition.log_dirs import CLEANER, LIVE, LogDir
from kforensics.parsers.files.folders import folders_of
from kforensics.parsers.files.log_names import parse_file_name, parse_folder_name

__all__ = ["LogPlace", "first_dirty_elsewhere", "folders_in", "lists_log", "moved_away", "partitions_in"]


class LogPlace(NamedTuple):
    """Where a partition is, and whether its log is there.

    Attributes:
        cluster_id: cluster id of the log directory.
        broker_id: broker id of the log directory.
        log_dir: the log directory.
        directory_id: id of the log directory.
        topic: topic.
        partition: partition number.
        has_log: whether it has any segment, and not only empty ones that had data.
    """

    cluster_id: str | None
    broker_id: int | None
    log_dir: str | None
    directory_id: str | None
    topic: str | None
    partition: int | None
    has_log: bool


def moved_away(places: Sequence[LogPlace]) -> set[int]:
    """Return the indexes of partitions without a log that another log directory of the same broker has.

    A broker moves a partition by copying it to the other directory, and then deletes what is left.
    """
    lost = [number for number, place in enumerate(places) if not place.has_log and place.broker_id is not None]
    if not lost:
        return set()
    logs: dict[str | None, set[tuple[str | None, int | None]]] = {}
    owners: dict[str | None, LogPlace] = {}
    for place in places:
        if place.has_log:
            logs.setdefault(place.log_dir, set()).add((place.topic, place.partition))
            owners.setdefault(place.log_dir, place)
    return {
        number
        for number in lost
        if any(
            (places[number].topic, places[number].partition) in logs[path]
            and _are_of_one_broker(places[number], owner, logs)
            for path, owner in owners.items()
        )
    }


def _are_of_one_broker(
    place: LogPlace, other: LogPlace, logs: Mapping[str | None, AbstractSet[tuple[str | None, int | None]]]
) -> bool:
    """Return whether two log directories are those of one broker, and not two copies of one directory."""
    if place.log_dir == other.log_dir or place[:2] != other[:2]:
        return False
    if place.directory_id is not None and other.directory_id is not None:
        return place.directory_id != other.directory_id
    parents = {(path or "").rstrip("/").rpartition("/")[0] for path in (place.log_dir, other.log_dir)}
    return len(parents) == 1 and logs.get(place.log_dir, set()).isdisjoint(logs[other.log_dir])


def first_dirty_elsewhere(place: LogPlace, own: LogDir, log_dirs: Iterable[LogDir]) -> int | None:
    """Return the first dirty offset of a log that was moved by hand from another log directory; None if none shows it.

    Its entry in the cleaner checkpoint stays there. The cleaner goes on from it, because it reads the checkpoints of
    all log directories. A broker that moves a log moves the entry, too.
    Rules: ``LogCleanerManager.allCleanerCheckpoints``, ``LogCleanerManager.alterCheckpointDir``.

    Args:
        place: where the log is.
        own: its log directory.
        log_dirs: all log directories.
    """
    entries, broker, topic, number = own.checkpoints.get(CLEANER), place[:2], place.topic, place.partition
    if place.broker_id is None or topic is None or number is None or entries is None or (topic, number) in entries:
        return None
    found = list[int]()
    for other in log_dirs:
        dirty = other.checkpoints.get(CLEANER, {}).get((topic, number))
        if dirty is not None and (other.cluster_id, other.broker_id) == broker:
            logs = {path: partitions_in(path, LIVE) for path in (own.path, other.path)}
            left = LogPlace(*broker, other.path, other.directory_id, topic, number, has_log=False)
            if (topic, number) not in logs[other.path] and _are_of_one_broker(place, left, logs):
                found.append(dirty)
    return max(found, default=None)


def partitions_in(log_dir: str | None, state: str | None) -> set[tuple[str | None, int | None]]:
    """Return the partitions whose folders in a log directory have a state; none if it cannot be listed.

    Args:
        log_dir: the log directory, None if it is unknown.
        state: a state in the names of folders, None for any.
    """
    return {*folders_in(log_dir, state)}


def folders_in(log_dir: str | None, state: str | None) -> Mapping[tuple[str | None, int | None], list[str]]:
    """Return the paths of such folders by topic and partition, which may have several."""
    if log_dir is None:
        return {}
    try:
        mtime_ms = folders_of(log_dir).expand(log_dir)[0].mtime_ms
        return _folders(log_dir, state) if mtime_ms is None else _folders_as_of(log_dir, state, mtime_ms)
    except InputError:
        return {}


@lru_cache(maxsize=64)  # every partition of the log directory asks
def _folders_as_of(
    log_dir: str, state: str | None, _mtime_ms: int
) -> Mapping[tuple[str | None, int | None], list[str]]:
    return _folders(log_dir, state)


def _folders(log_dir: str, state: str | None) -> Mapping[tuple[str | None, int | None], list[str]]:
    folders: dict[tuple[str | None, int | None], list[str]] = {}
    for child in folders_of(log_dir).children(log_dir):
        name = parse_folder_name(child.name) if child.is_folder else None
        if name is not None and state in (None, name.state):
            folders.setdefault((name.topic, name.partition), []).append(child.path)
    return folders


def lists_log(folder: str, start: int = 0, given: Collection[int] = ()) -> bool:
    """Return whether a folder has a live ``.log`` file; the caller may have named only some of its files.

    Args:
        folder: folder of a partition.
        start: only segments whose base offset is not below this.
        given: base offsets of segments that do not count.
    """
    try:
        names = [parse_file_name(child.name) for child in folders_of(folder).children(folder)]
    except InputError:
        return True  # whoever cannot list the folder does not know
    logs = (name.base_offset or 0 for name in names if name is not None and (name.kind, name.state) == ("log", "live"))
    return any(base_offset >= start and base_offset not in given for base_offset in logs)
