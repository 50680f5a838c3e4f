"""The checksums of kernels compared with crcmod, for any length and alignment."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable

import pytest

from kforensics.parsers.format.checksums import reference_crc32, reference_crc32c
from kforensics.parsers.kernels import crc
from kforensics.parsers.kernels.target import this_processor

pytestmark = pytest.mark.slow  # compiles kernels of its own

Checksum = Callable[[int, int], int]
Reference = Callable[[], Callable[[bytes], int]]
# Around one round of long streams, several rounds, one and several rounds of short streams, a page, and a large size.
LENGTHS = [*range(401), *range(760, 777), *range(4031, 4041), 16384, 99991]
NOISE = random.Random(3).randbytes(100_100)  # noqa: S311 - dice for a test
BUFFER = ctypes.create_string_buffer(NOISE, len(NOISE))
ADDRESS = ctypes.addressof(BUFFER)
with_instruction = pytest.param(
    crc.crc32c_by_instruction,
    reference_crc32c,
    id="crc32c by instruction",
    marks=pytest.mark.skipif(
        not this_processor().has_crc_instruction, reason="this processor has no instruction for CRC-32C"
    ),
)
FUNCTIONS = [
    with_instruction,
    pytest.param(crc.crc32c_by_tables, reference_crc32c, id="crc32c by tables"),
    pytest.param(crc.crc32c, reference_crc32c, id="crc32c"),
    pytest.param(crc.crc32, reference_crc32, id="crc32"),
]
every_function = pytest.mark.parametrize(("function", "reference"), FUNCTIONS)


@every_function
def test_checksums_equal_those_of_crcmod(function: Checksum, reference: Reference) -> None:
    for number, length in enumerate(LENGTHS):
        start = number % 97
        assert function(ADDRESS + start, length) == reference()(NOISE[start : start + length]), length


@every_function
def test_bytes_may_begin_anywhere(function: Checksum, reference: Reference) -> None:
    for start in range(16):
        for length in (0, 1, 7, 8, 9, 63, 64, 191, 192, 193, 767, 768, 769, 1000):
            assert function(ADDRESS + start, length) == reference()(NOISE[start : start + length])


@every_function
@pytest.mark.parametrize("byte", [0x00, 0xFF])
def test_all_bytes_may_be_equal(function: Checksum, reference: Reference, byte: int) -> None:
    """Zeros would show errors in the tables that append zeros to a checksum."""
    for length in (1, 8, 64, 192, 768, 3 * 768, 5000):
        data = bytes([byte]) * length
        buffer = ctypes.create_string_buffer(data, length)
        assert function(ctypes.addressof(buffer), length) == reference()(data)


@every_function
def test_every_byte_counts(function: Checksum, reference: Reference) -> None:
    """Flipping any of 1,000 bytes changes the checksum, so no byte is skipped between two streams."""
    whole = function(ADDRESS, 1000)
    for index in range(1000):
        changed = bytearray(NOISE[:1000])
        changed[index] ^= 1
        buffer = ctypes.create_string_buffer(bytes(changed), 1000)
        assert function(ctypes.addressof(buffer), 1000) != whole
