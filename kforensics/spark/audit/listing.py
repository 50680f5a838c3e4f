"""Lists the folders of a plan and finds the partitions in them. Runs on workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from kforensics.analyses.settings import may_show_settings
from kforensics.analyses.surroundings import (
    CONTEXT_TOPICS,
    FileTime,
    neighbors_of,
    newest_among,
    newest_around,
    partitions_around,
)
from kforensics.analyses.topics import check_topics, is_selected
from kforensics.errors import UsageError
from kforensics.forensics.audit.cluster_membership import PartitionMembership
from kforensics.forensics.partition.partition_files import (
    CLEANER,
    Partition,
    folder_of,
    forbidden_sidecars,
    partitions_of,
)
from kforensics.parsers.files.discover import (
    DeferredFolder,
    FoundFile,
    Owner,
    Unreadable,
    classified_by_suffix,
    discover_folder,
    discover_lazily,
)
from kforensics.parsers.files.input_paths import is_named
from kforensics.parsers.files.log_names import FolderName, parse_folder_name
from kforensics.parsers.files.source import file_name
from kforensics.spark.audit.serialization import deserialize, serialize

__all__ = [
    "CONTEXT",
    "FILES",
    "IN_ITEM",
    "PARTITION",
    "PLANNED",
    "UNREADABLE",
    "UNSELECTED",
    "PlanRow",
    "items_of",
    "list_item",
    "newest_listed",
    "rows_around",
    "topic_names",
    "topics_under",
]

FILES, FOLDER, PARTITION, UNREADABLE = "files", "folder", "partition", "unreadable"
# Partitions that are not to be audited: logs of coordinators and of metadata, and all that may show settings.
CONTEXT, UNSELECTED = "context", "unselected"
# A row of a plan: kind, number, cost, whether its files may show settings, and pickled: its cluster member (of files,
# the newest one) and the object.
PLANNED = pa.schema(
    [
        ("kind", pa.string()),
        ("number", pa.int64()),
        ("size", pa.int64()),
        ("segments", pa.int32()),
        ("largest", pa.int64()),
        ("mtime_ms", pa.int64()),
        ("taken_ms", pa.int64()),
        ("shows_settings", pa.bool_()),
        ("member", pa.binary()),
        ("payload", pa.binary()),
    ]
)
# Folders listed by one task: the checkpoints of their log directory are read once for them.
FOLDERS = 64
# Bits of a partition number for its position in the item, and of those for its position in the folder.
IN_ITEM, IN_FOLDER = 24, 12

PlanRow = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class RootFile:
    """A file of another log directory of the broker, which may have a partition, too, or have had it before.

    Attributes:
        file: the file, which another item lists.
    """

    file: FoundFile


Found = FoundFile | DeferredFolder | Unreadable | RootFile
# Files that show the broker of a log directory, whether it was shut down cleanly, and what its cleaner has done.
ROOT_NAMES = (CLEANER, "meta.properties", ".kafka_cleanshutdown")


def items_of(paths: Sequence[str]) -> Iterator[list[Found]]:
    """Yield what to list, in work items for one worker each.

    Args:
        paths: files, partition folders, log directories or folders above them, as paths, globs or URIs.
    """
    groups: dict[tuple[str, str | None], list[Found]] = {}
    for row in discover_lazily(paths):
        entry = classified_by_suffix(row) if isinstance(row, FoundFile) and is_named(row.path, paths) else row
        groups.setdefault(_group(entry), []).append(entry)
    roots: dict[int, list[FoundFile]] = {}
    for entry in (entry for entries in groups.values() for entry in entries if isinstance(entry, FoundFile)):
        if entry.broker_id is not None and entry.topic is None and file_name(entry.path) in ROOT_NAMES:
            roots.setdefault(entry.broker_id, []).append(entry)
    for (kind, _), entries in groups.items():
        step = FOLDERS if kind == FOLDER else len(entries)
        beside = _root_files_beside(entries[0], roots)
        for start in range(0, len(entries), step):
            yield [*entries[start : start + step], *beside]


def _root_files_beside(entry: Found, roots: Mapping[int, Sequence[FoundFile]]) -> list[RootFile]:
    """Return the root files of the other log directories of an entry's broker.

    Args:
        entry: an entry of an item.
        roots: root files by broker id.
    """
    owner = entry.owner if isinstance(entry, DeferredFolder) else entry
    if not isinstance(owner, (Owner, FoundFile)) or owner.broker_id is None:
        return []
    return [RootFile(file) for file in roots.get(owner.broker_id, ()) if file.log_dir != owner.log_dir]


def topics_under(paths: Sequence[str]) -> set[str]:
    """Return the topics under paths, by the names of folders alone."""
    entries = (entry for item in items_of(paths) for entry in item)
    names = (parse_folder_name(entry.entry.name) if isinstance(entry, DeferredFolder) else entry for entry in entries)
    return {name.topic for name in names if isinstance(name, (FolderName, FoundFile)) and name.topic is not None}


def topic_names(paths: Sequence[str], patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of topics for patterns; names stay as they are, because the workers look for them.

    Raises:
        UsageError: no topic matches.
    """
    if not any(character in pattern for pattern in patterns for character in "*?[!"):
        return patterns
    known = topics_under(paths)
    check_topics(patterns, known)
    names = tuple(sorted(topic for topic in known if is_selected(topic, patterns)))
    if not names:
        raise UsageError(f"no topic is left by --topic {' --topic '.join(patterns)}; leave one of them out")
    return names


