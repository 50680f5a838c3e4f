"""Archives as folders: ``case.tar.gz!`` is the folder that ``case.tar.gz`` contains, and ``-!`` that of standard input.

An archive is unpacked once, when a path first leads into it, into a private folder for temporary files, never beside
the evidence. The folder is locked as long as this process lives and removed when it ends; of one that was killed, the
next process that unpacks something removes it.
"""

# Paths are text, as the caller wrote them.
# ruff: noqa: PTH103, PTH108, PTH112, PTH113, PTH116, PTH118, PTH120

from __future__ import annotations

import atexit
import errno
import fcntl
import json
import os
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kforensics.errors import InputError, UsageError
from kforensics.parsers.files.archive_entries import (
    GZIP,
    TAR,
    ZIP,
    ZSTD,
    ArchiveEntry,
    ArchiveProblem,
    ArchiveRow,
    ForwardFile,
    archive_kind,
    chunks_of,
    gzip_time,
    one_file,
    stream_of,
    tar_entries,
    zip_entries,
)
from kforensics.parsers.files.input_paths import (
    ARCHIVES,
    INSIDE,
    STDIN,
    UNPACKED,
    is_archive_name,
    open_read_only,
    stream_name,
)
from kforensics.parsers.format.layouts import ENTRY_PREFIX

__all__ = ["Unpacked", "archive_at", "unpacked_path"]

# What the last suffix means. A stream that is not a tar is one file.
KINDS = {"gz": GZIP, "tgz": GZIP, "zst": ZSTD, "tzst": ZSTD, "tar": TAR, "zip": ZIP}
PREFIX = "kforensics-unpacked-"
LIMIT_VARIABLE = "KFORENSICS_UNPACK_LIMIT"
UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
# Enough to see what a stream is.
HEAD = 1 << 12
# Formats of a batch.
MAGICS = (0, 1, 2)
# The share of the free space that may be filled, how many times as many bytes may be zeros, and how many entries count.
FREE_SHARE, ZEROS_SHARE, MAX_ENTRIES = 0.9, 16, 1_000_000
# Zeros of this length are left out of files, which become sparse.
HOLE = bytes(1 << 16)
MAX_PROBLEMS = 20
TOO_LARGE = (
    "it unpacks to more than {:,} bytes, and the rest is left out; set TMPDIR to a folder with more room, or "
    f"{LIMIT_VARIABLE} to a size such as 500G, or unpack it yourself"
)
TOO_MANY = f"it has more than {MAX_ENTRIES:,} entries, and the rest is left out; unpack it yourself"
TWICE = "the archive has it more than once; the last one is read"
UPWARDS = "its name leads out of the archive"
NAMELESS = "an entry has no name"
IN_THE_WAY = "the archive has a file and a folder of this name"
CUT = "the archive ends in the middle of it: {:,} of {:,} bytes are there"


@dataclass(frozen=True, slots=True)
class Unpacked:
    """An archive that was unpacked.

    Attributes:
        root: the folder of its content.
        stream: name of the file if it is a compressed file and no archive, else None.
        problems: what could not be unpacked.
    """

    root: str
    stream: str | None = None
    problems: tuple[ArchiveProblem, ...] = ()


# By path, size and time of the archive, which may be exchanged while this process lives.
_UNPACKED: dict[str, Unpacked] = {}
_LOCK = threading.RLock()


def unpacked_path(path: str) -> str:
    """Return where the content of a path is: that of an archive in the folder it was unpacked into.

    Raises:
        InputError: the path leads into an archive that cannot be unpacked.
    """
    for position, character in enumerate(path):
        name, rest = path[:position], path[position + 1 :]
        if name == f"./{STDIN}" and not os.path.lexists(name):
            name = STDIN  # as commands write it, which would take a word that begins with a dash for an option
        if character != INSIDE or rest[:1] not in ("", "/") or not is_archive_name(name):
            continue
        if INSIDE not in name and os.path.isdir(name + INSIDE):
            continue  # a folder that is only called so
        archive = archive_at(name)
        if archive is not None:
            inside = os.path.join(archive.root, rest.lstrip("/")).rstrip("/")
            if INSIDE not in rest or os.path.lexists(inside):
                return inside
    return path


def archive_at(path: str) -> Unpacked | None:
    """Return the archive that a path names, unpacked; None if there is none.

    Raises:
        InputError: it cannot be unpacked.
    """
    if not is_archive_name(path):
        return None
    with _LOCK:
        if path == STDIN:
            return _known(STDIN) or _remember(STDIN, _unpack_stdin())
        file = os.path.realpath(unpacked_path(path))
        try:
            status = os.stat(file)
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        key = f"{file} {status.st_size} {status.st_mtime_ns}"
        return _known(key) or _remember(key, _unpack_file(path, file, status.st_mtime_ns))


