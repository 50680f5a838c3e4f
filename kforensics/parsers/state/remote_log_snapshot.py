"""``remote_log_snapshot``: what a broker of 3.1 to 3.7 had consumed of ``__remote_log_metadata``.

Rule: ``org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataSnapshotFile``. In 3.6 and 3.7
commonly empty or a header only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kforensics.parsers.files.source import Source
from kforensics.parsers.files.text_lines import LIMIT, shrunk
from kforensics.parsers.format.derived import fixed
from kforensics.parsers.format.layouts import REMOTE_LOG_SNAPSHOT_HEADER
from kforensics.parsers.format.rows import Damage

__all__ = ["RemoteLogSnapshotEntry", "RemoteLogSnapshotHeader", "read_remote_log_snapshot"]

HEADER = fixed(REMOTE_LOG_SNAPSHOT_HEADER)
# The length before each entry is an i32 like the count in the header.
LENGTH = HEADER.reader("count")
VERSION = 0


@dataclass(frozen=True, slots=True)
class RemoteLogSnapshotHeader:
    """What stands before the entries; the fields are those of the layout."""

    position: int
    version: int
    metadata_partition: int
    metadata_partition_offset: int
    count: int

    @property
    def size(self) -> int:
        """Bytes of the header."""
        return HEADER.size


@dataclass(frozen=True, slots=True)
class RemoteLogSnapshotEntry:
    """An entry.

    Attributes:
        position: of its length field.
        size: bytes with the length field.
        value: a record of ``__remote_log_metadata``, to be decoded like the value of one.
    """

    position: int
    size: int
    value: bytes


Row = RemoteLogSnapshotHeader | RemoteLogSnapshotEntry | Damage


def read_remote_log_snapshot(source: Source) -> Iterator[Row]:
    """Yield the header and entries of a snapshot and the ranges that hold neither."""
    if source.size > LIMIT:
        yield Damage(0, source.size, "too-large", f"{source.size} bytes, more than the {LIMIT} that are looked at")
        return
    data = source.read(0, source.size)
    if len(data) >= HEADER.size:
        yield from _content(data, RemoteLogSnapshotHeader(0, *HEADER.unpack_from(data)))
    elif data:
        yield Damage(0, len(data), "truncated", f"{len(data)} bytes are too few for a header of {HEADER.size}")
    yield from shrunk(source, data)


def _content(data: bytes, header: RemoteLogSnapshotHeader) -> Iterator[Row]:
    if header.version != VERSION:
        yield Damage(0, len(data), "version", f"unknown version {header.version}, known is {VERSION}")
        return
    if header.count < 0:
        yield Damage(0, len(data), "count", f"{header.count} entries announced")
        return
    found = sum(1 for _ in _ranges(data, header.count))
    if found < header.count:
        message = f"{header.count} entries announced, {found} found"
        yield Damage(0, HEADER.size, "count", message, next_good_position=HEADER.size)
    else:
        yield header
    end = HEADER.size
    for start, end in _ranges(data, header.count):
        yield RemoteLogSnapshotEntry(start, end - start, data[start + LENGTH.size : end])
    if end < len(data):
        reason = "truncated" if found < header.count else "trailing"
        yield Damage(end, len(data), reason, f"{len(data) - end} bytes behind the last whole entry")


def _ranges(data: bytes, count: int) -> Iterator[tuple[int, int]]:
    """Yield where the entries lie that are whole."""
    start = HEADER.size
    for _ in range(count):
        if start + LENGTH.size > len(data):
            return
        (length,) = LENGTH.unpack_from(data, start)
        end = start + LENGTH.size + length
        if length < 0 or end > len(data):
            return
        yield start, end
        start = end
