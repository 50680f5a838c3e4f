"""Records of a segment with their keys as bytes, chunk by chunk, without an object for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kforensics.forensics.core.record_types import Records
from kforensics.forensics.keys.murmur2 import WORD, KeyBytes
from kforensics.forensics.keys.record_sizes import header_sizes
from kforensics.parsers.columns.arrow_columns import columns_of
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import open_source
from kforensics.parsers.kernels.policy import Choice
from kforensics.parsers.tables.arrow import chunked
from kforensics.parsers.tables.file_rows import Reading, file_rows
from kforensics.parsers.tables.schemas import TABLES

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KeyColumns", "key_columns"]

NUMBERS = ("batch_position", "offset", "timestamp", "key_size", "value_size")
WANTED = (*NUMBERS, "key", "headers")
PLACES = [TABLES["records"].names.index(name) for name in WANTED]


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """Records in the order of the bytes, one number for each.

    Attributes:
        position: byte position of the record's batch.
        offset: its offset.
        timestamp: its timestamp in ms, -1 if it has none.
        key_size: bytes of its key, -1 if that is null.
        value_size: bytes of its value, -1 if that is null.
        header_size: bytes that its headers take, the number of them included.
        keys: the keys; a null key has no bytes.
    """

    position: Records
    offset: Records
    timestamp: Records
    key_size: Records
    value_size: Records
    header_size: Records
    keys: KeyBytes

    def __len__(self) -> int:
        return len(self.offset)

    def taken(self, which: Records) -> KeyColumns:
        """Return some of the records, by their indexes or by a mask."""
        return KeyColumns(
            self.position[which],
            self.offset[which],
            self.timestamp[which],
            self.key_size[which],
            self.value_size[which],
            self.header_size[which],
            self.keys.taken(which),
        )


def key_columns(found: FoundFile, reading: Reading, kernels: Choice, workers: int | None) -> Iterator[KeyColumns]:
    """Yield the records of a range of a segment, those of control batches and damaged ones too.

    Args:
        found: the segment.
        reading: which range.
        kernels: gives the compiled kernels, if reading so many bytes is worth it.
        workers: threads that read, 0 for none beside the caller's, None for one per processor.

    Raises:
        InputError: the segment cannot be read.
    """
    with open_source(found.path) as source:
        supply = kernels((source.size if reading.stop is None else reading.stop) - reading.start)
        if supply is None:
            yield from _of_rows(file_rows(found, source, reading, _say_nothing))
            return
        reading = replace(reading, columns=frozenset(WANTED))
        for item in columns_of(found, source, reading, _say_nothing, supply, workers=workers):
            if isinstance(item, Iterator):
                yield from _of_rows(item)
            elif item.num_rows:
                yield _of_arrow(*(item.column(name) for name in WANTED))


def _of_rows(rows: Iterator[tuple[Any, ...]]) -> Iterator[KeyColumns]:
    import pyarrow as pa  # only who asks for keys pays for it

    kinds = {"key": pa.binary(), "headers": pa.map_(pa.binary(), pa.binary())}
    for chunk in chunked(rows):
        columns = zip(*([row[at] for at in PLACES] for row in chunk), strict=True)
        arrays = (pa.array(column, kinds.get(name, pa.int64())) for name, column in zip(WANTED, columns, strict=True))
        yield _of_arrow(*arrays)


def _of_arrow(*columns: pa.Array) -> KeyColumns:
    *numbers, keys, headers = columns
    position, offset, timestamp, key_size, value_size = (one.to_numpy().astype("i8") for one in numbers)
    return KeyColumns(position, offset, timestamp, key_size, value_size, header_sizes(headers), _key_bytes(keys))


def _key_bytes(keys: pa.Array) -> KeyBytes:
    _, ends, held = keys.buffers()
    bounds = np.frombuffer(ends, "i4", len(keys) + 1, 4 * keys.offset).astype("i8")
    first, last = int(bounds[0]), int(bounds[-1])
    data = np.zeros(last - first + 2 * WORD, "u1")
    if last > first:
        data[: last - first] = np.frombuffer(held, "u1", last - first, first)
    return KeyBytes(data, bounds[:-1] - first, np.diff(bounds))


def _say_nothing(_damage: object) -> None:
    """Damage was told of when the case was made."""
