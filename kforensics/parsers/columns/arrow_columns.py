"""Reads batches or records of a log as Arrow columns with kernels, without a Python object per row.

What kernels decline is read in pure Python and yielded as rows of :mod:`.log_rows` between the columns.
"""

from __future__ import annotations

import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import Source
from kforensics.parsers.format.control_records import CONTROL_TYPES
from kforensics.parsers.format.rows import CODECS, Damage
from kforensics.parsers.kernels.block_filter import BlockFilter, read_selected
from kforensics.parsers.kernels.column_buffers import (
    BATCH_AREA,
    BATCH_LAYOUT,
    BATCH_WIDTHS,
    COLUMN_SLOT,
    COPY_HEADERS,
    COPY_KEYS,
    COPY_VALUES,
    MAX_ROWS,
    RECORD_AREA,
    RECORD_LAYOUT,
    RECORD_WIDTHS,
)
from kforensics.parsers.kernels.engine import Block, Engine, MappedMemory
from kforensics.parsers.kernels.large_batches import LargeBatchReader
from kforensics.parsers.kernels.library import Kernels, Request
from kforensics.parsers.kernels.policy import KernelLoader
from kforensics.parsers.kernels.request import SLOT, TIMESTAMP_TYPES
from kforensics.parsers.log.batches import LogWalk
from kforensics.parsers.log.log_rows import batch_row
from kforensics.parsers.log.selection import Selection, is_cut_at_stop
from kforensics.parsers.tables.file_rows import ReadOptions, place_of, record_rows
from kforensics.parsers.tables.schemas import arrow_schema, dictionary_schema, encodable

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_arrow_columns"]

Row = tuple[Any, ...]
LABELS = {
    "timestamp_type": TIMESTAMP_TYPES,
    "compression_type": CODECS,
    "control_type": CONTROL_TYPES,
}
FLAGS = ("is_transactional", "is_control")
COPY_FLAGS = {"key": COPY_KEYS, "value": COPY_VALUES, "headers": COPY_HEADERS}
FORMAT = 2


def read_arrow_columns(  # noqa: PLR0913  # a range of a file, and how to read it
    file: FoundFile,
    source: Source,
    options: ReadOptions,
    report: Callable[[Damage], None],
    kernels: KernelLoader,
    *,
    workers: int | None = None,
) -> Iterator[pa.RecordBatch | Iterator[Row]]:
    """Yield the batches or records of a log, in log order.

    Args:
        file: the log.
        source: its bytes.
        options: what to read.
        report: called with all damage, in log order.
        kernels: loads the compiled kernels.
        workers: threads; 0 to use the caller's thread only, None for one per processor.

    Yields:
        Record batches of the requested columns, with text dictionary-encoded (see
        :func:`.schemas.dictionary_schema`), and iterators over rows of all columns between them. Exhaust an iterator
        before requesting the next item.
    """
    block_filter = None if options.selection == Selection() else BlockFilter(options.selection)
    task = _RecordColumnsTask(file, options) if options.records else _BatchColumnsTask(file, options)
    engine = Engine(kernels, task, source, options.stop, workers, block_filter)
    large_batches, place = LargeBatchReader(kernels, task, source, options.budget, block_filter), place_of(file)
    for item in read_selected(LogWalk(source, options.start, options.stop), engine):
        if isinstance(item, Block):
            yield task.columns(item)
        elif isinstance(item, Damage):
            if not is_cut_at_stop(item, source, options.stop):
                report(item)
        elif options.records:
            read = 0
            for block, records in large_batches.parts(item) if item.crc_valid else ():
                yield task.columns(block)
                read += records
            if not (read and large_batches.is_whole):
                yield record_rows(place, source, item, options, report, read)
        else:
            yield iter([batch_row(place, source, item, options.budget)])


