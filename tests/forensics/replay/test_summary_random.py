"""Random logs replayed in chunks, against the reference replay of the whole log."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from kforensics.forensics.core.record_types import Anomaly
from kforensics.forensics.replay.replay_rows import ReplayRows
from kforensics.forensics.replay.summarizing import summarize
from tests.forensics.batch_notation import columns_of, rows_of, values_of
from tests.forensics.replay.random_logs import random_log
from tests.forensics.replay.split_replay import replay_in_chunks, replay_values
from tests.reference.fold import fold
from tests.thorough import share

pytestmark = pytest.mark.exhaustive

SEEDS = range(8)
LOGS = share(6_300, 6)


@pytest.mark.parametrize("seed", SEEDS)
def test_merged_chunks_equal_the_reference_replay(seed: int) -> None:
    dice = Random(seed)  # noqa: S311  # not for cryptography
    counts: Counter[str] = Counter()
    for number in range(LOGS):
        batches, boundary = random_log(dice)
        sequences = dice.random() < 0.9
        expected = rows_of(fold(batches, boundary, sequences=sequences))
        summary, rows = replay_in_chunks(batches, dice, sequences=sequences)
        assert replay_values(summary, rows, boundary) == expected, (seed, number)
        counts.update(Anomaly(row[0]).name for row in expected["anomalies"])
        counts.update({name: len(values) for name, values in expected.items()})
    # Random logs without the rows to be compared must not pass this test.
    rare = {name: counts[name] for name in (*Anomaly.__members__, *counts) if counts[name] < LOGS // 126}
    assert rare == {}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_merged_summary_equals_that_of_the_whole_log(seed: int) -> None:
    """So merging is associative: every grouping of the chunks gives the summary of the whole log."""
    dice = Random(100 + seed)  # noqa: S311  # not for cryptography
    for number in range(LOGS // 20):
        batches, _ = random_log(dice)
        whole, certain = summarize(columns_of(batches))
        summary, rows = replay_in_chunks(batches, dice)
        assert summary == whole, (seed, number)
        for name in ReplayRows.__slots__:
            assert values_of(getattr(rows, name)) == values_of(getattr(certain, name)), (seed, number, name)
