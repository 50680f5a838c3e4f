"""Values on their way from one task to the next: pickled, in frames that fit into rows of any engine.

A row says where its value belongs, so that whoever sorts rows by that has the values of a partition in the order of its
log. Values stay within one version of this package: nothing of this is ever stored.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

__all__ = [
    "FRAME",
    "IN_BUCKET",
    "IN_PARTITION",
    "IN_TASK",
    "SCHEMA",
    "Address",
    "Row",
    "batches_of",
    "framed",
    "loaded",
    "packed",
    "rows_of",
    "schema_text",
    "values",
]

Row = tuple[Any, ...]
# With the next one, NumPy loads an array in Python: a summary has eighty, and takes twice as long.
PROTOCOL = 4
# Bytes of a frame, and of the rows that are handed over together.
FRAME = 4 << 20
TOGETHER = 8 << 20
ROWS_TOGETHER = 1 << 12


@dataclass(frozen=True, slots=True)
class Address:
    """Where a value belongs.

    Attributes:
        partition: number of the partition, as the plan has it.
        split_slot: which task reads.
        run_slot: which task joins what follows each other.
        final_slot: which task judges.
        ordinal: where in the partition; below 0 for what comes before all parts of it.
        sequence: where among the values that come from there.
    """

    partition: int
    split_slot: int
    run_slot: int
    final_slot: int
    ordinal: int = -1
    sequence: int = 0


# By what rows of a partition are sorted, so that they come in the order of its log.
IN_PARTITION = ("partition", "ordinal", "sequence", "piece")
# Likewise for what is worked on by itself: first all that comes before parts.
IN_TASK = ("ordinal", "partition", "sequence", "piece")
# Likewise for what comes to one place from many: first what belongs together, then where it is from.
IN_BUCKET = ("partition", "ordinal", "run_slot", "final_slot", "sequence", "piece")
SCHEMA = pa.schema(
    [
        ("partition", pa.int64()),
        ("split_slot", pa.int32()),
        ("run_slot", pa.int32()),
        ("final_slot", pa.int32()),
        ("ordinal", pa.int64()),
        ("sequence", pa.int32()),
        ("piece", pa.int32()),
        ("payload", pa.binary()),
    ]
)
NAMES = {"int64": "long", "int32": "int", "binary": "binary", "string": "string"}


def schema_text(schema: pa.Schema) -> str:
    """Return a schema of such rows as Spark's DDL."""
    return ", ".join(f"{field.name} {NAMES[str(field.type)]}" for field in schema)


def packed(value: Any) -> bytes:
    """Return a value as it travels."""
    return pickle.dumps(value, PROTOCOL)


def loaded(data: bytes) -> Any:
    """Return a value that another task of this job has packed."""
    return pickle.loads(data)  # noqa: S301  # nothing from outside ever gets here


def framed(address: Address, value: Any) -> Iterator[Row]:
    """Yield the rows of a value."""
    data = packed(value)
    for piece, start in enumerate(range(0, len(data), FRAME)):
        yield *astuple(address), piece, data[start : start + FRAME]


def values(rows: Iterable[Row]) -> Iterator[tuple[Address, Any]]:
    """Yield the values of rows of which those of a value follow each other."""
    for key, some in groupby(rows, lambda row: row[:-2]):
        yield Address(*key), loaded(b"".join(row[-1] for row in some))


def batches_of(schema: pa.Schema, rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Yield rows as record batches, never many bytes at a time; the last column is bytes."""
    waiting: list[Row] = []
    size = 0
    for row in rows:
        waiting.append(row)
        size += len(row[-1])
        if size >= TOGETHER or len(waiting) == ROWS_TOGETHER:
            yield _batch(schema, waiting)
            waiting, size = [], 0
    if waiting:
        yield _batch(schema, waiting)


def _batch(schema: pa.Schema, rows: list[Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Yield the rows of record batches."""
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
