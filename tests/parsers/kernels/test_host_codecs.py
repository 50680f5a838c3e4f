"""Decompression for kernels by Python's libraries: what ``codecs.decompress`` makes of it, or a refusal."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.parsers.format.codecs import decompress
from kforensics.parsers.format.rows import CODECS
from kforensics.parsers.kernels.host_codecs import REFUSED, decompressed_outside
from tests.parsers.builders import GZIP, compressed

TEXT = b"some text that is worth compressing, " * 40
MEMBER = compressed(GZIP, TEXT)
every_codec = pytest.mark.parametrize("codec", range(1, len(CODECS)), ids=CODECS[1:])


def outside(codec: int, data: bytes, room: int = 1 << 16) -> bytes | None:
    """Return what is written, None for a refusal; nothing is written behind it."""
    target = bytearray(b"\xee" * room)
    size = decompressed_outside(codec, memoryview(data), memoryview(target))
    if size == REFUSED:
        return None
    assert target[size:] == b"\xee" * (room - size)
    return bytes(target[:size])


def check(codec: int, data: bytes, room: int = 1 << 16) -> bytes | None:
    """Return the same, having compared it with the decompression of plain Python."""
    found, expected = outside(codec, data, room), decompress(codec, data, budget=room)
    assert found == (expected.data if expected.failure is None else None)
    return found


@every_codec
@pytest.mark.parametrize("text", [b"", b"x", TEXT], ids=len)
def test_sound_streams_are_decompressed(codec: int, text: bytes) -> None:
    assert check(codec, compressed(codec, text)) == text


@every_codec
def test_the_room_is_kept_to(codec: int) -> None:
    data = compressed(codec, TEXT)
    for room in (0, 1, len(TEXT) - 1, len(TEXT), len(TEXT) + 1):
        assert check(codec, data, room) == (TEXT if room >= len(TEXT) else None)


@every_codec
def test_streams_cut_anywhere(codec: int) -> None:
    data = compressed(codec, TEXT[:100])
    for length in range(len(data)):
        check(codec, data[:length])


def test_flipped_bits_of_a_gzip_stream() -> None:
    data = compressed(GZIP, TEXT[:100])
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        # zlib refuses flags that have no meaning, which Java does not look at; that is for plain Python then.
        expected = decompress(GZIP, bytes(flipped))
        assert outside(GZIP, bytes(flipped)) in (None, expected.data if expected.failure is None else None)


@pytest.mark.parametrize(
    "data",
    [
        MEMBER * 2,
        MEMBER + b"stray",
        MEMBER + bytes(20),
        MEMBER + MEMBER[:15],
        gzip.compress(b"") + MEMBER,
        zlib.compress(TEXT),
        b"",
    ],
    ids=["two members", "stray bytes", "zeros", "cut member", "empty member", "zlib", "nothing"],
)
def test_what_is_unusual_in_gzip(data: bytes) -> None:
    check(GZIP, data)


@given(data=st.binary(max_size=60))
def test_any_bytes(data: bytes) -> None:
    for codec in range(1, len(CODECS)):
        check(codec, data)
    check(GZIP, MEMBER[:10] + data)
