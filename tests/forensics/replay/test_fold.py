"""The reference replay: the worked examples of the specification, and cases that they omit."""

from __future__ import annotations

import pytest

from kforensics.forensics.replay.boundary import EMPTY, UNKNOWN
from tests.forensics.batch_notation import NOW, SIZE, parse_batches
from tests.forensics.replay.replay_examples import (
    COMMITTED,
    EXAMPLES,
    HEAD_DELETED,
    NO_PREFIX,
    TWO_NESTED,
    Example,
    State,
    snapshot,
)
from tests.reference.fold import Replay, fold
from tests.reference.replay_values import Producer, RecentBatch


def _replay(example: Example) -> Replay:
    return fold(parse_batches(example.log), example.boundary, example.log_start_offset, sequences=example.sequences)


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


@pytest.mark.parametrize("example", [pytest.param(example, id=name) for name, example in EXAMPLES.items()])
def test_worked_example(example: Example) -> None:
    replay = _replay(example)
    stable = {high_watermark: replay.last_stable_offset(high_watermark) for high_watermark in example.lso}
    closed = [(each.producer_id, each.first_offset, each.marker_offset, each.outcome) for each in replay.transactions]
    index = [
        (each.producer_id, each.first_offset, each.last_offset, each.last_stable_offset)
        for each in replay.aborted_transactions
    ]
    still_open = {each.producer_id: each.first_offset for each in replay.open_transactions}
    empty_markers = [marker.marker_offset for marker in replay.empty_markers]
    anomalies = [(row.kind.name, row.first_offset, row.amount) for row in replay.anomalies]
    assert {high_watermark: each.last_stable_offset for high_watermark, each in stable.items()} == example.lso
    assert example.closed in (None, closed)
    assert example.index in (None, index)
    assert example.open in (None, still_open)
    assert example.empty_markers in (None, empty_markers)
    assert {number: _state(replay.producers[number]) for number in example.states} == example.states
    assert sorted(anomalies) == sorted(example.anomalies)


def test_21_a_log_without_its_start_gives_bounds() -> None:
    replay = fold(parse_batches(NO_PREFIX), UNKNOWN, 100)
    closed = [(each.producer_id, each.first_offset, each.marker_offset, each.outcome) for each in replay.transactions]
    empty_markers = [(marker.producer_id, marker.marker_offset, marker.exact) for marker in replay.empty_markers]
    stable = replay.last_stable_offset()
    assert closed == [(1, 100, 102, COMMITTED)]
    assert [transaction.first_offset_exact for transaction in replay.transactions] == [False]
    assert empty_markers == [(2, 101, False)]
    assert (stable.lowest, stable.last_stable_offset, stable.exact) == (100, 103, False)


def test_37_an_abort_without_data_is_not_exact_without_a_snapshot() -> None:
    replay = fold(parse_batches("plain @200-229; M 3 0 A 1 @230"), UNKNOWN, 200)
    assert [(marker.marker_offset, marker.exact) for marker in replay.empty_markers] == [(230, False)]
    assert replay.aborted_transactions == ()


def test_after_its_first_marker_a_producer_is_exact() -> None:
    log = "D 1 0 5-5 @100-100 T; M 1 0 A 1 @101; D 1 0 6-6 @102-102 T; M 1 0 A 1 @103; M 1 0 C 1 @104"
    replay = fold(parse_batches(log), UNKNOWN, 100)
    assert [transaction.first_offset_exact for transaction in replay.transactions] == [False, True]
    assert [aborted.first_offset_exact for aborted in replay.aborted_transactions] == [False, True]
    assert {aborted.last_stable_offset_exact for aborted in replay.aborted_transactions} == {False}
    assert [marker.exact for marker in replay.empty_markers] == [True]


def test_the_last_five_batches_of_an_epoch_survive_its_markers() -> None:
    data = [f"D 1 0 {n}-{n} @{n}-{n} T" for n in range(6)]
    replay = fold(parse_batches("; ".join([*data, "M 1 0 C 3 @6"])))
    assert replay.producers[1].recent == tuple(RecentBatch(n, n, 0, NOW + n) for n in range(1, 6))


def test_a_transaction_counts_from_its_first_batch_to_its_marker() -> None:
    """Non-transactional data of the producer does not count, and a new epoch does not start another transaction."""
    log = "D 1 0 0-2 @0-2 T ts 70; D 1 0 3-3 @3-3 N ts 10; D 1 1 0-1 @4-5 T ts 50; M 1 2 C 3 @6 ts 90"
    replay = fold(parse_batches(log))
    (transaction,) = replay.transactions
    assert (transaction.producer_epoch, transaction.first_offset, transaction.last_offset) == (1, 0, 5)
    assert (transaction.batches, transaction.records, transaction.bytes) == (2, 5, 2 * SIZE)
    assert (transaction.first_timestamp, transaction.last_timestamp, transaction.marker_timestamp) == (50, 70, 90)
    assert (transaction.marker_offset, transaction.marker_epoch, transaction.coordinator_epoch) == (6, 2, 3)
    assert replay.producers[1].last_timestamp == 90


def test_a_transaction_in_a_snapshot_counts_what_comes_after_it() -> None:
    boundary = snapshot(4, (1, (0, 2, 3, 0, -1, 0)))
    (transaction,) = fold(parse_batches("D 1 0 3-3 @4-4 T ts 70; M 1 0 C 0 @5"), boundary).transactions
    assert (transaction.first_offset, transaction.last_offset) == (0, 4)
    assert (transaction.batches, transaction.records) == (1, 1)
    assert (transaction.first_timestamp, transaction.last_timestamp) == (None, NOW)
    assert transaction.first_offset_exact


def test_the_oldest_unstable_transaction_blocks() -> None:
    replay = fold(parse_batches(TWO_NESTED))
    blocking = {
        high_watermark: replay.last_stable_offset(high_watermark).blocking_transaction
        for high_watermark in (0, 2, 5, 7)
    }
    producer_ids = {
        high_watermark: transaction and transaction.producer_id for high_watermark, transaction in blocking.items()
    }
    assert producer_ids == {0: None, 2: 1, 5: 2, 7: None}


@pytest.mark.parametrize(("high_watermark", "offset"), [(2, 5), (99, 5), (5, 5)])
def test_a_high_watermark_outside_the_log_is_moved_to_its_nearer_end(high_watermark: int, offset: int) -> None:
    replay = fold(parse_batches(HEAD_DELETED), EMPTY, 5)
    assert replay.last_stable_offset(high_watermark).last_stable_offset == offset


def test_a_last_stable_offset_below_the_snapshot_is_not_exact() -> None:
    replay = fold(parse_batches(TWO_NESTED), snapshot(5, (1, (0, 2, 3, 0, 5, None)), (2, (0, 0, 2, 0, -1, 2))))
    below, above = replay.last_stable_offset(4), replay.last_stable_offset(5)
    assert (below.lowest, below.last_stable_offset, below.exact) == (0, 2, False)
    assert (above.last_stable_offset, above.exact) == (2, True)
