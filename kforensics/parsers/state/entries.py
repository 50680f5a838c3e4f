"""Reads files of fixed-size entries in chunks, skips zeros, and reports a tail that is not a whole entry.

Kafka preallocates its indexes: after a crash, 10 MB of zeros after a few entries are normal. Zeros are therefore
skipped at memory speed and never become entries.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any

from kforensics.parsers.files.source import Source
from kforensics.parsers.format.derived import FixedLayout
from kforensics.parsers.format.rows import Damage

CHUNK_BYTES = 1 << 20
ZEROS = re.compile(rb"\0*")

# Position and fields of an entry.
EntryFields = tuple[int, tuple[Any, ...]]


def chunks(source: Source, start: int, end: int, unit: int = 1) -> Iterator[tuple[int, bytes]]:
    """Yield position and bytes of the chunks of a range; stop early if the file has shrunk.

    Args:
        source: the file.
        start: start of the range.
        end: end of the range.
        unit: the size of each chunk is a multiple of this, unless the file has shrunk.
    """
    step = max(CHUNK_BYTES // unit, 1) * unit
    while start < end:
        data = source.read(start, min(step, end - start))
        if not data:
            return
        yield start, data
        start += len(data)


def read_entries(source: Source, layout: FixedLayout, ragged: str, start: int = 0) -> Iterator[EntryFields | Damage]:
    """Yield position and fields of every entry that is not all zeros, and damage for the remaining ranges.

    Args:
        source: the file.
        layout: layout of an entry.
        ragged: damage detail for a tail shorter than an entry.
        start: position of the first entry.
    """
    whole = source.size - (source.size - start) % layout.size
    position, zeros_from = start, None
    for chunk_start, chunk in chunks(source, start, whole, layout.size):
        end = len(chunk) - len(chunk) % layout.size
        begin = 0
        while begin < end:
            if zeros_from is None:
                for fields in _until_zeros(layout.struct, chunk, begin, end):
                    yield chunk_start + begin, fields
                    begin += layout.size
                if begin < end:
                    zeros_from = chunk_start + begin
            else:
                begin = _after_zeros(chunk, begin, end, layout.size)
                if begin < end:
                    yield _zeros(zeros_from, chunk_start + begin)
                    zeros_from = None
        position = chunk_start + end
    yield from _tail(source, position, whole, zeros_from, ragged)


def _until_zeros(entry: struct.Struct, chunk: bytes, begin: int, end: int) -> Iterator[tuple[Any, ...]]:
    for fields in entry.iter_unpack(memoryview(chunk)[begin:end]):
        if not any(fields):
            return
        yield fields


def _after_zeros(chunk: bytes, begin: int, end: int, size: int) -> int:
    match = ZEROS.match(chunk, begin, end)
    zeros = match.end() - begin if match else 0
    return begin + zeros - zeros % size


def _zeros(start: int, end: int) -> Damage:
    return Damage(start, end, "zeros", f"{end - start} zero bytes between entries", next_good_position=end)


def _tail(source: Source, position: int, whole: int, zeros_from: int | None, ragged: str) -> Iterator[Damage]:
    if zeros_from is not None:
        detail = f"{position - zeros_from} zero bytes up to the end: preallocated and never used"
        yield Damage(zeros_from, position, "zero-tail", detail)
    if position < whole:
        yield Damage(position, source.size, "shrunk", "the file shrank while it was being read")
    elif whole < source.size:
        yield Damage(whole, source.size, "ragged", ragged)


def raw_entries(source: Source, layout: FixedLayout) -> Iterator[tuple[Any, ...]]:
    """Yield the fields of every whole entry, including entries of zeros."""
    for _, chunk in chunks(source, 0, source.size - source.size % layout.size, layout.size):
        yield from layout.struct.iter_unpack(memoryview(chunk)[: len(chunk) - len(chunk) % layout.size])
