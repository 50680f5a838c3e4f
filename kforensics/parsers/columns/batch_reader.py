"""Reads a ``.log`` as batch columns: with kernels where possible, else in pure Python, with the same result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kforensics.parsers.columns.batch_columns import (
    ABORT,
    COMMIT,
    EMPTY_CONTROL_BATCH,
    NO_CONTROL,
    UNKNOWN_CONTROL,
    BatchColumns,
    column_dtype,
    concat_batches,
)
from kforensics.parsers.files.source import Source
from kforensics.parsers.format.array_types import BoolArray, IntArray
from kforensics.parsers.format.control_records import CONTROL_TYPES, KEY, MARKER, control_fields
from kforensics.parsers.format.decompression import DEFAULT_BUDGET
from kforensics.parsers.format.derived import FixedLayout
from kforensics.parsers.format.rows import CODEC_MASK, Batch, Damage, Record
from kforensics.parsers.kernels.policy import KernelLoader, KernelPolicy
from kforensics.parsers.log.batches import LogWalk, walk
from kforensics.parsers.log.log_rows import read_records

__all__ = ["CHUNK_ROWS", "batch_chunks"]

# Approximate rows of a chunk: enough to hide NumPy's overhead, few enough to stay in the processor's cache.
CHUNK_ROWS = 1 << 16
FORMAT = 2
Row = tuple[Any, ...]


def batch_chunks(  # noqa: PLR0913  # a range of a file, and how to read it
    source: Source,
    segment: int,
    report: Callable[[Damage], None],
    kernels: KernelPolicy,
    *,
    start: int = 0,
    stop: int | None = None,
    workers: int | None = None,
) -> Iterator[BatchColumns]:
    """Yield the batches of a log in chunks of some ten thousand, in log order.

    Batches with an invalid checksum are included as long as their header is plausible.

    Args:
        source: the log.
        segment: index of the segment in the partition.
        report: called with all damage, in log order.
        kernels: decides whether compiled kernels pay off for so many bytes.
        start: position of a batch.
        stop: position after the last batch, None for the end of the file.
        workers: threads; 0 to use the caller's thread only, None for one per processor.
    """
    parts: list[BatchColumns] = []
    rows = 0
    for part in _parts(source, report, kernels, start, stop, workers):
        parts.append(part)
        rows += len(part)
        if rows >= CHUNK_ROWS:
            yield _in_segment(concat_batches(parts), segment)
            parts, rows = [], 0
    if parts:
        yield _in_segment(concat_batches(parts), segment)


def _in_segment(batches: BatchColumns, segment: int) -> BatchColumns:
    batches.segment[:] = segment
    return batches


def _parts(  # noqa: PLR0913, PLR0917  # the parameters of batch_chunks
    source: Source,
    report: Callable[[Damage], None],
    kernels: KernelPolicy,
    start: int,
    stop: int | None,
    workers: int | None,
) -> Iterator[BatchColumns]:
    loader = kernels((source.size if stop is None else stop) - start)
    items = _read_with_kernels(source, loader, start, stop, workers) if loader else walk(source, start, stop)
    pending: list[Row] = []
    for item in items:
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


# With kernels --------------------------------------------------------------------------------------------------------


def _read_with_kernels(
    source: Source, loader: KernelLoader, start: int, stop: int | None, workers: int | None
) -> Iterator[Batch | Damage | BatchColumns]:
    from kforensics.parsers.kernels.engine import Block, Engine, read_with_fallback  # a small log must not pay for them

    engine = Engine(loader, _BatchTask(), source, stop, workers)
    for item in read_with_fallback(LogWalk(source, start, stop), engine):
        yield _columns(item) if isinstance(item, Block) else item


class _BatchTask:
    """Has the kernel read batches; a task for the engine."""

    def prepare(self, request: Any) -> Any:
        """Set up memory for the columns of a block."""
        from kforensics.parsers.kernels.column_buffers import BATCH_AREA, COLUMN_SLOT  # a small log must not pay
        from kforensics.parsers.kernels.engine import MappedMemory

        memory = MappedMemory(BATCH_AREA)
        request[COLUMN_SLOT.output], request[COLUMN_SLOT.budget] = memory.address, DEFAULT_BUDGET
        request[COLUMN_SLOT.takes_legacy] = 1
        return memory

    def kernel(self, kernels: Any) -> Any:
        """Return the kernel that reads batches."""
        return kernels.batch_columns


# Names and dtypes of the kernel's columns.
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
    "magic": ("magic", "i1"),
    "coordinator_epoch": ("coordinator_epoch", "i4"),
}


def _columns(block: Any) -> BatchColumns:
    """Return a copy of the columns of a block, because its memory is reused."""
    from kforensics.parsers.kernels.column_buffers import BATCH_LAYOUT, BATCH_WIDTHS, COLUMN_SLOT  # see above

    rows = block.request[COLUMN_SLOT.rows]

    def column(name: str, kind: str) -> Any:
        if np.dtype(kind).itemsize != BATCH_WIDTHS[name]:
            raise TypeError(f"the kernel's column {name} is not of type {kind}")
        return np.frombuffer(block.output.view, kind, rows, getattr(BATCH_LAYOUT, name))

    columns = {name: column(stored, kind).astype(column_dtype(name)) for name, (stored, kind) in _FROM_KERNEL.items()}
    has_epoch = column("has_epoch", "?")
    columns["coordinator_epoch"][~has_epoch] = -1
    types, is_control = column("control_type", "i4"), column("is_control", "?")
    columns["control"] = _control_column(types, is_control, has_epoch, columns["count"])
    columns["exact"] = (columns["magic"] >= FORMAT) | (columns["attributes"] & CODEC_MASK == 0)
    constants = {"segment": 0, "crc_valid": True}
    columns |= {name: np.full(rows, value, column_dtype(name)) for name, value in constants.items()}
    return BatchColumns(**columns)


def _control_column(types: IntArray, is_control: BoolArray, has_epoch: BoolArray, counts: IntArray) -> IntArray:
    """Return the column ``control`` for the kernel's control types."""
    controls = np.full(len(types), NO_CONTROL, column_dtype("control"))
    rows = np.flatnonzero(is_control)
    if len(rows):
        types = types[rows]
        is_marker = (types == ABORT) | (types == COMMIT)
        is_known = (types >= 0) & (has_epoch[rows] | ~is_marker)
        controls[rows] = np.where(counts[rows] == 0, EMPTY_CONTROL_BATCH, np.where(is_known, types, UNKNOWN_CONTROL))
    return controls


