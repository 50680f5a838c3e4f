"""Reads a ``.log`` as batch columns: by kernels as far as they go, else in plain Python, with the same result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kforensics.parsers.columns.batch_columns import (
    ABORT,
    COMMIT,
    NO_CONTROL,
    SHELL,
    UNKNOWN_CONTROL,
    BatchColumns,
    columns_dtype,
    joined,
)
from kforensics.parsers.files.source import Source
from kforensics.parsers.format.codecs import DEFAULT_BUDGET
from kforensics.parsers.format.control import CONTROL_TYPES, KEY, MARKER, control_of
from kforensics.parsers.format.derived import Fixed
from kforensics.parsers.format.rows import Batch, Damage, Record
from kforensics.parsers.kernels.policy import Choice
from kforensics.parsers.log.batches import Walk
from kforensics.parsers.log.log_rows import records_of

__all__ = ["CHUNK_ROWS", "batch_chunks"]

# Rows of a chunk, about: so many that numpy's own overhead does not show, and few enough to stay in the cache.
CHUNK_ROWS = 1 << 16
MARKERS = (ABORT, COMMIT)
FORMAT = 2
Row = tuple[Any, ...]
Report = Callable[[Damage], None]


def batch_chunks(  # noqa: PLR0913  # a range of a file, and who is told what
    source: Source,
    segment: int,
    report: Report,
    kernels: Choice,
    *,
    start: int = 0,
    stop: int | None = None,
    workers: int | None = None,
) -> Iterator[BatchColumns]:
    """Yield the batches of a log in chunks of some ten thousand, in the order of the bytes.

    Batches are there whose checksum fails, as long as their header makes sense.

    Args:
        source: the log.
        segment: its number in the partition.
        report: told of all damage, in the order of the bytes.
        kernels: gives the compiled kernels, if reading so many bytes is worth it.
        start: position of a batch.
        stop: position behind the last batch, None for the end of the file.
        workers: threads that read, 0 for none beside the caller's, None for one per processor.
    """
    parts: list[BatchColumns] = []
    rows = 0
    for part in _parts(source, report, kernels, start, stop, workers):
        parts.append(part)
        rows += len(part)
        if rows >= CHUNK_ROWS:
            yield _numbered(joined(parts), segment)
            parts, rows = [], 0
    if parts:
        yield _numbered(joined(parts), segment)


def _numbered(batches: BatchColumns, segment: int) -> BatchColumns:
    batches.segment[:] = segment
    return batches


def _parts(  # noqa: PLR0913, PLR0917  # as above
    source: Source, report: Report, kernels: Choice, start: int, stop: int | None, workers: int | None
) -> Iterator[BatchColumns]:
    steps = Walk(source, start, stop)
    supply = kernels((source.size if stop is None else stop) - start)
    pending: list[Row] = []
    for item in _in_turns(steps, source, supply, stop, workers) if supply else _steps(steps):
        if isinstance(item, Damage):
            report(item)
        elif isinstance(item, Batch):
            pending.append(_row(source, item))
            if len(pending) >= CHUNK_ROWS:
                yield BatchColumns.of_rows(pending)
                pending = []
        else:
            if pending:
                yield BatchColumns.of_rows(pending)
                pending = []
            yield item
    if pending:
        yield BatchColumns.of_rows(pending)


def _steps(steps: Walk) -> Iterator[Batch | Damage]:
    while rows := steps.step():
        yield from rows


def _in_turns(
    steps: Walk, source: Source, supply: Any, stop: int | None, workers: int | None
) -> Iterator[Batch | Damage | BatchColumns]:
    from kforensics.parsers.kernels.engine import Block, Engine  # a small log must not pay for them
    from kforensics.parsers.kernels.fallback import in_turns

    task = _Task()
    for item in in_turns(steps, Engine(supply, task, source, stop, workers)):
        yield _columns(item) if isinstance(item, Block) else item


class _Task:
    """Has the column kernel read batches; a task for the engine."""

    def prepare(self, request: Any) -> Any:
        """Give a request memory of its own."""
        from kforensics.parsers.kernels.column_buffers import BATCH_AREA, BUDGET, COLUMNS  # as above
        from kforensics.parsers.kernels.engine import Area

        area = Area(BATCH_AREA)
        request[COLUMNS], request[BUDGET] = area.address, DEFAULT_BUDGET
        return area

    def kernel(self, kernels: Any) -> Any:
        """Return the kernel that reads headers."""
        return kernels.batch_columns


def _columns(block: Any) -> BatchColumns:
    """Return what the kernel left in a block, copied: the memory is used anew."""
    from kforensics.parsers.kernels.column_buffers import BATCH_WIDTHS, IN_BATCHES, ROWS  # as above

    rows = block.request[ROWS]

    def column(name: str, kind: str) -> Any:
        if np.dtype(kind).itemsize != BATCH_WIDTHS[name]:
            raise TypeError(f"the kernel's column {name} is not of type {kind}")
        return np.frombuffer(block.output.view, kind, rows, getattr(IN_BATCHES, name))

    given = {name: column(stored, kind).astype(columns_dtype(name)) for name, (stored, kind) in _FROM_KERNEL.items()}
    has_epoch = column("has_epoch", "?")
    given["coordinator_epoch"][~has_epoch] = -1
    given["control"] = _controls(column("control_type", "i4"), column("is_control", "?"), has_epoch, given["count"])
    constants = {"segment": 0, "magic": FORMAT, "crc_valid": True, "exact": True}
    more = {name: np.full(rows, value, columns_dtype(name)) for name, value in constants.items()}
    return BatchColumns(**given, **more)


_FROM_KERNEL = {
    "position": ("position", "i8"),
    "size": ("size", "i4"),
    "base_offset": ("base_offset", "i8"),
    "last_offset": ("last_offset", "i8"),
    "count": ("count", "i4"),
    "leader_epoch": ("partition_leader_epoch", "i4"),
    "attributes": ("attributes", "i2"),
    "max_timestamp": ("max_timestamp", "i8"),
    "producer_id": ("producer_id", "i8"),
    "producer_epoch": ("producer_epoch", "i2"),
    "base_sequence": ("base_sequence", "i4"),
    "last_sequence": ("last_sequence", "i4"),
    "coordinator_epoch": ("coordinator_epoch", "i4"),
}


def _controls(codes: Any, is_control: Any, has_epoch: Any, counts: Any) -> Any:
    """Return what control batches hold, from the numbers of their types."""
    found = np.full(len(codes), NO_CONTROL, columns_dtype("control"))
    at = np.flatnonzero(is_control)
    if len(at):
        held = codes[at]
        is_marker = (held == ABORT) | (held == COMMIT)
        known = (held >= 0) & (has_epoch[at] | ~is_marker)
        found[at] = np.where(counts[at] == 0, SHELL, np.where(known, held, UNKNOWN_CONTROL))
    return found


def _row(source: Source, batch: Batch) -> Row:
    """Return a batch as the values of its columns, in their order."""
    control, coordinator_epoch = _control(source, batch) if batch.is_control else (NO_CONTROL, -1)
    exact = batch.base_offset is not None and batch.count is not None
    return (
        0,
        batch.position,
        batch.size,
        batch.base_offset if exact else batch.last_offset,
        batch.last_offset,
        batch.count if exact else 1,
        batch.magic,
        _known(batch.partition_leader_epoch),
        _signed16(batch.attributes),
        batch.crc_valid,
        batch.max_timestamp,
        _known(batch.producer_id),
        _known(batch.producer_epoch),
        _known(batch.base_sequence),
        _known(batch.last_sequence),
        control,
        coordinator_epoch,
        exact,
    )


def _known(number: int | None) -> int:
    return -1 if number is None else number


def _signed16(attributes: int) -> int:
    return attributes - (1 << 16) if attributes >= 1 << 15 else attributes


def _control(source: Source, batch: Batch) -> tuple[int, int]:
    """Return what a control batch holds, and the coordinator epoch of a marker."""
    if not batch.count:
        return SHELL, -1
    first = next(records_of(source, batch), None)
    if not isinstance(first, Record):
        return UNKNOWN_CONTROL, -1
    name, coordinator_epoch = control_of(first)
    if name not in CONTROL_TYPES or _version(first.key, KEY) < 0:
        return UNKNOWN_CONTROL, -1
    number = CONTROL_TYPES.index(name)
    if number not in MARKERS:
        return number, -1
    if coordinator_epoch is None or _version(first.value, MARKER) < 0:
        return UNKNOWN_CONTROL, -1
    return number, coordinator_epoch


def _version(data: bytes | None, layout: Fixed) -> int:
    return layout.unpack_from(data)[0] if data else -1
