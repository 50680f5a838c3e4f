"""Stores for reports: audits of samples, and generated ones of any size and with any text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import kforensics
from kforensics.analyses.audit import STORED
from kforensics.forensics.audit.incident_parts import IDENTITY
from kforensics.parsers.tables.arrow import arrow_schema_of
from tests.command import SAMPLES

AS_OF_MS = 1_795_266_000_000
# Columns whose values the report interprets; other columns may have any value.
KNOWN_VALUES = {
    "severity": ("critical", "error", "warning", "info"),
    "verdict": ("critical", "clean", "unread"),
    "outcome": ("open", "aborted", "committed"),
    "atomic": ("no", "yes", "pending"),
    "kind": ("log",),
    "state": ("live",),
    "evidence": ('{"figure": 1}',),
    "code": ("lso-stuck", "txn-late", "seq-gap"),
}

# Columns of the table of incidents that are JSON.
LISTS = ("brokers", "transactional_ids", "producer_ids", "producer_epochs", "groups")
Texts = Callable[[str, int], str]


def audited(folder: Path, *samples: str, **options: Any) -> Path:
    """Return the store of an audit of samples."""
    store = folder / "store"
    kforensics.audit([SAMPLES / name for name in samples], output=store, as_of=AS_OF_MS, **options)
    return store


def plain(column: str, row: int) -> str:
    """Return an ordinary text."""
    return f"{column} {row}"


def forged(folder: Path, rows: Mapping[str, int], texts: Texts = plain, *, parts: int = 1) -> Path:
    """Return a generated store with rows in every table.

    Args:
        folder: parent folder of the store.
        rows: number of rows by table; other tables have three.
        texts: returns the text of a column and row.
        parts: number of files of each table.
    """
    store = folder / "forged"
    counts = {name: rows.get(name, 3) for name in STORED}
    for name, count in counts.items():
        (store / name).mkdir(parents=True)
        table = _table(name, count, texts)
        for part in range(parts):
            first, end = part * count // parts, (part + 1) * count // parts
            pq.write_table(table.slice(first, end - first), store / name / f"part-{part}.parquet")
    write_manifest(store, rows=counts)
    return store


def write_manifest(store: Path, **overrides: Any) -> None:
    """Write a manifest with some values overridden."""
    manifest = {
        "schema": "kforensics-store/1",
        "version": "0.1.0",
        "command": ["audit", "/logs"],
        "as_of_ms": AS_OF_MS,
        "options": {"records": True},
        "partitions": 3,
        "inputs": {"tables": ["files"]},
        "seconds": {"examine": 1.5},
        "rows": {},
    }
    (store / "manifest.json").write_text(json.dumps({**manifest, **overrides}), encoding="utf-8")


def _table(name: str, count: int, texts: Texts) -> pa.Table:
    """Return generated rows; those after the first 300 repeat them with other partitions and offsets."""
    schema = arrow_schema_of(STORED[name])
    few = min(count, 300)
    columns = {field.name: _column(field, few, texts) for field in schema}
    if name == "incidents":
        columns |= _json_columns(few, texts)
    base = pa.table(columns, schema=schema)
    table = base.take(pa.array(np.arange(count) % few)) if count > few else base
    for column, of in (("partition", np.arange(count) % 1009), ("first_offset", np.arange(count) * 7919 % 1_000_003)):
        if column in schema.names and count > few:
            field = schema.field(column)
            table = table.set_column(schema.get_field_index(column), field, pa.array(of).cast(field.type))
    return table


def _json_columns(count: int, texts: Texts) -> dict[str, pa.Array]:
    """Return the JSON columns of incidents; the nth one names the nth finding."""
    schema = arrow_schema_of(STORED["findings"])
    findings = {column: _column(schema.field(column), count, texts).to_pylist() for column in IDENTITY}
    named = [json.dumps([{column: findings[column][row] for column in IDENTITY}]) for row in range(count)]
    codes = [json.dumps({findings["code"][row]: 1}) for row in range(count)]
    lists = {column: [json.dumps([texts(column, row)]) for row in range(count)] for column in LISTS}
    return {column: pa.array(values) for column, values in (lists | {"evidence": named, "codes": codes}).items()}


def _column(field: pa.Field, count: int, texts: Texts) -> pa.Array:
    numbers = range(count)
    if field.name in KNOWN_VALUES:
        values = KNOWN_VALUES[field.name]
        return pa.array([values[row % len(values)] for row in numbers], field.type)
    if pa.types.is_string(field.type):
        return pa.array([texts(field.name, row) for row in numbers], field.type)
    if pa.types.is_binary(field.type):
        return pa.array([texts(field.name, row).encode(errors="surrogateescape") for row in numbers], field.type)
    if pa.types.is_boolean(field.type):
        return pa.array([row % 2 == 0 for row in numbers])
    if pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
        return pa.array([row + 1 for row in numbers]).cast(field.type)
    return pa.nulls(count, field.type)
