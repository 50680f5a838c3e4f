"""LZ4 and Snappy decompression in kernels.

Both formats are sequences of literals and matches, so they share the copy loops. Copies move 16 bytes at a time and may
write a few bytes past their end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kforensics.parsers.format.decompression import (
    INCOMPRESSIBLE,
    LZ4_MAGIC,
    PRIME_1,
    PRIME_2,
    PRIME_3,
    PRIME_4,
    PRIME_5,
    WORD,
    XERIAL_HEADER_SIZE,
    XERIAL_MAGIC,
)
from kforensics.parsers.kernels.compiler import compiled, inlined
from kforensics.parsers.kernels.host_codecs import NOT_DECOMPRESSED
from kforensics.parsers.kernels.intrinsics import big32, call_lz4, copy, load8, load16, load32, load64, store64

LZ4_MAGIC_WORD = int.from_bytes(LZ4_MAGIC, "little")
XERIAL_MAGIC_WORD = int.from_bytes(XERIAL_MAGIC, "little", signed=True)
# In place of a length whose bytes are incomplete: larger than any input, so that the caller refuses it.
NO_LENGTH = 1 << 40


# Copy loops ----------------------------------------------------------------------------------------------------------


@inlined
def _move16(target: int, source: int) -> None:
    first, second = load64(source), load64(source + 8)
    store64(target, first)
    store64(target + 8, second)


@inlined
def _put_literals(source: int, end: int, out: int, length: int) -> None:
    """Copy bytes from an input that goes on to ``end``; up to 15 bytes after the copy are written too."""
    if length > 64 or end - source < length + 8:
        copy(out, source, length)
        return
    literals_end = source + length
    _move16(out, source)
    while source + 16 < literals_end:
        source += 16
        out += 16
        _move16(out, source)


@inlined
def _repeat(out: int, end: int, offset: int) -> None:
    """Fill the output up to ``end``, and up to 15 bytes after it, with the bytes ``offset`` before."""
    if offset >= 16:
        _move16(out, out - offset)
        while out + 16 < end:
            out += 16
            _move16(out, out - offset)
        return
    # A pattern that repeats after so few bytes also repeats after twice as many.
    while offset < 8:
        store64(out, load64(out - offset))
        out += offset
        offset *= 2
    while out < end:
        store64(out, load64(out - offset))
        out += 8


# LZ4 -----------------------------------------------------------------------------------------------------------------


@inlined
def _rotated(value: int, bits: int) -> int:
    value &= WORD
    return (value << bits | value >> (32 - bits)) & WORD


@inlined
def _lane(value: int, address: int) -> int:
    return _rotated(value + load32(address) * PRIME_2, 13) * PRIME_1 & WORD


@compiled
def _xxh32(address: int, length: int) -> int:
    """Return xxHash32 with seed 0."""
    end = address + length
    total = PRIME_5
    if length >= 16:
        lane1, lane2, lane3, lane4 = (PRIME_1 + PRIME_2) & WORD, PRIME_2, 0, -PRIME_1 & WORD
        while end - address >= 16:
            lane1, lane2 = _lane(lane1, address), _lane(lane2, address + 4)
            lane3, lane4 = _lane(lane3, address + 8), _lane(lane4, address + 12)
            address += 16
        total = _rotated(lane1, 1) + _rotated(lane2, 7) + _rotated(lane3, 12) + _rotated(lane4, 18)
    total += length
    while end - address >= 4:
        total = _rotated(total + load32(address) * PRIME_3, 17) * PRIME_4
        address += 4
    while address < end:
        total = _rotated(total + load8(address) * PRIME_5, 11) * PRIME_1
        address += 1
    total &= WORD
    total = (total ^ total >> 15) * PRIME_2 & WORD
    total = (total ^ total >> 13) * PRIME_3 & WORD
    return total ^ total >> 16


@compiled
def _lz4_frame(address: int, end: int) -> tuple[int, int, int]:
    """Return the maximum block size (0 to refuse the frame), the checksum size and the address of the first block."""
    if end - address < 7 or load32(address) != LZ4_MAGIC_WORD:
        return 0, 0, address
    flags, sizes = load8(address + 4), load8(address + 5)
    # Version 1, independent blocks, no reserved bits, a maximum block size of 64 KB to 4 MB.
    if flags & 0xE3 != 0x60 or sizes & 0x8F or sizes < 0x40:
        return 0, 0, address
    descriptor_end = address + (14 if flags & 0x08 else 6)
    if descriptor_end >= end:
        return 0, 0, address
    if _xxh32(address + 4, descriptor_end - address - 4) >> 8 & 0xFF != load8(descriptor_end):
        return 0, 0, address
    return 1 << (8 + 2 * (sizes >> 4)), 4 if flags & 0x10 else 0, descriptor_end + 1


@inlined
def _extended_length(address: int, end: int, length: int) -> tuple[int, int]:
    """Return a length, which continues in further bytes if it is 15, and the address after it."""
    if length == 15:
        byte = 255
        while byte == 255:
            if address >= end:
                return NO_LENGTH, end
            byte = load8(address)
            address += 1
            length += byte
    return length, address


@compiled
def _lz4_block(address: int, end: int, target: int, capacity: int) -> int:
    """Decompress a block like ``LZ4_decompress_safe`` and refuse what it refuses."""
    out, out_end = target, target + capacity
    while address < end:
        token = load8(address)
        length, address = _extended_length(address + 1, end, token >> 4)
        if length > end - address or length > out_end - out:
            return NOT_DECOMPRESSED
        _put_literals(address, end, out, length)
        address += length
        out += length
        if address == end:
            return out - target
        # A match begins at least 12 bytes before the end of a block, and another token follows it.
        if end - address < 8 or out_end - out < 12:
            return NOT_DECOMPRESSED
        offset = load16(address)
        length, address = _extended_length(address + 2, end, token & 15)
        length += 4
        if offset == 0 or offset > out - target or length > out_end - out - 5:
            return NOT_DECOMPRESSED
        _repeat(out, out + length, offset)
        out += length
    return NOT_DECOMPRESSED


@compiled
def decompress_lz4(address: int, end: int, target: int, capacity: int, function: int) -> int:
    """Decompress a frame, calling ``function`` for its blocks unless that is 0.

    Returns:
        the decompressed size, or ``NOT_DECOMPRESSED``.
    """
    max_block_size, checksum_size, address = _lz4_frame(address, end)
    out, out_end = target, target + capacity
    while max_block_size and end - address >= 4:
        word = load32(address)
        address += 4
        length = word & ~INCOMPRESSIBLE
        if length == 0:
            return out - target
        if length > max_block_size or length + checksum_size > end - address:
            return NOT_DECOMPRESSED
        if checksum_size and _xxh32(address, length) != load32(address + length):
            return NOT_DECOMPRESSED
        limit = min(max_block_size, out_end - out)
        size = length
        if word & INCOMPRESSIBLE:
            if length > limit:
                return NOT_DECOMPRESSED
            copy(out, address, length)
        elif function:
            size = call_lz4(function, address, out, length, limit)
        else:
            size = _lz4_block(address, address + length, out, limit)
        if size < 0:
            return NOT_DECOMPRESSED
        out += size
        address += length + checksum_size
    return NOT_DECOMPRESSED


# Snappy --------------------------------------------------------------------------------------------------------------


def _copy_tags() -> NDArray[np.int64]:
    """Return the meaning of each copy tag: length, upper bits of a short offset, and 2048 * number of further bytes."""
    tags = np.zeros(256, np.int64)
    for tag in range(256):
        if tag & 3 == 1:
            tags[tag] = 4 + (tag >> 2 & 7) | tag >> 5 << 8 | 1 << 11
        elif tag & 3:
            tags[tag] = 1 + (tag >> 2) | (2 if tag & 3 == 2 else 4) << 11
    return tags


COPY_TAGS = _copy_tags()


@inlined
def _declared_size(address: int, end: int) -> tuple[int, int]:
    """Return the size that a block begins with, or -1, and the address after it."""
    size = shift = 0
    while address < end and shift < 35:
        byte = load8(address)
        address += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size, address
        shift += 7
    return -1, address


@inlined
def _long_literals(address: int, end: int, width: int) -> tuple[int, int]:
    """Return the length of literals, stored in one to four bytes of its own, and the address after it."""
    # Python's decoder requires four bytes, however many of them belong to the length.
    if end - address < 4:
        return NO_LENGTH, address
    return (load32(address) & ((1 << 8 * width) - 1)) + 1, address + width


@compiled
def _snappy_block(address: int, end: int, target: int, capacity: int) -> int:
    size, address = _declared_size(address, end)
    if size < 0 or size > capacity:
        return NOT_DECOMPRESSED
    out, out_end = target, target + size
    while address < end:
        tag = load8(address)
        address += 1
        if tag & 3 == 0:
            length = (tag >> 2) + 1
            if length > 60:
                length, address = _long_literals(address, end, length - 60)
            if length > end - address or length > out_end - out:
                return NOT_DECOMPRESSED
            _put_literals(address, end, out, length)
            address += length
        else:
            entry = COPY_TAGS[tag]
            width, length = entry >> 11, entry & 0xFF
            offset = (load32(address) & ((1 << 8 * width) - 1)) | (entry & 0x700)
            address += width
            if address > end or offset == 0 or offset > out - target or length > out_end - out:
                return NOT_DECOMPRESSED
            _repeat(out, out + length, offset)
        out += length
    return size if out == out_end else NOT_DECOMPRESSED


@compiled
def decompress_snappy(address: int, end: int, target: int, capacity: int) -> int:
    """Decompress a raw block, or a stream of xerial's frames.

    Returns:
        the decompressed size, or ``NOT_DECOMPRESSED``.
    """
    if end - address < XERIAL_HEADER_SIZE or load64(address) != XERIAL_MAGIC_WORD:
        return _snappy_block(address, end, target, capacity)
    address += XERIAL_HEADER_SIZE
    out, out_end = target, target + capacity
    while end - address >= 4:
        length = big32(address)
        if length < 0:
            # Concatenated streams: another header may follow where a block's length is expected.
            if end - address < 8 or load64(address) != XERIAL_MAGIC_WORD:
                return NOT_DECOMPRESSED
            address += XERIAL_HEADER_SIZE
            continue
        address += 4
        if length > end - address:
            return NOT_DECOMPRESSED
        size = _snappy_block(address, address + length, out, out_end - out)
        if size < 0:
            return NOT_DECOMPRESSED
        out += size
        address += length
    return out - target
