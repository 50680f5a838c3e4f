"""CRC-32C and CRC-32 inside kernels, tested equal to crcmod.

With SSE4.2, CRC-32C runs the instruction on three streams side by side and joins them with tables that append zeros to
a checksum (the scheme of Mark Adler's crc32c.c). Without SSE4.2, and for CRC-32, eight tables process eight bytes at a
time (slicing-by-8).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kforensics.parsers.kernels.compiler import compiled, inlined, int64
from kforensics.parsers.kernels.intrinsics import crc32c_byte, crc32c_word, has_crc_instruction, load8, load64

CASTAGNOLI, IEEE = 0x82F63B78, 0xEDB88320
ALL_ONES, BYTE = 0xFFFFFFFF, 0xFF
# Bytes per stream. Longer streams gain nothing, and reading three distant addresses defeats memory prefetching.
LONG, SHORT = 256, 64

Table = NDArray[np.uint32]


def _slicing_tables(polynomial: int) -> Table:
    """Return eight tables: the checksum of a byte, and of that byte followed by one to seven zero bytes."""
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (polynomial if value & 1 else 0)
        tables[0, byte] = value
    for row in range(1, 8):
        tables[row] = tables[row - 1] >> 8 ^ tables[0][tables[row - 1] & BYTE]
    return tables


def _zeros_tables(length: int) -> Table:
    """Return four tables, one per byte of a checksum, that append ``length`` zero bytes to its data."""
    step = _slicing_tables(CASTAGNOLI)[0]
    tables = np.zeros((4, 256), np.uint32)
    for row in range(4):
        values = np.arange(256, dtype=np.uint32) << np.uint32(8 * row)
        for _ in range(length):
            values = values >> 8 ^ step[values & BYTE]
        tables[row] = values
    return tables


CASTAGNOLI_TABLES, IEEE_TABLES = _slicing_tables(CASTAGNOLI), _slicing_tables(IEEE)
LONG_ZEROS, SHORT_ZEROS = _zeros_tables(LONG), _zeros_tables(SHORT)


@inlined
def _append_zeros(tables: Table, value: int) -> int:
    return int64(
        tables[0, value & BYTE]
        ^ tables[1, (value >> 8) & BYTE]
        ^ tables[2, (value >> 16) & BYTE]
        ^ tables[3, (value >> 24) & BYTE]
    )


@inlined
def _three_streams(address: int, length: int, value: int, stream: int, tables: Table) -> tuple[int, int, int]:
    while length >= 3 * stream:
        second = third = int64(0)
        end = address + stream
        while address < end:
            value = crc32c_word(value, load64(address))
            second = crc32c_word(second, load64(address + stream))
            third = crc32c_word(third, load64(address + 2 * stream))
            address += 8
        value = _append_zeros(tables, _append_zeros(tables, value) ^ second) ^ third
        address += 2 * stream
        length -= 3 * stream
    return address, length, value


@compiled
def crc32c_by_instruction(address: int, length: int) -> int:
    """Return the CRC-32C of bytes, computed with the SSE4.2 instruction."""
    value = int64(ALL_ONES)
    address, length, value = _three_streams(address, length, value, LONG, LONG_ZEROS)
    address, length, value = _three_streams(address, length, value, SHORT, SHORT_ZEROS)
    while length >= 8:
        value = crc32c_word(value, load64(address))
        address += 8
        length -= 8
    while length > 0:
        value = crc32c_byte(value, load8(address))
        address += 1
        length -= 1
    return value ^ ALL_ONES


@inlined
def _crc_by_tables(tables: Table, address: int, length: int) -> int:
    value = int64(ALL_ONES)
    while length >= 8:
        word = load64(address) ^ value
        value = int64(
            tables[7, word & BYTE]
            ^ tables[6, (word >> 8) & BYTE]
            ^ tables[5, (word >> 16) & BYTE]
            ^ tables[4, (word >> 24) & BYTE]
            ^ tables[3, (word >> 32) & BYTE]
            ^ tables[2, (word >> 40) & BYTE]
            ^ tables[1, (word >> 48) & BYTE]
            ^ tables[0, (word >> 56) & BYTE]
        )
        address += 8
        length -= 8
    while length > 0:
        value = value >> 8 ^ int64(tables[0, (value ^ load8(address)) & BYTE])
        address += 1
        length -= 1
    return value ^ ALL_ONES


@compiled
def crc32c_by_tables(address: int, length: int) -> int:
    """Return the CRC-32C of bytes, computed on any processor."""
    return _crc_by_tables(CASTAGNOLI_TABLES, address, length)


@compiled
def crc32(address: int, length: int) -> int:
    """Return the CRC-32 of bytes."""
    return _crc_by_tables(IEEE_TABLES, address, length)


@compiled
def crc32c(address: int, length: int) -> int:
    """Return the CRC-32C of bytes."""
    return crc32c_by_instruction(address, length) if has_crc_instruction() else crc32c_by_tables(address, length)
