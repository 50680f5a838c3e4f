"""Records of a log as numpy columns, keys and values as bytes: by kernels as far as they go, else plain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kforensics.parsers.files.source import Source
from kforensics.parsers.format.byte_slices import SLACK, Pieces, joined_pieces, pieces_of
from kforensics.parsers.format.codecs import DEFAULT_BUDGET
from kforensics.parsers.format.control import CONTROL_TYPES, control_of
from kforensics.parsers.format.derived import fixed
from kforensics.parsers.format.layouts import BATCH_HEADER
from kforensics.parsers.format.rows import CONTROL_BIT, TRANSACTIONAL_BIT, Batch, Record
from kforensics.parsers.kernels.policy import Supply
from kforensics.parsers.log.batches import Walk
from kforensics.parsers.log.log_rows import records_of

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["CHUNK_ROWS", "RECORD", "WORTH_COLUMNS", "RecordColumns", "record_chunks"]

Numbers: TypeAlias = "npt.NDArray[Any]"

# Smaller logs have been gone through record by record before what makes columns is loaded.
WORTH_COLUMNS = 1 << 16
# Records, or bytes of keys and values, of a chunk, about: so many that what is done once for each key and each column
# hardly counts.
CHUNK_ROWS, CHUNK_BYTES = 1 << 16, 1 << 24
NONE = -1

RECORD = np.dtype(
    [
        ("position", "i8"),  # of its batch
        ("offset", "i8"),
        ("timestamp", "i8"),  # -1 if it has none
        ("leader_epoch", "i4"),  # of its batch, -1 if there is none, as are the next two
        ("producer_id", "i8"),
        ("producer_epoch", "i2"),
        ("is_transactional", "?"),
        ("is_control", "?"),
        ("control", "i4"),  # number in CONTROL_TYPES; -1 if it is none of them
    ]
)


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Records of whole batches, in the order of the bytes.

    Attributes:
        rows: RECORD records.
        keys: their keys.
        values: their values.
    """

    rows: Numbers
    keys: Pieces
    values: Pieces

    def __len__(self) -> int:
        return len(self.rows)


def record_chunks(source: Source, supply: Supply | None, rows: int = CHUNK_ROWS) -> Iterator[RecordColumns]:
    """Yield the records of a log in chunks of whole batches, in the order of the bytes.

    Batches whose checksum fails are left out, and what of a batch cannot be read.

    Args:
        source: the log.
        supply: gives the compiled kernels once they are there; None for plain Python.
        rows: records of a chunk, about.
    """
    steps = Walk(source)
    plain, gathered = _Plain(source, rows), _Gathered(rows)
    for item in _in_turns(steps, source, supply) if supply else _steps(steps):
        if isinstance(item, RecordColumns):
            gathered.add(plain.rest())
            gathered.add(item)
        elif isinstance(item, Batch) and item.crc_valid:
            plain.take(item)
            if plain.is_full:
                gathered.add(plain.rest())
        if gathered.is_full:
            yield gathered.rest()
    gathered.add(plain.rest())
    if len(last := gathered.rest()):
        yield last


def _steps(steps: Walk) -> Iterator[Any]:
    while rows := steps.step():
        yield from rows


def _in_turns(steps: Walk, source: Source, supply: Supply) -> Iterator[Any]:
    from kforensics.parsers.kernels.engine import Block, Engine  # a small log must not pay for them
    from kforensics.parsers.kernels.fallback import in_turns

    for item in in_turns(steps, Engine(supply, _Task(), source, workers=0)):
        yield _columns(item) if isinstance(item, Block) else item


class _Task:
    """Has the kernel read records; a task for the engine."""

    def prepare(self, request: Any) -> Any:
        """Give a request memory of its own."""
        from kforensics.parsers.kernels.column_buffers import (  # as above
            BUDGET,
            COLUMNS,
            COPY_KEYS,
            COPY_VALUES,
            PAYLOADS,
            RECORD_AREA,
        )
        from kforensics.parsers.kernels.engine import Area

        area = Area(RECORD_AREA)
        request[COLUMNS], request[BUDGET], request[PAYLOADS] = area.address, DEFAULT_BUDGET, COPY_KEYS + COPY_VALUES
        return area

    def kernel(self, kernels: Any) -> Any:
        """Return the kernel that reads records."""
        return kernels.record_columns


