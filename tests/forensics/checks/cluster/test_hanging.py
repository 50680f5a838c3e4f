"""Open transactions and late writes, with the knowledge of the coordinators."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import at, cluster_under, codes_in, forge_coordinator, found_in
from tests.forensics.forge import forge

FIRES = {"txn-hanging-unknown-id": "test_a_producer_that_no_coordinator_knows"}
SILENT = {"txn-hanging-unknown-id": "test_a_transaction_in_flight"}
DAY = 86_400_000
OPEN = f"D 7 0 0-0 @0-0 T {at(5)}"


@pytest.mark.parametrize(
    ("reported", "severity", "exactness"),
    [(1, "critical", "exact"), (2, "warning", "unverifiable"), (None, "warning", "unverifiable")],
)
def test_a_producer_that_no_coordinator_knows(
    reported: int | None, severity: str, exactness: str, tmp_path: Path
) -> None:
    """Unless all coordinator partitions are available, a missing one may know the producer."""
    forge_coordinator(tmp_path, "b Empty 1 0 t 0")
    forge(tmp_path, OPEN)
    ((place, finding),) = found_in(cluster_under(tmp_path, as_of_ms=NOW + DAY, partition_count=reported))
    assert (finding.code.name, str(finding.severity), finding.exactness) == (
        "txn-hanging-unknown-id",
        severity,
        exactness,
    )
    assert (place.topic, finding.first_offset, finding.producer_id) == ("t", 0, 7)


def test_a_transaction_in_flight(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, "a Empty 1 0 t 0")
    forge(tmp_path, OPEN)
    assert codes_in(cluster_under(tmp_path)) == {}


def test_no_coordinator_available(tmp_path: Path) -> None:
    forge(tmp_path, OPEN)
    assert codes_in(cluster_under(tmp_path, as_of_ms=NOW + DAY)) == {}


@pytest.mark.parametrize(
    ("coordinator", "words"),
    [
        ("a Empty 7 0 t 1", "Empty"),
        ("a Empty 7 0 t 1; a Ongoing 7 0 {t-1} t 2", "Ongoing"),
        ("a Empty 7 0 t 1; a gone t 2", "was removed"),
    ],
)
def test_a_transaction_that_its_coordinator_does_not_wait_for(coordinator: str, words: str, tmp_path: Path) -> None:
    forge_coordinator(tmp_path, coordinator)
    forge(tmp_path, OPEN)
    findings = {result.code.name: result for _, result in found_in(cluster_under(tmp_path, as_of_ms=NOW + DAY))}
    assert findings.keys() - {"txnlog-ongoing-overdue"} == {"txn-hanging"}
    finding = findings["txn-hanging"]
    assert (str(finding.severity), finding.exactness, finding.first_offset) == ("critical", "exact", 0)
    assert words in finding.message


def test_an_id_that_went_on_with_another_producer_id(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, {5: "a Empty 7 32766 t 1; a Empty 9 0 t 2; a Ongoing 9 0 timeout 2147483647 {t-0} t 3"})
    forge(tmp_path, OPEN)
    assert codes_in(cluster_under(tmp_path, as_of_ms=NOW + DAY))["txn-hanging"] == "critical"


@pytest.mark.parametrize("state", ["Ongoing", "PrepareCommit"])
def test_a_transaction_that_its_coordinator_awaits(state: str, tmp_path: Path) -> None:
    """A slow transaction does not hang; its coordinator is reported instead."""
    log = "a Empty 7 0 t 1; a Ongoing 7 0 {t-0} t 4"
    forge_coordinator(tmp_path, log if state == "Ongoing" else f"{log}; a PrepareCommit 7 0 {{t-0}} t 9")
    forge(tmp_path, OPEN)
    findings = codes_in(cluster_under(tmp_path, as_of_ms=NOW + DAY))
    assert findings.keys() == {"txnlog-ongoing-overdue" if state == "Ongoing" else "txnlog-prepare-stuck"}


def test_a_last_record_that_cannot_be_read_proves_nothing(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, "a Empty 7 0 t 1; a Dead 7 0 t 2")
    forge(tmp_path, OPEN)
    assert codes_in(cluster_under(tmp_path, as_of_ms=NOW + DAY)).keys() == {"txnlog-transient-state"}


@pytest.mark.parametrize(("append_times", "codes"), [(True, {"txn-foreign-data-absorbed"}), (False, set())])
def test_data_from_before_its_transaction(append_times: bool, codes: set[str], tmp_path: Path) -> None:
    """Timestamps that a client may have set prove nothing."""
    log = "a Ongoing 7 0 {t-0} t 10000; a PrepareCommit 7 0 {t-0} t 10010; a CompleteCommit 7 0 t 10020"
    forge_coordinator(tmp_path, f"a Empty 7 0 t 1; {log}")
    data = f"D 7 0 0-0 @0-0 T {at(4_999)}; D 7 0 1-1 @1-1 T {at(10_001)}; M 7 0 C 0 @2 {at(10_015)}"
    forge(tmp_path, data, log_append_time=append_times)
    assert codes_in(cluster_under(tmp_path)).keys() == codes
