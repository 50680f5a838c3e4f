"""The last marker or transaction before an event, and marker times, compared with a search through all of them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from kforensics.forensics.checks.partition.last_stable_offset import _most_at_once
from kforensics.forensics.core.record_types import NO_TIME, TransactionOutcome
from kforensics.forensics.partition.marker_times import (
    marker_pages,
    marker_times,
    newest_marker_times,
    with_marker_times,
)
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.producer_history import (
    NOTHING,
    ProducerMarkerArray,
    epochs_bumped_by_transactions,
    have_marker_since,
    markers_before,
    transactions_before,
    with_markers_before,
)
from kforensics.parsers.format.array_types import IntArray, StructArray
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import forge
from tests.forensics.partition.small_pages import use_small_pages
from tests.forensics.partition_states import random_leader_log, state_under

LOGS, PRODUCERS = 25, 7
RowDict = dict[str, Any]


def _log(dice: Random) -> str:
    parts = random_leader_log(dice, 80).split("; ")
    text = "; ".join(f"{part} ts {NOW + dice.randrange(-1000, 1000)}" for part in parts if part)
    for epoch in (1, 2, 3):
        text = text.replace(f"M {epoch} 0", f"M {epoch} {dice.randrange(3)}", 2)
    return text or "plain @0"


@pytest.fixture(scope="module", params=["whole", "small pages"])
def states(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[PartitionState]:
    """Return the states of random logs, with all transactions in memory or almost none."""
    dice = Random(11)  # noqa: S311  # a seed, not a secret
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "small pages":
            use_small_pages(patch)
        made = []
        for number in range(LOGS):
            folder: Path = tmp_path_factory.mktemp(f"log-{number}")
            forge(folder, _log(dice))
            made.append(state_under(folder))
    assert any(not state.transaction_store.closed.is_in_memory for state in made) == (request.param == "small pages")
    return made


def rows_of(records: StructArray) -> list[RowDict]:
    """Return records as dictionaries."""
    names = records.dtype.names or ()
    return [dict(zip(names, row, strict=True)) for row in records.tolist()]


def markers_of(state: PartitionState) -> list[RowDict]:
    """Return all markers in log order, with the epoch of the data they ended."""
    closed = [{**row, "data_epoch": row["highest_epoch"]} for row in rows_of(state.transactions)]
    empty = [{**row, "data_epoch": NOTHING} for row in rows_of(state.empty_markers)]
    markers = [row for row in (*closed, *empty) if row["outcome"] != TransactionOutcome.OPEN]
    return sorted(markers, key=lambda row: int(row["marker_offset"]))


def all_events(state: PartitionState) -> tuple[IntArray, IntArray]:
    """Return every producer with every offset of a log, including one producer that wrote nothing."""
    end = state.log_end_offset + 2
    return np.repeat(np.arange(1, PRODUCERS + 1), end), np.tile(np.arange(end), PRODUCERS)


def expected_marker(markers: list[RowDict], producer_id: int, offset: int) -> tuple[int, ...]:
    """Return offset, epoch, data epoch and highest epoch of the last marker of a producer below an offset."""
    before = [row for row in markers if row["producer_id"] == producer_id and row["marker_offset"] < offset]
    if not before:
        return (NOTHING,) * 4
    highest = max(row["marker_epoch"] for row in before)
    return before[-1]["marker_offset"], before[-1]["marker_epoch"], before[-1]["data_epoch"], highest


def actual_markers(markers: ProducerMarkerArray) -> list[tuple[int, ...]]:
    """Return the same values of PRODUCER_MARKER records."""
    return [
        tuple(row[name] for name in ("marker_offset", "marker_epoch", "data_epoch", "highest_epoch"))
        for row in rows_of(markers)
    ]


def test_markers_before(states: list[PartitionState]) -> None:
    for state in states:
        ids, offsets = all_events(state)
        markers = markers_of(state)
        expected = [expected_marker(markers, *event) for event in zip(ids.tolist(), offsets.tolist(), strict=True)]
        assert actual_markers(markers_before(state, ids, offsets)) == expected


def test_markers_before_each_transaction(states: list[PartitionState]) -> None:
    for state in states:
        pages = list(with_markers_before(state))
        rows = [row for transactions, _ in pages for row in rows_of(transactions)]
        assert rows == rows_of(state.transactions)
        markers = markers_of(state)
        expected = [expected_marker(markers, row["producer_id"], row["first_offset"]) for row in rows]
        assert [marker for _, before in pages for marker in actual_markers(before)] == expected


def test_transactions_before(states: list[PartitionState]) -> None:
    for state in states:
        ids, offsets = all_events(state)
        transactions = rows_of(state.transactions)
        rows = rows_of(transactions_before(state, ids, offsets))
        for producer_id, offset, row in zip(ids.tolist(), offsets.tolist(), rows, strict=True):
            firsts = [other["first_offset"] for other in transactions if other["producer_id"] == producer_id]
            assert row["first_offset"] == max((first for first in firsts if first < offset), default=NOTHING)
            assert row["first_offset"] == NOTHING or row in transactions


def test_times_of_markers(states: list[PartitionState]) -> None:
    for state in states:
        offsets = np.arange(state.log_end_offset + 2)[::-1]
        markers = markers_of(state)
        before = [
            [row["marker_timestamp"] for row in markers if row["marker_offset"] < offset] for offset in offsets.tolist()
        ]
        assert marker_times(state, offsets).tolist() == [(times or [NO_TIME])[-1] for times in before]
        sound = [[time for time in times if time <= NOW + 500] for times in before]
        newest = newest_marker_times(state, offsets, NOW + 500)
        assert newest.tolist() == [max(times, default=NO_TIME) for times in sound]


def test_times_of_markers_before_each_transaction(states: list[PartitionState]) -> None:
    for state in states:
        closed = [row for row in rows_of(state.transactions) if row["outcome"] == TransactionOutcome.ABORTED]
        by_first_offset: dict[int, int] = {}
        for rows, times in with_marker_times(
            state, "first_offset", lambda rows: rows["outcome"] == TransactionOutcome.ABORTED
        ):
            by_first_offset |= dict(zip(rows["first_offset"].tolist(), times.tolist(), strict=True))
        expected = marker_times(state, np.array([row["first_offset"] for row in closed], "i8")).tolist()
        assert by_first_offset == dict(zip((row["first_offset"] for row in closed), expected, strict=True))


def test_marker_pages_contain_all_markers(states: list[PartitionState]) -> None:
    for state in states:
        for reverse in (False, True):
            pages = [[*rows_of(closed), *rows_of(empty)] for closed, empty in marker_pages(state, reverse=reverse)]
            offsets = [sorted(row["marker_offset"] for row in rows) for rows in (pages[::-1] if reverse else pages)]
            expected = [row["marker_offset"] for row in markers_of(state)]
            assert [offset for page in offsets for offset in page] == expected


def test_producers_with_later_markers_and_with_bumped_epochs(states: list[PartitionState]) -> None:
    bumped = 0
    for state in states:
        ids = np.arange(1, PRODUCERS + 1)
        markers = markers_of(state)
        for offset in range(state.log_end_offset + 2):
            later = {row["producer_id"] for row in markers if row["marker_offset"] >= offset}
            assert have_marker_since(state, ids, offset).tolist() == [
                producer_id in later for producer_id in ids.tolist()
            ]
        by_design = {
            row["producer_id"]
            for row in rows_of(state.transactions)
            if (row["outcome"] == TransactionOutcome.COMMITTED and row["marker_epoch"] > row["highest_epoch"])
            or goes_on(row, expected_marker(markers, row["producer_id"], row["first_offset"]))
        }
        are_bumped = epochs_bumped_by_transactions(state, ids).tolist()
        assert are_bumped == [producer_id in by_design for producer_id in ids.tolist()]
        bumped += len(by_design)
    assert bumped > 0


def goes_on(row: RowDict, before: tuple[int, ...]) -> bool:
    """Return whether a transaction begins with the epoch to which the marker before it raised that of its data."""
    _, epoch, data_epoch, _ = before
    return NOTHING < data_epoch < epoch and epoch == row["lowest_epoch"]


def test_most_at_once(states: list[PartitionState]) -> None:
    for state in states:
        rows = rows_of(state.transactions)
        at_once = [
            sum(
                row["first_offset"] <= offset
                and (row["outcome"] == TransactionOutcome.OPEN or offset < row["marker_offset"])
                for row in rows
            )
            for offset in range(state.log_end_offset)
        ]
        most = max(at_once, default=0)
        assert _most_at_once(state) == (most, at_once.index(most) if rows else 0)
