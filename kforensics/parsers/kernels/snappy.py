"""Snappy in kernels, raw and in the frames of xerial."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kforensics.parsers.format.codecs import XERIAL_HEADER_SIZE, XERIAL_MAGIC
from kforensics.parsers.kernels.compiler import (
    compiled,
    inlined,
)
from kforensics.parsers.kernels.copies import (
    ENDLESS,
    REFUSED,
    put_literals,
    repeat,
)
from kforensics.parsers.kernels.machine import (
    big32,
    load8,
    load32,
    load64,
)

__all__ = ["snappy"]

XERIAL_MAGIC_WORD = int.from_bytes(XERIAL_MAGIC, "little", signed=True)


def copy_tags() -> NDArray[np.int64]:
    """Return what each tag of a copy says: its length, the upper bits of a short offset, and 2048 x further bytes."""
    tags = np.zeros(256, np.int64)
    for tag in range(256):
        if tag & 3 == 1:
            tags[tag] = 4 + (tag >> 2 & 7) | tag >> 5 << 8 | 1 << 11
        elif tag & 3:
            tags[tag] = 1 + (tag >> 2) | (2 if tag & 3 == 2 else 4) << 11
    return tags


COPY_TAGS = copy_tags()


@inlined
def _announced(at: int, end: int) -> tuple[int, int]:
    """Return the size that a block begins with, or -1, and the address behind it."""
    size = shift = 0
    while at < end and shift < 35:
        byte = load8(at)
        at += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size, at
        shift += 7
    return -1, at


@inlined
def _long_literals(at: int, end: int, width: int) -> tuple[int, int]:
    """Return the length of literals that stands in up to four bytes of its own, and the address behind it."""
    # Python's decoder wants four bytes however many count.
    if end - at < 4:
        return ENDLESS, at
    return (load32(at) & ((1 << 8 * width) - 1)) + 1, at + width


@compiled
def _snappy_block(at: int, end: int, target: int, room: int) -> int:
    size, at = _announced(at, end)
    if size < 0 or size > room:
        return REFUSED
    out, out_end = target, target + size
    while at < end:
        tag = load8(at)
        at += 1
        if tag & 3 == 0:
            length = (tag >> 2) + 1
            if length > 60:
                length, at = _long_literals(at, end, length - 60)
            if length > end - at or length > out_end - out:
                return REFUSED
            put_literals(at, end, out, length)
            at += length
        else:
            entry = COPY_TAGS[tag]
            width, length = entry >> 11, entry & 0xFF
            offset = (load32(at) & ((1 << 8 * width) - 1)) | (entry & 0x700)
            at += width
            if at > end or offset == 0 or offset > out - target or length > out_end - out:
                return REFUSED
            repeat(out, out + length, offset)
        out += length
    return size if out == out_end else REFUSED


@compiled
def snappy(at: int, end: int, target: int, room: int) -> int:
    """Decompress a stream; return its size, or ``REFUSED``."""
    if end - at < XERIAL_HEADER_SIZE or load64(at) != XERIAL_MAGIC_WORD:
        return _snappy_block(at, end, target, room)
    at += XERIAL_HEADER_SIZE
    out, out_end = target, target + room
    while end - at >= 4:
        length = big32(at)
        if length < 0:
            # Concatenated streams: another header may stand where a block's length should.
            if end - at < 8 or load64(at) != XERIAL_MAGIC_WORD:
                return REFUSED
            at += XERIAL_HEADER_SIZE
            continue
        at += 4
        if length > end - at:
            return REFUSED
        size = _snappy_block(at, at + length, out, out_end - out)
        if size < 0:
            return REFUSED
        out += size
        at += length
    return out - target
