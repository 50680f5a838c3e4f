"""Batches with repeated sequences: cases of the specification, and random logs against a simple definition."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kforensics.forensics.core.record_types import ANOMALY
from kforensics.forensics.duplicates.duplicate_rows import DuplicateLevel, DuplicateReason, DuplicateView
from kforensics.forensics.duplicates.partition_duplicates import sequence_duplicates
from kforensics.forensics.duplicates.record_reader import RecordReader, hidden_transactions
from kforensics.parsers.columns.batch_columns import BatchColumns
from tests.forensics.duplicate_logs import Log, partition_of
from tests.forensics.forge import Segments, forge
from tests.parsers.builders import CODECS

SEQUENCES = 1 << 31


def contents(start: int, count: int) -> list[tuple[bytes | None, bytes | None]]:
    """Return the contents of records whose sequences start at a number."""
    return [(b"k", b"record %d" % number) for number in range(start, start + count)]


def sequence_runs(
    tmp_path: Path, segments: Segments, **options: Any
) -> list[tuple[int, int, int, DuplicateReason, DuplicateView]]:
    """Return first and second offset, records, reason and view of the rows of level SEQUENCE."""
    folder = forge(tmp_path, segments, **options)
    rows = partition_of([str(path) for path in sorted(folder.glob("*.log"))]).duplicates()
    return [
        (
            row["first_offset"],
            row["second_offset"],
            row["records"],
            DuplicateReason(row["why"]),
            DuplicateView(row["view"]),
        )
        for row in rows
        if row["level"] == DuplicateLevel.SEQUENCE
    ]


def test_a_retry_that_the_broker_should_have_recognized(tmp_path: Path) -> None:
    log = "D 1 0 0-4 @0-4 N; D 2 0 0-1 @5-6 N; D 1 0 0-4 @7-11 N"
    records = {0: contents(0, 5), 7: contents(0, 5)}
    assert sequence_runs(tmp_path, log, records=records) == [
        (0, 7, 5, DuplicateReason.SEQUENCE_AND_CONTENT, DuplicateView.COMMITTED)
    ]


def test_repeated_sequences_with_other_contents(tmp_path: Path) -> None:
    """A client that started at sequence 0 again in the same epoch."""
    log = "D 1 0 0-4 @0-4 N; D 1 0 0-4 @5-9 N"
    assert sequence_runs(tmp_path, log) == [(0, 5, 5, DuplicateReason.SEQUENCE_NOT_CONTENT, DuplicateView.COMMITTED)]


def test_repeated_batches_after_the_first_are_not_anomalies_but_reported(tmp_path: Path) -> None:
    """Three repeated batches with others between them are one row, across segments and codecs."""
    log = {
        0: "D 1 0 0-4 @0-4 N; D 1 0 5-9 @5-9 N; D 2 0 0-0 @10 N; D 1 0 10-11 @11-12 N; D 1 0 12-12 @13 N",
        14: "D 1 0 5-9 @14-18 N; D 2 0 1-1 @19 N; D 1 0 10-11 @20-21 N; D 1 0 12-12 @22 N; D 1 0 13-13 @23 N",
    }
    records = {base: contents(start, count) for base, start, count in ((5, 5, 5), (14, 5, 5), (11, 10, 2), (20, 10, 2))}
    records |= {13: contents(12, 1), 22: contents(12, 1)}
    expected = [(5, 14, 8, DuplicateReason.SEQUENCE_AND_CONTENT, DuplicateView.COMMITTED)]
    assert sequence_runs(tmp_path, log, records=records, codec=CODECS["lz4"]) == expected


def test_a_partially_compacted_batch_cannot_be_compared(tmp_path: Path) -> None:
    log = "D 1 0 0-4 @0-4 N cnt 2; D 1 0 0-4 @5-9 N"
    assert sequence_runs(tmp_path, log, compacted=True) == [
        (0, 5, 5, DuplicateReason.SEQUENCE_ALONE, DuplicateView.COMMITTED)
    ]


def test_a_batch_with_other_boundaries_is_found_by_content(tmp_path: Path) -> None:
    folder = forge(tmp_path, "D 1 0 0-4 @0-4 N; D 1 0 0-2 @5-7 N", records={0: contents(0, 5), 5: contents(0, 3)})
    (row,) = partition_of([str(folder / f"{0:020}.log")]).duplicates()
    assert (row["level"], row["why"], row["records"]) == (DuplicateLevel.CONTENT, DuplicateReason.OTHER_BATCH, 3)


def test_sequences_that_wrap_inside_a_batch(tmp_path: Path) -> None:
    log = "D 1 0 2147483645-1 @0-4 N; D 1 0 2-3 @5-6 N; D 1 0 2147483645-1 @7-11 N; D 1 0 2-3 @12-13 N"
    records = {0: contents(0, 5), 7: contents(0, 5), 5: contents(5, 2), 12: contents(5, 2)}
    assert sequence_runs(tmp_path, log, records=records) == [
        (0, 7, 7, DuplicateReason.SEQUENCE_AND_CONTENT, DuplicateView.COMMITTED)
    ]


def test_sequences_that_have_wrapped_around_are_not_repeated(tmp_path: Path) -> None:
    apart = {0: "D 1 0 0-4 @0-4 N", SEQUENCES: f"D 1 0 5-9 @{SEQUENCES}-{SEQUENCES + 4} N"}
    near = apart | {SEQUENCES + 5: f"D 1 0 0-4 @{SEQUENCES + 5}-{SEQUENCES + 9} N"}
    assert sequence_runs(tmp_path, near) == []
    nearer = {0: "D 1 0 0-4 @0-4 N; D 1 0 5-9 @5-9 N", SEQUENCES - 1: f"D 1 0 0-4 @{SEQUENCES - 1}-{SEQUENCES + 3} N"}
    assert [row[:2] for row in sequence_runs(tmp_path / "nearer", nearer)] == [(0, SEQUENCES - 1)]


def test_after_an_epoch_regression_every_batch_is_compared(tmp_path: Path) -> None:
    """Back in the higher epoch, the producer starts at sequence 0 again, which is not an anomaly."""
    log = "D 1 0 0-4 @0-4 N; D 1 1 0-1 @5-6 N; D 1 0 0-4 @7-11 N; D 1 1 0-1 @12-13 N"
    assert [row[:2] for row in sequence_runs(tmp_path, log)] == [(0, 7), (5, 12)]


def test_after_a_marker_with_a_regressed_epoch_every_batch_is_compared(tmp_path: Path) -> None:
    log = "D 1 4 0-4 @0-4 T; M 1 4 C 1 @5; D 1 5 0-0 @6 T; M 1 5 C 1 @7; M 1 4 C 1 @8; D 1 4 0-4 @9-13 T; M 1 4 C 1 @14"
    assert [row[:2] for row in sequence_runs(tmp_path, log)] == [(0, 9)]


def test_an_aborted_copy_is_only_in_the_raw_view(tmp_path: Path) -> None:
    log = "D 1 0 0-1 @0-1 T; M 1 0 C 1 @2; D 1 0 0-1 @3-4 T; M 1 0 A 1 @5; D 1 0 0-1 @6-7 T; M 1 0 C 1 @8"
    records = {base: contents(0, 2) for base in (0, 3, 6)}
    reason = DuplicateReason.SEQUENCE_AND_CONTENT
    assert sorted(sequence_runs(tmp_path, log, records=records)) == [
        (0, 3, 2, reason, DuplicateView.RAW),
        (0, 6, 2, reason, DuplicateView.COMMITTED),
        (3, 6, 2, reason, DuplicateView.RAW),
    ]


def test_nothing_is_read_without_sequence_regressions() -> None:
    def batches() -> Iterator[BatchColumns]:
        raise AssertionError("the batches must not be read")

    reader = RecordReader([], hidden_transactions(None))
    assert len(sequence_duplicates(np.empty(0, ANOMALY), batches, reader)) == 0


@pytest.mark.parametrize("seed", range(60))
def test_random_logs_against_the_definition(tmp_path: Path, seed: int) -> None:
    """Each batch is paired with the nearest earlier batch of the same identity, whatever regressed."""
    log, identities = _random_log(seed)
    partition = partition_of(log.save(tmp_path))
    rows = partition.duplicates()
    rows = rows[rows["level"] == DuplicateLevel.SEQUENCE]
    expected = list(_expected(log, identities))
    pairs = _pairs(rows, log)
    assert pairs == sorted(expected)
    assert len(rows) <= len(pairs)


@pytest.mark.parametrize("again", [[2, 1, 3], [4, 2, 3], [1, 4, 3]])
@pytest.mark.parametrize("rows", [1, 2])
def test_batches_spread_over_chunks_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: list[int], rows: int
) -> None:
    monkeypatch.setattr("kforensics.parsers.columns.hash_columns.PYTHON_CHUNK_ROWS", rows)
    log = "D 1 0 0-2 @0-2 N; D 2 0 0-0 @3 N; D 1 0 0-2 @4-6 N; D 1 0 0-2 @7-9 N"
    records = {0: contents(1, 3), 4: [contents(number, 1)[0] for number in again], 7: contents(1, 3)}
    reasons = [DuplicateReason.SEQUENCE_NOT_CONTENT] * 2
    assert [run[3] for run in sequence_runs(tmp_path / "other", log, records=records)] == reasons
    records[4] = contents(1, 3)
    reasons = [DuplicateReason.SEQUENCE_AND_CONTENT] * 2
    assert [run[3] for run in sequence_runs(tmp_path / "same", log, records=records)] == reasons


def test_random_logs_have_duplicate_batches() -> None:
    """Otherwise the comparison with the definition would prove nothing."""
    logs = [_random_log(seed) for seed in range(60)]
    assert sum(len(list(_expected(*log))) for log in logs) > 200


def _random_log(seed: int) -> tuple[Log, list[tuple[int, int, int, int]]]:
    """Return a log of producers whose sequences regress, and the identity of each of its batches."""
    dice = random.Random(seed)  # noqa: S311  # not for cryptography
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
        is_usual = dice.random() < 0.8
        batch = contents(sequence, count) if is_usual else [(b"other", b"%d" % len(log.records))] * count
        log.write(batch, producer=(producer, epoch, sequence))
        identities.append((producer, epoch, sequence, count))
        state[producer] = [epoch, (sequence + count) % SEQUENCES]
    return log, identities


def _expected(log: Log, identities: Sequence[tuple[int, int, int, int]]) -> Iterator[tuple[int, int, DuplicateReason]]:
    last: dict[tuple[int, int, int, int], int] = {}
    for number, identity in enumerate(identities):
        if identity in last:
            first, second = (
                [each for each in log.records if each.batch == index] for index in (last[identity], number)
            )
            same = [record.content for record in first] == [record.content for record in second]
            reason = DuplicateReason.SEQUENCE_AND_CONTENT if same else DuplicateReason.SEQUENCE_NOT_CONTENT
            yield first[0].offset, second[0].offset, reason
        last[identity] = number


def _pairs(rows: Any, log: Log) -> list[tuple[int, int, DuplicateReason]]:
    """Return the pairs of batches in runs: those of the producer and epoch between the first and last offset."""
    pairs = []
    for row in rows:
        sides = []
        for side in ("first", "second"):
            producer = (row[f"{side}_producer_id"], row[f"{side}_producer_epoch"])
            begin, end = row[f"{side}_offset"], row[f"{side}_last_offset"]
            records = [each for each in log.records if (each.producer_id, each.producer_epoch) == producer]
            sides.append([record for record in records if begin <= record.offset <= end])
        second = {record.sequence: record.offset for record in sides[1] if record.index == 0}
        first = {record.sequence: record.offset for record in sides[0] if record.index == 0}
        assert sum(record.count for record in sides[1] if record.index == 0) == row["records"]
        pairs += [(first[sequence], offset, DuplicateReason(row["why"])) for sequence, offset in second.items()]
    return sorted(pairs)
