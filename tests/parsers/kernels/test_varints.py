"""Varints in kernels against ``parsers.varint``: what one takes the other takes, and reads alike."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kforensics.parsers.format.varint import VarintError, VarLong, read_varint, read_varlong
from kforensics.parsers.kernels.compiler import compiled
from kforensics.parsers.kernels.varints import UNREADABLE, varint, varlong

Plain = Callable[[bytes, int], tuple[int, int]]
Kernel = Callable[[int, int], tuple[int, int]]


@compiled
def _varint(at: int, end: int) -> tuple[int, int]:
    return varint(at, end)


@compiled
def _varlong(at: int, end: int) -> tuple[int, int]:
    return varlong(at, end)


TWINS = [pytest.param(_varint, read_varint, id="int"), pytest.param(_varlong, read_varlong, id="long")]
twins = pytest.mark.parametrize(("kernel", "plain"), TWINS)
tricky = st.lists(st.sampled_from([0, 1, 2, 0x0F, 0x10, 0x7E, 0x7F, 0x80, 0x81, 0x8F, 0xFE, 0xFF]), max_size=12).map(
    bytes
)


def check(kernel: Kernel, plain: Plain, data: bytes) -> None:
    """Fail unless both read a varint alike, or neither reads one; zeros behind the end are not for the kernel."""
    buffer = ctypes.create_string_buffer(data, len(data) + 16)
    address = ctypes.addressof(buffer)
    number, behind = kernel(address, address + len(data))
    try:
        expected = plain(data, 0)
    except (IndexError, VarintError):
        assert behind == UNREADABLE, data.hex()
    else:
        assert (number, behind - address) == expected, data.hex()


@twins
@given(data=st.one_of(st.binary(max_size=12), tricky))
@settings(max_examples=1000)
def test_any_bytes(kernel: Kernel, plain: Plain, data: bytes) -> None:
    check(kernel, plain, data)


@twins
@given(number=st.integers(-(2**63), 2**63 - 1), behind=st.binary(max_size=3))
@settings(max_examples=500)
def test_any_number(kernel: Kernel, plain: Plain, number: int, behind: bytes) -> None:
    check(kernel, plain, bytes(VarLong.build(number)) + behind)


@twins
def test_all_of_one_and_two_bytes(kernel: Kernel, plain: Plain) -> None:
    for first in range(256):
        check(kernel, plain, bytes([first]))
        for second in range(256):
            check(kernel, plain, bytes([first, second]))


@twins
def test_every_last_byte_of_every_length(kernel: Kernel, plain: Plain) -> None:
    """Bits fall off the top, a continue bit in the last allowed byte is refused, an end inside is too."""
    for length in range(12):
        for filler in (0x80, 0xFF, 0xAA):
            for last in range(256):
                check(kernel, plain, bytes([filler]) * length + bytes([last]))
            check(kernel, plain, bytes([filler]) * length)


@twins
def test_numbers_at_borders(kernel: Kernel, plain: Plain) -> None:
    for bit in range(64):
        for number in {2**bit - 1, -(2**bit), -(2**bit) + 1, min(2**bit, 2**63 - 1)}:
            check(kernel, plain, bytes(VarLong.build(number)))
