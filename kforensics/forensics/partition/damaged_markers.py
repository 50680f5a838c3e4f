"""Markers in batches whose checksum fails: any of their fields may be wrong, so they show nothing."""

from __future__ import annotations

import numpy as np

from kforensics.forensics.core.record_types import TransactionArray
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray

__all__ = ["damaged_markers", "is_damaged", "precedes_damage", "spans_damage"]

NOTHING = -1


def damaged_markers(state: PartitionState) -> IntArray:
    """Return the offsets of the markers whose batch fails its checksum. Reads all transactions if one does."""
    batches = _damaged_batches(state)
    if not len(batches):
        return batches
    offsets = [_within(state.empty_markers, batches)]
    offsets += [_within(rows, batches, "marker_") for rows in state.transaction_store.closed]
    return np.unique(np.concatenate(offsets))


def is_damaged(damaged: IntArray, rows: StructArray, *fields: str) -> BoolArray:
    """Return which rows lean on a damaged marker.

    Args:
        damaged: the offsets of the damaged markers of the partition.
        rows: any rows.
        fields: their fields with offsets of markers.
    """
    matches: BoolArray = np.zeros(len(rows), bool)
    for name in fields:
        matches |= np.isin(rows[name], damaged)
    return matches


def spans_damage(state: PartitionState, transactions: TransactionArray) -> BoolArray:
    """Return which closed transactions have a damaged batch between their first batch and their marker.

    It may be the marker of an earlier transaction, with a kind that is no longer readable.
    """
    batches = _damaged_batches(state)
    first, marker = (_codes(transactions, prefix) for prefix in ("", "marker_"))
    spans: BoolArray = np.searchsorted(batches, first) < np.searchsorted(batches, marker, "right")
    return spans


def precedes_damage(state: PartitionState, transactions: TransactionArray) -> BoolArray:
    """Return which open transactions may have ended in damage or in a lost segment, or are themselves damaged."""
    starts = [
        segment << 32 | (row.start if row.inside_batch is None else row.inside_batch)
        for segment, row in state.damage_before_end
    ]
    precedes: BoolArray = _codes(transactions, "") < max(starts, default=NOTHING)
    ends, gaps = np.full(len(transactions), state.log_end_offset), state.log_gaps
    for ranges in gaps.uncertain:
        precedes |= ranges.are_between(transactions["last_offset"], ends)
    return precedes


def _damaged_batches(state: PartitionState) -> IntArray:
    """Return the codes of the damaged batches, sorted."""
    damaged = [(segment, row.inside_batch) for segment, row in state.log.damage if row.inside_batch is not None]
    segments, positions = np.array(damaged, "i8").reshape(-1, 2).T
    batches: IntArray = np.sort(segments << 32 | positions)
    return batches


def _within(rows: StructArray, batches: IntArray, prefix: str = "") -> IntArray:
    offsets: IntArray = rows["marker_offset"][np.isin(_codes(rows, prefix), batches)]
    return offsets


def _codes(rows: StructArray, prefix: str) -> IntArray:
    """Return one number for the position of each batch in its segment; segments are smaller than 2 GB."""
    codes: IntArray = rows[f"{prefix}segment"].astype("i8") << 32 | rows[f"{prefix}position"].astype("i8")
    return codes
