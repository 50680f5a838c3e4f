"""Decompression in kernels compared with pure Python, in memory that ends with an inaccessible page."""

from __future__ import annotations

import ctypes
import mmap
import random
from collections import Counter
from functools import cache
from pathlib import Path

import cramjam
import lz4.block
import lz4.frame
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kforensics.parsers.files.source import LocalSource
from kforensics.parsers.format.decompression import _xxh32 as python_xxh32
from kforensics.parsers.format.decompression import decompress
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.kernels.batch_payload import decompress_stream
from kforensics.parsers.kernels.host_codecs import NOT_DECOMPRESSED, ZstdContext, lz4_function, zstd_function
from kforensics.parsers.kernels.lz77 import _xxh32
from kforensics.parsers.kernels.request import SLACK
from kforensics.parsers.log.batches import walk
from tests.parsers.builders import GZIP, HEADER, LZ4, NONE, SNAPPY, XERIAL, ZSTD, compressed, zstd

pytestmark = pytest.mark.slow

DICE = random.Random(4)  # noqa: S311 - dice for a test
WORDS = [bytes(DICE.choices(b"etaoinshrdlu", k=DICE.randint(1, 9))) for _ in range(300)]
KB, MB = 1 << 10, 1 << 20
# Bytes that a kernel may read after its source.
OVER_READ = 8
SKIPPABLE = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"aside"
CANARY = 0xEE


# Generated once, because Hypothesis needs the same data in every run of a test.
NOISE, TEXT = DICE.randbytes(5 * MB), b" ".join(DICE.choices(WORDS, k=2 * MB))


def text(size: int) -> bytes:
    """Return bytes that compress like JSON or prose."""
    return TEXT[:size]


def noise(size: int) -> bytes:
    """Return bytes that do not compress."""
    return NOISE[:size]


class Pages:
    """Memory between two inaccessible pages."""

    def __init__(self, size: int) -> None:
        self._pages = mmap.mmap(-1, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE + 2 * mmap.PAGESIZE)
        # The object whose address is taken keeps the pages mapped.
        self._held = ctypes.c_char.from_buffer(self._pages)
        self.first = ctypes.addressof(self._held) + mmap.PAGESIZE
        self.end = ctypes.addressof(self._held) + len(self._pages) - mmap.PAGESIZE
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        for page in (self.first - mmap.PAGESIZE, self.end):
            assert protect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0


SOURCE, TARGET = Pages(6 * MB), Pages(6 * MB)


@cache
def context() -> ZstdContext:
    """Return one context for all tests, because a stream must not affect the next one."""
    return ZstdContext()


def run(
    codec: int, data: bytes, capacity: int, *, own: bool = False, low: bool = False, trailing: bytes = b""
) -> bytes | None:
    """Return the bytes that the kernel decompresses, None if it refuses the stream.

    Args:
        codec: number from the attributes.
        data: the compressed bytes.
        capacity: maximum decompressed size.
        own: decompress LZ4 without the C function.
        low: put both ranges directly after an inaccessible page, not before one.
        trailing: bytes in memory after the compressed bytes, if ``low``.
    """
    source = SOURCE.first if low else SOURCE.end - OVER_READ - len(data)
    target = TARGET.first if low else TARGET.end - SLACK - capacity
    before = 0 if low else min(SLACK, target - TARGET.first)
    ctypes.memmove(source, data + trailing, len(data) + (len(trailing) if low else 0))
    ctypes.memset(target - before, CANARY, before + capacity + SLACK)
    function = 0 if own else lz4_function()
    size = decompress_stream(codec, source, len(data), target, capacity, function, zstd_function(), context().address)
    assert ctypes.string_at(target - before, before) == bytes([CANARY]) * before
    assert ctypes.string_at(source, len(data)) == data
    assert NOT_DECOMPRESSED <= size <= capacity
    return None if size == NOT_DECOMPRESSED else ctypes.string_at(target, size)


def runs(codec: int, data: bytes, capacity: int) -> list[bytes | None]:
    """Return the results of the kernel at both addresses and, for LZ4, with both decoders."""
    decoders = (False, True) if codec == LZ4 else (False,)
    return [run(codec, data, capacity, own=own, low=low) for own in decoders for low in (False, True)]