def _group(entry: Found) -> tuple[str, str | None]:
    """Return what the entries of an item have in common: the files of one folder form one partition."""
    if isinstance(entry, DeferredFolder):
        return FOLDER, entry.owner.log_dir
    return (FILES, _folder(entry.path)) if isinstance(entry, FoundFile) else (UNREADABLE, None)


def _folder(path: str) -> str:
    return path.removesuffix(file_name(path))


def list_item(number: int, item: Sequence[Found], topics: Sequence[str]) -> Iterator[PlanRow]:
    """Yield the rows of the plan for a work item.

    Args:
        number: number of the item; the numbers of its rows follow from it and are the same whenever this runs.
        item: what to list.
        topics: audit only partitions of these topics; all if empty.
    """
    files: list[FoundFile] = []
    beside = [entry.file for entry in item if isinstance(entry, RootFile)]
    origin: dict[str, int] = {}
    for index, entry in enumerate(entry for entry in item if not isinstance(entry, RootFile)):
        for row in discover_folder(entry) if isinstance(entry, DeferredFolder) else [entry]:
            if isinstance(row, FoundFile):
                files.append(row)
                origin[folder_of(row)] = index if isinstance(entry, DeferredFolder) else 0
            else:
                yield _row(UNREADABLE, number << IN_ITEM, row)
    for error in forbidden_sidecars(file for file in files if not topics or file.topic in {None, *topics}):
        yield _row(UNREADABLE, number << IN_ITEM, Unreadable.of(error))
    if files:
        newest = newest_among(files)
        times = (newest.mtime_ms, None, None, serialize(newest)) if newest else (None, None, None, None)
        yield FILES, number << IN_ITEM, 0, 0, 0, *times, serialize(files)
    taken: Counter[int] = Counter()
    for partition in partitions_of([*files, *beside]):
        index = origin[partition.folder]
        own_number = number << IN_ITEM | index << IN_FOLDER | taken[index]
        if not topics or partition.place.topic in topics:
            yield _partition_row(PARTITION, own_number, partition)
        else:
            yield _unselected_row(own_number, partition)
            if partition.place.topic in CONTEXT_TOPICS:
                yield _partition_row(CONTEXT, own_number, partition)
        taken[index] += 1


def rows_around(number: int, members: Iterable[PartitionMembership]) -> Iterator[PlanRow]:
    """Yield the rows of a plan for partitions around those that were listed.

    Args:
        number: as for :func:`list_item`, after those of all work items.
        members: cluster memberships of the partitions that were listed.
    """
    places = {(member.log_dir, member.topic, member.partition) for member in members if member.log_dir is not None}
    log_dirs = {log_dir for log_dir, *_ in places}
    folders = {f"{(log_dir or '').rstrip('/')}/{topic}-{partition}" for log_dir, topic, partition in places}
    for index, partition in enumerate(neighbors_of(log_dirs, folders), number << IN_ITEM):
        yield _partition_row(CONTEXT, index, partition)
    for index, partition in enumerate(partitions_around(log_dirs, folders), number << IN_ITEM):
        yield _unselected_row(index, partition)


def newest_listed(
    newest: Iterable[bytes], members: Iterable[PartitionMembership], paths: Sequence[str]
) -> FileTime | None:
    """Return the newest file of the log directories of a plan, None if no time is known.

    Args:
        newest: the serialized newest file of each work item.
        members: cluster memberships of the partitions.
        paths: as for :func:`items_of`.
    """
    around = newest_around((member.log_dir for member in members), paths)
    return max((*map(deserialize, newest), *([around] if around else [])), default=None)


def _row(kind: str, number: int, value: Any) -> PlanRow:
    return kind, number, 0, 0, 0, None, None, None, None, serialize(value)


def _partition_row(kind: str, number: int, partition: Partition) -> PlanRow:
    sizes = [segment.size for segment in partition.segments]
    costs = sum(sizes), len(sizes), max(sizes, default=0), partition.newest_mtime_ms, partition.taken_ms
    shown = may_show_settings(partition)
    return kind, number, *costs, shown, serialize(PartitionMembership.of(partition)), serialize(_slim(partition))


def _unselected_row(number: int, partition: Partition) -> PlanRow:
    """Return the row of a partition that matters for the settings alone, with its files only if they may show some."""
    row = _partition_row(UNSELECTED, number, partition)
    return row if may_show_settings(partition) else (*row[:-1], b"")


def _slim(partition: Partition) -> Partition:
    """Return a partition whose log directory has only its own checkpoint lines, of possibly thousands."""
    whole, place = partition.log_dir, partition.place
    checkpoints: dict[str, dict[tuple[str, int], int]] = {}
    for name in whole.checkpoints:
        offset = partition.checkpoint(name)
        # A checkpoint that exists without the partition is information, too.
        known = offset is not None and place.topic is not None and place.partition is not None
        checkpoints[name] = {(place.topic, place.partition): offset} if known else {}  # type: ignore[dict-item]
    return replace(partition, log_dir=replace(whole, checkpoints=checkpoints))
