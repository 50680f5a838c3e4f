"""The compiled kernels: where they are cached, and how they are compiled and loaded.

A wheel for a platform brings them in a library, see ``target``, which is loaded in a millisecond. Otherwise a separate
process compiles them once per processor type into an object file. That file is cached with Python's own compiled files
or, if that folder is not writable, in the user's cache folder or the temporary folder. It is loaded only if no other
user could have written it: the file and its folder belong to this user or root. Loading it takes llvmlite alone: 40 ms,
compared to the half second until numba has its first kernel.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final
from weakref import finalize

from kforensics.errors import install_line
from kforensics.parsers.kernels.request import SLOT_COUNT
from kforensics.parsers.kernels.target import loaded_object_file, shipped_library, this_processor

if TYPE_CHECKING:
    from subprocess import Popen  # nosec B404  # for its type

__all__ = ["Kernels", "Notify", "Request", "load_kernels"]

Notify = Callable[[str], object]
Kernel = Callable[[int], int]

FOLDER = "KFORENSICS_CACHE_DIR"
CHECKSUM_SIZE = 4
COMPILER = ("numba", "llvmlite")
# Raised if there is no compiler or no folder, or if the processor is not supported.
UNAVAILABLE: Final = (OSError, RuntimeError, ImportError)
# What others than the owner may not do with the cache.
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
# Of the names of kernels in the object file.
PREFIX = "kforensics_"
# The modules outside this package whose constants are compiled into the kernels.
SOURCES: Final = (
    "format/decompression",
    "format/control_records",
    "format/derived",
    "format/failures",
    "format/layouts",
    "format/rows",
    "log/legacy_format",
)


class UntrustedCacheError(RuntimeError):
    """Another user could have written the cached kernels; they are not loaded."""


class Request(ctypes.Array):  # type: ignore[type-arg]  # a block of int64, see ``request``
    """The argument of a kernel; slots are read and set by number."""

    _type_ = ctypes.c_int64
    _length_ = SLOT_COUNT

    @property
    def address(self) -> int:
        """The argument to call a kernel with."""
        return ctypes.addressof(self)


class Kernels:
    """The compiled kernels by name.

    Attributes:
        whole_batches: finds where batches end, see ``batch_ends``.
        batch_headers: writes the headers of batches, see ``batch_ends``.
        whole_records: finds where records end, see ``batch_ends``.
        lines: writes lines of batches and records, see ``line_kernel``.
        batch_columns: writes columns of batches, see ``column_kernels``.
        record_columns: writes columns of records, see ``column_kernels``.
        record_hashes: hashes the contents of records, see ``hash_kernel``.
        payload_texts: writes keys and values as text, see ``payload_kernel``.
    """

    def __init__(self, entry_point: Callable[[str], Kernel]) -> None:
        self.whole_batches = entry_point(f"{PREFIX}whole_batches")
        self.batch_headers = entry_point(f"{PREFIX}batch_headers")
        self.whole_records = entry_point(f"{PREFIX}whole_records")
        self.lines = entry_point(f"{PREFIX}lines")
        self.batch_columns = entry_point(f"{PREFIX}batch_columns")
        self.record_columns = entry_point(f"{PREFIX}record_columns")
        self.record_hashes = entry_point(f"{PREFIX}record_hashes")
        self.payload_texts = entry_point(f"{PREFIX}payload_texts")

    def poll(self) -> Kernels:
        """Return the kernels, which are loaded already."""
        return self


def _of_library(library: ctypes.CDLL) -> Kernels:
    return Kernels(lambda name: ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)((name, library)))


def _of_object_file(code: bytes) -> Kernels:
    address_of = loaded_object_file(code)
    return Kernels(lambda name: ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address_of(name)))


def load_kernels(notify: Notify | None = None, *, compile_missing: bool = True) -> Kernels | None:
    """Return the kernels, None if they are unavailable.

    Args:
        notify: called with a sentence when compilation starts, and with the reason when kernels are unavailable.
        compile_missing: compile them if they are not cached.
    """
    if True not in _loaded and compile_missing not in _loaded:
        _load(notify, compile_missing=compile_missing)
    return _loaded.get(True) or _loaded.get(False)


# The kernels of this process, loaded without compiling (False) or with it (True). Each is tried and reported once.
_loaded: dict[bool, Kernels | None] = {}


def _load(notify: Notify | None, *, compile_missing: bool) -> None:
    try:
        _loaded[compile_missing] = _loaded_kernels() or (Compilation(notify).wait() if compile_missing else None)
    except UNAVAILABLE as error:
        if isinstance(error, ImportError) and not compile_missing:
            _loaded[False] = None  # reported when the compiler is needed
        else:
            _give_up(notify, error)


def _loaded_kernels() -> Kernels | None:
    library = shipped_library()
    return _of_library(library) if library else _cached_kernels()


def _give_up(notify: Notify | None, error: Exception) -> None:
    """Remember that there are no kernels, and report why."""
    _loaded[True] = None
    _report(notify, error)


def _report(notify: Notify | None, error: Exception) -> None:
    if notify:
        is_missing = isinstance(error, ModuleNotFoundError) and error.name in COMPILER
        why = f"this installation has none; to compile them: {install_line('kernels')}" if is_missing else error
        notify(f"the fast kernels are unavailable ({why}); continuing in pure Python, which is slower")


@cache
def compile_in_background(notify: Notify | None) -> Compilation | None:
    """Start to compile the kernels and return their loader, None if that is impossible."""
    if True in _loaded:
        return None
    try:
        return Compilation(notify)
    except UNAVAILABLE as error:
        _give_up(notify, error)
        return None


def _cached_kernels() -> Kernels | None:
    """Return the cached kernels, None if there are none.

    Raises:
        UntrustedCacheError: there are only kernels that another user could have written.
    """
    refused: UntrustedCacheError | None = None
    for path in _cache_files():
        code: bytes | None = None
        try:
            with suppress(OSError):
                code = _trusted_code(path)
        except UntrustedCacheError as error:
            refused = refused or error
        if code:
            return _of_object_file(code)
    if refused:
        raise refused
    return None


def _cache_files() -> Iterator[Path]:
    """Yield the files where the kernels may be cached, the preferred one first."""
    name = f"kernels-{_key()}.o"
    folder = os.environ.get(FOLDER)
    if folder:
        yield Path(folder) / name
        return
    yield Path(__file__).parent / "__pycache__" / name
    # A container may run as a user without a home directory.
    with suppress(RuntimeError):
        user = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        yield Path(user) / "kforensics" / name
    from tempfile import gettempdir  # rarely needed

    yield Path(gettempdir()) / f"kforensics-{os.geteuid()}" / name


@cache
def _key() -> str:
    """Return a key that differs for other sources, another compiler and other processors."""
    import llvmlite  # small inputs must not pay for it

    target = this_processor()
    texts = [*_sources(), *(text.encode() for text in (llvmlite.__version__, target.cpu, target.features))]
    data = b"\0".join(texts)
    return f"{zlib.crc32(data):08x}{zlib.adler32(data):08x}"


def _sources() -> list[bytes]:
    """Return the sources of the kernels. For a package in an archive, as in Spark's ``--py-files``, the archive."""
    here = Path(__file__).parent
    if not here.is_dir():
        return [path.read_bytes() for path in here.parents if path.is_file()]
    return [
        path.read_bytes() for path in sorted([*here.glob("*.py"), *(here.parent / f"{name}.py" for name in SOURCES)])
    ]


