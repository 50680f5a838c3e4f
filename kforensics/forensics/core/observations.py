"""Observations: compact, mergeable rows about batches that match a check's collector.

A collector looks at a chunk of batches, or at neighboring batches, with NumPy over whole columns. Kinds that can match
millions of batches are aggregated, one row per kind and producer; the others are listed. Once the whole partition is
known, the check decides which observations become findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np

from kforensics.forensics.core.record_arrays import concat_rows, take_rows
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.reporting import MOST
from kforensics.forensics.core.rules import Rules
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.format.array_types import IntArray, StructArray

__all__ = [
    "OBSERVATION",
    "ObservationSum",
    "Observed",
    "around_damage",
    "batches",
    "failed_checksums",
    "first_observations",
    "log_positions",
    "merge_observations",
    "observation_of_all",
    "observations_of",
    "observe",
    "sum_observations",
]


class Observed(IntEnum):
    """Kinds of observations; the names match the codes of findings."""

    # Listed.
    OFFSET_NOT_MONOTONIC = 0
    OFFSET_OVERLAP = 1
    OFFSET_GAP = 2
    LEADER_EPOCH_REGRESSED = 3
    MARKER_TIMESTAMP_REGRESSED = 4
    BATCH_CRC_MISMATCH = 5
    # Of no finding, but of when damage was written.
    AROUND_DAMAGE = 6
    # Aggregated: one row per kind and producer id, from here on.
    BATCH_MAGIC_OLD = 101
    BATCH_ATTRIBUTES_UNKNOWN = 102
    SEQ_COUNT_MISMATCH = 103
    CONTROL_SHELL = 104
    MARKER_MALFORMED = 105
    MARKER_FLAGS_UNEXPECTED = 106
    EPOCH_NEAR_EXHAUSTION = 107
    EPOCH_MAX_USED = 108
    TS_FUTURE = 109
    TS_ANCIENT = 110
    TS_MISSING = 111
    TS_APPEND_REGRESSED = 112
    PRODUCER_EXPIRED_BY_TIMESTAMP = 113


FIRST_AGGREGATED = 100

OBSERVATION = np.dtype(
    [
        ("kind", "i2"),
        ("producer_id", "i8"),
        ("producer_epoch", "i2"),
        ("first_offset", "i8"),  # of the first matching batch
        ("last_offset", "i8"),  # of the last one
        ("count", "i8"),  # batches
        ("amount", "i8"),  # a measure of the kind; the largest one if aggregated
        ("previous", "i8"),  # what the batch was compared with
        ("timestamp", "i8"),  # of the first batch
        ("segment", "i4"),
        ("position", "i8"),
    ]
)


ObservationArray: TypeAlias = StructArray


def observe(
    kind: Observed, batches: BatchColumns, matches: Any = slice(None), *, amount: Any = 0, previous: Any = -1
) -> ObservationArray:
    """Return one observation for each matching batch.

    Args:
        kind: what was observed.
        batches: a chunk.
        matches: mask or indexes of the matching batches.
        amount: a number for each batch of the chunk, or one for all.
        previous: what each batch was compared with; an array or one number.
    """
    matching = batches[matches]
    rows = np.empty(len(matching), OBSERVATION)
    rows["kind"], rows["count"] = kind, 1
    for name in ("producer_id", "producer_epoch", "last_offset", "segment", "position"):
        rows[name] = getattr(matching, name)
    rows["first_offset"], rows["timestamp"] = matching.base_offset, matching.max_timestamp
    for name, value in (("amount", amount), ("previous", previous)):
        rows[name] = value[matches] if isinstance(value, np.ndarray) else value
    return rows


def merge_observations(parts: Sequence[ObservationArray]) -> ObservationArray:
    """Return observations as one array in log order, with the kinds to be aggregated added up.

    Args:
        parts: observations of consecutive parts of the log.
    """
    filled = [part for part in parts if len(part)]
    if not filled:
        return np.empty(0, OBSERVATION)
    rows = filled[0] if len(filled) == 1 else np.concatenate(filled)
    is_aggregated = rows["kind"] >= FIRST_AGGREGATED
    if not is_aggregated.any():
        return rows
    return concat_rows([take_rows(rows, ~is_aggregated), _aggregated(take_rows(rows, is_aggregated))])


def _aggregated(rows: ObservationArray) -> ObservationArray:
    order = np.lexsort((np.arange(len(rows)), rows["producer_id"], rows["kind"]))
    rows = take_rows(rows, order)
    is_first = np.ones(len(rows), bool)
    is_first[1:] = (rows["kind"][1:] != rows["kind"][:-1]) | (rows["producer_id"][1:] != rows["producer_id"][:-1])
    starts = np.flatnonzero(is_first)
    totals = take_rows(rows, starts)
    totals["count"] = np.add.reduceat(rows["count"], starts)
    totals["amount"] = np.maximum.reduceat(rows["amount"], starts)
    totals["last_offset"] = np.maximum.reduceat(rows["last_offset"], starts)
    return totals


def observations_of(rows: ObservationArray, kind: Observed) -> ObservationArray:
    """Return the observations of one kind, in log order."""
    if not len(rows):  # the common case when there are very many small logs
        return rows
    matching: ObservationArray = rows[rows["kind"] == kind]
    return matching.take(np.argsort(matching["first_offset"], kind="stable"))


def first_observations(
    kind: Observed, chunk: BatchColumns, matches: Any, *, amount: Any = 0, previous: Any = -1
) -> ObservationArray:
    """Return observations of the first matching batches, as many as are reported; the last one counts the others too.

    Args:
        kind: what was observed.
        chunk: the batches.
        matches: mask of the matching batches, not all False.
        amount: a measure of the kind.
        previous: what each was compared with.
    """
    indexes = np.flatnonzero(matches)
    rows = observe(kind, chunk, indexes[:MOST], amount=amount, previous=previous)
    rows["count"][-1] += len(indexes) - len(rows)
    return rows


def log_positions(observations: ObservationArray) -> IntArray:
    """Return one number for segment and position of each observation, ascending in log order."""
    positions: IntArray = observations["segment"].astype("i8") << 40 | observations["position"]
    return positions


def around_damage(before: BatchColumns, after: BatchColumns, _: Rules) -> Iterator[ObservationArray]:
    """Yield the batches after damage, and those that are damaged, with the batch before each.

    ``previous`` is the time of that one, unknown if it is damaged, too, and ``amount`` its last offset.
    """
    is_same = before.segment == after.segment
    is_apart = after.position != np.where(is_same, before.position + before.size, 0)
    is_around = is_apart | ~before.crc_valid | ~after.crc_valid
    if is_around.any():
        times = np.where(before.crc_valid, before.max_timestamp, NO_TIME)
        yield first_observations(Observed.AROUND_DAMAGE, after, is_around, amount=before.last_offset, previous=times)


def failed_checksums(batches: BatchColumns, _: Rules) -> Iterator[ObservationArray]:
    """Yield the batches whose checksum fails."""
    if not batches.crc_valid.all():
        yield first_observations(Observed.BATCH_CRC_MISMATCH, batches, ~batches.crc_valid)


def observation_of_all(kind: Observed, chunk: BatchColumns, matches: Any, *, amount: Any = 0) -> ObservationArray:
    """Return one observation for all matching batches, placed at the first of them.

    Args:
        kind: what was observed, one of the aggregated kinds.
        chunk: the batches.
        matches: mask of the matching batches, not all False.
        amount: a number for each batch; the largest is kept.
    """
    indexes = np.flatnonzero(matches)
    row = observe(kind, chunk, indexes[:1])
    # No producer in particular, so that observations of other parts can be added to it.
    row["producer_id"] = row["producer_epoch"] = -1
    row["count"], row["last_offset"] = len(indexes), chunk.last_offset[indexes].max()
    row["amount"] = amount[indexes].max() if isinstance(amount, np.ndarray) else amount
    return row


@dataclass(frozen=True, slots=True)
class ObservationSum:
    """All observations of one kind in a partition, added up.

    Attributes:
        count: number of batches.
        amount: the largest amount.
        first_offset: first offset of the first batch.
        last_offset: last offset of the last batch.
        at: segment and position of the first batch.
        timestamp: largest timestamp of the first batch in ms, NO_TIME if it has none.
    """

    count: int
    amount: int
    first_offset: int
    last_offset: int
    at: tuple[int, int]
    timestamp: int

    @property
    def offsets(self) -> tuple[int, int]:
        """First and last offset."""
        return self.first_offset, self.last_offset

    def that(self, does: str, do: str) -> str:
        """Return the start of a sentence about the batches, with the verb in singular or plural."""
        if self.count == 1:
            return f"1 batch, with offsets {self.first_offset} to {self.last_offset}, {does}"
        return f"{self.count} batches between offsets {self.first_offset} and {self.last_offset} {do}"


def sum_observations(observations: ObservationArray, kind: Observed) -> ObservationSum | None:
    """Return the sum of all observations of a kind, None if there are none."""
    rows = observations_of(observations, kind)
    if not len(rows):
        return None
    return ObservationSum(
        count=int(rows["count"].sum()),
        amount=int(rows["amount"].max()),
        first_offset=int(rows["first_offset"][0]),
        last_offset=int(rows["last_offset"].max()),
        at=(int(rows["segment"][0]), int(rows["position"][0])),
        timestamp=int(rows["timestamp"][0]),
    )


def batches(count: int) -> str:
    """Return a number of batches with its noun.

    >>> batches(1), batches(2)
    ('1 batch', '2 batches')
    """
    return "1 batch" if count == 1 else f"{count} batches"
