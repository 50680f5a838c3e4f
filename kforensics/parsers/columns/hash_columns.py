"""Reads the data records of a log as NumPy columns with a hash of each record's contents.

Kernels read the log where possible, else pure Python, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from kforensics.parsers.columns.content_hash import content_hashes
from kforensics.parsers.files.source import Source
from kforensics.parsers.format.array_types import IntArray
from kforensics.parsers.format.decompression import DEFAULT_BUDGET
from kforensics.parsers.format.rows import Batch, Damage, Record
from kforensics.parsers.kernels.hash_buffers import BATCH_COLUMNS, COLUMN_OFFSETS, HASH_AREA, HASH_SLOT, RECORD_COLUMNS
from kforensics.parsers.kernels.policy import MIN_RECORD_BYTES, KernelLoader, KernelPolicy
from kforensics.parsers.log.batches import LogWalk, walk
from kforensics.parsers.log.log_rows import read_records

if TYPE_CHECKING:
    from kforensics.parsers.kernels.large_batches import LargeBatchReader

__all__ = ["EMPTY_RECORD", "EMPTY_VALUE", "NON_EMPTY", "HashColumns", "hash_chunks"]

# Number of records, or bytes of keys and values, that pure Python hashes at once.
PYTHON_CHUNK_ROWS, PYTHON_CHUNK_BYTES = 1 << 14, 1 << 22
# Values of ``emptiness``: which part of a record is null or empty. Neither matters, its value, its key and its value.
NON_EMPTY, EMPTY_VALUE, EMPTY_RECORD = range(3)
_UNSIGNED = ("low", "high")


@dataclass(frozen=True, slots=True)
class HashColumns:
    """The data records of some batches of a log, in log order.

    The columns before ``position`` have one value per record. The others have one value per batch with records. A large
    batch is spread over several chunks, and each has a value for it. Other batches are in one chunk.

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
        first_index: index in the batch of the first of its records in the columns above, 0 unless it is continued.
        total: records of the batch in this chunk and all others.
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
    first_index: IntArray
    total: IntArray

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def is_continued(self) -> bool:
        """Whether the first batch began in an earlier chunk."""
        return bool(self.first_index[:1].any())

    @property
    def new_batches(self) -> int:
        """Number of batches that begin in this chunk."""
        return len(self.position) - self.is_continued