def _columns(block: Any) -> RecordColumns:
    """Return what the kernel left in a block; keys and values where they lie."""
    from kforensics.parsers.kernels.column_buffers import IN_RECORDS, RECORD_WIDTHS, ROWS  # as above

    count = block.request[ROWS]

    def column(name: str, more: int = 0) -> Numbers:
        kind = f"i{RECORD_WIDTHS[name]}"
        return np.frombuffer(block.output.view, kind, count + more, getattr(IN_RECORDS, name))

    def pieces(name: str, data: str) -> Pieces:
        ends = column(f"{name}_ends", 1).astype("i8")
        held = np.frombuffer(block.output.view, "u1", int(ends[-1]) + SLACK, getattr(IN_RECORDS, data))
        return Pieces(held, ends[:-1], column(f"{name}_size").astype("i8"))

    rows = np.zeros(count, RECORD)
    rows["position"] = column("batch_position")
    for name in ("offset", "timestamp"):
        rows[name] = column(name)
    rows["control"] = column("control_type")
    _put_headers(rows, block)
    return RecordColumns(rows, pieces("key", "keys"), pieces("value", "values"))


def _put_headers(rows: Numbers, block: Any) -> None:
    """Put what the headers of the batches say, which lie where the kernel read them."""
    layout = fixed(BATCH_HEADER)
    begins = np.flatnonzero(np.diff(rows["position"], prepend=NONE))
    lengths = np.diff(begins, append=len(rows))
    at = rows["position"][begins] - block.position
    headers = np.ndarray(block.size - layout.size + 1, layout.dtype, block.area.view, 0, (1,))[at]
    attributes = headers["attributes"]
    found = {
        "leader_epoch": headers["partition_leader_epoch"],
        "producer_id": headers["producer_id"],
        "producer_epoch": headers["producer_epoch"],
        "is_transactional": attributes & TRANSACTIONAL_BIT != 0,
        "is_control": attributes & CONTROL_BIT != 0,
    }
    for name, column in found.items():
        rows[name] = np.repeat(column, lengths)


class _Gathered:
    """Puts columns together until they are worth a chunk."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: list[RecordColumns] = []
        self._rows = self._bytes = 0

    def add(self, columns: RecordColumns) -> None:
        """Take columns, copied: their memory may be used anew."""
        if len(columns):
            keys, values = columns.keys.copied(), columns.values.copied()
            self._parts.append(RecordColumns(columns.rows, keys, values))
            self._rows += len(columns)
            self._bytes += len(keys.data) + len(values.data)

    @property
    def is_full(self) -> bool:
        """Whether there is enough for a chunk."""
        return self._rows >= self._most or self._bytes >= CHUNK_BYTES

    def rest(self) -> RecordColumns:
        """Return what was taken and not returned yet."""
        parts = self._parts or [RecordColumns(np.empty(0, RECORD), pieces_of([]), pieces_of([]))]
        self._parts, self._rows, self._bytes = [], 0, 0
        return RecordColumns(
            # As plain bytes: numpy goes through records of its own types field by field.
            np.concatenate([part.rows.view(f"V{RECORD.itemsize}") for part in parts]).view(RECORD),
            joined_pieces([part.keys for part in parts]),
            joined_pieces([part.values for part in parts]),
        )


class _Plain:
    """Makes columns of records that plain Python has read, many at once."""

    def __init__(self, source: Source, most: int) -> None:
        self._source, self._most = source, most
        self._rows: list[tuple[Any, ...]] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether there is enough for a chunk."""
        return len(self._rows) >= self._most or self._bytes >= CHUNK_BYTES

    def take(self, batch: Batch) -> None:
        """Add the records of a batch."""
        of_batch = (
            NONE if batch.partition_leader_epoch is None else batch.partition_leader_epoch,
            NONE if batch.producer_id is None else batch.producer_id,
            NONE if batch.producer_epoch is None else batch.producer_epoch,
            batch.is_transactional,
            batch.is_control,
        )
        for row in records_of(self._source, batch):
            if isinstance(row, Record):
                control = _control(row) if batch.is_control else NONE
                self._rows.append((batch.position, row.offset, row.timestamp, *of_batch, control))
                self._keys.append(row.key)
                self._values.append(row.value)
                self._bytes += max(row.key_size, 0) + max(row.value_size, 0)

    def rest(self) -> RecordColumns:
        """Return what was taken and not returned yet."""
        found = RecordColumns(np.array(self._rows, RECORD), pieces_of(self._keys), pieces_of(self._values))
        self._rows, self._keys, self._values, self._bytes = [], [], [], 0
        return found


def _control(record: Record) -> int:
    name, _ = control_of(record)
    return CONTROL_TYPES.index(name) if name in CONTROL_TYPES else NONE
