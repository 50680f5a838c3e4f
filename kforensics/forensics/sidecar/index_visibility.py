"""Where consumers with read_committed receive other records than they should, because of the transaction indexes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kforensics.forensics.core.record_types import Records
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.timeline import last_stable_offsets
from kforensics.forensics.sidecar.aborted_entries import AbortedEntries
from kforensics.forensics.sidecar.visibility import (
    NEVER,
    Batches,
    Difference,
    Verdict,
    Visibility,
    visibility_differences,
    visible_by_log,
)
from kforensics.forensics.sidecar.visibility_sweep import IndexSweep, VisibilitySweep
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.kernels.policy import kernels_for

NOTHING = -1
__all__ = ["IndexVisibility", "Misjudged", "index_visibility", "misjudged"]


@dataclass(frozen=True, slots=True, eq=False)
class IndexVisibility:
    """What consumers should receive, what they do, and the transactions that show that the two are not the same.

    Attributes:
        by_log: as the markers decide.
        by_index: as the transaction indexes do.
        hidden: ids of the producers of committed transactions that consumers do not receive from the beginning on.
        first_offset: the lowest first offset of these transactions, and of aborted ones that they do receive from the
            beginning on; None if there are none.
    """

    by_log: VisibilitySweep
    by_index: IndexSweep
    hidden: Records
    first_offset: int | None


def index_visibility(case: Case, index: AbortedEntries) -> IndexVisibility:
    """Return what the indexes of a partition make of its transactions, without a look at their batches.

    Args:
        case: the partition.
        index: entries of its transaction indexes.
    """
    start, end = case.log_start_offset, np.array([case.log_end_offset])
    stable = int(last_stable_offsets(case.ledger, start, end)[0][0])
    entries = IndexSweep(index.begun, case, stable)
    hidden, first = [np.empty(0, "i8")], NEVER
    before = NOTHING
    for closed in case.ledger.closed:
        found = closed[closed["records"] > 0]
        # What is asked is the fate of each by its own marker; that of others does not matter. An entry that was ended
        # before the range hides nothing of it: what of its producer is in the range had not begun.
        last = int(closed["marker_offset"][-1])
        by_log, by_index = visible_by_log(closed, start, stable), entries.around(before, last)
        before = last
        right, seen = (one.verdicts(_as_batches(found)) == Verdict.VISIBLE for one in (by_log, by_index))
        hidden.append(np.unique(found["producer_id"][right & ~seen]))
        first = int(found["first_offset"][right != seen].min(initial=first))
    sweep = VisibilitySweep(case.ledger, start, stable)
    return IndexVisibility(sweep, entries, np.unique(np.concatenate(hidden)), None if first == NEVER else first)


def _as_batches(transactions: Records) -> Batches:
    yes = np.ones(len(transactions), bool)
    producer_id, first, last = (transactions[name] for name in ("producer_id", "first_offset", "last_offset"))
    return Batches(producer_id, first, last, is_transactional=yes, is_control=~yes)


@dataclass(frozen=True, slots=True)
class Misjudged:
    """What consumers receive and should not, and the other way round.

    Attributes:
        ranges: of offsets, in the order of the log; the first ones if there are very many.
        batches: how many.
        records_shown: records of aborted transactions that they receive.
        records_hidden: records of committed transactions that they do not receive.
    """

    ranges: tuple[Difference, ...]
    batches: int = 0
    records_shown: int = 0
    records_hidden: int = 0


def misjudged(case: Case, seen: IndexVisibility, first_offset: int, most: int) -> Misjudged:
    """Return what a look at every batch shows; the log is read again.

    Args:
        case: the partition.
        seen: from :func:`index_visibility`.
        first_offset: where to begin to look.
        most: no more batches than these go into the ranges.

    Raises:
        InputError: a segment cannot be read again.
    """
    ranges: list[Difference] = []
    batches = shown = hidden = 0
    for number in range(_segment_of(case, first_offset), len(case.partition.segments)):
        with open_source(case.partition.segments[number].path) as source:
            for chunk in batch_chunks(source, number, _ignored, kernels_for):
                place = int(chunk.base_offset.min()), int(chunk.last_offset.max())
                by_log, by_index = seen.by_log.around(*place), seen.by_index.around(*place)
                differ, received = _differing(by_log, by_index, chunk)
                left = Batches.of_columns(differ[: max(0, most - batches)])
                ranges += visibility_differences(by_log, by_index, left)
                batches += len(differ)
                shown += int(differ.count[received].sum())
                hidden += int(differ.count[~received].sum())
    return Misjudged(tuple(ranges), batches, shown, hidden)


def _segment_of(case: Case, offset: int) -> int:
    bases = [segment.base_offset or 0 for segment in case.partition.segments]
    return max(0, int(np.searchsorted(bases, offset, "right")) - 1)


def _differing(by_log: Visibility, by_index: Visibility, chunk: BatchColumns) -> tuple[BatchColumns, Records]:
    """Return the batches with records that consumers do not get right, and which of them they receive."""
    batches = Batches.of_columns(chunk)
    right, received = (one.verdicts(batches) == Verdict.VISIBLE for one in (by_log, by_index))
    differ = (right != received) & (chunk.count > 0)
    return chunk[differ], received[differ]


def _ignored(_damage: object) -> None:
    """Damage was told of when the log was read for the first time."""
