"""Copies of running brokers that were taken before the others: all commands evaluate them as of their own time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import kforensics
from tests.command import run
from tests.forensics.forge import forge

NOW = 1_700_000_000_000
SECOND, DAY = 1_000, 86_400_000
OPEN, CLOSED = f"D 7 0 0-0 @0-0 T ts {NOW}", f"D 8 0 0-0 @0-0 ts {NOW}"


@pytest.fixture
def brokers(tmp_path: Path) -> Path:
    """Broker 1, which was stopped, and broker 2, which was running and copied a day before it."""
    for node_id, time in ((1, NOW + DAY), (2, NOW)):
        log_dir = tmp_path / f"broker-{node_id}"
        for topic, batches in ((f"open{node_id}", OPEN), (f"closed{node_id}", CLOSED)):
            forge(log_dir, batches, topic=topic, node_id=node_id, clean_shutdown=node_id == 1)
        for path in filter(Path.is_file, log_dir.rglob("*")):
            os.utime(path, ns=((time + 5 * SECOND) * 1_000_000,) * 2)
    return tmp_path


def test_an_open_transaction_lasts_until_its_own_copy(brokers: Path) -> None:
    rows = kforensics.transactions(brokers).to_pylist()
    assert {row["broker_id"]: row["duration_ms"] for row in rows} == {1: DAY + 5 * SECOND, 2: 5 * SECOND}
    (long,) = kforensics.transactions(brokers, min_duration_ms=3_600_000).to_pylist()
    assert long["broker_id"] == 1


def test_a_producer_expires_by_the_clock_of_its_own_copy(brokers: Path) -> None:
    rows = kforensics.producers(brokers).to_pylist()
    assert {row["broker_id"]: row["expired"] for row in rows if row["producer_id"] == 8} == {1: True, 2: False}
    for node_id in (1, 2):
        of_producer = ("--topic", f"closed{node_id}", "--partition", "0", "--producer-id", "8")
        assert ("expired on the broker" in run("explain", *of_producer, brokers).text) is (node_id == 1)


def test_an_incident_began_before_its_copy(brokers: Path) -> None:
    incidents = kforensics.audit(brokers, processes=1).incidents.to_pylist()
    (since,) = {row["since"] for row in incidents if "open2" in str(row)}
    assert since <= NOW + 5 * SECOND


def test_an_earlier_copy_of_a_stopped_broker_is_evaluated_as_of_then(tmp_path: Path) -> None:
    """Nothing is known of what followed: the later copy shows that the transaction has ended."""
    for day, batches in ((0, OPEN), (7, f"{OPEN}; M 7 0 C 0 @1 ts {NOW + 9 * SECOND}")):
        log_dir = tmp_path / f"day-{day}" / "broker-1"
        forge(log_dir, batches)
        for path in filter(Path.is_file, log_dir.rglob("*")):
            os.utime(path, ns=((NOW + day * DAY + 10 * SECOND) * 1_000_000,) * 2)
    audit = kforensics.audit(tmp_path, processes=1)
    assert {row["severity"] for row in audit.findings.to_pylist()} == {"info"}
    (still_open,) = kforensics.transactions(tmp_path, states=["open"]).to_pylist()
    assert (still_open["duration_ms"], "day-0" in still_open["log_dir"]) == (10 * SECOND, True)
    header, *recent = run("producers", "--since", "1h", "--format", "csv", tmp_path).lines
    assert ("last_timestamp" in header, recent) == (True, []), "an hour before the time of evaluation of all"
    notes = run("lso", tmp_path).err
    assert f"{tmp_path}/day-0/broker-1 is of another cluster, or of an earlier copy" in notes


def test_incidents_of_two_clusters_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    """Both have broker 1 and the same partition; an abort must not go to the wrong one."""
    for cluster in ("first", "second"):
        log_dir = tmp_path / cluster / "broker-1"
        forge(log_dir, OPEN)
        (log_dir / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={cluster}\n", "ascii")
    lines = run("audit", "--as-of", str(NOW + DAY), tmp_path).lines
    assert [line.split()[-1] for line in lines if line.startswith("  in      ")] == [
        str(tmp_path / cluster / "broker-1") for cluster in ("first", "second")
    ]
    alone = run("audit", "--as-of", str(NOW + DAY), tmp_path / "first").lines
    assert not [line for line in alone if line.startswith("  in      ")]
