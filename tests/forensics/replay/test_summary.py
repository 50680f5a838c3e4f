"""The replay in chunks: the worked examples of the specification, merging, pickling, memory, and incremental replay."""

from __future__ import annotations

import pickle
import tracemalloc
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest

from kforensics.forensics.core.producer_states import ProducerStates
from kforensics.forensics.core.record_arrays import own_rows
from kforensics.forensics.core.record_types import ANOMALY, Anomaly, TransactionOutcome
from kforensics.forensics.replay.boundary import EMPTY, UNKNOWN, Boundary
from kforensics.forensics.replay.finalizing import finalize, finalize_blocks
from kforensics.forensics.replay.incremental_replay import IncrementalReplay
from kforensics.forensics.replay.merging import merge, merge_blocks
from kforensics.forensics.replay.replay_rows import ReplayRows, joined_rows
from kforensics.forensics.replay.summarizing import summarize
from kforensics.forensics.replay.summary import PRODUCER_SUMMARY, ReplaySummary
from tests.forensics.batch_notation import columns_of, parse_batches, rows_of, values_of
from tests.forensics.replay.random_logs import RandomLog
from tests.forensics.replay.replay_examples import EXAMPLES, TWO_NESTED, Example, snapshot
from tests.forensics.replay.split_replay import final_values, merge_parts, replay_values
from tests.reference.fold import fold
from tests.reference.replay_values import BatchSummary, producer_records

examples = pytest.mark.parametrize("example", [pytest.param(example, id=name) for name, example in EXAMPLES.items()])


def _log(count: int) -> list[BatchSummary]:
    log = RandomLog(Random(7))  # noqa: S311  # not for cryptography
    log.write(count)
    return log.batches


def _summarize(log: str) -> tuple[ReplaySummary, ReplayRows]:
    return summarize(columns_of(parse_batches(log)))


def _one_by_one(batches: list[BatchSummary], *, sequences: bool = True) -> list[tuple[ReplaySummary, ReplayRows]]:
    return [summarize(columns_of([batch]), sequences=sequences) for batch in batches]


def _after_boundary(example: Example) -> list[BatchSummary]:
    return [batch for batch in parse_batches(example.log) if batch.base_offset >= example.boundary.offset]


@examples
def test_worked_example_in_one_chunk(example: Example) -> None:
    summary, rows = summarize(columns_of(_after_boundary(example)), sequences=example.sequences)
    _check(example, summary, rows)


@examples
@pytest.mark.parametrize("seed", range(3))
def test_worked_example_28_cut_between_all_batches(example: Example, seed: int) -> None:
    dice = Random(seed)  # noqa: S311  # not for cryptography
    parts = _one_by_one(_after_boundary(example), sequences=example.sequences)
    _check(example, *merge_parts(parts or [(ReplaySummary.empty(), ReplayRows.of())], dice))


def _check(example: Example, summary: ReplaySummary, rows: ReplayRows) -> None:
    final = finalize(summary, example.boundary)
    all_rows = joined_rows([rows, final.rows]).in_order()
    closed = [
        (row["producer_id"], row["first_offset"], row["marker_offset"], TransactionOutcome(row["outcome"]))
        for row in all_rows.transactions
    ]
    anomalies = [(Anomaly(row["kind"]).name, row["first_offset"], row["amount"]) for row in all_rows.anomalies]
    states = {row["producer_id"]: _state(row) for row in final.producers}
    assert example.closed in (None, closed)
    assert example.open in (None, dict(final.open_transactions[["producer_id", "first_offset"]].tolist()))
    assert example.empty_markers in (None, all_rows.empty_markers["marker_offset"].tolist())
    assert {producer_id: states[producer_id] for producer_id in example.states} == example.states
    assert sorted(anomalies) == sorted(example.anomalies)


def _state(row: Any) -> tuple[Any, ...]:
    first = row["current_txn_first_offset"]
    names = ("producer_epoch", "last_sequence", "last_offset", "offset_delta", "coordinator_epoch")
    return (*(row[name] for name in names), None if first == -1 else first)


def test_29_markers_alone_do_not_determine_sequences() -> None:
    (_, _), (marker, _), (batch, _) = _one_by_one(parse_batches("D 1 0 0-4 @0-4 T; M 1 1 C 1 @5; D 1 1 5-5 @6-6 T"))
    summary, rows = merge(marker, batch)
    assert (len(rows), len(summary.unresolved)) == (0, 0)


