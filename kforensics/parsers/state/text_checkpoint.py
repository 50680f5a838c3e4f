"""The checkpoint files of a log directory and of a partition: a version, a count, and a line for each entry.

Rule: ``org.apache.kafka.server.common.CheckpointFile`` and the formatters of its users. Kafka refuses the whole file at
the first fault; here every sound line is shown, and the fault stands beside it.
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
    shrunk,
    small_file,
    split_words,
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
# Most characters of a bad line to quote.
SHOWN = 200


@dataclass(frozen=True, slots=True)
class CheckpointHeader:
    """The first two lines, or the first alone where the second is missing or wrong.

    Attributes:
        position: 0.
        size: bytes of the lines.
        version: 0.
        count: entries that follow; None if the file ends before it, which Kafka takes for none, or if it is wrong.
    """

    position: int
    size: int
    version: int
    count: int | None


@dataclass(frozen=True, slots=True)
class OffsetCheckpointEntry:
    """A partition's offset: recovery point, log start, high watermark or first dirty offset, by the file's name."""

    position: int
    size: int
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class LeaderEpochEntry:
    """The first offset that was written in a leader epoch."""

    position: int
    size: int
    leader_epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class RemoteOffsetEntry:
    """How far a partition of ``__remote_log_metadata`` has been consumed."""

    position: int
    size: int
    partition: int
    offset: int


Entry = OffsetCheckpointEntry | LeaderEpochEntry | RemoteOffsetEntry
Row = CheckpointHeader | Entry | Damage
Parse = Callable[[TextLine, list[str]], Entry | None]


def read_offset_checkpoint(source: Source) -> Iterator[Row]:
    """Yield the rows of a recovery-point, log-start, replication or cleaner offset checkpoint."""
    return _read(source, _offset_entry)


def read_leader_epochs(source: Source) -> Iterator[Row]:
    """Yield the rows of a ``leader-epoch-checkpoint``."""
    return _read(source, _leader_epoch_entry)


def read_remote_offsets(source: Source) -> Iterator[Row]:
    """Yield the rows of a ``_rlmm_committed_offsets``."""
    return _read(source, _remote_offset_entry)


def _offset_entry(line: TextLine, words: list[str]) -> Entry | None:
    if len(words) != 3:  # topic, partition, offset
        return None
    partition, offset = parse_int(words[1]), parse_long(words[2])
    # A leading blank makes an empty topic, which Kafka's reader lets pass and no broker can have written.
    if partition is None or offset is None or not words[0]:
        return None
    return OffsetCheckpointEntry(line.start, line.end - line.start, words[0], partition, offset)


def _leader_epoch_entry(line: TextLine, words: list[str]) -> Entry | None:
    numbers = _int_and_long(words)
    return LeaderEpochEntry(line.start, line.end - line.start, *numbers) if numbers else None


def _remote_offset_entry(line: TextLine, words: list[str]) -> Entry | None:
    numbers = _int_and_long(words)
    return RemoteOffsetEntry(line.start, line.end - line.start, *numbers) if numbers else None


def _int_and_long(words: list[str]) -> tuple[int, int] | None:
    if len(words) != 2:  # two numbers
        return None
    first, second = parse_int(words[0]), parse_long(words[1])
    return None if first is None or second is None else (first, second)


def _read(source: Source, parse: Parse) -> Iterator[Row]:
    data = small_file(source, LIMIT)
    if isinstance(data, Damage):
        yield data
        return
    lines = text_lines(data)
    head = _head(source, data, list(islice(lines, 2)))
    yield from head
    # Without a version that is known the other lines mean nothing, and the damage covers them.
    if head and isinstance(head[0], CheckpointHeader):
        yield from _joined(_entry(source, line, parse) for line in lines)
    yield from shrunk(source, data)


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
    count, found = parse_int(lines[1].text or ""), count_lines(data) - 2
    if count == found:
        return [CheckpointHeader(0, lines[1].end, version, count)]
    alone = CheckpointHeader(0, lines[0].end, version, None)
    if count is None:
        return [alone, lines[1].damage("malformed", _malformed(source, lines[1]))]
    message = f"Expected [{count}] entries in checkpoint file [{source.path}], but found only [{found}]"
    return [alone, lines[1].damage("count", message)]


def _entry(source: Source, line: TextLine, parse: Parse) -> Entry | Damage:
    row = None if line.text is None else parse(line, split_words(line.text))
    return row or line.damage("malformed", _malformed(source, line))


def _joined(rows: Iterator[Entry | Damage]) -> Iterator[Entry | Damage]:
    """Make one of neighbouring malformed lines: garbage may consist of millions."""
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
