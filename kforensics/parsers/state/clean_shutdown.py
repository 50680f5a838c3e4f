"""``.kafka_cleanshutdown``: a log directory was closed in order.

Rule: ``org.apache.kafka.storage.internals.checkpoint.CleanShutdownFileHandler``. Its existence is the message; since
3.7 it also tells the broker epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kforensics.parsers.files.source import Source
from kforensics.parsers.files.text_lines import shrunk, small_file
from kforensics.parsers.format.json_text import parse_object
from kforensics.parsers.format.rows import Damage

__all__ = ["CleanShutdown", "read_clean_shutdown"]


@dataclass(frozen=True, slots=True)
class CleanShutdown:
    """The marker.

    Attributes:
        position: 0.
        size: bytes of the JSON, 0 if there is none.
        version: of the JSON, None before 3.7.
        broker_epoch: -1 if unknown, None if it is not told.
    """

    position: int
    size: int
    version: int | None
    broker_epoch: int | None


def read_clean_shutdown(source: Source) -> Iterator[CleanShutdown | Damage]:
    """Yield the marker, and any content that is not understood: even so the shutdown was clean."""
    data = small_file(source)
    if isinstance(data, Damage):
        yield from (CleanShutdown(0, 0, None, None), data)
        return
    values = _values(data)
    if isinstance(values, Damage):
        yield from (CleanShutdown(0, 0, None, None), values)
    else:
        yield CleanShutdown(0, len(data), _number(values, "version"), _number(values, "brokerEpoch"))
    yield from shrunk(source, data)


def _values(data: bytes) -> dict[str, Any] | Damage:
    if not data:
        return {}
    try:
        values = parse_object(data.decode())
    except UnicodeDecodeError:
        values = "the text is not UTF-8"
    return Damage(0, len(data), "malformed", values) if isinstance(values, str) else values


def _number(values: dict[str, Any], name: str) -> int | None:
    value = values.get(name)
    return value if type(value) is int else None
