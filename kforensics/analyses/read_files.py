"""Reads the files of a table one after the other: as rows, or as columns if a compiled kernel decodes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from kforensics.analyses.filters import Isolation
from kforensics.errors import InputError
from kforensics.parsers.files.discover import UNKNOWN, FoundFile, Notify
from kforensics.parsers.files.input_paths import is_named
from kforensics.parsers.files.log_names import parse_file_name
from kforensics.parsers.files.source import Source, file_name, open_source
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.kernels.policy import KernelLoader, KernelPolicy
from kforensics.parsers.log.selection import Selection, start_position
from kforensics.parsers.tables.file_rows import LOG_KINDS, ReadOptions, RowLimit, detect_log, file_rows
from kforensics.render.streams import MeteredSource, OtherWork, ProgressMeter

if TYPE_CHECKING:
    import pyarrow as pa

    from kforensics.forensics.sidecar.isolation import IsolationFilter

Row = tuple[Any, ...]
Item = TypeVar("Item")
Convert = Callable[[Row], Sequence[Any]]
Part: TypeAlias = "pa.RecordBatch | memoryview | Iterator[Sequence[Any]]"
Read = Callable[[FoundFile, Source, ReadOptions, Callable[[Damage], None], KernelLoader], Iterator[Part]]


@dataclass(frozen=True, slots=True)
class FilesReader:
    """Reads the files of a table one after the other.

    Attributes:
        options: how to read them; the start position in a log is determined here.
        on_damage: takes each range of damaged bytes.
        on_unreadable: takes the error of a file that cannot be read.
        meter: shows the progress.
        isolation_filter: selects batches and records by the outcome of their transactions; None for all.
        named: paths of files that the user named; one without anything to decode cannot be read.
        limit: how many rows of the parts to yield.
    """

    options: ReadOptions
    on_damage: Callable[[FoundFile, Damage], None]
    on_unreadable: Callable[[InputError], None]
    meter: ProgressMeter | OtherWork | None = None
    isolation_filter: IsolationFilter | None = None
    named: Collection[str] = ()
    limit: RowLimit = field(default_factory=RowLimit)

    def rows(self, files: list[FoundFile]) -> Iterator[Row]:
        """Yield the rows of files."""
        for file, source, options in self._opened(files):
            rows = file_rows(file, source, options, partial(self.on_damage, file))
            yield from _until_unreadable(rows, self.on_unreadable)

    def parts(
        self, files: list[FoundFile], convert: Convert, kernels: KernelPolicy, read: Read | None = None
    ) -> Iterator[Part]:
        """Yield the columns, or the text, of logs that a kernel decodes, and the rows of other files.

        The rows must be consumed before the next part is taken.

        Args:
            files: the files.
            convert: makes a row of the output table from a row of the file.
            kernels: returns the kernels for a log of a given size, None if rows are faster.
            read: reads a log with kernels; by default, as columns.
        """
        for part in self._parts(files, convert, kernels, read or _read_columns) if not self.limit.is_reached else ():
            if isinstance(part, memoryview):
                yield part  # whatever reads the log has counted its rows
            elif isinstance(part, Iterator):
                yield self.limit.applied_to(part)
            else:
                selected = part if self.limit.left is None else part.slice(0, self.limit.left)
                self.limit.take(selected.num_rows)
                yield selected
            if self.limit.is_reached:
                return

    def _parts(self, files: list[FoundFile], convert: Convert, kernels: KernelPolicy, read: Read) -> Iterator[Part]:
        for file, source, options in self._opened(files):
            kernel = kernels(source.size - options.start) if file.kind in LOG_KINDS else None
            on_damage = partial(self.on_damage, file)
            if kernel is None:
                rows = map(convert, file_rows(file, source, options, on_damage))
                yield _until_unreadable(rows, self.on_unreadable)
                continue
            errors: list[InputError] = []
            for part in _until_unreadable(read(file, source, options, on_damage, kernel), errors.append):
                is_rows = isinstance(part, Iterator)
                yield _until_unreadable(map(convert, part), errors.append) if is_rows else part
                if errors:
                    break
            for error in errors:
                self.on_unreadable(error)

    def _opened(self, files: list[FoundFile]) -> Iterator[tuple[FoundFile, Source, ReadOptions]]:
        selection, isolation = self.options.selection, self.isolation_filter
        for file, source, start in open_files(
            files, selection, self.on_unreadable, self.meter, isolation, named=self.named
        ):
            selected = isolation.applied_to(selection) if isolation else selection
            yield file, source, replace(self.options, selection=selected, start=start)


def _read_columns(
    file: FoundFile, source: Source, options: ReadOptions, report: Callable[[Damage], None], kernel: KernelLoader
) -> Iterator[Part]:
    from kforensics.parsers.columns.arrow_columns import read_arrow_columns  # small logs do not need Arrow

    yield from read_arrow_columns(file, source, options, report, kernel)


def _until_unreadable(items: Iterable[Item], on_unreadable: Callable[[InputError], None]) -> Iterator[Item]:
    """Yield the items of a file up to the point from which it cannot be read."""
    try:
        yield from items
    except InputError as error:
        on_unreadable(error)


def drain(parts: Iterable[Part]) -> None:
    """Read all parts and discard them, to report the damage."""
    for part in parts:
        if isinstance(part, Iterator):
            deque(part, maxlen=0)


def isolation_filter_of(isolation: Isolation, notify: Notify, *, aborted: bool) -> IsolationFilter | None:
    """Return a filter of batches and records by the outcome of their transactions, None if all are selected.

    Args:
        isolation: the isolation level of the consumer.
        notify: takes a sentence on what may make the result differ from that of the broker.
        aborted: select the records of aborted transactions and no others.
    """
    if isolation is Isolation.READ_UNCOMMITTED and not aborted:
        return None
    from kforensics.forensics.sidecar.isolation import IsolationFilter  # few dumps need numpy

    return IsolationFilter(notify, aborted=aborted)


def served_files(files: list[FoundFile], paths: Collection[str], notify: Notify) -> list[FoundFile]:
    """Return the files that a broker serves to consumers.

    It does not serve ``.deleted``, ``.cleaned`` and ``.swap`` files, nor others that are still being written.

    Args:
        files: the files.
        paths: the paths that the user named; these files stay.
        notify: takes a sentence on how many files are left out.
    """
    names = [parse_file_name(file_name(file.path)) for file in files]
    served = [
        file
        for file, name in zip(files, names, strict=True)
        if not name or name.state == "live" or is_named(file.path, paths)
    ]
    left_out = len(files) - len(served)
    if left_out:
        count = "a file" if left_out == 1 else f"{left_out} files"
        notify(f"left out: {count} that no broker serves (.deleted, .cleaned, .swap); name a file to read it")
    return served


def open_files(  # noqa: PLR0913  # what selects, reports and shows progress
    files: list[FoundFile],
    selection: Selection,
    on_unreadable: Callable[[InputError], None],
    meter: ProgressMeter | OtherWork | None,
    isolation_filter: IsolationFilter | None = None,
    *,
    named: Collection[str] = (),
) -> Iterator[tuple[FoundFile, Source, int]]:
    """Yield each file that can be read, its source, and the position to start at.

    The isolation filter has read the transactions of the file. A file that the user named and that has nothing to
    decode is reported as unreadable, and yielded all the same; in a folder it may belong to another program.
    """
    for found_file in files:
        try:
            with open_source(found_file.path) as source:
                file = detect_log(found_file, source)
                if isolation_filter and file.kind in LOG_KINDS:
                    isolation_filter.use_file(file)
                if file.kind == UNKNOWN and source.size and is_named(file.path, named):
                    on_unreadable(InputError(file.path, f"no batch is anywhere in its {source.size} bytes"))
                yield file, MeteredSource(source, meter) if meter else source, _start(selection, file, source)
        except InputError as error:
            on_unreadable(error)


def _start(selection: Selection, file: FoundFile, source: Source) -> int:
    """Return the position in a log to start at, from its offset index if the index can be trusted."""
    first_offset = selection.offsets.first if selection.offsets else None
    if file.kind not in LOG_KINDS or first_offset is None or file.base_offset is None:
        return 0
    try:
        with open_source(f"{file.path.rpartition('.')[0]}.index") as index:
            return start_position(source, index, file.base_offset, first_offset)
    except InputError:
        return 0  # without an index, at the beginning


def kind_to_read(file: FoundFile) -> str:
    """Return the kind to read a file as: a file with an unknown name may be a log."""
    return "log" if file.kind == "unknown" else file.kind
