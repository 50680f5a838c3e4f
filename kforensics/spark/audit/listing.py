"""Looks into the folders of a plan: what lies there, and which partitions it makes. Runs on workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from kforensics.forensics.audit.cluster_membership import Member
from kforensics.forensics.partition.partition_files import Partition, partitions_of
from kforensics.parsers.files.discover import FoundFile, FoundFolder, Unreadable, as_named, look_into, outline
from kforensics.parsers.files.source import file_name
from kforensics.spark.audit.serialization import packed

__all__ = ["FILES", "IN_ITEM", "PARTITION", "PLANNED", "UNREADABLE", "Looked", "items_of", "looked"]

FILES, FOLDER, PARTITION, UNREADABLE = "files", "folder", "partition", "unreadable"
# A row of a plan: what it is, its number, what it costs, where it belongs, and the thing itself, both pickled.
PLANNED = pa.schema(
    [
        ("kind", pa.string()),
        ("number", pa.int64()),
        ("size", pa.int64()),
        ("segments", pa.int32()),
        ("largest", pa.int64()),
        ("mtime_ms", pa.int64()),
        ("taken_ms", pa.int64()),
        ("member", pa.binary()),
        ("payload", pa.binary()),
    ]
)
# Folders that are looked into together: their log directory's checkpoints are read once for them.
FOLDERS = 64
# Bits of a partition's number for its place in the item, and of those for its place in the folder.
IN_ITEM, IN_FOLDER = 24, 12

Looked = tuple[Any, ...]
Found = FoundFile | FoundFolder | Unreadable


def items_of(paths: Sequence[str]) -> Iterator[list[Found]]:
    """Yield what to look into, in items of work for one worker each.

    Args:
        paths: files, partition folders, log directories or folders above them, as paths, globs or URIs.
    """
    together: dict[tuple[str, str | None], list[Found]] = {}
    for found in outline(paths):
        one = as_named(found) if isinstance(found, FoundFile) and found.path in paths else found
        together.setdefault(_together(one), []).append(one)
    for (kind, _), some in together.items():
        most = FOLDERS if kind == FOLDER else len(some)
        for start in range(0, len(some), most):
            yield some[start : start + most]


def _together(found: Found) -> tuple[str, str | None]:
    """Return what the things of an item have in common: files of one folder make one partition."""
    if isinstance(found, FoundFolder):
        return FOLDER, found.owner.log_dir
    return (FILES, _folder(found.path)) if isinstance(found, FoundFile) else (UNREADABLE, None)


def _folder(path: str) -> str:
    return path.removesuffix(file_name(path))


def looked(number: int, item: Sequence[Found], topics: Sequence[str]) -> Iterator[Looked]:
    """Yield rows of the plan for an item of work.

    Args:
        number: of the item; all rows get numbers of their own from it, the same ones however often this runs.
        item: what to look into.
        topics: only partitions of these, all if none is named.
    """
    files: list[FoundFile] = []
    origin: dict[str, int] = {}
    for index, one in enumerate(item):
        for row in look_into(one) if isinstance(one, FoundFolder) else [one]:
            if isinstance(row, FoundFile):
                files.append(row)
                origin[row.path] = index if isinstance(one, FoundFolder) else 0
            else:
                yield _row(UNREADABLE, number << IN_ITEM, row)
    if files:
        yield _row(FILES, number << IN_ITEM, files)
    taken: Counter[int] = Counter()
    for partition in partitions_of(files):
        index = origin[partition.segments[0].path]
        if not topics or partition.place.topic in topics:
            yield _partition_row(number << IN_ITEM | index << IN_FOLDER | taken[index], _slim(partition))
        taken[index] += 1


def _row(kind: str, number: int, value: Any) -> Looked:
    return kind, number, 0, 0, 0, None, None, None, packed(value)


def _partition_row(number: int, partition: Partition) -> Looked:
    sizes = [segment.size for segment in partition.segments]
    costs = sum(sizes), len(sizes), max(sizes), partition.newest_mtime_ms, partition.taken_ms
    return PARTITION, number, *costs, packed(Member.of(partition)), packed(partition)


def _slim(partition: Partition) -> Partition:
    """Return a partition whose log directory says no more than what concerns it: it speaks of thousands."""
    whole, place = partition.log_dir, partition.place
    checkpoints: dict[str, dict[tuple[str, int], int]] = {}
    for name in whole.checkpoints:
        offset = partition.checkpoint(name)
        # That a checkpoint is there and does not name the partition says something too.
        known = offset is not None and place.topic is not None and place.partition is not None
        checkpoints[name] = {(place.topic, place.partition): offset} if known else {}  # type: ignore[dict-item]
    return replace(partition, log_dir=replace(whole, checkpoints=checkpoints))
