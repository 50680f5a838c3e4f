"""Formats settings as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from kforensics.forensics.core.formatting import format_count, format_duration, format_size
from kforensics.forensics.core.result_rows import Rows
from kforensics.parsers.format.text_encoding import printable
from kforensics.render.screen import Line, Screen

# Values of a setting that are listed.
LISTED = 20
MINUTE_MS = 60_000
LONG_MAX = (1 << 63) - 1


def setting_lines(rows: Rows, screen: Screen) -> Iterator[str]:
    """Yield the settings: for each its values, where they come from, and what it means.

    Args:
        rows: rows of the table of settings, those of a name together.
        screen: where they are shown.
    """
    is_cut = False
    columns = ("name", "meaning", "value", "source", "entity", "log_dirs")
    for (name, meaning), values in groupby(rows.only(*columns), key=itemgetter(0, 1)):
        yield name
        listed = [row[2:] for row in values]
        has_several = sum(entity is None for _, _, entity, _ in listed) > 1
        limit = screen.shown(LISTED)
        for row in listed[:limit]:
            yield Line(f"  {_value(name, row, has_several=has_several)}", hang=4)
        if limit is not None and len(listed) > limit:
            is_cut = True
            yield f"  … and {format_count(len(listed) - limit, 'more value')}"
        yield Line(f"    {meaning}", hang=4)
    if is_cut:
        yield from screen.rest("--all")


def _value(name: str, row: Sequence[Any], *, has_several: bool) -> str:
    value, source, entity, log_dirs = row
    owner = "" if entity is None or source.endswith(entity) else f" for {entity}"
    where = f" in {log_dirs}" if has_several and entity is None and log_dirs else ""
    return printable(f"{value}{_in_units(name, value)}{owner}{where}: {source}")


def _in_units(name: str, value: str) -> str:
    """Return the value of a setting as people read it, in brackets; empty if it has no unit."""
    unit = name.rpartition(".")[2]
    if unit not in ("ms", "minutes", "bytes"):
        return ""
    number = int(value)
    if number < 0 or number == LONG_MAX:
        return " (no limit)"
    if unit == "bytes":
        return f" ({format_size(number)})"
    return f" ({format_duration(number * (MINUTE_MS if unit == 'minutes' else 1))})"
