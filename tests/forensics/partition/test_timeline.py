"""Last stable offsets at all high watermarks, and index entries, compared with the reference replay and definition."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from kforensics.forensics.core.record_types import TRANSACTION, TransactionArray, TransactionOutcome
from kforensics.forensics.partition.timeline import (
    EXPECTED_ABORTED_ENTRY,
    LSO_STEP,
    ExpectedAbortedEntryArray,
    LsoStepArray,
    expected_aborted_entries,
    last_stable_offsets,
    lso_steps,
    max_lso_lag,
)
from kforensics.forensics.partition.transaction_store import TransactionStore, transaction_store_of
from kforensics.forensics.replay.boundary import EMPTY, UNKNOWN, Boundary
from kforensics.parsers.state.producer_snapshot import ProducerSnapshotEntry
from tests.forensics.batch_notation import parse_batches, snapshot_boundary
from tests.forensics.partition_states import random_leader_log
from tests.reference.fold import Replay, fold
from tests.reference.replay_values import BatchSummary

LOGS, LONGEST = 3000, 40
INTERLEAVED = "D 1 0 0-1 @0-1 T; D 2 0 0-0 @2-2 T; D 1 0 2-2 @3-3 T; M 1 0 A 5 @4; D 3 0 0-0 @5-5 N; M 2 0 C 5 @6"


def of_replay(replay: Replay) -> TransactionArray:
    """Return the transactions of a replay, closed ones first, as records with the fields that matter here."""
    transactions = [*replay.transactions, *replay.open_transactions]
    rows = np.zeros(len(transactions), TRANSACTION)
    for row, transaction in zip(rows, transactions, strict=True):
        row["producer_id"], row["first_offset"] = transaction.producer_id, transaction.first_offset
        row["marker_offset"] = -1 if transaction.marker_offset is None else transaction.marker_offset
        row["outcome"], row["first_offset_exact"] = transaction.outcome, transaction.first_offset_exact
    return rows


def transaction_stores(transactions: TransactionArray) -> Iterator[TransactionStore]:
    """Yield stores of the same transactions with different page sizes."""
    yield transaction_store_of(transactions)
    for page_size in (1, 4):
        memory_limit = page_size * 2 * TRANSACTION.itemsize
        yield transaction_store_of(transactions, memory_limit=memory_limit, page_size=page_size)


def steps_of(transaction_store: TransactionStore, log_start_offset: int, log_end_offset: int) -> LsoStepArray:
    """Return all steps of the last stable offset."""
    return np.concatenate([np.empty(0, LSO_STEP), *lso_steps(transaction_store, log_start_offset, log_end_offset)])


def entries_of(transaction_store: TransactionStore, exact_from: int | None = 0) -> ExpectedAbortedEntryArray:
    """Return all expected entries."""
    entries = expected_aborted_entries(transaction_store, exact_from)
    return np.concatenate([np.empty(0, EXPECTED_ABORTED_ENTRY), *entries])


def blocked_by(blocking_transactions: TransactionArray) -> list[tuple[int, int] | None]:
    """Return producer id and first offset of each blocking transaction, None where there is none."""
    names = ("producer_id", "first_offset", "batches")
    rows = zip(*(blocking_transactions[name].tolist() for name in names), strict=True)
    return [None if batches < 0 else (producer_id, first) for producer_id, first, batches in rows]


def snapshot_before(log: list[BatchSummary], count: int) -> Boundary:
    """Return the boundary that a snapshot after the first batches of a log describes."""
    before = fold(log[:count])
    entries = [
        ProducerSnapshotEntry(
            0,
            producer.producer_id,
            producer.producer_epoch,
            -1,
            -1,
            0,
            producer.last_timestamp,
            -1,
            producer.current_txn_first_offset,
        )
        for producer in before.producers.values()
    ]
    return snapshot_boundary(before.log_end_offset, entries)


def replays() -> Iterator[Replay]:
    """Yield replays of random logs: complete ones, and ends of logs after a snapshot or with an unknown start."""
    dice = random.Random(20261121)  # noqa: S311  # a seed, not a secret
    for number in range(LOGS):
        log = parse_batches(random_leader_log(dice, LONGEST))
        missing = dice.randrange(len(log) + 1) if number % 3 else 0
        start, end = (log[missing - 1].last_offset + 1 if missing else 0), (log[-1].last_offset + 1 if log else 0)
        log_start_offset = dice.randrange(start, end + 1) if number % 2 else start
        boundary = (EMPTY, snapshot_before(log, missing), UNKNOWN)[number % 3]
        yield fold(log[missing:], boundary, log_start_offset)


@cache
def random_replays() -> tuple[tuple[Replay, TransactionArray], ...]:
    """Return the random replays with their transactions, computed once."""
    return tuple((replay, of_replay(replay)) for replay in replays())


def high_watermarks_of(replay: Replay) -> Any:
    """Return every high watermark that a log had."""
    return np.arange(replay.log_start_offset, replay.log_end_offset + 1)


def defined(transactions: TransactionArray, log_start_offset: int, high_watermark: int) -> int:
    """Return a last stable offset by its definition, over all transactions."""
    unstable = [
        max(int(row["first_offset"]), log_start_offset)
        for row in transactions
        if row["first_offset"] < high_watermark
        and (row["outcome"] == TransactionOutcome.OPEN or high_watermark <= row["marker_offset"])
    ]
    return min([high_watermark, *unstable])


@pytest.mark.slow
def test_last_stable_offsets_match_the_definition_at_every_high_watermark() -> None:
    compared = 0
    for replay, transactions in random_replays():
        high_watermarks = high_watermarks_of(replay)
        expected = [defined(transactions, replay.log_start_offset, h) for h in high_watermarks.tolist()]
        for transaction_store in transaction_stores(transactions):
            offsets, _ = last_stable_offsets(transaction_store, replay.log_start_offset, high_watermarks)
            assert offsets.tolist() == expected
        compared += len(high_watermarks)
    assert compared > 50_000


@pytest.mark.slow
def test_last_stable_offsets_and_blocking_transactions_match_the_replay() -> None:
    blocked = 0
    for replay, transactions in random_replays():
        high_watermarks = high_watermarks_of(replay)
        stable = [replay.last_stable_offset(h) for h in high_watermarks.tolist()]
        transactions_of_replay = [offset.blocking_transaction for offset in stable]
        expected = [
            transaction and (transaction.producer_id, transaction.first_offset)
            for transaction in transactions_of_replay
        ]
        for transaction_store in transaction_stores(transactions):
            offsets, blocking = last_stable_offsets(transaction_store, replay.log_start_offset, high_watermarks)
            assert offsets.tolist() == [offset.last_stable_offset for offset in stable]
            assert blocked_by(blocking) == expected
        blocked += sum(transaction is not None for transaction in expected)
    assert blocked > 20_000


@pytest.mark.slow
def test_steps_cover_every_high_watermark_once() -> None:
    for replay, transactions in random_replays():
        for transaction_store in transaction_stores(transactions):
            steps = steps_of(transaction_store, replay.log_start_offset, replay.log_end_offset)
            assert steps["from_high_watermark"][0] == replay.log_start_offset
            assert steps["to_high_watermark"][-1] == replay.log_end_offset
            assert (steps["from_high_watermark"][1:] == steps["to_high_watermark"][:-1] + 1).all()
            assert (steps["from_high_watermark"] <= steps["to_high_watermark"]).all()


@pytest.mark.slow
def test_steps_agree_with_each_high_watermark_on_its_own() -> None:
    for replay, transactions in random_replays():
        high_watermarks = high_watermarks_of(replay)
        whole = transaction_store_of(transactions)
        offsets, blocking = last_stable_offsets(whole, replay.log_start_offset, high_watermarks)
        steps = steps_of(whole, replay.log_start_offset, replay.log_end_offset)
        step = steps[steps["to_high_watermark"].searchsorted(high_watermarks)]
        expected = [transaction and transaction[0] for transaction in blocked_by(blocking)]
        pairs = zip(step["is_blocked"].tolist(), step["producer_id"].tolist(), strict=True)
        assert [producer_id if is_blocked else None for is_blocked, producer_id in pairs] == expected
        assert np.where(step["is_blocked"], step["last_stable_offset"], high_watermarks).tolist() == offsets.tolist()


@pytest.mark.slow
def test_steps_do_not_depend_on_the_page_size() -> None:
    for replay, transactions in random_replays():
        expected, *others = (
            steps_of(transaction_store, replay.log_start_offset, replay.log_end_offset)
            for transaction_store in transaction_stores(transactions)
        )
        for steps in others:
            assert steps.tolist() == expected.tolist()


def test_a_step_is_blocked_by_one_transaction_or_by_none() -> None:
    """Each blocking transaction has one step, and there is at most one unblocked step between two of them."""
    for replay, transactions in random_replays():
        steps = steps_of(transaction_store_of(transactions), replay.log_start_offset, replay.log_end_offset)
        assert not (~steps["is_blocked"][1:] & ~steps["is_blocked"][:-1]).any()
        blocking = steps[steps["is_blocked"]][["producer_id", "last_stable_offset"]].tolist()
        assert len(blocking) == len(set(blocking))


@pytest.mark.slow
def test_expected_entries_match_the_replay() -> None:
    compared = 0
    for replay, transactions in random_replays():
        exact_from = replay.boundary.offset if replay.boundary is not UNKNOWN else None
        expected = [
            (
                aborted.producer_id,
                aborted.first_offset,
                aborted.last_offset,
                aborted.last_stable_offset,
                aborted.first_offset_exact,
                aborted.last_stable_offset_exact,
            )
            for aborted in replay.aborted_transactions
        ]
        for transaction_store in transaction_stores(transactions):
            names = [name for name in EXPECTED_ABORTED_ENTRY.names or () if "follower" not in name]
            assert entries_of(transaction_store, exact_from)[names].tolist() == expected
        compared += len(expected)
    assert compared > 3_000


def follower_value(transactions: TransactionArray, entry: Any) -> int:
    """Return the last stable offset that a follower may write if these transactions may be the next ones."""
    if entry["last_stable_offset"] != entry["last_offset"] + 1:
        return int(entry["last_stable_offset"])
    firsts = transactions["first_offset"]
    return int(min(firsts[firsts > entry["last_offset"]], default=entry["last_stable_offset"]))


@pytest.mark.slow
def test_a_follower_may_name_the_next_transaction() -> None:
    differing = 0
    for _, transactions in random_replays():
        for transaction_store in transaction_stores(transactions):
            entries = entries_of(transaction_store)
            assert entries["old_follower_last_stable_offset"].tolist() == [
                follower_value(transactions, entry) for entry in entries
            ]
            expected = [
                follower_value(transactions[transactions["producer_id"] != entry["producer_id"]], entry)
                for entry in entries
            ]
            assert entries["follower_last_stable_offset"].tolist() == expected
            differing += int((entries["follower_last_stable_offset"] != entries["last_stable_offset"]).sum())
    assert differing > 300


@pytest.mark.slow
def test_max_lag_is_the_largest_distance_at_any_high_watermark() -> None:
    for replay, transactions in random_replays():
        high_watermarks = high_watermarks_of(replay)
        for transaction_store in transaction_stores(transactions):
            offsets, _ = last_stable_offsets(transaction_store, replay.log_start_offset, high_watermarks)
            lag = max_lso_lag(transaction_store, replay.log_start_offset, replay.log_end_offset)
            assert lag == (high_watermarks - offsets).max(), replay


def test_4_interleaved_transactions() -> None:
    for transaction_store in transaction_stores(of_replay(fold(parse_batches(INTERLEAVED)))):
        offsets, _ = last_stable_offsets(transaction_store, 0, [2, 4, 5, 6, 7])
        assert offsets.tolist() == [0, 0, 2, 2, 7]
        names = ["producer_id", "first_offset", "last_offset", "last_stable_offset"]
        assert entries_of(transaction_store)[names].tolist() == [(1, 0, 4, 2)]
        assert max_lso_lag(transaction_store, 0, 7) == 4
        assert steps_of(transaction_store, 0, 7).tolist() == [
            (0, 0, 0, False, -1),
            (1, 4, 0, True, 1),
            (5, 6, 2, True, 2),
            (7, 7, 7, False, -1),
        ]


def test_6_a_follower_sees_the_transaction_that_follows_in_the_same_fetch() -> None:
    log = parse_batches("D 1 0 0-0 @0-0 T; M 1 0 A 0 @1; D 3 0 0-0 @2-2 N; D 2 0 0-0 @3-3 T")
    (entry,) = entries_of(transaction_store_of(of_replay(fold(log))))
    assert (entry["last_stable_offset"], entry["follower_last_stable_offset"]) == (2, 3)


def test_6_a_follower_of_an_old_release_sees_the_next_transaction_of_the_same_producer() -> None:
    log = parse_batches("D 1 0 0-0 @0-0 T; M 1 0 A 0 @1; D 3 0 0-0 @2-2 N; D 1 0 1-1 @3-3 T; D 2 0 0-0 @4-4 T")
    (entry,) = entries_of(transaction_store_of(of_replay(fold(log))))
    assert (entry["follower_last_stable_offset"], entry["old_follower_last_stable_offset"]) == (4, 3)


def test_9_a_transaction_is_open_after_a_timeout() -> None:
    transaction_store = transaction_store_of(
        of_replay(fold(parse_batches("D 1 0 0-2 @0-2 T; M 1 1 A 4 @3; D 1 2 0-0 @4-4 T")))
    )
    (entry,) = entries_of(transaction_store)
    offsets, blocking = last_stable_offsets(transaction_store, 0, [5])
    assert (entry["last_stable_offset"], entry["follower_last_stable_offset"]) == (4, 4)
    assert (offsets.tolist(), blocked_by(blocking)) == ([4], [(1, 4)])


@pytest.mark.parametrize(("log_start_offset", "lag"), [(5, 15), (12, 8), (0, 20)])
def test_19_a_transaction_from_below_the_log_start_blocks_there(log_start_offset: int, lag: int) -> None:
    transactions = of_replay(fold(parse_batches("D 1 0 0-9 @0-9 T; D 2 0 0-9 @10-19 N"), EMPTY, log_start_offset))
    offsets, blocking = last_stable_offsets(transaction_store_of(transactions), log_start_offset, [20])
    assert (offsets.tolist(), blocked_by(blocking)) == ([log_start_offset], [(1, 0)])
    assert max_lso_lag(transaction_store_of(transactions), log_start_offset, 20) == lag


def test_a_log_without_transactions() -> None:
    none = transaction_store_of(np.empty(0, TRANSACTION))
    offsets, blocking = last_stable_offsets(none, 50, [50, 60, 40])
    assert (offsets.tolist(), blocked_by(blocking)) == ([50, 60, 50], [None, None, None])
    assert steps_of(none, 50, 60).tolist() == [(50, 60, 60, False, -1)]
    assert (len(entries_of(none)), max_lso_lag(none, 50, 60)) == (0, 0)
