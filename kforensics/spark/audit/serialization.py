"""Serialization of values between tasks: pickled, in frames that fit into rows of a data frame.

A row carries the address of its value; sorted by address, the values of a partition are in log order. Both sides run
the same version of this package: nothing of this is ever stored.
"""

from __future__ import annotations

import pickle  # nosec B403  # for values that tasks of one job exchange
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
    "deserialize",
    "rows_of",
    "schema_text",
    "serialize",
    "to_frames",
    "values",
]

Row = tuple[Any, ...]
# With protocol 5, NumPy restores each array in Python: a summary has eighty and would take twice as long.
PROTOCOL = 4
# Bytes of a frame, and limits of one record batch.
FRAME = 4 << 20
MAX_BATCH_BYTES = 8 << 20
MAX_BATCH_ROWS = 1 << 12


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a value: which tasks get it, and where it is in its partition.

    Attributes:
        partition: number of the partition in the plan.
        split_slot: task that reads it.
        run_slot: task that merges consecutive splits.
        final_slot: task that evaluates the partition.
        ordinal: position in the partition; negative for what precedes all splits.
        sequence: position among the values of one origin.
    """

    partition: int
    split_slot: int
    run_slot: int
    final_slot: int
    ordinal: int = -1
    sequence: int = 0


# Sort order of the rows of a partition: log order.
IN_PARTITION = ("partition", "ordinal", "sequence", "piece")
# Sort order of rows that are processed independently: whole partitions before splits.
IN_TASK = ("ordinal", "partition", "sequence", "piece")
# Sort order of rows that meet in one task: first what belongs together, then by origin.
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
NAMES = {"int64": "long", "int32": "int", "binary": "binary", "string": "string", "bool": "boolean"}


def schema_text(schema: pa.Schema) -> str:
    """Return a schema as Spark DDL."""
    return ", ".join(f"{field.name} {NAMES[str(field.type)]}" for field in schema)


def serialize(value: Any) -> bytes:
    """Return a value as bytes."""
    return pickle.dumps(value, PROTOCOL)


def deserialize(data: bytes) -> Any:
    """Return a value that another task of this job has serialized."""
    return pickle.loads(data)  # noqa: S301  # nosec B301  # nothing from outside ever gets here


def to_frames(address: Address, value: Any) -> Iterator[Row]:
    """Yield a value as rows, one per frame."""
    data = serialize(value)
    for piece, start in enumerate(range(0, len(data), FRAME)):
        yield *astuple(address), piece, data[start : start + FRAME]


def values(rows: Iterable[Row]) -> Iterator[tuple[Address, Any]]:
    """Yield the values of rows; the frames of one value are consecutive.

    Raises:
        ValueError: several values have the same address, so all but one would be lost.
    """
    for key, group in groupby(rows, lambda row: row[:-2]):
        frames = list(group)
        if any(frame[-2] != piece for piece, frame in enumerate(frames)):
            raise ValueError(f"several values have the address {Address(*key)}")
        yield Address(*key), deserialize(b"".join(frame[-1] for frame in frames))


def batches_of(schema: pa.Schema, rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Yield rows as record batches of limited size; the last column is binary."""
    waiting: list[Row] = []
    size = 0
    for row in rows:
        waiting.append(row)
        size += len(row[-1])
        if size >= MAX_BATCH_BYTES or len(waiting) == MAX_BATCH_ROWS:
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
