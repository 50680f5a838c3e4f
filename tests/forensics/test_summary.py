"""The replay in stretches: the specification's examples, what travels, and what is at hand on the way."""

from __future__ import annotations

import pickle
import tracemalloc
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kforensics.forensics.core.record_arrays import owned
from kforensics.forensics.core.record_types import ANOMALY, Anomaly, Ending
from kforensics.forensics.replay.finalising import finalise_blocks
from kforensics.forensics.replay.fold import fold
from kforensics.forensics.replay.merging import merge_blocks
from kforensics.forensics.replay.replay_types import EMPTY, UNKNOWN, BatchSummary, Outcome
from kforensics.forensics.replay.summary import (
    PRODUCER_SUMMARY,
    Folding,
    Rows,
    Summary,
    finalise,
    joined_rows,
    merge,
    summarise,
    summary_from_table,
    summary_to_table,
)
from tests.forensics.events import columns_of, events, rows_of, values_of
from tests.forensics.examples import EXAMPLES, TWO_NESTED, Example, snapshot
from tests.forensics.monoid import found, merged
from tests.forensics.random_logs import RandomLog

ENDINGS = {Ending.ABORTED: Outcome.ABORTED, Ending.COMMITTED: Outcome.COMMITTED}
examples = pytest.mark.parametrize("example", [pytest.param(one, id=name) for name, one in EXAMPLES.items()])


def _log(count: int) -> list[BatchSummary]:
    log = RandomLog(Random(7))  # noqa: S311  # dice for logs, not for secrets
    log.write(count)
    return log.batches


def _one_by_one(batches: list[BatchSummary], *, sequences: bool = True) -> list[tuple[Summary, Rows]]:
    return [summarise(columns_of([batch]), sequences=sequences) for batch in batches]


def _behind(example: Example) -> list[BatchSummary]:
    return [batch for batch in events(example.log) if batch.base_offset >= example.boundary.offset]


@examples
def test_worked_example_in_one_piece(example: Example) -> None:
    summary, rows = summarise(columns_of(_behind(example)), sequences=example.sequences)
    _check(example, summary, rows)


@examples
@pytest.mark.parametrize("seed", range(3))
def test_worked_example_28_cut_between_all_batches(example: Example, seed: int) -> None:
    dice = Random(seed)  # noqa: S311  # as above
    parts = _one_by_one(_behind(example), sequences=example.sequences) or [(Summary.empty(), Rows.of())]
    _check(example, *merged(parts, dice))


def _check(example: Example, summary: Summary, rows: Rows) -> None:
    final = finalise(summary, example.boundary)
    every = joined_rows([rows, final.rows]).in_order()
    closed = [
        (row["producer_id"], row["first_offset"], row["marker_offset"], ENDINGS[row["ending"]])
        for row in every.transactions
    ]
    anomalies = [(Anomaly(row["kind"]).name, row["first_offset"], row["amount"]) for row in every.anomalies]
    states = {row["producer_id"]: _state(row) for row in final.producers}
    assert example.closed in (None, closed)
    assert example.open in (None, dict(final.open_transactions[["producer_id", "first_offset"]].tolist()))
    assert example.empty_markers in (None, every.empty_markers["marker_offset"].tolist())
    assert {one: states[one] for one in example.states} == example.states
    assert sorted(anomalies) == sorted(example.anomalies)


def _state(row: Any) -> tuple[Any, ...]:
    first = row["current_txn_first_offset"]
    names = ("producer_epoch", "last_sequence", "last_offset", "offset_delta", "coordinator_epoch")
    return (*(row[name] for name in names), None if first == -1 else first)


def test_29_markers_alone_say_nothing_of_sequences() -> None:
    (_, _), (marker, _), (batch, _) = _one_by_one(events("D 1 0 0-4 @0-4 T; M 1 1 C 1 @5; D 1 1 5-5 @6-6 T"))
    summary, rows = merge(marker, batch)
    assert (len(rows), len(summary.pending)) == (0, 0)


@pytest.mark.parametrize("boundary", [EMPTY, UNKNOWN, snapshot(0)], ids=["empty", "unknown", "snapshot"])
def test_only_at_the_beginning_of_a_log_must_sequences_begin_at_0(boundary: Any) -> None:
    final = finalise(summarise(columns_of(events("D 9 0 7-8 @0-1 N")))[0], boundary)
    assert len(final.rows.anomalies) == (boundary is EMPTY)


