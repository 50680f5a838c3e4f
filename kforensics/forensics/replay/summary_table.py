"""Summaries as Arrow tables, in which they travel between processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kforensics.forensics.core.record_arrays import joined_records
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.replay.summary_record import PENDING, PRODUCER_SUMMARY, Summary

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["summary_from_table", "summary_to_table"]

PARTITION = np.dtype(
    [
        ("first_offset", "i8"),
        ("last_offset", "i8"),
        ("batches", "i8"),
        ("holes", "i8"),
        ("has_first", "?"),
        ("has_last", "?"),
        ("sequences", "?"),
    ]
)
# The number in the column ``kind`` says of what type the bytes in ``record`` are.
KINDS = (PARTITION, PRODUCER_SUMMARY, PENDING)
# Rows in a record batch: what Arrow's offsets of 4 bytes can hold, and what fits one message of Spark.
SLICE = 1 << 16


def summary_to_table(summary: Summary) -> pa.Table:
    """Return a table with one row for the partition, one per producer and one per pending anomaly.

    The columns are ``kind`` (int8) and ``record`` (binary, as numpy lays it out). It may be cut and put together
    again, as long as the order of the rows stays.
    """
    import pyarrow as pa

    parts = (_partition(summary), summary.producers, summary.pending)
    batches = [
        pa.record_batch([pa.array(np.full(len(piece), kind, "i1")), _binary(piece)], ["kind", "record"])
        for kind, part in enumerate(parts)
        for piece in (part[first : first + SLICE] for first in range(0, len(part), SLICE))
    ]
    return pa.Table.from_batches(batches)


def summary_from_table(table: pa.Table) -> Summary:
    """Return the summary that ``summary_to_table`` made a table of."""
    found = [[np.zeros(0, dtype)] for dtype in KINDS]
    for batch in table.to_batches():
        kind = batch.column("kind").to_numpy()
        for number, dtype in enumerate(KINDS):
            found[number].append(_records(batch.column("record").filter(kind == number), dtype))
    (partition,), producers, pending = (joined_records(records) for records in found)
    return Summary(
        producers=producers,
        pending=pending,
        first_offset=int(partition["first_offset"]) if partition["has_first"] else None,
        last_offset=int(partition["last_offset"]) if partition["has_last"] else None,
        batches=int(partition["batches"]),
        holes=int(partition["holes"]),
        sequences=bool(partition["sequences"]),
    )


def _partition(summary: Summary) -> Records:
    first, last = summary.first_offset, summary.last_offset
    numbers = (first or 0, last or 0, summary.batches, summary.holes)
    return np.array([(*numbers, first is not None, last is not None, summary.sequences)], PARTITION)


def _binary(records: Records) -> pa.Array:
    import pyarrow as pa

    offsets = np.arange(len(records) + 1, dtype="i4") * np.int32(records.dtype.itemsize)
    data = np.ascontiguousarray(records).view("u1")
    return pa.Array.from_buffers(pa.binary(), len(records), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _records(found: pa.Array, dtype: np.dtype[np.void]) -> Records:
    return np.frombuffer(b"".join(found.to_pylist()), dtype)