def expect(codec: int, data: bytes, plain: bytes) -> None:
    """Assert that a stream is decompressed if the capacity suffices, and refused otherwise."""
    assert decompress(codec, data).data == plain
    for capacity in (len(plain), len(plain) + 1, len(plain) + 9, len(plain) + 70_000):
        assert set(runs(codec, data, capacity)) == {plain}
    if plain:
        assert set(runs(codec, data, len(plain) - 1)) == {None}
        assert set(runs(codec, data, 0)) == {None}


def agree(codec: int, data: bytes, capacity: int) -> None:
    """Assert that the kernel refuses invalid streams, and refuses or decompresses valid ones like pure Python."""
    expected = decompress(codec, data, budget=capacity)
    allowed = {None} if expected.failure else {expected.data, None}
    assert set(runs(codec, data, capacity)) <= allowed
    if codec in (SNAPPY, LZ4) and capacity >= 64 * KB and not expected.failure:
        # For blocks that no encoder writes, zstd and our own LZ4 decoder are stricter.
        assert run(codec, data, capacity) is not None


def snappy_blocks(data: bytes, size: int) -> bytes:
    """Return blocks like those of Kafka's Java client, without the header."""
    parts = [bytes(cramjam.snappy.compress_raw(data[start : start + size])) for start in range(0, len(data), size)]
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def raw_snappy(data: bytes) -> bytes:
    """Return one raw snappy block."""
    return bytes(cramjam.snappy.compress_raw(data))


def lz4_frame(data: bytes, **settings: object) -> bytes:
    """Return a frame of independent blocks."""
    return bytes(lz4.frame.compress(data, block_linked=False, **settings))


def lz4_of(*blocks: bytes, sizes: int = 0x40) -> bytes:
    """Return a frame of the given compressed blocks."""
    descriptor = bytes([0x60, sizes])
    head = b"\x04\x22\x4d\x18" + descriptor + bytes([python_xxh32(descriptor) >> 8 & 0xFF])
    return head + b"".join(len(block).to_bytes(4, "little") + block for block in blocks) + bytes(4)


def zstd_stream(data: bytes, **options: int) -> bytes:
    """Return a frame without content size, like those of Kafka's clients."""
    names = {int(zstd.CompressionParameter[name]): value for name, value in options.items()}
    writer = zstd.ZstdCompressor(options=names)
    return b"".join([writer.compress(data[:1000]), writer.compress(data[1000:]), writer.flush()])


# Streams of clients -------------------------------------------------------------------------------------------------

codecs = pytest.mark.parametrize(
    "codec", [pytest.param(SNAPPY, id="snappy"), pytest.param(LZ4, id="lz4"), pytest.param(ZSTD, id="zstd")]
)


def test_every_batch_of_the_samples_is_decompressed(sample_logs: Path) -> None:
    seen = Counter[int]()
    for path in sorted(sample_logs.rglob("*.log")):
        with LocalSource(path) as source:
            for row in walk(source):
                if isinstance(row, Batch) and row.magic == 2 and row.codec in (SNAPPY, LZ4, ZSTD):
                    data = source.read(row.position + HEADER.size, row.size - HEADER.size)
                    plain = decompress(row.codec, data)
                    if plain.failure is None:
                        expect(row.codec, data, plain.data)
                        seen[row.codec] += 1
                    else:
                        agree(row.codec, data, MB)
    assert all(seen[codec] > 30 for codec in (SNAPPY, LZ4, ZSTD))


@codecs
@pytest.mark.parametrize("kind", ["zeros", "text", "noise"])
def test_every_small_length_is_decompressed(codec: int, kind: str) -> None:
    for size in range(201):
        plain = {"zeros": bytes(size), "text": text(size), "noise": noise(size)}[kind]
        expect(codec, compressed(codec, plain), plain)


@codecs
@pytest.mark.parametrize("size", [4095, 64 * KB - 1, 64 * KB, 64 * KB + 1, 300_000, MB, 5 * MB])
def test_large_streams_of_several_blocks_are_decompressed(codec: int, size: int) -> None:
    for plain in (bytes(size), text(size), noise(size)):
        expect(codec, compressed(codec, plain), plain)


@pytest.mark.parametrize("period", range(1, 40))
def test_every_distance_of_a_match_is_copied(period: int) -> None:
    for length in (1, 7, 8, 15, 16, 17, 63, 64, 65, 200):
        plain = noise(period) * length
        for codec in (SNAPPY, LZ4):
            expect(codec, compressed(codec, plain), plain)


