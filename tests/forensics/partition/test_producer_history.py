"""What stands before an event of the same producer, and when markers were written, against a look at all of them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from kforensics.forensics.checks.partition.last_stable_offset import _most_at_once
from kforensics.forensics.core.record_types import NO_TIME, Ending, Records
from kforensics.forensics.partition.marker_times import (
    marker_ranges,
    marker_times,
    newest_marker_times,
    with_marker_times,
)
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.producer_history import (
    NOTHING,
    are_raised_by_commits,
    have_marker_since,
    markers_before,
    transactions_before,
    with_markers_before,
)
from tests.forensics.cases import case_of, random_log
from tests.forensics.events import NOW
from tests.forensics.forge import forge
from tests.forensics.ranges import tiny_ranges

LOGS, PRODUCERS = 25, 7
Told = dict[str, Any]


def _log(dice: Random) -> str:
    parts = random_log(dice, 80).split("; ")
    text = "; ".join(f"{part} ts {NOW + dice.randrange(-1000, 1000)}" for part in parts if part)
    for epoch in (1, 2, 3):
        text = text.replace(f"M {epoch} 0", f"M {epoch} {dice.randrange(3)}", 2)
    return text or "plain @0"


@pytest.fixture(scope="module", params=["whole", "ranges"])
def cases(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    """Return cases of random logs, all in memory or next to nothing."""
    dice = Random(11)  # noqa: S311  # a seed, not a secret
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "ranges":
            tiny_ranges(patch)
        found = []
        for number in range(LOGS):
            folder: Path = tmp_path_factory.mktemp(f"log-{number}")
            forge(folder, _log(dice))
            found.append(case_of(folder))
    assert any(not case.ledger.closed.is_in_memory for case in found) == (request.param == "ranges")
    return found


def rows_of(records: Records) -> list[Told]:
    """Return records as dictionaries."""
    names = records.dtype.names or ()
    return [dict(zip(names, row, strict=True)) for row in records.tolist()]


def markers_of(case: Case) -> list[Told]:
    """Return all markers in the order of the log, with what they ended."""
    closed = [{**row, "data_epoch": row["highest_epoch"]} for row in rows_of(case.transactions)]
    empty = [{**row, "data_epoch": NOTHING} for row in rows_of(case.empty_markers)]
    found = [row for row in (*closed, *empty) if row["ending"] != Ending.OPEN]
    return sorted(found, key=lambda row: int(row["marker_offset"]))


def questions(case: Case) -> tuple[Records, Records]:
    """Return every producer with every offset of a log, and one producer that wrote nothing."""
    end = case.log_end_offset + 2
    return np.repeat(np.arange(1, PRODUCERS + 1), end), np.tile(np.arange(end), PRODUCERS)


def expected_marker(markers: list[Told], producer_id: int, offset: int) -> tuple[int, ...]:
    """Return offset, epoch, data epoch and highest epoch of the last marker of a producer below an offset."""
    before = [row for row in markers if row["producer_id"] == producer_id and row["marker_offset"] < offset]
    if not before:
        return (NOTHING,) * 4
    highest = max(row["marker_epoch"] for row in before)
    return before[-1]["marker_offset"], before[-1]["marker_epoch"], before[-1]["data_epoch"], highest


def found_markers(found: Records) -> list[tuple[int, ...]]:
    """Return the same of MARKER records."""
    return [
        tuple(row[name] for name in ("marker_offset", "marker_epoch", "data_epoch", "highest_epoch"))
        for row in rows_of(found)
    ]


def test_markers_before(cases: list[Case]) -> None:
    for case in cases:
        ids, offsets = questions(case)
        markers = markers_of(case)
        expected = [expected_marker(markers, *asked) for asked in zip(ids.tolist(), offsets.tolist(), strict=True)]
        assert found_markers(markers_before(case, ids, offsets)) == expected


def test_markers_before_each_transaction(cases: list[Case]) -> None:
    for case in cases:
        found = list(with_markers_before(case))
        rows = [row for transactions, _ in found for row in rows_of(transactions)]
        assert rows == rows_of(case.transactions)
        markers = markers_of(case)
        expected = [expected_marker(markers, row["producer_id"], row["first_offset"]) for row in rows]
        assert [told for _, before in found for told in found_markers(before)] == expected


def test_transactions_before(cases: list[Case]) -> None:
    for case in cases:
        ids, offsets = questions(case)
        transactions = rows_of(case.transactions)
        found = transactions_before(case, ids, offsets)
        for asked, row in zip(zip(ids.tolist(), offsets.tolist(), strict=True), rows_of(found), strict=True):
            mine = [one["first_offset"] for one in transactions if one["producer_id"] == asked[0]]
            assert row["first_offset"] == max((first for first in mine if first < asked[1]), default=NOTHING)
            assert row["first_offset"] == NOTHING or row in transactions


def test_times_of_markers(cases: list[Case]) -> None:
    for case in cases:
        offsets = np.arange(case.log_end_offset + 2)[::-1]
        markers = markers_of(case)
        before = [[row["marker_timestamp"] for row in markers if row["marker_offset"] < at] for at in offsets.tolist()]
        assert marker_times(case, offsets).tolist() == [(times or [NO_TIME])[-1] for times in before]
        sound = [[time for time in times if time <= NOW + 500] for times in before]
        newest = newest_marker_times(case, offsets, NOW + 500)
        assert newest.tolist() == [max(times, default=NO_TIME) for times in sound]


def test_times_of_markers_before_each_transaction(cases: list[Case]) -> None:
    for case in cases:
        closed = [row for row in rows_of(case.transactions) if row["ending"] == Ending.ABORTED]
        found: dict[int, int] = {}
        for rows, times in with_marker_times(case, "first_offset", lambda rows: rows["ending"] == Ending.ABORTED):
            found |= dict(zip(rows["first_offset"].tolist(), times.tolist(), strict=True))
        expected = marker_times(case, np.array([row["first_offset"] for row in closed], "i8")).tolist()
        assert found == dict(zip((row["first_offset"] for row in closed), expected, strict=True))


def test_markers_of_ranges_are_all_there(cases: list[Case]) -> None:
    for case in cases:
        for back in (False, True):
            ranges = [[*rows_of(closed), *rows_of(empty)] for closed, empty in marker_ranges(case, back=back)]
            offsets = [sorted(row["marker_offset"] for row in rows) for rows in (ranges[::-1] if back else ranges)]
            assert [one for some in offsets for one in some] == [row["marker_offset"] for row in markers_of(case)]


def test_producers_with_later_markers_and_with_raised_epochs(cases: list[Case]) -> None:
    raised = 0
    for case in cases:
        ids = np.arange(1, PRODUCERS + 1)
        markers = markers_of(case)
        for offset in range(case.log_end_offset + 2):
            later = {row["producer_id"] for row in markers if row["marker_offset"] >= offset}
            assert have_marker_since(case, ids, offset).tolist() == [one in later for one in ids.tolist()]
        by_commit = {
            row["producer_id"]
            for row in rows_of(case.transactions)
            if row["ending"] == Ending.COMMITTED and row["marker_epoch"] > row["highest_epoch"]
        }
        assert are_raised_by_commits(case, ids).tolist() == [one in by_commit for one in ids.tolist()]
        raised += len(by_commit)
    assert raised > 0


def test_most_at_once(cases: list[Case]) -> None:
    for case in cases:
        rows = rows_of(case.transactions)
        at_once = [
            sum(
                row["first_offset"] <= at and (row["ending"] == Ending.OPEN or at < row["marker_offset"])
                for row in rows
            )
            for at in range(case.log_end_offset)
        ]
        most = max(at_once, default=0)
        assert _most_at_once(case) == (most, at_once.index(most) if rows else 0)