def _known(key: str) -> Unpacked | None:
    if key not in _UNPACKED:
        for other, (root, stream) in json.loads(os.environ.get(UNPACKED) or "{}").items():
            if os.path.isdir(root):  # the process that unpacked it still lives
                _UNPACKED.setdefault(other, Unpacked(root, stream))
    return _UNPACKED.get(key)


def _remember(key: str, unpacked: Unpacked) -> Unpacked:
    _UNPACKED[key] = unpacked
    os.environ[UNPACKED] = json.dumps({key: (each.root, each.stream) for key, each in _UNPACKED.items()})
    return unpacked


def _unpack_file(path: str, file: str, mtime_ns: int) -> Unpacked:
    suffix = next(suffix for suffix in ARCHIVES if path.endswith(suffix))
    expected = KINDS[suffix.rpartition(".")[2]]
    try:
        content = os.fdopen(open_read_only(file), "rb")
    except OSError as error:
        raise InputError(path, os.strerror(error.errno or 0).lower()) from error
    with content:
        kind = archive_kind(content.read(HEAD))
        content.seek(0)
        if kind != expected:
            why = f"its name ends in {suffix}, but it is not {expected}"
            return _unpack(iter([ArchiveProblem("", why)]))
        if kind == ZIP:
            return _unpack(zip_entries(content))
        time_ns = (gzip_time(content) if kind == GZIP else None) or mtime_ns
        stream = stream_of(chunks_of(content), kind)
        if suffix in (".gz", ".zst") and archive_kind(_head(stream)) != TAR:
            return _unpack(one_file(stream_name(path), stream, time_ns), stream_name(path))
        return _unpack(tar_entries(stream))


def _unpack_stdin() -> Unpacked:
    """Return what standard input contains: an archive, or one file."""
    content = sys.stdin.buffer
    if content.isatty():
        raise UsageError("standard input is a terminal; pipe evidence into it, as in: kforensics audit - < case.tar.gz")
    stream = stream_of(chunks_of(content), None)
    kind = archive_kind(_head(stream))
    if kind == ZIP:  # its list of entries is at the end
        with tempfile.TemporaryFile(prefix="kforensics-") as copy:
            copy.writelines(stream.chunks())
            return _unpack(zip_entries(copy))
    if kind in (GZIP, ZSTD):
        stream = stream_of(stream.chunks(), kind)
    head = _head(stream)
    if archive_kind(head) == TAR:
        return _unpack(tar_entries(stream))
    name = _log_name(head)
    return _unpack(one_file(name, stream, None), name)


def _head(stream: ForwardFile) -> bytes:
    head = stream.read(HEAD)
    stream.seek(0)
    return head


def _log_name(head: bytes) -> str:
    """Return the name that a broker gives a log that begins with some bytes, or one for what is no log."""
    if len(head) >= ENTRY_PREFIX.sizeof():
        first = ENTRY_PREFIX.parse(head)
        if first.base_offset >= 0 and first.length > 0 and first.magic in MAGICS:
            return f"{first.base_offset:020d}.log"
    return stream_name(STDIN)


def _unpack(entries: Iterator[ArchiveRow], stream: str | None = None) -> Unpacked:
    """Unpack entries into a new private folder."""
    root = _new_folder()
    unpacker = _Unpacker(root)
    unpacker.add_all(entries)
    return Unpacked(root, stream, unpacker.summary())


def _new_folder() -> str:
    """Return a folder that is removed when this process ends; folders of processes that were killed are removed."""
    above = Path(tempfile.gettempdir())
    for folder in above.glob(f"{PREFIX}*"):
        with suppress(OSError):
            descriptor = _locked(folder)
            shutil.rmtree(folder, ignore_errors=True)
            os.close(descriptor)
    while True:
        root = Path(tempfile.mkdtemp(prefix=PREFIX))
        with suppress(OSError):
            _keep(root, _locked(root))
            return str(root)


