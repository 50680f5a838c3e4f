"""The worked examples of the transaction specification that concern the replay, by their numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

from kforensics.forensics.core.record_types import TransactionOutcome
from kforensics.forensics.replay.boundary import EMPTY, Boundary
from kforensics.parsers.state.producer_snapshot import ProducerSnapshotEntry
from tests.forensics.batch_notation import NOW, snapshot_boundary

State = tuple[int, int, int, int, int, int | None]
COMMITTED, ABORTED = TransactionOutcome.COMMITTED, TransactionOutcome.ABORTED
TWO_NESTED = "D 1 0 0-1 @0-1 T; D 2 0 0-0 @2-2 T; D 1 0 2-2 @3-3 T; M 1 0 A 5 @4; D 3 0 0-0 @5-5 N; M 2 0 C 5 @6"
TIMED_OUT = "D 1 0 0-2 @0-2 T; M 1 1 A 4 @3; D 1 2 0-0 @4-4 T"
LATE_WRITE = "D 1 0 0-2 @0-2 T; M 1 0 A 4 @3; D 1 0 3-3 @4-4 T"
HEAD_DELETED = "D 1 0 0-9 @0-9 T; D 2 0 0-9 @10-19 N"
NO_PREFIX = "D 1 0 5-5 @100-100 T; M 2 0 A 1 @101; M 1 0 C 1 @102"
CLEANED = "D 1 0 0-4 @0-4 T cnt 2; {}; D 2 0 0-0 @9-9 T cnt 0; M 2 0 A 3 @12; empty 3 @15; plain @19"
WRAPPED = "D 9 0 2147483646-2147483647 @0-1 N; D 9 0 0-2 @2-4 N"
FIRST_AT_0 = ("SEQ_FIRST_NONZERO", 0, 0)
ZOMBIE = "D 9 3 0-0 @0-0 N; D 9 4 0-0 @1-1 N; D 9 3 1-1 @2-2 N"
OFFSET_COMMITS = "D 7 0 0-0 @0-0 T; D 7 0 0-0 @1-1 T; M 7 0 C 2 @2"
REFUSED_MARKERS = "D 1 4 0-2 @0-2 T; M 1 5 C 6 @3; M 1 5 C 6 @4"


@dataclass(frozen=True)
class Example:
    """A log, and the result that the specification requires; None where it requires nothing.

    Attributes:
        log: the batches.
        lso: last stable offsets, by high watermark.
        closed: closed transactions as (producer id, first offset, marker offset, outcome).
        index: entries of the transaction index as (producer id, first, last, last stable offset).
        open: first offsets of the open transactions, by producer id.
        states: producers, by producer id, as (epoch, last sequence, last offset, offset delta, coordinator epoch, first
            offset of the open transaction).
        empty_markers: their offsets.
        boundary: what is known about the log before the batches.
        log_start_offset: first offset that is visible to consumers.
        anomalies: all anomalies as (kind, offset, amount).
        sequences: whether sequences are checked in this topic.
    """

    log: str
    lso: dict[int, int] = field(default_factory=dict)
    closed: list[tuple[int, int, int, TransactionOutcome]] | None = None
    index: list[tuple[int, int, int, int]] | None = None
    open: dict[int, int] | None = None
    states: dict[int, State] = field(default_factory=dict)
    empty_markers: list[int] | None = None
    boundary: Boundary = EMPTY
    log_start_offset: int = 0
    anomalies: list[tuple[str, int, int]] = field(default_factory=list)
    sequences: bool = True


def snapshot(offset: int, *states: tuple[int, State]) -> Boundary:
    """Return the boundary of a snapshot of producers, each given as its id and its state."""
    entries = [
        ProducerSnapshotEntry(
            0, producer_id, epoch, sequence, last, delta, NOW, coordinator, -1 if first is None else first
        )
        for producer_id, (epoch, sequence, last, delta, coordinator, first) in states
    ]
    return snapshot_boundary(offset, entries)


EXAMPLES = {
    "1": Example("", {0: 0}, closed=[], index=[], open={}),
    "1 of a log that starts later": Example("", {50: 50}, closed=[], index=[], open={}, log_start_offset=50),
    "2": Example("plain @0-4; D 9 0 0-4 @5-9 N", {10: 10}, states={9: (0, 4, 9, 4, -1, None)}, index=[], open={}),
    "3": Example(
        "D 1 0 0-4 @0-4 T; M 1 0 C 3 @5",
        {6: 6, 5: 0},
        closed=[(1, 0, 5, COMMITTED)],
        index=[],
        open={},
        states={1: (0, 4, 4, 4, 3, None)},
    ),
    "4": Example(
        TWO_NESTED,
        {2: 0, 4: 0, 5: 2, 6: 2, 7: 7},
        closed=[(1, 0, 4, ABORTED), (2, 2, 6, COMMITTED)],
        index=[(1, 0, 4, 2)],
        open={},
    ),
    "5": Example(
        "D 1 0 0-0 @0-0 T; D 2 0 0-0 @1-1 T; M 2 0 A 1 @2; M 1 0 A 1 @3",
        {4: 4},
        index=[(2, 1, 2, 0), (1, 0, 3, 4)],
        open={},
    ),
    "6 on the leader": Example(
        "D 1 0 0-0 @0-0 T; M 1 0 A 0 @1; D 3 0 0-0 @2-2 N; D 2 0 0-0 @3-3 T", {4: 3}, index=[(1, 0, 1, 2)], open={2: 3}
    ),
    "7": Example(
        "D 1 7 0-2 @0-2 T; M 1 8 C 4 @3; D 1 8 0-0 @4-4 T; M 1 9 A 4 @5",
        index=[(1, 4, 5, 6)],
        open={},
        states={1: (9, -1, -1, 0, 4, None)},
    ),
    "8": Example("D 1 7 0-2 @0-2 T; M 1 8 C 4 @3; D 1 8 3-3 @4-4 T; M 1 9 A 4 @5", anomalies=[("SEQ_GAP", 4, 3)]),
    "9": Example(TIMED_OUT, {5: 4}, index=[(1, 0, 3, 4)], open={1: 4}),
    "10": Example(LATE_WRITE, {5: 4}, index=[(1, 0, 3, 4)], open={1: 4}),
    "11": Example(
        f"{LATE_WRITE}; D 1 1 0-0 @5-5 T; M 1 1 C 4 @6",
        {7: 7},
        closed=[(1, 0, 3, ABORTED), (1, 4, 6, COMMITTED)],
        index=[(1, 0, 3, 4)],
        open={},
        anomalies=[("EPOCH_BUMP_WITHOUT_MARKER", 5, 1)],
    ),
    "12": Example(WRAPPED, anomalies=[FIRST_AT_0]),
    "12 and back": Example(f"{WRAPPED}; D 9 0 2147483645-2 @5-10 N", anomalies=[FIRST_AT_0, ("SEQ_OVERLAP", 5, 6)]),
    "13": Example(
        "D 9 0 0-4 @0-4 N; D 9 0 7-7 @5-5 N; D 9 0 7-7 @6-6 N; D 9 0 5-9 @7-11 N",
        anomalies=[("SEQ_GAP", 5, 2), ("SEQ_DUPLICATE_BATCH", 6, 1), ("SEQ_OVERLAP", 7, 3)],
    ),
    "14": Example(ZOMBIE, states={9: (3, 1, 2, 0, -1, None)}, anomalies=[("EPOCH_REGRESSED", 2, 1)]),
    "14 with the next batch": Example(
        f"{ZOMBIE}; D 9 4 1-1 @3-3 N", anomalies=[("EPOCH_REGRESSED", 2, 1), ("EPOCH_BUMP_NONZERO_SEQ", 3, 1)]
    ),
    "15 with a second COMMIT": Example(
        "D 1 0 0-0 @0-0 T; M 1 0 C 3 @1; M 1 0 C 4 @2",
        {3: 3},
        [(1, 0, 1, COMMITTED)],
        [],
        {},
        empty_markers=[2],
        anomalies=[("MARKER_DUPLICATE", 2, 0)],
    ),
    "15 with an ABORT after it": Example(
        "D 1 0 0-0 @0-0 T; M 1 0 C 3 @1; M 1 0 A 4 @2",
        {3: 3},
        [(1, 0, 1, COMMITTED)],
        [],
        {},
        empty_markers=[2],
        anomalies=[("MARKER_CONFLICT", 2, 0)],
    ),
    "16": Example(
        "D 1 0 0-0 @0-0 T; D 1 0 1-1 @1-1 N; M 1 0 C 3 @2",
        closed=[(1, 0, 2, COMMITTED)],
        anomalies=[("PID_MIXED_MODES", 1, 0), ("TXN_NONTXN_INSIDE", 1, 0)],
    ),
    "17": Example(OFFSET_COMMITS, closed=[(7, 0, 2, COMMITTED)], sequences=False),
    "17 in another topic": Example(OFFSET_COMMITS, anomalies=[("SEQ_DUPLICATE_BATCH", 1, 1)]),
    "19": Example(HEAD_DELETED, {20: 5}, open={1: 0}, log_start_offset=5),
    "19 once committed": Example(f"{HEAD_DELETED}; M 1 0 C 0 @20", {21: 21}, open={}, log_start_offset=5),
    "19 reloaded": Example("D 2 0 0-9 @10-19 N", {20: 20}, open={}, log_start_offset=12),
    "20": Example(
        "D 5 0 0-0 @0-0 N ts 1000; D 6 0 0-0 @1-1 T ts 1000; D 5 0 42-42 @2-2 N",
        open={6: 1},
        anomalies=[("SEQ_GAP", 2, 41)],
    ),
    "21 with a snapshot after it": Example(
        NO_PREFIX,
        {103: 103},
        open={},
        boundary=snapshot(103, (1, (0, 5, 100, 0, 1, None)), (2, (0, -1, -1, 0, 1, None))),
        log_start_offset=100,
    ),
    "22": Example(
        CLEANED.format("M 1 0 C 3 @5"), closed=[(1, 0, 5, COMMITTED), (2, 9, 12, ABORTED)], open={}, empty_markers=[]
    ),
    "22 with an empty control batch for a marker": Example(CLEANED.format("empty 1 @5"), {20: 0}, open={1: 0}),
    "23": Example("D 1 0 0-2 @0-2 T; M 1 1 A 4 @3", states={1: (1, -1, -1, 0, 4, None)}),
    "27": Example(
        f"{LATE_WRITE}; M 1 0 A 4 @5",
        closed=[(1, 0, 3, ABORTED), (1, 4, 5, ABORTED)],
        index=[(1, 0, 3, 4), (1, 4, 5, 6)],
        open={},
    ),
    "28 from the snapshot": Example(
        TWO_NESTED,
        {7: 7},
        closed=[(1, 0, 4, ABORTED), (2, 2, 6, COMMITTED)],
        index=[(1, 0, 4, 2)],
        open={},
        boundary=snapshot(4, (1, (0, 2, 3, 0, -1, 0)), (2, (0, 0, 2, 0, -1, 2))),
    ),
    "29": Example("D 1 0 0-4 @0-4 T; M 1 0 C 1 @5; D 1 0 5-5 @6-6 T", open={1: 6}),
    "29 with a new epoch": Example("D 1 0 0-4 @0-4 T; M 1 1 C 1 @5; D 1 1 0-0 @6-6 T", open={1: 6}),
    "29 with a new epoch that does not start at 0": Example(
        "D 1 0 0-4 @0-4 T; M 1 1 C 1 @5; D 1 1 5-5 @6-6 T", open={1: 6}, anomalies=[("SEQ_GAP", 6, 5)]
    ),
    "31": Example(
        "D 1 0 7-8 @0-1 T; M 1 0 A 3 @2; D 2 0 9-10 @3-4 N",
        {5: 5},
        index=[(1, 0, 2, 3)],
        anomalies=[("SEQ_FIRST_NONZERO", 0, 0), ("SEQ_FIRST_NONZERO", 3, 0)],
    ),
    "32": Example(
        REFUSED_MARKERS,
        {5: 5},
        closed=[(1, 0, 3, COMMITTED)],
        index=[],
        open={},
        states={1: (5, -1, -1, 0, 6, None)},
        empty_markers=[4],
        anomalies=[("MARKER_DUPLICATE", 4, 0)],
    ),
    "32 with the next transaction": Example(
        f"{REFUSED_MARKERS}; D 1 5 0-0 @5-5 T; M 1 6 C 6 @6",
        closed=[(1, 0, 3, COMMITTED), (1, 5, 6, COMMITTED)],
        open={},
        empty_markers=[4],
        anomalies=[("MARKER_DUPLICATE", 4, 0)],
    ),
    "33": Example(
        "D 1 4 0-0 @0-0 T; M 1 4 A 6 @1; D 1 4 1-1 @2-2 T; M 1 9 C 6 @3",
        index=[(1, 0, 1, 2)],
        open={},
        states={1: (9, -1, -1, 0, 6, None)},
    ),
    "34": Example(
        "D 1 0 0-1 @0-1 T; M 1 0 A 2 @2; D 1 1 0-0 @3-3 T; M 1 2 C 2 @4; D 1 2 0-0 @5-5 T; M 1 3 C 2 @6",
        {7: 7},
        index=[(1, 0, 2, 3)],
        states={1: (3, -1, -1, 0, 2, None)},
    ),
    "35": Example(
        "D 1 0 0-1 @0-1 T; M 1 0 A 2 @2; D 1 0 2-2 @3-3 T; M 1 0 C 2 @4",
        index=[(1, 0, 2, 3)],
        states={1: (0, 2, 3, 0, 2, None)},
    ),
    "36": Example("D 1 0 0-1 @0-1 T; M 1 1 C 2 @2", states={1: (1, -1, -1, 0, 2, None)}),
    "37 from the snapshot": Example(
        "plain @200-229; M 3 0 A 1 @230",
        {231: 231},
        open={},
        states={4: (0, 0, 120, 0, -1, None)},
        boundary=snapshot(231, (3, (0, -1, -1, 0, 1, None)), (4, (0, 0, 120, 0, -1, None))),
        log_start_offset=200,
    ),
    "38": Example("D 5 0 0-9 @0-9 N cnt 3 ts 4200", states={5: (0, 9, 9, 9, -1, None)}),
    "39": Example(
        "M 1 0 A 2 @0; D 1 0 0-1 @1-2 T; M 1 0 C 2 @3", closed=[(1, 1, 3, COMMITTED)], index=[], empty_markers=[0]
    ),
}
