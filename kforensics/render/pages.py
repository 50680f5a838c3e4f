"""Tables for eyes: a page of rows at a time, so that the widths of a page are all that must be known."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import IO, Any

from kforensics.parsers.format.printable import printable
from kforensics.parsers.tables.arrow import chunked
from kforensics.parsers.tables.schemas import PLACE, Table

__all__ = ["TableWriter", "plain"]

PAGE = 500
WIDEST_CELL, WIDEST_LINE = 80, 118
PLACES = tuple(column.name for column in PLACE)
TEXT_TYPES = ("string", "binary", "headers")
Row = Sequence[Any]


class TableWriter:
    """Aligned columns under a heading; what is the same in all rows of a page is said once, above them."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out, self._written = out, False

    def write(self, table: Table, rows: Iterable[Row]) -> None:
        """Write all rows of a table, page by page."""
        empty = True
        for page in chunked(rows, PAGE):
            self._write(_page(table, page))
            empty = False
        if empty:
            self._write(f"{table.name}: no rows\n")

    def close(self) -> None:
        """Nothing ends the output."""

    def _write(self, text: str) -> None:
        if self._written:
            self._out.write(b"\n")
        self._written = True
        self._out.write(text.encode(errors="backslashreplace"))


def _page(table: Table, rows: list[Row]) -> str:
    """Return a page: heading, what all rows share, and columns; null columns are left out."""
    columns = dict(zip(table.names, zip(*rows, strict=True), strict=True))
    heading = table.name
    if "path" in columns:
        whose, columns["path"] = _heading(columns["path"])
        heading += whose
        del columns["log_dir"]  # the paths begin with it
    used = {name: column for name, column in columns.items() if any(value is not None for value in column)}
    same = [name for name, column in used.items() if _is_said_once(name, column)]
    shown = {name: column for name, column in used.items() if name not in same}
    said = [f"{name} {_cell(used[name][0])}" for name in same if name != "path"]
    lines = [heading, *_wrapped(said, alone=len(rows) == 1), *_aligned(table, shown)]
    return "\n".join(lines) + "\n"


def _heading(paths: tuple[str | None, ...]) -> tuple[str, tuple[str | None, ...]]:
    """Return whose rows these are, and the paths without the folder they share."""
    known = [path for path in paths if path is not None]
    if not known:
        return "", paths
    if len(set(paths)) == 1:
        return f" of {printable(known[0])}", paths
    pairs = zip(min(known), max(known), strict=False)
    shared = "".join(left for left, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    folder = shared[: shared.rfind("/") + 1]
    cut = tuple(path[len(folder) :] if path else None for path in paths)
    return f" under {printable(folder)}" if folder else " ", cut


def _is_said_once(name: str, column: tuple[Any, ...]) -> bool:
    """Whether a column is better said above the rows; of a lone row, only where it is from."""
    if len(column) == 1:
        return name in (*PLACES, "path")
    return all(value == column[0] for value in column[1:])


def _wrapped(said: list[str], *, alone: bool) -> list[str]:
    if not said:
        return []
    # A blank in a value would be a place to break at; names and values stay together.
    words = [word.replace(" ", "\xa0") for word in said]
    text = ("" if alone else "in all rows: ") + ", ".join(words)
    lines = textwrap.wrap(text, WIDEST_LINE, break_long_words=False, break_on_hyphens=False, subsequent_indent="  ")
    return [line.replace("\xa0", " ") for line in lines]


def _aligned(table: Table, columns: dict[str, tuple[Any, ...]]) -> Iterable[str]:
    types = {column.name: column.type for column in table.columns}
    blocks = []
    for name, column in columns.items():
        cells = [name, *map(_cell, column)]
        width = max(map(len, cells))
        blocks.append([cell.ljust(width) if types[name] in TEXT_TYPES else cell.rjust(width) for cell in cells])
    return ("  ".join(line).rstrip() for line in zip(*blocks, strict=True))


def plain(value: Any) -> Any:
    """Return bytes as text, for formats that have no bytes."""
    return bytes(value).decode("utf-8", "replace") if isinstance(value, bytes | memoryview) else value


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | bytes | memoryview | int):
        text = str(plain(value))
    else:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=plain)
    if len(text) > WIDEST_CELL:
        text = f"{text[: WIDEST_CELL - 1]}…"
    return printable(text)
