"""What an election would cost, against 16 unclean elections of real brokers: see ``lab/forecast/elections.py``."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.errors import UsageError
from lab.forecast.bases import DATA
from tests.command import SAMPLES, run
from tests.forensics.forge import forge

OLD_LEADER, ELECTED = 2, 3
TRUNCATED = re.compile(r"Truncating lossy-(\d+) to offset (\d+)")


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log directories of three brokers before the elections."""
    folder = tmp_path_factory.mktemp("elections")
    shutil.unpack_archive(DATA / "elections-4.4.0.zip", folder)
    return folder


@pytest.fixture(scope="module")
def truth() -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads((DATA / "elections-4.4.0.json").read_text(encoding="utf-8"))
    return recorded


def _rows(folder: Path) -> list[dict[str, Any]]:
    return [row for row in kforensics.forecast(folder, elect=True).to_pylist() if row["topic"] == "lossy"]


def test_the_loss_is_what_the_elections_left(before: Path, truth: dict[str, Any]) -> None:
    rows = {(row["partition"], row["broker_id"]): row for row in _rows(before)}
    left = {int(number): state["log_end"] for number, state in truth["left"].items() if number.isdecimal()}
    cut = {int(match[1]): int(match[2]) for line in truth["left"]["truncating"] if (match := TRUNCATED.match(line))}
    assert len(left) == 16
    assert len(cut) >= 12
    for number, end in left.items():
        elected, leader = rows[number, ELECTED], rows[number, OLD_LEADER]
        assert (elected["election"], leader["election"]) == ("unclean", "clean")
        assert elected["log_end_offset"] == end
        assert leader["log_end_offset"] == truth["log_ends_of_leader"][str(number)]
        assert elected["truncation_offset"] == cut.get(number, leader["log_end_offset"])
        # A committed transaction has two records and a marker, an aborted one too.
        lost = leader["log_end_offset"] - elected["truncation_offset"]
        assert (elected["records"] > 0) == (lost > 0)
        assert elected["records"] + elected["committed_transactions"] <= lost
        assert leader["records"] == leader["committed_transactions"] == 0


def test_transactions_and_groups_that_would_be_lost(before: Path) -> None:
    """As the lab wrote them: each partition got so many transactions after its replica had fallen behind.

    The replica of the last one was killed before it had the marker of the transaction before these.
    """
    rows = {row["partition"]: row for row in _rows(before) if row["broker_id"] == ELECTED}
    commits = [(0, 1, 1, 2)[number % 4] + (number == 15) for number in rows]
    records = [2 * (number % 5) + 2 * (number % 4) for number in rows]
    assert [row["records"] for row in rows.values()] == records
    assert [row["committed_transactions"] for row in rows.values()] == commits
    beyond = [number for number, row in rows.items() if row["groups_beyond_end"] == "readers"]
    assert beyond == [number for number in rows if number % 2 == 0 and rows[number]["records"]]


def test_text_names_the_cost_and_what_the_election_is(before: Path) -> None:
    ended = run("forecast", "--elect", before)
    assert ended.code == 0
    at = ended.lines.index(
        "lossy-2 broker 3: unclean, continues at 3, loses 8 records from offset 3 on and 1 committed transaction"
    )
    assert ended.lines[at + 1].strip() == "groups after its end: readers"
    assert "Aggressive elects the longest log" in ended.text


def test_replicas_that_are_equal_lose_nothing() -> None:
    rows = kforensics.forecast(SAMPLES / "unclean-election", elect=True).to_pylist()
    assert {(row["records"], row["committed_transactions"]) for row in rows} == {(0, 0)}
    assert {row["election"] for row in rows} == {"eligible", "unclean"}


def test_records_that_only_one_replica_has_are_lost_with_it() -> None:
    """Its producer has id 0, and is idempotent: it sends nothing twice."""
    rows = kforensics.forecast(SAMPLES / "replication", elect=True).to_pylist()
    (longer,) = (row for row in rows if row["topic"] == "unclean" and row["records"])
    assert (longer["log_end_offset"], longer["records"], longer["duplicates"]) == (14, 4, 0)


@pytest.mark.parametrize("producer_id", [0, 7])
def test_an_idempotent_producer_sends_nothing_again_whatever_its_id(producer_id: int, tmp_path: Path) -> None:
    """The first id of a cluster is 0."""
    for node, log in ((1, f"plain @0-4; D {producer_id} 0 0-2 @5-7"), (2, "plain @0-4")):
        forge(tmp_path / str(node), log, node_id=node, high_watermark=3)
    rows = kforensics.forecast(tmp_path, elect=True).to_pylist()
    assert {row["broker_id"]: row["duplicates"] for row in rows} == {1: 5, 2: 5}


def test_one_replica_has_no_election() -> None:
    with pytest.raises(UsageError, match="log directories of all brokers"):
        kforensics.forecast(SAMPLES / "records", elect=True)
    assert run("forecast", "--elect", "--release", "4.4.0", SAMPLES / "replication").code == 2