def test_behind_markers_of_one_epoch_an_unknown_past_leaves_sequences_unknown() -> None:
    """As in every log whose head was deleted in the middle of a producer's transactions of version 0 or 1."""
    one_epoch, two_epochs = "M 1 3 C 1 @5; D 1 3 7-7 @6-6 T", "M 1 2 C 1 @4; M 1 3 C 1 @5; D 1 3 7-7 @6-6 T"
    kinds = {
        log: [row["kind"] for row in finalise(summarise(columns_of(events(log)))[0], UNKNOWN).rows.anomalies]
        for log in (one_epoch, two_epochs)
    }
    assert kinds == {one_epoch: [], two_epochs: [Anomaly.SEQ_GAP]}


def test_holes_are_counted_over_all_seams() -> None:
    parts = _one_by_one(events("D 9 0 0-0 @0-0 N; plain @3-3; plain @5-9; D 9 0 4-4 @11-11 N"))
    _, rows = merged(parts, Random(1))  # noqa: S311  # as above
    assert rows.anomalies[["amount", "previous_offset", "hole"]].tolist() == [(3, 0, 4)]


def test_a_batch_without_sequence_is_one_whatever_stands_around_it() -> None:
    _, rows = summarise(columns_of(events("D 9 0 none @0-0 N")))
    assert rows.anomalies["kind"].tolist() == [Anomaly.SEQ_MISSING]


def test_a_retry_is_known_by_a_batch_five_batches_and_five_stretches_before_it() -> None:
    data = [f"D 9 0 {n}-{n} @{n}-{n} N" for n in range(5)]
    for again, kind in ((0, Anomaly.SEQ_DUPLICATE_BATCH), (1, Anomaly.SEQ_DUPLICATE_BATCH)):
        _, rows = merged(_one_by_one(events("; ".join([*data, f"D 9 0 {again}-{again} @5-5 N"]))), Random(2))  # noqa: S311
        assert rows.anomalies["kind"].tolist() == [kind]
    too_late = [*data, "D 9 0 5-5 @5-5 N", "D 9 0 0-0 @6-6 N"]
    _, rows = merged(_one_by_one(events("; ".join(too_late))), Random(2))  # noqa: S311  # as above
    assert rows.anomalies["kind"].tolist() == [Anomaly.SEQ_OVERLAP]


def test_a_retry_is_sought_no_further_back_than_its_epoch() -> None:
    stretches = ("D 9 1 0-0 @0-0 N", "D 9 0 0-0 @1-1 N; D 9 1 9-9 @2-2 N", "D 9 1 0-0 @3-3 N")
    first, second, third = (summarise(columns_of(events(part)))[0] for part in stretches)
    behind, rows = merge(second, third)
    _, more = merge(first, behind)
    assert [row["kind"] for row in (*rows.anomalies, *more.anomalies) if row["first_offset"] == 3] == [
        Anomaly.SEQ_OVERLAP
    ]


def test_16_a_transaction_is_mixed_once() -> None:
    summary, found_rows = Summary.empty(), []
    for part in ("M 1 0 C 3 @0", "D 1 0 0-0 @1-1 T; D 1 0 1-1 @2-2 N", "D 1 0 2-2 @3-3 N"):
        behind, certain = summarise(columns_of(events(part)))
        summary, seam = merge(summary, behind)
        found_rows += [certain, seam]
    anomalies = joined_rows(found_rows).anomalies
    assert anomalies[["kind", "first_offset"]].tolist() == [(Anomaly.TXN_NONTXN_INSIDE, 2)]


def test_nothing_changes_nothing() -> None:
    summary, _ = summarise(columns_of(_log(40)))
    for left, right in ((Summary.empty(), summary), (summary, Summary.empty())):
        both, rows = merge(left, right)
        assert both == summary
        assert len(rows) == 0


def test_summaries_tell_when_they_differ() -> None:
    log = _log(40)
    one, other = (summarise(columns_of(part))[0] for part in (log, log[:-1]))
    assert one != other
    assert one != "another thing"


