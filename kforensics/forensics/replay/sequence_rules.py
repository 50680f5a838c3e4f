"""Whether batches go on where the batch or marker before them left off: the columns' side of ``neighbours``."""

from __future__ import annotations

import numpy as np

from kforensics.forensics.core.record_types import Anomaly, Records

__all__ = ["NOTHING", "compared", "expected_sequence", "sequence_kinds"]

NOTHING = -1
# DefaultRecordBatch.incrementSequence: sequences are a ring of 2^31.
RING = 1 << 31
# A design decision: what seems more than half a ring ahead lies behind.
HALF_RING = 1 << 30

SEQUENCE_KINDS = (Anomaly.SEQ_GAP, Anomaly.SEQ_OVERLAP, Anomaly.SEQ_DUPLICATE_BATCH)


def expected_sequence(last_sequence: Records) -> Records:
    """Return the sequences behind others; 0 behind none."""
    return (last_sequence + 1) & (RING - 1)


def sequence_kinds(kinds: Records) -> Records:
    """Return which anomalies compare sequences with sequences, not epochs."""
    return np.isin(kinds, SEQUENCE_KINDS)


def compared(
    epoch: Records, sequence: Records, known_epoch: Records, expected: Records, *, sequences: bool
) -> tuple[Records, Records]:
    """Return the kind of anomaly of each batch, or NOTHING, and its amount.

    What is called SEQ_OVERLAP here may still be a batch written twice.

    Args:
        epoch: producer epochs of the batches.
        sequence: first sequences of the batches.
        known_epoch: epochs of the producers before the batches.
        expected: sequences at which the batches should begin.
        sequences: whether sequences mean anything in the topic.
    """
    risen = epoch.astype("i8") - known_epoch
    ahead = (sequence.astype("i8") - expected) % RING
    is_gap, is_same_epoch = ahead < HALF_RING, risen == 0
    kind = np.where(is_gap, Anomaly.SEQ_GAP, Anomaly.SEQ_OVERLAP)
    amount = np.where(is_gap, ahead, RING - ahead)
    if not is_same_epoch.all():
        of_epoch = np.where(risen < 0, Anomaly.EPOCH_REGRESSED, Anomaly.EPOCH_BUMP_NONZERO_SEQ)
        kind, amount = np.where(is_same_epoch, kind, of_epoch), np.where(is_same_epoch, amount, abs(risen))
    kind[(sequence < 0) | (is_same_epoch & (ahead == 0)) | ((risen > 0) & (sequence == 0))] = NOTHING
    if not sequences:
        kind[kind != Anomaly.EPOCH_REGRESSED] = NOTHING
    return kind, amount
