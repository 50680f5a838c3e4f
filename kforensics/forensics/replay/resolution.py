"""Resolves the unresolved anomalies of a chunk once the chunk before it is known."""

from __future__ import annotations

import numpy as np

from kforensics.forensics.core.record_arrays import concat_rows, put_rows, take_rows
from kforensics.forensics.core.record_types import RECENT_BATCHES, Anomaly, AnomalyArray
from kforensics.forensics.replay.replay_rows import (
    NO_ANOMALIES,
    NO_UNRESOLVED,
    as_duplicate_batches,
    unresolved_anomalies,
)
from kforensics.forensics.replay.summary import ProducerSummaryArray, ReplaySummary, UnresolvedArray, last_spans

__all__ = ["resolve_anomalies", "resolve_overlaps"]


def resolve_anomalies(left: ProducerSummaryArray, right: ReplaySummary) -> tuple[AnomalyArray, UnresolvedArray]:
    """Return the anomalies that become certain when two chunks are merged, and those that stay unresolved.

    Args:
        left: the producers of the first chunk.
        right: the summary of the second chunk, with the unresolved anomalies.
    """
    unresolved, ids = right.unresolved, left["producer_id"]
    if not len(unresolved) or not len(ids):
        return unresolved["anomaly"][:0], unresolved
    producer_id = unresolved["anomaly"]["producer_id"]
    index = np.minimum(np.searchsorted(ids, producer_id), len(ids) - 1)
    in_left = ids[index] == producer_id
    known, before = take_rows(unresolved, in_left), take_rows(left, index[in_left])
    after = take_rows(right.producers, np.searchsorted(right.producers["producer_id"], producer_id[in_left]))
    kind = known["anomaly"]["kind"]
    is_overlap, is_mixed = kind == Anomaly.SEQ_OVERLAP, kind == Anomaly.TXN_NONTXN_INSIDE
    is_second_mode = kind == Anomaly.PID_MIXED_MODES
    parts = [
        resolve_overlaps(take_rows(known, is_overlap), take_rows(before, is_overlap)),
        _resolve_mixed_spans(take_rows(known, is_mixed), take_rows(before, is_mixed), take_rows(after, is_mixed)),
        _resolve_second_modes(
            take_rows(known, is_second_mode), take_rows(before, is_second_mode), take_rows(after, is_second_mode)
        ),
    ]
    certain = concat_rows([part[0] for part in parts])
    return certain, concat_rows([take_rows(unresolved, ~in_left), *(part[1] for part in parts)])


def resolve_overlaps(unresolved: UnresolvedArray, left: ProducerSummaryArray) -> tuple[AnomalyArray, UnresolvedArray]:
    """Return what becomes certain of overlaps, and those that stay unresolved.

    An overlap is a duplicate batch if it equals one of the last five batches of its epoch. Some of these are before the
    chunk boundary.

    Args:
        unresolved: SEQ_OVERLAP anomalies; between the chunk boundary and each of them, the epoch does not change.
        left: their producers before the chunk boundary.
    """
    if not len(unresolved):
        return NO_ANOMALIES, NO_UNRESOLVED
    rows, compared = unresolved["anomaly"].copy(), unresolved["compared"].astype("i8")
    recent, count = left["recent"], left["recent_count"].astype("i8")
    continues = left["last_epoch"] == rows["producer_epoch"]
    undecided = np.ones(len(rows), "?")
    delta = rows["last_offset"] - rows["first_offset"]
    for distance in range(1, RECENT_BATCHES + 1):
        batch = take_rows(recent, (np.arange(len(rows)), np.maximum(count - distance, 0)))
        is_recent = continues & (distance <= count) & (compared + distance <= RECENT_BATCHES) & undecided
        same = is_recent & (batch["last_sequence"] == unresolved["last_sequence"]) & (batch["offset_delta"] == delta)
        put_rows(rows, same, as_duplicate_batches(take_rows(rows, same), take_rows(batch, same)))
        undecided &= ~same
    undecided &= continues & left["is_uniform"] & (compared + count < RECENT_BATCHES)
    last_sequence, compared = unresolved["last_sequence"][undecided], (compared + count)[undecided]
    return take_rows(rows, ~undecided), unresolved_anomalies(take_rows(rows, undecided), last_sequence, compared)


def _resolve_mixed_spans(
    unresolved: UnresolvedArray, left: ProducerSummaryArray, right: ProducerSummaryArray
) -> tuple[AnomalyArray, UnresolvedArray]:
    """Keep an anomaly only if it is at the first non-transactional batch after transactional data in its span."""
    has_transaction = last_spans(left)["has_transaction"]
    is_later = left["is_mixed"] | (has_transaction & ~right["first_batch"]["is_transactional"])
    certain = left["has_marker"]
    return take_rows(unresolved["anomaly"], ~is_later & certain), take_rows(unresolved, ~is_later & ~certain)


def _resolve_second_modes(
    unresolved: UnresolvedArray, left: ProducerSummaryArray, right: ProducerSummaryArray
) -> tuple[AnomalyArray, UnresolvedArray]:
    """Keep an anomaly only if it is at the first batch of the second mode of its producer.

    If that batch is transactional, it is the first such batch of its span, so its epoch may be the one that is bumped.
    """
    first_is_transactional = right["first_batch"]["is_transactional"]
    is_later = np.where(first_is_transactional, left["has_non_transactional"], left["has_transactional"])
    span = last_spans(left)
    bump = unresolved["anomaly"]["producer_epoch"].astype("i8") - span["producer_epoch"]
    starts_transaction = right["first_span"]["has_transaction"] & ~first_is_transactional
    bumped = span["has_transaction"] & starts_transaction & (bump > 0)
    rows = take_rows(unresolved["anomaly"], bumped)
    rows["kind"], rows["amount"] = Anomaly.EPOCH_BUMP_WITHOUT_MARKER, bump[bumped]
    return rows, take_rows(unresolved, ~is_later)
