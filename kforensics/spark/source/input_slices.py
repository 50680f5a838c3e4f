"""Divides the files that a query of the data source reads into work for tasks."""

from __future__ import annotations

import pickle  # nosec B403  # for Spark, which pickles what it sends to tasks
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise

from kforensics.errors import InputError
from kforensics.forensics.partition.partition_files import LogDir, Partition
from kforensics.forensics.partition.splits import splits_of
from kforensics.parsers.files.discover import UNKNOWN, FoundFile, Unreadable, classified_by_suffix, discover
from kforensics.parsers.files.input_paths import is_named
from kforensics.parsers.files.source import file_name, open_source
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.selection import HalfOpenRange
from kforensics.parsers.tables.file_rows import LOG_KINDS, place_of, table_name_of
from kforensics.spark.source.source_options import Wanted

__all__ = ["Slice", "Work", "works_of"]

# Cost of opening a file, in bytes that could be read in that time: a thousand tiny files form a few tasks.
OPEN_COST = 1 << 20
# Cost of a file that is only listed, not opened.
LISTING_COST = 1 << 10
# Segments whose first batch is read at a time.
OPENERS = 32


@dataclass(frozen=True, slots=True)
class Slice:
    """A file, or a range of a log.

    Attributes:
        file: the file.
        start: position of the first batch.
        stop: position after the last batch, None for the end of the file.
    """

    file: FoundFile
    start: int = 0
    stop: int | None = None

    @property
    def size(self) -> int:
        """Bytes, by the size of the file when it was listed."""
        return (self.file.size if self.stop is None else self.stop) - self.start


