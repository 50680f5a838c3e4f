"""Reads ``remote_log_snapshot``: what a broker of 3.1 to 3.7 has consumed from ``__remote_log_metadata``.

Rule: ``org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataSnapshotFile``. In 3.6 and 3.7 the file is
usually empty or has only a header.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kforensics.parsers.files.source import Source
from kforensics.parsers.files.text_lines import LIMIT, shrunk_damage
from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.layouts import REMOTE_LOG_SNAPSHOT_HEADER
from kforensics.parsers.format.rows import Damage

HEADER = fixed_layout(REMOTE_LOG_SNAPSHOT_HEADER)
# The length before each entry is an i32, like the count in the header.
LENGTH = HEADER.reader("count")
VERSION = 0


@dataclass(frozen=True, slots=True)
class RemoteLogSnapshotHeader:
    """The header of the snapshot, with the fields of the layout."""

    position: int
    version: int
    metadata_partition: int
    metadata_partition_offset: int
    count: int

    @property
    def size(self) -> int:
        """Size of the header in bytes."""
        return HEADER.size


@dataclass(frozen=True, slots=True)
class RemoteLogSnapshotEntry:
    """An entry.

    Attributes:
        position: position of its length field.
        size: size in bytes, including the length field.
        value: the value of a record of ``__remote_log_metadata``.
    """

    position: int
    size: int
    value: bytes


Row = RemoteLogSnapshotHeader | RemoteLogSnapshotEntry | Damage


def read_remote_log_snapshot(source: Source) -> Iterator[Row]:
    """Yield the header and the entries of a snapshot, and damage for the remaining ranges."""
    if source.size > LIMIT:
        yield Damage(0, source.size, "too-large", f"{source.size} bytes, more than the limit of {LIMIT}")
        return
    data = source.read(0, source.size)
    if len(data) >= HEADER.size:
        yield from _content(data, RemoteLogSnapshotHeader(0, *HEADER.unpack_from(data)))
    elif data:
        yield Damage(0, len(data), "truncated", f"{len(data)} bytes are too few for a header of {HEADER.size}")
    yield from shrunk_damage(source, data)


def _content(data: bytes, header: RemoteLogSnapshotHeader) -> Iterator[Row]:
    if header.version != VERSION:
        yield Damage(0, len(data), "version", f"unknown version {header.version}, expected {VERSION}")
        return
    if header.count < 0:
        yield Damage(0, len(data), "count", f"the header counts {header.count} entries")
        return
    present = sum(1 for _ in _ranges(data, header.count))
    if present < header.count:
        message = f"the header counts {header.count} entries, but there are {present}"
        yield Damage(0, HEADER.size, "count", message, next_good_position=HEADER.size)
    else:
        yield header
    end = HEADER.size
    for start, end in _ranges(data, header.count):
        yield RemoteLogSnapshotEntry(start, end - start, data[start + LENGTH.size : end])
    if end < len(data):
        reason = "truncated" if present < header.count else "trailing"
        yield Damage(end, len(data), reason, f"{len(data) - end} bytes after the last whole entry")


def _ranges(data: bytes, count: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of every whole entry."""
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
