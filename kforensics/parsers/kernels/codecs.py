"""Decompression in kernels: whole streams into a buffer, or nothing.

The output equals that of :func:`kforensics.parsers.format.codecs.decompress` for the same bytes of format 2. Where
that function fails, the kernel returns ``REFUSED``, and the function reports the error.
"""

from __future__ import annotations

from kforensics.parsers.format.codecs import LZ4, SNAPPY, ZSTD
from kforensics.parsers.kernels.compiler import (
    compiled,
)
from kforensics.parsers.kernels.copies import (
    REFUSED,
)
from kforensics.parsers.kernels.lz4 import lz4
from kforensics.parsers.kernels.snappy import snappy
from kforensics.parsers.kernels.symbols import (
    INPUT,
    OUTPUT,
)
from kforensics.parsers.kernels.zstd import point, zstd

__all__ = ["REFUSED", "decompressed"]


@compiled
def decompressed(  # noqa: PLR0913, PLR0917  # kernels have no objects to hand around
    codec: int,
    source: int,
    length: int,
    target: int,
    room: int,
    lz4_function: int,
    zstd_function: int,
    zstd_context: int,
) -> int:
    """Decompress a batch's records; return their size, or ``REFUSED``.

    Up to 8 bytes behind the source are read and up to 64 behind the room are written.

    Args:
        codec: number from the attributes.
        source: address of the compressed bytes.
        length: how many there are.
        target: address where the decompressed bytes go.
        room: how many may go there.
        lz4_function: see ``symbols``; 0 to decompress lz4 here.
        zstd_function: see ``symbols``; 0 to refuse zstd.
        zstd_context: of this thread, see ``symbols.ZstdContext``; 0 to refuse zstd.
    """
    if codec == LZ4:
        return lz4(source, source + length, target, room, lz4_function)
    if codec == ZSTD:
        if zstd_function == 0 or zstd_context == 0:
            return REFUSED
        point(zstd_context + 8 * INPUT, source, length)
        point(zstd_context + 8 * OUTPUT, target, room)
        return zstd(zstd_function, zstd_context)
    if codec == SNAPPY:
        return snappy(source, source + length, target, room)
    return REFUSED
