"""Reads archives and compressed streams from the beginning to the end, entry by entry. Nothing is written.

Archives are not trusted: whatever of one cannot be read becomes an :class:`ArchiveProblem`.
"""

from __future__ import annotations

import io
import stat
import sys
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import IO, NamedTuple, Protocol, TypeAlias, cast

from kforensics.parsers.format.decompression import ZSTD_MODULE, zstd_module

__all__ = [
    "ArchiveEntry",
    "ArchiveProblem",
    "ArchiveRow",
    "Block",
    "ForwardFile",
    "archive_kind",
    "chunks_of",
    "gzip_time",
    "one_file",
    "stream_of",
    "tar_entries",
    "zip_entries",
]

CHUNK = 1 << 20
# How far back a reader of tar may go: to the header of the current entry.
KEPT = 1 << 16
# The longest header that is read: of pax, whose length the archive decides. The most zeros after the last entry.
MAX_HEADER, MAX_PADDING = 16 << 20, 64 << 20
NANOSECONDS = 1_000_000_000
GZIP, ZSTD, ZIP, TAR = "gzip", "zstd", "zip", "tar"
GZIP_MAGIC, ZSTD_MAGIC, ZSTD_SKIPPED = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x2a\x4d\x18"
ZIP_MAGICS = (b"PK\3\4", b"PK\5\6")
MAGIC_BYTES = len(ZSTD_MAGIC)
# The extra field in which Info-ZIP writes the time in UTC, and the flag that it is there.
ZIP_TIME, ZIP_HAS_TIME = 0x5455, 1
ENCRYPTED = 1
NO_END = "the archive ends without its end mark, so entries may be missing; copy it again"


class ArchiveProblem(NamedTuple):
    """What cannot be read of an archive.

    Attributes:
        name: the entry, empty for the archive itself.
        why: the reason, to complete "cannot read <path>: …".
    """

    name: str
    why: str


class Block(NamedTuple):
    """Bytes of a file, and where in it they are."""

    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """A file or a folder in an archive.

    Attributes:
        name: the name, as the archive has it.
        is_folder: whether it is a folder.
        mtime_ns: when it was last modified, None if unknown.
        size: size of a file in bytes, None if only its end shows it.
        repeats: the entry whose content this one has, as a hard link does.
        blocks: returns the content, which ends early if the archive does; to be read before the next entry.
    """

    name: str
    is_folder: bool = False
    mtime_ns: int | None = None
    size: int | None = None
    repeats: str | None = None
    blocks: Callable[[], Iterator[Block]] = lambda: iter(())


ArchiveRow: TypeAlias = ArchiveEntry | ArchiveProblem


class BrokenStreamError(Exception):
    """A compressed stream ends early, or is damaged."""


class Decompressor(Protocol):
    """What the decompressors of gzip and zstd have in common."""

    @property
    def eof(self) -> bool:
        """Whether the stream has ended."""

    @property
    def unused_data(self) -> bytes:
        """What follows the end."""

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        """Return up to ``max_length`` bytes; the rest follows with the next calls."""


class ForwardFile:
    """A stream as a file that is read forward, and a little way back.

    Args:
        chunks: the bytes.

    Attributes:
        why: why the stream ended early, None if it did not.
    """

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._data, self._start, self._position = chunks, b"", 0, 0
        self._header_left: int | None = None
        self.why: str | None = None

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seek(self, position: int) -> int:
        """Go to a position."""
        if position < self._start:
            raise tarfile.ReadError("an entry leads back")
        self._position = position
        return position

    def read(self, size: int) -> bytes:
        """Return ``size`` bytes; fewer only at the end."""
        if not 0 <= size <= MAX_HEADER:
            raise tarfile.ReadError(f"a header has {size} bytes")
        if self._header_left is not None:
            self._header_left -= size
            if self._header_left < 0:
                raise tarfile.ReadError(f"a header has more than {MAX_HEADER} bytes")
        while self._start + len(self._data) < self._position + size and self._fill():
            pass
        begin = self._position - self._start
        data = self._data[begin : begin + size]
        self._position += len(data)
        return data

    def chunks(self) -> Iterator[bytes]:
        """Yield what follows."""
        return iter(lambda: self.read(CHUNK), b"")

    @contextmanager
    def one_header(self) -> Iterator[None]:
        """Refuse to read more than the longest header: later releases of Python read a header in pieces."""
        self._header_left = MAX_HEADER
        try:
            yield
        finally:
            self._header_left = None

    def _fill(self) -> bool:
        try:
            chunk = next(self._chunks, b"")
        except BrokenStreamError as error:
            chunk, self.why = b"", str(error)
        behind = min(max(self._position - KEPT - self._start, 0), len(self._data))
        self._data = self._data[behind:] + chunk
        self._start += behind
        return bool(chunk)


