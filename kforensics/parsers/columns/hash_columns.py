"""Reads the data records of a log as NumPy columns with a hash of each record's contents.

Kernels read the log where possible, else pure Python, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kforensics.parsers.columns.content_hash import content_hashes
from kforensics.parsers.files.source import Source
from kforensics.parsers.format.array_types import IntArray
from kforensics.parsers.format.decompression import DEFAULT_BUDGET
from kforensics.parsers.format.rows import Batch, Damage, Record
from kforensics.parsers.kernels.hash_buffers import BATCH_COLUMNS, COLUMN_OFFSETS, HASH_AREA, HASH_SLOT, RECORD_COLUMNS
from kforensics.parsers.kernels.policy import KernelLoader, KernelPolicy
from kforensics.parsers.log.batches import LogWalk, walk
from kforensics.parsers.log.log_rows import read_records

__all__ = ["EMPTY_RECORD", "EMPTY_VALUE", "NON_EMPTY", "HashColumns", "hash_chunks"]

# Number of records, or bytes of keys and values, that pure Python hashes at once.
PYTHON_CHUNK_ROWS, PYTHON_CHUNK_BYTES = 1 << 14, 1 << 22
# Values of ``emptiness``: which part of a record is null or empty. Neither matters, its value, its key and its value.
NON_EMPTY, EMPTY_VALUE, EMPTY_RECORD = range(3)
_UNSIGNED = ("low", "high")


@dataclass(frozen=True, slots=True)
class HashColumns:
    """The data records of some batches of a log, in log order.

    The columns before ``position`` have one value per record. The others have one value per batch with records.

    Attributes:
        offset: of the record.
        timestamp: of the record in ms, -1 for none.
        low: low half of the hash of key, value and headers, see :mod:`.content_hash`.
        high: high half of that hash.
        emptiness: NON_EMPTY, EMPTY_VALUE (null or empty) or EMPTY_RECORD (the key as well).
        is_keyless: 1 if the key is null, else 0.
        position: byte position of the batch.
        records: records of the batch in the columns above.
        base_offset: first offset of the batch.
        producer_id: -1 for none.
        producer_epoch: -1 for none.
        base_sequence: -1 for none.
        attributes: as stored; 0 in formats without attributes.
        magic: message format.
        last_offset: last offset according to the header.
        max_timestamp: largest timestamp in ms according to the header, -1 for none.
        is_whole: 1 if all records of the batch could be read, else 0.
    """

    offset: IntArray
    timestamp: IntArray
    low: IntArray
    high: IntArray
    emptiness: IntArray
    is_keyless: IntArray
    position: IntArray
    records: IntArray
    base_offset: IntArray
    producer_id: IntArray
    producer_epoch: IntArray
    base_sequence: IntArray
    attributes: IntArray
    magic: IntArray
    last_offset: IntArray
    max_timestamp: IntArray
    is_whole: IntArray

    def __len__(self) -> int:
        return len(self.offset)


def hash_chunks(  # noqa: PLR0913  # a range of a file, and how to read it
    source: Source,
    report: Callable[[Damage], None],
    kernels: KernelPolicy,
    *,
    start: int = 0,
    stop: int | None = None,
    workers: int | None = None,
) -> Iterator[HashColumns]:
    """Yield the data records of a log in chunks of whole batches, in log order.

    Control batches are left out, and so are batches with an invalid checksum, because nothing in them is certain.

    Args:
        source: the log.
        report: called with all damage, in log order.
        kernels: decides whether compiled kernels pay off for so many bytes.
        start: position of a batch.
        stop: position after the last batch, None for the end of the file.
        workers: threads; 0 to use the caller's thread only, None for one per processor.

    Yields:
        Columns whose memory is reused when the next ones are requested.
    """
    loader = kernels((source.size if stop is None else stop) - start)
    items = _read_with_kernels(source, loader, start, stop, workers) if loader else walk(source, start, stop)
    hasher = _PythonHasher(source, report)
    for item in items:
        if isinstance(item, HashColumns):
            yield from hasher.flush()
            if len(item):
                yield item
        elif isinstance(item, Damage):
            report(item)
        else:
            yield from hasher.add(item)
    yield from hasher.flush()


# With kernels --------------------------------------------------------------------------------------------------------


def _read_with_kernels(
    source: Source, loader: KernelLoader, start: int, stop: int | None, workers: int | None
) -> Iterator[Batch | Damage | HashColumns]:
    from kforensics.parsers.kernels.engine import Block, Engine, read_with_fallback  # a small log must not pay for them

    engine = Engine(loader, _HashTask(), source, stop, workers)
    for item in read_with_fallback(LogWalk(source, start, stop), engine):
        yield _columns(item) if isinstance(item, Block) else item


class _HashTask:
    """Has the kernel hash records; a task for the engine."""

    def prepare(self, request: Any) -> Any:
        """Set up memory for the columns of a block."""
        from kforensics.parsers.kernels.engine import MappedMemory  # a small log must not pay for it

        memory = MappedMemory(HASH_AREA)
        request[HASH_SLOT.output], request[HASH_SLOT.budget] = memory.address, DEFAULT_BUDGET
        return memory

    def kernel(self, kernels: Any) -> Any:
        """Return the kernel that hashes records."""
        return kernels.record_hashes


def _columns(block: Any) -> HashColumns:
    """Return the columns of a block, which share its memory."""

    def column(name: str, rows: int) -> IntArray:
        return np.frombuffer(block.output.view, "u8" if name in _UNSIGNED else "i8", rows, COLUMN_OFFSETS[name])

    of_records = [column(name, block.request[HASH_SLOT.rows]) for name in RECORD_COLUMNS]
    return HashColumns(*of_records, *(column(name, block.request[HASH_SLOT.batch_rows]) for name in BATCH_COLUMNS))


# In pure Python ------------------------------------------------------------------------------------------------------


class _PythonHasher:
    """Hashes records that pure Python has read, many at once."""

    def __init__(self, source: Source, report: Callable[[Damage], None]) -> None:
        self._source, self._report = source, report
        self._batches: list[tuple[int, ...]] = []
        self._records: list[Record] = []
        self._bytes = 0

    def add(self, batch: Batch) -> Iterator[HashColumns]:
        """Add the records of a batch, and yield columns once there are enough for a chunk."""
        if batch.is_control or not batch.crc_valid:
            return
        first, is_whole = len(self._records), True
        for row in read_records(self._source, batch):
            if isinstance(row, Record):
                self._records.append(row)
                self._bytes += max(row.key_size, 0) + max(row.value_size, 0)
            else:
                self._report(row)
                is_whole = False
        if len(self._records) > first:
            self._batches.append(_batch_values(batch, self._records[first:], is_whole))
        if len(self._records) >= PYTHON_CHUNK_ROWS or self._bytes >= PYTHON_CHUNK_BYTES:
            yield from self.flush()

    def flush(self) -> Iterator[HashColumns]:
        """Yield the columns of all records added since the last flush."""
        if self._records:
            columns = _hash_columns(self._records, self._batches)
            self._batches, self._records, self._bytes = [], [], 0
            yield columns


def _batch_values(batch: Batch, records: Sequence[Record], is_whole: bool) -> tuple[int, ...]:
    """Return the values of the batch columns. The first offset of a compressed legacy entry is only inside it."""
    producer = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
    return (
        batch.position,
        len(records),
        records[0].offset if batch.base_offset is None else batch.base_offset,
        *(-1 if number is None else number for number in producer),
        batch.attributes,
        batch.magic,
        batch.last_offset,
        batch.max_timestamp,
        is_whole,
    )


def _hash_columns(records: Sequence[Record], batches: Sequence[tuple[int, ...]]) -> HashColumns:
    low, high = content_hashes(records)
    rows = [(record.offset, record.timestamp, _emptiness(record), record.key is None) for record in records]
    offset, timestamp, emptiness, is_keyless = (np.array(column, "i8") for column in zip(*rows, strict=True))
    of_batches = (np.array(column, "i8") for column in zip(*batches, strict=True))
    return HashColumns(offset, timestamp, low, high, emptiness, is_keyless, *of_batches)


def _emptiness(record: Record) -> int:
    if record.value:
        return NON_EMPTY
    return EMPTY_VALUE if record.key else EMPTY_RECORD