# In pure Python ------------------------------------------------------------------------------------------------------


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
        _or_none(batch.partition_leader_epoch),
        _signed16(batch.attributes),
        batch.crc_valid,
        batch.max_timestamp,
        _or_none(batch.producer_id),
        _or_none(batch.producer_epoch),
        _or_none(batch.base_sequence),
        _or_none(batch.last_sequence),
        control,
        coordinator_epoch,
        exact,
    )


def _or_none(number: int | None) -> int:
    """Return a number, or Kafka's -1 for none."""
    return -1 if number is None else number


def _signed16(attributes: int) -> int:
    return attributes - (1 << 16) if attributes >= 1 << 15 else attributes


def _control(source: Source, batch: Batch) -> tuple[int, int]:
    """Return the values of ``control`` and ``coordinator_epoch`` for a control batch."""
    if not batch.count:
        return EMPTY_CONTROL_BATCH, -1
    first = next(read_records(source, batch), None)
    if not isinstance(first, Record):
        return UNKNOWN_CONTROL, -1
    name, coordinator_epoch = control_fields(first)
    if name not in CONTROL_TYPES or _version(first.key, KEY) < 0:
        return UNKNOWN_CONTROL, -1
    control = CONTROL_TYPES.index(name)
    if control not in (ABORT, COMMIT):
        return control, -1
    if coordinator_epoch is None or _version(first.value, MARKER) < 0:
        return UNKNOWN_CONTROL, -1
    return control, coordinator_epoch


def _version(data: bytes | None, layout: FixedLayout) -> int:
    return layout.unpack_from(data)[0] if data else -1