def hash_chunks(  # noqa: PLR0913  # a range of a file, and how to read it
    source: Source,
    report: Callable[[Damage], None],
    kernels: KernelPolicy,
    *,
    start: int = 0,
    stop: int | None = None,
    workers: int | None = None,
) -> Iterator[HashColumns]:
    """Yield the data records of a log in chunks, in log order.

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
    hasher = _PythonHasher(source, report, kernels, loader)
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
    of_batches = [column(name, block.request[HASH_SLOT.batch_rows]) for name in BATCH_COLUMNS]
    records = of_batches[BATCH_COLUMNS.index("records")]
    of_batches += [np.zeros(len(records), "i8"), records]
    return HashColumns(*of_records, *of_batches)


class _LargeBatches:
    """Has the kernel hash the records of batches that it declined as a whole.

    Args:
        source: the log.
        kernels: decides whether compiled kernels pay off for so many bytes.
        loader: the kernels that read the log, None if they do not pay off for it.
    """

    def __init__(self, source: Source, kernels: KernelPolicy, loader: KernelLoader | None) -> None:
        self._source, self._kernels, self._loader = source, kernels, loader
        self._reader: LargeBatchReader | None = None

    def columns(self, batch: Batch) -> Iterator[HashColumns]:
        """Yield the columns of a batch; none if kernels do not pay off or cannot read the whole batch."""
        # A small file may decompress to much.
        size = max(batch.size, MIN_RECORD_BYTES * (batch.count or 0))
        self._loader = self._loader or (None if batch.is_legacy else self._kernels(size))
        if not self._loader:
            return
        from kforensics.parsers.kernels.large_batches import LargeBatchReader  # few logs need it

        self._reader = reader = self._reader or LargeBatchReader(self._loader, _HashTask(), self._source)
        total = sum(records for _, records in reader.parts(batch))
        first_index = 0
        for block, records in reader.parts(batch) if reader.is_whole else ():
            of_batch = {"attributes": batch.attributes, "first_index": first_index, "total": total}
            yield replace(_columns(block), **{name: np.array([value]) for name, value in of_batch.items()})
            first_index += records


# In pure Python ------------------------------------------------------------------------------------------------------


class _PythonHasher:
    """Hashes records that pure Python has read, many at once."""

    def __init__(
        self, source: Source, report: Callable[[Damage], None], kernels: KernelPolicy, loader: KernelLoader | None
    ) -> None:
        self._source, self._report = source, report
        self._large_batches = _LargeBatches(source, kernels, loader)
        self._batches: list[tuple[int, ...]] = []
        self._records: list[Record] = []
        self._bytes = 0

    def add(self, batch: Batch) -> Iterator[HashColumns]:
        """Add the records of a batch, and yield columns once there are enough for a chunk."""
        if batch.is_control or not batch.crc_valid:
            return
        large = self._large_batches.columns(batch)
        if first_columns := next(large, None):
            yield from self.flush()
            yield from chain([first_columns], large)
            return
        records, damage = list[Record](), list[Damage]()
        if not self._read(batch, records, damage):
            yield from self.flush()
            yield from self._spread(batch)
            return
        for row in damage:
            self._report(row)
        if records:
            self._batches.append(_batch_values(batch, records[0].offset, len(records), not damage))
            self._records += records
        if len(self._records) >= PYTHON_CHUNK_ROWS or self._bytes >= PYTHON_CHUNK_BYTES:
            yield from self.flush()

    def _read(self, batch: Batch, records: list[Record], damage: list[Damage]) -> bool:
        """Read the records and the damage of a batch; return False if they are too many for a chunk."""
        size = 0
        for row in read_records(self._source, batch):
            if isinstance(row, Damage):
                damage.append(row)
            elif len(records) >= PYTHON_CHUNK_ROWS or size >= PYTHON_CHUNK_BYTES:
                return False
            else:
                records.append(row)
                size += _size(row)
        self._bytes += size
        return True

    def _spread(self, batch: Batch) -> Iterator[HashColumns]:
        """Yield the columns of a large batch, which is read twice: first to count its records."""
        total, first_offset, is_whole = 0, 0, True
        for row in read_records(self._source, batch):
            if isinstance(row, Damage):
                self._report(row)
                is_whole = False
            else:
                first_offset = first_offset if total else row.offset
                total += 1
        first_index = 0
        for records in _in_chunks(row for row in read_records(self._source, batch) if isinstance(row, Record)):
            values = _batch_values(batch, first_offset, len(records), is_whole, first_index, total)
            yield _hash_columns(records, [values])
            first_index += len(records)

    def flush(self) -> Iterator[HashColumns]:
        """Yield the columns of all records added since the last flush."""
        if self._records:
            columns = _hash_columns(self._records, self._batches)
            self._batches, self._records, self._bytes = [], [], 0
            yield columns


def _in_chunks(records: Iterator[Record]) -> Iterator[list[Record]]:
    chunk, size = list[Record](), 0
    for record in records:
        chunk.append(record)
        size += _size(record)
        if len(chunk) >= PYTHON_CHUNK_ROWS or size >= PYTHON_CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _size(record: Record) -> int:
    return max(record.key_size, 0) + max(record.value_size, 0)


def _batch_values(  # noqa: PLR0913, PLR0917  # what the records of a batch say about it
    batch: Batch, first_offset: int, records: int, is_whole: bool, first_index: int = 0, total: int | None = None
) -> tuple[int, ...]:
    """Return the values of the batch columns. The first offset of a compressed legacy entry is only inside it."""
    producer = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
    return (
        batch.position,
        records,
        first_offset if batch.base_offset is None else batch.base_offset,
        *(-1 if number is None else number for number in producer),
        batch.attributes,
        batch.magic,
        batch.last_offset,
        batch.max_timestamp,
        is_whole,
        first_index,
        records if total is None else total,
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
