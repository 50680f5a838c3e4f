"""Lists the damage of files as text: for logs with the offsets that it concerns, and the time of their records."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import IO, TYPE_CHECKING

from kforensics.analyses.dump import (
    LEFT_OUT,
    DumpOutcome,
    DumpRequest,
    damage_sentence,
    files_by_table,
    selected_files,
)
from kforensics.analyses.read_files import FilesReader, drain, isolation_filter_of, kind_to_read
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.formatting import format_count, format_offsets, format_time
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.kernels.policy import kernels_for
from kforensics.parsers.tables.file_rows import LOG_KINDS, ReadOptions, RowLimit
from kforensics.render.screen import Line, Screen
from kforensics.render.streams import TextSink, progress_meter

if TYPE_CHECKING:
    from kforensics.analyses.find_files import Notify
    from kforensics.parsers.columns.batch_columns import BatchColumns
    from kforensics.parsers.files.discover import FoundFile

__all__ = ["dump_damage"]

# Where the bytes of a range continue on the next line.
HANG = 4


def dump_damage(request: DumpRequest, out: IO[bytes], notify: Notify, screen: Screen) -> DumpOutcome:
    """List the damage of files.

    Args:
        request: what to read; the limit is one of ranges.
        out: binary stream to write to.
        notify: takes the sentences about inputs that cannot be read.
        screen: where the lines are shown.

    Raises:
        UsageError: the options do not go together.
    """
    outcome = DumpOutcome(quiet=True)
    damaged: list[tuple[FoundFile, Damage]] = []

    def on_damage(file: FoundFile, damage: Damage) -> None:
        outcome.add_damage(file.path, damage, notify)
        if damage.reason != LEFT_OUT:
            damaged.append((file, damage))

    isolation_filter = isolation_filter_of(request.isolation, notify, aborted=request.aborted)
    files = files_by_table(request, selected_files(request, isolation_filter, notify, outcome))
    every = [file for part in files.values() for file in part]
    options = ReadOptions(records=True, selection=request.selection, budget=request.budget, stop=request.tool.log_end)
    on_unreadable = partial(outcome.add_unreadable, notify=notify)
    kernels = partial(kernels_for, notify=None if request.quiet else notify)
    with progress_meter(sum(file.size for file in every), show=request.progress) as meter:
        for part in files.values():
            reader = FilesReader(
                options, on_damage, on_unreadable, meter, isolation_filter, request.paths, RowLimit(None)
            )
            drain(reader.parts(part, tuple, kernels))
    sink = TextSink(out)
    for line in screen.lines(_lines(damaged, len(every), request.limit)):
        sink.write(f"{line}\n")
    sink.flush()
    return outcome


def _lines(damaged: list[tuple[FoundFile, Damage]], read: int, limit: int | None) -> Iterator[str]:
    """Yield how much damage there is, and each range: which offsets it concerns, and the bytes."""
    if not damaged:
        yield f"no damage in {format_count(read, 'file')}"
        return
    files = len({file.path for file, _ in damaged})
    yield f"{format_count(len(damaged), 'range')} of damage in {files:,} of {format_count(read, 'file')}"
    path, batches = "", None
    for file, damage in islice(damaged, limit):
        if file.path != path:
            path, batches = file.path, _batches(file)
        name = file.path if file.topic is None else f"{file.topic}-{file.partition}"
        yield Line(f"{name}: {_what(damage, batches)}", Severity.ERROR)
        yield Line(f"  {damage_sentence(path, damage)}", hang=HANG)


def _batches(file: FoundFile) -> BatchColumns | None:
    """Return the readable batches of a log, None if there are none."""
    if kind_to_read(file) not in LOG_KINDS:
        return None
    from kforensics.parsers.columns.batch_columns import concat_batches  # only damage needs numpy
    from kforensics.parsers.columns.batch_reader import batch_chunks

    with open_source(file.path) as source:
        chunks = [*batch_chunks(source, 0, lambda _: None, kernels_for)]
    return concat_batches(chunks) if chunks else None


def _what(damage: Damage, batches: BatchColumns | None) -> str:
    """Return which offsets damage concerns, as far as the batches around it show them."""
    if batches is None:
        return damage.reason
    if damage.inside_batch is not None:
        at = (batches.position == damage.inside_batch).nonzero()[0]
        if len(at):
            row = int(at[0])
            offsets = format_offsets(int(batches.base_offset[row]), int(batches.last_offset[row]))
            return f"{offsets}, newest {_time(batches, row)}: {damage.reason}"
    ends = (batches.position < damage.start).nonzero()[0]
    starts = (batches.position >= damage.end).nonzero()[0]
    around = [f"after offset {int(batches.last_offset[row])} ({_time(batches, row)})" for row in ends[-1:].tolist()]
    around += [f"before offset {int(batches.base_offset[row])} ({_time(batches, row)})" for row in starts[:1].tolist()]
    return f"{' and '.join(around) or 'no batch is readable'}: {damage.reason}"


def _time(batches: BatchColumns, row: int) -> str:
    timestamp = int(batches.max_timestamp[row])
    return "no timestamp" if timestamp < 0 else format_time(timestamp)
