"""Audits of the logs of real brokers find the errors that were provoked, and no others."""

from __future__ import annotations

import json
import shutil
from datetime import datetime
from pathlib import Path

import pytest

import kforensics
from tests.command import SAMPLES
from tests.forensics.coordinators.doctored import THREE_BROKERS, flip_outcome, sent_to
from tests.forensics.forge import drop, file_of

MINUTE = 60_000
SCENARIOS = sorted(path.parent.name for path in SAMPLES.glob("*/truth.json"))
# Late writes, which hang at once, however young they are: no coordinator waits for them.
LATE = {"txn-hanging", "txn-write-after-marker"}
WRONG = {
    **dict.fromkeys(("transactions-v0", "transactions-v1", "transactions-v2"), LATE),
    **dict.fromkeys((f"consume-transform-produce{kind}" for kind in ("", "-3.9", "-v1")), LATE),
    # Markers that no coordinator sent ended one half of a transaction.
    **dict.fromkeys((f"forged-markers-v{version}" for version in range(3)), LATE | {"atomicity-split-outcome"}),
    # Brokers that had expired a producer accepted its retry, and its next batch after a sequence gap.
    "duplicates": {"seq-duplicate-batch", "seq-gap"},
    # A lagging replica was elected, and a killed one still has records that the new leader lacks.
    "replication": {"replica-divergence"},
    "unclean-election": {"unclean-election-loss"},
    # A broker without snapshots delivered open transactions, and accepted batches that it should have rejected.
    "state-lost-after-stop": {
        *("epoch-regressed", "seq-duplicate-batch", "seq-gap"),
        *("snapshot-open-txn-mismatch", *LATE),
    },
}


def errors_in(folder: Path, scenario: str) -> set[str]:
    """Return the codes of errors and worse, a minute after the files were copied."""
    taken = json.loads((SAMPLES / scenario / "truth.json").read_text("utf-8"))["taken"]
    as_of_ms = int(datetime.fromisoformat(taken).timestamp() * 1000) + MINUTE
    rows = kforensics.audit(folder, as_of_ms=as_of_ms).findings.select(["code", "severity"]).to_pylist()
    return {row["code"] for row in rows if row["severity"] in {"error", "critical"}}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_only_provoked_errors_are_found(scenario: str) -> None:
    assert errors_in(SAMPLES / scenario, scenario) == WRONG.get(scenario, set())


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLES / THREE_BROKERS, tmp_path / "copy"))


def test_a_marker_that_one_of_three_brokers_lost(copy: Path) -> None:
    """The transaction was atomic: the other brokers have the marker."""
    drop(file_of(copy / "broker-2" / "output-0"), sent_to(THREE_BROKERS, "output-0")[3].offset)
    codes = errors_in(copy, THREE_BROKERS)
    assert {"replica-divergence", "replica-txn-state-divergence"} <= codes
    assert "atomicity-marker-missing" not in codes


def test_an_outcome_that_contradicts_the_coordinator_on_all_three_brokers(copy: Path) -> None:
    """Then no replica contradicts another, and only the coordinator has the other outcome."""
    for broker in (1, 2, 3):
        flip_outcome(file_of(copy / f"broker-{broker}" / "output-0"), sent_to(THREE_BROKERS, "output-0")[3].offset)
    codes = errors_in(copy, THREE_BROKERS)
    assert {"atomicity-split-outcome", "eos-offset-outcome-mismatch"} <= codes
    assert "replica-divergence" not in codes