@pytest.mark.parametrize("boundary", [EMPTY, UNKNOWN, snapshot(0)], ids=["empty", "unknown", "snapshot"])
def test_sequences_must_start_at_0_only_at_the_start_of_a_log(boundary: Boundary) -> None:
    summary, _ = _summarize("D 9 0 7-8 @0-1 N")
    assert len(finalize(summary, boundary).rows.anomalies) == (boundary is EMPTY)


def test_after_markers_of_one_epoch_and_an_unknown_past_sequences_are_unknown() -> None:
    """As in any log whose start was deleted within a producer's transactions of version 0 or 1."""
    one_epoch, two_epochs = "M 1 3 C 1 @5; D 1 3 7-7 @6-6 T", "M 1 2 C 1 @4; M 1 3 C 1 @5; D 1 3 7-7 @6-6 T"
    kinds = {
        log: finalize(_summarize(log)[0], UNKNOWN).rows.anomalies["kind"].tolist() for log in (one_epoch, two_epochs)
    }
    assert kinds == {one_epoch: [], two_epochs: [Anomaly.SEQ_GAP]}


def test_offset_gaps_are_counted_across_all_chunk_boundaries() -> None:
    parts = _one_by_one(parse_batches("D 9 0 0-0 @0-0 N; plain @3-3; plain @5-9; D 9 0 4-4 @11-11 N"))
    _, rows = merge_parts(parts, Random(1))  # noqa: S311  # not for cryptography
    assert rows.anomalies[["amount", "previous_offset", "offset_gap"]].tolist() == [(3, 0, 4)]


def test_a_batch_without_sequence_is_a_certain_anomaly() -> None:
    _, rows = _summarize("D 9 0 none @0-0 N")
    assert rows.anomalies["kind"].tolist() == [Anomaly.SEQ_MISSING]


def test_a_retry_is_recognized_by_a_batch_five_batches_and_five_chunks_before_it() -> None:
    dice = Random(2)  # noqa: S311  # not for cryptography
    data = [f"D 9 0 {n}-{n} @{n}-{n} N" for n in range(5)]
    for sequence in (0, 1):
        log = parse_batches("; ".join([*data, f"D 9 0 {sequence}-{sequence} @5-5 N"]))
        _, rows = merge_parts(_one_by_one(log), dice)
        assert rows.anomalies["kind"].tolist() == [Anomaly.SEQ_DUPLICATE_BATCH]
    too_late = parse_batches("; ".join([*data, "D 9 0 5-5 @5-5 N", "D 9 0 0-0 @6-6 N"]))
    _, rows = merge_parts(_one_by_one(too_late), dice)
    assert rows.anomalies["kind"].tolist() == [Anomaly.SEQ_OVERLAP]


def test_a_retry_is_not_sought_before_its_epoch() -> None:
    log_chunks = ("D 9 1 0-0 @0-0 N", "D 9 0 0-0 @1-1 N; D 9 1 9-9 @2-2 N", "D 9 1 0-0 @3-3 N")
    first, second, third = (_summarize(log_chunk)[0] for log_chunk in log_chunks)
    last_two, rows = merge(second, third)
    _, more_rows = merge(first, last_two)
    anomalies = [row for row in (*rows.anomalies, *more_rows.anomalies) if row["first_offset"] == 3]
    assert [row["kind"] for row in anomalies] == [Anomaly.SEQ_OVERLAP]


def test_16_a_transaction_is_reported_as_mixed_once() -> None:
    summary, rows = ReplaySummary.empty(), []
    for log_chunk in ("M 1 0 C 3 @0", "D 1 0 0-0 @1-1 T; D 1 0 1-1 @2-2 N", "D 1 0 2-2 @3-3 N"):
        next_summary, certain = _summarize(log_chunk)
        summary, boundary_rows = merge(summary, next_summary)
        rows += [certain, boundary_rows]
    anomalies = joined_rows(rows).anomalies
    assert anomalies[["kind", "first_offset"]].tolist() == [(Anomaly.TXN_NONTXN_INSIDE, 2)]