# Tasks ---------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _ColumnMemory:
    """Memory of columns, which is free again when the last column that uses it is deleted."""

    memory: MappedMemory
    free: deque[MappedMemory]

    def __del__(self) -> None:
        self.free.append(self.memory)


class _ColumnsTask:
    """Makes record batches of blocks; a task for the engine.

    Args:
        table: name of the table.
        size: bytes of a block's output.
        layout: offset of each column in the output.
        widths: bytes per number in each column.
        file: the log.
        options: how to read it.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # the differences between the two tables
        self, table: str, size: int, layout: Any, widths: dict[str, int], file: FoundFile, options: ReadOptions
    ) -> None:
        self._size, self._layout, self._widths = size, layout, widths
        self._budget, self._free = options.budget, deque[MappedMemory]()
        self._schema = _requested_fields(dictionary_schema(arrow_schema(table)), options)
        self._builders: list[Callable[[_BlockColumns], pa.Array]] = []
        constants = {**place_of(file)._asdict(), "path": file.path, **self._constants()}
        for field in self._schema:
            if field.name in constants:
                self._builders.append(_ConstantColumn(constants[field.name], field.type))
            else:
                self._builders.append(partial(self._builder(field.name), field.name, field.type))

    def _constants(self) -> dict[str, Any]:
        return {}

    def _builder(self, name: str) -> Callable[[str, pa.DataType, _BlockColumns], pa.Array]:
        return {"coordinator_epoch": _coordinator_epochs, "control_type": _control_types}.get(name) or (
            _labels if name in LABELS else _numbers
        )

    def prepare(self, request: Request) -> _ColumnMemory:
        """Set up memory for the columns of a block."""
        request[SLOT.scratch_size] = min(request[SLOT.scratch_size], self._budget)
        request[COLUMN_SLOT.budget] = self._budget
        return self._memory(request)

    def _memory(self, request: Request) -> _ColumnMemory:
        memory = self._free.pop() if self._free else MappedMemory(self._size)
        request[COLUMN_SLOT.output] = memory.address
        return _ColumnMemory(memory, self._free)

    def columns(self, block: Block) -> pa.RecordBatch:
        """Return the columns of a block, and give the block other memory."""
        import pyarrow as pa  # readers of rows do without it

        columns = _BlockColumns(block.request, block.output, self._layout, self._widths)
        arrays = [build(columns) for build in self._builders]
        block.output = self._memory(block.request)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _requested_fields(schema: pa.Schema, options: ReadOptions) -> pa.Schema:
    import pyarrow as pa  # readers of rows do without it

    return pa.schema([field for field in schema if options.wants(field.name)])


class _RecordColumnsTask(_ColumnsTask):
    def __init__(self, file: FoundFile, options: ReadOptions) -> None:
        super().__init__("records", RECORD_AREA, RECORD_LAYOUT, RECORD_WIDTHS, file, options)
        self._copied_fields = sum(flag for name, flag in COPY_FLAGS.items() if options.wants(name))

    def prepare(self, request: Request) -> _ColumnMemory:
        """Set up memory for the columns of a block, and choose what to copy there."""
        request[COLUMN_SLOT.copied_fields] = self._copied_fields
        request[COLUMN_SLOT.takes_legacy] = 1
        return super().prepare(request)

    def kernel(self, kernels: Kernels) -> Callable[[int], int]:
        """Return the kernel that reads records."""
        return kernels.record_columns

    def _builder(self, name: str) -> Callable[[str, pa.DataType, _BlockColumns], pa.Array]:
        builders = {"key": _keys, "value": _values, "headers": _headers}
        return builders.get(name) or super()._builder(name)


class _BatchColumnsTask(_ColumnsTask):
    def __init__(self, file: FoundFile, options: ReadOptions) -> None:
        super().__init__("batches", BATCH_AREA, BATCH_LAYOUT, BATCH_WIDTHS, file, options)

    def kernel(self, kernels: Kernels) -> Callable[[int], int]:
        """Return the kernel that reads batches."""
        return kernels.batch_columns

    def _constants(self) -> dict[str, Any]:
        # The kernel declines all other batches unless it is asked to take them.
        return {"magic": FORMAT, "crc_valid": True}

    def _builder(self, name: str) -> Callable[[str, pa.DataType, _BlockColumns], pa.Array]:
        if name == "delete_horizon_ms":
            return _delete_horizons
        return _flags if name in FLAGS else super()._builder(name)


class _BlockColumns:
    """The columns that a kernel has written for a block.

    Attributes:
        rows: their number of rows.
    """

    def __init__(self, request: Request, memory: _ColumnMemory, layout: Any, widths: dict[str, int]) -> None:
        self._request, self._memory, self._layout, self._widths = request, memory, layout, widths
        self.rows: int = request[COLUMN_SLOT.rows]

    def __getitem__(self, slot: int) -> int:
        """Return a counter of the kernel."""
        count: int = self._request[slot]
        return count

    def buffer(self, name: str, size: int) -> pa.Buffer:
        """Return the first bytes of a column."""
        import pyarrow as pa  # readers of rows do without it

        address = self._memory.memory.address + getattr(self._layout, name)
        return pa.foreign_buffer(address, size, self._memory)

    def numbers(self, name: str, extra: int = 0) -> pa.Buffer:
        """Return a column of numbers, one per row and ``extra`` more."""
        return self.buffer(name, self._widths[name] * (self.rows + extra))

    def bits(self, name: str, count: int, kind: str, least: int) -> pa.Buffer:
        """Return a bit for each number of a column, set if the number is at least ``least``."""
        import numpy as np  # comes with pyarrow
        import pyarrow as pa

        numbers = np.frombuffer(self.buffer(name, count * np.dtype(kind).itemsize), kind)
        return pa.py_buffer(np.packbits(numbers >= least, bitorder="little"))


# Columns -------------------------------------------------------------------------------------------------------------


class _ConstantColumn:
    """A column with the same value in each row."""

    def __init__(self, value: Any, kind: pa.DataType) -> None:
        self._value, self._kind = value, kind
        self._labels = (encodable(value),) if isinstance(value, str) else ()
        self._array = self._repeated(1)

    def __call__(self, columns: _BlockColumns) -> pa.Array:
        if len(self._array) < columns.rows:
            self._array = self._repeated(max(columns.rows, min(2 * columns.rows, MAX_ROWS)))
        return self._array.slice(0, columns.rows)

    def _repeated(self, rows: int) -> pa.Array:
        import pyarrow as pa  # readers of rows do without it

        if self._value is None:
            return pa.nulls(rows, self._kind)
        if self._labels:
            codes = pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(bytes(4 * rows))])
            return pa.DictionaryArray.from_arrays(codes, _strings(self._labels))
        # Booleans are bits; this sets all eight of a byte.
        value = (
            b"\xff" if self._value is True else self._value.to_bytes(self._kind.byte_width, sys.byteorder, signed=True)
        )
        return pa.Array.from_buffers(self._kind, rows, [None, pa.py_buffer(value * rows)])


@cache
def _strings(labels: tuple[str, ...]) -> pa.Array:
    """Return labels as an Arrow array. ``pyarrow.array`` would import pandas."""
    import pyarrow as pa  # readers of rows do without it

    encoded = [label.encode() for label in labels]
    ends = array("i", accumulate(map(len, encoded), initial=0))
    return pa.Array.from_buffers(pa.string(), len(labels), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))])


def _numbers(name: str, kind: pa.DataType, columns: _BlockColumns) -> pa.Array:
    import pyarrow as pa  # readers of rows do without it

    return pa.Array.from_buffers(kind, columns.rows, [None, columns.numbers(name)])


def _labels(name: str, _kind: pa.DataType, columns: _BlockColumns, valid: pa.Buffer | None = None) -> pa.Array:
    import pyarrow as pa  # readers of rows do without it

    codes = pa.Array.from_buffers(pa.int32(), columns.rows, [valid, columns.numbers(name)])
    return pa.DictionaryArray.from_arrays(codes, _strings(LABELS[name]))


def _control_types(name: str, kind: pa.DataType, columns: _BlockColumns) -> pa.Array:
    import pyarrow as pa  # readers of rows do without it

    if not columns[COLUMN_SLOT.control_rows]:
        return pa.nulls(columns.rows, kind)
    return _labels(name, kind, columns, columns.bits(name, columns.rows, "=i4", 0))


def _coordinator_epochs(name: str, kind: pa.DataType, columns: _BlockColumns) -> pa.Array:
    import pyarrow as pa  # readers of rows do without it

    if not columns[COLUMN_SLOT.epoch_rows]:
        return pa.nulls(columns.rows, kind)
    valid = columns.bits("has_epoch", columns.rows, "=i1", 1)
    return pa.Array.from_buffers(kind, columns.rows, [valid, columns.numbers(name)])


def _delete_horizons(_name: str, kind: pa.DataType, columns: _BlockColumns) -> pa.Array:
    import pyarrow as pa  # readers of rows do without it

    if not columns[COLUMN_SLOT.horizon_rows]:
        return pa.nulls(columns.rows, kind)
    valid = columns.bits("has_delete_horizon", columns.rows, "=i1", 1)
    return pa.Array.from_buffers(kind, columns.rows, [valid, columns.numbers("base_timestamp")])


def _flags(name: str, kind: pa.DataType, columns: _BlockColumns) -> pa.Array:
    import pyarrow as pa  # readers of rows do without it

    return pa.Array.from_buffers(kind, columns.rows, [None, columns.bits(name, columns.rows, "=i1", 1)])


def _keys(_name: str, kind: pa.DataType, columns: _BlockColumns) -> pa.Array:
    data = columns.buffer("keys", columns[COLUMN_SLOT.key_bytes])
    return _byte_strings("key", kind, columns, columns[COLUMN_SLOT.null_keys], data)


def _values(_name: str, kind: pa.DataType, columns: _BlockColumns) -> pa.Array:
    data = columns.buffer("values", columns[COLUMN_SLOT.value_bytes])
    return _byte_strings("value", kind, columns, columns[COLUMN_SLOT.null_values], data)


def _byte_strings(name: str, kind: pa.DataType, columns: _BlockColumns, nulls: int, data: pa.Buffer) -> pa.Array:
    import pyarrow as pa  # readers of rows do without it

    valid = columns.bits(f"{name}_size", columns.rows, "=i4", 0) if nulls else None
    return pa.Array.from_buffers(kind, columns.rows, [valid, columns.numbers(f"{name}_ends", 1), data])


def _headers(_name: str, kind: pa.DataType, columns: _BlockColumns) -> pa.Array:
    import pyarrow as pa  # readers of rows do without it

    count, pair_type = columns[COLUMN_SLOT.headers], kind.value_type
    key_ends, value_ends = (columns.buffer(f"header_{part}_ends", 4 * (count + 1)) for part in ("key", "value"))
    has_nulls = columns[COLUMN_SLOT.null_header_values]
    valid = columns.bits("header_has_value", count, "=i1", 1) if has_nulls else None
    data = columns.buffer("header_keys", columns[COLUMN_SLOT.header_key_bytes])
    keys = pa.Array.from_buffers(pair_type.field(0).type, count, [None, key_ends, data])
    data = columns.buffer("header_values", columns[COLUMN_SLOT.header_value_bytes])
    values = pa.Array.from_buffers(pair_type.field(1).type, count, [valid, value_ends, data])
    pairs = pa.Array.from_buffers(pair_type, count, [None], children=[keys, values])
    return pa.Array.from_buffers(kind, columns.rows, [None, columns.numbers("header_ends", 1)], children=[pairs])
