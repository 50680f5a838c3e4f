"""Batches and records of a log as Arrow columns, made by kernels without an object per row.

What kernels do not take comes as rows of :mod:`.log_rows`, in its place between the columns.
"""

from __future__ import annotations

import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate, repeat
from typing import TYPE_CHECKING, Any

from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import Source
from kforensics.parsers.format.control import CONTROL_TYPES
from kforensics.parsers.format.rows import CODECS, CREATE_TIME, LOG_APPEND_TIME, Damage, Record
from kforensics.parsers.kernels.column_buffers import (
    BATCH_AREA,
    BATCH_WIDTHS,
    BUDGET,
    COLUMNS,
    CONTROLS,
    COPY_HEADERS,
    COPY_KEYS,
    COPY_VALUES,
    EPOCHS,
    HEADER_KEY_BYTES,
    HEADER_VALUE_BYTES,
    HEADERS,
    HORIZONS,
    IN_BATCHES,
    IN_RECORDS,
    KEY_BYTES,
    NULL_HEADER_VALUES,
    NULL_KEYS,
    NULL_VALUES,
    PAYLOADS,
    RECORD_AREA,
    RECORD_WIDTHS,
    ROOM,
    ROWS,
    VALUE_BYTES,
)
from kforensics.parsers.kernels.engine import Area, Block, Engine
from kforensics.parsers.kernels.fallback import in_turns
from kforensics.parsers.kernels.library import Kernels, Request
from kforensics.parsers.kernels.policy import Supply
from kforensics.parsers.kernels.request import SCRATCH_SIZE
from kforensics.parsers.log.batches import Walk
from kforensics.parsers.log.log_rows import batch_row, record_row, records_of
from kforensics.parsers.log.selection import Selection, is_cut
from kforensics.parsers.tables.file_rows import Reading, place_of
from kforensics.parsers.tables.schemas import arrow_schema, encodable, with_words

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["columns_of"]

Row = tuple[Any, ...]
Report = Callable[[Damage], None]
WORDS = {
    "timestamp_type": (CREATE_TIME, LOG_APPEND_TIME),
    "compression_type": CODECS,
    "control_type": CONTROL_TYPES,
}
FLAGS = ("is_transactional", "is_control")
PAYLOADS_OF = {"key": COPY_KEYS, "value": COPY_VALUES, "headers": COPY_HEADERS}
FORMAT = 2


def columns_of(  # noqa: PLR0913  # a range of a file, who is told what, and who does it
    found: FoundFile,
    source: Source,
    reading: Reading,
    report: Report,
    kernels: Supply,
    *,
    workers: int | None = None,
) -> Iterator[pa.RecordBatch | Iterator[Row]]:
    """Yield the batches or records of a log, in the order of the bytes.

    Args:
        found: the log.
        source: its bytes.
        reading: what to read; it must not select.
        report: told of all damage, in the order of the bytes.
        kernels: gives the compiled kernels once they are there.
        workers: threads that read, 0 for none beside the caller's, None for one per processor.

    Yields:
        Record batches of the columns wanted, with text dictionary-encoded, see :func:`.tables.with_words`; and rows of
        all columns between them, to be consumed before the next item is asked for.
    """
    if reading.selection != Selection():
        raise ValueError("columns are made of whole batches; a selection wants rows")
    task = _RecordColumns(found, reading) if reading.records else _BatchColumns(found, reading)
    engine = Engine(kernels, task, source, reading.stop, workers)
    place = place_of(found)
    for item in in_turns(Walk(source, reading.start, reading.stop), engine):
        if isinstance(item, Block):
            yield task.columns(item)
        elif isinstance(item, Damage):
            if not is_cut(item, source, reading.stop):
                report(item)
        elif reading.records:
            rows = _without_damage(records_of(source, item, reading.budget), report)
            yield (record_row(place, source.path, batch, row) for batch, row in zip(repeat(item), rows))
        else:
            yield iter([batch_row(place, source, item, reading.budget)])


def _without_damage(rows: Iterator[Record | Damage], report: Report) -> Iterator[Record]:
    for row in rows:
        if isinstance(row, Damage):
            report(row)
        else:
            yield row


@dataclass(slots=True)
class _Memory:
    """Memory that columns stand in; when the last column is gone, it is used anew."""

    area: Area
    free: deque[Area]

    def __del__(self) -> None:
        self.free.append(self.area)


