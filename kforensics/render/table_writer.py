"""Writes rows as aligned columns under a heading, for people."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import IO, Any

from kforensics.parsers.format.text_encoding import printable
from kforensics.parsers.tables.arrow import chunked
from kforensics.parsers.tables.schemas import PLACE, Table

Row = Sequence[Any]

PAGE_ROWS = 500
MAX_CELL_WIDTH, MAX_LINE_WIDTH = 80, 118
PLACE_COLUMNS = tuple(column.name for column in PLACE)
# What it means that a table is empty, where that may look like another answer.
NO_ROWS = {
    "lost_records": (
        "no replica among the files has records that a later leader lacks. Records that all of them have truncated"
        " are not in this table: the finding unclean-election-loss names their offsets."
    )
}
LEFT_ALIGNED_TYPES = ("string", "binary", "headers")


class TableWriter:
    """Writes aligned columns under a heading; a value that all rows of a page share is above the columns.

    Args:
        out: binary stream to write to.
    """

    def __init__(self, out: IO[bytes]) -> None:
        self._out, self._has_written = out, False

    def write(self, table: Table, rows: Iterable[Row]) -> None:
        """Write all rows of a table."""
        is_empty = True
        for page in chunked(rows, PAGE_ROWS):
            self._write(_page(table, page))
            is_empty = False
        if is_empty:
            self._write(_no_rows(table))

    def close(self) -> None:
        """Do nothing: the format has no end."""

    def _write(self, text: str) -> None:
        if self._has_written:
            self._out.write(b"\n")
        self._has_written = True
        self._out.write(text.encode(errors="backslashreplace"))


def _no_rows(table: Table) -> str:
    if table.name not in NO_ROWS:
        return f"{table.name}: no rows\n"
    lines = textwrap.wrap(f"{table.name}: no rows: {NO_ROWS[table.name]}", MAX_LINE_WIDTH, subsequent_indent="  ")
    return "\n".join((*lines, ""))


def _page(table: Table, rows: list[Row]) -> str:
    """Return a page: heading, shared values, then columns without those that are all null."""
    columns = dict(zip(table.names, zip(*rows, strict=True), strict=True))
    heading = table.name
    if "path" in columns:
        suffix, columns["path"] = _split_paths(columns["path"])
        heading += suffix
        columns.pop("log_dir", None)  # every path starts with it
    columns = {name: column for name, column in columns.items() if any(value is not None for value in column)}
    shared = [name for name, column in columns.items() if _is_shared(name, column)]
    values = [f"{name} {_cell(columns[name][0])}" for name in shared if name != "path"]
    varying = {name: column for name, column in columns.items() if name not in shared}
    lines = [heading, *_shared_lines(values, is_single_row=len(rows) == 1), *_aligned(table, varying)]
    return "\n".join(lines) + "\n"


def _split_paths(paths: tuple[str | None, ...]) -> tuple[str, tuple[str | None, ...]]:
    """Return the suffix of the heading, with the folder that all paths share, and the paths without it."""
    known = [path for path in paths if path is not None]
    if not known:
        return "", paths
    if len(set(paths)) == 1:
        return f" of {printable(known[0])}", paths
    pairs = zip(min(known), max(known), strict=False)
    prefix = "".join(character for character, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    folder = prefix[: prefix.rfind("/") + 1]
    names = tuple(path[len(folder) :] if path else None for path in paths)
    return f" under {printable(folder)}" if folder else " ", names


def _is_shared(name: str, column: tuple[Any, ...]) -> bool:
    """Return whether the value of a column belongs above the rows; for a single row, only the place does."""
    if len(column) == 1:
        return name in (*PLACE_COLUMNS, "path")
    return all(value == column[0] for value in column[1:])


def _shared_lines(values: list[str], *, is_single_row: bool) -> list[str]:
    if not values:
        return []
    # Lines must not break within a value, nor between its name and the value.
    unbreakable = [value.replace(" ", "\xa0") for value in values]
    text = ("" if is_single_row else "in all rows: ") + ", ".join(unbreakable)
    lines = textwrap.wrap(text, MAX_LINE_WIDTH, break_long_words=False, break_on_hyphens=False, subsequent_indent="  ")
    return [line.replace("\xa0", " ") for line in lines]


def _aligned(table: Table, columns: dict[str, tuple[Any, ...]]) -> Iterator[str]:
    types = {column.name: column.type for column in table.columns}
    blocks = []
    for name, column in columns.items():
        cells = [name, *map(_cell, column)]
        width = max(map(len, cells))
        is_left_aligned = types[name] in LEFT_ALIGNED_TYPES
        blocks.append([cell.ljust(width) if is_left_aligned else cell.rjust(width) for cell in cells])
    return ("  ".join(line).rstrip() for line in zip(*blocks, strict=True))


def without_bytes(value: Any) -> Any:
    """Return bytes as text and other values unchanged, for formats that cannot represent bytes."""
    return bytes(value).decode("utf-8", "replace") if isinstance(value, bytes | memoryview) else value


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | bytes | memoryview | int):
        text = str(without_bytes(value))
    else:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=without_bytes)
    if len(text) > MAX_CELL_WIDTH:
        text = f"{text[: MAX_CELL_WIDTH - 1]}…"
    return printable(text)
