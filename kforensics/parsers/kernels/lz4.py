"""LZ4 in kernels: Kafka's frames, with the C function for blocks where there is one."""

from __future__ import annotations

from kforensics.parsers.format.codecs import (
    INCOMPRESSIBLE,
    LZ4_MAGIC,
    PRIME_1,
    PRIME_2,
    PRIME_3,
    PRIME_4,
    PRIME_5,
    WORD,
)
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
    call_lz4,
    copy,
    load8,
    load16,
    load32,
)

__all__ = ["lz4"]

LZ4_MAGIC_WORD = int.from_bytes(LZ4_MAGIC, "little")


@inlined
def _rotated(value: int, bits: int) -> int:
    value &= WORD
    return (value << bits | value >> (32 - bits)) & WORD


@inlined
def _lane(value: int, at: int) -> int:
    return _rotated(value + load32(at) * PRIME_2, 13) * PRIME_1 & WORD


@compiled
def _xxh32(at: int, length: int) -> int:
    """Return xxHash32 with seed 0."""
    end = at + length
    total = PRIME_5
    if length >= 16:
        one, two, three, four = (PRIME_1 + PRIME_2) & WORD, PRIME_2, 0, -PRIME_1 & WORD
        while end - at >= 16:
            one, two, three, four = _lane(one, at), _lane(two, at + 4), _lane(three, at + 8), _lane(four, at + 12)
            at += 16
        total = _rotated(one, 1) + _rotated(two, 7) + _rotated(three, 12) + _rotated(four, 18)
    total += length
    while end - at >= 4:
        total = _rotated(total + load32(at) * PRIME_3, 17) * PRIME_4
        at += 4
    while at < end:
        total = _rotated(total + load8(at) * PRIME_5, 11) * PRIME_1
        at += 1
    total &= WORD
    total = (total ^ total >> 15) * PRIME_2 & WORD
    total = (total ^ total >> 13) * PRIME_3 & WORD
    return total ^ total >> 16


@compiled
def _frame(at: int, end: int) -> tuple[int, int, int]:
    """Return the most bytes of a block, 0 if the frame is refused, the size of checksums and where blocks begin."""
    if end - at < 7 or load32(at) != LZ4_MAGIC_WORD:
        return 0, 0, at
    flags, sizes = load8(at + 4), load8(at + 5)
    # Version 1, independent blocks, nothing reserved; a largest block of 64 KB to 4 MB.
    if flags & 0xE3 != 0x60 or sizes & 0x8F or sizes < 0x40:
        return 0, 0, at
    descriptor_end = at + (14 if flags & 0x08 else 6)
    if descriptor_end >= end or _xxh32(at + 4, descriptor_end - at - 4) >> 8 & 0xFF != load8(descriptor_end):
        return 0, 0, at
    return 1 << (8 + 2 * (sizes >> 4)), 4 if flags & 0x10 else 0, descriptor_end + 1


@inlined
def _extended(at: int, end: int, length: int) -> tuple[int, int]:
    """Return a length that goes on in further bytes if it is 15, and the address behind them."""
    if length == 15:
        byte = 255
        while byte == 255:
            if at >= end:
                return ENDLESS, end
            byte = load8(at)
            at += 1
            length += byte
    return length, at


@compiled
def _block(at: int, end: int, target: int, room: int) -> int:
    """Decompress a block as ``LZ4_decompress_safe`` does, and refuse what it refuses."""
    out, out_end = target, target + room
    while at < end:
        token = load8(at)
        length, at = _extended(at + 1, end, token >> 4)
        if length > end - at or length > out_end - out:
            return REFUSED
        put_literals(at, end, out, length)
        at += length
        out += length
        if at == end:
            return out - target
        # A match begins 12 bytes before the end of a block at the latest, and another token follows it.
        if end - at < 8 or out_end - out < 12:
            return REFUSED
        offset = load16(at)
        length, at = _extended(at + 2, end, token & 15)
        length += 4
        if offset == 0 or offset > out - target or length > out_end - out - 5:
            return REFUSED
        repeat(out, out + length, offset)
        out += length
    return REFUSED


@compiled
def lz4(at: int, end: int, target: int, room: int, function: int) -> int:
    """Decompress a frame; return its size, or ``REFUSED``."""
    most, checksum_size, at = _frame(at, end)
    out, out_end = target, target + room
    while most and end - at >= 4:
        word = load32(at)
        at += 4
        length = word & ~INCOMPRESSIBLE
        if length == 0:
            return out - target
        if length > most or length + checksum_size > end - at:
            return REFUSED
        if checksum_size and _xxh32(at, length) != load32(at + length):
            return REFUSED
        limit = min(most, out_end - out)
        size = length
        if word & INCOMPRESSIBLE:
            if length > limit:
                return REFUSED
            copy(out, at, length)
        elif function:
            size = call_lz4(function, at, out, length, limit)
        else:
            size = _block(at, at + length, out, limit)
        if size < 0:
            return REFUSED
        out += size
        at += length + checksum_size
    return REFUSED
