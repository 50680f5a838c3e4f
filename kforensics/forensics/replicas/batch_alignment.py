"""Batches of two replicas, base offset by base offset, and how they compare."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kforensics.forensics.core.record_types import Records
from kforensics.forensics.replicas.side_by_side import Batches
from kforensics.parsers.columns.batch_columns import SHELL
from kforensics.parsers.format.rows import CONTROL_BIT, TRANSACTIONAL_BIT

__all__ = ["Aligned", "Verdict", "aligned"]

# What the cleaner leaves as it is when it takes records out of a batch.
KEPT = ("last_offset", "leader_epoch", "producer_id", "producer_epoch", "base_sequence")
KEPT_BITS = TRANSACTIONAL_BIT | CONTROL_BIT


class Verdict:
    """How the batches of two replicas at a base offset compare; what is above 0 is a difference."""

    SAME = 0
    # The same bytes, but the leader epoch, which no checksum covers.
    LEADER_EPOCH = 1
    # The checksum of the first one fails, or of the second one.
    FIRST_DAMAGED = 2
    SECOND_DAMAGED = 3
    # One may have been made of the other by a cleaner.
    THINNED = 4
    # One side has none, nor any that spans the offset.
    ONE_SIDED = 5
    # Nothing that a cleaner does.
    OTHER = 6


@dataclass(frozen=True, slots=True)
class Aligned:
    """A window of two replicas.

    Attributes:
        sides: the batches of each.
        offsets: every base offset that one of them has.
        at: by side the index of the batch there, -1 where there is none.
        verdict: how they compare.
    """

    sides: tuple[Batches, Batches]
    offsets: Records
    at: tuple[Records, Records]
    verdict: Records

    def batches(self, side: int, which: Records) -> Batches:
        """Return the batches that one side has at some of the offsets.

        Args:
            side: 0 or 1.
            which: mask or indexes of offsets.
        """
        places = self.at[side][which]
        return self.sides[side][places[places >= 0]]


def aligned(first: Batches, second: Batches) -> Aligned:
    """Return the batches of a window side by side."""
    offsets = _united(first.columns.base_offset, second.columns.base_offset)
    at = _places(first, offsets), _places(second, offsets)
    verdict = np.full(len(offsets), Verdict.ONE_SIDED, "i1")
    both = (at[0] >= 0) & (at[1] >= 0)
    verdict[both] = _compared(first[at[0][both]], second[at[1][both]])
    for mine, others, batches in ((at[0], second, first), (at[1], first, second)):
        alone = np.flatnonzero(~both & (mine >= 0))
        verdict[alone[_overlap(batches[mine[alone]], others)]] = Verdict.OTHER
    return Aligned((first, second), offsets, at, verdict)


def _united(first: Records, second: Records) -> Records:
    """Return the numbers of two rising sequences, each once; most often they are the same."""
    if np.array_equal(first, second):
        return first
    both = np.concatenate([first, second])
    both.sort(kind="stable")  # which merges what is sorted already
    new = np.ones(len(both), bool)
    new[1:] = both[1:] != both[:-1]
    return both[new]


def _places(batches: Batches, offsets: Records) -> Records:
    if len(batches) == len(offsets):
        return np.arange(len(offsets))
    found = np.full(len(offsets), -1, "i8")
    found[np.searchsorted(offsets, batches.columns.base_offset)] = np.arange(len(batches))
    return found


def _compared(first: Batches, second: Batches) -> Records:
    """Return how batches with the same base offsets compare."""
    one, other = first.columns, second.columns
    bytes_differ = (first.crc != second.crc) | (one.size != other.size) | (one.magic != other.magic)
    epochs_differ = one.leader_epoch != other.leader_epoch
    damaged = one.crc_valid != other.crc_valid
    alike = np.where(epochs_differ, Verdict.LEADER_EPOCH, Verdict.SAME)
    unlike = np.where(_may_be_thinned(first, second), Verdict.THINNED, Verdict.OTHER)
    damage = np.where(other.crc_valid, Verdict.FIRST_DAMAGED, Verdict.SECOND_DAMAGED)
    return np.where(damaged, damage, np.where(bytes_differ, unlike, alike))


def _may_be_thinned(first: Batches, second: Batches) -> Records:
    """Return whether two batches agree in all that the cleaner leaves as it is, and markers in what they say."""
    one, other = first.columns, second.columns
    agree = (one.attributes & KEPT_BITS) == (other.attributes & KEPT_BITS)
    for name in KEPT:
        agree &= getattr(one, name) == getattr(other, name)
    is_shell = (one.control == SHELL) | (other.control == SHELL)
    found: Records = agree & ((one.control == other.control) | is_shell)
    return found


def _overlap(batches: Batches, others: Batches) -> Records:
    """Return which batches share offsets with one of the other side that begins elsewhere; borders are never moved."""
    if not len(others):
        return np.zeros(len(batches), bool)
    mine, theirs = batches.columns, others.columns
    # Of the others, the last one that begins at the last offset of mine or before it reaches furthest.
    at = np.searchsorted(theirs.base_offset, mine.last_offset, side="right") - 1
    found: Records = (at >= 0) & (theirs.last_offset[at] >= mine.base_offset)
    return found