@pytest.mark.parametrize("size", range(4, 8))
@pytest.mark.parametrize("store_size", [False, True], ids=["no size", "size"])
@pytest.mark.parametrize("checksums", [False, True], ids=["no checksums", "checksums"])
def test_lz4_frames_of_every_client_are_decompressed(size: int, store_size: bool, checksums: bool) -> None:
    plain = text(200_000) + noise(70_000)
    options = {"block_checksum": checksums, "content_checksum": checksums}
    frame = lz4_frame(plain, block_size=size, store_size=store_size, **options)
    expect(LZ4, frame, plain)
    expect(LZ4, frame + b"whatever follows", plain)


@pytest.mark.parametrize("size", [1, 100, 32 * KB])
def test_snappy_streams_of_every_client_are_decompressed(size: int) -> None:
    plain = text(50_000)[: 400 * size]
    blocks = snappy_blocks(plain, size)
    for stray in range(4):
        expect(SNAPPY, XERIAL + blocks + bytes(stray), plain)
    expect(SNAPPY, XERIAL + blocks + XERIAL + blocks, plain * 2)
    expect(SNAPPY, raw_snappy(plain), plain)


@pytest.mark.parametrize("level", [-5, 1, 3, 19, 22])
@pytest.mark.parametrize("checksum", [0, 1], ids=["no checksum", "checksum"])
def test_zstd_frames_of_every_client_are_decompressed(level: int, checksum: int) -> None:
    plain = text(700_000)
    frame = zstd_stream(plain, compression_level=level, checksum_flag=checksum)
    expect(ZSTD, frame, plain)
    expect(ZSTD, SKIPPABLE + frame + SKIPPABLE * 2 + zstd.compress(b"more", level) + SKIPPABLE, plain + b"more")


def test_a_zstd_frame_much_longer_than_its_window_is_decompressed() -> None:
    plain = text(40_000) * 20
    expect(ZSTD, zstd_stream(plain, window_log=10), plain)


@codecs
def test_an_empty_stream_is_decompressed(codec: int) -> None:
    expect(codec, compressed(codec, b""), b"")


# Other streams ------------------------------------------------------------------------------------------------------


@codecs
@given(data=st.data())
def test_damaged_streams_are_refused_or_equal_pure_python(codec: int, data: st.DataObject) -> None:
    plain = text(data.draw(st.sampled_from([3, 40, 300, 3000]))) + noise(data.draw(st.integers(0, 50)))
    raw = bytearray(data.draw(st.sampled_from(_variants(codec, plain))))
    for _ in range(data.draw(st.integers(0, 4))):
        index = data.draw(st.integers(0, len(raw) - 1) | st.integers(0, min(30, len(raw) - 1)))
        raw[index] = data.draw(st.integers(0, 255))
    del raw[data.draw(st.just(len(raw)) | st.integers(0, len(raw))) :]
    agree(codec, bytes(raw), data.draw(st.sampled_from([64 * KB, 10, len(plain), len(plain) + 1, 5 * MB])))


@codecs
@given(data=st.data())
def test_spliced_streams_are_refused_or_equal_pure_python(codec: int, data: st.DataObject) -> None:
    first, second = (
        data.draw(st.sampled_from(_variants(codec, text(data.draw(st.integers(0, 400)))))) for _ in range(2)
    )
    cut, begin = data.draw(st.integers(0, len(first))), data.draw(st.integers(0, len(second)))
    agree(codec, first[:cut] + second[begin:], 64 * KB)


def _variants(codec: int, plain: bytes) -> list[bytes]:
    match codec:
        case 2:
            blocks = snappy_blocks(plain, 100)
            return [compressed(codec, plain), XERIAL + blocks + XERIAL + blocks, raw_snappy(plain)]
        case 3:
            return [
                lz4_frame(plain, store_size=False),
                lz4_frame(plain, block_checksum=True, content_checksum=True),
                lz4_of(
                    *(lz4.block.compress(plain[start : start + 100], store_size=False) for start in range(0, 300, 100))
                ),
            ]
    frame = zstd_stream(plain, checksum_flag=1)
    return [zstd.compress(plain), zstd_stream(plain), frame + SKIPPABLE + frame, zstd_stream(plain, window_log=10)]


