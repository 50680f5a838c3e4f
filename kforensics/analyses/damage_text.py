"""Lists the damage of files as text: for logs with the offsets that it concerns, and the time of their records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

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
from kforensics.parsers.format.text_encoding import printable
from kforensics.parsers.kernels.policy import kernels_for
from kforensics.parsers.tables.file_rows import LOG_KINDS, ReadOptions, RowLimit
from kforensics.render.screen import Line
from kforensics.render.streams import progress_meter

if TYPE_CHECKING:
    from kforensics.parsers.columns.batch_columns import BatchColumns
    from kforensics.parsers.files.discover import FoundFile, Notify
    from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray

__all__ = ["damage_lines"]

# Where the bytes of a range continue on the next line.
HANG = 4
# Ranges of damage without a limit of the user: a file of noise may have millions.
LISTED = 10_000


def damage_lines(request: DumpRequest, notify: Notify, warn: Notify) -> tuple[Iterator[str], DumpOutcome]:
    """Return the lines that list the damage of files, and the outcome of reading them.

    Args:
        request: what to read; the limit is one of ranges.
        notify: takes sentences for standard error.
        warn: takes a sentence for each input that cannot be read.

    Raises:
        UsageError: the options do not go together.
    """
    outcome = DumpOutcome(warn, quiet=True)
    damaged = _Damaged(LISTED if request.limit is None else request.limit)

    def on_damage(file: FoundFile, damage: Damage) -> None:
        outcome.add_damage(file.path, damage, notify)
        if damage.reason != LEFT_OUT:
            damaged.add(file, damage)

    isolation_filter = isolation_filter_of(request.isolation, notify, aborted=request.aborted)
    files = files_by_table(request, selected_files(request, isolation_filter, notify, outcome))
    every = [file for part in files.values() for file in part]
    options = ReadOptions(records=True, selection=request.selection, budget=request.budget, stop=request.tool.log_end)
    kernels = partial(kernels_for, notify=None if request.quiet else notify)
    with progress_meter(sum(file.size for file in every), show=request.progress, what="dump") as meter:
        for part in files.values():
            reader = FilesReader(
                options, on_damage, outcome.add_unreadable, meter, isolation_filter, request.paths, RowLimit(None)
            )
            drain(reader.parts(part, tuple, kernels))
    return _lines(damaged, len(every), is_limited=request.limit is not None), outcome


class _Damaged:
    """Counts damaged ranges and files, and keeps the first ranges.

    Args:
        most: how many ranges to keep.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._paths: set[str] = set()
        self.count = 0
        self.first: list[tuple[FoundFile, Damage]] = []

    @property
    def files(self) -> int:
        """How many files are damaged."""
        return len(self._paths)

    def add(self, file: FoundFile, damage: Damage) -> None:
        """Count a range."""
        self.count += 1
        self._paths.add(file.path)
        if len(self.first) < self._most:
            self.first.append((file, damage))


def _lines(damaged: _Damaged, read: int, *, is_limited: bool) -> Iterator[str]:
    """Yield how much damage there is, and each range: which offsets it concerns, and the bytes."""
    if not damaged.count:
        yield f"no damage in {format_count(read, 'file')}"
        return
    yield f"{format_count(damaged.count, 'range')} of damage in {damaged.files:,} of {format_count(read, 'file')}"
    for path, group in groupby(damaged.first, key=lambda one: one[0].path):
        ranges = [*group]
        file = ranges[0][0]
        name = path if file.topic is None else f"{file.topic}-{file.partition}"
        for (_, damage), what in zip(ranges, _offsets(file, [damage for _, damage in ranges]), strict=True):
            yield Line(printable(f"{name}: {what}{damage.reason}"), Severity.ERROR)
            yield Line(printable(f"  {damage_sentence(path, damage)}"), hang=HANG)
    if not is_limited and damaged.count > len(damaged.first):
        more = format_count(damaged.count - len(damaged.first), "more range")
        yield f"… and {more}; --damage --format ndjson lists all of them"


# A batch beside or around a range of damage.
NEIGHBOR = np.dtype([("is_known", "?"), ("base_offset", "i8"), ("last_offset", "i8"), ("max_timestamp", "i8")])
NOWHERE = -1


class _Neighbors:
    """The batches around ranges of damage.

    A log may have millions of batches, so they are looked up while it is read.

    Args:
        ranges: the damage of a log.
    """

    def __init__(self, ranges: Sequence[Damage]) -> None:
        inside = [NOWHERE if damage.inside_batch is None else damage.inside_batch for damage in ranges]
        self._starts = np.array([damage.start for damage in ranges], "i8")
        self._ends = np.array([damage.end for damage in ranges], "i8")
        self._inside = np.array(inside, "i8")
        self._before, self._within, self._after = (np.zeros(len(ranges), NEIGHBOR) for _ in range(3))

    def read(self, batches: BatchColumns) -> None:
        """Look at the next batches of the log."""
        positions = batches.position
        rows = np.searchsorted(positions, self._starts) - 1
        _note(self._before, rows >= 0, batches, rows)
        rows = np.searchsorted(positions, self._ends)
        _note(self._after, (rows < len(positions)) & ~self._after["is_known"], batches, rows)
        rows = np.minimum(np.searchsorted(positions, self._inside), len(positions) - 1)
        _note(self._within, positions[rows] == self._inside, batches, rows)

    def texts(self) -> Iterator[str]:
        """Yield which offsets each range concerns, as far as the batches around it show them."""
        for before, within, after in zip(self._before, self._within, self._after, strict=True):
            if within["is_known"]:
                offsets = format_offsets(int(within["base_offset"]), int(within["last_offset"]))
                yield f"{offsets}, newest {_time(within)}"
                continue
            around = [f"after offset {before['last_offset']} ({_time(before)})"] if before["is_known"] else []
            around += [f"before offset {after['base_offset']} ({_time(after)})"] if after["is_known"] else []
            yield " and ".join(around) or "no batch is readable"


def _note(neighbors: StructArray, which: BoolArray, batches: BatchColumns, rows: IntArray) -> None:
    """Note batches as the neighbors of some ranges."""
    chosen = rows[which]
    neighbors["is_known"][which] = True
    for name in ("base_offset", "last_offset", "max_timestamp"):
        neighbors[name][which] = getattr(batches, name)[chosen]


def _time(batch: np.void) -> str:
    timestamp = int(batch["max_timestamp"])
    return "no timestamp" if timestamp < 0 else format_time(timestamp)


def _offsets(file: FoundFile, ranges: Sequence[Damage]) -> Iterator[str]:
    """Yield for each range of a file which offsets it concerns, nothing if it is no log."""
    if kind_to_read(file) not in LOG_KINDS:
        yield from [""] * len(ranges)
        return
    from kforensics.parsers.columns.batch_reader import batch_chunks  # only damage needs it

    neighbors = _Neighbors(ranges)
    with open_source(file.path) as source:
        for chunk in batch_chunks(source, 0, lambda _: None, kernels_for):
            neighbors.read(chunk)
    yield from (f"{text}: " for text in neighbors.texts())
