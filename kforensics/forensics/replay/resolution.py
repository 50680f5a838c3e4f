"""What becomes of anomalies that waited for what stands before their stretch."""

from __future__ import annotations

import numpy as np

from kforensics.forensics.core.record_arrays import joined_records, picked
from kforensics.forensics.core.record_types import Anomaly, Records
from kforensics.forensics.replay.chunk_boundary import end_regions, twins
from kforensics.forensics.replay.summary_record import Summary

__all__ = ["settled"]


def settled(left: Records, right: Summary) -> tuple[Records, Records]:
    """Return ANOMALY records of what a stretch makes certain behind it, and PENDING records of what still waits.

    Args:
        left: PRODUCER_SUMMARY records of the stretch.
        right: the one behind it, whose pending anomalies are looked at.
    """
    pending, ids = right.pending, left["producer_id"]
    if not len(pending) or not len(ids):
        return pending["row"][:0], pending
    wanted = pending["row"]["producer_id"]
    at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    known = ids[at] == wanted
    here, before = picked(pending, known), picked(left, at[known])
    behind = picked(right.producers, np.searchsorted(right.producers["producer_id"], wanted[known]))
    kind = here["row"]["kind"]
    of_kind = [kind == one for one in (Anomaly.SEQ_OVERLAP, Anomaly.TXN_NONTXN_INSIDE, Anomaly.PID_MIXED_MODES)]
    parts = [
        rule(picked(here, which), picked(before, which), picked(behind, which))
        for rule, which in zip((_overlaps, _mixed_regions, _second_modes), of_kind, strict=True)
    ]
    certain = joined_records([part[0] for part in parts])
    return certain, joined_records([picked(pending, ~known), *(part[1] for part in parts)])


def _overlaps(pending: Records, left: Records, right: Records) -> tuple[Records, Records]:
    del right
    return twins(pending, left)


def _mixed_regions(pending: Records, left: Records, right: Records) -> tuple[Records, Records]:
    """Keep what is the first other data in its region: not if the region is mixed before it."""
    begun = end_regions(left)["begun"]
    earlier = left["is_mixed"] | (begun & ~right["first"]["is_transactional"])
    sure = left["has_marker"]
    return picked(pending["row"], ~earlier & sure), picked(pending, ~earlier & ~sure)


def _second_modes(pending: Records, left: Records, right: Records) -> tuple[Records, Records]:
    """Keep what is the producer's first batch of the second mode: not if that shows before it.

    If it is transactional, the first such in its region, then its epoch may be the one that rises.
    """
    earlier = np.where(right["first"]["is_transactional"], left["has_other"], left["has_transactional"])
    region = end_regions(left)
    risen = pending["row"]["producer_epoch"].astype("i8") - region["producer_epoch"]
    begins = right["head"]["begun"] & ~right["first"]["is_transactional"]
    bumps = region["begun"] & begins & (risen > 0)
    rows = picked(pending["row"], bumps)
    rows["kind"], rows["amount"] = Anomaly.EPOCH_BUMP_WITHOUT_MARKER, risen[bumps]
    return rows, picked(pending, ~earlier)