@codecs
@pytest.mark.parametrize("size", [1, 30, 400])
def test_every_cut_is_detected_although_the_rest_follows_in_memory(codec: int, size: int) -> None:
    for stream in _variants(codec, text(size)) + _variants(codec, bytes(size)):
        for cut in range(len(stream)):
            agree(codec, stream[:cut], 64 * KB)
            expected = decompress(codec, stream[:cut])
            for own in (False, True):
                taken = run(codec, stream[:cut], 64 * KB, own=own, low=True, trailing=stream[cut:])
                assert taken is None if expected.failure else taken in (expected.data, None)


@codecs
@given(raw=st.binary(max_size=80))
def test_noise_is_refused_or_equals_pure_python(codec: int, raw: bytes) -> None:
    agree(codec, raw, 64 * KB)


@given(raw=st.binary(max_size=80))
def test_noise_in_a_block_is_refused_or_equals_pure_python(raw: bytes) -> None:
    """The blocks are decompressed, because everything around them is valid."""
    agree(LZ4, lz4_of(raw), 64 * KB)
    for size in {len(raw), 5, 40} - {0}:
        block = bytes([size]) + raw
        agree(SNAPPY, block, 64 * KB)
        agree(SNAPPY, XERIAL + len(block).to_bytes(4, "big") + block, 64 * KB)


@given(
    parts=st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 70), st.integers(0, 90), st.integers(0, 3)), min_size=1, max_size=8
    ),
    error=st.integers(-2, 2),
)
def test_blocks_of_any_literals_and_copies_are_refused_or_equal_pure_python(
    parts: list[tuple[int, int, int, int]], error: int
) -> None:
    """Distances and lengths around every limit, and a declared size close to the real one."""
    block, size = b"", error
    for literals, drawn, offset, kind in parts:
        if literals:
            block += bytes([literals - 1 << 2]) + noise(literals)
            size += literals
        length = drawn % 8 + 4 if kind == 1 else drawn % 64 + 1
        if kind:
            head = length - 4 << 2 | 1 if kind == 1 else length - 1 << 2 | kind
            block += bytes([head]) + offset.to_bytes((0, 1, 2, 4)[kind], "little")
            size += length
    assume(size >= 0)
    declared = bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7])
    agree(SNAPPY, declared + block, 64 * KB)


@pytest.mark.parametrize("codec", [NONE, GZIP, 5, 6, 7])
def test_other_codecs_are_refused(codec: int) -> None:
    assert runs(codec, compressed(codec, b"abc"), 100) == [None, None]


def test_a_wrong_checksum_of_a_descriptor_is_refused() -> None:
    frame = compressed(LZ4, b"abc")
    assert set(runs(LZ4, frame[:6] + bytes([frame[6] ^ 1]) + frame[7:], 100)) == {None}


def test_zstd_is_refused_without_its_function() -> None:
    frame = zstd.compress(b"abc")
    ctypes.memmove(SOURCE.first, frame, len(frame))
    for function, block in ((0, context().address), (zstd_function(), 0)):
        assert (
            decompress_stream(ZSTD, SOURCE.first, len(frame), TARGET.first, 100, 0, function, block) == NOT_DECOMPRESSED
        )


def zstd_frame(descriptor: str, block_type: int, size: int, content: bytes) -> bytes:
    """Return a frame of one block."""
    return bytes.fromhex("28b52ffd" + descriptor) + (size << 3 | block_type << 1 | 1).to_bytes(3, "little") + content


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(zstd_frame("00a8", 0, 0, b""), id="window"),
        pytest.param(zstd_frame("0058", 0, 200_000, bytes(200_000)), id="large raw block"),
        pytest.param(zstd_frame("0058", 1, 200_000, b"a"), id="large run"),
        pytest.param(zstd_frame("0000", 1, 2000, b"a"), id="run larger than its window"),
        pytest.param(zstd_frame("0058", 3, 0, b""), id="reserved type"),
        pytest.param(zstd_frame("2003", 1, 2, b"a"), id="less than it says"),
        pytest.param(zstd_frame("2001", 0, 0, b""), id="nothing of what it says"),
        pytest.param(zstd_frame("2000", 2, 0, b""), id="empty compressed block"),
        pytest.param(zstd_frame("015807", 1, 2, b"a"), id="dictionary"),
        pytest.param(zstd_frame("0058", 1, 2, b"a")[:-1], id="cut"),
    ],
)
def test_zstd_frames_that_only_a_lenient_decoder_accepts_are_refused(frame: bytes) -> None:
    """``ZSTD_decompressDCtx`` accepts the first four; Kafka's decoder and Python's do not."""
    assert decompress(ZSTD, frame).failure is not None
    assert runs(ZSTD, frame, MB) == [None, None]
    expect(ZSTD, zstd_frame("0058", 1, 2, b"a"), b"aa")


