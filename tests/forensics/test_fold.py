"""The sequential replay: what the specification's examples demand, and what they leave out."""

from __future__ import annotations

import pytest

from kforensics.forensics.replay.fold import Replay, fold
from kforensics.forensics.replay.replay_types import EMPTY, UNKNOWN, Producer, RecentBatch
from tests.forensics.events import NOW, SIZE, events
from tests.forensics.examples import COMMITTED, EXAMPLES, HEAD_DELETED, NO_PREFIX, TWO_NESTED, Example, State, snapshot


def _replay(example: Example) -> Replay:
    return fold(events(example.log), example.boundary, example.log_start_offset, sequences=example.sequences)


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
    assert sorted((one.kind.name, one.first_offset, one.amount) for one in replay.anomalies) == sorted(
        example.anomalies
    )


def test_21_without_its_prefix_a_log_gives_bounds() -> None:
    replay = fold(events(NO_PREFIX), UNKNOWN, 100)
    closed = [(one.producer_id, one.first_offset, one.marker_offset, one.outcome) for one in replay.transactions]
    stable = replay.last_stable_offset()
    assert closed == [(1, 100, 102, COMMITTED)]
    assert [one.first_offset_exact for one in replay.transactions] == [False]
    assert [(one.producer_id, one.marker_offset, one.exact) for one in replay.empty_markers] == [(2, 101, False)]
    assert (stable.lowest, stable.last_stable_offset, stable.exact) == (100, 103, False)


def test_37_an_abort_whose_data_is_gone_is_not_exact_without_asnapshot() -> None:
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
    boundary = snapshot(4, (1, (0, 2, 3, 0, -1, 0)))
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
    replay = fold(events(TWO_NESTED), snapshot(5, (1, (0, 2, 3, 0, 5, None)), (2, (0, 0, 2, 0, -1, 2))))
    below, above = replay.last_stable_offset(4), replay.last_stable_offset(5)
    assert (below.lowest, below.last_stable_offset, below.exact) == (0, 2, False)
    assert (above.last_stable_offset, above.exact) == (2, True)
