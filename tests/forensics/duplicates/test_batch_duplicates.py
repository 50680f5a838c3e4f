"""Batches that are there twice under their own sequences: cases of the specification, and random logs by definition."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kforensics.forensics.core.record_types import ANOMALY
from kforensics.forensics.duplicates.batch_duplicates import sequence_duplicates
from kforensics.forensics.duplicates.content_entries import Reading, hidden_intervals
from kforensics.forensics.duplicates.duplicate_rows import Level, View, Why
from kforensics.parsers.columns.batch_columns import BatchColumns
from tests.forensics.duplicate_logs import Log, partition_of
from tests.forensics.forge import Segments, forge
from tests.parsers.builders import CODECS

SEQUENCES = 1 << 31


def contents(start: int, count: int) -> list[tuple[bytes | None, bytes | None]]:
    """Return what records say whose sequences begin at a number."""
    return [(b"k", b"record %d" % number) for number in range(start, start + count)]


def found(tmp_path: Path, segments: Segments, **options: Any) -> list[tuple[int, int, int, Why, View]]:
    """Return first and second offset, records, reason and view of the rows of level SEQUENCE."""
    folder = forge(tmp_path, segments, **options)
    rows = partition_of([str(path) for path in sorted(folder.glob("*.log"))]).duplicates()
    return [
        (row["first_offset"], row["second_offset"], row["records"], Why(row["why"]), View(row["view"]))
        for row in rows
        if row["level"] == Level.SEQUENCE
    ]


def test_a_batch_that_a_broker_should_have_known_again(tmp_path: Path) -> None:
    log = "D 1 0 0-4 @0-4 N; D 2 0 0-1 @5-6 N; D 1 0 0-4 @7-11 N"
    again = {0: contents(0, 5), 7: contents(0, 5)}
    assert found(tmp_path, log, records=again) == [(0, 7, 5, Why.SEQUENCE_AND_CONTENT, View.COMMITTED)]


def test_the_same_sequences_with_other_contents(tmp_path: Path) -> None:
    """A client that began at 0 again under the same epoch."""
    log = "D 1 0 0-4 @0-4 N; D 1 0 0-4 @5-9 N"
    assert found(tmp_path, log) == [(0, 5, 5, Why.SEQUENCE_NOT_CONTENT, View.COMMITTED)]


def test_batches_behind_the_first_do_not_stand_out_but_are_found(tmp_path: Path) -> None:
    """Three batches written again, others between them: they are one row, over segments and codecs."""
    log = {
        0: "D 1 0 0-4 @0-4 N; D 1 0 5-9 @5-9 N; D 2 0 0-0 @10 N; D 1 0 10-11 @11-12 N; D 1 0 12-12 @13 N",
        14: "D 1 0 5-9 @14-18 N; D 2 0 1-1 @19 N; D 1 0 10-11 @20-21 N; D 1 0 12-12 @22 N; D 1 0 13-13 @23 N",
    }
    again = {base: contents(start, count) for base, start, count in ((5, 5, 5), (14, 5, 5), (11, 10, 2), (20, 10, 2))}
    again |= {13: contents(12, 1), 22: contents(12, 1)}
    expected = [(5, 14, 8, Why.SEQUENCE_AND_CONTENT, View.COMMITTED)]
    assert found(tmp_path, log, records=again, codec=CODECS["lz4"]) == expected


def test_a_batch_that_was_thinned_out_cannot_be_compared(tmp_path: Path) -> None:
    log = "D 1 0 0-4 @0-4 N cnt 2; D 1 0 0-4 @5-9 N"
    assert found(tmp_path, log, compacted=True) == [(0, 5, 5, Why.SEQUENCE_ALONE, View.COMMITTED)]


def test_a_batch_cut_otherwise_is_left_to_the_contents(tmp_path: Path) -> None:
    folder = forge(tmp_path, "D 1 0 0-4 @0-4 N; D 1 0 0-2 @5-7 N", records={0: contents(0, 5), 5: contents(0, 3)})
    (row,) = partition_of([str(folder / f"{0:020}.log")]).duplicates()
    assert (row["level"], row["why"], row["records"]) == (Level.CONTENT, Why.OTHER_BATCH, 3)


def test_sequences_that_wrap_inside_the_batch(tmp_path: Path) -> None:
    log = "D 1 0 2147483645-1 @0-4 N; D 1 0 2-3 @5-6 N; D 1 0 2147483645-1 @7-11 N; D 1 0 2-3 @12-13 N"
    again = {0: contents(0, 5), 7: contents(0, 5), 5: contents(5, 2), 12: contents(5, 2)}
    assert found(tmp_path, log, records=again) == [(0, 7, 7, Why.SEQUENCE_AND_CONTENT, View.COMMITTED)]


def test_sequences_that_have_gone_round_are_not_the_same(tmp_path: Path) -> None:
    apart = {0: "D 1 0 0-4 @0-4 N", SEQUENCES: f"D 1 0 5-9 @{SEQUENCES}-{SEQUENCES + 4} N"}
    near = apart | {SEQUENCES + 5: f"D 1 0 0-4 @{SEQUENCES + 5}-{SEQUENCES + 9} N"}
    assert found(tmp_path, near) == []
    nearer = {0: "D 1 0 0-4 @0-4 N; D 1 0 5-9 @5-9 N", SEQUENCES - 1: f"D 1 0 0-4 @{SEQUENCES - 1}-{SEQUENCES + 3} N"}
    assert [row[:2] for row in found(tmp_path / "nearer", nearer)] == [(0, SEQUENCES - 1)]


def test_behind_an_epoch_that_fell_every_batch_is_looked_at(tmp_path: Path) -> None:
    """Back in the higher epoch the producer begins at 0 again, which does not stand out."""
    log = "D 1 0 0-4 @0-4 N; D 1 1 0-1 @5-6 N; D 1 0 0-4 @7-11 N; D 1 1 0-1 @12-13 N"
    assert [row[:2] for row in found(tmp_path, log)] == [(0, 7), (5, 12)]


def test_behind_a_marker_whose_epoch_fell_too(tmp_path: Path) -> None:
    log = "D 1 4 0-4 @0-4 T; M 1 4 C 1 @5; D 1 5 0-0 @6 T; M 1 5 C 1 @7; M 1 4 C 1 @8; D 1 4 0-4 @9-13 T; M 1 4 C 1 @14"
    assert [row[:2] for row in found(tmp_path, log)] == [(0, 9)]


def test_a_copy_that_was_aborted_is_only_there_for_who_reads_everything(tmp_path: Path) -> None:
    log = "D 1 0 0-1 @0-1 T; M 1 0 C 1 @2; D 1 0 0-1 @3-4 T; M 1 0 A 1 @5; D 1 0 0-1 @6-7 T; M 1 0 C 1 @8"
    again = {base: contents(0, 2) for base in (0, 3, 6)}
    why = Why.SEQUENCE_AND_CONTENT
    assert sorted(found(tmp_path, log, records=again)) == [
        (0, 3, 2, why, View.RAW),
        (0, 6, 2, why, View.COMMITTED),
        (3, 6, 2, why, View.RAW),
    ]


def test_nothing_is_read_where_no_sequence_went_back() -> None:
    def batches() -> Iterator[BatchColumns]:
        raise AssertionError("nobody may ask")

    reading = Reading([], hidden_intervals(None))
    assert len(sequence_duplicates(np.empty(0, ANOMALY), batches, reading)) == 0


@pytest.mark.parametrize("seed", range(60))
def test_random_logs_by_definition(tmp_path: Path, seed: int) -> None:
    """Whatever goes back, whenever: each batch with the nearest earlier one of its identity."""
    log, identities = _random_log(seed)
    partition = partition_of(log.save(tmp_path))
    rows = partition.duplicates()
    rows = rows[rows["level"] == Level.SEQUENCE]
    expected = list(_expected(log, identities))
    pairs = _pairs(rows, log)
    assert pairs == sorted(expected)
    assert len(rows) <= len(pairs)


def test_random_logs_have_batches_twice() -> None:
    """The test above compares something."""
    logs = [_random_log(seed) for seed in range(60)]
    assert sum(len(list(_expected(*one))) for one in logs) > 200


def _random_log(seed: int) -> tuple[Log, list[tuple[int, int, int, int]]]:
    """Return a log of producers that go back and forth, and who wrote which sequences in each of its batches."""
    dice = random.Random(seed)  # noqa: S311  # dice for a test
    start = dice.choice([0, SEQUENCES - 20])
    log, identities = Log(), []
    state = {producer: [0, start] for producer in (1, 2, 3)}
    for _ in range(50):
        producer = dice.choice(list(state))
        epoch, sequence = state[producer]
        match dice.randint(0, 11):
            case 0:
                sequence = (sequence - dice.randint(1, 12)) % SEQUENCES
            case 1:
                epoch, sequence = max(0, epoch + dice.choice([-1, 1])), 0
            case 2:
                sequence = (sequence + dice.randint(1, 3)) % SEQUENCES
        count = dice.choice([1, 2, 2])
        says = contents(sequence, count) if dice.random() < 0.8 else [(b"other", b"%d" % len(log.records))] * count
        log.write(says, producer=(producer, epoch, sequence))
        identities.append((producer, epoch, sequence, count))
        state[producer] = [epoch, (sequence + count) % SEQUENCES]
    return log, identities


def _expected(log: Log, identities: Sequence[tuple[int, int, int, int]]) -> Iterator[tuple[int, int, Why]]:
    last: dict[tuple[int, int, int, int], int] = {}
    for number, identity in enumerate(identities):
        if identity in last:
            first, second = ([one for one in log.records if one.batch == at] for at in (last[identity], number))
            same = [one.content for one in first] == [one.content for one in second]
            why = Why.SEQUENCE_AND_CONTENT if same else Why.SEQUENCE_NOT_CONTENT
            yield first[0].offset, second[0].offset, why
        last[identity] = number


def _pairs(rows: Any, log: Log) -> list[tuple[int, int, Why]]:
    """Return the pairs of batches that rows stand for: those of one producer and epoch, from place to place."""
    pairs = []
    for row in rows:
        sides = []
        for side in ("first", "second"):
            who = (row[f"{side}_producer_id"], row[f"{side}_producer_epoch"])
            begin, end = row[f"{side}_offset"], row[f"{side}_last_offset"]
            of_producer = [one for one in log.records if (one.producer_id, one.producer_epoch) == who]
            sides.append([one for one in of_producer if begin <= one.offset <= end])
        second = {one.sequence: one.offset for one in sides[1] if one.index == 0}
        first = {one.sequence: one.offset for one in sides[0] if one.index == 0}
        assert sum(one.count for one in sides[1] if one.index == 0) == row["records"]
        pairs += [(first[sequence], offset, Why(row["why"])) for sequence, offset in second.items()]
    return sorted(pairs)
