"""The timeline of a cluster: what is drawn where, and how much."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kforensics
from kforensics.plots import MAX_MARKS, timeline
from tests.command import SAMPLES
from tests.plots.drawn import all_rows, layers

TABLES = ("cluster_events", "transactions", "incidents")
NOW = 1_795_262_700_000


def _chart(sample: str) -> Any:
    tables = kforensics.audit(SAMPLES / sample).tables
    return timeline(*(tables[name] for name in TABLES))


@pytest.fixture(scope="module")
def chart() -> Any:
    return _chart("unclean-election")


def _lanes(chart: Any) -> list[str]:
    lanes: list[str] = chart.to_dict()["layer"][0]["encoding"]["y"]["sort"]
    return lanes


def test_brokers_are_active_between_start_and_stop(chart: Any) -> None:
    """The lab killed brokers 3 and 2 one after the other, then started both again."""
    _, bars, ticks, *_ = layers(chart)
    active: dict[str, list[tuple[int, int]]] = {}
    for bar in bars:
        if bar["meaning"] == "broker active":
            active.setdefault(bar["lane"], []).append((bar["start"], bar["end"]))
    assert [len(active[f"broker {node}"]) for node in (1, 2, 3)] == [1, 2, 2]
    (third_stopped, third_started) = active["broker 3"][0][1], active["broker 3"][1][0]
    assert third_stopped < active["broker 2"][0][1] < third_started < active["broker 2"][1][0]
    (unclean,) = (tick for tick in ticks if tick["meaning"] == "unclean election")
    assert unclean["lane"] == "elections"
    assert unclean["what"] == "broker 3 elected for 3 partitions, though not in sync"
    assert unclean["start"] == third_started


def test_copies_of_the_metadata_log_count_once(chart: Any) -> None:
    tables = kforensics.audit(SAMPLES / "unclean-election" / "broker-1").tables
    alone = timeline(*(tables[name] for name in TABLES))
    events = [[(tick["what"], tick["start"], tick["count"]) for tick in layers(each)[2]] for each in (chart, alone)]
    assert events[0] == events[1]


def test_without_recorded_elections_leader_epochs_are_drawn() -> None:
    """A cluster with ZooKeeper."""
    ticks = layers(_chart("rolling-restart"))[2]
    assert len({tick["start"] for tick in ticks if tick["lane"] == "elections"}) >= 6
    assert all(re.match("leader epoch [0-9]+ of ", tick["what"]) for tick in ticks)


def test_lanes_and_legend_have_what_is_drawn(chart: Any) -> None:
    for drawn in (chart, _chart("transactions-v2"), _chart("rolling-restart")):
        _, bars, ticks, *_ = layers(drawn)
        assert {row["lane"] for row in (*bars, *ticks)} == {*_lanes(drawn)}
        color = drawn.to_dict()["layer"][0]["encoding"]["color"]
        meanings = {row["meaning"] for row in (*bars, *ticks)}
        assert {*color["scale"]["domain"]} == meanings
        assert {*color["legend"]["values"]} <= meanings
    assert _lanes(chart)[0] == "critical: unclean-election"


def test_the_axis_has_dates_and_at_least_four_ticks(chart: Any) -> None:
    axis = chart.to_dict()["layer"][0]["encoding"]["x"]["axis"]
    ticks = [int(text) for text in re.findall("[0-9]+", axis["values"]["expr"])]
    assert len(ticks) >= 4
    assert "%Y-%m-%d" in axis["labelExpr"]
    assert "%H:%M" in axis["labelExpr"]


def test_a_changed_feature_has_a_label() -> None:
    _, _, _, *labels = layers(_chart("cluster-metadata"))
    assert [label["label"] for layer in labels for label in layer] == ["transaction.version 2 → 1"]


def test_open_transactions_and_incidents_extend_to_the_end() -> None:
    _, bars, ticks, *_ = layers(_chart("transactions-v2"))
    end = max(row["end"] for row in (*bars, *ticks))
    ongoing = [bar for bar in bars if bar["lane"] == "transactions: open" or ": stuck-transaction" in bar["lane"]]
    assert len(ongoing) > 2
    assert {bar["end"] for bar in ongoing} == {end}


def _transactions(count: int) -> pa.Table:
    starts = NOW + np.arange(count) * 10
    outcomes = np.where(np.arange(count) % 7 == 0, "aborted", "committed").astype(object)
    markers = starts + 5
    outcomes[count // 2] = "open"
    starts[3] = 0
    markers[3] = 5
    return pa.table(
        {
            "outcome": outcomes,
            "first_timestamp": starts,
            "last_timestamp": starts + 1,
            "marker_timestamp": pa.array(markers, mask=outcomes == "open"),
        }
    )


def test_very_many_rows_are_few_marks_and_none_is_lost() -> None:
    count = 200_000
    schema = kforensics.audit(SAMPLES / "rolling-restart").tables["cluster_events"].schema
    kinds = ["election", "broker-start", "producer-ids", "no-leader"]
    events = pa.Table.from_pylist(
        [
            {"timestamp": NOW + at * 50, "kind": kinds[at % 4], "node_id": at % 40, "partitions": 1}
            for at in range(20_000)
        ],
        schema=schema,
    )
    chart = timeline(events, _transactions(count))
    assert all_rows(chart) <= 2 * MAX_MARKS
    bins, bars, ticks, *_ = layers(chart)
    assert sum(row["count"] for row in (*bins, *bars)) == count - 1
    assert sum(tick["count"] for tick in ticks) == 20_000
    assert "brokers" in _lanes(chart)
    (note,) = chart.to_dict()["title"]["subtitle"]
    assert note == "without a known time, so not shown: 1 transaction"


def test_nothing_is_an_empty_chart() -> None:
    events = kforensics.audit(SAMPLES / "rolling-restart").tables["cluster_events"]
    assert layers(timeline(events.slice(0, 0))) == [[]] * 5


def test_a_client_with_a_wrong_clock_does_not_stretch_the_axis() -> None:
    """No transaction that has ended can have lasted for years; an open one may."""
    year = 365 * 86_400_000
    table = pa.table(
        {
            "outcome": ["committed", "committed", "open"],
            "first_timestamp": [NOW - 7 * year, NOW - 60_000, NOW - 30_000],
            "last_timestamp": [NOW - 7 * year, NOW - 50_000, NOW - 20_000],
            "marker_timestamp": pa.array([NOW, NOW - 40_000, None], pa.int64()),
        }
    )
    events = kforensics.audit(SAMPLES / "rolling-restart").tables["cluster_events"].slice(0, 0)
    _, bars, *_ = layers(timeline(events, table))
    assert sorted((bar["start"], bar["end"]) for bar in bars) == [
        (NOW - 60_000, NOW - 40_000),
        (NOW - 30_000, NOW),
        (NOW, NOW),
    ]
