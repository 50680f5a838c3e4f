from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import textwrap

import pytest

from kforensics.parsers.kernels import symbols
from kforensics.parsers.kernels.symbols import ZstdContext, lz4_function, zstd_function


def test_the_wheels_export_what_kernels_call() -> None:
    assert lz4_function() > 0
    assert zstd_function() > 0
    assert ZstdContext().address > 0


def test_nothing_is_loaded_before_it_is_asked_for() -> None:
    """Not the codecs' packages either, nor what kernels are compiled with; importing them later works as ever."""
    program = """
        import sys
        from pathlib import Path
        from kforensics.parsers.kernels.symbols import ZstdContext, lz4_function, zstd_function

        def loaded():
            maps = Path("/proc/self/maps").read_text()
            return "_block.cpython" in maps or "_block.abi" in maps, "_zstd.cpython" in maps

        assert loaded() == (False, False), loaded()
        lz4_function()
        assert loaded() == (True, False), loaded()
        zstd_function()
        assert loaded() == (True, True), loaded()
        context = ZstdContext()
        unwanted = {"numpy", "numba", "llvmlite", "lz4", "backports.zstd"} & set(sys.modules)
        assert not unwanted, unwanted
        import lz4.block
        from backports import zstd
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
def test_the_address_of_what_is_missing_is_0(extension: str, name: str) -> None:
    assert symbols._address(extension, name) == 0


def test_without_zstd_there_is_no_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbols, "ZSTD_EXTENSION", "lz4.block._block")
    assert zstd_function() == 0
    assert ZstdContext().address == 0


def test_a_context_is_freed_with_its_object(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, ...]] = []
    call = symbols._call

    def noted(function: int, *pointers: int) -> int:
        calls.append((function, *pointers))
        return call(function, *pointers)

    monkeypatch.setattr(symbols, "_call", noted)
    context = ZstdContext()
    pointer = ctypes.c_int64.from_address(context.address + 8 * symbols.CONTEXT).value
    assert len(calls) == 1
    del context
    gc.collect()
    assert calls[1:] == [(symbols._address(symbols.ZSTD_EXTENSION, "ZSTD_freeDCtx"), pointer)]


def test_every_context_is_its_own() -> None:
    contexts = [ZstdContext() for _ in range(3)]
    assert len({context.address for context in contexts}) == 3
