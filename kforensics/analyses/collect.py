"""Copies the log directories of a broker that may be running, so that an audit of the copy is true."""

from __future__ import annotations

import gzip
import json
import os
import platform
import socket
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, cast

from kforensics.analyses.collected_content import Content, HeadersOnly, is_known, is_log_of_data
from kforensics.errors import UsageError
from kforensics.forensics.core.formatting import format_count, format_size
from kforensics.parsers.files.discover import Unreadable
from kforensics.parsers.files.input_paths import ARCHIVES
from kforensics.parsers.files.log_capture import CHUNK, LogContent, LogFile, LogFiles
from kforensics.parsers.format.decompression import zstd_module
from kforensics.render.output import check_output, open_output
from kforensics.version import __version__

__all__ = ["Collection", "Manifest", "collect_files"]

SCHEMA = "kforensics-collect/1"
MANIFEST, UNFINISHED = "manifest.json", "collect.part"
# What the unfinished copy says of itself.
METADATA_ONLY = b"metadata-only\n"
# Zeros of this length are left out of the files of a folder.
HOLE = 1 << 16


class Manifest(NamedTuple):
    """A row of the manifest: a file of the copy.

    Attributes:
        name: path in the copy.
        path: path of the original.
        size: size in bytes.
        mtime_ms: when the original was last modified, in ms.
        sha256: checksum of the copy.
        original_sha256: that of the original, whose records were left out; None if nothing was.
    """

    name: str
    path: str
    size: int
    mtime_ms: int | None
    sha256: str
    original_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Collection:
    """A copy of log directories.

    Attributes:
        output: the archive or folder.
        files: its files, as in the manifest.
        unreadable: what could not be copied, or not all of it.
    """

    output: str
    files: tuple[Manifest, ...]
    unreadable: tuple[Unreadable, ...]

    @property
    def sentence(self) -> str:
        """What was copied."""
        size = format_size(sum(file.size for file in self.files))
        return f"collected {format_count(len(self.files), 'file')} of {size} into {self.output}"

    def __repr__(self) -> str:
        return f"<{self.sentence}>"


class _Writer(Protocol):
    """Writes files into a copy."""

    def add(self, file: LogFile, content: Content) -> None:
        """Write a file."""

    def finish(self, manifest: bytes) -> None:
        """Write the manifest, the last file."""


class _TarWriter:
    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar

    def add(self, file: LogFile, content: Content) -> None:
        self._tar.addfile(_header(file.name, file.size, file.mtime_ms), cast("IO[bytes]", content))

    def finish(self, manifest: bytes) -> None:
        self._tar.addfile(_header(MANIFEST, len(manifest), None), BytesIO(manifest))


def _header(name: str, size: int, mtime_ms: int | None) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.size, header.mode = size, 0o644
    header.mtime = cast("int", datetime.now(UTC).timestamp() if mtime_ms is None else mtime_ms / 1000)
    return header


class _FolderWriter:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, file: LogFile, content: Content) -> None:
        target = self._folder / file.name
        mtime_ns = (file.mtime_ms or 0) * 1_000_000
        with suppress(FileNotFoundError):
            status = target.stat()
            if (status.st_size, status.st_mtime_ns) == (file.size, mtime_ns):  # of a copy that was interrupted
                while content.read(CHUNK):
                    pass
                return
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as out:
            while data := content.read(HOLE):
                out.write(data) if data.strip(b"\0") else out.seek(len(data), os.SEEK_CUR)
            out.truncate(file.size)
        os.utime(target, ns=(mtime_ns, mtime_ns))

    def finish(self, manifest: bytes) -> None:
        (self._folder / MANIFEST).write_bytes(manifest)
        (self._folder / UNFINISHED).unlink()


def collect_files(
    found: LogFiles, output: str, advance: Callable[[int], object], *, metadata_only: bool = False
) -> Collection:
    """Copy files, and return what was copied.

    Args:
        found: the files.
        output: an archive, as its suffix says, or a folder.
        advance: takes the number of bytes that were copied since the last call.
        metadata_only: whether to leave out the records of data partitions, and files that are not Kafka's.

    Raises:
        UsageError: the output cannot be written, or is among the evidence.
    """
    rows, not_copied, began = list[Manifest](), list[str](), _now()
    with _writer(output, found.log_dirs, metadata_only=metadata_only) as writer:
        for file in found.files:
            if metadata_only and not is_known(file):
                not_copied.append(file.path)
                advance(file.size)
                continue
            content = HeadersOnly(file) if metadata_only and is_log_of_data(file) else LogContent(file)
            writer.add(file, content)
            if file.source is not None:
                file.source.close()
            if content.why is not None:
                found.unreadable.append(Unreadable(file.path, content.why))
            rows.append(_row(file, content))
            advance(file.size)
        left_out = {"records": "data partitions", "files": not_copied} if metadata_only else None
        writer.finish(_manifest(found, rows, began, left_out))
    return Collection(output, tuple(rows), tuple(found.unreadable))


def _row(file: LogFile, content: Content) -> Manifest:
    original = content.original.digest.hexdigest() if isinstance(content, HeadersOnly) else None
    return Manifest(file.name, file.path, file.size, file.mtime_ms, content.digest.hexdigest(), original)


def _manifest(found: LogFiles, rows: Sequence[Manifest], began: str, left_out: Mapping[str, object] | None) -> bytes:
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "kforensics": __version__,
        "host": socket.gethostname(),
        "system": platform.platform(),
        "began": began,
        "ended": _now(),
        "log_dirs": [str(Path(path).absolute()) for path in found.log_dirs],
        "left_out": left_out,
        "files": [row._asdict() for row in rows],
        "unreadable": [asdict(row) for row in found.unreadable],
    }
    return json.dumps(document, indent=1).encode()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@contextmanager
def _writer(output: str, log_dirs: Sequence[str], *, metadata_only: bool) -> Iterator[_Writer]:
    suffix = next((suffix for suffix in ARCHIVES if output.endswith(suffix)), "")
    if suffix in (".zip", ".gz", ".zst"):
        raise UsageError(f"{output} is no archive that can be written; name one that ends in .tar.zst, .tar.gz or .tar")
    check_output(Path(output), log_dirs)
    if not suffix:
        yield _FolderWriter(_folder(Path(output), METADATA_ONLY if metadata_only else b""))
        return
    with (
        open_output(Path(output)) as out,
        _compressed(out, suffix) as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        yield _TarWriter(tar)


def _compressed(out: IO[bytes], suffix: str) -> Any:
    if suffix.endswith("gz"):
        return gzip.GzipFile(filename="", fileobj=out, mode="wb", compresslevel=6)
    if suffix.endswith("zst"):
        return zstd_module().ZstdFile(out, "w")
    return _uncompressed(out)


@contextmanager
def _uncompressed(out: IO[bytes]) -> Iterator[IO[bytes]]:
    yield out


def _folder(folder: Path, what: bytes) -> Path:
    """Return the folder of a copy, new or with what was copied before an interruption.

    Args:
        folder: the folder.
        what: what is copied. A copy goes on only with the same: files that are there are not written again.
    """
    unfinished = folder / UNFINISHED
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not unfinished.exists():
            raise UsageError(f"{folder} has files; name a new folder for --output")
        if unfinished.exists() and unfinished.read_bytes() != what:
            raise UsageError(
                f"{folder} has part of a copy {'with' if what else 'without'} records; name a new folder for --output"
            )
        unfinished.write_bytes(what)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}; choose another path for --output") from error
    return folder