def _trusted_code(path: Path) -> bytes | None:
    """Return the code in a file, None if it is damaged.

    Raises:
        UntrustedCacheError: it is not a regular file, or another user could have written it.
        OSError: there is no such file, or it cannot be read.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not _is_there(path.name, folder):
            return None
        _check_owner(folder, path.parent)
        # O_NONBLOCK: opening a named pipe must not hang.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(path.name, flags, dir_fd=folder)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise UntrustedCacheError(f"{path} is a link, so it is not loaded; remove it") from error
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UntrustedCacheError(f"{path} is not a regular file; remove it")
            _check_owner(descriptor, path)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read()
        finally:
            os.close(descriptor)
    finally:
        os.close(folder)
    return _verified(data)


def _verified(data: bytes) -> bytes | None:
    """Return the code after its checksum, None if it is incomplete or damaged."""
    code = data[CHECKSUM_SIZE:]
    return code if zlib.crc32(code).to_bytes(CHECKSUM_SIZE) == data[:CHECKSUM_SIZE] else None


def _is_there(name: str, folder: int) -> bool:
    with suppress(FileNotFoundError):
        os.lstat(name, dir_fd=folder)
        return True
    return False


def _check_owner(descriptor: int, path: Path) -> None:
    """Refuse a file or folder that another user could have written.

    Raises:
        UntrustedCacheError: it belongs to neither this user nor root, or others may write it.
    """
    status = os.fstat(descriptor)
    if status.st_uid not in (0, os.geteuid()):
        raise UntrustedCacheError(f"{path} belongs to another user; remove it, or set {FOLDER} to a folder of your own")
    if status.st_mode & WRITABLE_BY_OTHERS:
        raise UntrustedCacheError(f"{path} may be written by others; remove it, or take that permission away")


class Compilation:
    """Kernels that a separate process compiles while this one continues. That process ends with this one.

    Raises:
        ModuleNotFoundError: the compiler is not installed.
        OSError: the process cannot be started.
    """

    def __init__(self, notify: Notify | None) -> None:
        import importlib.util
        import subprocess  # nosec B404  # only needed here, without a shell
        import tempfile

        for name in COMPILER:
            if importlib.util.find_spec(name) is None:
                raise ModuleNotFoundError(f"there is no {name}", name=name)

        self._notify, self._failed = notify, False
        self._kernels: Kernels | None = None
        if notify:
            notify("compiling the fast kernels for this processor, once; this takes some seconds")
        # Files instead of pipes, because this process does not read while the compiler writes.
        self._code, self._errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115  # closed later
        # -P: the working directory may hold evidence; no Python module may be imported from there.
        command = [sys.executable, "-P", "-m", f"{__package__}.build"]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._process = subprocess.Popen(  # noqa: S603  # nosec B603  # our own module
            command, env=environment, stdout=self._code, stderr=self._errors
        )
        finalize(self, _stop, self._process)

    def poll(self) -> Kernels | None:
        """Return the kernels if they are compiled, else None. A failure is reported once."""
        if self._kernels is None and not self._failed and self._process.poll() is not None:
            try:
                self._kernels = _loaded[True] = self.wait()
            except UNAVAILABLE as error:
                self._failed = True
                _report(self._notify, error)
        return self._kernels

    def wait(self) -> Kernels:
        """Return the kernels once they are compiled, and cache them.

        Raises:
            RuntimeError: the compiler fails.
        """
        failed = self._process.wait()
        code, errors = _verified(_content(self._code)), _content(self._errors)
        if failed:
            lines = errors.decode(errors="replace").splitlines() or ["the compiler printed no error"]
            raise RuntimeError(f"compiling failed: {lines[-1]}")
        if code is None:
            raise RuntimeError("the compiled code is incomplete; is the folder for temporary files full? See TMPDIR")
        is_cached = any(_write_cache(path, code) for path in _cache_files())
        if self._notify and not is_cached:
            self._notify(f"the compiled kernels cannot be cached; set {FOLDER} to a folder that only you may write")
        return _of_object_file(code)


def _stop(process: Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


def _content(file: IO[bytes]) -> bytes:
    with file:
        file.seek(0)
        return file.read()


def _write_cache(path: Path, code: bytes) -> bool:
    """Cache the code in a file; return whether that succeeds. No link is followed, and nothing else is written."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    part = f"{path.name}.{os.getpid()}-{os.urandom(4).hex()}.part"
    try:
        _check_owner(folder, path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(part, flags, 0o600, dir_fd=folder), "wb") as file:
            file.write(zlib.crc32(code).to_bytes(CHECKSUM_SIZE) + code)
            os.fchmod(
                file.fileno(), 0o644
            )  # whatever the umask: an image may be used by another user than it was built by
        os.replace(part, path.name, src_dir_fd=folder, dst_dir_fd=folder)  # relative to a folder
    except (OSError, UntrustedCacheError):
        with suppress(OSError):
            os.unlink(part, dir_fd=folder)
        return False
    finally:
        os.close(folder)
    return True
