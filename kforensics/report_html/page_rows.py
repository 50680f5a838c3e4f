"""Converts rows of a store to the JSON tables of a page, of limited size and safe for browsers and readers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from kforensics.parsers.format.text_encoding import printable
from kforensics.parsers.tables.schemas import Column
from kforensics.render.markup import bytes_text
from kforensics.report_html.report_tables import ReportTable, column_kind
from kforensics.report_html.store_reader import SortKey, StoreReader, first_rows

TOPIC_PARTITION_COLUMNS = (
    {"name": "topic-partition", "kind": "text", "doc": "topic and partition"},
    {"name": "broker", "kind": "number", "doc": "broker id from meta.properties"},
)
LOG_DIR_COLUMN = {"name": "log_dir", "kind": "text", "doc": "the log directory as given"}
INPUT_COLUMNS = (
    {"name": "path", "kind": "text", "doc": "file as given"},
    {"name": "size", "kind": "size", "doc": "bytes"},
    {"name": "mtime_ms", "kind": "time", "doc": "last modification"},
)
SHA256_COLUMN = {
    "name": "sha256",
    "kind": "text",
    "doc": "SHA-256 of the file at the time of the audit; empty if the file was gone by then",
}
# Rows of a table, and characters of these rows together. The store has the others.
MAX_PAGE_ROWS, MAX_TABLE_CHARACTERS = 1000, 400_000
MAX_VALUE_CHARACTERS = 400
# JavaScript numbers represent integers exactly up to here.
MAX_EXACT_INTEGER = 1 << 53

# A column that the store does not have: name, kind and description, and its value for a row.
DerivedColumn = tuple[dict[str, str], Callable[[Mapping[str, Any]], Any]]
PageTable = dict[str, Any]


def page_table(store: StoreReader, table: ReportTable, derived: Sequence[DerivedColumn] = ()) -> PageTable:
    """Return a table for the page: columns, the first rows, and the number of all rows.

    Args:
        store: the store.
        table: which rows and columns.
        derived: further columns, which come first after the place.

    Raises:
        InputError: the table cannot be read.
    """
    total = 0

    def batches() -> Iterator[Any]:
        nonlocal total
        for batch in table.batches(store):
            total += len(batch)
            yield batch

    selected = first_rows(batches(), table.order, MAX_PAGE_ROWS)
    rows = (
        [
            topic_partition(row),
            row["broker_id"],
            *(value(row) for _, value in derived),
            *(row[name] for name in table.columns),
            row["log_dir"],
        ]
        for batch in ([] if selected is None else selected.to_batches(64))
        for row in batch.to_pylist()
    )
    columns = [
        *TOPIC_PARTITION_COLUMNS,
        *(column for column, _ in derived),
        *map(_column, table.column_docs),
        LOG_DIR_COLUMN,
    ]
    return make_page_table(table.caption, columns, rows, lambda: total)


def make_page_table(
    caption: str, columns: Sequence[Mapping[str, str]], rows: Iterable[Sequence[Any]], total: Callable[[], int]
) -> PageTable:
    """Return a table for the page with as many rows as a page can hold.

    Args:
        caption: caption of the table.
        columns: name, kind and description of each column.
        rows: the rows.
        total: returns the number of all rows; called after ``rows`` is consumed.
    """
    shown: list[list[Any]] = []
    size = 0
    for row in rows:
        values = [page_value(value) for value in row]
        size += len(page_json(values))
        if size > MAX_TABLE_CHARACTERS or len(shown) == MAX_PAGE_ROWS:
            break
        shown.append(values)
    return {"caption": caption, "columns": list(columns), "rows": shown, "total": total()}


def _column(column: Column) -> dict[str, str]:
    return {"name": column.name, "kind": column_kind(column), "doc": column.doc}


def inputs_table(store: StoreReader) -> PageTable:
    """Return the input files of the audit, with their checksums if the manifest has them.

    Raises:
        InputError: the table of files cannot be read.
    """
    inputs: Any = store.manifest["inputs"]
    is_listed = isinstance(inputs, list)
    files = inputs if is_listed else list(_files(store))
    total = len(inputs) if is_listed else store.count("files")
    columns = (*INPUT_COLUMNS, SHA256_COLUMN) if any("sha256" in file for file in files) else INPUT_COLUMNS
    rows = ([file.get(column["name"]) for column in columns] for file in files)
    return make_page_table("Inputs", columns, rows, lambda: total)


def _files(store: StoreReader) -> Iterator[dict[str, Any]]:
    names = [column["name"] for column in INPUT_COLUMNS]
    files = first_rows(store.batches("files", names), [SortKey("path")], MAX_PAGE_ROWS)
    yield from [] if files is None else files.to_pylist()


def topic_partition(row: Mapping[str, Any]) -> str | None:
    """Return the partition of a row as ``topic-partition``, None if its topic is unknown."""
    return None if row["topic"] is None else f"{row['topic']}-{row['partition']}"


def page_value(value: Any) -> Any:
    r"""Return a value for the JSON of a page: text printable and truncated, large integers as text.

    >>> page_value("a\x1b[2J"), page_value(b"\x00"), page_value(2**60), page_value(0.1234567)
    ('a\\x1b[2J', '\\x00', '1152921504606846976', 0.123457)
    """
    if isinstance(value, bytes):
        return bytes_text(value)
    if isinstance(value, str):
        truncated = value if len(value) <= MAX_VALUE_CHARACTERS else f"{value[:MAX_VALUE_CHARACTERS]}…"
        return printable(truncated)
    if isinstance(value, float):
        return float(f"{value:.6g}") if isfinite(value) else None
    if isinstance(value, int) and not -MAX_EXACT_INTEGER <= value <= MAX_EXACT_INTEGER:
        return str(value)
    return value


def page_json(value: Any) -> str:
    r"""Return JSON that is safe inside any HTML element.

    >>> page_json({"</script>": "<!--\u2028&"})
    '{"\\u003c/script\\u003e":"\\u003c!--\\u2028\\u0026"}'
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
