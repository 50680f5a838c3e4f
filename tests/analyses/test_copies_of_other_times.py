"""Copies of running brokers that were taken before the others: all commands evaluate them as of their own time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import kforensics
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


def test_an_incident_began_before_its_copy(brokers: Path) -> None:
    incidents = kforensics.audit(brokers, processes=1).incidents.to_pylist()
    (since,) = {row["since"] for row in incidents if "open2" in str(row)}
    assert since <= NOW + 5 * SECOND
