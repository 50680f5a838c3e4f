"""Reads tables as Spark's tasks do, in this process and without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from kforensics.parsers.tables.arrow import arrow_schema_of
from kforensics.spark.source.input_slices import Work, works_of
from kforensics.spark.source.source_options import Wanted, wanted_of
from kforensics.spark.source.source_reading import record_batches

__all__ = ["planned", "read", "read_of"]


def planned(table: str, path: Path, **options: object) -> tuple[Wanted, list[Work]]:
    """Return what is wanted and what the tasks get, both after serialization."""
    given = {"table": table, "path": str(path), **{name: str(value) for name, value in options.items()}}
    wanted = wanted_of(given)
    moved: tuple[Wanted, list[Work]] = pickle.loads(pickle.dumps((wanted, [*works_of(wanted)])))  # noqa: S301  # ours
    return moved


def read_of(wanted: Wanted, works: Sequence[Work]) -> pa.Table:
    """Return the rows that tasks read."""
    batches = [batch for work in works for batch in record_batches(work, wanted)]
    return pa.Table.from_batches(batches, arrow_schema_of(wanted.table))


def read(table: str, path: Path, **options: object) -> pa.Table:
    """Return the rows of a table."""
    return read_of(*planned(table, path, **options))
