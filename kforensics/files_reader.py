"""Files that fill the same table, read one after the other: as rows, or as columns where kernels can make them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kforensics.errors import InputError
from kforensics.parsers.batches import walk
from kforensics.parsers.discover import FoundFile
from kforensics.parsers.file_rows import LOG_KINDS, Reading, file_rows
from kforensics.parsers.kernels.choice import Choice
from kforensics.parsers.rows import Batch, Damage
from kforensics.parsers.selection import Selection, start_position
from kforensics.parsers.source import Source, open_source
from kforensics.render.streams import Meter, MeteredSource

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Convert", "FilesReader", "drained", "kind_to_read", "opened"]

Row = tuple[Any, ...]
Item = TypeVar("Item")
Convert = Callable[[Row], Sequence[Any]]
Part: TypeAlias = "pa.RecordBatch | Iterator[Sequence[Any]]"


@dataclass(frozen=True, slots=True)
class FilesReader:
    """Reads files that fill the same table, one after the other.

    Attributes:
        reading: how to read them; where to begin in a log is found out here.
        report: told of all damage.
        unread: told of a file that cannot be read.
        meter: told how far the reading is.
    """

    reading: Reading
    report: Callable[[FoundFile, Damage], None]
    unread: Callable[[InputError], None]
    meter: Meter | None = None

    def rows(self, files: list[FoundFile]) -> Iterator[Row]:
        """Yield the rows of files."""
        for known, source, reading in self._opened(files):
            yield from _readable(file_rows(known, source, reading, partial(self.report, known)), self.unread)

    def parts(self, files: list[FoundFile], convert: Convert, kernels: Choice) -> Iterator[Part]:
        """Yield columns of logs, where kernels can make them, and rows.

        Rows want to be consumed before the next part is asked for.

        Args:
            files: the files.
            convert: makes rows fit the table as it goes out.
            kernels: gives the kernels, if they are wanted for a log of some size.
        """
        for known, source, reading in self._opened(files):
            taken = known.kind in LOG_KINDS and reading.selection == Selection()
            chosen = kernels(source.size - reading.start) if taken else None
            report = partial(self.report, known)
            if chosen is None:
                yield _readable(map(convert, file_rows(known, source, reading, report)), self.unread)
                continue
            from kforensics.parsers.columns import columns_of  # a small log must not pay for it

            errors: list[InputError] = []
            for part in _readable(columns_of(known, source, reading, report, chosen), errors.append):
                yield _readable(map(convert, part), errors.append) if isinstance(part, Iterator) else part
                if errors:
                    break
            for error in errors:
                self.unread(error)

    def _opened(self, files: list[FoundFile]) -> Iterator[tuple[FoundFile, Source, Reading]]:
        for known, source, start in opened(files, self.reading.selection, self.unread, self.meter):
            yield known, source, replace(self.reading, start=start)


def _readable(items: Iterable[Item], unread: Callable[[InputError], None]) -> Iterator[Item]:
    """Yield items up to where the file they come from cannot be read."""
    try:
        yield from items
    except InputError as error:
        unread(error)


def drained(parts: Iterable[Part]) -> None:
    """Read all parts for the damage in them."""
    for part in parts:
        if isinstance(part, Iterator):
            deque(part, maxlen=0)


def opened(
    files: list[FoundFile], selection: Selection, unread: Callable[[InputError], None], meter: Meter | None
) -> Iterator[tuple[FoundFile, Source, int]]:
    """Yield each file that can be read, its bytes, and where in them to begin."""
    for found in files:
        try:
            with open_source(found.path) as source:
                known = _recognised(found, source)
                yield known, MeteredSource(source, meter) if meter else source, _start(selection, known, source)
        except InputError as error:
            unread(error)


def _recognised(found: FoundFile, source: Source) -> FoundFile:
    """Return a file under a strange name as the log it is, if it begins with a batch that checks out."""
    if found.kind != "unknown":
        return found
    first = next(iter(walk(source)), None)
    return replace(found, kind="log") if isinstance(first, Batch) and first.crc_valid else found


def _start(selection: Selection, found: FoundFile, source: Source) -> int:
    """Return where in a log to begin, with the help of its index where that can be trusted."""
    wanted = selection.offsets.first if selection.offsets else None
    if found.kind not in LOG_KINDS or wanted is None or found.base_offset is None:
        return 0
    try:
        with open_source(f"{found.path.rpartition('.')[0]}.index") as index:
            return start_position(source, index, found.base_offset, wanted)
    except InputError:
        return 0  # without an index, from the beginning


def kind_to_read(found: FoundFile) -> str:
    """Return the kind a file is read as: one under an unknown name may turn out to be a log."""
    return "log" if found.kind == "unknown" else found.kind