@dataclass(frozen=True, slots=True)
class Work:
    """The input of one task.

    Attributes:
        slices: files and ranges, in order.
        unreadable: paths that could not be listed, in the work of the last task; they are rows of ``damage``.
    """

    slices: tuple[Slice, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()

    def to_bytes(self) -> bytes:
        """Return the work as Spark sends it: the driver holds that of all tasks, and Python and Java a copy each."""
        return zlib.compress(pickle.dumps(self), level=1)

    @classmethod
    def from_bytes(cls, packed: bytes) -> Work:
        """Return the work of :meth:`to_bytes`."""
        work: Work = pickle.loads(zlib.decompress(packed))  # noqa: S301  # nosec B301  # of this driver, over Spark
        return work


def works_of(wanted: Wanted) -> Iterator[Work]:
    """Yield the work of each task of a scan, while its files are listed; at least one task.

    Args:
        wanted: the options of the query.

    Raises:
        InputError: there is no file, and one of the given paths could not be listed. The table ``damage`` has a row for
            such a path instead.
    """
    listing = _Listing(wanted.paths)
    slices: Iterator[Slice] = (
        piece for file in listing.files() if _may_fill(wanted, file) for piece in _slices(file, wanted)
    )
    if wanted.selection.offsets:
        slices = iter(_overlapping(list(slices), wanted.selection.offsets))
    last = Work()
    for number, work in enumerate(_packed(slices, wanted.split_size, _opening_cost(wanted))):
        if number:
            yield last
        last = work
    unreadable = listing.unreadable
    if not listing.count and wanted.name != "damage" and any(row.path in wanted.paths for row in unreadable):
        raise InputError(", ".join(wanted.paths), "; ".join(f"{row.path}: {row.why}" for row in unreadable))
    yield replace(last, unreadable=tuple(unreadable))


@dataclass(slots=True)
class _Listing:
    """Lists the files under some paths once.

    Attributes:
        paths: the paths.
        unreadable: paths that could not be listed so far.
        count: number of files so far.
    """

    paths: Sequence[str]
    unreadable: list[Unreadable] = field(default_factory=list)
    count: int = 0

    def files(self) -> Iterator[FoundFile]:
        """Yield the files."""
        for row in discover(self.paths):
            if isinstance(row, Unreadable):
                self.unreadable.append(row)
            else:
                self.count += 1
                yield classified_by_suffix(row) if is_named(row.path, self.paths) else row


def _opening_cost(wanted: Wanted) -> int:
    return LISTING_COST if wanted.name == "files" else OPEN_COST


def _may_fill(wanted: Wanted, file: FoundFile) -> bool:
    """Return whether a file may have rows of the table; a file with an unknown name may be a log."""
    name = wanted.name
    # In checkpoints, each line has its own topic and partition.
    if name != "checkpoints" and (
        (wanted.topics and file.topic not in wanted.topics)
        or (wanted.partitions and file.partition not in wanted.partitions)
    ):
        return False
    filled = table_name_of("log" if file.kind == UNKNOWN else file.kind, records=name == "records")
    return name == "files" or (filled is not None and name in (filled, "damage"))


def _slices(file: FoundFile, wanted: Wanted) -> Iterator[Slice]:
    """Yield the slices of a file: a large log is cut only where a batch certainly begins."""
    if wanted.name not in ("batches", "records", "damage") or file.kind not in LOG_KINDS:
        yield Slice(file)
        return
    index = replace(file, path=f"{file.path.rpartition('.')[0]}.index", kind="index")
    folder = file.path.removesuffix(file_name(file.path))
    segment = Partition(place_of(file), folder, LogDir(None), (file,), {file.base_offset or 0: index})
    for split in splits_of(segment, wanted.split_size):
        yield Slice(file, split.start, split.stop)


def _overlapping(slices: list[Slice], offsets: HalfOpenRange) -> list[Slice]:
    """Return the slices that may contain some of the offsets.

    File names and indexes are not trusted: a slice is skipped only if valid batches at its beginning and at that of the
    next slice prove it, and the first offsets of all slices of the partition ascend.
    """
    by_folder = defaultdict[str, list[Slice]](list)
    for piece in slices:
        file = piece.file
        if file.kind == "log" and file.state == "live" and file.base_offset is not None and piece.size > 0:
            by_folder[file.path.removesuffix(file_name(file.path))].append(piece)
    skipped = {piece for partition in by_folder.values() for piece in _skipped(partition, offsets)}
    return [piece for piece in slices if piece not in skipped]


def _skipped(slices: list[Slice], offsets: HalfOpenRange) -> Iterator[Slice]:
    ordered = sorted(slices, key=lambda piece: (piece.file.base_offset, piece.start))
    with ThreadPoolExecutor(OPENERS) as pool:  # each waits for its storage
        firsts = [first for first in pool.map(_first_offset, ordered) if first is not None]
    ascend = len(firsts) == len(ordered) and all(first < following for first, following in pairwise(firsts))
    if not ascend or any(first < (piece.file.base_offset or 0) for piece, first in zip(ordered, firsts, strict=True)):
        return
    for piece, first, following in zip(ordered, firsts, [*firsts[1:], None], strict=True):
        is_after = offsets.end is not None and first >= offsets.end
        is_before = offsets.first is not None and following is not None and following <= offsets.first
        if is_after or is_before:
            yield piece


def _first_offset(piece: Slice) -> int | None:
    """Return the base offset of the first batch of a slice, None if there is no valid batch."""
    try:
        with open_source(piece.file.path) as source:
            row = next(iter(walk(source, piece.start)), None)
    except InputError:
        return None
    return row.base_offset if isinstance(row, Batch) and row.crc_valid else None


def _packed(slices: Iterable[Slice], size: int, opening: int) -> Iterator[Work]:
    """Yield slices in order, packed into work of approximately the given size."""
    packed: list[Slice] = []
    cost = 0
    for piece in slices:
        if packed and cost + piece.size + opening > size:
            yield Work(tuple(packed))
            packed, cost = [], 0
        packed.append(piece)
        cost += piece.size + opening
    if packed:
        yield Work(tuple(packed))