def short_of_window(window: int) -> tuple[bytes, bytes]:
    """Return a frame whose window is too small for its matches, and its intended content."""
    plain = noise(9000) + noise(9000) + noise(5000)[::-1] + noise(9000)
    options = {"window_log": 17, "compression_level": 19}
    writer = zstd.ZstdCompressor(options={int(zstd.CompressionParameter[name]): options[name] for name in options})
    parts = [
        writer.compress(plain[start : start + 500]) + writer.flush(writer.FLUSH_BLOCK)
        for start in range(0, 32_000, 500)
    ]
    frame = b"".join(parts) + writer.flush()
    return frame[:5] + bytes([window]) + frame[6:], plain


def test_a_zstd_match_from_before_the_window_is_refused() -> None:
    """Its bytes depend on the memory of the process, also in Python, so decoders need not agree."""
    outcomes = set()
    for window in range(0x40):
        frame, plain = short_of_window(window)
        for before in (zstd_stream(text(300_000)), zstd.compress(text(300_000)), SKIPPABLE):
            expected = decompress(ZSTD, before).data
            expect(ZSTD, before, expected)
            assert set(runs(ZSTD, frame, MB)) <= {None, plain}
            assert set(runs(ZSTD, before + frame, MB)) <= {None, expected + plain}
        taken = run(ZSTD, frame, MB)
        if taken is not None:
            assert decompress(ZSTD, frame).data == plain
        outcomes.add(taken is None)
    assert outcomes == {True, False}


BOMB = bytes(4 * MB)


@pytest.mark.parametrize(
    ("codec", "stream"),
    [
        pytest.param(SNAPPY, XERIAL + snappy_blocks(BOMB, 4 * MB) * 16, id="snappy"),
        pytest.param(SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(5 * MB), id="snappy wrong size"),
        pytest.param(SNAPPY, b"\xff\xff\xff\x3f" + bytes(1000), id="snappy small wrong size"),
        pytest.param(SNAPPY, b"\xff\xff\xff\xff\xff" + bytes(1000), id="snappy endless"),
        pytest.param(LZ4, lz4_of(*[lz4.block.compress(BOMB, store_size=False)] * 16, sizes=0x70), id="lz4"),
        pytest.param(LZ4, lz4_of(b"\xf0" + b"\xff" * 60_000), id="lz4 endless literals"),
        pytest.param(LZ4, lz4_of(b"\x1fa\1\0" + b"\xff" * 60_000), id="lz4 endless match"),
        pytest.param(ZSTD, zstd.compress(BOMB * 16), id="zstd"),
        pytest.param(ZSTD, zstd_stream(BOMB * 16), id="zstd stream"),
    ],
)
def test_bombs_and_wrong_sizes_are_refused(codec: int, stream: bytes) -> None:
    for capacity in (0, 100, 64 * KB, 5 * MB):
        assert set(runs(codec, stream, capacity)) == {None}


@pytest.mark.parametrize(
    ("codec", "stream"),
    [
        pytest.param(ZSTD, SKIPPABLE * 20_000, id="zstd frames"),
        pytest.param(SNAPPY, XERIAL + b"\0\0\0\x01\0" * 50_000, id="snappy blocks"),
        pytest.param(LZ4, lz4_of(*[b"\0"] * 50_000), id="lz4 blocks"),
    ],
)
def test_streams_of_very_many_empty_parts_are_decompressed(codec: int, stream: bytes) -> None:
    expect(codec, stream, b"")


def test_snappy_literals_with_a_separate_length_need_four_bytes_after_the_tag() -> None:
    for tag, size_bytes in ((0xF0, b"\0"), (0xF4, b"\0\0"), (0xF8, b"\0\0\0"), (0xFC, b"\0\0\0\0")):
        for literals in range(1, 5):
            block = bytes([literals, tag, literals - 1]) + size_bytes[1:] + b"abcd"[:literals]
            agree(SNAPPY, block, 64 * KB)


