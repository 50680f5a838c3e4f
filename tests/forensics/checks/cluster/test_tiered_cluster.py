"""A cluster with tiered storage in which all is well, while a broker comes back and a replica is added."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kforensics
from tests.command import ROOT

LAB = ROOT / "tests" / "data" / "tiered-cluster"
TRUTH: dict[str, Any] = json.loads((LAB / "truth.json").read_bytes())
COPIES = ("restarted", "moving", "last")
# The youngest files of each copy, and a time at which nothing of it is as it was.
TAKEN = {"restarted": 1795876794, "moving": 1795876798, "last": 1795876828}
LONG_AFTER = TAKEN["last"] + 10_000


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[str, int], Path]:
    """Return a function that copies a cluster, and gives all files one time."""

    def copy(name: str, seconds: int) -> Path:
        folder = Path(shutil.copytree(LAB / name, tmp_path / name))
        for path in folder.rglob("*"):
            os.utime(path, (seconds, seconds))
        return folder

    return copy


def _findings(folder: Path, *codes: str) -> list[dict[str, Any]]:
    rows = kforensics.audit(folder, processes=1).findings.to_pylist()
    return [row for row in rows if not codes or row["code"] in codes]


@pytest.mark.parametrize("name", COPIES)
def test_nothing_is_wrong(name: str, copied: Callable[[str, int], Path]) -> None:
    findings = _findings(copied(name, TAKEN[name]))
    assert [row["message"] for row in findings if row["severity"] != "info"] == []


def test_a_transaction_that_has_ended_in_another_replica_does_not_hang(copied: Callable[[str, int], Path]) -> None:
    """The copy has lost its times. The marker is in remote storage only, and the replica that lags lacks it."""
    (row,) = _findings(copied("restarted", LONG_AFTER), "txn-hanging", "lso-stuck")
    assert (row["code"], row["severity"], row["broker_id"], row["topic"]) == ("lso-stuck", "warning", 1, "tiered")
    assert row["benign"].endswith("in order according to its coordinator: it is not open in another replica")


@pytest.mark.parametrize("name", COPIES)
def test_ends_and_stable_offsets_are_those_of_the_leader(name: str) -> None:
    """The leader is the replica with the highest end: with one of the others nothing would be committed beyond it."""
    rows = kforensics.lso(LAB / name).to_arrow().to_pylist()
    for topic, said in TRUTH[name].items():
        leader = max((row for row in rows if row["topic"] == topic), key=lambda row: row["log_end_offset"])
        assert (leader["log_end_offset"], leader["last_stable_offset"]) == (said["latest"], said["last_stable"])
        assert leader["log_start_offset"] == said["earliest"]


@pytest.mark.parametrize(
    ("name", "missing", "why"),
    [
        (
            "restarted",
            {("disabled", 1, 22), ("moved", 1, 22), ("paused", 1, 22), ("tiered", 1, 23)},
            "It has been out of sync since",
        ),
        ("moving", {("moved", 3, 44)}, "It was added to the replicas at"),
    ],
)
def test_replicas_out_of_sync_lag(
    name: str, missing: set[tuple[str, int, int]], why: str, copied: Callable[[str, int], Path]
) -> None:
    """The metadata of the cluster says that they are out of sync, so what they lack is not lost."""
    truncated = _findings(copied(name, TAKEN[name]), "replica-truncated")
    lacking = {
        (row["topic"], int(row["message"].split()[1]), row["last_offset"] + 1 - row["first_offset"])
        for row in truncated
    }
    assert lacking == missing
    for row in truncated:
        assert row["severity"] == "info"
        assert f"{why} 2026-11-28 14:39:" in row["message"]
        assert row["message"].endswith(", so it lags and will catch up.")


def test_a_replica_that_was_longer_has_lost_its_end(copied: Callable[[str, int], Path]) -> None:
    """Its own high watermark is above its end; that it is out of sync explains nothing then."""
    folder = copied("restarted", TAKEN["restarted"])
    checkpoint = folder / "broker-1" / "replication-offset-checkpoint"
    checkpoint.write_text(checkpoint.read_text().replace("paused 0 22", "paused 0 44"))
    (row,) = (row for row in _findings(folder, "replica-truncated") if row["topic"] == "paused")
    assert (row["severity"], row["first_offset"], row["last_offset"]) == ("warning", 22, 43)
