"""The header of a format 2 batch in kernels: its fields by name, and whether the batch passes every check."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.layouts import BATCH_HEADER
from kforensics.parsers.format.rows import CODEC_MASK, CODECS
from kforensics.parsers.kernels.compiler import inlined
from kforensics.parsers.kernels.crc import crc32c
from kforensics.parsers.kernels.intrinsics import big16, big32, big64, bit_length, load8, unsigned32
from kforensics.parsers.kernels.request import DECLINED, INCOMPLETE

HEADER = fixed_layout(BATCH_HEADER)
# Offsets of the fields by name, as a tuple of constants that the compiler can read.
HEADER_FIELD: Any = namedtuple("HeaderFields", HEADER.names)(**HEADER.offsets)  # noqa: PYI024  # names of the layout
HEADER_SIZE = HEADER.size
LENGTH_END, CRC_START = HEADER.end_of("length"), HEADER.end_of("crc")
FORMAT = 2
KNOWN_CODECS = len(CODECS)
# Batches up to this size are always checksummed.
SMALL_BATCH = 1 << 14


@inlined
def complete_batch_size(address: int, end: int) -> int:
    """Return the size of the format 2 batch at an address, -INCOMPLETE or -DECLINED if there is no complete one."""
    if end - address < HEADER_SIZE:
        return -INCOMPLETE
    size = big32(address + HEADER_FIELD.length) + LENGTH_END
    if size < HEADER_SIZE or load8(address + HEADER_FIELD.magic) != FORMAT:
        return -DECLINED
    return size if size <= end - address else -INCOMPLETE


@inlined
def declared_batch_size(address: int, end: int) -> int:
    """Return the size that the header at an address declares, 0 if its length field is incomplete."""
    return big32(address + HEADER_FIELD.length) + LENGTH_END if end - address >= LENGTH_END else 0


@inlined
def may_checksum(size: int, refused_sizes: int) -> bool:
    """Return whether a batch of a size may be checksummed, at the risk that its checksum is wrong."""
    return size <= SMALL_BATCH or not refused_sizes >> bit_length(size) & 1


@inlined
def valid_batch_size(address: int, end: int, refused_sizes: int) -> int:
    """Return the size of the batch at an address if it passes every check, else -INCOMPLETE or -DECLINED.

    Args:
        address: its first byte.
        end: the address after the last available byte.
        refused_sizes: bit n is set if batches whose size has a ``bit_length`` of n must not be checksummed.
    """
    size = complete_batch_size(address, end)
    if size < 0:
        return size
    if not may_checksum(size, refused_sizes):
        return -DECLINED
    if (
        big64(address + HEADER_FIELD.base_offset) < 0
        or big16(address + HEADER_FIELD.attributes) & CODEC_MASK >= KNOWN_CODECS
        or big32(address + HEADER_FIELD.count) < 0
    ):
        return -DECLINED
    if crc32c(address + CRC_START, size - CRC_START) != unsigned32(address + HEADER_FIELD.crc):
        return -DECLINED
    return size
