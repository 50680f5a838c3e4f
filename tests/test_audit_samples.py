"""Audits of the logs of real brokers find what was provoked, and nothing else at warning or worse."""

from __future__ import annotations

import json
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import kforensics
from tests.command import SAMPLES
from tests.forensics.coordinators.doctored import THREE_BROKERS, flip_outcome, sent_to
from tests.forensics.forge import drop, file_of
from tests.thorough import some

MINUTE = 60_000
DAY = 86_400_000
SCENARIOS = sorted(path.parent.name for path in SAMPLES.glob("*/truth.json"))
# Late writes, which hang at once, however young they are: no coordinator waits for them.
LATE = {"txn-hanging", "txn-write-after-marker"}
# All codes at warning or worse that a sample may have a minute after its files were copied, and what caused them.
PROVOKED = {
    # Each writes once more after the end of its transaction, without adding the partition to the next one.
    **dict.fromkeys(("transactions-v0", "transactions-v1", "transactions-v2"), LATE),
    **dict.fromkeys((f"consume-transform-produce{kind}" for kind in ("", "-3.9", "-v1")), LATE),
    # Markers that no coordinator sent ended one half of a transaction.
    **dict.fromkeys((f"forged-markers-v{version}" for version in range(3)), LATE | {"atomicity-split-outcome"}),
    # Brokers that had expired a producer accepted its retry, and its next batch after a sequence gap.
    "duplicates": {"seq-duplicate-batch", "seq-gap"},
    # A lagging replica was elected, and a killed one still has records that the new leader lacks.
    "replication": {"replica-divergence"},
    # A lagging replica was elected, and truncated acknowledged records; a group had committed an offset beyond them.
    "unclean-election": {"unclean-election-loss", "eos-offset-beyond-log"},
    # A broker without snapshots delivered open transactions, and accepted batches that it should have rejected. The
    # snapshots that it wrote afterwards lack the producers from before.
    "state-lost-after-stop": {
        *("epoch-regressed", "seq-duplicate-batch", "seq-gap"),
        *("snapshot-missing-producer", "snapshot-open-txn-mismatch", *LATE),
    },
    # The broker was killed while it wrote, and not started again.
    "crash-before-recovery": {"batch-truncated"},
    # Kafka 3.9.1 lost a credential that it applied together with the removal of another one.
    "cluster-metadata-3.9": {"metadata-snapshot-differs"},
    # DeleteRecords moved log starts into open transactions.
    "ghosts": {"txn-head-deleted"},
    "ghosts-3.9": {"txn-head-deleted"},
}
# What may come with the time: transactions that were open when the broker was stopped, and beyond their timeout now.
OVERDUE = {"lso-stuck", "txn-late", "txnlog-ongoing-overdue", "eos-offsets-pending"}
# Open in the log, but not reported: brokers of 2.7 report no transactions.
NOT_REPORTED = {"legacy-2.7": {("open", 0), ("open", 1)}}


def truth_of(scenario: str) -> dict[str, Any]:
    """Return what the brokers reported before they were stopped."""
    truth: dict[str, Any] = json.loads((SAMPLES / scenario / "truth.json").read_text("utf-8"))
    return truth


def alarms_in(folder: Path, scenario: str, after_ms: int = MINUTE) -> list[dict[str, Any]]:
    """Return the findings at warning or worse, some time after the files were copied."""
    as_of_ms = int(datetime.fromisoformat(truth_of(scenario)["taken"]).timestamp() * 1000) + after_ms
    rows = kforensics.audit(folder, as_of=as_of_ms).findings.to_pylist()
    return [row for row in rows if row["severity"] in {"warning", "error", "critical"}]


def open_in(scenario: str) -> set[tuple[str, int]]:
    """Return the partitions with an open transaction, as the broker reported them."""
    return {
        (topic, int(number))
        for topic, partitions in truth_of(scenario)["topics"].items()
        for number, partition in partitions.items()
        for producer in partition.get("producers") or ()
        if producer["current_transaction_start_offset"] >= 0
    }


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_only_provoked_warnings_and_errors_are_found(scenario: str) -> None:
    assert {row["code"] for row in alarms_in(SAMPLES / scenario, scenario)} == PROVOKED.get(scenario, set())


@pytest.mark.parametrize("after_ms", some([30 * DAY, DAY // 12], 2))
@pytest.mark.parametrize("scenario", some(SCENARIOS, 2))
def test_only_transactions_that_were_open_alarm_later(scenario: str, after_ms: int) -> None:
    """An explicit time of evaluation makes nothing else of a healthy cluster an alarm."""
    rows = alarms_in(SAMPLES / scenario, scenario, after_ms)
    assert {row["code"] for row in rows} - OVERDUE <= PROVOKED.get(scenario, set())
    late = {(row["topic"], row["partition"]) for row in rows if row["code"] == "txn-late"}
    assert late == open_in(scenario) | NOT_REPORTED.get(scenario, set())
    blocked = {(row["topic"], row["partition"]) for row in rows if row["code"] == "lso-stuck"}
    assert blocked <= late
    if transactions := truth_of(scenario)["transactions"]:
        ongoing = [one["state"] for one in transactions.values()].count("Ongoing")
        assert [row["code"] for row in rows].count("txnlog-ongoing-overdue") == ongoing


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLES / THREE_BROKERS, tmp_path / "copy"))


def test_a_marker_that_one_of_three_brokers_lost(copy: Path) -> None:
    """The transaction was atomic: the other brokers have the marker."""
    drop(file_of(copy / "broker-2" / "output-0"), sent_to(THREE_BROKERS, "output-0")[3].offset)
    codes = {row["code"] for row in alarms_in(copy, THREE_BROKERS)}
    assert {"replica-divergence", "replica-txn-state-divergence"} <= codes
    assert "atomicity-marker-missing" not in codes


def test_an_outcome_that_contradicts_the_coordinator_on_all_three_brokers(copy: Path) -> None:
    """Then no replica contradicts another, and only the coordinator has the other outcome."""
    for broker in (1, 2, 3):
        flip_outcome(file_of(copy / f"broker-{broker}" / "output-0"), sent_to(THREE_BROKERS, "output-0")[3].offset)
    codes = {row["code"] for row in alarms_in(copy, THREE_BROKERS)}
    assert {"atomicity-split-outcome", "eos-offset-outcome-mismatch"} <= codes
    assert "replica-divergence" not in codes
