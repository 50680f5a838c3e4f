"""Selects batches and records in Arrow columns, by the rules of :class:`.selection.Selection`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kforensics.parsers.log.selection import HalfOpenRange, Selection

__all__ = ["Span", "batches_kept", "batches_to_look_into", "range_of", "records_kept"]


@dataclass(frozen=True, slots=True)
class Span:
    """Positions of the batches that may contain selected records.

    Attributes:
        start: position of the first batch.
        stop: position after the last batch.
        positions: positions of all of them, ascending.
    """

    start: int
    stop: int
    positions: Any


def batches_kept(batch: pa.RecordBatch, selection: Selection) -> pa.RecordBatch:
    """Return the batches that match by their headers.

    Args:
        batch: rows of ``batches``.
        selection: offsets, times and producer.
    """
    masks = [*_in_ranges(batch, selection), *_of_producer(batch, selection)]
    return batch.filter(reduce(pc.and_, masks)) if masks else batch


def batches_to_look_into(batch: pa.RecordBatch, selection: Selection) -> pa.RecordBatch:
    """Return the batches that may contain matching records: those that match, and those whose headers may be wrong.

    Args:
        batch: rows of ``batches``.
        selection: offsets, times and producer.
    """
    ranges = list(_in_ranges(batch, selection))
    masks = [pc.or_(reduce(pc.and_, ranges), _in_doubt(batch))] if ranges else []
    masks += _of_producer(batch, selection)
    return batch.filter(reduce(pc.and_, masks)) if masks else batch


def _in_ranges(batch: pa.RecordBatch, selection: Selection) -> Iterator[pa.Array]:
    if selection.offsets:
        yield from _at_least(batch.column("last_offset"), selection.offsets.first)
        # An unknown offset may match.
        yield from _below(pc.fill_null(batch.column("base_offset"), 0), selection.offsets.end)
    if selection.times:
        yield from _at_least(batch.column("max_timestamp"), selection.times.first)


def _of_producer(batch: pa.RecordBatch, selection: Selection) -> Iterator[pa.Array]:
    if selection.producer_id is not None:
        yield pc.fill_null(pc.equal(batch.column("producer_id"), selection.producer_id), False)  # noqa: FBT003


def _in_doubt(batch: pa.RecordBatch) -> pa.Array:
    """Return which headers are inconsistent: an invalid checksum, or more records than offsets."""
    room = pc.subtract(batch.column("last_offset"), batch.column("base_offset"))
    fits = pc.and_(pc.greater(batch.column("count"), -1), pc.less_equal(batch.column("count"), pc.add(room, 1)))
    return pc.invert(pc.and_(batch.column("crc_valid"), pc.fill_null(fits, False)))  # noqa: FBT003


def range_of(kept: Iterable[pa.RecordBatch]) -> Span | None:
    """Return the positions of batches, None if there are none.

    Args:
        kept: rows of ``batches``, in log order.
    """
    positions, stop = [np.empty(0, np.int64)], 0
    for batch in kept:
        if batch.num_rows:
            positions.append(batch.column("position").to_numpy())
            stop = batch.column("position")[-1].as_py() + batch.column("size")[-1].as_py()
    all_positions = np.concatenate(positions)
    return Span(int(all_positions[0]), stop, all_positions) if len(all_positions) else None


def records_kept(batch: pa.RecordBatch, selection: Selection, span: Span) -> pa.RecordBatch:
    """Return the records that match.

    Args:
        batch: rows of ``records`` within the span.
        selection: offsets and times.
        span: the batches they may belong to.
    """
    batch_positions = batch.column("batch_position").to_numpy()
    nearest = np.searchsorted(span.positions, batch_positions).clip(max=len(span.positions) - 1)
    mask = pa.array(span.positions[nearest] == batch_positions)
    masks = [
        mask,
        *_within(batch.column("offset"), selection.offsets),
        *_within(batch.column("timestamp"), selection.times),
    ]
    return batch.filter(reduce(pc.and_, masks))


def _within(column: pa.Array, wanted: HalfOpenRange | None) -> Iterator[pa.Array]:
    if wanted:
        yield from _at_least(column, wanted.first)
        yield from _below(column, wanted.end)


def _at_least(column: pa.Array, first: int | None) -> Iterator[pa.Array]:
    if first is not None:
        yield pc.greater_equal(column, first)


def _below(column: pa.Array, end: int | None) -> Iterator[pa.Array]:
    if end is not None:
        yield pc.less(column, end)
