"""Where the records of a batch are in kernels, once they are decompressed."""

from __future__ import annotations

from kforensics.parsers.kernels.codecs import decompressed
from kforensics.parsers.kernels.compiler import compiled
from kforensics.parsers.kernels.headers import SIZE
from kforensics.parsers.kernels.request import LZ4, PAYLOAD_SIZE, SCRATCH, SCRATCH_SIZE, ZSTD, ZSTD_CONTEXT
from kforensics.parsers.kernels.slots import answer, slot
from kforensics.parsers.kernels.varints import UNREADABLE

__all__ = ["records_at"]


@compiled
def records_at(request: int, at: int, size: int, codec: int) -> tuple[int, int]:
    """Return the addresses of the first byte of a batch's records and of the byte behind the last one.

    Both are ``UNREADABLE`` where kernels cannot decompress them.
    """
    at += SIZE
    size -= SIZE
    if codec == 0:
        return at, at + size
    scratch, payload_size = slot(request, SCRATCH), slot(request, PAYLOAD_SIZE)
    if payload_size >= 0:
        # It is that of the first batch alone.
        answer(request, PAYLOAD_SIZE, -1)
        return scratch, scratch + payload_size
    lz4, zstd, context = slot(request, LZ4), slot(request, ZSTD), slot(request, ZSTD_CONTEXT)
    size = decompressed(codec, at, size, scratch, slot(request, SCRATCH_SIZE), lz4, zstd, context)
    return (scratch, scratch + size) if size >= 0 else (UNREADABLE, UNREADABLE)
