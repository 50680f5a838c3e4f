"""The last stable offset, compared with live brokers."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kforensics
from kforensics.errors import UsageError
from kforensics.plots import MAX_MARKS, lso, lso_over_time
from tests.command import SAMPLES
from tests.plots.drawn import all_rows, layers

AS_OF_MS = 1_795_263_300_000
SCENARIO = SAMPLES / "transactions-v2"
TRUTH = json.loads((SCENARIO / "truth.json").read_text())["topics"]
TOPICS = ["hanging", "open", "interleaved", "hanging-resolved"]


@pytest.fixture(scope="module")
def log() -> kforensics.Opened:
    return kforensics.open(SCENARIO, as_of=AS_OF_MS)


@pytest.mark.parametrize("topic", TOPICS)
def test_the_line_ends_at_the_lso_of_the_broker(log: kforensics.Opened, topic: str) -> None:
    truth = TRUTH[topic]["0"]
    log_end, stable, spans, _ = layers(lso(log.lso_history, topic=topic))
    assert [(point["x"], point["y"]) for point in log_end] == [(0, 0), (truth["latest"], truth["latest"])]
    assert (stable[-1]["x"], stable[-1]["y"]) == (truth["latest"], truth["latest_read_committed"])
    assert [point["x"] for point in stable] == sorted(point["x"] for point in stable)
    open_since = {
        producer["current_transaction_start_offset"]: producer["producer_id"] for producer in truth["producers"]
    }
    last = spans[-1]
    is_blocked = last["to"] == truth["latest"]
    assert is_blocked == (truth["latest_read_committed"] < truth["latest"])
    if is_blocked:
        assert last["producer id"] == open_since[truth["latest_read_committed"]]
        assert (last["blocked by"], last["y"]) == (f"producer {last['producer id']}", truth["latest_read_committed"])


def test_every_step_is_drawn_and_named(log: kforensics.Opened) -> None:
    """Transactions of one record block the LSO for one high watermark."""
    ids = log.table("transactional_ids")
    history = log.lso_history
    _, _, spans, labels = layers(lso(history, topic="committed", transactional_ids=ids))
    rows = pa.table(history).filter(pc.equal(pa.table(history)["topic"], "committed"))
    assert len(spans) == rows.num_rows - rows["producer_id"].null_count > 2
    assert all(span["x"] < span["x2"] for span in spans)
    names = {row["producer_id"]: row["transactional_id"] for row in pa.table(ids).to_pylist()}
    assert {label["blocked by"] for label in labels} == {
        f"{names[span['producer id']]} (producer {span['producer id']})" for span in spans
    }


@pytest.mark.parametrize("topic", TOPICS)
def test_the_last_point_is_the_lso_of_the_broker(log: kforensics.Opened, topic: str) -> None:
    truth = TRUTH[topic]["0"]
    ends, stable, spans, _ = layers(lso_over_time(log.lso_history, log.batches, topic=topic))
    assert (ends[-1]["y"], stable[-1]["y"]) == (truth["latest"], truth["latest_read_committed"])
    newest = max(record["timestamp"] for record in truth["read_uncommitted"])
    assert ends[-1]["x"] >= newest
    assert [row["x"] for row in ends] == sorted(row["x"] for row in ends)
    assert (ends[-1]["blocked by"] != "nothing") == (truth["latest_read_committed"] < truth["latest"])
    assert all(span["y"] == span["last stable offset"] for span in spans)


def test_several_partitions_are_refused(log: kforensics.Opened) -> None:
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


@pytest.mark.slow
def test_many_steps_are_few_marks_with_the_widest() -> None:
    steps: list[tuple[int, int, int, int | None]] = [(0, 0, 0, None)]
    for at in range(0, 200_000, 2):
        steps += ((at + 1, at + 1, at, at % 1000), (at + 2, at + 2, at + 2, None))
    stuck = (200_001, 230_000, 200_000, 7)
    chart = lso(_history([*steps, stuck]))
    assert all_rows(chart) <= MAX_MARKS
    rows = layers(chart)[2]
    assert sum(row["steps"] for row in rows) > len(steps) / 2
    assert {row["blocked by"] for row in rows} >= {"several producers", "producer 7"}
    assert (rows[-1]["x"], rows[-1]["x2"], rows[-1]["y2"]) == stuck[:3]
    assert all(one["x2"] <= other["x"] for one, other in pairwise(rows))


@pytest.mark.slow
def test_a_million_batches_are_few_marks_with_the_largest_lag() -> None:
    """The LSO lags far after one batch, for a millisecond."""
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
    assert all_rows(chart) <= MAX_MARKS
    log_end, stable, (lag,), _ = layers(chart)
    assert (lag["log end offset"], lag["last stable offset"], lag["blocked by"]) == (odd + 1, 5, "producer 9")
    assert 5 in {point["y"] for point in stable}
    assert log_end[-1]["y"] == count


def test_only_the_producers_that_block_most_have_names() -> None:
    history = [(at * 100, at * 100 + (at if at < 12 else 99), at * 100, at) for at in range(20)]
    rows = layers(lso(_history(history)))[2]
    assert {row["blocked by"] for row in rows} == {f"producer {at}" for at in range(12, 20)} | {"another producer"}
    assert [row["producer id"] for row in rows] == list(range(20))
