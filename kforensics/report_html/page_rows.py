"""Rows of a store as a page holds them: JSON of few kinds of values, none of which a browser or a person trips over."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from kforensics.parsers.format.printable import printable
from kforensics.parsers.tables.schemas import Column
from kforensics.render.cells import bytes_text
from kforensics.report_html.report_columns import ShownTable, kind_of
from kforensics.report_html.stored_evidence import Store
from kforensics.report_html.top_rows import first_rows

__all__ = ["Sheet", "as_json", "place_name", "sheet", "sheet_of", "value_of"]

PLACE_COLUMNS = (
    {"name": "topic-partition", "kind": "text", "doc": "which partition"},
    {"name": "broker", "kind": "number", "doc": "id of the broker from meta.properties"},
)
LOG_DIR = {"name": "log_dir", "kind": "text", "doc": "the log directory as given"}
# Rows of a table, and characters of all of them together: what is beyond is in the store.
ROWS, CHARACTERS = 1000, 400_000
LONGEST = 400
# Larger integers are no longer exact in a browser.
EXACT = 1 << 53

Sheet = dict[str, Any]


def sheet(store: Store, shown: ShownTable) -> Sheet:
    """Return a table of a report: columns, the first rows, and how many there are in all.

    Raises:
        InputError: the table cannot be read.
    """
    total = 0

    def batches() -> Iterator[Any]:
        nonlocal total
        for batch in shown.batches(store):
            total += len(batch)
            yield batch

    found = first_rows(batches(), shown.order, ROWS)
    rows = ([*_place(row), *_values(shown.columns, row), row["log_dir"]] for row in _pieces(found))
    columns = [*PLACE_COLUMNS, *map(_column, shown.statements), LOG_DIR]
    return sheet_of(shown.caption, columns, rows, lambda: total)


def sheet_of(caption: str, columns: Sequence[Mapping[str, str]], rows: Iterable[Any], total: Any) -> Sheet:
    """Return a table, of so many rows as a page can hold.

    Args:
        caption: what it shows.
        columns: name, kind and meaning of each.
        rows: their values.
        total: gives how many rows there are once these were gone through.
    """
    held: list[list[Any]] = []
    size = 0
    for row in rows:
        values = [value_of(value) for value in row]
        size += len(as_json(values))
        if size > CHARACTERS or len(held) == ROWS:
            break
        held.append(values)
    return {"caption": caption, "columns": list(columns), "rows": held, "total": total()}


def _column(column: Column) -> dict[str, str]:
    return {"name": column.name, "kind": kind_of(column), "doc": column.doc}


def _pieces(found: Any) -> Iterator[dict[str, Any]]:
    for batch in [] if found is None else found.to_batches(64):
        yield from batch.to_pylist()


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return place_name(row), row["broker_id"]


def place_name(row: Mapping[str, Any]) -> str | None:
    """Return the name of the partition of a row."""
    return None if row["topic"] is None else f"{row['topic']}-{row['partition']}"


def _values(columns: Sequence[str], row: Mapping[str, Any]) -> Iterator[Any]:
    return (row[name] for name in columns)


def value_of(value: Any) -> Any:
    r"""Return a value as JSON of a page has it: text printable and cut, large numbers as text.

    >>> value_of("a\x1b[2J"), value_of(b"\x00"), value_of(2**60), value_of(0.1234567)
    ('a\\x1b[2J', '\\x00', '1152921504606846976', 0.123457)
    """
    if isinstance(value, bytes):
        return bytes_text(value)
    if isinstance(value, str):
        cut = value if len(value) <= LONGEST else f"{value[:LONGEST]}…"
        return printable(cut)
    if isinstance(value, float):
        return float(f"{value:.6g}") if isfinite(value) else None
    if isinstance(value, int) and not -EXACT <= value <= EXACT:
        return str(value)
    return value


def as_json(value: Any) -> str:
    r"""Return JSON that nothing in it can break out of, whatever element it stands in.

    >>> as_json({"</script>": "<!--\u2028&"})
    '{"\\u003c/script\\u003e":"\\u003c!--\\u2028\\u0026"}'
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
