"""The last stable offset, as live brokers said it."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

import kforensics
from kforensics.errors import UsageError
from kforensics.plots import MOST_MARKS, lso, lso_over_time
from tests.command import SAMPLES
from tests.plots.drawn import all_rows, layers

AS_OF_MS = 1_795_263_300_000
SCENARIO = SAMPLES / "transactions-v2"
TRUTH = json.loads((SCENARIO / "truth.json").read_text())["topics"]
TOPICS = ["hanging", "open", "interleaved", "hanging-resolved"]


@pytest.fixture(scope="module")
def log() -> kforensics.Opened:
    return kforensics.open(SCENARIO, as_of_ms=AS_OF_MS)


@pytest.mark.parametrize("topic", TOPICS)
def test_the_line_ends_where_the_broker_said(log: kforensics.Opened, topic: str) -> None:
    said = TRUTH[topic]["0"]
    ((diagonal,), steps) = layers(lso(log.lso_history, topic=topic))
    assert (diagonal["x"], diagonal["x2"], diagonal["y2"]) == (0, said["latest"], said["latest"])
    assert (steps[-1]["x2"], steps[-1]["y2"]) == (said["latest"], said["latest_read_committed"])
    open_since = {one["current_transaction_start_offset"]: one["producer_id"] for one in said["producers"]}
    holder = open_since.get(said["latest_read_committed"])
    assert steps[-1]["held by"] == (
        f"producer {holder}" if said["latest_read_committed"] < said["latest"] else "nobody"
    )
    assert steps[-1]["producer id"] == holder


@pytest.mark.parametrize("topic", TOPICS)
def test_the_last_moment_is_what_the_broker_said(log: kforensics.Opened, topic: str) -> None:
    said = TRUTH[topic]["0"]
    ends, stable, points = layers(lso_over_time(log.lso_history, log.batches, topic=topic))
    assert ends == stable == points
    assert (ends[-1]["log end offset"], ends[-1]["last stable offset"]) == (
        said["latest"],
        said["latest_read_committed"],
    )
    newest = max(record["timestamp"] for record in said["read_uncommitted"])
    assert ends[-1]["time"] >= newest
    assert [row["time"] for row in ends] == sorted(row["time"] for row in ends)


def test_several_partitions_are_no_chart(log: kforensics.Opened) -> None:
    with pytest.raises(UsageError, match="name topic, partition or log_dir"):
        lso(log.lso_history)
    assert layers(lso(log.lso_history, topic="multi", partition=1))[1]
    assert layers(lso(log.lso_history, topic="no such topic"))[1] == []
    assert layers(lso_over_time(log.lso_history, log.batches, topic="no such topic"))[0] == []


def _history(steps: Sequence[tuple[int, int, int, int | None]]) -> pa.Table:
    names = ["from_high_watermark", "to_high_watermark", "last_stable_offset", "producer_id"]
    columns: dict[str, Any] = {
        name: pa.array(values, pa.int64()) for name, values in zip(names, zip(*steps, strict=True), strict=True)
    }
    place = {"log_dir": ["/d"] * len(steps), "topic": ["t"] * len(steps), "partition": [0] * len(steps)}
    return pa.table(place | columns)


def test_very_many_steps_are_few_marks_and_the_widest_stays() -> None:
    steps: list[tuple[int, int, int, int | None]] = [(0, 0, 0, None)]
    for at in range(0, 200_000, 2):
        steps += ((at + 1, at + 1, at, at % 1000), (at + 2, at + 2, at + 2, None))
    stuck = (200_001, 230_000, 200_000, 7)
    chart = lso(_history([*steps, stuck]))
    assert all_rows(chart) <= MOST_MARKS
    rows = layers(chart)[1]
    assert sum(row["steps"] for row in rows) == len(steps) + 1
    assert {row["held by"] for row in rows} >= {"many in turn", "producer 7"}
    assert (rows[-1]["x"], rows[-1]["x2"], rows[-1]["y2"]) == stuck[:3]
    assert all(one["x2"] < other["x"] for one, other in pairwise(rows))


def test_a_million_batches_are_few_marks_and_the_largest_lag_stays() -> None:
    """One batch somewhere is far behind, and for a millisecond only."""
    count, odd = 1_000_000, 123_456
    history = [(0, odd, odd, None), (odd + 1, odd + 1, 5, 9), (odd + 2, count, count, None)]
    batches = pa.table(
        {
            "log_dir": ["/d"] * count,
            "topic": ["t"] * count,
            "partition": [0] * count,
            "last_offset": range(count),
            "max_timestamp": range(10**12, 10**12 + count),
        }
    )
    chart = lso_over_time(_history(history), batches)
    assert all_rows(chart) <= MOST_MARKS
    rows = layers(chart)[0]
    (lag,) = [row for row in rows if row["held by"] == "producer 9"]
    assert (lag["log end offset"], lag["last stable offset"]) == (odd + 1, 5)
    assert rows[-1]["log end offset"] == count


def test_only_those_that_hold_most_have_a_name() -> None:
    history = [(at * 100, at * 100 + (at if at < 12 else 99), at * 100, at) for at in range(20)]
    rows = layers(lso(_history(history)))[1]
    assert {row["held by"] for row in rows} == {f"producer {at}" for at in range(12, 20)} | {"another producer"}
    assert [row["producer id"] for row in rows] == list(range(20))
