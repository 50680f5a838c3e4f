"""What stands in several partitions of a topic, against the plainest definition on random logs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kforensics
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.duplicates.content_pairs import RUN
from kforensics.forensics.duplicates.duplicate_rows import Level, View, Why
from kforensics.forensics.duplicates.topic_pairs import OFTEN, numbers_of
from kforensics.forensics.duplicates.topic_search import across_partitions
from kforensics.parsers.kernels.library import kernels
from kforensics.parsers.kernels.policy import Choice, no_kernels
from tests.forensics.duplicate_logs import WINDOW_MS, Log, random_log
from tests.forensics.duplicates.topics import Topic, expected_across, found_across, saved, searching

TINY = 1 << 10


def compiled_kernels(_size: int) -> Any:
    """Return the kernels whatever the size."""
    return kernels()


def across(folder: Path, topic: Topic, *, memory: int = 1 << 24, choice: Choice = compiled_kernels) -> Records:
    """Return all rows of a topic."""
    found = across_partitions(saved(folder, topic), searching(topic, choice), memory=memory, kernels=choice, workers=0)
    numbered = [(one.place.partition or 0, runs) for one, runs in found]
    assert [number for number, _ in numbered] == sorted({number for number, _ in numbered})
    for number, runs in numbered:
        assert set(numbers_of(runs["second"]).tolist()) == {number}
    return np.concatenate([np.empty(0, RUN), *(runs for _, runs in numbered)])


def partition_of(ordinal: Any) -> int:
    """Return the number of the partition that an ordinal belongs to."""
    return int(numbers_of(ordinal))


def random_topic(seed: int) -> Topic:
    """Return a topic of two to four partitions, their numbers not all there."""
    dice = random.Random(seed)  # noqa: S311  # dice for a test
    numbers = sorted(dice.sample(range(6), dice.randint(2, 4)))
    return {number: random_log(seed * 10 + number, batches=dice.randint(5, 50)) for number in numbers}


@pytest.mark.parametrize("seed", range(40))
def test_pairs_are_those_of_the_definition(tmp_path: Path, seed: int) -> None:
    topic = random_topic(seed)
    rows = across(tmp_path, topic)
    expected = dict(expected_across(topic))
    found = found_across(rows, expected.keys())
    assert len(found) == len(set(found))
    assert set(found) <= set(expected)
    assert {pair for pair, tells in expected.items() if tells} <= set(found)
    for row in rows:
        assert any(expected[pair] for pair in found_across(np.array([row]), expected.keys())), "a row says something"


def test_random_topics_have_all_kinds_of_pairs() -> None:
    """Or the test above would say little."""
    expected = [pair for seed in range(40) for pair, tells in expected_across(random_topic(seed)) if tells]
    assert {pair[2] for pair in expected} >= {
        *(Why.RETRY_SAME_TIME, Why.RETRY_WHOLE_BATCH, Why.NO_PRODUCER),
        *(Why.OTHER_PRODUCER, Why.OTHER_EPOCH, Why.SAME_PRODUCER),
    }
    assert {pair[3] for pair in expected} == set(View)
    assert len(expected) > 2_000


@pytest.mark.parametrize("seed", range(8))
def test_a_tiny_budget_and_plain_python_change_nothing(tmp_path: Path, seed: int) -> None:
    """With a kilobyte everything goes through files, and nearly all hashes begin alike."""
    topic = random_topic(seed)
    rows = across(tmp_path, topic)
    assert across(tmp_path, topic, memory=TINY).tolist() == rows.tolist()
    assert across(tmp_path, topic, choice=no_kernels).tolist() == rows.tolist()


def orders(count: int) -> list[tuple[bytes | None, bytes | None]]:
    """Return records without key, every fifth of them without value, which do not count: there are so many."""
    return [(None, b"order %d" % n if n % 5 else None) for n in range(count)]


@pytest.mark.parametrize("memory", [1 << 24, TINY])
def test_a_restore_into_another_partition_is_one_row(tmp_path: Path, memory: int) -> None:
    """Thousands of records, some without value, written again by another producer in other batches."""
    topic = {0: Log(), 3: Log()}
    for at in range(0, 3000, 30):
        topic[3].write(orders(3000)[at : at + 30], producer=(1, 0, at), timestamp=at)
    topic[0].write([(b"other", b"other")], timestamp=1)
    for at in range(0, 3000, 50):
        topic[0].write(orders(3000)[at : at + 50], producer=(2, 0, at), timestamp=9999 + at)
    (row,) = across(tmp_path, topic, memory=memory)
    assert (row["level"], row["why"], row["records"]) == (Level.CONTENT, Why.OTHER_PRODUCER, 2400)
    assert (partition_of(row["first"]), row["first_offset"], row["first_last_offset"]) == (3, 1, 2999)
    assert (partition_of(row["second"]), row["second_offset"], row["second_last_offset"]) == (0, 2, 3000)
    assert row["is_varied"]


@pytest.mark.parametrize(
    ("later", "level", "why"),
    [
        (0, Level.CONTENT_RETRY, Why.RETRY_SAME_TIME),
        (WINDOW_MS - 1, Level.CONTENT_RETRY, Why.RETRY_WHOLE_BATCH),
        (WINDOW_MS, Level.CONTENT, Why.NO_PRODUCER),
    ],
)
def test_a_batch_that_is_sent_again_soon_is_a_retry(tmp_path: Path, later: int, level: Level, why: Why) -> None:
    topic = {0: Log(), 1: Log()}
    for number, log in topic.items():
        log.write([(None, b"1"), (None, b"2")], timestamp=50 + number * later)
    (row,) = across(tmp_path, topic)
    assert (row["level"], row["why"], row["records"]) == (level, why, 2)


def test_the_later_one_is_that_of_the_later_timestamp(tmp_path: Path) -> None:
    """Where both are the same, that of the higher partition; the nearest earlier one is its pair."""
    topic = {number: Log() for number in range(3)}
    for number, timestamp in ((0, 30), (1, 10), (2, 10)):
        topic[number].write([(b"k", b"v")], producer=(number, 0, 0), timestamp=timestamp)
    rows = across(tmp_path, topic)
    assert [(partition_of(row["second"]), partition_of(row["first"])) for row in rows] == [(0, 2), (2, 1)]


@pytest.mark.parametrize(("times", "rows"), [(OFTEN, OFTEN), (OFTEN + 1, 0)])
def test_what_comes_again_and_again_within_a_partition_does_not_count(tmp_path: Path, times: int, rows: int) -> None:
    """Heartbeats: the same value in all partitions, all the time."""
    topic = {0: Log(), 1: Log()}
    topic[0].write([(None, b"I am here")], timestamp=5)
    for turn in range(times):
        topic[1].write([(None, b"I am here")], timestamp=1000 + turn)
    found = across(tmp_path, topic)
    assert len(found) == rows
    assert not found["is_varied"].any()


def test_tombstones_and_empty_values_alone_say_nothing(tmp_path: Path) -> None:
    topic = {0: Log(), 1: Log()}
    for number, log in topic.items():
        for at, content in enumerate([(b"k", None), (b"k", b""), (None, None)]):
            log.write([content], producer=(number, 0, at), timestamp=number)
    assert len(across(tmp_path, topic)) == 0
    topic[0].write([(b"k", b"")], timestamp=1)
    (row,) = across(tmp_path, topic)
    assert (row["second_offset"], row["first_offset"]) == (1, 3), "its timestamp is the same too"


def test_an_aborted_copy_is_for_who_reads_everything(tmp_path: Path) -> None:
    topic = {number: Log() for number in range(3)}
    topic[0].write([(b"k", b"v")], producer=(1, 0, 0), timestamp=10)
    topic[1].write([(b"k", b"v")], producer=(2, 0, 0), timestamp=20, is_hidden=True)
    topic[2].write([(b"k", b"v")], producer=(3, 0, 0), timestamp=30)
    rows = across(tmp_path, topic)
    assert [(partition_of(row["first"]), partition_of(row["second"]), row["view"]) for row in rows] == [
        (0, 1, View.RAW),
        (1, 2, View.RAW),
        (0, 2, View.COMMITTED),
    ]


def test_a_partition_that_is_gone_meanwhile_is_left_out(tmp_path: Path) -> None:
    topic = {number: Log() for number in range(3)}
    for log in topic.values():
        log.write(orders(4), timestamp=7)
    partitions = saved(tmp_path, topic)
    Path(partitions[1].segments[0].path).unlink()
    ((one, runs),) = across_partitions(partitions, searching(topic), workers=0)
    assert one.place.partition == 2
    assert numbers_of(runs["first"]).tolist() == [0]


def test_rows_come_behind_those_of_partitions(tmp_path: Path) -> None:
    """The library names the partition and the segment of the earlier writing."""
    topic = {0: Log(), 1: Log()}
    topic[0].write([(b"k", b"v"), (b"k", b"v"), (b"k", b"w")], timestamp=5)
    topic[1].write([(b"k", b"w"), (b"l", b"x")], producer=(4, 0, 0), timestamp=9)
    saved(tmp_path, topic)
    within, other = kforensics.duplicates(tmp_path, as_of_ms=10).to_pylist()
    assert (within["partition"], within["first_partition"], within["second_offset"]) == (0, None, 1)
    assert (other["partition"], other["first_partition"]) == (1, 0)
    assert (other["first_offset"], other["second_offset"], other["records"]) == (2, 0, 1)
    assert [other[f"{side}_path"].removeprefix(f"{tmp_path}/") for side in ("first", "second")] == [
        "t-0/00000000000000000000.log",
        "t-1/00000000000000000000.log",
    ]
    assert kforensics.duplicates(tmp_path, levels=["content-retry"], as_of_ms=10).num_rows == 0
