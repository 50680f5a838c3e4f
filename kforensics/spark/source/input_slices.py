"""Which bytes of which files a reader of the data source has to look at, in pieces of work for one task each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from kforensics.errors import InputError
from kforensics.forensics.partition.partition_files import LogDir, Partition
from kforensics.forensics.partition.splits import splits_of
from kforensics.parsers.files.discover import UNKNOWN, FoundFile, Unreadable, as_named, discover
from kforensics.parsers.files.source import file_name, open_source
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.selection import Range
from kforensics.parsers.tables.file_rows import LOG_KINDS, place_of, table_of
from kforensics.spark.source.source_options import Wanted

__all__ = ["Keeps", "Slice", "Work", "works_of"]

# What it costs to open a file, in bytes that could be read meanwhile: a thousand tiny files are a few tasks.
OPENING = 1 << 20
# The same where a file is not opened at all.
NAMING = 1 << 10
Keeps = Callable[[FoundFile], bool]


@dataclass(frozen=True, slots=True)
class Slice:
    """A file, or a range of a log.

    Attributes:
        found: the file.
        start: position of a batch.
        stop: position behind the last batch, None for the end of the file.
    """

    found: FoundFile
    start: int = 0
    stop: int | None = None

    @property
    def size(self) -> int:
        """Bytes, as far as the file was when it was found."""
        return (self.found.size if self.stop is None else self.stop) - self.start


@dataclass(frozen=True, slots=True)
class Work:
    """What one task reads.

    Attributes:
        slices: files and ranges, in order.
        unreadable: what could not be looked into; it is damage.
    """

    slices: tuple[Slice, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()


def works_of(wanted: Wanted, keeps: Keeps = lambda _found: True) -> list[Work]:
    """Return what the tasks of a scan have to read, at least one.

    Args:
        wanted: what is wanted.
        keeps: whether rows of a file can be wanted, by what is the same in all of them.

    Raises:
        InputError: there is no file at all, and a path that was named could not be looked into; for ``damage`` that is
            a row.
    """
    files, unreadable = _found(wanted.paths)
    if not files and wanted.name != "damage" and any(row.path in wanted.paths for row in unreadable):
        raise InputError(", ".join(wanted.paths), "; ".join(f"{row.path}: {row.why}" for row in unreadable))
    slices = [piece for found in files if _may_fill(wanted, found) and keeps(found) for piece in _slices(found, wanted)]
    if wanted.selection.offsets:
        slices = _meeting(slices, wanted.selection.offsets)
    works = list(_together(slices, wanted.split_size, NAMING if wanted.name == "files" else OPENING))
    first, *others = works or [Work()]
    return [replace(first, unreadable=tuple(unreadable)), *others]


def _found(paths: Sequence[str]) -> tuple[list[FoundFile], list[Unreadable]]:
    files, unreadable = list[FoundFile](), list[Unreadable]()
    for row in discover(paths):
        if isinstance(row, Unreadable):
            unreadable.append(row)
        else:
            files.append(as_named(row) if row.path in paths else row)
    return files, unreadable


def _may_fill(wanted: Wanted, found: FoundFile) -> bool:
    """Whether a file may have rows of the table; one under an unknown name may turn out to be a log."""
    name = wanted.name
    # The topic and partition of a checkpoint are those of the line.
    if name != "checkpoints" and (
        (wanted.topics and found.topic not in wanted.topics)
        or (wanted.partitions and found.partition not in wanted.partitions)
    ):
        return False
    filled = table_of("log" if found.kind == UNKNOWN else found.kind, records=name == "records")
    return name == "files" or (filled is not None and name in (filled, "damage"))


def _slices(found: FoundFile, wanted: Wanted) -> Iterator[Slice]:
    """Yield the slices of a file: a large log is cut where batches begin beyond doubt."""
    if wanted.name not in ("batches", "records", "damage") or found.kind not in LOG_KINDS:
        yield Slice(found)
        return
    index = replace(found, path=f"{found.path.rpartition('.')[0]}.index", kind="index")
    folder = found.path.removesuffix(file_name(found.path))
    alone = Partition(place_of(found), folder, LogDir(None), (found,), {found.base_offset or 0: index})
    for split in splits_of(alone, wanted.split_size):
        yield Slice(found, split.start, split.stop)


def _meeting(slices: list[Slice], offsets: Range) -> list[Slice]:
    """Return the slices that may hold some of the offsets.

    Neither names nor indexes are believed: a slice is left out only if sound batches at its beginning and at that of
    the next one say so, and the batches at the beginning of all slices of the partition ascend.
    """
    by_folder = defaultdict[str, list[Slice]](list)
    for piece in slices:
        found = piece.found
        if found.kind == "log" and found.state == "live" and found.base_offset is not None and piece.size > 0:
            by_folder[found.path.removesuffix(file_name(found.path))].append(piece)
    left_out = {piece for some in by_folder.values() for piece in _left_out(some, offsets)}
    return [piece for piece in slices if piece not in left_out]


def _left_out(slices: list[Slice], offsets: Range) -> Iterator[Slice]:
    ordered = sorted(slices, key=lambda piece: (piece.found.base_offset, piece.start))
    firsts = [first for first in map(_first_offset, ordered) if first is not None]
    ascend = len(firsts) == len(ordered) and all(one < other for one, other in pairwise(firsts))
    if not ascend or any(first < (piece.found.base_offset or 0) for piece, first in zip(ordered, firsts, strict=True)):
        return
    for piece, first, following in zip(ordered, firsts, [*firsts[1:], None], strict=True):
        is_behind = offsets.end is not None and first >= offsets.end
        is_before = offsets.first is not None and following is not None and following <= offsets.first
        if is_behind or is_before:
            yield piece


def _first_offset(piece: Slice) -> int | None:
    """Return the base offset of the batch that a slice begins with, None if that is in doubt."""
    try:
        with open_source(piece.found.path) as source:
            row = next(iter(walk(source, piece.start)), None)
    except InputError:
        return None
    return row.base_offset if isinstance(row, Batch) and row.crc_valid else None


def _together(slices: Iterable[Slice], size: int, opening: int) -> Iterator[Work]:
    """Yield slices in order, so many together that a task has about as much to do as the size says."""
    some: list[Slice] = []
    cost = 0
    for piece in slices:
        if some and cost + piece.size + opening > size:
            yield Work(tuple(some))
            some, cost = [], 0
        some.append(piece)
        cost += piece.size + opening
    if some:
        yield Work(tuple(some))
