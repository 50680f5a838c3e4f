"""Builds HTML whose only markup is this package's own, and formats values as the text of its table cells.

Everything else is escaped.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kforensics.forensics.core.formatting import format_time_ms
from kforensics.parsers.format.text_encoding import printable

# Characters of a value that a cell shows.
MAX_CELL_CHARACTERS = 60
NULL_TEXT = "null"
# Timestamp columns whose names do not end with "timestamp".
OTHER_TIME_COLUMNS = ("mtime_ms", "delete_horizon_ms", "since")
PATH_COLUMNS = ("path", "log_dir")


def cell_text(column: str, value: Any) -> str:
    """Return a value as printable text, cut to the width of a cell.

    Args:
        column: name of the column.
        value: a Python value from ``pyarrow``.
    """
    if isinstance(value, list):
        return _truncate(", ".join(map(_item_text, value[:MAX_CELL_CHARACTERS])))
    if _is_time(column, value):
        return format_time_ms(value)
    if column in PATH_COLUMNS:
        return _truncate_start(str(value))
    return _value_text(value)


def cell_tooltip(column: str, value: Any) -> str:
    """Return what a cell leaves out: the size of a payload, the full path, the milliseconds of a time; else ``""``."""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if column in PATH_COLUMNS:
        return str(value)
    return f"{value} ms" if _is_time(column, value) else ""


def bytes_text(data: bytes, max_characters: int = MAX_CELL_CHARACTERS) -> str:
    r"""Return the beginning of a payload as text.

    Bytes that are not UTF-8 and characters that a terminal would act on are escaped.

    >>> bytes_text(b"paid\x1b[2J\xff")
    'paid\\x1b[2J\\xff'
    """
    text = printable(data[: max_characters * 4].decode("utf-8", "backslashreplace"))
    if len(text) <= max_characters and len(data) <= max_characters * 4:
        return text
    return f"{text[:max_characters]}… ({len(data)} bytes)"


def column_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column of text rows."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def is_time_column(column: str) -> bool:
    """Return whether the numbers of a column are times in milliseconds; -1 means that there is none."""
    return column.endswith("timestamp") or column in OTHER_TIME_COLUMNS


def _is_time(column: str, value: Any) -> bool:
    return isinstance(value, int) and value >= 0 and is_time_column(column)


def _item_text(item: Any) -> str:
    """Return a list item as text: a record header, a struct of numbers, or anything else that SQL puts into a list."""
    if not isinstance(item, Mapping):
        return _value_text(item)
    if set(item) == {"key", "value"} and isinstance(item["value"], bytes | None):
        return f"{printable(str(item['key'])[:MAX_CELL_CHARACTERS])}={_value_text(item['value'])}"
    return _truncate(" ".join(f"{printable(str(name))}={_value_text(value)}" for name, value in item.items()))


def _value_text(value: Any) -> str:
    if value is None:
        return NULL_TEXT
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bytes):
        return bytes_text(value)
    return _truncate(printable(str(value)[: MAX_CELL_CHARACTERS + 1]))


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_CELL_CHARACTERS else f"{text[:MAX_CELL_CHARACTERS]}…"


def _truncate_start(path: str) -> str:
    text = printable(path[-MAX_CELL_CHARACTERS:])
    return text if len(path) <= MAX_CELL_CHARACTERS else f"…{text}"


VOID_ELEMENTS = ("link", "meta")


class Markup(str):
    """HTML made by :func:`element`; :func:`joined` escapes all other text."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str | None) -> Markup:
    """Return an HTML element.

    >>> element("a", "a < b", href="#x", class_="link", aria_label='"', title=None)
    '<a href="#x" class="link" aria-label="&quot;">a &lt; b</a>'

    Args:
        name: name of the element, always a literal.
        children: markup is kept, other text is escaped.
        attributes: values by name, escaped; None omits an attribute. A trailing underscore of the name is removed, and
            other underscores become hyphens.
    """
    pairs = [(key, value) for key, value in attributes.items() if value is not None]
    written = "".join(f' {key.rstrip("_").replace("_", "-")}="{joined(value)}"' for key, value in pairs)
    return Markup(f"<{name}{written}>" if name in VOID_ELEMENTS else f"<{name}{written}>{joined(*children)}</{name}>")


def description_list(pairs: Iterable[tuple[str, str]]) -> Markup:
    """Return an HTML list of terms and their descriptions."""
    return element("dl", *(element("div", element("dt", term), element("dd", text)) for term, text in pairs))


def joined(*children: str) -> Markup:
    """Return children one after the other: markup as it is, other text escaped."""
    return Markup("".join(child if isinstance(child, Markup) else _escape(child) for child in children))


def _escape(text: str) -> str:
    """Escape HTML, and characters that change the direction of text or that a terminal acts on."""
    return html.escape(printable(text), quote=True)
