"""Fencing loops, ids that are used once, and producer ids with two transactional ids."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.forensics.coordinators.clusters import cluster_under, codes_in, forge_coordinator, found_in

FIRES = {
    "txnlog-fencing-loop": "test_producers_fence_one_another",
    "txnlog-id-churn": "test_ids_that_are_used_once",
    "pid-two-ids": "test_two_ids_with_one_producer_id",
}
SILENT = {
    "txnlog-fencing-loop": "test_inits_over_a_longer_time",
    "txnlog-id-churn": "test_ids_that_are_used_again",
    "pid-two-ids": "test_ids_with_producer_ids_of_their_own",
}


def inits(step: int, between: str = "") -> str:
    return "; ".join(f"a Empty 1 {epoch} t {epoch * step}{between.format(epoch, epoch * step)}" for epoch in range(11))


def test_producers_fence_one_another(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, inits(6_000))
    ((_, finding),) = found_in(cluster_under(tmp_path))
    assert (finding.code.name, str(finding.severity), finding.first_offset) == ("txnlog-fencing-loop", "warning", 10)


def test_inits_over_a_longer_time(tmp_path: Path) -> None:
    """Or with a commit between them."""
    forge_coordinator(tmp_path / "longer", inits(6_001))
    assert codes_in(cluster_under(tmp_path / "longer")) == {}
    committed = "; a Ongoing 1 {0} {{t-0}} t {1}; a PrepareCommit 1 {0} {{t-0}} t {1}; a CompleteCommit 1 {0} t {1}"
    forge_coordinator(tmp_path / "committed", inits(6_000, committed))
    assert codes_in(cluster_under(tmp_path / "committed")) == {"atomicity-unverifiable": "info"}


def used(again: int) -> str:
    many = [f"id-{number} Empty {number} 0 t {number}" for number in range(150)]
    return "; ".join(many + [f"id-{number} Empty {number} 1 t {number}" for number in range(again)])


def test_ids_that_are_used_once(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, used(50))
    ((_, finding),) = found_in(cluster_under(tmp_path))
    assert (finding.code.name, str(finding.severity)) == ("txnlog-id-churn", "info")
    assert finding.evidence == {"ids": 150, "used_once": 100}


def test_ids_that_are_used_again(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, used(51))
    assert codes_in(cluster_under(tmp_path)) == {}


def test_two_ids_with_one_producer_id(tmp_path: Path) -> None:
    """A producer id that the end of a transaction will assign counts too."""
    forge_coordinator(tmp_path, {5: "a PrepareCommit 1 32767 tv 2 next 9 {t-0} t 0; b Empty 9 0 t 1"})
    findings = [finding for _, finding in found_in(cluster_under(tmp_path)) if finding.code.name == "pid-two-ids"]
    assert [(finding.producer_id, str(finding.severity)) for finding in findings] == [(9, "critical")]
    assert findings[0].evidence == {"transactional_ids": ["a", "b"]}


def test_ids_with_producer_ids_of_their_own(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, "a Empty 1 0 t 0; b Empty 2 0 t 1; a Empty 1 1 t 2; a gone t 3; a Empty 3 0 t 4")
    assert codes_in(cluster_under(tmp_path)) == {}


def ended(folder: Path, committed: int, aborted: int) -> dict[str, str]:
    kinds = ["Commit"] * committed + ["Abort"] * aborted
    parts = [
        f"a Ongoing 1 0 {{t-0}} t {3 * number}; a Prepare{kind} 1 0 {{t-0}} t {3 * number + 1}; "
        f"a Complete{kind} 1 0 t {3 * number + 2}"
        for number, kind in enumerate(kinds)
    ]
    forge_coordinator(folder, "; ".join(["a Empty 1 0 t 0", *parts]))
    return codes_in(cluster_under(folder))


@pytest.mark.parametrize(("committed", "aborted", "high"), [(79, 21, True), (80, 20, False), (0, 99, False)])
def test_an_id_that_aborts_a_lot(committed: int, aborted: int, high: bool, tmp_path: Path) -> None:
    """More than a fifth of at least a hundred transactions."""
    codes = {"txn-aborted-rate-high": "warning"} if high else {}
    assert ended(tmp_path, committed, aborted) == {"atomicity-unverifiable": "info"} | codes


@pytest.mark.parametrize(("expired", "producer"), [("", 1), ("; a gone t 400", None)])
def test_an_expired_id_has_no_producer(expired: str, producer: int | None, tmp_path: Path) -> None:
    """Its tombstone has none; Kafka writes -1 where a producer is unknown."""
    parts = [
        f"a Ongoing 1 0 {{t-0}} t {number}; a PrepareAbort 1 0 {{t-0}} t {number}; a CompleteAbort 1 0 t {number}"
        for number in range(100)
    ]
    forge_coordinator(tmp_path, "; ".join(["a Empty 1 0 t 0", *parts]) + expired)
    findings = {finding.code.name: finding for _, finding in found_in(cluster_under(tmp_path))}
    assert findings["txn-aborted-rate-high"].producer_id == producer