def test_a_record_of_a_producer_stays_small() -> None:
    """Of a million producers as many are in memory, and some blocks of them twice while they are merged."""
    assert PRODUCER_SUMMARY.itemsize <= 456


def test_summary_travels_pickled_and_as_a_table_cut_anywhere() -> None:
    summary, _ = summarise(columns_of(_log(400)))
    table = summary_to_table(summary)
    pieces = [table.slice(at, 2) for at in range(0, len(table), 2)]
    assert len(summary.pending) > 0
    assert pickle.loads(pickle.dumps(summary)) == summary  # noqa: S301  # our own bytes
    assert summary_from_table(table) == summary
    assert summary_from_table(pa.concat_tables(pieces)) == summary
    assert summary_from_table(summary_to_table(Summary.empty())) == Summary.empty()


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_folding_gives_the_summary_and_the_rows_at_any_time(size: int) -> None:
    log, folding = _log(300), Folding()
    for first in range(0, len(log), size):
        folding.add(columns_of(log[first : first + size]))
        if first % 5 == 0:
            read = log[: first + size]
            assert found(folding.summary(), folding.rows(), EMPTY) == rows_of(fold(read)), first
    assert found(folding.summary(), folding.rows(), EMPTY) == rows_of(fold(log))


@pytest.mark.parametrize("block", [1, 3, 8])
@pytest.mark.parametrize("kind", ["empty", "unknown", "snapshot"])
def test_many_producers_in_blocks_are_what_they_are_together(block: int, kind: str) -> None:
    """The state on the way takes nothing away, the one at the end may take the summary."""
    dice = Random(block)  # noqa: S311  # as above
    log = _log_of_many(dice, 600)
    known = replace(snapshot(0), producers=tuple(fold(_log_of_many(dice, 60)).producers.values()))
    boundary = {"empty": EMPTY, "unknown": UNKNOWN, "snapshot": known}[kind]
    folding, first = Folding(block=block), 0
    while first < len(log):
        size = dice.choice((1, 1, 5, 60))
        folding.add(columns_of(log[first : first + size]))
        first += size
        if dice.random() < 0.1:
            assert _final_of(folding, boundary) == rows_of(fold(log[:first], boundary)), first
    assert folding.summary() == summarise(columns_of(log))[0]
    folding.add(columns_of(more := _log_of_many(dice, 200, len(log))))
    expected = rows_of(fold([*log, *more], boundary))
    assert _final_of(folding, boundary) == expected
    assert _final_of(folding, boundary, consume=True) == expected
    # Without anomalies, transactions that are open and some that are not this would compare little.
    assert all(expected.values())
    assert len(folding.summary().producers) == 0


