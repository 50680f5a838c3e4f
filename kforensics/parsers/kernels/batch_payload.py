"""The records of a batch, or the messages of a wrapper, in kernels: decompressed to scratch memory if necessary.

The bytes equal those of :func:`kforensics.parsers.format.decompression.decompress`. Where that function fails, kernels
leave the batch to it, so that it can report the error.
"""

from __future__ import annotations

from kforensics.parsers.format.decompression import LZ4, SNAPPY, ZSTD
from kforensics.parsers.kernels.batch_checks import FORMAT, HEADER_SIZE
from kforensics.parsers.kernels.compiler import compiled, inlined
from kforensics.parsers.kernels.host_codecs import INPUT, NOT_DECOMPRESSED, OUTPUT
from kforensics.parsers.kernels.intrinsics import get_slot, set_slot
from kforensics.parsers.kernels.lz77 import decompress_lz4, decompress_snappy
from kforensics.parsers.kernels.record_parser import NO_ADDRESS
from kforensics.parsers.kernels.request import SLOT
from kforensics.parsers.kernels.zstd import decompress_zstd, set_buffer


@compiled
def decompress_stream(  # noqa: PLR0913, PLR0917  # kernels have no objects to pass around
    codec: int,
    source: int,
    length: int,
    target: int,
    capacity: int,
    lz4_function: int,
    zstd_function: int,
    zstd_context: int,
) -> int:
    """Decompress a complete stream.

    Up to 8 bytes after the source are read and up to 64 after the target are written.

    Args:
        codec: number from the attributes.
        source: address of the compressed bytes.
        length: their number.
        target: address for the decompressed bytes.
        capacity: how many fit there.
        lz4_function: see ``host_codecs``; 0 to decompress LZ4 here.
        zstd_function: see ``host_codecs``; 0 to decline zstd.
        zstd_context: of this thread, see ``host_codecs.ZstdContext``; 0 to decline zstd.

    Returns:
        the decompressed size, or ``NOT_DECOMPRESSED``.
    """
    if codec == LZ4:
        return decompress_lz4(source, source + length, target, capacity, lz4_function)
    if codec == ZSTD:
        if zstd_function == 0 or zstd_context == 0:
            return NOT_DECOMPRESSED
        set_buffer(zstd_context + 8 * INPUT, source, length)
        set_buffer(zstd_context + 8 * OUTPUT, target, capacity)
        return decompress_zstd(zstd_function, zstd_context)
    if codec == SNAPPY:
        return decompress_snappy(source, source + length, target, capacity)
    return NOT_DECOMPRESSED


@compiled
def decompress_payload(request: int, address: int, size: int, codec: int, magic: int) -> tuple[int, int]:
    """Return the addresses of the first decompressed byte and after the last one.

    Both are ``NO_ADDRESS`` if kernels cannot decompress the bytes. The request then says what the host must decompress.

    Args:
        request: address of the request.
        address: of the compressed bytes.
        size: their number.
        codec: number from the attributes.
        magic: format of the message.
    """
    scratch, payload_size = get_slot(request, SLOT.scratch), get_slot(request, SLOT.payload_size)
    if payload_size >= 0:
        # It belongs to the first batch only.
        set_slot(request, SLOT.payload_size, -1)
        return scratch, scratch + payload_size
    lz4, zstd = get_slot(request, SLOT.lz4_function), get_slot(request, SLOT.zstd_function)
    capacity, context = get_slot(request, SLOT.scratch_size), get_slot(request, SLOT.zstd_context)
    payload_size = decompress_stream(codec, address, size, scratch, capacity, lz4, zstd, context)
    if payload_size >= 0:
        return scratch, scratch + payload_size
    set_slot(request, SLOT.compressed_start, address - get_slot(request, SLOT.data))
    set_slot(request, SLOT.compressed_size, size)
    set_slot(request, SLOT.compressed_codec, codec)
    set_slot(request, SLOT.compressed_magic, magic)
    return NO_ADDRESS, NO_ADDRESS


@inlined
def batch_payload(request: int, address: int, size: int, codec: int) -> tuple[int, int]:
    """Return the addresses of the first byte of a format 2 batch's records and after the last one.

    Both are ``NO_ADDRESS`` if kernels cannot decompress them.
    """
    if codec == 0:
        return address + HEADER_SIZE, address + size
    return decompress_payload(request, address + HEADER_SIZE, size - HEADER_SIZE, codec, FORMAT)
