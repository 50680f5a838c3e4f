"""A value of a table as text that fits a cell: payloads cut and spelled out, times in UTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kforensics.parsers.format.printable import printable
from kforensics.render.formatting import SECOND_MS, moment

__all__ = ["LONGEST", "bytes_text", "cell", "detail", "is_time", "moment_ms", "widths"]

# Signs of a payload that are shown, and of anything else.
LONGEST = 60
NULL = "null"
# Beside those whose name says timestamp.
TIMES = ("mtime_ms", "delete_horizon_ms")


def cell(name: str, value: Any) -> str:
    """Return the text of a value, all of it printable.

    Args:
        name: name of the column.
        value: as pyarrow gives it.
    """
    if value is None:
        return NULL
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bytes):
        return bytes_text(value)
    if isinstance(value, list):
        return _cut(", ".join(map(_entry, value[:LONGEST])))
    if is_time(name, value):
        return moment_ms(value)
    return _tail(str(value)) if name in ("path", "log_dir") else _cut(printable(str(value)[: LONGEST + 1]))


def detail(name: str, value: Any) -> str:
    """Return what a cell leaves out: the number behind a time, all of a path, the size of a payload; else nothing."""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if name in ("path", "log_dir"):
        return str(value)
    return f"{value} ms" if is_time(name, value) else ""


def bytes_text(data: bytes, longest: int = LONGEST) -> str:
    r"""Return the beginning of bytes as text; what is no UTF-8, and what a terminal could act on, is escaped.

    >>> bytes_text(b"paid\x1b[2J\xff")
    'paid\\x1b[2J\\xff'
    """
    text = printable(data[: longest * 4].decode("utf-8", "backslashreplace"))
    if len(text) <= longest and len(data) <= longest * 4:
        return text
    return f"{text[:longest]}… ({len(data)} bytes)"


def is_time(name: str, value: Any) -> bool:
    """Whether a number is a time in ms, by the name of its column or field; -1 stands for none."""
    return isinstance(value, int) and value >= 0 and (name.endswith("timestamp") or name in TIMES)


def moment_ms(timestamp_ms: int) -> str:
    """Return a time in UTC, to the millisecond.

    >>> moment_ms(1_700_000_000_123)
    '2023-11-14 22:13:20.123'
    """
    second = moment(timestamp_ms)
    return second if second == str(timestamp_ms) else f"{second}.{timestamp_ms % SECOND_MS:03}"


def _entry(entry: Mapping[str, Any]) -> str:
    """Return a header, or one of several numbers, as text."""
    if set(entry) == {"key", "value"}:
        value = entry["value"]
        return f"{printable(str(entry['key'])[:LONGEST])}={NULL if value is None else bytes_text(value)}"
    return " ".join(f"{name}={value}" for name, value in entry.items())


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _tail(path: str) -> str:
    text = printable(path[-LONGEST:])
    return text if len(path) <= LONGEST else f"…{text}"


def widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column of text."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)]
