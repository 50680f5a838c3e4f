"""Counts the data batches of a partition by producer, codec and size; the counts of parts of a log add up.

Sizes are counted in powers of two, and only the producers with the highest ids have rows of their own, so the rows are
limited whatever the size of the log. Which producers these are does not depend on where the log is cut: a producer
among the highest of the whole log is among the highest of every part that it is in.
"""

from __future__ import annotations

from math import prod
from typing import Any, TypeAlias

import numpy as np

from kforensics.forensics.core.record_arrays import concat_rows, take_rows
from kforensics.forensics.core.result_rows import Rows, Words, nullable
from kforensics.forensics.core.tables import RESULTS
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.format.array_types import IntArray, StructArray
from kforensics.parsers.format.rows import CODEC_MASK, CODECS
from kforensics.parsers.log.log_rows import Place

__all__ = ["MAX_PRODUCERS", "NO_BATCHES", "batch_histogram", "histogram_rows", "merged_histograms"]

BATCH_HISTOGRAM = np.dtype(
    [
        ("producer_id", "i8"),  # OTHERS for all that have no rows of their own
        ("codec", "i8"),
        ("power", "i8"),  # of two: the largest one up to the size
        ("batches", "i8"),
        ("records", "i8"),
        ("bytes", "i8"),
    ]
)
BatchHistogramArray: TypeAlias = StructArray
NO_BATCHES = np.empty(0, BATCH_HISTOGRAM)
KEYS, SUMS = ("power", "codec", "producer_id"), ("batches", "records", "bytes")
# Producers of a partition with rows of their own, in addition to batches without a producer id.
MAX_PRODUCERS = 256
OTHERS, NO_PRODUCER = int(np.iinfo("i8").min), -1
# Kinds of batches of one producer: each codec number with each power of two.
POWERS = 64
KINDS = (CODEC_MASK + 1) * POWERS
EXPONENT_SHIFT, EXPONENT_BIAS = 52, 1023
# Cells that are counted without sorting, if there are not more batches.
MOST_CELLS = 1 << 16


def batch_histogram(batches: BatchColumns) -> BatchHistogramArray:
    """Return the data batches among some batches as BATCH_HISTOGRAM rows, sorted by producer, codec and size.

    Args:
        batches: data batches only.
    """
    if not len(batches):
        return NO_BATCHES
    rows, cells = _counted(batches)
    rows["batches"] = np.bincount(cells, minlength=len(rows))
    for name, values in (("records", batches.count), ("bytes", batches.size)):
        # Sums of floating-point numbers are exact here: the bytes of a chunk are far below 2**53.
        rows[name] = np.bincount(cells, values, len(rows))
    return _limited(rows)


def _counted(batches: BatchColumns) -> tuple[BatchHistogramArray, IntArray]:
    """Return the rows without their sums, and the row of each batch; without sorting if the values are few."""
    # The exponent of a floating-point number; exact, because sizes are far below 2**53.
    powers = (np.maximum(batches.size, 1).astype("f8").view("i8") >> EXPONENT_SHIFT) - EXPONENT_BIAS
    columns = (batches.producer_id, (batches.attributes & CODEC_MASK).astype("i8"), powers)
    firsts = [int(column.min()) for column in columns]
    spans = [int(column.max()) - first + 1 for column, first in zip(columns, firsts, strict=True)]
    if prod(spans) <= max(MOST_CELLS, len(batches)):
        numbers = (columns[0] - firsts[0]) * spans[1] + columns[1] - firsts[1]
        numbers = numbers * spans[2] + powers - firsts[2]
        counts = np.bincount(numbers)
        present, cells = np.flatnonzero(counts), (np.cumsum(counts > 0) - 1)[numbers]
        values = [part + first for part, first in zip(np.unravel_index(present, spans), firsts, strict=True)]
    else:
        producers, ranks = np.unique(columns[0], return_inverse=True)
        present, cells = np.unique(ranks * KINDS + columns[1] * POWERS + powers, return_inverse=True)
        values = [producers[present // KINDS], present % KINDS // POWERS, present % POWERS]
    rows = np.empty(len(present), BATCH_HISTOGRAM)
    rows["producer_id"], rows["codec"], rows["power"] = values
    return rows, cells


def merged_histograms(left: BatchHistogramArray, right: BatchHistogramArray) -> BatchHistogramArray:
    """Return the sums of two parts of a log."""
    if not (len(left) and len(right)):
        return left if len(left) else right
    return _limited(_summed(concat_rows([left, right])))


def _limited(rows: BatchHistogramArray) -> BatchHistogramArray:
    """Return rows with at most MAX_PRODUCERS producers; the rows of all others are summed."""
    producers = rows["producer_id"]
    with_id = np.unique(producers[(producers != NO_PRODUCER) & (producers != OTHERS)])
    if len(with_id) <= MAX_PRODUCERS:
        return rows
    limited = rows.copy()
    limited["producer_id"][(producers < with_id[-MAX_PRODUCERS]) & (producers != NO_PRODUCER)] = OTHERS
    return _summed(limited)


def _summed(rows: BatchHistogramArray) -> BatchHistogramArray:
    rows = take_rows(rows, np.lexsort([rows[name] for name in KEYS]))
    is_first = np.ones(len(rows), bool)
    is_first[1:] = np.logical_or.reduce([rows[name][1:] != rows[name][:-1] for name in KEYS])
    starts = np.flatnonzero(is_first)
    summed = take_rows(rows, starts)
    for name in SUMS:
        summed[name] = np.add.reduceat(rows[name], starts)
    return summed


def histogram_rows(place: Place, histogram: BatchHistogramArray) -> Rows:
    """Return the rows of the table ``batch_histograms`` of a partition."""
    codecs: IntArray = histogram["codec"]
    columns: dict[str, Any] = {
        **place._asdict(),
        "producer_id": nullable(histogram["producer_id"], OTHERS),
        "compression_type": Words(np.where(codecs < len(CODECS), codecs, -1), CODECS),
        "size_from": np.left_shift(1, histogram["power"]),
        **{name: histogram[name] for name in SUMS},
        "uncompressed_bytes": nullable(histogram["bytes"], codecs != CODECS.index("none")),
    }
    return Rows(RESULTS["batch_histograms"], len(histogram), columns)
