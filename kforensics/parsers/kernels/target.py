"""The processors that kernels are compiled for, and how machine code gets into this process.

Code comes from the libraries of a wheel, compiled when it was built, or from an object file of ``build``.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from importlib.abc import ResourceLoader

__all__ = ["CRC_INSTRUCTION", "TARGETS", "Target", "loaded_object_file", "shipped_library", "this_processor"]

# Use only the instructions that every processor of the architecture has. For tests, and for processors that report
# features they lack.
PORTABLE = "KFORENSICS_PORTABLE_KERNELS"
# The byte in memory that is 1 if the processor computes CRC-32C by an instruction.
CRC_INSTRUCTION = "kforensics_crc_instruction"
# Linux: the permissions of mapped code, and the advice that its pages are not needed.
CODE, MADV_DONTNEED = "r-xp", 4
LLVM = "libllvmlite"


class Target(NamedTuple):
    """A kind of processor.

    Attributes:
        cpu: LLVM's name of it.
        features: LLVM's names of its features.
        has_crc_instruction: whether it has the instruction of SSE4.2 for CRC-32C.
        triple: LLVM's name of architecture and operating system; that of this machine if empty.
        flags: what Linux must say of a processor so that it runs the code.
    """

    cpu: str
    features: str = ""
    has_crc_instruction: bool = False
    triple: str = ""
    flags: frozenset[str] = frozenset()


# With the libraries for x86-64-v3 and x86-64-v4 nothing was faster.
_V2 = frozenset(("cx16", "lahf_lm", "popcnt", "pni", "ssse3", "sse4_1", "sse4_2"))
_LINUX, _LINUX_ARM, _MACOS = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "arm64-apple-macosx11.0.0"
# The libraries of a wheel by operating system and machine, the fastest first, the one for every processor last.
TARGETS = {
    ("linux", "x86_64"): {
        "kernels-x86-64-v2.so": Target("x86-64-v2", has_crc_instruction=True, triple=_LINUX, flags=_V2),
        "kernels-x86-64.so": Target("x86-64", triple=_LINUX),
    },
    ("linux", "aarch64"): {"kernels-aarch64.so": Target("generic", triple=_LINUX_ARM)},
    ("darwin", "arm64"): {"kernels-arm64.dylib": Target("apple-m1", triple=_MACOS)},
}


def shipped_library() -> ctypes.CDLL | None:
    """Return the library of this package for this processor, None if it has none.

    Raises:
        OSError: it cannot be loaded.
    """
    for name in _library_names():
        path = Path(__file__).with_name(name)
        if path.is_file():
            return ctypes.CDLL(str(path))
        if code := _packed(path):
            return _loaded_from_memory(code)
    return None


def _library_names() -> Iterator[str]:
    targets = TARGETS.get((sys.platform, platform.machine()), {})
    flags = _flags() if len(targets) > 1 and not os.environ.get(PORTABLE) else frozenset()
    return (name for name, target in targets.items() if target.flags <= flags)


def _flags() -> frozenset[str]:
    """Return what Linux says of the first processor; nothing if it says nothing."""
    try:
        with Path("/proc/cpuinfo").open(encoding="ascii", errors="replace") as file:
            return next((frozenset(line.split()) for line in file if line.startswith("flags")), frozenset())
    except OSError:
        return frozenset()


def _packed(path: Path) -> bytes | None:
    """Return a file of a package in an archive, as Spark's ``--py-files`` has it, None if there is none."""
    loader: ResourceLoader = __loader__  # type: ignore[name-defined]  # of this module
    try:
        return loader.get_data(str(path))
    except OSError:
        return None


def _loaded_from_memory(code: bytes) -> ctypes.CDLL | None:
    """Load a library without writing it to a disk, where others could change it; None where that is impossible."""
    if not hasattr(os, "memfd_create"):
        return None
    descriptor = os.memfd_create("kforensics-kernels", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "wb") as file:
        file.write(code)
        file.flush()
        return ctypes.CDLL(f"/proc/self/fd/{descriptor}")


@cache
def this_processor() -> Target:
    """Return the processor of this machine."""
    if os.environ.get(PORTABLE):
        return Target("")
    import llvmlite.binding as llvm  # a library that is shipped is loaded without it

    features: Any = llvm.get_host_cpu_features()
    has_crc_instruction = platform.machine() in ("x86_64", "AMD64") and bool(features.get("sse4.2"))
    return Target(llvm.get_host_cpu_name(), features.flatten(), has_crc_instruction)


def loaded_object_file(code: bytes) -> Callable[[str], int]:
    """Load an object file and return a function that returns the address of a name."""
    import llvmlite.binding as llvm  # small inputs must not pay for it

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine: Any = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _release_compiler()
    _engines.append(engine)
    address_of: Callable[[str], int] = engine.get_function_address
    return address_of


# They own the code.
_engines: list[Any] = []


def _release_compiler() -> None:
    """Release the memory of the compiler's code: 40 MB that are no longer needed.

    Pages that are used again are read from the library's file. Pages that were written to are kept.
    """
    with suppress(OSError, AttributeError):
        madvise = ctypes.CDLL(None).madvise
        madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for line in Path("/proc/self/maps").read_text("utf-8").splitlines():
            addresses, permissions, *_, path = line.split(maxsplit=5)
            if LLVM in path and permissions == CODE:
                start, end = (int(address, 16) for address in addresses.split("-"))
                madvise(start, end - start, MADV_DONTNEED)
