"""What a log says once it is known what stands before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kforensics.forensics.core.record_arrays import free_unused, joined_records, picked, placed
from kforensics.forensics.core.record_types import NO_TIME, PRODUCER, RECENT_BATCH, RECENT_BATCHES, Anomaly, Records
from kforensics.forensics.replay.chunk_boundary import end_regions, last_sequences
from kforensics.forensics.replay.merging import STEP, cells, merge, taken
from kforensics.forensics.replay.replay_rows import NO_TRANSACTIONS, Rows, joined_rows
from kforensics.forensics.replay.replay_types import Boundary, BoundaryKind, Producer
from kforensics.forensics.replay.row_building import NO_ROWS, anomaly_rows, closed_rows, open_rows
from kforensics.forensics.replay.sequence_rules import NOTHING, compared
from kforensics.forensics.replay.summary_record import PRODUCER_SUMMARY, Summary

__all__ = ["Final", "finalise", "finalise_blocks"]

NONE = -1


@dataclass(frozen=True, slots=True)
class Final:
    """What a replay from a boundary adds to the rows that were certain without it.

    Attributes:
        rows: the rows that became certain.
        open_transactions: TRANSACTION records, by first offset.
        producers: PRODUCER records, by producer id.
    """

    rows: Rows
    open_transactions: Records
    producers: Records


def finalise(summary: Summary, boundary: Boundary) -> Final:
    """Return what a log says of its producers; the summary can be merged on.

    Args:
        summary: of all batches from the boundary on, to the end or to the offset where the state is wanted.
        boundary: what is known of the log before them.
    """
    return finalise_blocks([summary], boundary)


def finalise_blocks(blocks: list[Summary], boundary: Boundary, size: int = STEP) -> Final:
    """Return the same of a summary in blocks; the list ends empty.

    Args:
        blocks: of all batches from the boundary on, at least one.
        boundary: what is known of the log before them.
        size: of how many producers to speak at once, about.
    """
    known = known_producers(boundary)
    # Producers of both are counted twice, but room that nobody writes to is no memory.
    producers = np.empty(len(known) + sum(len(block.producers) for block in blocks), PRODUCER)
    parts, count = [], 0
    for before, behind in cells(_boundary_blocks(boundary, known, size), taken(blocks, size)):
        whole, seam_rows = merge(before, behind)
        if len(whole.producers):
            placed(producers, slice(count, count + len(whole.producers)), _producers(whole.producers))
        count += len(whole.producers)
        parts.append(_part(before, whole, seam_rows, boundary.kind))
    if len(parts) > 1:
        free_unused()
    rows, opened = joined_rows([part[0] for part in parts]), joined_records([part[1] for part in parts])
    if len(parts) > 1:
        parts.clear()
        free_unused()
    return Final(rows, _sorted_by(opened, "first_offset"), producers[:count])


def _part(before: Summary, whole: Summary, seam_rows: Rows, kind: BoundaryKind) -> tuple[Rows, Records]:
    """Return the rows that become certain of some producers, and their open transactions."""
    if not len(whole.producers):
        return Rows.of(), NO_TRANSACTIONS
    known = kind is not BoundaryKind.UNKNOWN
    fresh = np.ones(len(whole.producers), "?")
    fresh[np.searchsorted(whole.producers["producer_id"], before.producers["producer_id"])] = False
    rows = [
        seam_rows,
        _first_regions(whole, fresh, known=known),
        Rows.of(anomalies=_first_batches(whole, fresh, kind)),
        Rows.of(anomalies=whole.pending["row"]),
    ]
    return joined_rows(rows), _open(whole, known=known)


def _first_regions(whole: Summary, fresh: Records, *, known: bool) -> Rows:
    """Return what the first markers of producers end that nothing was known of before."""
    at = np.flatnonzero(fresh & whole.producers["has_marker"])
    if not len(at):
        return Rows.of()
    head, marker = (picked(whole.producers[name], at) for name in ("head", "first_marker"))
    return closed_rows(whole.producers["producer_id"][at], head, marker, exact=known)


def known_producers(boundary: Boundary) -> Records:
    """Return the producers of a boundary as PRODUCER records, by producer id."""
    if boundary.records is not None:
        known: Records = boundary.records
        return known
    found = {producer.producer_id: producer for producer in boundary.producers}
    known = np.zeros(len(found), PRODUCER)
    for record, producer_id in zip(known, sorted(found), strict=True):
        _tell(record, found[producer_id])
    return known


def _tell(record: np.void, producer: Producer) -> None:
    for name in record.dtype.names or ():
        if not name.startswith("recent"):
            record[name] = getattr(producer, name)
    record["recent_count"] = len(producer.recent)
    for at, one in enumerate(producer.recent):
        record["recent"][at] = (one.last_sequence, one.last_offset, one.offset_delta, one.timestamp)


def _boundary_blocks(boundary: Boundary, known: Records, size: int) -> Iterator[Summary]:
    """Yield a boundary as the summary of what stands before it, in blocks."""
    if boundary.kind is not BoundaryKind.SNAPSHOT:
        yield Summary.empty()
        return
    for first in range(0, max(1, len(known)), size):
        yield _snapshot_summary(boundary.offset, known[first : first + size])


def _snapshot_summary(offset: int, known: Records) -> Summary:
    """Return a snapshot, or some of its producers, as a summary.

    A snapshot tells the state of a producer, not whether its last event was a marker. Its element ends with a marker of
    unknown kind, behind which the open transaction stands, and knows batches whether or not it lists one.
    """
    producers = np.zeros(len(known), PRODUCER_SUMMARY)
    producers["producer_id"], producers["end_epoch"] = known["producer_id"], known["producer_epoch"]
    for name in ("has_data", "has_marker", "ends_with_marker"):
        producers[name] = True
    last = producers["last_marker"]
    last["offset"], last["timestamp"] = NONE, known["last_timestamp"]
    producers["last_coordinator_epoch"], producers["last_ending"] = known["coordinator_epoch"], NOTHING
    _tell_recent(producers, known)
    _tell_open(producers, known)
    return Summary(producers=producers, last_offset=offset - 1)


def _tell_recent(producers: Records, known: Records) -> None:
    producers["last_data"] = producers["last_marker"]
    counts = known["recent_count"]
    producers["recent_count"], producers["recent"] = counts, known["recent"]
    producers["recent"][np.arange(RECENT_BATCHES) >= counts[:, None]] = np.zeros((), RECENT_BATCH)
    at = np.flatnonzero(counts)
    newest, last = known["recent"][at, counts[at] - 1], producers["last_data"]
    last["offset"][at], last["timestamp"][at] = newest["last_offset"], newest["timestamp"]


def _tell_open(producers: Records, known: Records) -> None:
    """Fill in the open transactions of a snapshot, with nothing counted of what stands before the snapshot."""
    at = np.flatnonzero(known["current_txn_first_offset"] >= 0)
    producers["has_transactional"][at] = True
    region, told = producers["tail"], known[at]
    region["begun"][at] = True
    for name in ("producer_epoch", "lowest_epoch", "highest_epoch"):
        region[name][at] = told["producer_epoch"]
    region["first_offset"][at], region["last_offset"][at] = told["current_txn_first_offset"], told["last_offset"]
    region["first_timestamp"][at], region["last_timestamp"][at] = NO_TIME, told["last_timestamp"]
    region["segment"][at] = region["position"][at] = NONE


def _first_batches(whole: Summary, fresh: Records, kind: BoundaryKind) -> Records:
    """Return ANOMALY records of first batches: none has a batch before it that it could be compared with."""
    fresh = fresh & whole.producers["has_data"]
    starts_with_marker = whole.producers["starts_with_marker"]
    found = [NO_ROWS]
    if len(led := np.flatnonzero(fresh & starts_with_marker)):
        found.append(_behind_markers(picked(whole.producers, led), kind, sequences=whole.sequences))
    if kind is BoundaryKind.EMPTY and whole.sequences:
        at = np.flatnonzero(fresh & ~starts_with_marker & (whole.producers["first"]["base_sequence"] > 0))
        first = picked(whole.producers["first"], at)
        found.append(anomaly_rows(Anomaly.SEQ_FIRST_NONZERO, whole.producers["producer_id"][at], first))
    return joined_records(found)


def _behind_markers(led: Records, kind: BoundaryKind, *, sequences: bool) -> Records:
    """Return ANOMALY records of first batches that have nothing but markers before them."""
    first, expected = led["first"], np.zeros(len(led), "i8")
    which, amount = compared(
        first["producer_epoch"], first["base_sequence"], led["lead_epoch"], expected, sequences=sequences
    )
    odd = which != NOTHING
    if kind is BoundaryKind.UNKNOWN:
        # Markers of one epoch leave sequences as they were, and that nobody knows.
        odd &= (first["producer_epoch"] != led["lead_epoch"]) | ~led["lead_is_uniform"]
    rows = anomaly_rows(which, led["producer_id"], first, led["lead"], amount)
    return picked(rows, odd)


def _open(whole: Summary, *, known: bool) -> Records:
    region = end_regions(whole.producers)
    at = np.flatnonzero(region["begun"])
    if not len(at):
        return NO_TRANSACTIONS
    exact = whole.producers["has_marker"][at] | known
    return open_rows(whole.producers["producer_id"][at], picked(region, at), exact)


def _sorted_by(records: Records, name: str) -> Records:
    keys = records[name]
    if not (keys[1:] < keys[:-1]).any():
        return records
    return picked(records, np.argsort(keys, kind="stable"))


def _producers(found: Records) -> Records:
    """Return PRODUCER records, as a replica would keep them."""
    rows = np.zeros(len(found), PRODUCER)
    rows["producer_id"], rows["producer_epoch"] = found["producer_id"], found["end_epoch"]
    rows["last_sequence"] = last_sequences(found)
    rows["recent_count"], rows["recent"] = found["recent_count"], found["recent"]
    newest = found["recent"][np.arange(len(found)), np.maximum(found["recent_count"] - 1, 0)]
    rows["offset_delta"] = newest["offset_delta"]
    rows["last_offset"] = np.where(found["recent_count"] > 0, newest["last_offset"], NONE)
    last = np.where(found["ends_with_marker"], found["last_marker"]["timestamp"], found["last_data"]["timestamp"])
    rows["last_timestamp"] = last
    rows["coordinator_epoch"] = np.where(found["has_marker"], found["last_coordinator_epoch"], NONE)
    region = end_regions(found)
    rows["current_txn_first_offset"] = np.where(region["begun"], region["first_offset"], NONE)
    return rows
