"""Reads the keys of a segment as columns, chunk by chunk, and single keys by their location.

It also computes the uncompressed sizes of the records. Rule: ``DefaultRecord.sizeInBytes``: varints for the record
size, the two deltas, the sizes of key and value and the header count, one byte of attributes, then key, value and
headers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from kforensics.forensics.keys.key_rows import SEGMENT_SPAN
from kforensics.forensics.keys.murmur2 import WORD, KeyBytes
from kforensics.parsers.columns.arrow_columns import read_arrow_columns
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.array_types import BoolArray, IntArray
from kforensics.parsers.format.rows import Batch, Record, ignore_damage
from kforensics.parsers.kernels.policy import KernelPolicy
from kforensics.parsers.log.batches import LogWalk
from kforensics.parsers.log.log_rows import read_records
from kforensics.parsers.tables.arrow import chunked
from kforensics.parsers.tables.file_rows import ReadOptions, file_rows
from kforensics.parsers.tables.schemas import TABLES

if TYPE_CHECKING:
    import pyarrow as pa

NUMERIC_COLUMNS = ("batch_position", "offset", "timestamp", "key_size", "value_size")
COLUMNS = (*NUMERIC_COLUMNS, "key", "headers")
COLUMN_INDEXES = [TABLES["records"].names.index(name) for name in COLUMNS]


@dataclass(frozen=True, slots=True)
class RecordLocation:
    """Where a record is.

    Attributes:
        path: path of its segment.
        position: byte position of its batch.
        offset: its offset.
    """

    path: str
    position: int
    offset: int

    @classmethod
    def of(cls, paths: Sequence[str], first_position: int, offset: int) -> RecordLocation:
        """Return the location of the first record of a KEY_ROW.

        Args:
            paths: segments of the partition.
            first_position: the field of that name: segment and position.
            offset: offset of the record.
        """
        segment, position = divmod(first_position, SEGMENT_SPAN)
        return cls(paths[segment], position, offset)


def read_key(location: RecordLocation) -> bytes | None:
    """Return the key of a record, None if it has none or is no longer there.

    Raises:
        InputError: the segment cannot be read.
    """
    with open_source(location.path) as source:
        batch = next(iter(LogWalk(source, location.position).step()), None)
        if not isinstance(batch, Batch):
            return None
        for row in read_records(source, batch):
            if isinstance(row, Record) and row.offset == location.offset:
                return row.key
        return None


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """Columns of records in file order, one element of each column per record.

    Attributes:
        position: byte position of the batch.
        offset: offset of the record.
        timestamp: timestamp in ms, -1 without one.
        key_size: size of the key in bytes, -1 for null.
        value_size: size of the value in bytes, -1 for null.
        header_size: size of the headers in bytes, including the header count.
        keys: the keys; a null key has no bytes.
    """

    position: IntArray
    offset: IntArray
    timestamp: IntArray
    key_size: IntArray
    value_size: IntArray
    header_size: IntArray
    keys: KeyBytes

    def __len__(self) -> int:
        return len(self.offset)

    def take(self, selected: IntArray | BoolArray) -> KeyColumns:
        """Return some of the records, by indexes or by a mask."""
        return KeyColumns(
            self.position[selected],
            self.offset[selected],
            self.timestamp[selected],
            self.key_size[selected],
            self.value_size[selected],
            self.header_size[selected],
            self.keys.take(selected),
        )


def read_key_columns(
    segment: FoundFile, reading: ReadOptions, kernels: KernelPolicy, workers: int | None
) -> Iterator[KeyColumns]:
    """Yield the records of a byte range of a segment, including those of control batches and damaged batches.

    Args:
        segment: the segment.
        reading: the byte range.
        kernels: returns the compiled kernels if they pay off for that many bytes.
        workers: number of reading threads, 0 to read in the calling thread, None for one per processor.

    Raises:
        InputError: the segment cannot be read.
    """
    with open_source(segment.path) as source:
        compiled = kernels((source.size if reading.stop is None else reading.stop) - reading.start)
        if compiled is None:
            yield from _from_rows(file_rows(segment, source, reading, ignore_damage))
            return
        reading = replace(reading, columns=frozenset(COLUMNS))
        items = read_arrow_columns(segment, source, reading, ignore_damage, compiled, workers=workers)
        # Formats 0 and 1 have no kernel: rows come batch by batch, often one by one, and are put together here.
        for is_rows, run in groupby(items, lambda item: isinstance(item, Iterator)):
            if is_rows:
                yield from _from_rows(chain.from_iterable(item for item in run if isinstance(item, Iterator)))
                continue
            for item in run:
                if not isinstance(item, Iterator) and item.num_rows:
                    yield _from_arrow(*(item.column(name) for name in COLUMNS))


def _from_rows(rows: Iterator[tuple[Any, ...]]) -> Iterator[KeyColumns]:
    import pyarrow as pa  # slow to import, and only needed for keys

    types = {"key": pa.binary(), "headers": pa.map_(pa.binary(), pa.binary())}
    for chunk in chunked(rows):
        columns = zip(*([row[index] for index in COLUMN_INDEXES] for row in chunk), strict=True)
        arrays = (pa.array(column, types.get(name, pa.int64())) for name, column in zip(COLUMNS, columns, strict=True))
        yield _from_arrow(*arrays)


def _from_arrow(*columns: pa.Array) -> KeyColumns:
    *numeric, keys, headers = columns
    position, offset, timestamp, key_size, value_size = (column.to_numpy().astype("i8") for column in numeric)
    return KeyColumns(position, offset, timestamp, key_size, value_size, header_sizes(headers), _key_bytes(keys))


def _key_bytes(keys: pa.Array) -> KeyBytes:
    _, ends, buffer = keys.buffers()
    bounds = np.frombuffer(ends, "i4", len(keys) + 1, 4 * keys.offset).astype("i8")
    first, last = int(bounds[0]), int(bounds[-1])
    data = np.zeros(last - first + 2 * WORD, "u1")
    if last > first:
        data[: last - first] = np.frombuffer(buffer, "u1", last - first, first)
    return KeyBytes(data, bounds[:-1] - first, np.diff(bounds))


# Size of a header count of 0.
NO_HEADERS = 1
ATTRIBUTES = 1
# Bytes before key and value of a message with magic 0 or 1, including the sizes of both.
LEGACY_OVERHEAD = (26, 34)
VARINT_BITS = 7
MAX_VARINT_SIZE = 10


def varint_sizes(numbers: IntArray) -> IntArray:
    """Return the size in bytes of each number as a zigzag varint.

    >>> varint_sizes(np.array([0, 63, 64, -64, -65, 8191, 8192])).tolist()
    [1, 1, 2, 1, 2, 2, 3]
    """
    folded = np.where(numbers < 0, ~numbers, numbers)
    limits = np.array([1 << (VARINT_BITS * count - 1) for count in range(1, MAX_VARINT_SIZE)], "i8")
    sizes: IntArray = np.searchsorted(limits, folded, side="right") + 1
    return sizes


def header_sizes(headers: pa.Array) -> IntArray:
    """Return the size in bytes of the headers of each record, including the header count.

    Args:
        headers: lists of key-value pairs, as in the table ``records``.
    """
    ends = np.frombuffer(headers.buffers()[1], "i4", len(headers) + 1, 4 * headers.offset).astype("i8")
    counts = np.diff(ends)
    if not counts.any():
        return np.full(len(headers), NO_HEADERS, "i8")
    pairs = headers.values
    pair_sizes = _sizes_with_prefix(pairs.field(0)) + _sizes_with_prefix(pairs.field(1))
    before = np.concatenate([[0], np.cumsum(pair_sizes)])
    sizes: IntArray = varint_sizes(counts) + before[ends[1:]] - before[ends[:-1]]
    return sizes


def _sizes_with_prefix(strings: pa.Array) -> IntArray:
    """Return the size of each byte string including its size prefix; null has the prefix -1 and no bytes."""
    import pyarrow.compute as pc  # slow to import, and only needed for headers

    lengths = pc.binary_length(strings).fill_null(-1).to_numpy(zero_copy_only=False).astype("i8")
    sizes: IntArray = varint_sizes(lengths) + np.maximum(lengths, 0)
    return sizes


def record_sizes(  # noqa: PLR0913, PLR0917  # the fields of a record
    key_size: IntArray,
    value_size: IntArray,
    header_size: IntArray,
    offset_delta: IntArray,
    timestamp_delta: IntArray,
    magic: IntArray,
) -> IntArray:
    """Return the uncompressed size in bytes of each record.

    Args:
        key_size: size of the key, -1 for null.
        value_size: size of the value, -1 for null.
        header_size: size of the headers, including the header count.
        offset_delta: offset relative to the base offset of the batch.
        timestamp_delta: timestamp relative to the base timestamp of the batch.
        magic: magic byte of the batch.
    """
    payload = np.maximum(key_size, 0) + np.maximum(value_size, 0)
    body = ATTRIBUTES + payload + header_size
    for numbers in (key_size, value_size, offset_delta, timestamp_delta):
        body += varint_sizes(numbers)
    legacy = np.array(LEGACY_OVERHEAD)[np.minimum(magic, 1)] + payload
    sizes: IntArray = np.where(magic > 1, varint_sizes(body) + body, legacy)
    return sizes