class _BoundedTar(tarfile.TarFile):
    """A tar in a ``ForwardFile``, whose headers are bounded whether Python reads them whole or in pieces."""

    def next(self) -> tarfile.TarInfo | None:
        """Return the next entry."""
        with cast("ForwardFile", self.fileobj).one_header():
            return super().next()


def archive_kind(head: bytes) -> str | None:
    """Return what the first bytes of a stream are, of GZIP, ZSTD, ZIP and TAR; None if they are no archive."""
    if head.startswith(GZIP_MAGIC):
        return GZIP
    if head.startswith(ZSTD_MAGIC) or head[1:MAGIC_BYTES] == ZSTD_SKIPPED:
        return ZSTD
    if head.startswith(ZIP_MAGICS):
        return ZIP
    try:
        tarfile.TarInfo.frombuf(head[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError):
        return None
    return TAR


def gzip_time(file: IO[bytes]) -> int | None:
    """Return when a gzipped file was last modified in ns, None if its header does not have it."""
    import gzip  # few archives are one file

    with gzip.GzipFile(fileobj=file) as header:
        with suppress(OSError, EOFError, zlib.error):
            header.read(1)
        seconds = header.mtime
    file.seek(0)
    return seconds * NANOSECONDS if seconds else None


def chunks_of(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a file from its position on."""
    return iter(lambda: file.read(CHUNK), b"")


def stream_of(chunks: Iterator[bytes], kind: str | None) -> ForwardFile:
    """Return bytes that are compressed with GZIP or ZSTD, or not at all, as a file."""
    if kind == GZIP:
        return ForwardFile(_decompressed(chunks, GZIP, _Gunzip))
    if kind == ZSTD:
        return ForwardFile(_decompressed(chunks, ZSTD, zstd_module().ZstdDecompressor))
    return ForwardFile(chunks)


def one_file(name: str, stream: ForwardFile, mtime_ns: int | None) -> Iterator[ArchiveRow]:
    """Yield a stream that is no archive as its only entry, and what is wrong with it."""

    def blocks() -> Iterator[Block]:
        for data in stream.chunks():
            yield Block(stream.tell() - len(data), data)

    yield ArchiveEntry(name, mtime_ns=mtime_ns, blocks=blocks)
    if stream.why:
        yield ArchiveProblem("", stream.why)


class _Gunzip:
    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        return self._inflate.decompress(self._inflate.unconsumed_tail + data, max_length)


def _decompressed(chunks: Iterator[bytes], kind: str, new: Callable[[], Decompressor]) -> Iterator[bytes]:
    """Yield the bytes of compressed streams that follow each other.

    Raises:
        BrokenStreamError: one ends early, or is damaged.
    """
    data = next(chunks, b"")
    while data:
        stream = new()
        yield from _one_stream(data, chunks, stream)
        data = stream.unused_data.lstrip(b"\0")  # what was written to a tape is padded
        while len(data) < MAGIC_BYTES and (more := next(chunks, b"")):
            data = (data + more).lstrip(b"\0")
        if data and archive_kind(data) != kind:
            raise BrokenStreamError(f"what follows the data is not {kind}, and is left out")


def _one_stream(data: bytes, chunks: Iterator[bytes], stream: Decompressor) -> Iterator[bytes]:
    try:
        while True:
            output = stream.decompress(data, CHUNK)
            data = b""
            if output:
                yield output
            if stream.eof:
                return
            if not output and not (data := next(chunks, b"")):
                raise BrokenStreamError("the compressed data end in the middle; copy the file again")
    except _errors() as error:
        raise BrokenStreamError(f"the compressed data are damaged: {error}") from error


def _errors() -> tuple[type[Exception], ...]:
    """Return what decompressors raise; zstd has an exception of its own."""
    return (zlib.error, zstd_module().ZstdError) if ZSTD_MODULE in sys.modules else (zlib.error,)


def tar_entries(stream: ForwardFile) -> Iterator[ArchiveRow]:
    """Yield the entries of a tar, and what is wrong with it."""
    problem: str | None = None
    try:
        # No member is kept: a reader that may go back to each of them keeps all.
        with _BoundedTar(fileobj=stream, errors="surrogateescape") as tar:  # type: ignore[arg-type]  # as it needs it
            while member := tar.next():
                tar.members.clear()  # type: ignore[attr-defined]  # typeshed lacks it
                yield _tar_entry(stream, member)
            stream.seek(tar.offset)
            end = stream.read(tarfile.BLOCKSIZE)
            if end.strip(b"\0"):
                problem = f"the header at byte {tar.offset} is damaged; what follows is left out"
            elif not end:
                problem = NO_END
            else:
                for _ in islice(stream.chunks(), MAX_PADDING // CHUNK):
                    pass  # zeros, up to the checksum at the end of compressed data
    except (tarfile.TarError, ValueError, OverflowError, EOFError) as error:
        problem = NO_END if "unexpected end" in str(error) else f"it is not a tar that can be read: {error}"
    if stream.why or problem:
        yield ArchiveProblem("", stream.why or problem or "")


def _tar_entry(stream: ForwardFile, member: tarfile.TarInfo) -> ArchiveRow:
    if member.issym():
        return ArchiveProblem(member.name, f"it is a link to {member.linkname}, and links of archives are not followed")
    if not (member.isreg() or member.isdir() or member.islnk()):
        kind = "a pipe" if member.isfifo() else "a device" if member.isdev() else "neither a file nor a folder"
        return ArchiveProblem(member.name, f"it is {kind}, not a file")
    repeats = member.linkname if member.islnk() else None
    time_ns, start = _tar_time(member), member.offset_data
    ranges: list[tuple[int, int]] = getattr(member, "sparse", None) or [(0, member.size)]

    def blocks() -> Iterator[Block]:
        stream.seek(start)
        for position, size in ranges:
            end = position + size
            while position < end:
                data = stream.read(min(CHUNK, end - position))
                if not data:
                    return
                yield Block(position, data)
                position += len(data)  # noqa: PLW2901  # the position in the range
        yield Block(member.size, b"")  # a sparse file may end without data

    return ArchiveEntry(member.name, member.isdir(), time_ns, None if repeats else member.size, repeats, blocks)


def _tar_time(member: tarfile.TarInfo) -> int | None:
    """Return the time of an entry in ns: a float would lose the last ms."""
    try:
        return int(Decimal(member.pax_headers.get("mtime") or int(member.mtime)) * NANOSECONDS)
    except (ArithmeticError, ValueError):
        return None


def zip_entries(file: IO[bytes]) -> Iterator[ArchiveRow]:
    """Yield the entries of a zip, and what is wrong with it."""
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        why = f"its list of entries, which is at the end, cannot be read: {error}; copy it again, or mend it by zip -FF"
        yield ArchiveProblem("", why)
        return
    with archive:
        for info in archive.infolist():
            mode = info.external_attr >> 16
            if stat.S_ISLNK(mode):
                yield ArchiveProblem(info.filename, "it is a link, and links of archives are not followed")
            elif info.flag_bits & ENCRYPTED:
                yield ArchiveProblem(info.filename, "it is encrypted; unpack the archive with its password first")
            else:
                yield from _zip_entry(archive, info)


def _zip_entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[ArchiveRow]:
    errors: list[str] = []

    def blocks() -> Iterator[Block]:
        position = 0
        try:
            with archive.open(info) as file:
                while data := file.read(CHUNK):
                    yield Block(position, data)
                    position += len(data)
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError, RuntimeError) as error:
            errors.append(f"after byte {position} it cannot be unpacked: {error}")

    yield ArchiveEntry(info.filename, info.filename.endswith("/"), _zip_time(info), info.file_size, None, blocks)
    yield from (ArchiveProblem(info.filename, why) for why in errors)


def _zip_time(info: zipfile.ZipInfo) -> int | None:
    """Return the time of an entry in ns; without Info-ZIP's field it is local, as unzip takes it."""
    extra = io.BytesIO(info.extra)
    while kind := extra.read(2):
        field = io.BytesIO(extra.read(int.from_bytes(extra.read(2), "little")))
        if int.from_bytes(kind, "little") == ZIP_TIME and int.from_bytes(field.read(1), "little") & ZIP_HAS_TIME:
            return int.from_bytes(field.read(4), "little", signed=True) * NANOSECONDS
    try:
        return int(time.mktime((*info.date_time, 0, 0, -1))) * NANOSECONDS
    except (ValueError, OverflowError):
        return None