def _locked(folder: Path) -> int:
    """Return the descriptor of a folder of this user whose lock no process holds.

    Raises:
        OSError: it is another's, or locked, or has been removed.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_uid != os.geteuid() or not os.path.samestat(os.fstat(descriptor), os.lstat(folder)):
            raise PermissionError(folder)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _keep(root: Path, descriptor: int) -> None:
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # a forked process ends earlier
            shutil.rmtree(root, ignore_errors=True)
            os.close(descriptor)

    atexit.register(remove)


def _limit(root: str) -> int:
    """Return how many bytes may be unpacked into a folder.

    Raises:
        UsageError: the environment has a limit that is no size.
    """
    given = os.environ.get(LIMIT_VARIABLE, "").strip().upper().removesuffix("B")
    number = given.rstrip("KMGT")
    if not given:
        return int(shutil.disk_usage(root).free * FREE_SHARE)
    if not number.isascii() or not number.isdigit() or given[len(number) :] not in UNITS:
        raise UsageError(f"{LIMIT_VARIABLE}={given!r} is not a size; write a number and K, M, G or T, as in 500G")
    return int(number) << UNITS[given[len(number) :]]


class _Unpacker:
    """Writes entries into a folder.

    Args:
        root: the folder.
    """

    def __init__(self, root: str) -> None:
        self._root, self._limit = root, _limit(root)
        self._written = self._zeros = 0
        self._problems: list[ArchiveProblem] = []
        self._more = 0

    def add_all(self, entries: Iterator[ArchiveRow]) -> None:
        """Write entries as far as the limits allow."""
        for number, entry in enumerate(entries):
            why = TOO_MANY if number >= MAX_ENTRIES else None
            if isinstance(entry, ArchiveProblem):
                self._report(_name_inside(entry.name) or entry.name, entry.why)
            elif why is None:
                why = self._add(entry)
            if why is not None:
                self._report("", why)
                return

    def summary(self) -> tuple[ArchiveProblem, ...]:
        """Return what could not be unpacked; of much, the first of it and how much more there is."""
        more = [ArchiveProblem("", f"{self._more} more of its entries cannot be read")] if self._more else []
        return (*self._problems, *more)

    def _report(self, name: str, why: str) -> None:
        if name and len(self._problems) >= MAX_PROBLEMS:
            self._more += 1
        else:
            self._problems.append(ArchiveProblem(name, why))

    def _add(self, entry: ArchiveEntry) -> str | None:
        """Write an entry; return why nothing more can be unpacked, None if it can."""
        name = _name_inside(entry.name)
        if name is None:
            self._report(entry.name, UPWARDS)
            return None
        target = os.path.join(self._root, name)
        try:
            if not (entry.is_folder or name):
                self._report(entry.name, NAMELESS)
                return None
            if entry.is_folder:
                os.makedirs(target, mode=0o700, exist_ok=True)
                return None
            os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
            self._write(entry, name, target)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            self._report(name, IN_THE_WAY)
        except _FullError:
            return TOO_LARGE.format(self._limit)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                return TOO_LARGE.format(self._written)
            self._report(name, f"it cannot be unpacked: {os.strerror(error.errno or 0)}")
        except ValueError as error:
            self._report(name, f"it cannot be unpacked: {error}")
        return None

    def _write(self, entry: ArchiveEntry, name: str, target: str) -> None:
        source = None
        if entry.repeats is not None:
            source = os.path.join(self._root, _name_inside(entry.repeats) or UPWARDS)
            if not os.path.isfile(source):
                self._report(name, f"it is a link to {entry.repeats}, which is not in the archive before it")
                return
        if os.path.isfile(target):
            self._report(name, TWICE)
            if source != target:
                os.unlink(target)
        if source is not None:
            os.link(source, target)
            return
        with open(target, "xb") as file:  # noqa: PTH123  # as text
            size = self._copy(entry, file)
        if entry.size is not None and size < entry.size:
            self._report(name, CUT.format(size, entry.size))
        if entry.mtime_ns is not None:
            os.utime(target, ns=(entry.mtime_ns, entry.mtime_ns))

    def _copy(self, entry: ArchiveEntry, file: IO[bytes]) -> int:
        """Write the content of an entry, and return its size."""
        end = 0
        for position, data in entry.blocks():
            for start in range(0, len(data), len(HOLE)):
                piece = data[start : start + len(HOLE)]
                if piece == HOLE:
                    self._zeros += len(piece)
                else:
                    file.seek(position + start)
                    file.write(piece)
                    self._written += len(piece)
            end = max(end, position + len(data))
            if self._written > self._limit or self._zeros > ZEROS_SHARE * self._limit:
                file.truncate(end)
                raise _FullError
        file.truncate(end)
        return end


class _FullError(Exception):
    """What is unpacked has reached the limit."""


def _name_inside(name: str) -> str | None:
    """Return the name of an entry as a path in the archive, None if it leads out of it; absolute ones begin there."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return None if ".." in parts else "/".join(parts)
