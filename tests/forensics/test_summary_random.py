"""The summaries of the stretches of random logs, against the sequential replay of the whole log."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from kforensics.forensics.core.record_types import Anomaly
from kforensics.forensics.replay.fold import fold
from kforensics.forensics.replay.summary import Rows, summarise
from tests.forensics.events import columns_of, rows_of, values_of
from tests.forensics.monoid import found, in_stretches
from tests.forensics.random_logs import random_log

pytestmark = pytest.mark.exhaustive

SEEDS = range(8)
LOGS = 6_300


@pytest.mark.parametrize("seed", SEEDS)
def test_stretches_put_together_say_what_the_replay_says(seed: int) -> None:
    dice = Random(seed)  # noqa: S311  # dice for logs, not for secrets
    met: Counter[str] = Counter()
    for number in range(LOGS):
        batches, boundary = random_log(dice)
        sequences = dice.random() < 0.9
        expected = rows_of(fold(batches, boundary, sequences=sequences))
        stretches = in_stretches(batches, dice, sequences=sequences)
        assert found(*stretches, boundary) == expected, (seed, number)
        met.update(Anomaly(row[0]).name for row in expected["anomalies"])
        met.update({name: len(values) for name, values in expected.items()})
    # Dice that never show what is to be compared must not make this pass.
    seldom = {name: met[name] for name in (*Anomaly.__members__, *met) if met[name] < 50}
    assert seldom == {}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_summary_of_stretches_is_that_of_the_whole(seed: int) -> None:
    """From which it follows that merging is associative: every bracketing gives the summary of the whole."""
    dice = Random(100 + seed)  # noqa: S311  # as above
    for number in range(LOGS // 20):
        batches, _ = random_log(dice)
        whole, certain = summarise(columns_of(batches))
        summary, rows = in_stretches(batches, dice)
        assert summary == whole, (seed, number)
        for name in Rows.__slots__:
            assert values_of(getattr(rows, name)) == values_of(getattr(certain, name)), (seed, number, name)
