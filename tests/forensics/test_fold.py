"""The worked examples of the specification of transactions that concern the replay, by their numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from kforensics.forensics.fold import Replay, fold
from kforensics.forensics.values import (
    EMPTY,
    UNKNOWN,
    Boundary,
    Outcome,
    Producer,
    RecentBatch,
    snapshot_boundary,
)
from kforensics.parsers.producer_snapshot import ProducerSnapshotEntry
from tests.forensics.events import NOW, SIZE, events

State = tuple[int, int, int, int, int, int | None]
COMMITTED, ABORTED = Outcome.COMMITTED, Outcome.ABORTED
TWO_NESTED = "D 1 0 0-1 @0-1 T; D 2 0 0-0 @2-2 T; D 1 0 2-2 @3-3 T; M 1 0 A 5 @4; D 3 0 0-0 @5-5 N; M 2 0 C 5 @6"
TIMED_OUT = "D 1 0 0-2 @0-2 T; M 1 1 A 4 @3; D 1 2 0-0 @4-4 T"
LATE_WRITE = "D 1 0 0-2 @0-2 T; M 1 0 A 4 @3; D 1 0 3-3 @4-4 T"
HEAD_DELETED = "D 1 0 0-9 @0-9 T; D 2 0 0-9 @10-19 N"
NO_PREFIX = "D 1 0 5-5 @100-100 T; M 2 0 A 1 @101; M 1 0 C 1 @102"
CLEANED = "D 1 0 0-4 @0-4 T cnt 2; {}; D 2 0 0-0 @9-9 T cnt 0; M 2 0 A 3 @12; shell 3 @15; plain @19"
REFUSED_MARKERS = "D 1 4 0-2 @0-2 T; M 1 5 C 6 @3; M 1 5 C 6 @4"


@dataclass(frozen=True)
class Example:
    """A log and what the specification says of it; what it does not say of one is None.

    ``lso`` is by high watermark, ``closed`` (producer id, first offset, marker offset, outcome), ``index`` (producer
    id, first, last, last stable offset), ``open`` first offsets by producer id, ``empty_markers`` their offsets, and
    a state (epoch, last sequence, last offset, offset delta, coordinator epoch, first offset of the open transaction).
    """

    log: str
    lso: dict[int, int] = field(default_factory=dict)
    closed: list[tuple[int, int, int, Outcome]] | None = None
    index: list[tuple[int, int, int, int]] | None = None
    open: dict[int, int] | None = None
    states: dict[int, State] = field(default_factory=dict)
    empty_markers: list[int] | None = None
    boundary: Boundary = EMPTY
    log_start_offset: int = 0


def _snapshot(offset: int, *states: tuple[int, State]) -> Boundary:
    entries = [
        ProducerSnapshotEntry(
            0, producer_id, epoch, sequence, last, delta, NOW, coordinator, -1 if first is None else first
        )
        for producer_id, (epoch, sequence, last, delta, coordinator, first) in states
    ]
    return snapshot_boundary(offset, entries)


EXAMPLES = {
    "1": Example("", {0: 0}, closed=[], index=[], open={}),
    "1 of a log that begins later": Example("", {50: 50}, closed=[], index=[], open={}, log_start_offset=50),
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
    "9": Example(TIMED_OUT, {5: 4}, index=[(1, 0, 3, 4)], open={1: 4}),
    "10": Example(LATE_WRITE, {5: 4}, index=[(1, 0, 3, 4)], open={1: 4}),
    "11": Example(
        f"{LATE_WRITE}; D 1 1 0-0 @5-5 T; M 1 1 C 4 @6",
        {7: 7},
        closed=[(1, 0, 3, ABORTED), (1, 4, 6, COMMITTED)],
        index=[(1, 0, 3, 4)],
        open={},
    ),
    "15 with a second COMMIT": Example(
        "D 1 0 0-0 @0-0 T; M 1 0 C 3 @1; M 1 0 C 4 @2", {3: 3}, [(1, 0, 1, COMMITTED)], [], {}, empty_markers=[2]
    ),
    "15 with an ABORT behind": Example(
        "D 1 0 0-0 @0-0 T; M 1 0 C 3 @1; M 1 0 A 4 @2", {3: 3}, [(1, 0, 1, COMMITTED)], [], {}, empty_markers=[2]
    ),
    "16": Example("D 1 0 0-0 @0-0 T; D 1 0 1-1 @1-1 N; M 1 0 C 3 @2", closed=[(1, 0, 2, COMMITTED)]),
    "19": Example(HEAD_DELETED, {20: 5}, open={1: 0}, log_start_offset=5),
    "19 once committed": Example(f"{HEAD_DELETED}; M 1 0 C 0 @20", {21: 21}, open={}, log_start_offset=5),
    "19 reloaded": Example("D 2 0 0-9 @10-19 N", {20: 20}, open={}, log_start_offset=12),
    "21 with a snapshot behind": Example(
        NO_PREFIX,
        {103: 103},
        open={},
        boundary=_snapshot(103, (1, (0, 5, 100, 0, 1, None)), (2, (0, -1, -1, 0, 1, None))),
        log_start_offset=100,
    ),
    "22": Example(
        CLEANED.format("M 1 0 C 3 @5"), closed=[(1, 0, 5, COMMITTED), (2, 9, 12, ABORTED)], open={}, empty_markers=[]
    ),
    "22 with a shell for a marker": Example(CLEANED.format("shell 1 @5"), {20: 0}, open={1: 0}),
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
        boundary=_snapshot(4, (1, (0, 2, 3, 0, -1, 0)), (2, (0, 0, 2, 0, -1, 2))),
    ),
    "31": Example("D 1 0 7-8 @0-1 T; M 1 0 A 3 @2; D 2 0 9-10 @3-4 N", {5: 5}, index=[(1, 0, 2, 3)]),
    "32": Example(
        REFUSED_MARKERS,
        {5: 5},
        closed=[(1, 0, 3, COMMITTED)],
        index=[],
        open={},
        states={1: (5, -1, -1, 0, 6, None)},
        empty_markers=[4],
    ),
    "32 with the next transaction": Example(
        f"{REFUSED_MARKERS}; D 1 5 0-0 @5-5 T; M 1 6 C 6 @6",
        closed=[(1, 0, 3, COMMITTED), (1, 5, 6, COMMITTED)],
        open={},
        empty_markers=[4],
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
        boundary=_snapshot(231, (3, (0, -1, -1, 0, 1, None)), (4, (0, 0, 120, 0, -1, None))),
        log_start_offset=200,
    ),
    "38": Example("D 5 0 0-9 @0-9 N cnt 3 ts 4200", states={5: (0, 9, 9, 9, -1, None)}),
    "39": Example(
        "M 1 0 A 2 @0; D 1 0 0-1 @1-2 T; M 1 0 C 2 @3", closed=[(1, 1, 3, COMMITTED)], index=[], empty_markers=[0]
    ),
}


def _replay(example: Example) -> Replay:
    return fold(events(example.log), example.boundary, example.log_start_offset)


def _state(producer: Producer) -> State:
    first = producer.current_txn_first_offset
    return (
        producer.producer_epoch,
        producer.last_sequence,
        producer.last_offset,
        producer.offset_delta,
        producer.coordinator_epoch,
        None if first == -1 else first,
    )


@pytest.mark.parametrize("example", [pytest.param(one, id=name) for name, one in EXAMPLES.items()])
def test_worked_example(example: Example) -> None:
    replay = _replay(example)
    found = {high_watermark: replay.last_stable_offset(high_watermark) for high_watermark in example.lso}
    closed = [(one.producer_id, one.first_offset, one.marker_offset, one.outcome) for one in replay.transactions]
    index = [
        (one.producer_id, one.first_offset, one.last_offset, one.last_stable_offset)
        for one in replay.aborted_transactions
    ]
    still_open = {one.producer_id: one.first_offset for one in replay.open_transactions}
    empty_markers = [one.marker_offset for one in replay.empty_markers]
    assert {at: one.last_stable_offset for at, one in found.items()} == example.lso
    assert example.closed in (None, closed)
    assert example.index in (None, index)
    assert example.open in (None, still_open)
    assert example.empty_markers in (None, empty_markers)
    assert {one: _state(replay.producers[one]) for one in example.states} == example.states


def test_14_a_zombie_takes_the_epoch_back() -> None:
    log = "D 9 3 0-0 @0-0 N; D 9 4 0-0 @1-1 N; D 9 3 1-1 @2-2 N"
    producer = fold(events(log)).producers[9]
    assert producer.producer_epoch == 3
    assert [one.last_sequence for one in producer.recent] == [1]


def test_21_without_its_prefix_a_log_gives_bounds() -> None:
    replay = fold(events(NO_PREFIX), UNKNOWN, 100)
    closed = [(one.producer_id, one.first_offset, one.marker_offset, one.outcome) for one in replay.transactions]
    stable = replay.last_stable_offset()
    assert closed == [(1, 100, 102, COMMITTED)]
    assert [one.first_offset_exact for one in replay.transactions] == [False]
    assert [(one.producer_id, one.marker_offset, one.exact) for one in replay.empty_markers] == [(2, 101, False)]
    assert (stable.lowest, stable.last_stable_offset, stable.exact) == (100, 103, False)


def test_37_an_abort_whose_data_is_gone_is_not_exact_without_a_snapshot() -> None:
    replay = fold(events("plain @200-229; M 3 0 A 1 @230"), UNKNOWN, 200)
    assert [(one.marker_offset, one.exact) for one in replay.empty_markers] == [(230, False)]
    assert replay.aborted_transactions == ()


def test_behind_its_first_marker_a_producer_is_known_exactly() -> None:
    log = "D 1 0 5-5 @100-100 T; M 1 0 A 1 @101; D 1 0 6-6 @102-102 T; M 1 0 A 1 @103; M 1 0 C 1 @104"
    replay = fold(events(log), UNKNOWN, 100)
    assert [one.first_offset_exact for one in replay.transactions] == [False, True]
    assert [one.first_offset_exact for one in replay.aborted_transactions] == [False, True]
    assert {one.last_stable_offset_exact for one in replay.aborted_transactions} == {False}
    assert [one.exact for one in replay.empty_markers] == [True]


def test_five_batches_of_an_epoch_are_remembered_over_its_markers() -> None:
    data = [f"D 1 0 {n}-{n} @{n}-{n} T" for n in range(6)]
    replay = fold(events("; ".join([*data, "M 1 0 C 3 @6"])))
    assert replay.producers[1].recent == tuple(RecentBatch(n, n, 0, NOW + n) for n in range(1, 6))


def test_a_transaction_is_counted_from_its_first_batch_to_its_marker() -> None:
    """Data of the producer that is not transactional has no part in it, and a new epoch does not begin another."""
    replay = fold(events("D 1 0 0-2 @0-2 T ts 70; D 1 0 3-3 @3-3 N ts 10; D 1 1 0-1 @4-5 T ts 50; M 1 2 C 3 @6 ts 90"))
    (found,) = replay.transactions
    assert (found.producer_epoch, found.first_offset, found.last_offset) == (1, 0, 5)
    assert (found.batches, found.records, found.bytes) == (2, 5, 2 * SIZE)
    assert (found.first_timestamp, found.last_timestamp, found.marker_timestamp) == (50, 70, 90)
    assert (found.marker_offset, found.marker_epoch, found.coordinator_epoch) == (6, 2, 3)
    assert replay.producers[1].last_timestamp == 90


def test_a_transaction_of_a_snapshot_counts_what_stands_behind_it() -> None:
    boundary = _snapshot(4, (1, (0, 2, 3, 0, -1, 0)))
    (found,) = fold(events("D 1 0 3-3 @4-4 T ts 70; M 1 0 C 0 @5"), boundary).transactions
    assert (found.first_offset, found.last_offset, found.batches, found.records) == (0, 4, 1, 1)
    assert (found.first_timestamp, found.last_timestamp, found.first_offset_exact) == (None, NOW, True)


def test_the_holder_is_the_oldest_transaction_that_is_unstable() -> None:
    replay = fold(events(TWO_NESTED))
    holders = {at: replay.last_stable_offset(at).holder for at in (0, 2, 5, 7)}
    assert {at: one and one.producer_id for at, one in holders.items()} == {0: None, 2: 1, 5: 2, 7: None}


@pytest.mark.parametrize(("high_watermark", "offset"), [(2, 5), (99, 5), (5, 5)])
def test_a_high_watermark_outside_the_log_is_moved_to_its_end(high_watermark: int, offset: int) -> None:
    replay = fold(events(HEAD_DELETED), EMPTY, 5)
    assert replay.last_stable_offset(high_watermark).last_stable_offset == offset


def test_below_its_snapshot_a_last_stable_offset_is_not_exact() -> None:
    replay = fold(events(TWO_NESTED), _snapshot(5, (1, (0, 2, 3, 0, 5, None)), (2, (0, 0, 2, 0, -1, 2))))
    below, above = replay.last_stable_offset(4), replay.last_stable_offset(5)
    assert (below.lowest, below.last_stable_offset, below.exact) == (0, 2, False)
    assert (above.last_stable_offset, above.exact) == (2, True)
