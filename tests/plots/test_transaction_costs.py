"""The chart of what transactions cost, compared with what the client of a real broker measured."""

import json

import numpy as np
import pyarrow as pa
import pytest

import kforensics
from kforensics.plots import transaction_costs
from tests.command import SAMPLES
from tests.plots.drawn import layers

SAMPLE = SAMPLES / "transaction-costs"
PARTITIONS = [1, 2, 4, 8]


@pytest.fixture(scope="module")
def costs() -> pa.Table:
    return kforensics.transactions(SAMPLE, topic="timed", cost=True)


def test_ends_and_their_line_are_those_that_the_client_measured(costs: pa.Table) -> None:
    measured = json.loads((SAMPLE / "truth.json").read_bytes())["measured_us"]
    ends = {
        count: np.median([each["visible"] for each in measured if each["partitions"] == count]) / 1000
        for count in PARTITIONS
    }
    _, fitted, _, points = layers(transaction_costs(costs))
    assert {row["partitions"]: row["p50"] for row in points} == pytest.approx(ends, rel=0.25)
    assert {row["partitions"]: row["fitted"] for row in fitted} == pytest.approx(ends, rel=0.25)


def test_the_steps_after_the_decision_add_up_to_the_end(costs: pa.Table) -> None:
    """Medians do not add up exactly."""
    steps, _, _, points = layers(transaction_costs(costs))
    times = {(row["step"], row["partitions"]): row["ms"] for row in steps}
    assert {step for step, _ in times} == {"begin", "prepare", "markers", "complete"}
    assert len(times) == len(steps) == 4 * len(PARTITIONS)
    for row in points:
        after = sum(times[step, row["partitions"]] for step in ("prepare", "markers", "complete"))
        assert after == pytest.approx(row["p50"], rel=0.1)
    assert times["markers", 1] == 0


def test_a_step_without_times_has_no_line(costs: pa.Table) -> None:
    names = [name for name in costs.column_names if name.startswith("begin_")]
    without = costs
    for name in names:
        index = costs.column_names.index(name)
        without = without.set_column(index, name, pa.nulls(costs.num_rows, costs.schema.field(name).type))
    steps, *_ = layers(transaction_costs(without))
    assert {row["step"] for row in steps} == {"prepare", "markers", "complete"}