def _log_of_many(dice: Random, count: int, offset: int = 0) -> list[BatchSummary]:
    """Return batches and markers of producers whose ids lie in turn below, between and above those there are."""
    kinds = ("D {} {} {}-{} @{}-{} T", "D {} {} {}-{} @{}-{} N", "M {} {} C 1 @{}")
    log = []
    for at in range(offset, offset + count):
        producer_id, epoch, sequence = dice.randrange(40 + at // 10), dice.choice((0, 0, 0, 1)), dice.randrange(4)
        kind = dice.choice(kinds)
        where = (at,) if kind.startswith("M") else (sequence, sequence, at, at)
        log.append(kind.format(producer_id, epoch, *where))
    return events("; ".join(log))


def _final_of(folding: Folding, boundary: Any, *, consume: bool = False) -> dict[str, list[tuple[Any, ...]]]:
    final = folding.final(boundary, consume=consume)
    every = joined_rows([folding.rows(), final.rows])
    return {
        "transactions": values_of(every.transactions),
        "open_transactions": values_of(final.open_transactions),
        "empty_markers": values_of(every.empty_markers),
        "anomalies": values_of(every.anomalies),
        "producers": values_of(final.producers),
    }


@pytest.mark.parametrize(
    ("ids", "stays"), [(range(9), True), (range(0, 90, 10), False), (range(100, 109), True)], ids=str
)
def test_blocks_keep_their_size_and_those_that_nobody_touches_stay(ids: range, stays: bool) -> None:
    def blocks(producers: range, offset: int) -> list[Summary]:
        log = "; ".join(f"D {one} 0 0-0 @{offset + at}-{offset + at} N" for at, one in enumerate(producers))
        return [summarise(columns_of(events(log)))[0]]

    left, right = merge_blocks(blocks(range(10, 90), 0), [Summary.empty()], 8)[0], blocks(ids, 80)
    last = left[-1].producers
    found_blocks, _ = merge_blocks(left, right, 8)
    assert (left, right) == ([], [])
    for at in (200, 202, 204, 206):
        found_blocks, _ = merge_blocks(found_blocks, blocks(range(at, at + 2), at), 8)
    sizes = [len(block.producers) for block in found_blocks]
    assert max(sizes) <= 16
    assert all(one + other > 8 for one, other in pairwise(sizes))
    assert any(block.producers is last for block in found_blocks) == stays
    # None keeps what it was cut from in memory.
    assert all(owned(block.producers) is block.producers for block in found_blocks)


def _blocks_of_many(first: int, step: int, offset: int) -> list[Summary]:
    """Return sixteen blocks of 1024 producers each, whose ids lie a step apart."""
    some, _ = summarise(
        columns_of(events("; ".join(f"D {at} 0 0-0 @{offset + at}-{offset + at} T" for at in range(1024))))
    )
    producers = np.tile(some.producers, 16)
    producers["producer_id"] = first + step * np.arange(len(producers))
    return [replace(some, producers=producers[at : at + 1024].copy()) for at in range(0, len(producers), 1024)]


def test_what_was_merged_is_let_go_on_the_way() -> None:
    """Beside what the blocks of both sides take, or the producers and transactions made of them, a few blocks."""
    size = 1024 * PRODUCER_SUMMARY.itemsize
    tracemalloc.start()
    left, right = _blocks_of_many(0, 2, 0), _blocks_of_many(1, 2, 1024)
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    blocks, _ = merge_blocks(left, right, 1024)
    _, merging = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    final = finalise_blocks(blocks, EMPTY, 1024)
    after, finalising = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (before > 32 * size, merging < before + 8 * size) == (True, True)
    assert finalising < before + final.producers.nbytes + 8 * size
    assert after < final.producers.nbytes + final.open_transactions.nbytes + size


def test_folding_keeps_to_what_it_was_told_of_sequences() -> None:
    folding = Folding(sequences=False)
    assert folding.summary() == Summary(sequences=False)
    folding.add(columns_of(events("D 7 0 0-0 @0-0 T; D 7 0 0-0 @1-1 T")))
    folding.add(columns_of(events("D 7 0 0-0 @2-2 T")))
    assert len(folding.rows().anomalies) == 0


def test_finalising_on_the_way_does_not_disturb() -> None:
    (first, rows), (second, more) = (
        summarise(columns_of(part)) for part in (events(TWO_NESTED)[:3], events(TWO_NESTED)[3:])
    )
    assert len(finalise(first, EMPTY).open_transactions) == 2
    summary, certain = merge(first, second)
    assert found(summary, joined_rows([rows, more, certain]), EMPTY) == rows_of(fold(events(TWO_NESTED)))


def test_rows_have_an_order() -> None:
    rows = np.zeros(3, ANOMALY)
    rows["first_offset"], rows["kind"], rows["producer_id"] = (2, 1, 1), (0, 3, 3), (1, 9, 8)
    ordered = Rows.of(anomalies=rows).in_order().anomalies
    assert ordered[["first_offset", "kind", "producer_id"]].tolist() == [(1, 3, 8), (1, 3, 9), (2, 0, 1)]
    assert values_of(ordered) == values_of(rows)


@pytest.mark.parametrize("spread", [1, 2**17, 2**40], ids=["one digit", "two digits", "three digits"])
def test_producer_ids_may_lie_far_apart(spread: int) -> None:
    log = "; ".join(f"D {n * spread} 0 {k}-{k} @{3 * k + n}-{3 * k + n} N" for k in range(9) for n in (2, 0, 1))
    summary, rows = summarise(columns_of(events(log)))
    assert summary.producers["producer_id"].tolist() == [0, spread, 2 * spread]
    assert found(summary, rows, EMPTY) == rows_of(fold(events(log)))
