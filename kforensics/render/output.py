"""Opens the output: standard output, a pipe or a device, or a file that is created completely or not at all."""

from __future__ import annotations

import fcntl
import os
import platform
import re
import select
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TextIO, cast
from urllib.parse import unquote
from zlib import crc32

from kforensics.errors import EngineError, InputError, KforensicsError, OutputClosedError, UsageError
from kforensics.parsers.files.folders import folders_of
from kforensics.parsers.files.input_paths import INSIDE, STDIN, is_archive_name, is_uri

FILE_BUFFER_SIZE = 1 << 20
# As many links as Linux follows.
MAX_LINKS = 40
# Signals that end a command.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Links to what a process has open, such as /dev/stdout.
DESCRIPTORS = re.compile(r"/proc/[^/]+(/task/[^/]+)?/fd")


def check_output(output: Path | None, inputs: Iterable[str]) -> None:
    """Refuse an output file next to an input file, or below an input folder, or in place of an archive.

    Args:
        output: output file, None for standard output.
        inputs: files, folders, globs and URIs of the evidence.

    Raises:
        UsageError: the output would be among the evidence.
    """
    if output is None:
        return
    # A link is replaced in neither folder, but its target is.
    folders = {output.absolute().parent.resolve(), Path(os.path.realpath(output)).parent}
    for name in inputs:
        for path in _local_paths(name):
            if _is_among(output, folders, path):
                raise UsageError(f"{output} would be among the evidence {name}; choose another folder for --output")


def _is_among(output: Path, folders: set[Path], path: Path) -> bool:
    """Return whether an output, in some folders, is an input, next to one, or below one."""
    archive = Path(str(path).partition(INSIDE)[0])
    if is_archive_name(str(archive)) and archive.is_file():  # it is the evidence, and no file next to it
        return output.exists() and output.samefile(archive)
    evidence_folders = {path.parent.resolve(), path.resolve().parent}
    if path.is_dir():
        evidence_folders = {parent for parent in evidence_folders if _is_log_dir(parent)}
    return bool(folders & evidence_folders) or any(folder.is_relative_to(path.resolve()) for folder in folders)


def _is_log_dir(folder: Path) -> bool:
    return (folder / "meta.properties").exists() or any(folder.glob("*-offset-checkpoint"))


def _local_paths(name: str) -> list[Path]:
    if is_uri(name):
        scheme, _, path = name.partition("://")
        return [Path(unquote(path))] if scheme == "file" else []
    if name == STDIN:
        return []
    try:
        return [Path(entry.path).absolute() for entry in folders_of(name).expand(name)]
    except InputError:
        return []  # reading the input reports the error


def guard_stream(stream: TextIO) -> IO[bytes]:
    """Return the binary buffer of a standard stream; if it is a terminal, control characters are escaped."""
    return _guarded(cast("Any", stream).buffer)


def _guarded(out: IO[bytes]) -> IO[bytes]:
    if not out.isatty():
        return out
    from kforensics.render.terminal import TerminalGuard  # files and pipes do not need it

    return cast("IO[bytes]", TerminalGuard(out))


def unguarded(out: IO[bytes]) -> IO[bytes]:
    """Return a stream without the guard of a terminal, for text whose escape sequences are this package's own."""
    return cast("IO[bytes]", getattr(out, "terminal", out))


@contextmanager
def open_output(output: Path | None) -> Iterator[IO[bytes]]:
    """Open the output for writing.

    A file is written under a temporary name and renamed at the end. After an error or Ctrl-C no file remains. A link
    is followed: its target is created or replaced. A pipe or a device is written to as it is. On a terminal, control
    characters are escaped.

    Args:
        output: output file, None for standard output.

    Raises:
        UsageError: the output cannot be written.
        OutputClosedError: the reader of the output has closed it.
    """
    try:
        with _output_stream(output) as stream:
            try:
                yield stream
                stream.flush()
            except BrokenPipeError as error:
                if _is_closed_by_reader(stream):
                    raise OutputClosedError("the reader of the output has closed it") from error
                raise EngineError(f"a connection between processes broke: {error}; run the command again") from error
    except KforensicsError:
        raise
    except OSError as error:
        target = output or "standard output"
        raise UsageError(f"cannot write {target}: {error.strerror}; choose another path for --output") from error


@contextmanager
def _output_stream(output: Path | None) -> Iterator[IO[bytes]]:
    if output is None:
        with _standard_output() as stream:
            yield stream
        return
    try:
        mode = output.stat().st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or (stat.S_ISREG(mode) and _is_descriptor(output)):
        with _special_file(output) as stream:
            yield stream
        return
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a block device or a socket"
        raise UsageError(f"cannot write {output}: it is {kind}; name a file with --output")
    with _temporary_file(Path(os.path.realpath(output))) as stream:
        yield stream


def _is_closed_by_reader(stream: IO[bytes]) -> bool:
    """Return whether nothing can read what is written to a stream."""
    poll = select.poll()
    try:
        poll.register(stream.fileno(), 0)
    except (OSError, ValueError, AttributeError):
        return True  # a stream in memory, or closed: the error can only be its own
    return bool(poll.poll(0))


def _is_descriptor(path: Path) -> bool:
    """Return whether a path leads to what a process has open. Such a file must not be replaced."""
    for _ in range(MAX_LINKS):
        if not path.is_symlink():
            return False
        if DESCRIPTORS.fullmatch(os.path.realpath(path.parent)):
            return True
        path = path.parent / path.readlink()
    return False


@contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    if sys.__stdout__ is None:
        raise UsageError("cannot write standard output: it is closed; name a file with --output")
    yield guard_stream(sys.stdout)


@contextmanager
def _special_file(output: Path) -> Iterator[IO[bytes]]:
    descriptor = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_NOCTTY | os.O_CLOEXEC)
    stream = os.fdopen(descriptor, "wb", buffering=FILE_BUFFER_SIZE)
    try:
        yield _guarded(stream)
    finally:
        with suppress(BrokenPipeError):  # the caller has seen it
            stream.close()


@contextmanager
def _temporary_file(target: Path) -> Iterator[IO[bytes]]:
    with suppress(OSError):
        remove_abandoned(target)
    with ExitStack() as unfinished:
        with deferred_signals():
            temporary, stream = _created_file(target)
            lock = os.dup(stream.fileno())  # closing a file on NFS may fail, so it is closed before it is renamed
            unfinished.callback(os.close, lock)
            unfinished.callback(temporary.unlink, missing_ok=True)
            unfinished.callback(stream.close)
        with stream:
            with suppress(FileNotFoundError):
                os.fchmod(lock, stat.S_IMODE(target.stat().st_mode) & 0o777)  # as before, not as the umask
            yield stream
        temporary.replace(target)


def _created_file(target: Path) -> tuple[Path, IO[bytes]]:
    while True:
        temporary = part_path(target)
        stream = temporary.open("xb", buffering=FILE_BUFFER_SIZE)
        if lock_part(stream.fileno(), temporary):
            return temporary, stream
        stream.close()


def part_path(target: Path) -> Path:
    """Return a new name for a file or folder that is renamed to its target when it is complete."""
    return target.with_name(f".{target.name}.{_host()}-{os.getpid()}-{os.urandom(4).hex()}.part")


def _host() -> str:
    """Return a short name of this machine or container: process ids and locks of another one mean nothing here."""
    return f"{crc32(platform.node().encode()):08x}"


def lock_part(descriptor: int, path: Path) -> bool:
    """Lock an unfinished file or folder until its descriptor is closed, however the process ends.

    Args:
        descriptor: descriptor of the file or folder.
        path: its path.

    Returns:
        Whether it still exists: before it was locked, another process may have taken it for abandoned.
    """
    with suppress(OSError):  # a file system without locks
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Keep other processes from writing a folder of results until the context ends, however the process ends.

    Args:
        folder: the folder; its parent exists.

    Raises:
        UsageError: another process is writing the folder.
        OSError: the lock cannot be created.
    """
    lock = folder.with_name(f".{folder.name}.lock")
    with ExitStack() as claim:
        with deferred_signals():
            claim.callback(_unlock, lock, _locked(lock, folder))
        yield


def _locked(lock: Path, folder: Path) -> int:
    """Create the lock of a folder, and return its descriptor."""
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise UsageError(
                f"another process is writing {folder}; wait until it has ended, or choose another folder for --output"
            ) from error
        except OSError:  # a file system without locks: the first to rename its folder wins
            return descriptor
        if lock_part(descriptor, lock):
            return descriptor
        os.close(descriptor)


def _unlock(lock: Path, descriptor: int) -> None:
    with suppress(OSError):
        lock.unlink()
    os.close(descriptor)


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Defer Ctrl-C, SIGTERM and SIGHUP until the end of the block.

    Between a call that creates a file or a process and the next statement, Python may raise KeyboardInterrupt, and
    nothing would know of what was created. Blocking the signals is not enough: a thread of Arrow may receive them, and
    Python then interrupts the main thread. In other threads nothing is raised.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    # One that was installed by other code than Python's could not be restored.
    numbers = [number for number in ENDING if signal.getsignal(number) is not None]
    handlers = {number: signal.signal(number, lambda number, _frame: received.append(number)) for number in numbers}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for arrived in received:
        signal.raise_signal(arrived)


def remove_abandoned(target: Path, is_kept: Callable[[Path], bool] = lambda _path: False) -> None:
    """Remove unfinished files and folders of a target that processes of this user left when they were killed.

    Args:
        target: the file or folder that they were to become.
        is_kept: returns whether one is to stay.
    """
    for path in abandoned(target):
        if is_kept(path):
            continue
        with suppress(OSError):
            if path.is_dir():
                import shutil  # nothing is abandoned as a rule

                shutil.rmtree(path)
            else:
                path.unlink()


def abandoned(target: Path) -> Iterator[Path]:
    """Yield unfinished files and folders of a target that processes of this user left when they were killed.

    A process holds a lock as long as it lives, so what can be locked is abandoned, and locked until the next one is
    yielded. Other hosts may not see the lock, so each yields only what it has created.
    """
    name = re.compile(rf"\.{re.escape(target.name)}\.{_host()}-\d+-[0-9a-f]{{8}}\.part")
    for path in [path for path in target.parent.iterdir() if name.fullmatch(path.name)]:
        with suppress(OSError), _opened(path) as descriptor:
            if _is_unlocked(descriptor):
                yield path


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_unlocked(descriptor: int) -> bool:
    """Return whether a file or folder is of this user and no process holds its lock, which is taken."""
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
