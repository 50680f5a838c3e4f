"""Every codec with streams of other libraries, with invalid streams as Kafka reports them, and with bombs."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable

import cramjam
import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.parsers.format.decompression import Decompressed, _xxh32, decompress
from tests.parsers.builders import CODECS, GZIP, LZ4, NONE, SNAPPY, XERIAL, ZSTD, compressed, zstd

TEXT = b"the quick brown fox " * 5000
NOISE = random.Random(7).randbytes(70_000)  # noqa: S311 - dice for a test
SKIPPABLE = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"aside"
codecs = pytest.mark.parametrize("codec", [pytest.param(number, id=name) for name, number in CODECS.items() if number])


def failure_of(result: Decompressed) -> tuple[str, str | None]:
    """Return exception and message of a failure."""
    assert result.failure is not None
    return result.failure.exception, result.failure.message


@codecs
@pytest.mark.parametrize("data", [b"", b"a", TEXT, NOISE, bytes(5 << 20)], ids=["0", "1", "text", "noise", "zeros"])
def test_streams_of_other_libraries_are_read(codec: int, data: bytes) -> None:
    assert decompress(codec, compressed(codec, data)) == Decompressed(data)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unassigned_codec_is_refused_with_kafkas_message(codec: int) -> None:
    result = decompress(codec, b"abc")
    assert (result.data, result.at_open) == (b"", True)
    assert failure_of(result) == ("java.lang.IllegalArgumentException", f"Unknown compression type id: {codec}")


@codecs
@given(data=st.data())
def test_damaged_streams_return_a_failure_or_bytes(codec: int, data: st.DataObject) -> None:
    """Any input returns a `Decompressed`, and a truncated stream returns a prefix of the original."""
    original = TEXT[:3000] + NOISE[:300]
    raw = bytearray(compressed(codec, original))
    cut = data.draw(st.integers(0, len(raw)))
    result = decompress(codec, bytes(raw[:cut]))
    assert original.startswith(result.data)
    assert result.failure or cut == len(raw) or result.data == original or codec in (SNAPPY, ZSTD)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    damaged = decompress(codec, bytes(raw), budget=10_000)
    assert len(damaged.data) <= 10_000
    assert damaged.failure is None or damaged.failure.reason in ("decompression", "limit")


@codecs
@given(data=st.binary(max_size=60))
def test_noise_does_not_crash(codec: int, data: bytes) -> None:
    result = decompress(codec, data, budget=1000)
    assert len(result.data) <= 1000


@pytest.mark.parametrize("codec", [pytest.param(number, id=name) for name, number in CODECS.items()])
@pytest.mark.parametrize("budget", [0, 1, 99_999, 100_000, 100_001])
def test_the_budget_is_exact(codec: int, budget: int) -> None:
    result = decompress(codec, compressed(codec, TEXT), budget=budget)
    if budget >= len(TEXT):
        assert result == Decompressed(TEXT)
        return
    assert failure_of(result)[0] == "java.lang.OutOfMemoryError"
    assert result.failure is not None
    assert result.failure.reason == "limit"
    # A raw snappy block is returned whole or not at all.
    assert result.data == (b"" if codec == SNAPPY else TEXT[:budget])


# gzip ----------------------------------------------------------------------------------------------------------------


def gzip_with(flags: int, extra: bytes) -> bytes:
    """Return a gzip member whose header has optional fields."""
    plain = gzip.compress(TEXT, mtime=0)
    head = plain[:3] + bytes([flags]) + plain[4:10] + extra
    if flags & 2:
        head += (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little")
    return head + plain[10:]


@pytest.mark.parametrize(
    ("flags", "extra"),
    [(1, b""), (4, b"\x03\x00abc"), (8, b"name\0"), (16, b"comment\0"), (2, b""), (31, b"\x01\x00xname\0comment\0")],
)
def test_gzip_headers_with_optional_fields(flags: int, extra: bytes) -> None:
    assert decompress(GZIP, gzip_with(flags, extra)) == Decompressed(TEXT)


def test_several_gzip_members_and_padding() -> None:
    member = gzip.compress(TEXT, mtime=0)
    assert decompress(GZIP, member + gzip.compress(NOISE) + member + b"padding") == Decompressed(TEXT + NOISE + TEXT)


@pytest.mark.parametrize(
    ("spoil", "failure", "at_open"),
    [
        (lambda raw: raw[:0], ("java.io.EOFException", None), True),
        (lambda raw: b"XX" + raw[2:], ("java.util.zip.ZipException", "Not in GZIP format"), True),
        (
            lambda raw: raw[:2] + b"\x07" + raw[3:],
            ("java.util.zip.ZipException", "Unsupported compression method"),
            True,
        ),
        (lambda raw: raw[:40], ("java.io.EOFException", "Unexpected end of ZLIB input stream"), False),
        (lambda raw: raw[:-1], ("java.io.EOFException", None), False),
        (lambda raw: raw[:-8] + b"\0" + raw[-7:], ("java.util.zip.ZipException", "Corrupt GZIP trailer"), False),
    ],
    ids=["empty", "magic", "method", "cut", "cut trailer", "trailer"],
)
def test_gzip_failures_have_javas_messages(
    spoil: Callable[[bytes], bytes], failure: tuple[str, str | None], at_open: bool
) -> None:
    result = decompress(GZIP, spoil(gzip.compress(TEXT, mtime=0)))
    assert (failure_of(result), result.at_open) == (failure, at_open)


def test_a_gzip_header_checksum_is_verified() -> None:
    raw = bytearray(gzip_with(2, b""))
    raw[10] ^= 1
    assert failure_of(decompress(GZIP, bytes(raw))) == ("java.util.zip.ZipException", "Corrupt GZIP header")


def test_gzip_output_before_a_bad_trailer_is_kept() -> None:
    raw = gzip.compress(TEXT, mtime=0)
    assert decompress(GZIP, raw[:-1]).data == TEXT


# zstd ----------------------------------------------------------------------------------------------------------------


def test_several_zstd_frames_with_skippable_frames() -> None:
    frame = zstd.compress(TEXT)
    stream = SKIPPABLE + frame + SKIPPABLE * 2 + zstd.compress(NOISE) + frame + SKIPPABLE
    assert decompress(ZSTD, stream) == Decompressed(TEXT + NOISE + TEXT)


def test_a_zstd_frame_without_size_and_with_checksum() -> None:
    writer = zstd.ZstdCompressor(options={zstd.CompressionParameter.checksum_flag: 1})
    stream = writer.compress(TEXT[:50_000]) + writer.compress(TEXT[50_000:]) + writer.flush()
    assert decompress(ZSTD, stream) == Decompressed(TEXT)
    result = decompress(ZSTD, stream[:-1] + bytes([stream[-1] ^ 1]))
    assert failure_of(result)[0] == "com.github.luben.zstd.ZstdIOException"


def test_a_truncated_zstd_frame_returns_its_beginning() -> None:
    stream = zstd.compress(NOISE)
    result = decompress(ZSTD, stream[:-10])
    assert failure_of(result) == ("com.github.luben.zstd.ZstdIOException", "Truncated source")
    assert NOISE.startswith(result.data)


# snappy --------------------------------------------------------------------------------------------------------------


def raw_snappy(data: bytes) -> bytes:
    """Return a raw snappy block."""
    return bytes(cramjam.snappy.compress_raw(data))


def test_a_stream_without_xerial_magic_is_one_raw_block() -> None:
    assert decompress(SNAPPY, raw_snappy(TEXT)) == Decompressed(TEXT)


def test_several_xerial_blocks_and_streams() -> None:
    blocks = b"".join(
        len(block).to_bytes(4, "big") + block for block in map(raw_snappy, [TEXT[:1024], TEXT[1024:], b"", NOISE])
    )
    assert decompress(SNAPPY, XERIAL + blocks + XERIAL + blocks) == Decompressed((TEXT + NOISE) * 2)


@pytest.mark.parametrize("stray", [1, 2, 3])
def test_stray_bytes_at_the_end_of_a_xerial_stream_are_tolerated(stray: int) -> None:
    assert decompress(SNAPPY, compressed(SNAPPY, TEXT) + b"\x01" * stray) == Decompressed(TEXT)


def test_xerial_version_numbers_are_not_checked() -> None:
    stream = compressed(SNAPPY, TEXT)
    assert decompress(SNAPPY, stream[:8] + b"\xff" * 8 + stream[16:]) == Decompressed(TEXT)


@pytest.mark.parametrize(
    ("stream", "failure", "at_open"),
    [
        (b"", ("org.xerial.snappy.SnappyIOException", "[EMPTY_INPUT] Cannot decompress empty stream"), True),
        (
            XERIAL + (-5).to_bytes(4, "big", signed=True),
            ("org.xerial.snappy.SnappyError", "[INVALID_CHUNK_SIZE] chunkSize is too big or negative : -5"),
            False,
        ),
        (XERIAL + (9).to_bytes(4, "big") + b"abc", ("java.io.IOException", "failed to read chunk"), False),
        (XERIAL + (3).to_bytes(4, "big") + b"\xff" * 3, ("java.io.IOException", "PARSING_ERROR(2)"), False),
        (b"\x0a\x00a", ("java.io.IOException", "FAILED_TO_UNCOMPRESS(5)"), True),
    ],
    ids=["empty", "negative", "cut", "length", "raw"],
)
def test_snappy_failures_have_the_messages_of_its_reader(
    stream: bytes, failure: tuple[str, str], at_open: bool
) -> None:
    result = decompress(SNAPPY, stream)
    assert (failure_of(result), result.at_open) == (failure, at_open)


# lz4 -----------------------------------------------------------------------------------------------------------------


def lz4_frame(data: bytes = TEXT, **settings: object) -> bytes:
    """Return a frame of independent blocks, written by lz4.frame."""
    return bytes(lz4.frame.compress(data, block_linked=False, **settings))


@pytest.mark.parametrize("size", range(4, 8))
@pytest.mark.parametrize("store_size", [False, True], ids=["no size", "size"])
@pytest.mark.parametrize("checksums", [False, True], ids=["no checksums", "checksums"])
def test_lz4_frames_with_every_option(size: int, store_size: bool, checksums: bool) -> None:
    data = TEXT[:30_000] + NOISE
    frame = lz4_frame(
        data, block_size=size, store_size=store_size, block_checksum=checksums, content_checksum=checksums
    )
    assert decompress(LZ4, frame) == Decompressed(data)


def test_a_frame_as_kafka_writes_it_begins_as_documented() -> None:
    assert lz4_frame(store_size=False, block_size=4)[:7].hex() == "04224d18604082"


def test_only_one_lz4_frame_is_read() -> None:
    assert decompress(LZ4, lz4_frame() + lz4_frame() + b"more") == Decompressed(TEXT)


def test_a_wrong_header_checksum_is_accepted_in_format_0_only() -> None:
    broken = compressed(LZ4, TEXT, magic=0)
    assert broken[:7].hex()[-2:] == "1a"
    assert decompress(LZ4, broken, magic=0) == Decompressed(TEXT)
    for magic in (1, 2):
        assert failure_of(decompress(LZ4, broken, magic=magic)) == (
            "java.io.IOException",
            "Stream frame descriptor corrupted",
        )


def described(flags: int, sizes: int) -> bytes:
    """Return a frame with these descriptor bytes and a valid checksum."""
    descriptor = bytes([flags, sizes])
    return b"\x04\x22\x4d\x18" + descriptor + bytes([_xxh32(descriptor) >> 8 & 0xFF]) + bytes(8)


@pytest.mark.parametrize(
    ("stream", "failure", "at_open"),
    [
        (b"\x04\x22\x4d", "Stream ended prematurely", True),
        (bytes(20), "Stream unsupported (invalid magic bytes)", True),
        (described(0x61, 0x40), "Reserved bits must be 0", True),
        (described(0x40, 0x40), "Dependent block stream is unsupported", True),
        (described(0xA0, 0x40), "Version 2 is unsupported", True),
        (described(0x60, 0x41), "Reserved2 field must be 0", True),
        (described(0x60, 0x30), "Block size value must be between 4 and 7", True),
        (described(0x60, 0xC0), "Reserved3 field must be 0", True),
        (described(0x60, 0x40)[:7], "Stream ended prematurely", False),
        (described(0x60, 0x40)[:7] + b"\x05\0\0\0abc", "Stream ended prematurely", False),
        (described(0x60, 0x40)[:7] + b"\x01\0\x01\0", "Block size 65537 exceeded max: 65536", False),
    ],
)
def test_lz4_failures_have_kafkas_messages(stream: bytes, failure: str, at_open: bool) -> None:
    result = decompress(LZ4, stream)
    assert (failure_of(result)[1], result.at_open) == (failure, at_open)


def test_a_block_checksum_is_verified_and_the_content_checksum_is_not() -> None:
    frame = lz4_frame(block_checksum=True, content_checksum=True)
    assert decompress(LZ4, frame[:-1] + bytes([frame[-1] ^ 1])) == Decompressed(TEXT)
    assert failure_of(decompress(LZ4, frame[:-9] + bytes([frame[-9] ^ 1]) + frame[-8:]))[1] == "Block checksum mismatch"


def test_a_block_length_of_zero_ends_the_stream() -> None:
    for end in (b"\0\0\0\0", b"\0\0\0\x80"):
        assert decompress(LZ4, described(0x60, 0x40)[:7] + b"\x03\0\0\x80abc" + end + b"rest") == Decompressed(b"abc")


def test_a_corrupt_block_is_reported_at_its_position_in_the_batch() -> None:
    frame = described(0x60, 0x40)[:7] + b"\x03\0\0\0\xff\xff\xff"
    result = decompress(LZ4, frame, origin=61)
    assert result.failure is not None
    assert result.failure.causes[0][0] == "net.jpountz.lz4.LZ4Exception"
    assert str(result.failure.causes[0][1]).startswith("Error decoding offset ")
    assert int(str(result.failure.causes[0][1]).split()[3]) >= 61 + 7 + 4


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0xE2293B2F),
    ],
)
def test_xxh32_has_the_published_values(data: bytes, digest: int) -> None:
    assert _xxh32(data) == digest


@given(data=st.binary(min_size=1, max_size=200))
def test_xxh32_equals_that_of_the_lz4_library(data: bytes) -> None:
    """The content checksum that lz4.frame appends to a frame is the xxh32 of the content."""
    frame = lz4_frame(data, content_checksum=True)
    assert _xxh32(data) == int.from_bytes(frame[-4:], "little")


def test_uncompressed_bytes_are_returned_unchanged() -> None:
    assert decompress(NONE, NOISE) == Decompressed(NOISE)
