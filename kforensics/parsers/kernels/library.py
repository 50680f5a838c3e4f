"""The compiled kernels: where they are kept, and how they are loaded.

They are compiled once for a processor, by another process, into an object file that lies with Python's own compiled
files or, where that folder is not writable, in the user's cache, or else among temporary files. Loading it takes
llvmlite alone: 40 ms, not the half second that numba takes to its first kernel.
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
from typing import IO, TYPE_CHECKING, Any, Final
from weakref import finalize

from kforensics.parsers.kernels.request import SLOTS

if TYPE_CHECKING:
    from subprocess import Popen

__all__ = ["Compilation", "Kernels", "Request", "compiled_beside", "kernels"]

Say = Callable[[str], object]
Kernel = Callable[[int], int]

FOLDER = "KFORENSICS_CACHE_DIR"
CHECKSUM_SIZE = 4
# Of Linux: the rights of mapped code, and what says that its pages are not needed.
CODE, MADV_DONTNEED = "r-xp", 4
COMPILER: Final = "libllvmlite"
# What the lack of a compiler, of a folder or of a processor's support comes as.
CANNOT: Final = (OSError, RuntimeError, ImportError)
# Of the names of kernels in the object file.
PREFIX = "kforensics_"
# Whose text decides over what is compiled, beside the modules of this package.
SOURCES: Final = (
    "format/codecs",
    "format/control",
    "format/derived",
    "format/failures",
    "format/layouts",
    "format/rows",
    "log/legacy",
)


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
        record_hashes: hashes what records say, see ``hashes``.
    """

    def __init__(self, code: bytes) -> None:
        import llvmlite.binding as llvm  # small inputs must not pay for it

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine()
        self._engine: Any = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        _forget_compiler()
        self.whole_batches = self._entry("whole_batches")
        self.lines = self._entry("lines")
        self.batch_columns = self._entry("batch_columns")
        self.record_columns = self._entry("record_columns")
        self.record_hashes = self._entry("record_hashes")

    def ready(self) -> Kernels:
        """Return the kernels: they are there."""
        return self

    def _entry(self, name: str) -> Kernel:
        address = self._engine.get_function_address(f"{PREFIX}{name}")
        return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)


def _forget_compiler() -> None:
    """Give the memory back in which the compiler's code lies: 40 MB, of which nothing is needed any more.

    What is touched again comes back from the library's file. Pages that were written to are left alone.
    """
    with suppress(OSError, AttributeError):
        forget = ctypes.CDLL(None).madvise
        forget.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for line in Path("/proc/self/maps").read_text("utf-8").splitlines():
            span, rights, *_, path = line.split(maxsplit=5)
            if COMPILER in path and rights == CODE:
                start, end = (int(word, 16) for word in span.split("-"))
                forget(start, end - start, MADV_DONTNEED)


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
        _found[compiles] = _loaded() or (Compilation(say).wait() if compiles else None)
    except CANNOT as error:
        _found[True] = None
        _say_why_not(say, error)


def _say_why_not(say: Say | None, error: Exception) -> None:
    if say:
        say(f"the fast kernels cannot be used ({error}); reading goes on in plain Python, which is slower")


@cache
def compiled_beside(say: Say | None) -> Compilation | None:
    """Begin to compile the kernels and return what will have them; None if that cannot be done."""
    if True in _found:
        return None
    try:
        return Compilation(say)
    except CANNOT as error:
        _found[True] = None
        _say_why_not(say, error)
        return None


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
    # A container may run with a user who has no home.
    with suppress(RuntimeError):
        user = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        yield Path(user) / "kforensics" / name
    from tempfile import gettempdir  # only who gets here pays for it

    yield Path(gettempdir()) / f"kforensics-{os.geteuid()}" / name


@cache
def _key() -> str:
    """Return what tells kernels of other sources and other processors apart."""
    import llvmlite  # as above

    from kforensics.parsers.kernels.target import CPU, FEATURES

    texts = [*_sources(), *(text.encode() for text in (llvmlite.__version__, CPU, FEATURES))]
    data = b"\0".join(texts)
    return f"{zlib.crc32(data):08x}{zlib.adler32(data):08x}"


def _sources() -> list[bytes]:
    """Return what is compiled; of a package in an archive, such as Spark's ``--py-files`` takes, all of that."""
    here = Path(__file__).parent
    if not here.is_dir():
        return [path.read_bytes() for path in here.parents if path.is_file()]
    return [
        path.read_bytes() for path in sorted([*here.glob("*.py"), *(here.parent / f"{name}.py" for name in SOURCES)])
    ]


def _checked(path: Path) -> bytes | None:
    """Return the code in a file; None if it is damaged or somebody else could have written it."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if status.st_uid not in (0, os.geteuid()) or status.st_mode & stat.S_IWOTH:
            return None
        data = file.read()
    code = data[CHECKSUM_SIZE:]
    return code if zlib.crc32(code).to_bytes(CHECKSUM_SIZE) == data[:CHECKSUM_SIZE] else None


class Compilation:
    """Kernels that another process compiles while this one goes on; that process ends with this one.

    Raises:
        OSError: the process cannot be started.
    """

    def __init__(self, say: Say | None) -> None:
        import subprocess  # only here
        import tempfile

        self._say, self._failed = say, False
        self._kernels: Kernels | None = None
        if say:
            say("compiling the fast kernels for this processor, once; this takes some seconds")
        # Files, not pipes: nobody reads while the compiler writes.
        self._code, self._errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115  # they live on
        # -P: what lies in the working directory, evidence maybe, is no Python module.
        command = [sys.executable, "-P", "-m", f"{__package__}.build"]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._process = subprocess.Popen(command, env=environment, stdout=self._code, stderr=self._errors)  # noqa: S603  # our own module
        finalize(self, _stop, self._process)

    def ready(self) -> Kernels | None:
        """Return the kernels if they are compiled by now; where they cannot be, that is said once."""
        if self._kernels is None and not self._failed and self._process.poll() is not None:
            try:
                self._kernels = _found[True] = self.wait()
            except CANNOT as error:
                self._failed = True
                _say_why_not(self._say, error)
        return self._kernels

    def wait(self) -> Kernels:
        """Return the kernels once they are compiled, and keep them for the next time.

        Raises:
            RuntimeError: they cannot be compiled.
        """
        failed = self._process.wait()
        code, errors = _all_of(self._code), _all_of(self._errors)
        if failed:
            lines = errors.decode(errors="replace").splitlines() or ["the compiler said nothing"]
            raise RuntimeError(f"compiling failed: {lines[-1]}")
        kept = any(_kept(path, code) for path in _places())
        if self._say and not kept:
            self._say(f"the kernels cannot be kept for the next time; name a writable folder in {FOLDER}")
        return Kernels(code)


def _stop(process: Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


def _all_of(file: IO[bytes]) -> bytes:
    with file:
        file.seek(0)
        return file.read()


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
