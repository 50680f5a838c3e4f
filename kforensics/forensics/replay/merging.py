"""Two adjacent stretches of a log become one: what is compared at their seam, and what it makes certain."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kforensics.forensics.replay.record_arrays import joined_records, picked, placed
from kforensics.forensics.replay.replay_rows import Rows, joined_rows
from kforensics.forensics.replay.results import Records
from kforensics.forensics.replay.seam import Seam
from kforensics.forensics.replay.settling import settled
from kforensics.forensics.replay.summary_record import PRODUCER_SUMMARY, Summary, sorted_pending

__all__ = ["merge"]

# So many producers at once: what a merge needs beside the two summaries and the new one stays small.
BLOCK = 1 << 15
# Which holes a record counts, and what says whether they are there.
HOLES = (
    ("first", "has_data"),
    ("last_data", "has_data"),
    ("first_marker", "has_marker"),
    ("last_marker", "has_marker"),
    ("lead", "starts_with_marker"),
)


def merge(left: Summary, right: Summary) -> tuple[Summary, Rows]:
    """Return the summary of two stretches of a log and the rows that it makes certain.

    It is associative, rows included, and ``Summary.empty()`` changes nothing.

    Args:
        left: of a stretch.
        right: of the stretch behind it.
    """
    if left.is_empty or right.is_empty:
        return (right if left.is_empty else left), Rows.of()
    shift = left.holes + _hole_between(left, right)
    producers, pending, rows = _merged(left, right, shift)
    summary = Summary(
        producers=producers,
        pending=pending,
        first_offset=left.first_offset if left.last_offset is not None else right.first_offset,
        last_offset=left.last_offset if right.last_offset is None else right.last_offset,
        batches=left.batches + right.batches,
        holes=shift + right.holes,
        sequences=left.sequences and right.sequences,
    )
    return summary, rows


def _hole_between(left: Summary, right: Summary) -> int:
    if left.last_offset is None or right.first_offset is None:
        return 0
    return max(0, right.first_offset - left.last_offset - 1)


def _merged(left: Summary, right: Summary, shift: int) -> tuple[Records, Records, Rows]:
    """Return the records of all producers, what is pending of them, and the rows that are certain."""
    ids, others = (np.ascontiguousarray(one.producers["producer_id"]) for one in (left, right))
    at = np.searchsorted(ids, others)
    known = np.zeros(len(others), "?") if not len(ids) else ids[np.minimum(at, len(ids) - 1)] == others
    met, new = np.flatnonzero(known), np.flatnonzero(~known)
    producers = np.empty(len(ids) + len(new), PRODUCER_SUMMARY)
    home = np.arange(len(ids)) + np.searchsorted(others[new], ids)
    placed(producers, home, left.producers)
    for block in _blocks(new):
        placed(producers, at[block] + np.searchsorted(new, block), _shifted(picked(right.producers, block), shift))
    certain, waiting = settled(left.producers, right)
    rows, pending = [Rows.of(anomalies=certain)], [left.pending, waiting]
    for block in _blocks(met):
        behind = _shifted(picked(right.producers, block), shift)
        seam = Seam(picked(left.producers, at[block]), behind, sequences=left.sequences and right.sequences)
        certain, waiting = seam.anomalies()
        placed(producers, home[at[block]], seam.joined())
        rows += [seam.closed(), Rows.of(anomalies=certain)]
        pending.append(waiting)
    return producers, sorted_pending(joined_records(pending)), joined_rows(rows)


def _blocks(indexes: Records) -> Iterator[Records]:
    for first in range(0, len(indexes), BLOCK):
        yield indexes[first : first + BLOCK]


def _shifted(producers: Records, shift: int) -> Records:
    """Return the records with holes counted from a beginning that is so many holes farther away; they are changed."""
    if shift:
        for name, present in HOLES:
            producers[name]["holes"] += shift * producers[present]
    return producers
