"""Host-side decompression: the same as ``decompress``, or nothing; and the C functions for kernels."""

from __future__ import annotations

import ctypes
import gc
import gzip
import subprocess
import sys
import textwrap
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.parsers.format.decompression import ZSTD_EXTENSION, decompress
from kforensics.parsers.format.rows import CODECS
from kforensics.parsers.kernels import host_codecs
from kforensics.parsers.kernels.host_codecs import (
    NOT_DECOMPRESSED,
    ZstdContext,
    decompress_on_host,
    lz4_function,
    zstd_function,
)
from tests.parsers.builders import GZIP, compressed

TEXT = b"some text that is worth compressing, " * 40
MEMBER = compressed(GZIP, TEXT)
every_codec = pytest.mark.parametrize("codec", range(1, len(CODECS)), ids=CODECS[1:])


def on_host(codec: int, data: bytes, capacity: int = 1 << 16) -> bytes | None:
    """Return the bytes that are written, None if decompression fails. Nothing is written after them."""
    target = bytearray(b"\xee" * capacity)
    size = decompress_on_host(codec, memoryview(data), memoryview(target))
    if size == NOT_DECOMPRESSED:
        return None
    assert target[size:] == b"\xee" * (capacity - size)
    return bytes(target[:size])


def check(codec: int, data: bytes, capacity: int = 1 << 16) -> bytes | None:
    """Return the same bytes, which must equal those of the pure Python decoder."""
    content, expected = on_host(codec, data, capacity), decompress(codec, data, budget=capacity)
    assert content == (expected.data if expected.failure is None else None)
    return content


@every_codec
@pytest.mark.parametrize("text", [b"", b"x", TEXT], ids=len)
def test_valid_streams_are_decompressed(codec: int, text: bytes) -> None:
    assert check(codec, compressed(codec, text)) == text


@every_codec
def test_the_capacity_is_respected(codec: int) -> None:
    data = compressed(codec, TEXT)
    for capacity in (0, 1, len(TEXT) - 1, len(TEXT), len(TEXT) + 1):
        assert check(codec, data, capacity) == (TEXT if capacity >= len(TEXT) else None)


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
        # zlib refuses undefined flags, which Java ignores. Such streams are left to pure Python.
        expected = decompress(GZIP, bytes(flipped))
        assert on_host(GZIP, bytes(flipped)) in (None, expected.data if expected.failure is None else None)


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
def test_unusual_gzip_streams(data: bytes) -> None:
    check(GZIP, data)


@given(data=st.binary(max_size=60))
def test_any_bytes(data: bytes) -> None:
    for codec in range(1, len(CODECS)):
        check(codec, data)
    check(GZIP, MEMBER[:10] + data)


# C functions --------------------------------------------------------------------------------------------------------


def test_the_wheels_export_what_kernels_call() -> None:
    assert lz4_function() > 0
    assert zstd_function() > 0
    assert ZstdContext().address > 0


def test_nothing_is_loaded_before_it_is_needed() -> None:
    """Nor are the packages of codecs and compiler imported. Importing a codec later still works."""
    program = """
        import sys
        from pathlib import Path
        from kforensics.parsers.format.decompression import ZSTD_MODULE, zstd_module
        from kforensics.parsers.kernels.host_codecs import ZstdContext, lz4_function, zstd_function

        def loaded():
            maps = Path("/proc/self/maps").read_text()
            return "_block.cpython" in maps or "_block.abi" in maps, "_zstd.cpython" in maps

        assert loaded() == (False, False), loaded()
        lz4_function()
        assert loaded() == (True, False), loaded()
        zstd_function()
        assert loaded() == (True, "_zstd" not in sys.builtin_module_names), loaded()
        context = ZstdContext()
        unwanted = {"numpy", "numba", "llvmlite", "lz4", ZSTD_MODULE} & set(sys.modules)
        assert not unwanted, unwanted
        import lz4.block
        zstd = zstd_module()
        assert zstd.decompress(zstd.compress(lz4.block.decompress(lz4.block.compress(b"abc")))) == b"abc"
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("extension", "name"),
    [
        ("lz4.block._block", "LZ4_no_such_function"),
        ("lz4.block._no_such_module", "LZ4_decompress_safe"),
        ("no_such_package._block", "LZ4_decompress_safe"),
        ("lz4.version.nothing", "LZ4_decompress_safe"),
        ("lz4.block", "LZ4_decompress_safe"),
        ("backports", "ZSTD_decompressStream"),
    ],
)
def test_the_address_of_a_missing_function_is_0(extension: str, name: str) -> None:
    assert host_codecs._address(extension, name) == 0


def test_without_zstd_there_is_no_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_codecs, "ZSTD_EXTENSION", "lz4.block._block")
    assert zstd_function() == 0
    assert ZstdContext().address == 0


def test_a_context_is_freed_with_its_object(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, ...]] = []
    call = host_codecs._call

    def recorded(function: int, *pointers: int) -> int:
        calls.append((function, *pointers))
        return call(function, *pointers)

    monkeypatch.setattr(host_codecs, "_call", recorded)
    context = ZstdContext()
    assert context.address
    pointer = ctypes.c_int64.from_address(context.address + 8 * host_codecs.CONTEXT).value
    assert len(calls) == 1
    del context
    gc.collect()
    assert calls[1:] == [(host_codecs._address(ZSTD_EXTENSION, "ZSTD_freeDCtx"), pointer)]


def test_contexts_are_independent() -> None:
    contexts = [ZstdContext() for _ in range(3)]
    assert len({context.address for context in contexts}) == 3
