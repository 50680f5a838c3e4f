"""The header of a format 2 batch in kernels: which batch is beyond doubt, and its fields by name."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from kforensics.parsers.format.derived import fixed
from kforensics.parsers.format.layouts import BATCH_HEADER
from kforensics.parsers.format.rows import CODEC_MASK, CODECS
from kforensics.parsers.kernels.compiler import inlined
from kforensics.parsers.kernels.crc import crc32c
from kforensics.parsers.kernels.machine import big16, big32, big64, bit_length, load8, unsigned32
from kforensics.parsers.kernels.request import MORE, REFUSED

__all__ = [
    "AT",
    "FORMAT",
    "HEADER",
    "KNOWN_CODECS",
    "LENGTH_END",
    "SMALL",
    "announced_size",
    "look",
    "may_sum",
    "next_size",
]

HEADER = fixed(BATCH_HEADER)
# Offsets of the fields by name, as a tuple of constants, which the compiler can read.
AT: Any = namedtuple("At", HEADER.names)(**HEADER.offsets)  # noqa: PYI024  # the layout states the names
SIZE = HEADER.size
LENGTH_END, CRC_START = HEADER.end_of("length"), HEADER.end_of("crc")
FORMAT = 2
KNOWN_CODECS = len(CODECS)
# Batches up to this size are always summed.
SMALL = 1 << 14


@inlined
def next_size(at: int, end: int) -> int:
    """Return the size of the batch of format 2 at an address, -MORE or -REFUSED if there is no whole one."""
    if end - at < SIZE:
        return -MORE
    size = big32(at + AT.length) + LENGTH_END
    if size < SIZE or load8(at + AT.magic) != FORMAT:
        return -REFUSED
    return size if size <= end - at else -MORE


@inlined
def announced_size(at: int, end: int) -> int:
    """Return the size that stands in the header at an address, 0 if not even that is there."""
    return big32(at + AT.length) + LENGTH_END if end - at >= LENGTH_END else 0


@inlined
def may_sum(size: int, refused_sizes: int) -> bool:
    """Whether a batch of a size may be summed, though it may turn out that its checksum is wrong."""
    return size <= SMALL or not refused_sizes >> bit_length(size) & 1


@inlined
def look(at: int, end: int, refused_sizes: int) -> int:
    """Return the size of the batch at an address if nobody could doubt it, else -MORE or -REFUSED.

    Args:
        at: its first byte.
        end: the address behind the last byte there is.
        refused_sizes: a bit for each order of size that must not be summed.
    """
    size = next_size(at, end)
    if size < 0:
        return size
    if not may_sum(size, refused_sizes):
        return -REFUSED
    if (
        big64(at + AT.base_offset) < 0
        or big16(at + AT.attributes) & CODEC_MASK >= KNOWN_CODECS
        or big32(at + AT.count) < 0
    ):
        return -REFUSED
    if crc32c(at + CRC_START, size - CRC_START) != unsigned32(at + AT.crc):
        return -REFUSED
    return size
