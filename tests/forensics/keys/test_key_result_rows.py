from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

from kforensics.forensics.audit.topic_result import evaluate_keys
from kforensics.forensics.keys.key_result_rows import PARTITION_BATCH_TIME, WritingStyle, _style, styles_of
from tests.forensics.keys.topics import KEYS, RULES, Sent, at_home, sent_to, summaries_in, topic


def _styles(folder: Path, sent: list[Sent], count: int) -> dict[int, str]:
    return {
        key: str(style)
        for key, style in styles_of(summaries_in(sent_to(folder, sent, count)), count, by_key=True).items()
    }


def test_each_batch_in_the_next_partition_is_round_robin(tmp_path: Path) -> None:
    assert _styles(tmp_path, [Sent(None, number % 3, number, 7) for number in range(12)], 3) == {7: "round-robin"}


def test_several_batches_per_partition_are_sticky(tmp_path: Path) -> None:
    dice, partition = Random(5), 0  # noqa: S311  # dice for tests
    sent: list[Sent] = []
    for _ in range(12):
        partition = dice.choice([number for number in range(4) if number != partition])
        sent += [Sent(None, partition, len(sent) + number, 7) for number in range(2)]
    assert _styles(tmp_path, sent, 4) == {7: "sticky"}


def test_overlapping_batches_are_round_robin() -> None:
    """Each record goes to the next partition: one batch is not full yet when others are sent."""
    times = [(0, 100, 0), *((10 * number, 10 * number + 2, 1 + number % 2) for number in range(1, 9))]
    batches = np.array(
        [(7, first, last, 1 + number, partition) for number, (first, last, partition) in enumerate(times)],
        PARTITION_BATCH_TIME,
    )
    assert _style(batches, 5) is WritingStyle.ROUND_ROBIN
    batches["last_timestamp"][0] = 2
    assert _style(batches, 5) is WritingStyle.STICKY


def test_too_few_batches_and_producers_without_an_id_have_no_style(tmp_path: Path) -> None:
    sent = [
        *(Sent(None, number % 3, number, 7) for number in range(4)),
        *(Sent(None, number % 3, number) for number in range(20)),
    ]
    assert _styles(tmp_path, sent, 3) == {}


def test_simultaneous_batches_have_no_style_unless_they_are_even(tmp_path: Path) -> None:
    """Their order is unknown: only equal record counts in all partitions show round-robin."""
    even = [Sent(None, number % 3, number // 3, 7) for number in range(18)]
    uneven = [Sent(None, number % 2, number // 6, 8) for number in range(18) if number % 6 not in {1, 3}]
    assert _styles(tmp_path, [*even, *uneven], 3) == {7: "round-robin"}


def test_records_with_keys_are_keyed_unless_keys_do_not_determine_the_partition(tmp_path: Path) -> None:
    sent_to(tmp_path, at_home(KEYS, 3, producer=7), 3)
    assert styles_of(summaries_in(tmp_path), 3, by_key=True) == {7: "keyed"}
    assert styles_of(summaries_in(tmp_path), 3, by_key=False) == {7: "sticky"}


@pytest.mark.parametrize(("name", "style"), [("keyed", "keyed"), ("round-robin", "round-robin"), ("no-keys", None)])
def test_styles_of_real_producers(name: str, style: str | None) -> None:
    """The third one has sent four batches, which is too few."""
    rows = evaluate_keys(topic(name).summaries, RULES).rows["producer_batches"]
    assert set(rows.only("style")) == {(style,)}


def test_fill_is_relative_to_the_largest_batch_of_the_producer(tmp_path: Path) -> None:
    """The truth has the number of records that each producer sent to each partition."""
    rows = evaluate_keys(topic("round-robin").summaries, RULES).rows["producer_batches"]
    values = list(rows.only("batches", "records", "records_per_batch", "most_records", "fill", "compression_ratio"))
    assert values == [(4, 12, 3.0, 3, 1.0, 1.0)] * 3
    sent_to(tmp_path, [Sent(None, 0, 0, 1), Sent(b"x" * 200, 1, 1, 1), Sent(None, 1, 2, 1)], 2)
    sizes = evaluate_keys(summaries_in(tmp_path), RULES).rows["producer_batches"]
    first, second = sizes.only("bytes", "batches", "most_bytes", "fill")
    assert first[3] == pytest.approx(first[0] / second[2])
    assert second[3] == pytest.approx(second[0] / 2 / second[2])
