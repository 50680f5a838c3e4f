"""Matches the batches of two replicas by base offset and classifies each pair."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kforensics.forensics.replicas.batch_windows import ReplicaBatches
from kforensics.parsers.columns.batch_columns import EMPTY_CONTROL_BATCH
from kforensics.parsers.format.array_types import BoolArray, IntArray
from kforensics.parsers.format.rows import CONTROL_BIT, TRANSACTIONAL_BIT

# What the cleaner keeps when it removes records from a batch.
KEPT = ("last_offset", "leader_epoch", "producer_id", "producer_epoch", "base_sequence")
KEPT_BITS = TRANSACTIONAL_BIT | CONTROL_BIT


class BatchMatch:
    """How the batches of two replicas at the same base offset compare; values above 0 are differences."""

    SAME = 0
    # The same bytes except for the leader epoch, which the checksum does not cover.
    LEADER_EPOCH = 1
    # The checksum of the first or of the second one does not match.
    FIRST_DAMAGED = 2
    SECOND_DAMAGED = 3
    # The cleaner may have produced one from the other.
    PARTIALLY_COMPACTED = 4
    # One side has no batch that contains the offset.
    ONE_SIDED = 5
    # No cleaner can have produced the difference.
    INCOMPATIBLE = 6


@dataclass(frozen=True, slots=True)
class AlignedBatches:
    """A window of two replicas.

    Attributes:
        sides: the batches of each replica.
        offsets: all base offsets of both.
        indexes: for each side, the index of its batch at each offset, -1 without one.
        match: the BatchMatch at each offset.
    """

    sides: tuple[ReplicaBatches, ReplicaBatches]
    offsets: IntArray
    indexes: tuple[IntArray, IntArray]
    match: IntArray

    def batches(self, side: int, selected: IntArray | BoolArray) -> ReplicaBatches:
        """Return the batches that one side has at some of the offsets.

        Args:
            side: 0 or 1.
            selected: mask or indexes of the offsets.
        """
        indexes = self.indexes[side][selected]
        return self.sides[side][indexes[indexes >= 0]]


def align_batches(first: ReplicaBatches, second: ReplicaBatches) -> AlignedBatches:
    """Return the batches of a window matched by base offset."""
    offsets = _union(first.columns.base_offset, second.columns.base_offset)
    indexes = _indexes(first, offsets), _indexes(second, offsets)
    match = np.full(len(offsets), BatchMatch.ONE_SIDED, "i1")
    both = (indexes[0] >= 0) & (indexes[1] >= 0)
    match[both] = _compared(first[indexes[0][both]], second[indexes[1][both]])
    for own, others, batches in ((indexes[0], second, first), (indexes[1], first, second)):
        alone = np.flatnonzero(~both & (own >= 0))
        match[alone[_overlap(batches[own[alone]], others)]] = BatchMatch.INCOMPATIBLE
    return AlignedBatches((first, second), offsets, indexes, match)


def _union(first: IntArray, second: IntArray) -> IntArray:
    """Return the distinct numbers of two ascending sequences, which are usually the same."""
    if np.array_equal(first, second):
        return first
    both = np.concatenate([first, second])
    both.sort(kind="stable")  # merges sorted runs
    is_new = np.ones(len(both), bool)
    is_new[1:] = both[1:] != both[:-1]
    return both[is_new]


def _indexes(batches: ReplicaBatches, offsets: IntArray) -> IntArray:
    if len(batches) == len(offsets):
        return np.arange(len(offsets))
    indexes = np.full(len(offsets), -1, "i8")
    indexes[np.searchsorted(offsets, batches.columns.base_offset)] = np.arange(len(batches))
    return indexes


def _compared(first: ReplicaBatches, second: ReplicaBatches) -> IntArray:
    """Return the BatchMatch of batches with the same base offsets."""
    one, other = first.columns, second.columns
    bytes_differ = (first.crc != second.crc) | (one.size != other.size) | (one.magic != other.magic)
    epochs_differ = one.leader_epoch != other.leader_epoch
    damaged = one.crc_valid != other.crc_valid
    equal = np.where(epochs_differ, BatchMatch.LEADER_EPOCH, BatchMatch.SAME)
    may_be_compacted = _may_be_compacted(first, second)
    unequal = np.where(may_be_compacted, BatchMatch.PARTIALLY_COMPACTED, BatchMatch.INCOMPATIBLE)
    damage = np.where(other.crc_valid, BatchMatch.FIRST_DAMAGED, BatchMatch.SECOND_DAMAGED)
    return np.where(damaged, damage, np.where(bytes_differ, unequal, equal))


def _may_be_compacted(first: ReplicaBatches, second: ReplicaBatches) -> BoolArray:
    """Return whether two batches agree in everything that the cleaner keeps, and markers in their outcome."""
    one, other = first.columns, second.columns
    agree = (one.attributes & KEPT_BITS) == (other.attributes & KEPT_BITS)
    for name in KEPT:
        agree &= getattr(one, name) == getattr(other, name)
    is_empty = (one.control == EMPTY_CONTROL_BATCH) | (other.control == EMPTY_CONTROL_BATCH)
    may_be_compacted: BoolArray = agree & ((one.control == other.control) | is_empty)
    return may_be_compacted


def _overlap(batches: ReplicaBatches, others: ReplicaBatches) -> BoolArray:
    """Return which batches share offsets with one of the other side; no cleaner moves the borders of a batch."""
    if not len(others):
        return np.zeros(len(batches), bool)
    own, other = batches.columns, others.columns
    # Of the other batches, the last one that begins at or before the last offset reaches furthest.
    index = np.searchsorted(other.base_offset, own.last_offset, side="right") - 1
    overlap: BoolArray = (index >= 0) & (other.last_offset[index] >= own.base_offset)
    return overlap
