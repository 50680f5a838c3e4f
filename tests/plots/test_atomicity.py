"""The matrix of transactions and partitions, compared with live coordinators."""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kforensics
from kforensics.plots import MAX_MARKS, atomicity
from tests.command import SAMPLES
from tests.plots.drawn import all_rows, layers

SCENARIOS = ["transactions-v0", "transactions-v2"]
STATES = {"CompleteCommit": {"committed"}, "CompleteAbort": {"aborted"}, "Ongoing": {"open"}}


@pytest.fixture(scope="module", params=SCENARIOS)
def tables(request: pytest.FixtureRequest) -> Mapping[str, pa.Table]:
    return kforensics.audit(SAMPLES / request.param).tables


def test_last_transactions_have_the_outcome_of_the_coordinator(
    tables: Mapping[str, pa.Table], request: pytest.FixtureRequest
) -> None:
    scenario = request.node.callspec.params["tables"]
    described = json.loads((SAMPLES / scenario / "truth.json").read_text())["transactions"]
    table = tables["distributed_transactions"]
    seen = 0
    for name, description in described.items():
        mine = table.filter(pc.equal(table["transactional_id"], name)).sort_by("offset")
        if description["state"] not in STATES or not mine.num_rows:
            continue
        last = mine.slice(mine.num_rows - 1)
        (shown,) = layers(atomicity(last, tables["transactions"]))
        squares = [square for square in shown if square["decided"] != "not at the coordinator"]
        assert {square["outcome"] for square in squares} == STATES[description["state"]]
        assert {square["partition"] for square in squares} == set(last["partitions"][0].as_py().split(","))
        seen += 1
    assert seen > 5


def test_every_square_agrees_with_the_decision(tables: Mapping[str, pa.Table]) -> None:
    chart = atomicity(tables["distributed_transactions"], tables["transactions"])
    (squares,) = layers(chart)
    assert all(square["outcome"] in {square["decided"], "hanging"} for square in squares)
    assert {square["outcome"] for square in squares[:3]} == {"hanging", "open"}
    assert {square["atomic"] for square in squares if square["decided"] in {"committed", "aborted"}} == {"yes"}
    assert len({square["transaction"] for square in squares}) == 30


def test_a_transaction_that_hangs_has_a_square(tables: Mapping[str, pa.Table], request: pytest.FixtureRequest) -> None:
    """``kafka-transactions find-hanging`` names the partitions."""
    scenario = request.node.callspec.params["tables"]
    truth = json.loads((SAMPLES / scenario / "truth.json").read_text())["topics"]
    chart = atomicity(tables["distributed_transactions"], tables["transactions"])
    hanging = [square for square in layers(chart)[0] if square["outcome"] == "hanging"]
    assert [square["partition"] for square in hanging] == ["hanging-0"]
    assert truth["hanging"]["0"]["latest_read_committed"] < truth["hanging"]["0"]["latest"]
    (title,) = chart.to_dict()["title"]["subtitle"]
    assert title.startswith("30 of ")


ROW: dict[str, Any] = {
    "topic": "__transaction_state",
    "partition": 3,
    "transactional_id": "id",
    "producer_id": 1,
    "marker_epoch": 0,
    "outcome": "committed",
    "start_timestamp": 5,
    "decided_timestamp": 8,
    "first_marker_timestamp": 10,
    "last_marker_timestamp": 12,
    "partitions": "a-0,b-0",
    "missing_markers": 0,
    "empty_markers": 0,
    "atomic": "yes",
    "offset": 7,
}
END: dict[str, Any] = {
    "topic": "a",
    "partition": 0,
    "producer_id": 1,
    "marker_epoch": 0,
    "marker_timestamp": 10,
    "outcome": "committed",
    "records": 4,
    "first_timestamp": 6,
    "first_offset": 3,
}


@pytest.mark.parametrize(
    ("row", "ends", "outcomes"),
    [
        ({}, [END, {**END, "topic": "b", "marker_timestamp": 12}], ["committed", "committed"]),
        ({}, [END, {**END, "topic": "b", "outcome": "aborted"}], ["committed", "aborted"]),
        ({"missing_markers": 1}, [END], ["committed", "no marker"]),
        ({"empty_markers": 1}, [END], ["committed", "marker without data"]),
        ({}, [END], ["committed", "no data available"]),
        ({}, [END, {**END, "topic": "b", "marker_timestamp": 13}], ["committed", "no data available"]),
        ({}, [END, {**END, "topic": "b", "marker_epoch": 1}], ["committed", "no data available"]),
        ({"missing_markers": 1}, [END, {**END, "topic": "b", "outcome": "open"}], ["committed", "hanging"]),
        ({"partitions": None}, [END], []),
    ],
)
def test_a_square_has_the_outcome_of_its_partition(
    row: dict[str, Any], ends: list[dict[str, Any]], outcomes: list[str]
) -> None:
    chart = atomicity(pa.Table.from_pylist([ROW | row]), pa.Table.from_pylist(ends))
    assert [square["outcome"] for square in layers(chart)[0]] == outcomes


def test_transactions_that_are_not_atomic_come_first() -> None:
    many = ",".join(f"p-{at}" for at in range(100))
    rows = [ROW | {"offset": at, "partitions": many, "atomic": "no" if at == 500 else "yes"} for at in range(1000)]
    chart = atomicity(pa.Table.from_pylist(rows), pa.Table.from_pylist([END]))
    squares = layers(chart)[0]
    assert squares[0]["atomic"] == "no"
    assert len({square["transaction"] for square in squares}) == 30
    assert all_rows(chart) <= MAX_MARKS
    assert len(chart.to_dict()["title"]["subtitle"]) == 2
