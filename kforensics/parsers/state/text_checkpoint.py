"""Reads the text checkpoints of a log directory or partition: a version, a count, and one line per entry.

Rule: ``org.apache.kafka.server.common.CheckpointFile`` and the formatters of its users. Kafka rejects the whole file at
the first fault. This reader yields every valid line together with the faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from kforensics.parsers.files.source import Source
from kforensics.parsers.files.text_lines import (
    LIMIT,
    TextLine,
    count_lines,
    parse_int,
    parse_long,
    read_small_file,
    shrunk_damage,
    split_fields,
    text_lines,
)
from kforensics.parsers.format.rows import Damage

__all__ = [
    "CheckpointHeader",
    "LeaderEpochEntry",
    "OffsetCheckpointEntry",
    "RemoteOffsetEntry",
    "read_leader_epochs",
    "read_offset_checkpoint",
    "read_remote_offsets",
]

VERSION = 0
# Maximum number of characters quoted from a malformed line.
SHOWN = 200


@dataclass(frozen=True, slots=True)
class CheckpointHeader:
    """The first two lines; only the first one if the second is missing or wrong.

    Attributes:
        position: 0.
        size: size of the lines in bytes.
        version: 0.
        count: number of entries that follow; None if it is wrong or missing. Kafka reads a missing count as 0.
    """

    position: int
    size: int
    version: int
    count: int | None


@dataclass(frozen=True, slots=True)
class OffsetCheckpointEntry:
    """The offset of a partition, such as its recovery point, log start or high watermark, depending on the file."""

    position: int
    size: int
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class LeaderEpochEntry:
    """The first offset of a leader epoch."""

    position: int
    size: int
    leader_epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class RemoteOffsetEntry:
    """The consumed offset of a partition of ``__remote_log_metadata``."""

    position: int
    size: int
    partition: int
    offset: int


CheckpointEntry = OffsetCheckpointEntry | LeaderEpochEntry | RemoteOffsetEntry
Row = CheckpointHeader | CheckpointEntry | Damage
Parse = Callable[[TextLine, list[str]], CheckpointEntry | None]


def read_offset_checkpoint(source: Source) -> Iterator[Row]:
    """Yield the rows of a recovery-point, log-start, replication or cleaner offset checkpoint."""
    return _read(source, _offset_entry)


def read_leader_epochs(source: Source) -> Iterator[Row]:
    """Yield the rows of a ``leader-epoch-checkpoint`` file."""
    return _read(source, _leader_epoch_entry)


def read_remote_offsets(source: Source) -> Iterator[Row]:
    """Yield the rows of a ``_rlmm_committed_offsets`` file."""
    return _read(source, _remote_offset_entry)


def _offset_entry(line: TextLine, fields: list[str]) -> CheckpointEntry | None:
    if len(fields) != 3:  # topic, partition, offset
        return None
    partition, offset = parse_int(fields[1]), parse_long(fields[2])
    # Leading white space makes an empty topic. Kafka's reader accepts it, but no broker writes it.
    if partition is None or offset is None or not fields[0]:
        return None
    return OffsetCheckpointEntry(line.start, line.end - line.start, fields[0], partition, offset)


def _leader_epoch_entry(line: TextLine, fields: list[str]) -> CheckpointEntry | None:
    numbers = _int_and_long(fields)
    return LeaderEpochEntry(line.start, line.end - line.start, *numbers) if numbers else None


def _remote_offset_entry(line: TextLine, fields: list[str]) -> CheckpointEntry | None:
    numbers = _int_and_long(fields)
    return RemoteOffsetEntry(line.start, line.end - line.start, *numbers) if numbers else None


def _int_and_long(fields: list[str]) -> tuple[int, int] | None:
    if len(fields) != 2:  # two numbers
        return None
    first, second = parse_int(fields[0]), parse_long(fields[1])
    return None if first is None or second is None else (first, second)


def _read(source: Source, parse: Parse) -> Iterator[Row]:
    data = read_small_file(source, LIMIT)
    if isinstance(data, Damage):
        yield data
        return
    lines = text_lines(data)
    head = _head(source, data, list(islice(lines, 2)))
    yield from head
    # With an unknown version the other lines have no meaning; the damage covers them.
    if head and isinstance(head[0], CheckpointHeader):
        yield from _joined(_entry(source, line, parse) for line in lines)
    yield from shrunk_damage(source, data)


def _head(source: Source, data: bytes, lines: list[TextLine]) -> list[CheckpointHeader | Damage]:
    if not lines:
        return []
    version = parse_int(lines[0].text or "")
    if version is None:
        return [Damage(0, len(data), "malformed", _malformed(source, lines[0]))]
    if version != VERSION:
        message = f"Unrecognised version:{version}, expected version: {VERSION} in checkpoint file at: {source.path}"
        return [Damage(0, len(data), "version", message)]
    if len(lines) == 1:
        return [CheckpointHeader(0, len(data), version, None)]
    count, actual = parse_int(lines[1].text or ""), count_lines(data) - 2
    if count == actual:
        return [CheckpointHeader(0, lines[1].end, version, count)]
    header = CheckpointHeader(0, lines[0].end, version, None)
    if count is None:
        return [header, lines[1].damage("malformed", _malformed(source, lines[1]))]
    message = f"Expected [{count}] entries in checkpoint file [{source.path}], but found only [{actual}]"
    return [header, lines[1].damage("count", message)]


def _entry(source: Source, line: TextLine, parse: Parse) -> CheckpointEntry | Damage:
    row = None if line.text is None else parse(line, split_fields(line.text))
    return row or line.damage("malformed", _malformed(source, line))


def _joined(rows: Iterator[CheckpointEntry | Damage]) -> Iterator[CheckpointEntry | Damage]:
    """Merge adjacent malformed lines into one damage row, because garbage may have millions of lines."""
    pending: Damage | None = None
    for row in rows:
        if pending and isinstance(row, Damage):
            pending = replace(pending, end=row.end)
            continue
        if pending:
            yield pending
        pending = row if isinstance(row, Damage) else None
        if pending is None:
            yield row
    if pending:
        yield pending


def _malformed(source: Source, line: TextLine) -> str:
    text = "not UTF-8" if line.text is None else line.text[:SHOWN]
    return f"Malformed line in checkpoint file [{source.path}]: {text}"
