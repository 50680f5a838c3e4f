"""Files that fill the same table, read one after the other: as rows, or as columns where kernels can make them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kforensics.errors import InputError
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.log_names import parse_file_name
from kforensics.parsers.files.source import Source, file_name, open_source
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.kernels.policy import Choice
from kforensics.parsers.log.selection import Selection, start_position
from kforensics.parsers.tables.file_kinds import recognised
from kforensics.parsers.tables.file_rows import LOG_KINDS, Reading, file_rows
from kforensics.render.streams import Meter, MeteredSource

if TYPE_CHECKING:
    import pyarrow as pa

    from kforensics.forensics.sidecar.isolation import Judge

__all__ = ["Convert", "FilesReader", "Isolation", "drained", "judge_of", "kind_to_read", "opened", "served"]

Row = tuple[Any, ...]
Item = TypeVar("Item")
Convert = Callable[[Row], Sequence[Any]]
Part: TypeAlias = "pa.RecordBatch | Iterator[Sequence[Any]]"


class Isolation(StrEnum):
    """What a consumer receives of transactions: all of them, or those that were committed."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


@dataclass(frozen=True, slots=True)
class FilesReader:
    """Reads files that fill the same table, one after the other.

    Attributes:
        reading: how to read them; where to begin in a log is found out here.
        report: told of all damage.
        unread: told of a file that cannot be read.
        meter: told how far the reading is.
        judge: who says which of the selected batches and records are wanted, None if all are.
    """

    reading: Reading
    report: Callable[[FoundFile, Damage], None]
    unread: Callable[[InputError], None]
    meter: Meter | None = None
    judge: Judge | None = None

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
            from kforensics.parsers.columns.arrow_columns import columns_of  # a small log must not pay for it

            errors: list[InputError] = []
            for part in _readable(columns_of(known, source, reading, report, chosen), errors.append):
                yield _readable(map(convert, part), errors.append) if isinstance(part, Iterator) else part
                if errors:
                    break
            for error in errors:
                self.unread(error)

    def _opened(self, files: list[FoundFile]) -> Iterator[tuple[FoundFile, Source, Reading]]:
        for known, source, start in opened(files, self.reading.selection, self.unread, self.meter, self.judge):
            selection = self.judge.over(self.reading.selection) if self.judge else self.reading.selection
            yield known, source, replace(self.reading, selection=selection, start=start)


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


def judge_of(isolation: Isolation, say: Callable[[str], None], *, aborted: bool) -> Judge | None:
    """Return who says of batches and records whether they are wanted, None if all are.

    Args:
        isolation: what a consumer receives.
        say: told what may make that differ from what the broker knew.
        aborted: want records of aborted transactions, and nothing else.
    """
    if isolation is Isolation.READ_UNCOMMITTED and not aborted:
        return None
    from kforensics.forensics.sidecar.isolation import Judge  # few dumps need numpy

    return Judge(say, aborted=aborted)


def served(files: list[FoundFile], paths: Collection[str], say: Callable[[str], None]) -> list[FoundFile]:
    """Return the files without those on their way in or out of a log, from which a broker serves nothing.

    Those are ``.deleted``, ``.cleaned`` and ``.swap`` files, and others that are being written.

    Args:
        files: as found.
        paths: those that are kept whatever they are, for they were named.
        say: told how many are left out.
    """
    names = [parse_file_name(file_name(found.path)) for found in files]
    kept = [
        found
        for found, name in zip(files, names, strict=True)
        if not name or name.state == "live" or found.path in paths
    ]
    left_out = len(files) - len(kept)
    if left_out:
        what = "a file" if left_out == 1 else f"{left_out} files"
        say(f"left out: {what} no consumer is served from (.deleted, .cleaned, .swap); named, they are read")
    return kept


def opened(
    files: list[FoundFile],
    selection: Selection,
    unread: Callable[[InputError], None],
    meter: Meter | None,
    judge: Judge | None = None,
) -> Iterator[tuple[FoundFile, Source, int]]:
    """Yield each file that can be read, its bytes, and where in them to begin; the judge has been turned to it."""
    for found in files:
        try:
            with open_source(found.path) as source:
                known = recognised(found, source)
                if judge and known.kind in LOG_KINDS:
                    judge.turn_to(known)
                yield known, MeteredSource(source, meter) if meter else source, _start(selection, known, source)
        except InputError as error:
            unread(error)


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
