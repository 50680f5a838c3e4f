"""Files that are nothing but fixed-size entries: walks them in chunks, past zeros, to a tail that is no whole entry.

Kafka preallocates its indexes: 10 MB of zeros behind a handful of entries is the normal sight after a crash, so zeros
are passed over at the speed of memory and never become entries.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any

from kforensics.parsers.files.source import Source
from kforensics.parsers.format.derived import Fixed
from kforensics.parsers.format.rows import Damage

__all__ = ["CHUNK", "Fields", "chunks", "raw_entries", "read_entries"]

CHUNK = 1 << 20
ZEROS = re.compile(rb"\0*")

Fields = tuple[int, tuple[Any, ...]]


def chunks(source: Source, start: int, end: int, unit: int = 1) -> Iterator[tuple[int, bytes]]:
    """Yield positions and bytes of a range in pieces of whole units; ends early where the file has shrunk.

    Args:
        source: the file.
        start: first byte.
        end: byte behind the last one.
        unit: every piece but one cut short by a shrunken file has a multiple of this length.
    """
    step = max(CHUNK // unit, 1) * unit
    while start < end:
        data = source.read(start, min(step, end - start))
        if not data:
            return
        yield start, data
        start += len(data)


def read_entries(source: Source, layout: Fixed, ragged: str, start: int = 0) -> Iterator[Fields | Damage]:
    """Yield position and fields of every entry that is not all zeros, and the ranges that hold none.

    Args:
        source: the file.
        layout: layout of one entry.
        ragged: what to say of a tail shorter than an entry.
        start: position of the first entry.
    """
    whole = source.size - (source.size - start) % layout.size
    position, zeros_from = start, None
    for piece_start, piece in chunks(source, start, whole, layout.size):
        end = len(piece) - len(piece) % layout.size
        at = 0
        while at < end:
            if zeros_from is None:
                fields = None
                for fields in _until_zeros(layout.struct, piece, at, end):
                    yield piece_start + at, fields
                    at += layout.size
                if at < end:
                    zeros_from = piece_start + at
            else:
                at = _behind_zeros(piece, at, end, layout.size)
                if at < end:
                    yield _zeros(zeros_from, piece_start + at)
                    zeros_from = None
        position = piece_start + end
    yield from _tail(source, position, whole, zeros_from, ragged)


def _until_zeros(entry: struct.Struct, piece: bytes, at: int, end: int) -> Iterator[tuple[Any, ...]]:
    for fields in entry.iter_unpack(memoryview(piece)[at:end]):
        if not any(fields):
            return
        yield fields


def _behind_zeros(piece: bytes, at: int, end: int, size: int) -> int:
    match = ZEROS.match(piece, at, end)
    zeros = match.end() - at if match else 0
    return at + zeros - zeros % size


def _zeros(start: int, end: int) -> Damage:
    return Damage(start, end, "zeros", f"{end - start} zero bytes between entries", next_good_position=end)


def _tail(source: Source, position: int, whole: int, zeros_from: int | None, ragged: str) -> Iterator[Damage]:
    if zeros_from is not None:
        detail = f"{position - zeros_from} zero bytes up to the end: space that was set aside and never used"
        yield Damage(zeros_from, position, "zero-tail", detail)
    if position < whole:
        yield Damage(position, source.size, "shrunk", "the file has become shorter while it was read")
    elif whole < source.size:
        yield Damage(whole, source.size, "ragged", ragged)


def raw_entries(source: Source, layout: Fixed) -> Iterator[tuple[Any, ...]]:
    """Yield the fields of every whole entry, zeros and all."""
    for _, piece in chunks(source, 0, source.size - source.size % layout.size, layout.size):
        yield from layout.struct.iter_unpack(memoryview(piece)[: len(piece) - len(piece) % layout.size])
