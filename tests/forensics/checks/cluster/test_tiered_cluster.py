"""A cluster with tiered storage in which all is well, while a broker comes back and a replica is added."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import kforensics
from tests.command import ROOT

LAB = ROOT / "tests" / "data" / "tiered-cluster"
TRUTH: dict[str, Any] = json.loads((LAB / "truth.json").read_bytes())
COPIES = ("restarted", "moving", "last")


@pytest.mark.parametrize("copy", COPIES)
def test_nothing_is_wrong(copy: str) -> None:
    """Files in a checkout are younger than all that was written."""
    findings = kforensics.audit(LAB / copy, processes=1).findings.to_pylist()
    assert [row["message"] for row in findings if row["severity"] != "info"] == []


@pytest.mark.parametrize("copy", COPIES)
def test_ends_and_stable_offsets_are_those_of_the_leader(copy: str) -> None:
    """The leader is the replica with the highest end: with one of the others nothing would be committed beyond it."""
    rows = kforensics.lso(LAB / copy).to_arrow().to_pylist()
    for topic, said in TRUTH[copy].items():
        leader = max((row for row in rows if row["topic"] == topic), key=lambda row: row["log_end_offset"])
        assert (leader["log_end_offset"], leader["last_stable_offset"]) == (said["latest"], said["last_stable"])
        assert leader["log_start_offset"] == said["earliest"]


@pytest.mark.parametrize(
    ("copy", "missing"),
    [
        ("restarted", {("disabled", 1, 22), ("moved", 1, 22), ("paused", 1, 22), ("tiered", 1, 23)}),
        ("moving", {("moved", 3, 44)}),
    ],
)
def test_replicas_out_of_sync_lag(copy: str, missing: set[tuple[str, int, int]]) -> None:
    """The metadata of the cluster says that they are out of sync, so what they lack is not lost."""
    rows = kforensics.audit(LAB / copy, processes=1).findings.to_pylist()
    truncated = [row for row in rows if row["code"] == "replica-truncated"]
    lacking = {
        (row["topic"], int(row["message"].split()[1]), row["last_offset"] + 1 - row["first_offset"])
        for row in truncated
    }
    assert lacking == missing
    for row in truncated:
        assert "It has been out of sync since 2026-11-28 14:39:" in row["message"]
        assert row["message"].endswith(" UTC, so it lags and will catch up.")


def test_a_replica_that_was_longer_has_lost_its_end(tmp_path: Path) -> None:
    """Its own high watermark is above its end; that it is out of sync explains nothing then."""
    shutil.copytree(LAB / "restarted", tmp_path / "c")
    checkpoint = tmp_path / "c" / "broker-1" / "replication-offset-checkpoint"
    checkpoint.write_text(checkpoint.read_text().replace("paused 0 22", "paused 0 44"))
    rows = kforensics.audit(tmp_path, processes=1).findings.to_pylist()
    (row,) = (row for row in rows if row["code"] == "replica-truncated" and row["topic"] == "paused")
    assert (row["severity"], row["first_offset"], row["last_offset"]) == ("warning", 22, 43)