class _Columns:
    """Makes record batches of blocks; a task for the engine.

    Args:
        table: name of the table.
        size: bytes of the output of a block.
        places: where in the output each column stands.
        widths: bytes of a number in each column.
        found: the log.
        reading: how to read it.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # what tells the two tables apart
        self, table: str, size: int, places: Any, widths: dict[str, int], found: FoundFile, reading: Reading
    ) -> None:
        self._size, self._places, self._widths = size, places, widths
        self._budget, self._free = reading.budget, deque[Area]()
        self._schema = _wanted(with_words(arrow_schema(table)), reading)
        self._makers: list[Callable[[_Filled], pa.Array]] = []
        constants = {**place_of(found)._asdict(), "path": found.path, **self._constants()}
        for field in self._schema:
            if field.name in constants:
                self._makers.append(_Constant(constants[field.name], field.type))
            else:
                self._makers.append(partial(self._maker(field.name), field.name, field.type))

    def _constants(self) -> dict[str, Any]:
        return {}

    def _maker(self, name: str) -> Callable[[str, pa.DataType, _Filled], pa.Array]:
        return {"coordinator_epoch": _epochs, "control_type": _control_types}.get(name) or (
            _codes if name in WORDS else _numbers
        )

    def prepare(self, request: Request) -> _Memory:
        """Give a request memory of its own."""
        request[SCRATCH_SIZE] = min(request[SCRATCH_SIZE], self._budget)
        request[BUDGET] = self._budget
        return self._memory(request)

    def _memory(self, request: Request) -> _Memory:
        area = self._free.pop() if self._free else Area(self._size)
        request[COLUMNS] = area.address
        return _Memory(area, self._free)

    def columns(self, block: Block) -> pa.RecordBatch:
        """Return the columns of a block, which then goes on in other memory."""
        import pyarrow as pa  # who wants rows does without it

        filled = _Filled(block.request, block.output, self._places, self._widths)
        arrays = [make(filled) for make in self._makers]
        block.output = self._memory(block.request)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _wanted(schema: pa.Schema, reading: Reading) -> pa.Schema:
    import pyarrow as pa  # as above

    return pa.schema([field for field in schema if reading.wants(field.name)])


class _RecordColumns(_Columns):
    def __init__(self, found: FoundFile, reading: Reading) -> None:
        super().__init__("records", RECORD_AREA, IN_RECORDS, RECORD_WIDTHS, found, reading)
        self._payloads = sum(kind for name, kind in PAYLOADS_OF.items() if reading.wants(name))

    def prepare(self, request: Request) -> _Memory:
        """Give a request memory of its own, and say what goes there."""
        request[PAYLOADS] = self._payloads
        return super().prepare(request)

    def kernel(self, kernels: Kernels) -> Callable[[int], int]:
        """Return the kernel that reads records."""
        return kernels.record_columns

    def _maker(self, name: str) -> Callable[[str, pa.DataType, _Filled], pa.Array]:
        makers = {"key": _keys, "value": _values, "headers": _headers}
        return makers.get(name) or super()._maker(name)


class _BatchColumns(_Columns):
    def __init__(self, found: FoundFile, reading: Reading) -> None:
        super().__init__("batches", BATCH_AREA, IN_BATCHES, BATCH_WIDTHS, found, reading)

    def kernel(self, kernels: Kernels) -> Callable[[int], int]:
        """Return the kernel that reads headers."""
        return kernels.batch_columns

    def _constants(self) -> dict[str, Any]:
        # Kernels take no other batches.
        return {"magic": FORMAT, "crc_valid": True}

    def _maker(self, name: str) -> Callable[[str, pa.DataType, _Filled], pa.Array]:
        if name == "delete_horizon_ms":
            return _horizons
        return _flags if name in FLAGS else super()._maker(name)


class _Filled:
    """The columns of a block as a kernel left them.

    Attributes:
        rows: how many there are.
    """

    def __init__(self, request: Request, memory: _Memory, places: Any, widths: dict[str, int]) -> None:
        self._request, self._memory, self._places, self._widths = request, memory, places, widths
        self.rows: int = request[ROWS]

    def __getitem__(self, counter: int) -> int:
        """Return what the kernel counted."""
        counted: int = self._request[counter]
        return counted

    def buffer(self, name: str, size: int) -> pa.Buffer:
        """Return the first bytes of a column."""
        import pyarrow as pa  # as above

        address = self._memory.area.address + getattr(self._places, name)
        return pa.foreign_buffer(address, size, self._memory)

    def numbers(self, name: str, more: int = 0) -> pa.Buffer:
        """Return a column of numbers, one for each row and ``more``."""
        return self.buffer(name, self._widths[name] * (self.rows + more))

    def bits(self, name: str, count: int, kind: str, least: int) -> pa.Buffer:
        """Return a bit for each number of a column: whether it is not below ``least``."""
        import numpy as np  # comes with pyarrow
        import pyarrow as pa

        numbers = np.frombuffer(self.buffer(name, count * np.dtype(kind).itemsize), kind)
        return pa.py_buffer(np.packbits(numbers >= least, bitorder="little"))


class _Constant:
    """A column with the same value in each row."""

    def __init__(self, value: Any, kind: pa.DataType) -> None:
        self._value, self._kind = value, kind
        self._words = (encodable(value),) if isinstance(value, str) else ()
        self._array = self._of(1)

    def __call__(self, filled: _Filled) -> pa.Array:
        if len(self._array) < filled.rows:
            self._array = self._of(max(filled.rows, min(2 * filled.rows, ROOM)))
        return self._array.slice(0, filled.rows)

    def _of(self, rows: int) -> pa.Array:
        import pyarrow as pa  # as above

        if self._value is None:
            return pa.nulls(rows, self._kind)
        if self._words:
            numbers = pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(bytes(4 * rows))])
            return pa.DictionaryArray.from_arrays(numbers, _strings(self._words))
        # Booleans are bits, of which those of a byte are all the same here.
        one = (
            b"\xff" if self._value is True else self._value.to_bytes(self._kind.byte_width, sys.byteorder, signed=True)
        )
        return pa.Array.from_buffers(self._kind, rows, [None, pa.py_buffer(one * rows)])


@cache
def _strings(words: tuple[str, ...]) -> pa.Array:
    """Return words as Arrow; ``pyarrow.array`` would load pandas."""
    import pyarrow as pa  # as above

    encoded = [word.encode() for word in words]
    ends = array("i", accumulate(map(len, encoded), initial=0))
    return pa.Array.from_buffers(pa.string(), len(words), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))])


def _numbers(name: str, kind: pa.DataType, filled: _Filled) -> pa.Array:
    import pyarrow as pa  # as above

    return pa.Array.from_buffers(kind, filled.rows, [None, filled.numbers(name)])


def _codes(name: str, _kind: pa.DataType, filled: _Filled, valid: pa.Buffer | None = None) -> pa.Array:
    import pyarrow as pa  # as above

    numbers = pa.Array.from_buffers(pa.int32(), filled.rows, [valid, filled.numbers(name)])
    return pa.DictionaryArray.from_arrays(numbers, _strings(WORDS[name]))


def _control_types(name: str, kind: pa.DataType, filled: _Filled) -> pa.Array:
    import pyarrow as pa  # as above

    if not filled[CONTROLS]:
        return pa.nulls(filled.rows, kind)
    return _codes(name, kind, filled, filled.bits(name, filled.rows, "=i4", 0))


def _epochs(name: str, kind: pa.DataType, filled: _Filled) -> pa.Array:
    import pyarrow as pa  # as above

    if not filled[EPOCHS]:
        return pa.nulls(filled.rows, kind)
    return pa.Array.from_buffers(
        kind, filled.rows, [filled.bits("has_epoch", filled.rows, "=i1", 1), filled.numbers(name)]
    )


def _horizons(_name: str, kind: pa.DataType, filled: _Filled) -> pa.Array:
    import pyarrow as pa  # as above

    if not filled[HORIZONS]:
        return pa.nulls(filled.rows, kind)
    valid = filled.bits("has_delete_horizon", filled.rows, "=i1", 1)
    return pa.Array.from_buffers(kind, filled.rows, [valid, filled.numbers("base_timestamp")])


def _flags(name: str, kind: pa.DataType, filled: _Filled) -> pa.Array:
    import pyarrow as pa  # as above

    return pa.Array.from_buffers(kind, filled.rows, [None, filled.bits(name, filled.rows, "=i1", 1)])


def _keys(_name: str, kind: pa.DataType, filled: _Filled) -> pa.Array:
    return _payloads("key", kind, filled, filled[NULL_KEYS], filled.buffer("keys", filled[KEY_BYTES]))


def _values(_name: str, kind: pa.DataType, filled: _Filled) -> pa.Array:
    return _payloads("value", kind, filled, filled[NULL_VALUES], filled.buffer("values", filled[VALUE_BYTES]))


def _payloads(name: str, kind: pa.DataType, filled: _Filled, nulls: int, data: pa.Buffer) -> pa.Array:
    import pyarrow as pa  # as above

    valid = filled.bits(f"{name}_size", filled.rows, "=i4", 0) if nulls else None
    return pa.Array.from_buffers(kind, filled.rows, [valid, filled.numbers(f"{name}_ends", 1), data])


def _headers(_name: str, kind: pa.DataType, filled: _Filled) -> pa.Array:
    import pyarrow as pa  # as above

    count, pairs = filled[HEADERS], kind.value_type
    ends = [filled.buffer(f"header_{part}_ends", 4 * (count + 1)) for part in ("key", "value")]
    valid = filled.bits("header_has_value", count, "=i1", 1) if filled[NULL_HEADER_VALUES] else None
    data = filled.buffer("header_keys", filled[HEADER_KEY_BYTES])
    keys = pa.Array.from_buffers(pairs.field(0).type, count, [None, ends[0], data])
    data = filled.buffer("header_values", filled[HEADER_VALUE_BYTES])
    values = pa.Array.from_buffers(pairs.field(1).type, count, [valid, ends[1], data])
    both = pa.Array.from_buffers(pairs, count, [None], children=[keys, values])
    return pa.Array.from_buffers(kind, filled.rows, [None, filled.numbers("header_ends", 1)], children=[both])
