"""Transactions in lanes, compared with consumers of live brokers."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kforensics
from kforensics.errors import UsageError
from kforensics.plots import MAX_MARKS, transactions
from tests.command import SAMPLES
from tests.plots.drawn import all_rows, layers

AS_OF_MS = 1_795_263_300_000
SCENARIO = SAMPLES / "transactions-v2"
TRUTH = json.loads((SCENARIO / "truth.json").read_text())["topics"]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return kforensics.transactions(SCENARIO, as_of=AS_OF_MS)


@pytest.mark.parametrize("topic", ["interleaved", "aborted", "committed", "open", "hanging"])
def test_bars_have_the_records_hidden_from_read_committed_consumers(table: pa.Table, topic: str) -> None:
    truth = TRUTH[topic]["0"]
    bars, ticks = layers(transactions(table, topic=topic))
    seen = {record["offset"] for record in truth["read_committed"]}
    unseen = [record["offset"] for record in truth["read_uncommitted"] if record["offset"] not in seen]
    below = [offset for offset in unseen if offset < truth["latest_read_committed"]]
    aborted = [bar for bar in bars if bar["outcome"] == "aborted" and bar["end"] < truth["latest_read_committed"]]
    assert sum(bar["records"] for bar in aborted) == len(below)
    assert all(any(bar["start"] <= offset < bar["end"] for bar in aborted) for offset in below)
    data = {record["offset"] for record in truth["read_uncommitted"]}
    assert not data & {tick["end"] for tick in ticks}
    assert [bar for bar in bars if bar["outcome"] != "open"] == ticks
    starts = {producer["current_transaction_start_offset"] for producer in truth["producers"]} - {-1}
    assert {bar["start"] for bar in bars if bar["outcome"] == "open"} == starts
    assert all(bar["start"] < bar["end"] <= truth["latest"] for bar in bars if bar["outcome"] == "open")


def test_over_time_the_order_is_the_same(table: pa.Table) -> None:
    bars, ticks = layers(transactions(table, by="time", topic="interleaved"))
    rows = table.filter(pc.equal(table["topic"], "interleaved")).to_pylist()
    assert [(bar["start"], bar["end"]) for bar in bars] == [
        (row["first_timestamp"], row["marker_timestamp"]) for row in rows
    ]
    assert len(ticks) == len(bars)


@pytest.mark.parametrize("by", ["offset", "time"])
def test_a_data_frame_has_the_same_chart(by: str) -> None:
    found = kforensics.transactions(SCENARIO / "broker-1" / "hanging-0", as_of=AS_OF_MS)
    of_table, of_frame = transactions(found, by=by), transactions(found.to_pandas(), by=by)
    assert layers(of_frame) == layers(of_table)


def test_by_anything_else_is_refused(table: pa.Table) -> None:
    with pytest.raises(UsageError, match=re.escape("by='size' is not one of offset, time")):
        transactions(table, by="size")


def _table(count: int, producers: int, outcomes: list[str] | None = None) -> pa.Table:
    at = np.arange(count, dtype="i8") * 10
    names = outcomes or ["committed"] * count
    return pa.table(
        {
            "log_dir": ["/d"] * count,
            "topic": ["t"] * count,
            "partition": pa.array([0] * count, pa.int32()),
            "producer_id": np.arange(count, dtype="i8") % producers,
            "first_offset": at,
            "last_offset": at + 8,
            "marker_offset": pa.array(
                [None if name == "open" else int(offset) + 9 for offset, name in zip(at, names, strict=True)],
                pa.int64(),
            ),
            "outcome": names,
            "records": np.full(count, 9),
        }
    )


@pytest.mark.slow
def test_a_million_transactions_are_few_marks_with_all_open_ones() -> None:
    count, producers = 1_000_000, 1000
    names = ["aborted" if at % 7 == 0 else "committed" for at in range(count)]
    names[123_456] = names[-1] = "open"
    chart = transactions(_table(count, producers, names))
    assert all_rows(chart) <= 2 * MAX_MARKS
    bars = layers(chart)[0]
    assert sum(bar["transactions"] for bar in bars) == count
    assert sum(bar["records"] for bar in bars) == 9 * count
    assert [(bar["start"], bar["end"]) for bar in bars if bar["outcome"] == "open"] == [
        (1_234_560, 10 * count - 1),
        (10 * count - 10, 10 * count - 1),
    ]
    assert len({bar["producer"] for bar in bars}) == 30
    assert "971 others" in {bar["producer"] for bar in bars}
    assert {bar["producer"] for bar in bars if bar["outcome"] == "open"} == {"456", "999"}
    assert "are merged with" in chart.to_dict()["title"]["subtitle"][0]


def test_a_transaction_from_before_the_log_starts_with_it() -> None:
    table = _table(2, 1).append_column("first_timestamp", pa.array([None, 50], pa.int64()))
    table = table.append_column("last_timestamp", pa.array([20, 60])).append_column(
        "marker_timestamp", pa.array([30, 70])
    )
    bars, _ = layers(transactions(table, by="time"))
    assert [(bar["start"], bar["end"]) for bar in bars] == [(20, 30), (50, 70)]


def test_no_transaction_is_an_empty_chart() -> None:
    assert layers(transactions(_table(0, 1))) == [[], []]
