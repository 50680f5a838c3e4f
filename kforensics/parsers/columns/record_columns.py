"""Reads the records of a log as NumPy columns with keys and values as bytes.

Kernels read the log where possible, else pure Python, with the same result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kforensics.parsers.files.source import Source
from kforensics.parsers.format.array_types import IntArray
from kforensics.parsers.format.byte_slices import SLACK, ByteSlices, concatenate_slices, to_byte_slices
from kforensics.parsers.format.control_records import CONTROL_TYPES, control_fields
from kforensics.parsers.format.decompression import DEFAULT_BUDGET
from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.layouts import BATCH_HEADER
from kforensics.parsers.format.rows import CONTROL_BIT, TRANSACTIONAL_BIT, Batch, Damage, Record
from kforensics.parsers.kernels.policy import KernelLoader
from kforensics.parsers.log.batches import LogWalk, walk
from kforensics.parsers.log.log_rows import read_records

if TYPE_CHECKING:
    import numpy.typing as npt

    from kforensics.parsers.kernels.large_batches import LargeBatchReader

__all__ = ["MIN_COLUMNAR_BYTES", "RECORD_CHUNK_ROWS", "RECORD_ROW", "RecordColumns", "RecordRows", "record_chunks"]

# Smaller logs are read record by record in less time than it takes to import what columns need.
MIN_COLUMNAR_BYTES = 1 << 16
# Approximate records, or bytes of keys and values, of a chunk: enough to make the work per chunk negligible.
RECORD_CHUNK_ROWS, RECORD_CHUNK_BYTES = 1 << 16, 1 << 24
NONE = -1

RECORD_ROW = np.dtype(
    [
        ("position", "i8"),  # of its batch
        ("offset", "i8"),
        ("timestamp", "i8"),  # -1 for none
        ("leader_epoch", "i4"),  # of its batch, -1 for none; so are the next two
        ("producer_id", "i8"),
        ("producer_epoch", "i2"),
        ("is_transactional", "?"),
        ("is_control", "?"),
        ("control", "i4"),  # number in CONTROL_TYPES, -1 for none or an unassigned type
    ]
)
RecordRows: TypeAlias = "npt.NDArray[np.void]"


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Records in log order; a large batch may be spread over several of these.

    Attributes:
        rows: one RECORD_ROW per record.
        keys: their keys.
        values: their values.
    """

    rows: RecordRows
    keys: ByteSlices
    values: ByteSlices

    def __len__(self) -> int:
        return len(self.rows)


def record_chunks(
    source: Source, loader: KernelLoader | None, rows: int = RECORD_CHUNK_ROWS
) -> Iterator[RecordColumns]:
    """Yield the records of a log in chunks, in log order.

    Batches with an invalid checksum and records that cannot be read are left out.

    Args:
        source: the log.
        loader: loads the compiled kernels; None for pure Python.
        rows: approximate records of a chunk.
    """
    chunk = _Chunk(rows)
    for columns in _parts(source, loader, rows):
        chunk.add(columns)
        if chunk.is_full:
            yield chunk.flush()
    if len(last := chunk.flush()):
        yield last


def _parts(source: Source, loader: KernelLoader | None, rows: int) -> Iterator[RecordColumns]:
    """Yield the records in log order; the memory of keys and values may be reused when the next part is requested."""
    builder = _PythonBuilder(source, rows)
    large_batches = _large_batch_reader(source, loader) if loader else None
    for item in _read_with_kernels(source, loader) if loader else walk(source):
        if isinstance(item, RecordColumns):
            yield builder.flush()
            yield item
        elif isinstance(item, Batch) and item.crc_valid:
            read = 0
            for block, records in large_batches.parts(item) if large_batches else ():
                yield builder.flush()
                yield _columns(block)
                read += records
            if not read or read < (item.count or 0):
                yield from builder.add(item, read)
    yield builder.flush()


class _Chunk:
    """Collects columns until they are enough for a chunk."""

    def __init__(self, rows: int) -> None:
        self._full_rows = rows
        self._parts: list[RecordColumns] = []
        self._rows = self._bytes = 0

    def add(self, columns: RecordColumns) -> None:
        """Add a copy of columns, because their memory may be reused."""
        if len(columns):
            keys, values = columns.keys.copy(), columns.values.copy()
            self._parts.append(RecordColumns(columns.rows, keys, values))
            self._rows += len(columns)
            self._bytes += len(keys.data) + len(values.data)

    @property
    def is_full(self) -> bool:
        """Whether there are enough records or bytes for a chunk."""
        return self._rows >= self._full_rows or self._bytes >= RECORD_CHUNK_BYTES

    def flush(self) -> RecordColumns:
        """Return the columns added since the last flush."""
        parts = self._parts or [RecordColumns(np.empty(0, RECORD_ROW), to_byte_slices([]), to_byte_slices([]))]
        self._parts, self._rows, self._bytes = [], 0, 0
        return RecordColumns(
            # Viewed as plain bytes, because NumPy copies structured arrays field by field.
            np.concatenate([part.rows.view(f"V{RECORD_ROW.itemsize}") for part in parts]).view(RECORD_ROW),
            concatenate_slices([part.keys for part in parts]),
            concatenate_slices([part.values for part in parts]),
        )


# With kernels --------------------------------------------------------------------------------------------------------


def _read_with_kernels(source: Source, loader: KernelLoader) -> Iterator[Batch | Damage | RecordColumns]:
    from kforensics.parsers.kernels.engine import Block, Engine, read_with_fallback  # a small log must not pay for them

    for item in read_with_fallback(LogWalk(source), Engine(loader, _RecordTask(), source, workers=0)):
        yield _columns(item) if isinstance(item, Block) else item


