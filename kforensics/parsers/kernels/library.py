"""The compiled kernels: where they are kept, and how they are loaded.

They are compiled once for a processor, by another process, into an object file that lies with Python's own compiled
files or, where that folder is not writable, in the user's cache. Loading it takes llvmlite alone: 40 ms, not the half
second that numba takes to its first kernel.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from kforensics.parsers.kernels.request import SLOTS

__all__ = ["Kernels", "Request", "kernels"]

Say = Callable[[str], object]
Kernel = Callable[[int], int]

FOLDER = "KFORENSICS_CACHE_DIR"
CHECKSUM_SIZE = 4
# Of the names of kernels in the object file.
PREFIX = "kforensics_"
# What numba has ready for kernels that raise or allocate; none of these does.
NEVER_CALLED: Final = (
    "NRT_Free",
    "numba_do_raise",
    "numba_gil_ensure",
    "numba_gil_release",
    "numba_runtime_build_excinfo_struct",
    "numba_unpickle",
)
# Whose text decides over what is compiled, beside the modules of this package.
SOURCES: Final = ("codecs", "control", "derived", "failures", "layouts", "rows")


class Request(ctypes.Array):  # type: ignore[type-arg]  # a block of int64, see ``request``
    """The argument of a kernel; slots are read and set by their number."""

    _type_ = ctypes.c_int64
    _length_ = SLOTS

    @property
    def address(self) -> int:
        """What a kernel is called with."""
        return ctypes.addressof(self)


class Kernels:
    """The compiled kernels by name.

    Attributes:
        whole_batches: finds where batches end, see ``cut``.
        lines: writes batch and record lines, see ``lines``.
        batch_columns: makes columns of batches, see ``columns``.
        record_columns: makes columns of records, see ``columns``.
    """

    def __init__(self, code: bytes) -> None:
        import llvmlite.binding as llvm  # small inputs must not pay for it

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        # One name that cannot be found leaves every other one without an address, memcpy too.
        for name in NEVER_CALLED:
            if not llvm.address_of_symbol(name):
                llvm.add_symbol(name, ctypes.cast(ctypes.pythonapi.Py_FatalError, ctypes.c_void_p).value or 0)
        machine = llvm.Target.from_default_triple().create_target_machine()
        self._engine: Any = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        self.whole_batches = self._entry("whole_batches")
        self.lines = self._entry("lines")
        self.batch_columns = self._entry("batch_columns")
        self.record_columns = self._entry("record_columns")

    def _entry(self, name: str) -> Kernel:
        address = self._engine.get_function_address(f"{PREFIX}{name}")
        return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)


def kernels(say: Say | None = None, *, compiles: bool = True) -> Kernels | None:
    """Return the kernels; None if they cannot be had.

    Args:
        say: told when kernels are compiled, and why they cannot be had.
        compiles: compile them if they are not yet.
    """
    if True not in _found and compiles not in _found:
        _find(say, compiles=compiles)
    return _found.get(True) or _found.get(False)


# What this process found without compiling (False) and with it (True): each is tried, and told of, once.
_found: dict[bool, Kernels | None] = {}


def _find(say: Say | None, *, compiles: bool) -> None:
    try:
        _found[compiles] = _loaded() or (_compiled(say) if compiles else None)
    except (OSError, RuntimeError, ImportError) as error:
        _found[True] = None
        if say:
            say(f"the fast kernels cannot be used ({error}); reading goes on in plain Python, which is slower")


def _loaded() -> Kernels | None:
    for path in _places():
        with suppress(OSError):
            code = _checked(path)
            if code:
                return Kernels(code)
    return None


def _places() -> Iterator[Path]:
    """Yield the files that may hold the kernels, the best place first."""
    name = f"kernels-{_key()}.o"
    given = os.environ.get(FOLDER)
    if given:
        yield Path(given) / name
        return
    yield Path(__file__).parent / "__pycache__" / name
    user = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    yield Path(user) / "kforensics" / name


@cache
def _key() -> str:
    """Return what tells kernels of other sources and other processors apart."""
    import llvmlite  # as above

    from kforensics.parsers.kernels.target import CPU, FEATURES

    here = Path(__file__).parent
    files = sorted([*here.glob("*.py"), *(here.parent / f"{name}.py" for name in SOURCES)])
    text = "\0".join([*(path.read_text("utf-8") for path in files), llvmlite.__version__, CPU, FEATURES])
    data = text.encode()
    return f"{zlib.crc32(data):08x}{zlib.adler32(data):08x}"


def _checked(path: Path) -> bytes | None:
    """Return the code in a file; None if it is damaged or somebody else could have written it."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if status.st_uid not in (0, os.geteuid()) or status.st_mode & stat.S_IWOTH:
            return None
        data = file.read()
    code = data[CHECKSUM_SIZE:]
    return code if zlib.crc32(code).to_bytes(CHECKSUM_SIZE) == data[:CHECKSUM_SIZE] else None


def _compiled(say: Say | None) -> Kernels:
    """Compile in another process, keep the result for the next time, and load it."""
    import subprocess  # only here

    if say:
        say("compiling the fast kernels for this processor, once; this takes some seconds")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    # -P: what lies in the working directory, evidence maybe, is no Python module.
    command = [sys.executable, "-P", "-m", f"{__package__}.build"]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)  # noqa: S603  # our own module
    if done.returncode:
        lines = done.stderr.decode(errors="replace").splitlines() or ["the compiler said nothing"]
        raise RuntimeError(f"compiling failed: {lines[-1]}")
    kept = any(_kept(path, done.stdout) for path in _places())
    if say and not kept:
        say(f"the kernels cannot be kept for the next time; name a writable folder in {FOLDER}")
    return Kernels(done.stdout)


def _kept(path: Path, code: bytes) -> bool:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        part.write_bytes(zlib.crc32(code).to_bytes(CHECKSUM_SIZE) + code)
        part.chmod(0o644)  # the umask may let everybody write, and then nobody would load it
        part.replace(path)
    except OSError:
        return False
    return True
