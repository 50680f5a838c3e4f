"""Where records and messages are in kernels, once they are decompressed."""

from __future__ import annotations

from kforensics.parsers.kernels.codecs import decompressed
from kforensics.parsers.kernels.compiler import compiled, inlined
from kforensics.parsers.kernels.headers import FORMAT, SIZE
from kforensics.parsers.kernels.request import (
    DATA,
    LZ4,
    PACKED,
    PACKED_CODEC,
    PACKED_MAGIC,
    PACKED_SIZE,
    PAYLOAD_SIZE,
    SCRATCH,
    SCRATCH_SIZE,
    ZSTD,
    ZSTD_CONTEXT,
)
from kforensics.parsers.kernels.slots import answer, slot
from kforensics.parsers.kernels.varints import UNREADABLE

__all__ = ["records_at", "unpacked"]


@compiled
def unpacked(request: int, at: int, size: int, codec: int, magic: int) -> tuple[int, int]:
    """Return the addresses of the first decompressed byte and of the byte behind the last one.

    Both are ``UNREADABLE`` where kernels cannot decompress: the request then says what somebody else is to decompress.

    Args:
        request: address of the request.
        at: address of the compressed bytes.
        size: how many there are.
        codec: number from the attributes.
        magic: format of the message.
    """
    scratch, payload_size = slot(request, SCRATCH), slot(request, PAYLOAD_SIZE)
    if payload_size >= 0:
        # It is that of the first batch alone.
        answer(request, PAYLOAD_SIZE, -1)
        return scratch, scratch + payload_size
    lz4, zstd, context = slot(request, LZ4), slot(request, ZSTD), slot(request, ZSTD_CONTEXT)
    done = decompressed(codec, at, size, scratch, slot(request, SCRATCH_SIZE), lz4, zstd, context)
    if done >= 0:
        return scratch, scratch + done
    answer(request, PACKED, at - slot(request, DATA))
    answer(request, PACKED_SIZE, size)
    answer(request, PACKED_CODEC, codec)
    answer(request, PACKED_MAGIC, magic)
    return UNREADABLE, UNREADABLE


@inlined
def records_at(request: int, at: int, size: int, codec: int) -> tuple[int, int]:
    """Return the addresses of the first byte of a format 2 batch's records and of the byte behind the last one.

    Both are ``UNREADABLE`` where kernels cannot decompress them.
    """
    if codec == 0:
        return at + SIZE, at + size
    return unpacked(request, at + SIZE, size - SIZE, codec, FORMAT)