@pytest.mark.parametrize("size", [100, 64 * KB - 20, 64 * KB - 1, 64 * KB])
def test_the_end_of_an_lz4_block_follows_the_format(size: int) -> None:
    """A match ends at least 5 bytes before the block ends and begins at least 12 before. The library is less strict."""
    for last in range(14):
        for length in (4, 5, 6, 7, 8, 30):
            first = size - 40 - last - length
            block = _sequence(text(20), first) + _sequence(text(20), length) + _sequence(text(last), 0)
            agree(LZ4, lz4_of(block), 64 * KB)
            agree(LZ4, lz4_of(block), size)
            if last >= 5 and last + length >= 12:
                literals = text(20)
                plain = literals + literals[-1:] * first + literals + literals[-1:] * length + text(last)
                expect(LZ4, lz4_of(block), plain)


def _sequence(literals: bytes, match: int) -> bytes:
    """Return an LZ4 sequence with a match at distance 1, or without a match if its length is 0."""
    token = min(len(literals), 15) << 4 | min(max(match - 4, 0), 15)
    coded = bytes([token]) + _extension(len(literals)) + literals
    return coded + b"\1\0" + _extension(match - 4) if match else coded


def _extension(length: int) -> bytes:
    return b"" if length < 15 else b"\xff" * ((length - 15) // 255) + bytes([(length - 15) % 255])


LONG_LITERALS = b"\xf4\xff\xff" + bytes(64 * KB)


@pytest.mark.parametrize(
    ("codec", "stream"),
    [
        pytest.param(SNAPPY, b"\x90\x4e" + LONG_LITERALS, id="snappy literals"),
        pytest.param(SNAPPY, b"\x90\x4e\0a" + b"\xfe\x01\0" * 1000, id="snappy copies"),
        pytest.param(SNAPPY, b"\x90\x4e\0a" + b"\xfe\x01\0" * 156 + LONG_LITERALS, id="snappy both"),
        pytest.param(SNAPPY, XERIAL + b"\0\0\x40\0" + raw_snappy(bytes(1000)), id="snappy block"),
        pytest.param(LZ4, lz4_of(b"\xf0" + b"\xff" * 100 + b"\0" + bytes(26_000)), id="lz4 literals"),
        pytest.param(LZ4, lz4_of(b"\x1fa\1\0" + b"\xff" * 100 + b"\0\x50abcde"), id="lz4 match"),
        pytest.param(LZ4, lz4_of(b"\x50abcde")[:7] + b"\xff\xff\0\x80" + bytes(64 * KB), id="lz4 stored"),
    ],
)
def test_nothing_is_written_past_the_capacity(codec: int, stream: bytes) -> None:
    """The capacity ends within a part that is longer than the slack after the target."""
    for capacity in (0, 1, 100, 9_000, 10_000):
        assert set(runs(codec, stream, capacity)) == {None}
    agree(codec, stream, 64 * KB)


def test_an_lz4_block_may_not_exceed_the_maximum_of_its_frame() -> None:
    block = lz4.block.compress(bytes(70_000), store_size=False)
    agree(LZ4, lz4_of(block), MB)
    assert set(runs(LZ4, lz4_of(block), MB)) == {None}
    expect(LZ4, lz4_of(block, sizes=0x50), bytes(70_000))
    larger_than_plain = _sequence(noise(64 * KB - 10), 0)
    assert set(runs(LZ4, lz4_of(larger_than_plain), MB)) == {None}
    expect(LZ4, lz4_of(larger_than_plain, sizes=0x50), noise(64 * KB - 10))
    stored = (70_000 | 1 << 31).to_bytes(4, "little") + bytes(70_004)
    assert set(runs(LZ4, lz4_of()[:7] + stored, MB)) == {None}


@pytest.mark.parametrize("flags", range(256))
def test_lz4_descriptors_are_accepted_like_in_pure_python(flags: int) -> None:
    for sizes in (0x40, 0x70, flags):
        descriptor = bytes([flags, sizes]) + (bytes(8) if flags & 0x08 else b"")
        head = b"\x04\x22\x4d\x18" + descriptor + bytes([python_xxh32(descriptor) >> 8 & 0xFF])
        stored = b"abc" + (python_xxh32(b"abc").to_bytes(4, "little") if flags & 0x10 else b"")
        agree(LZ4, head + b"\x03\0\0\x80" + stored + bytes(4), MB)


@given(data=st.binary(max_size=200))
def test_xxh32_equals_pure_python(data: bytes) -> None:
    source = SOURCE.end - OVER_READ - len(data)
    ctypes.memmove(source, data, len(data))
    assert _xxh32(source, len(data)) == python_xxh32(data)
