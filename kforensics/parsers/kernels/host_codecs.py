"""Decompression that the host process provides: C functions for kernels to call, and Python's libraries for the rest.

The C functions are exported by the wheels of the codecs. Nothing is loaded before it is needed, and the packages around
the functions are not imported. If a wheel or its function is missing, the address is 0 and kernels do without.
"""

from __future__ import annotations

import ctypes
import sys
import zlib
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any
from weakref import finalize

from kforensics.parsers.format.decompression import GZIP, ZSTD_EXTENSION, decompress

LZ4_EXTENSION = "lz4.block._block"
# Slots of the int64 block that kernels decompress zstd with: the ZSTD_DCtx; the functions that reset it, free it,
# create one and decompress in one call; the fields of a ZSTD_outBuffer and a ZSTD_inBuffer.
CONTEXT, RESET, FREE, CREATE, AT_ONCE = range(5)
OUTPUT, OUTPUT_SIZE, OUTPUT_DONE, INPUT, INPUT_SIZE, INPUT_DONE, BLOCK_SLOTS = range(5, 12)
# In place of the size of decompressed bytes: they are corrupt or too many. Pure Python describes what is wrong.
NOT_DECOMPRESSED = -1
# zlib's number for a gzip member with the largest window.
GZIP_MEMBER = 31


def lz4_function() -> int:
    """Return the address of ``LZ4_decompress_safe``."""
    return _address(LZ4_EXTENSION, "LZ4_decompress_safe")


def zstd_function() -> int:
    """Return the address of ``ZSTD_decompressStream``."""
    return _address(ZSTD_EXTENSION, "ZSTD_decompressStream")


class ZstdContext:
    """Memory for zstd decompression in one thread, freed together with this object.

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
            # Frees whatever context is there by then: a kernel may have replaced it.
            finalize(self, _free, self._block)


def _free(block: Any) -> None:
    _call(block[FREE], block[CONTEXT])


def _call(function: int, *pointers: int) -> int:
    prototype = ctypes.CFUNCTYPE(ctypes.c_void_p, *[ctypes.c_void_p] * len(pointers))
    return prototype(function)(*pointers) or 0


@cache
def _address(extension: str, name: str) -> int:
    library = _library(extension)
    function = getattr(library, name, None) if library else None
    return ctypes.cast(function, ctypes.c_void_p).value or 0 if function else 0


@cache
def _library(extension: str) -> ctypes.CDLL | None:
    """Return an extension module, loaded as a library."""
    if extension in sys.builtin_module_names:  # the interpreter exports its functions if it is linked with the library
        return ctypes.CDLL(None)
    spec, search_path, name = None, None, ""
    for part in extension.split("."):
        name = f"{name}.{part}" if name else part
        spec = _spec(name, search_path)
        if spec is None:
            return None
        search_path = spec.submodule_search_locations
    try:
        return ctypes.CDLL(spec.origin) if spec and spec.origin else None
    except OSError:
        return None


def _spec(name: str, search_path: list[str] | None) -> ModuleSpec | None:
    # Not importlib.util.find_spec, which imports the parent packages.
    return PathFinder.find_spec(name, search_path)


def decompress_on_host(codec: int, data: memoryview, target: memoryview, magic: int = 2) -> int:
    """Decompress the records of a batch, or the messages of a wrapper, into memory.

    Returns:
        the number of decompressed bytes, or ``NOT_DECOMPRESSED``.
    """
    capacity = len(target)
    content = _gunzip(data, capacity) if codec == GZIP else _decompress(codec, data, capacity, magic)
    # zlib treats a limit of 0 as no limit.
    if content is None or len(content) > capacity:
        return NOT_DECOMPRESSED
    target[: len(content)] = content
    return len(content)


def _gunzip(data: memoryview, capacity: int) -> bytes | None:
    """Decompress the common case in one call; :mod:`kforensics.parsers.format.decompression` does the rest."""
    member = zlib.decompressobj(GZIP_MEMBER)
    try:
        content = member.decompress(data, capacity)
    except zlib.error:
        return None
    is_complete = member.eof and not member.unused_data
    return content if is_complete else _decompress(GZIP, data, capacity)


def _decompress(codec: int, data: memoryview, capacity: int, magic: int = 2) -> bytes | None:
    stream = decompress(codec, bytes(data), magic=magic, budget=capacity)
    return stream.data if stream.failure is None else None