def test_the_empty_summary_is_the_neutral_element() -> None:
    summary, _ = summarize(columns_of(_log(40)))
    for left, right in ((ReplaySummary.empty(), summary), (summary, ReplaySummary.empty())):
        merged, rows = merge(left, right)
        assert merged == summary
        assert len(rows) == 0


def test_different_summaries_are_not_equal() -> None:
    log = _log(40)
    summary, other = (summarize(columns_of(part))[0] for part in (log, log[:-1]))
    assert summary != other
    assert summary != "another type"


def test_a_producer_summary_stays_small() -> None:
    """There is one per producer in memory, possibly millions, and some blocks are duplicated during a merge."""
    assert PRODUCER_SUMMARY.itemsize <= 456


def test_a_summary_can_be_pickled() -> None:
    summary, _ = summarize(columns_of(_log(400)))
    assert len(summary.unresolved) > 0
    assert pickle.loads(pickle.dumps(summary)) == summary  # noqa: S301  # our own bytes
    assert pickle.loads(pickle.dumps(ReplaySummary.empty())) == ReplaySummary.empty()  # noqa: S301  # our own bytes


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_incremental_replay_has_the_summary_and_the_rows_at_any_time(size: int) -> None:
    log, replay = _log(300), IncrementalReplay()
    for first in range(0, len(log), size):
        replay.add(columns_of(log[first : first + size]))
        if first % 5 == 0:
            expected = rows_of(fold(log[: first + size]))
            assert replay_values(replay.summary(), replay.rows(), EMPTY) == expected, first
    assert replay_values(replay.summary(), replay.rows(), EMPTY) == rows_of(fold(log))


@pytest.mark.parametrize("block_size", [1, 3, 8])
@pytest.mark.parametrize("kind", ["empty", "unknown", "snapshot"])
def test_producers_in_blocks_have_the_same_result(block_size: int, kind: str) -> None:
    """A final replay along the way leaves the summary unchanged; the last one may consume it."""
    dice = Random(block_size)  # noqa: S311  # not for cryptography
    log = _log_of_many(dice, 600)
    producers = fold(_log_of_many(dice, 60)).producers.values()
    known = replace(snapshot(0), producers=ProducerStates(producer_records(producers)))
    boundary = {"empty": EMPTY, "unknown": UNKNOWN, "snapshot": known}[kind]
    replay, first = IncrementalReplay(block_size=block_size), 0
    while first < len(log):
        size = dice.choice((1, 1, 5, 60))
        replay.add(columns_of(log[first : first + size]))
        first += size
        if dice.random() < 0.1:
            assert _values(replay, boundary) == rows_of(fold(log[:first], boundary)), first
    assert replay.summary() == summarize(columns_of(log))[0]
    replay.add(columns_of(more := _log_of_many(dice, 200, len(log))))
    expected = rows_of(fold([*log, *more], boundary))
    assert _values(replay, boundary) == expected
    assert _values(replay, boundary, consume=True) == expected
    # Without anomalies, open transactions and closed ones, this would compare little.
    assert all(expected.values())
    assert len(replay.summary().producers) == 0


