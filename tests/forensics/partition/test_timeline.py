"""Last stable offsets at all high watermarks, and index entries, against the plain replay and the definition."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from kforensics.forensics.core.record_types import TRANSACTION, Ending, Records
from kforensics.forensics.partition.timeline import (
    EXPECTED_ENTRY,
    HISTORY,
    expected_index,
    history,
    last_stable_offsets,
    max_lag,
)
from kforensics.forensics.partition.transaction_store import Ledger, ledger_of
from kforensics.forensics.replay.fold import Replay, fold
from kforensics.forensics.replay.replay_types import EMPTY, UNKNOWN, BatchSummary, Boundary, Outcome
from kforensics.parsers.state.producer_snapshot import ProducerSnapshotEntry
from tests.forensics.cases import random_log
from tests.forensics.events import events, snapshot_boundary

LOGS, LONGEST = 3000, 40
ENDINGS = {Outcome.ABORTED: Ending.ABORTED, Outcome.COMMITTED: Ending.COMMITTED, Outcome.OPEN: Ending.OPEN}
INTERLEAVED = "D 1 0 0-1 @0-1 T; D 2 0 0-0 @2-2 T; D 1 0 2-2 @3-3 T; M 1 0 A 5 @4; D 3 0 0-0 @5-5 N; M 2 0 C 5 @6"


def of_replay(replay: Replay) -> Records:
    """Return the transactions of a replay, closed ones first, as the fields of records that matter here."""
    found = [*replay.transactions, *replay.open_transactions]
    records = np.zeros(len(found), TRANSACTION)
    for record, one in zip(records, found, strict=True):
        record["producer_id"], record["first_offset"] = one.producer_id, one.first_offset
        record["marker_offset"] = -1 if one.marker_offset is None else one.marker_offset
        record["ending"], record["first_offset_exact"] = ENDINGS[one.outcome], one.first_offset_exact
    return records


def ledgers(transactions: Records) -> Iterator[Ledger]:
    """Yield ledgers that give the same transactions in ranges of every kind."""
    yield ledger_of(transactions)
    for size in (1, 4):
        yield ledger_of(transactions, room=size * 2 * TRANSACTION.itemsize, size=size)


def steps_of(ledger: Ledger, log_start_offset: int, log_end_offset: int) -> Records:
    """Return the whole history."""
    return np.concatenate([np.empty(0, HISTORY), *history(ledger, log_start_offset, log_end_offset)])


def entries_of(ledger: Ledger, exact_from: int | None = 0) -> Records:
    """Return all expected entries."""
    return np.concatenate([np.empty(0, EXPECTED_ENTRY), *expected_index(ledger, exact_from)])


def held_by(holders: Records) -> list[tuple[int, int] | None]:
    """Return producer id and first offset of the transactions that hold, None where none does."""
    names = zip(*(holders[name].tolist() for name in ("producer_id", "first_offset", "batches")), strict=True)
    return [None if batches < 0 else (producer, first) for producer, first, batches in names]


def cut_at(log: list[BatchSummary], at: int) -> Boundary:
    """Return the boundary that a snapshot in front of the batch with a number describes."""
    before = fold(log[:at])
    entries = [
        ProducerSnapshotEntry(
            0, one.producer_id, one.producer_epoch, -1, -1, 0, one.last_timestamp, -1, one.current_txn_first_offset
        )
        for one in before.producers.values()
    ]
    return snapshot_boundary(before.log_end_offset, entries)


def replays() -> Iterator[Replay]:
    """Yield replays of random logs: whole ones, and tails from a snapshot on or with nothing known before them."""
    dice = random.Random(20261121)  # noqa: S311  # a seed, not a secret
    for number in range(LOGS):
        log = events(random_log(dice, LONGEST))
        at = dice.randrange(len(log) + 1) if number % 3 else 0
        begins, ends = (log[at - 1].last_offset + 1 if at else 0), (log[-1].last_offset + 1 if log else 0)
        log_start_offset = dice.randrange(begins, ends + 1) if number % 2 else begins
        yield fold(log[at:], (EMPTY, cut_at(log, at), UNKNOWN)[number % 3], log_start_offset)


@cache
def random_replays() -> tuple[tuple[Replay, Records], ...]:
    """Return the random replays with their transactions, made once."""
    return tuple((replay, of_replay(replay)) for replay in replays())


def watermarks(replay: Replay) -> Any:
    """Return every high watermark a log had."""
    return np.arange(replay.log_start_offset, replay.log_end_offset + 1)


def defined(transactions: Records, log_start_offset: int, high_watermark: int) -> int:
    """Return a last stable offset by its definition, over all transactions."""
    unstable = [
        max(int(one["first_offset"]), log_start_offset)
        for one in transactions
        if one["first_offset"] < high_watermark
        and (one["ending"] == Ending.OPEN or high_watermark <= one["marker_offset"])
    ]
    return min([high_watermark, *unstable])


def test_last_stable_offsets_are_those_of_the_definition_at_every_high_watermark() -> None:
    compared = 0
    for replay, transactions in random_replays():
        asked = watermarks(replay)
        expected = [defined(transactions, replay.log_start_offset, h) for h in asked.tolist()]
        for ledger in ledgers(transactions):
            offsets, _ = last_stable_offsets(ledger, replay.log_start_offset, asked)
            assert offsets.tolist() == expected
        compared += len(asked)
    assert compared > 50_000


def test_last_stable_offsets_and_their_holders_are_those_of_the_replay() -> None:
    held = 0
    for replay, transactions in random_replays():
        asked = watermarks(replay)
        found = [replay.last_stable_offset(h) for h in asked.tolist()]
        expected = [one.holder and (one.holder.producer_id, one.holder.first_offset) for one in found]
        for ledger in ledgers(transactions):
            offsets, holders = last_stable_offsets(ledger, replay.log_start_offset, asked)
            assert offsets.tolist() == [one.last_stable_offset for one in found]
            assert held_by(holders) == expected
        held += sum(one is not None for one in expected)
    assert held > 20_000


def test_history_covers_every_high_watermark_once() -> None:
    for replay, transactions in random_replays():
        for ledger in ledgers(transactions):
            steps = steps_of(ledger, replay.log_start_offset, replay.log_end_offset)
            assert steps["from_high_watermark"][0] == replay.log_start_offset
            assert steps["to_high_watermark"][-1] == replay.log_end_offset
            assert (steps["from_high_watermark"][1:] == steps["to_high_watermark"][:-1] + 1).all()
            assert (steps["from_high_watermark"] <= steps["to_high_watermark"]).all()


def test_history_says_the_same_as_each_high_watermark_alone() -> None:
    for replay, transactions in random_replays():
        asked = watermarks(replay)
        whole = ledger_of(transactions)
        offsets, holders = last_stable_offsets(whole, replay.log_start_offset, asked)
        steps = steps_of(whole, replay.log_start_offset, replay.log_end_offset)
        step = steps[steps["to_high_watermark"].searchsorted(asked)]
        owners = [one and one[0] for one in held_by(holders)]
        told = zip(step["is_held"].tolist(), step["producer_id"].tolist(), strict=True)
        assert [owner if held else None for held, owner in told] == owners
        assert np.where(step["is_held"], step["last_stable_offset"], asked).tolist() == offsets.tolist()


def test_history_has_the_same_steps_whatever_the_ranges() -> None:
    for replay, transactions in random_replays():
        expected, *others = (
            steps_of(ledger, replay.log_start_offset, replay.log_end_offset) for ledger in ledgers(transactions)
        )
        for steps in others:
            assert steps.tolist() == expected.tolist()


def test_a_step_of_the_history_is_one_transaction_or_none() -> None:
    """What a transaction holds is one step, and between two of these the offset moves freely in one."""
    for replay, transactions in random_replays():
        steps = steps_of(ledger_of(transactions), replay.log_start_offset, replay.log_end_offset)
        assert not (~steps["is_held"][1:] & ~steps["is_held"][:-1]).any()
        held = steps[steps["is_held"]]
        holders = held[["producer_id", "last_stable_offset"]].tolist()
        assert len(holders) == len(set(holders))


def test_expected_entries_are_those_of_the_replay() -> None:
    compared = 0
    for replay, transactions in random_replays():
        exact_from = replay.boundary.offset if replay.boundary is not UNKNOWN else None
        expected = [
            (
                one.producer_id,
                one.first_offset,
                one.last_offset,
                one.last_stable_offset,
                one.first_offset_exact,
                one.last_stable_offset_exact,
            )
            for one in replay.aborted_transactions
        ]
        for ledger in ledgers(transactions):
            found = entries_of(ledger, exact_from)
            assert found[[name for name in EXPECTED_ENTRY.names or () if "follower" not in name]].tolist() == expected
        compared += len(expected)
    assert compared > 3_000


def follower_value(transactions: Records, entry: Any) -> int:
    """Return the value a follower may write, by a look at all transactions."""
    if entry["last_stable_offset"] != entry["last_offset"] + 1:
        return int(entry["last_stable_offset"])
    others = transactions[transactions["producer_id"] != entry["producer_id"]]["first_offset"]
    return int(min(others[others > entry["last_offset"]], default=entry["last_stable_offset"]))


def test_a_follower_may_name_the_next_transaction_of_another_producer() -> None:
    differing = 0
    for _, transactions in random_replays():
        for ledger in ledgers(transactions):
            found = entries_of(ledger)
            expected = [follower_value(transactions, entry) for entry in found]
            assert found["follower_last_stable_offset"].tolist() == expected
            differing += int((found["follower_last_stable_offset"] != found["last_stable_offset"]).sum())
    assert differing > 300


def test_max_lag_is_the_largest_distance_at_any_high_watermark() -> None:
    for replay, transactions in random_replays():
        asked = watermarks(replay)
        for ledger in ledgers(transactions):
            offsets, _ = last_stable_offsets(ledger, replay.log_start_offset, asked)
            lag = max_lag(ledger, replay.log_start_offset, replay.log_end_offset)
            assert lag == (asked - offsets).max(), replay


def test_4_interleaved_transactions() -> None:
    for ledger in ledgers(of_replay(fold(events(INTERLEAVED)))):
        offsets, _ = last_stable_offsets(ledger, 0, [2, 4, 5, 6, 7])
        assert offsets.tolist() == [0, 0, 2, 2, 7]
        names = ["producer_id", "first_offset", "last_offset", "last_stable_offset"]
        assert entries_of(ledger)[names].tolist() == [(1, 0, 4, 2)]
        assert max_lag(ledger, 0, 7) == 4
        assert steps_of(ledger, 0, 7).tolist() == [
            (0, 0, 0, False, -1),
            (1, 4, 0, True, 1),
            (5, 6, 2, True, 2),
            (7, 7, 7, False, -1),
        ]


def test_6_a_follower_sees_the_transaction_that_follows_in_the_same_fetch() -> None:
    log = events("D 1 0 0-0 @0-0 T; M 1 0 A 0 @1; D 3 0 0-0 @2-2 N; D 2 0 0-0 @3-3 T")
    (entry,) = entries_of(ledger_of(of_replay(fold(log))))
    assert (entry["last_stable_offset"], entry["follower_last_stable_offset"]) == (2, 3)


def test_9_what_is_open_behind_a_timeout() -> None:
    ledger = ledger_of(of_replay(fold(events("D 1 0 0-2 @0-2 T; M 1 1 A 4 @3; D 1 2 0-0 @4-4 T"))))
    (entry,) = entries_of(ledger)
    offsets, holders = last_stable_offsets(ledger, 0, [5])
    assert (entry["last_stable_offset"], entry["follower_last_stable_offset"]) == (4, 4)
    assert (offsets.tolist(), held_by(holders)) == ([4], [(1, 4)])


@pytest.mark.parametrize(("log_start_offset", "lag"), [(5, 15), (12, 8), (0, 20)])
def test_19_a_transaction_from_below_the_log_start_holds_it_there(log_start_offset: int, lag: int) -> None:
    transactions = of_replay(fold(events("D 1 0 0-9 @0-9 T; D 2 0 0-9 @10-19 N"), EMPTY, log_start_offset))
    offsets, holders = last_stable_offsets(ledger_of(transactions), log_start_offset, [20])
    assert (offsets.tolist(), held_by(holders)) == ([log_start_offset], [(1, 0)])
    assert max_lag(ledger_of(transactions), log_start_offset, 20) == lag


def test_a_log_without_transactions() -> None:
    none = ledger_of(np.empty(0, TRANSACTION))
    offsets, holders = last_stable_offsets(none, 50, [50, 60, 40])
    assert (offsets.tolist(), held_by(holders)) == ([50, 60, 50], [None, None, None])
    assert steps_of(none, 50, 60).tolist() == [(50, 60, 60, False, -1)]
    assert (len(entries_of(none)), max_lag(none, 50, 60)) == (0, 0)