def _large_batch_reader(source: Source, loader: KernelLoader) -> LargeBatchReader:
    from kforensics.parsers.kernels.large_batches import LargeBatchReader  # a small log must not pay for it

    return LargeBatchReader(loader, _RecordTask(), source)


class _RecordTask:
    """Has the kernel read records; a task for the engine."""

    def prepare(self, request: Any) -> Any:
        """Set up memory for the columns of a block."""
        from kforensics.parsers.kernels.column_buffers import (  # a small log must not pay for them
            COLUMN_SLOT,
            COPY_KEYS,
            COPY_VALUES,
            RECORD_AREA,
        )
        from kforensics.parsers.kernels.engine import MappedMemory

        memory = MappedMemory(RECORD_AREA)
        request[COLUMN_SLOT.output], request[COLUMN_SLOT.budget] = memory.address, DEFAULT_BUDGET
        request[COLUMN_SLOT.copied_fields] = COPY_KEYS + COPY_VALUES
        return memory

    def kernel(self, kernels: Any) -> Any:
        """Return the kernel that reads records."""
        return kernels.record_columns


def _columns(block: Any) -> RecordColumns:
    """Return the columns of a block; keys and values share its memory."""
    from kforensics.parsers.kernels.column_buffers import COLUMN_SLOT, RECORD_LAYOUT, RECORD_WIDTHS  # see above

    count = block.request[COLUMN_SLOT.rows]

    def column(name: str, extra: int = 0) -> IntArray:
        kind = f"i{RECORD_WIDTHS[name]}"
        return np.frombuffer(block.output.view, kind, count + extra, getattr(RECORD_LAYOUT, name))

    def slices(name: str, data_column: str) -> ByteSlices:
        ends = column(f"{name}_ends", 1).astype("i8")
        data = np.frombuffer(block.output.view, "u1", int(ends[-1]) + SLACK, getattr(RECORD_LAYOUT, data_column))
        return ByteSlices(data, ends[:-1], column(f"{name}_size").astype("i8"))

    rows = np.zeros(count, RECORD_ROW)
    rows["position"] = column("batch_position")
    for name in ("offset", "timestamp"):
        rows[name] = column(name)
    rows["control"] = column("control_type")
    _set_batch_columns(rows, block)
    return RecordColumns(rows, slices("key", "keys"), slices("value", "values"))


def _set_batch_columns(rows: RecordRows, block: Any) -> None:
    """Set the columns whose values are in the batch headers, which are still in the memory that the kernel read."""
    layout = fixed_layout(BATCH_HEADER)
    first_rows = np.flatnonzero(np.diff(rows["position"], prepend=NONE))
    counts = np.diff(first_rows, append=len(rows))
    starts = rows["position"][first_rows] - block.position
    headers = np.ndarray(block.size - layout.size + 1, layout.dtype, block.area.view, 0, (1,))[starts]
    attributes = headers["attributes"]
    columns = {
        "leader_epoch": headers["partition_leader_epoch"],
        "producer_id": headers["producer_id"],
        "producer_epoch": headers["producer_epoch"],
        "is_transactional": attributes & TRANSACTIONAL_BIT != 0,
        "is_control": attributes & CONTROL_BIT != 0,
    }
    for name, column in columns.items():
        rows[name] = np.repeat(column, counts)


# In pure Python ------------------------------------------------------------------------------------------------------


class _PythonBuilder:
    """Builds columns of records that pure Python has read, many at once."""

    def __init__(self, source: Source, rows: int) -> None:
        self._source, self._full_rows = source, rows
        self._rows: list[tuple[Any, ...]] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether there are enough records or bytes for a chunk."""
        return len(self._rows) >= self._full_rows or self._bytes >= RECORD_CHUNK_BYTES

    def add(self, batch: Batch, first: int) -> Iterator[RecordColumns]:
        """Add the records of a batch from an index on, and yield columns once there are enough for a chunk."""
        most = max(self._full_rows, RECORD_CHUNK_ROWS)  # only large batches are spread over several chunks
        of_batch = (
            NONE if batch.partition_leader_epoch is None else batch.partition_leader_epoch,
            NONE if batch.producer_id is None else batch.producer_id,
            NONE if batch.producer_epoch is None else batch.producer_epoch,
            batch.is_transactional,
            batch.is_control,
        )
        for row in islice(read_records(self._source, batch), first, None):
            if isinstance(row, Record):
                control = _control_number(row) if batch.is_control else NONE
                self._rows.append((batch.position, row.offset, row.timestamp, *of_batch, control))
                self._keys.append(row.key)
                self._values.append(row.value)
                self._bytes += max(row.key_size, 0) + max(row.value_size, 0)
            if len(self._rows) >= most or self._bytes >= RECORD_CHUNK_BYTES:
                yield self.flush()
        if self.is_full:
            yield self.flush()

    def flush(self) -> RecordColumns:
        """Return the columns of all records added since the last flush."""
        rows = np.array(self._rows, RECORD_ROW)
        columns = RecordColumns(rows, to_byte_slices(self._keys), to_byte_slices(self._values))
        self._rows, self._keys, self._values, self._bytes = [], [], [], 0
        return columns


def _control_number(record: Record) -> int:
    name, _ = control_fields(record)
    return CONTROL_TYPES.index(name) if name in CONTROL_TYPES else NONE
