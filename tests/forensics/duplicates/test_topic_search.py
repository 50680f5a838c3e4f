"""Duplicates across the partitions of a topic, against a simple definition on random logs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kforensics
from kforensics.forensics.duplicates.content_pairs import DUPLICATE_RUN, DuplicateRunArray
from kforensics.forensics.duplicates.cross_partition_pairs import MAX_OCCURRENCES, partition_numbers
from kforensics.forensics.duplicates.duplicate_rows import DuplicateLevel, DuplicateReason, DuplicateView
from kforensics.forensics.duplicates.topic_search import search_topic
from kforensics.parsers.kernels.library import load_kernels
from kforensics.parsers.kernels.policy import KernelPolicy, no_kernels
from tests.forensics.duplicate_logs import WINDOW_MS, Log, random_log
from tests.forensics.duplicates.topics import Topic, expected_topic_pairs, pairs_of_runs, prepare_search, save_topic

TINY = 1 << 10


def compiled_kernels(_size: int) -> Any:
    """Return the kernels whatever the size."""
    return load_kernels()


def topic_runs(
    folder: Path, topic: Topic, *, memory: int = 1 << 24, kernels: KernelPolicy = compiled_kernels
) -> DuplicateRunArray:
    """Return all runs of a topic."""
    prepare = prepare_search(topic, kernels)
    results = search_topic(save_topic(folder, topic), prepare, memory=memory, kernels=kernels, workers=0)
    numbered = [(searched.place.partition or 0, runs) for searched, runs in results]
    assert [number for number, _ in numbered] == sorted({number for number, _ in numbered})
    for number, runs in numbered:
        assert set(partition_numbers(runs["second"]).tolist()) == {number}
    return np.concatenate([np.empty(0, DUPLICATE_RUN), *(runs for _, runs in numbered)])


def partition_of(ordinal: Any) -> int:
    """Return the partition number in a topic ordinal."""
    return int(partition_numbers(ordinal))


def random_topic(seed: int) -> Topic:
    """Return a topic of two to four partitions, whose numbers may have gaps."""
    dice = random.Random(seed)  # noqa: S311  # dice for a test
    numbers = sorted(dice.sample(range(6), dice.randint(2, 4)))
    return {number: random_log(seed * 10 + number, batches=dice.randint(5, 50)) for number in numbers}


@pytest.mark.parametrize("seed", range(40))
def test_pairs_are_those_of_the_definition(tmp_path: Path, seed: int) -> None:
    topic = random_topic(seed)
    rows = topic_runs(tmp_path, topic)
    expected = dict(expected_topic_pairs(topic))
    pairs = pairs_of_runs(rows, expected.keys())
    assert len(pairs) == len(set(pairs))
    assert set(pairs) <= set(expected)
    assert {pair for pair, is_conclusive in expected.items() if is_conclusive} <= set(pairs)
    for row in rows:
        assert any(expected[pair] for pair in pairs_of_runs(np.array([row]), expected.keys())), (
            "a run has a conclusive pair"
        )


def test_random_topics_have_all_kinds_of_pairs() -> None:
    """Otherwise the comparison with the definition would prove little."""
    all_pairs = [pair for seed in range(40) for pair in expected_topic_pairs(random_topic(seed))]
    expected = [pair for pair, is_conclusive in all_pairs if is_conclusive]
    assert {pair[2] for pair in expected} >= {
        *(DuplicateReason.RETRY_SAME_TIME, DuplicateReason.RETRY_WHOLE_BATCH, DuplicateReason.NO_PRODUCER),
        *(DuplicateReason.OTHER_PRODUCER, DuplicateReason.OTHER_EPOCH, DuplicateReason.SAME_PRODUCER),
    }
    assert {pair[3] for pair in expected} == set(DuplicateView)
    assert len(expected) > 2_000


@pytest.mark.parametrize("seed", range(8))
def test_little_memory_and_pure_python_give_the_same_result(tmp_path: Path, seed: int) -> None:
    """With a kilobyte, everything goes through files, and nearly all hashes share their first bits."""
    topic = random_topic(seed)
    rows = topic_runs(tmp_path, topic)
    assert topic_runs(tmp_path, topic, memory=TINY).tolist() == rows.tolist()
    assert topic_runs(tmp_path, topic, kernels=no_kernels).tolist() == rows.tolist()


def orders(count: int) -> list[tuple[bytes | None, bytes | None]]:
    """Return records without a key, every fifth without a value; those are too frequent to be compared."""
    return [(None, b"order %d" % n if n % 5 else None) for n in range(count)]


@pytest.mark.parametrize("memory", [1 << 24, TINY])
def test_a_restore_into_another_partition_is_one_row(tmp_path: Path, memory: int) -> None:
    """Thousands of records, some without a value, written again by another producer in other batches."""
    topic = {0: Log(), 3: Log()}
    for start in range(0, 3000, 30):
        topic[3].write(orders(3000)[start : start + 30], producer=(1, 0, start), timestamp=start)
    topic[0].write([(b"other", b"other")], timestamp=1)
    for start in range(0, 3000, 50):
        topic[0].write(orders(3000)[start : start + 50], producer=(2, 0, start), timestamp=9999 + start)
    (row,) = topic_runs(tmp_path, topic, memory=memory)
    assert (row["level"], row["why"], row["records"]) == (DuplicateLevel.CONTENT, DuplicateReason.OTHER_PRODUCER, 2400)
    assert (partition_of(row["first"]), row["first_offset"], row["first_last_offset"]) == (3, 1, 2999)
    assert (partition_of(row["second"]), row["second_offset"], row["second_last_offset"]) == (0, 2, 3000)
    assert row["is_varied"]


@pytest.mark.parametrize(
    ("delay", "level", "reason"),
    [
        (0, DuplicateLevel.CONTENT_RETRY, DuplicateReason.RETRY_SAME_TIME),
        (WINDOW_MS - 1, DuplicateLevel.CONTENT_RETRY, DuplicateReason.RETRY_WHOLE_BATCH),
        (WINDOW_MS, DuplicateLevel.CONTENT, DuplicateReason.NO_PRODUCER),
    ],
)
def test_a_batch_that_is_soon_sent_again_is_a_retry(
    tmp_path: Path, delay: int, level: DuplicateLevel, reason: DuplicateReason
) -> None:
    topic = {0: Log(), 1: Log()}
    for number, log in topic.items():
        log.write([(None, b"1"), (None, b"2")], timestamp=50 + number * delay)
    (row,) = topic_runs(tmp_path, topic)
    assert (row["level"], row["why"], row["records"]) == (level, reason, 2)


def test_the_record_with_the_later_timestamp_is_the_later_copy(tmp_path: Path) -> None:
    """With equal timestamps, it is the one in the higher partition. It is paired with the nearest earlier one."""
    topic = {number: Log() for number in range(3)}
    for number, timestamp in ((0, 30), (1, 10), (2, 10)):
        topic[number].write([(b"k", b"v")], producer=(number, 0, 0), timestamp=timestamp)
    rows = topic_runs(tmp_path, topic)
    assert [(partition_of(row["second"]), partition_of(row["first"])) for row in rows] == [(0, 2), (2, 1)]


@pytest.mark.parametrize(("times", "rows"), [(MAX_OCCURRENCES, MAX_OCCURRENCES), (MAX_OCCURRENCES + 1, 0)])
def test_frequent_contents_of_a_partition_are_not_compared(tmp_path: Path, times: int, rows: int) -> None:
    """Heartbeats: the same value in all partitions, again and again."""
    topic = {0: Log(), 1: Log()}
    topic[0].write([(None, b"I am here")], timestamp=5)
    for number in range(times):
        topic[1].write([(None, b"I am here")], timestamp=1000 + number)
    runs = topic_runs(tmp_path, topic)
    assert len(runs) == rows
    assert not runs["is_varied"].any()


def test_tombstones_and_empty_values_alone_are_not_conclusive(tmp_path: Path) -> None:
    topic = {0: Log(), 1: Log()}
    for number, log in topic.items():
        for sequence, content in enumerate([(b"k", None), (b"k", b""), (None, None)]):
            log.write([content], producer=(number, 0, sequence), timestamp=number)
    assert len(topic_runs(tmp_path, topic)) == 0
    topic[0].write([(b"k", b"")], timestamp=1)
    (row,) = topic_runs(tmp_path, topic)
    assert (row["second_offset"], row["first_offset"]) == (1, 3), "it has the same timestamp as well"


def test_an_aborted_copy_is_only_in_the_raw_view(tmp_path: Path) -> None:
    topic = {number: Log() for number in range(3)}
    topic[0].write([(b"k", b"v")], producer=(1, 0, 0), timestamp=10)
    topic[1].write([(b"k", b"v")], producer=(2, 0, 0), timestamp=20, is_hidden=True)
    topic[2].write([(b"k", b"v")], producer=(3, 0, 0), timestamp=30)
    rows = topic_runs(tmp_path, topic)
    assert [(partition_of(row["first"]), partition_of(row["second"]), row["view"]) for row in rows] == [
        (0, 1, DuplicateView.RAW),
        (1, 2, DuplicateView.RAW),
        (0, 2, DuplicateView.COMMITTED),
    ]


def test_a_partition_that_has_been_deleted_is_left_out(tmp_path: Path) -> None:
    topic = {number: Log() for number in range(3)}
    for log in topic.values():
        log.write(orders(4), timestamp=7)
    partitions = save_topic(tmp_path, topic)
    Path(partitions[1].segments[0].path).unlink()
    ((searched, runs),) = search_topic(partitions, prepare_search(topic), workers=0)
    assert searched.place.partition == 2
    assert partition_numbers(runs["first"]).tolist() == [0]


def test_rows_come_after_those_within_partitions(tmp_path: Path) -> None:
    """They name the partition and the segment of the earlier copy."""
    topic = {0: Log(), 1: Log()}
    topic[0].write([(b"k", b"v"), (b"k", b"v"), (b"k", b"w")], timestamp=5)
    topic[1].write([(b"k", b"w"), (b"l", b"x")], producer=(4, 0, 0), timestamp=9)
    save_topic(tmp_path, topic)
    within, other = kforensics.duplicates(tmp_path, as_of=10).to_pylist()
    assert (within["partition"], within["first_partition"], within["second_offset"]) == (0, None, 1)
    assert (other["partition"], other["first_partition"]) == (1, 0)
    assert (other["first_offset"], other["second_offset"], other["records"]) == (2, 0, 1)
    assert [other[f"{side}_path"].removeprefix(f"{tmp_path}/") for side in ("first", "second")] == [
        "t-0/00000000000000000000.log",
        "t-1/00000000000000000000.log",
    ]
    assert kforensics.duplicates(tmp_path, levels=["content-retry"], as_of=10).num_rows == 0
