"""C functions that the wheels of the codecs export, for kernels to call.

Nothing is loaded before it is asked for, and the packages around the functions are not imported. Where a wheel lacks a
function, or there is no wheel, the address is 0 and kernels do without.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any
from weakref import finalize

__all__ = [
    "AT_ONCE",
    "BEGIN",
    "BLOCK_SLOTS",
    "CONTEXT",
    "CREATE",
    "FREE",
    "INPUT",
    "INPUT_DONE",
    "INPUT_SIZE",
    "OUTPUT",
    "OUTPUT_DONE",
    "OUTPUT_SIZE",
    "ZstdContext",
    "lz4_function",
    "zstd_function",
]

LZ4_EXTENSION, ZSTD_EXTENSION = "lz4.block._block", "backports.zstd._zstd"
# What a kernel needs for zstd, a block of int64: the ZSTD_DCtx and the functions that make it forget, free it, create
# another one and decompress in one go; a ZSTD_outBuffer, a ZSTD_inBuffer.
CONTEXT, BEGIN, FREE, CREATE, AT_ONCE = range(5)
OUTPUT, OUTPUT_SIZE, OUTPUT_DONE, INPUT, INPUT_SIZE, INPUT_DONE, BLOCK_SLOTS = range(5, 12)


def lz4_function() -> int:
    """Return the address of ``LZ4_decompress_safe``."""
    return _address(LZ4_EXTENSION, "LZ4_decompress_safe")


def zstd_function() -> int:
    """Return the address of ``ZSTD_decompressStream``."""
    return _address(ZSTD_EXTENSION, "ZSTD_decompressStream")


class ZstdContext:
    """The memory that decompression of zstd works in, of one thread; it is freed with this object.

    Attributes:
        address: what kernels are given, 0 if there is no zstd.
    """

    def __init__(self) -> None:
        names = ("initDStream", "freeDCtx", "createDCtx", "decompressDCtx")
        functions = [_address(ZSTD_EXTENSION, f"ZSTD_{name}") for name in names]
        self._block = (ctypes.c_int64 * BLOCK_SLOTS)(0, *functions)
        self.address = ctypes.addressof(self._block) if all(functions) else 0
        if self.address:
            self._block[CONTEXT] = _call(self._block[CREATE])
            # A kernel may have put another one into its place by then.
            finalize(self, _free, self._block)


def _free(block: Any) -> None:
    _call(block[FREE], block[CONTEXT])


def _call(function: int, *pointers: int) -> int:
    kind = ctypes.CFUNCTYPE(ctypes.c_void_p, *[ctypes.c_void_p] * len(pointers))
    return kind(function)(*pointers) or 0


@cache
def _address(extension: str, name: str) -> int:
    library = _library(extension)
    function = getattr(library, name, None) if library else None
    return ctypes.cast(function, ctypes.c_void_p).value or 0 if function else 0


@cache
def _library(extension: str) -> ctypes.CDLL | None:
    """Load an extension module as a library."""
    spec, places, name = None, None, ""
    for part in extension.split("."):
        name = f"{name}.{part}" if name else part
        spec = _spec(name, places)
        if spec is None:
            return None
        places = spec.submodule_search_locations
    try:
        return ctypes.CDLL(spec.origin) if spec and spec.origin else None
    except OSError:
        return None


def _spec(name: str, places: list[str] | None) -> ModuleSpec | None:
    # Not importlib.util.find_spec: it imports the packages on the way.
    return PathFinder.find_spec(name, places)
