"""Reads ``partition.metadata``: the topic id of a partition folder.

Rule: ``org.apache.kafka.storage.internals.checkpoint.PartitionMetadataReadBuffer``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from kforensics.parsers.files.source import Source
from kforensics.parsers.files.text_lines import (
    TextLine,
    parse_int,
    read_small_file,
    shrunk_damage,
    split_fields,
    text_lines,
)
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.format.text_encoding import ZERO_UUID, is_uuid_text

__all__ = ["PartitionMetadata", "read_partition_metadata"]


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """The content of the file.

    Attributes:
        position: 0.
        size: size of both lines in bytes.
        version: 0; Kafka also accepts higher versions, to allow downgrades.
        topic_id: topic id as UUID text.
    """

    position: int
    size: int
    version: int
    topic_id: str


def read_partition_metadata(source: Source) -> Iterator[PartitionMetadata | Damage]:
    """Yield the content of the file, or the damage that prevents reading it."""
    data = read_small_file(source)
    if isinstance(data, Damage):
        yield data
        return
    row = _read(source.path, list(islice(text_lines(data), 2)), len(data))
    yield row
    if isinstance(row, PartitionMetadata) and row.size < len(data):
        yield Damage(row.size, len(data), "trailing", f"{len(data) - row.size} bytes after the second line")
    yield from shrunk_damage(source, data)


def _read(path: str, lines: list[TextLine], end: int) -> PartitionMetadata | Damage:
    values = [_value(line) for line in lines]
    for line, value in zip(lines, values, strict=True):
        if value is None:
            return Damage(0, end, "malformed", _malformed(path, line))
    if len(lines) < 2:  # version and topic id
        return Damage(0, end, "truncated", "the file ends before the topic id")
    version, topic_id = parse_int(values[0] or ""), values[1] or ""
    if version is None:
        return Damage(0, end, "malformed", _malformed(path, lines[0]))
    if version < 0:
        return Damage(0, end, "version", f"Unrecognized version of partition metadata file ({path}): {version}")
    if not is_uuid_text(topic_id):
        return Damage(0, end, "malformed", _malformed(path, lines[1]))
    if topic_id == ZERO_UUID:
        return Damage(0, end, "malformed", f"Invalid topic ID in partition metadata file ({path})")
    return PartitionMetadata(0, lines[1].end, version, topic_id)


def _value(line: TextLine) -> str | None:
    """Return the second of two fields; Kafka ignores the first, the name."""
    fields = [] if line.text is None else split_fields(line.text)
    return fields[1] if len(fields) == 2 else None  # name and value


def _malformed(path: str, line: TextLine) -> str:
    text = "not UTF-8" if line.text is None else line.text
    return f"Malformed line in partition metadata file [{path}]: {text}"
