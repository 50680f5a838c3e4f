"""Retries and records that repeat of themselves: the shapes that real clients write, with timestamps of either kind."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from kforensics.forensics.duplicates import repetition as counting
from kforensics.forensics.duplicates.content_duplicates import content_duplicates
from kforensics.forensics.duplicates.duplicate_rows import DUPLICATE, DuplicateLevel, DuplicateReason
from kforensics.forensics.duplicates.record_reader import RecordEntryArray, RecordReader, record_entries
from kforensics.forensics.duplicates.repetition import Repetition, records_by_kind
from kforensics.parsers.format.rows import ignore_damage
from kforensics.parsers.kernels.policy import no_kernels
from tests.forensics.duplicate_logs import Log, WrittenRecord, hidden_rows, random_log

# A batch: its values, and the timestamp of all of them.
Written = tuple[str, int]
UNIQUE = 300
RETRY, CONTENT = DuplicateLevel.CONTENT_RETRY, DuplicateLevel.CONTENT
USUAL, PERIODIC, SINGLE = DuplicateReason.USUAL, DuplicateReason.PERIODIC, DuplicateReason.SINGLE


def log_of(batches: Sequence[Written], has_create_time: bool, unique: int = 0) -> Log:
    """Return a log of batches with the words of a text as values, after as many unique records in batches of one."""
    log = Log()
    for number in range(unique):
        log.write([(b"k", b"unique %d" % number)], timestamp=1001 + number, has_create_time=has_create_time)
    for text, timestamp in batches:
        values = [(b"k", word.encode()) for word in text.split()]
        log.write(values, timestamp=timestamp, has_create_time=has_create_time)
    return log


def found_in(log: Log, folder: Path, cuts: Sequence[int] = (), first_uncompacted: int = 0) -> set[tuple[int, int]]:
    """Return the levels and reasons of the duplicates in a log."""
    paths = log.save(folder, cuts)
    reader = RecordReader(paths, hidden_rows([]), None, no_kernels, 0, first_uncompacted)
    rows = np.concatenate([np.empty(0, DUPLICATE), *content_duplicates(reader, lambda *_: None)])
    return set(zip(rows["level"].tolist(), rows["why"].tolist(), strict=True))


def levels(found: set[tuple[int, int]]) -> set[int]:
    """Return the levels of what ``found_in`` returns."""
    return {level for level, _ in found}


def at_times(texts: Sequence[str], period: int = 450) -> list[Written]:
    """Return one batch for each text, at regular times."""
    return [(text, 50_001 + period * number) for number, text in enumerate(texts)]


# The batches that were in flight are sent again, in any order, as often as the broker does not answer.
BURSTS = {
    "in order": "a b a b",
    "overtaken": "a b b a",
    "three times": "a b a b a b",
    "batch by batch, often": "a b c a b c d a b c d d c b a",
    "apart from one that is there more often": "a b c a b c x a y a",
}


@pytest.mark.parametrize("shape", BURSTS)
@pytest.mark.parametrize("has_create_time", [False, True])
def test_different_batches_that_were_sent_again_together_are_a_retry(
    tmp_path: Path, shape: str, has_create_time: bool
) -> None:
    """Each record is different from all others that the application sent."""
    log = log_of([(text, 50_001) for text in BURSTS[shape].split()], has_create_time, UNIQUE)
    if "apart" in shape and not has_create_time:
        assert (RETRY, DuplicateReason.RETRY_WHOLE_BATCH) in found_in(log, tmp_path)
    else:
        assert levels(found_in(log, tmp_path)) == {RETRY}


@pytest.mark.parametrize("has_create_time", [False, True])
def test_a_log_that_is_one_burst_is_a_retry(tmp_path: Path, has_create_time: bool) -> None:
    """All of its contents are repeated, but nothing beside the burst shows that they usually are."""
    texts = [f"{number}-a {number}-b" for number in range(40)]
    overtaken = [texts[number ^ 1] for number in range(40)]
    log = log_of([(text, 50_001) for text in texts + overtaken], has_create_time)
    assert levels(found_in(log, tmp_path)) == {RETRY}


@pytest.mark.parametrize(("has_create_time", "every"), [(False, 4), (True, 4), (True, 3)])
def test_a_short_log_of_many_retries_has_retries(tmp_path: Path, has_create_time: bool, every: int) -> None:
    """Each of them is alone, and the share of all is that of a bad day."""
    texts = [f"{number}-a {number}-b {number}-c" for number in range(60)]
    written = [text for number, text in enumerate(texts) for _ in range(1 + (number % every == 0))]
    log = log_of([(text, 50_001 + int(text.split("-")[0])) for text in written], has_create_time)
    assert levels(found_in(log, tmp_path)) == {RETRY}


APPEND_TIME_LOOK_ALIKES = {
    "a gauge that changes every second poll": [f"{number // 2}" for number in range(40)],
    "an energy meter": [f"{number // 3 + number // 7}" for number in range(80)],
    "devices that are polled as one batch": [f"a-{n // 2} b-{n // 3} c-{n // 2} d-{n // 2}" for n in range(40)],
    "a word count": [f"the-{number % 3} a-{number % 2} of-1" for number in range(60)],
}


@pytest.mark.parametrize("shape", APPEND_TIME_LOOK_ALIKES)
def test_measurements_with_append_times_are_no_retries(tmp_path: Path, shape: str) -> None:
    log = log_of(at_times(APPEND_TIME_LOOK_ALIKES[shape]), False)
    assert levels(found_in(log, tmp_path)) == {CONTENT}


def test_a_state_that_comes_back_is_no_retry(tmp_path: Path) -> None:
    """Nothing shows what is usual in so short a log."""
    assert found_in(log_of(at_times(["on", "off", "on"]), False), tmp_path) == {(CONTENT, SINGLE)}


def test_rare_heartbeats_among_other_records_are_no_retries(tmp_path: Path) -> None:
    log = log_of([], False)
    for number in range(UNIQUE):
        log.write([(b"k", b"unique %d" % number)], timestamp=50_000 + number, has_create_time=False)
        if number % 50 == 0:
            log.write([(b"k", b"alive")], timestamp=50_000 + number, has_create_time=False)
    assert found_in(log, tmp_path) == {(CONTENT, PERIODIC)}


def test_a_heartbeat_around_a_retry_does_not_belong_to_it(tmp_path: Path) -> None:
    texts = ["alive", *(f"x-{n}" for n in range(200)), "a", "b", "a", "b", *(f"y-{n}" for n in range(200)), "alive"]
    assert found_in(log_of(at_times(texts, 1), False), tmp_path) == {
        (RETRY, DuplicateReason.RETRY_WHOLE_BATCH),
        (CONTENT, SINGLE),
    }


CREATE_TIME_LOOK_ALIKES = {
    "two producers that report each event": [(f"{n // 2}", 50_001 + n // 2) for n in range(80)],
    "two that report several at once": [(f"{n // 2}-a {n // 2}-b", 50_001 + n // 2) for n in range(80)],
    "times in whole seconds": [("a b c", 1000 * (50 + n * 450 // 1000)) for n in range(30)],
}


@pytest.mark.parametrize("shape", CREATE_TIME_LOOK_ALIKES)
def test_events_that_are_reported_twice_are_no_retries(tmp_path: Path, shape: str) -> None:
    found = found_in(log_of(CREATE_TIME_LOOK_ALIKES[shape], True), tmp_path)
    assert levels(found) == {CONTENT}
    assert (CONTENT, USUAL) in found


def test_equal_events_of_one_millisecond_are_no_retry_by_the_end_of_a_batch(tmp_path: Path) -> None:
    """Of a few double clicks among many events, one falls across two batches; equal pairs within a batch explain it."""
    twice = [("1 1", 60_001), ("2", 60_002), ("2", 60_002)]
    assert found_in(log_of(twice, True, UNIQUE), tmp_path) == {
        (CONTENT, DuplicateReason.NO_PRODUCER),
        (CONTENT, SINGLE),
    }
    # Without such pairs, or with different batches together, it is a retry.
    for texts in ("2 2", "1,1 2 3 2 3"):
        log = log_of([(text.replace(",", " "), 60_002) for text in texts.split()], True, UNIQUE)
        assert RETRY in levels(found_in(log, tmp_path))


def test_compacted_segments_do_not_show_what_is_usual(tmp_path: Path) -> None:
    """The cleaner leaves one record of each key there."""
    measured = at_times(APPEND_TIME_LOOK_ALIKES["an energy meter"])
    log = log_of(measured, False, 0)
    cleaned = log_of([], False, 1000)
    cut, cleaned.data = len(cleaned.data), cleaned.data + _moved(log, 1000)
    assert RETRY in levels(found_in(cleaned, tmp_path, [cut]))
    assert levels(found_in(cleaned, tmp_path, [cut], first_uncompacted=1)) == {CONTENT}


def _moved(log: Log, offset: int) -> bytes:
    """Return a log that starts at an offset."""
    moved = Log()
    moved.skip(offset)
    for record in log.records:
        moved.write([record.content], timestamp=record.timestamp, has_create_time=record.has_create_time)
    return moved.data


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("rows_at_once", [1, 7, 1 << 17])
def test_repeats_are_those_of_the_definition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, rows_at_once: int
) -> None:
    """However the entries are divided; those that repeat nothing may be left out."""
    monkeypatch.setattr(counting, "COUNTED_ROWS", rows_at_once)
    dice = random.Random(seed)  # noqa: S311  # not for cryptography
    log, distance = random_log(seed), dice.choice([5, 30, 1000])
    reader = RecordReader(log.save(tmp_path), log.hidden, kernels=no_kernels, workers=0)
    found = Repetition(0, distance)
    entries = []
    for chunk in reader.chunks(ignore_damage):
        found.add_records(chunk.segment, records_by_kind(chunk))
        entries.append(record_entries(chunk, np.ones(len(chunk.columns), bool), reader))
    parts = np.array_split(np.concatenate(entries), dice.randint(1, 5))
    assert sum(map(len, found.counted(_without_others(parts, log.records)))) <= len(log.records)
    assert _counts(found) == _expected_counts(log.records, distance)


def _without_others(parts: Sequence[RecordEntryArray], records: Sequence[WrittenRecord]) -> list[RecordEntryArray]:
    contents = [record.content for record in records]
    repeated = [record.offset for record in records if contents.count(record.content) > 1]
    return [part[np.isin(part["offset"], repeated)] for part in parts]


def _counts(found: Repetition) -> list[tuple[int, int, int]]:
    return list(zip(found.records.tolist(), found.repeats.tolist(), found.repeated.tolist(), strict=True))


def _expected_counts(records: Sequence[WrittenRecord], distance: int) -> list[tuple[int, int, int]]:
    counts = []
    for has_create_time in (False, True):
        kind = [each for each in records if each.producer_id < 0 and each.has_create_time == has_create_time]
        latest: dict[object, tuple[int, bool]] = {}
        repeats = repeated = 0
        for each in kind:
            key = (each.content, each.timestamp if has_create_time else None)
            before, was_repeat = latest.get(key, (-distance, False))
            is_repeat = each.offset - before < distance
            repeats += is_repeat
            repeated += is_repeat and not was_repeat
            latest[key] = each.offset, is_repeat
        counts.append((len(kind), repeats, repeated))
    return counts