def _log_of_many(dice: Random, count: int, offset: int = 0) -> list[BatchSummary]:
    """Return batches and markers of producers whose ids are below, between and above earlier ids."""
    kinds = ("D {} {} {}-{} @{}-{} T", "D {} {} {}-{} @{}-{} N", "M {} {} C 1 @{}")
    log = []
    for base in range(offset, offset + count):
        producer_id, epoch, sequence = dice.randrange(40 + base // 10), dice.choice((0, 0, 0, 1)), dice.randrange(4)
        kind = dice.choice(kinds)
        numbers = (base,) if kind.startswith("M") else (sequence, sequence, base, base)
        log.append(kind.format(producer_id, epoch, *numbers))
    return parse_batches("; ".join(log))


def _values(
    replay: IncrementalReplay, boundary: Boundary, *, consume: bool = False
) -> dict[str, list[tuple[Any, ...]]]:
    final = replay.final(boundary, consume=consume)
    return final_values(replay.rows(), final)


@pytest.mark.parametrize(
    ("ids", "stays"), [(range(9), True), (range(0, 90, 10), False), (range(100, 109), True)], ids=str
)
def test_blocks_keep_their_size_and_unaffected_blocks_are_not_copied(ids: range, stays: bool) -> None:
    def blocks_of(producers: range, offset: int) -> list[ReplaySummary]:
        log = [f"D {number} 0 0-0 @{base}-{base} N" for base, number in enumerate(producers, offset)]
        return [_summarize("; ".join(log))[0]]

    left, right = merge_blocks(blocks_of(range(10, 90), 0), [ReplaySummary.empty()], 8)[0], blocks_of(ids, 80)
    last = left[-1].producers
    blocks, _ = merge_blocks(left, right, 8)
    assert (left, right) == ([], [])
    for number in (200, 202, 204, 206):
        blocks, _ = merge_blocks(blocks, blocks_of(range(number, number + 2), number), 8)
    sizes = [len(block.producers) for block in blocks]
    assert max(sizes) <= 16
    assert all(size + next_size > 8 for size, next_size in pairwise(sizes))
    assert any(block.producers is last for block in blocks) == stays
    # No block keeps a larger array in memory.
    assert all(own_rows(block.producers) is block.producers for block in blocks)


def _blocks_of_many(first: int, step: int, offset: int) -> list[ReplaySummary]:
    """Return sixteen blocks of 1024 producers each, whose ids are a step apart."""
    log = [f"D {number} 0 0-0 @{offset + number}-{offset + number} T" for number in range(1024)]
    summary, _ = _summarize("; ".join(log))
    producers = np.tile(summary.producers, 16)
    producers["producer_id"] = first + step * np.arange(len(producers))
    starts = range(0, len(producers), 1024)
    return [replace(summary, producers=producers[start : start + 1024].copy()) for start in starts]


def test_merged_blocks_are_freed_along_the_way() -> None:
    """Beyond the blocks of both sides, or the resulting producers and transactions, only a few blocks are in memory."""
    size = 1024 * PRODUCER_SUMMARY.itemsize
    tracemalloc.start()
    left, right = _blocks_of_many(0, 2, 0), _blocks_of_many(1, 2, 1024)
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    blocks, _ = merge_blocks(left, right, 1024)
    _, merging = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    final = finalize_blocks(blocks, EMPTY, 1024)
    after, finalizing = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (before > 32 * size, merging < before + 8 * size) == (True, True)
    assert finalizing < before + final.producers[:].nbytes + 8 * size
    assert after < final.producers[:].nbytes + final.open_transactions.nbytes + size


def test_incremental_replay_without_sequences_finds_no_sequence_anomalies() -> None:
    replay = IncrementalReplay(sequences=False)
    assert replay.summary() == ReplaySummary(sequences=False)
    replay.add(columns_of(parse_batches("D 7 0 0-0 @0-0 T; D 7 0 0-0 @1-1 T")))
    replay.add(columns_of(parse_batches("D 7 0 0-0 @2-2 T")))
    assert len(replay.rows().anomalies) == 0


def test_finalizing_leaves_the_summary_unchanged() -> None:
    batches = parse_batches(TWO_NESTED)
    (first, rows), (second, more_rows) = (summarize(columns_of(part)) for part in (batches[:3], batches[3:]))
    assert len(finalize(first, EMPTY).open_transactions) == 2
    summary, certain = merge(first, second)
    assert replay_values(summary, joined_rows([rows, more_rows, certain]), EMPTY) == rows_of(fold(batches))


def test_rows_have_an_order() -> None:
    rows = np.zeros(3, ANOMALY)
    rows["first_offset"], rows["kind"], rows["producer_id"] = (2, 1, 1), (0, 3, 3), (1, 9, 8)
    ordered = ReplayRows.of(anomalies=rows).in_order().anomalies
    assert ordered[["first_offset", "kind", "producer_id"]].tolist() == [(1, 3, 8), (1, 3, 9), (2, 0, 1)]
    assert values_of(ordered) == values_of(rows)


@pytest.mark.parametrize("spread", [1, 2**17, 2**40], ids=["one digit", "two digits", "three digits"])
def test_producer_ids_may_be_far_apart(spread: int) -> None:
    batches = parse_batches(
        "; ".join(f"D {n * spread} 0 {k}-{k} @{3 * k + n}-{3 * k + n} N" for k in range(9) for n in (2, 0, 1))
    )
    summary, rows = summarize(columns_of(batches))
    assert summary.producers["producer_id"].tolist() == [0, spread, 2 * spread]
    assert replay_values(summary, rows, EMPTY) == rows_of(fold(batches))
