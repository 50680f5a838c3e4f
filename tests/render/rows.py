"""Rows for any table: ordinary, null, empty and extreme values, and hostile payloads."""

from typing import Any

from kforensics.parsers.tables.schemas import Table

HOSTILE = 'a,"b"\r\n\t\x1b[2J\x9b31m\x00\u202eé値😀'
HOSTILE_BYTES = b'\xff\xfe,"\r\n\x1b[2J\x00' + "é😀".encode()
LEAST = {f"int{bits}": -(2 ** (bits - 1)) for bits in (8, 16, 32, 64)}

ORDINARY: dict[str, Any] = {
    **dict.fromkeys(LEAST, 7),
    "bool": True,
    "string": "orders",
    "binary": b"key",
    "headers": [{"key": "trace", "value": b"1"}],
}
EMPTY: dict[str, Any] = {**dict.fromkeys(LEAST, 0), "bool": False, "string": "", "binary": b"", "headers": []}
EXTREME: dict[str, Any] = {
    **LEAST,
    "bool": False,
    "string": HOSTILE,
    "binary": HOSTILE_BYTES,
    "headers": [
        {"key": HOSTILE, "value": HOSTILE_BYTES},
        {"key": "", "value": None},
        {"key": "twice", "value": b""},
        {"key": "twice", "value": b"2"},
    ],
}
LARGEST = {**EXTREME, **{name: -least - 1 for name, least in LEAST.items()}}


def rows_of(table: Table) -> list[tuple[Any, ...]]:
    """Return ordinary, empty, extreme and null rows; the path is never null."""
    rows = [tuple(values[column.type] for column in table.columns) for values in (ORDINARY, EMPTY, EXTREME, LARGEST)]
    nulls = tuple("t-0/0.log" if column.name == "path" else None for column in table.columns)
    return [*rows, nulls]


def as_text(value: Any) -> Any:
    """Return a value with bytes as text, as in formats without bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list):
        return [{name: as_text(part) for name, part in header.items()} for header in value]
    return value
