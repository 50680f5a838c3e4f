"""States of transactional ids that do not follow from one another."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.coordinators.cluster_evidence import PlacedFinding
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import at, cluster_under, codes_in, forge_coordinator, found_in
from tests.forensics.forge import forge

FIRES = {
    "txnlog-illegal-transition": "test_a_state_that_does_not_follow",
    "txnlog-prepare-flip": "test_the_end_was_decided_twice",
    "txnlog-epoch-regressed": "test_an_epoch_falls",
    "txnlog-pid-reused": "test_a_producer_id_comes_back",
    "txnlog-transient-state": "test_a_state_that_is_never_written",
}
SILENT = dict.fromkeys(FIRES, "test_a_life_as_it_should_be")

BEGUN = "a Empty 1 0 t 0; a Ongoing 1 0 {t-0} t 1"
ENDED = f"{BEGUN}; a PrepareCommit 1 0 {{t-0}} t 2; a CompleteCommit 1 0 t 3"


def forged_findings(folder: Path, log: str, **options: object) -> list[PlacedFinding]:
    """Return the findings on a coordinator alone."""
    forge_coordinator(folder, log, **options)  # type: ignore[arg-type]  # handed on
    return [
        placed for placed in found_in(cluster_under(folder)) if placed.finding.code.name != "atomicity-unverifiable"
    ]


def codes(placed: list[PlacedFinding]) -> list[tuple[str, str, int | None]]:
    return [(finding.code.name, str(finding.severity), finding.first_offset) for _, finding in placed]


def test_a_life_as_it_should_be(tmp_path: Path) -> None:
    """Everything a coordinator does: inits, retries, aborts by timeout, both versions, the end of an id."""
    log = (
        f"{ENDED}; a CompleteCommit 1 0 t 4; a Empty 1 1 t 5; a Empty 1 1 t 6; a Ongoing 1 1 {{t-0}} t 7; "
        "a Ongoing 1 1 {t-0, t-1} t 8; a PrepareAbort 1 2 {t-0, t-1} t 9; a PrepareAbort 1 2 {t-0, t-1} t 10; "
        "a CompleteAbort 1 2 t 11; a Empty 1 3 t 12; a Ongoing 1 3 tv 2 {t-0} t 13; "
        "a PrepareCommit 1 4 tv 2 {t-0} t 14; a CompleteCommit 1 4 tv 2 t 15; a PrepareAbort 1 5 tv 2 start 16 t 16; "
        "a CompleteAbort 1 5 tv 2 t 17; a gone t 18; a gone t 19; a Empty 2 0 t 20; b Empty 3 0 t 21"
    )
    assert forged_findings(tmp_path, log) == []


def test_the_last_epoch_leaves_an_id_with_another_producer_id(tmp_path: Path) -> None:
    ends = "".join(f"a Empty 1 {epoch} t {epoch}; " for epoch in range(32_765, 32_767))
    log = f"a Empty 1 32764 t 1; {ends}a Empty 9 0 t 40000; a Empty 9 1 t 40001"
    forge_coordinator(tmp_path, {5: log})
    assert codes_in(cluster_under(tmp_path)) == {}


@pytest.mark.parametrize(
    "log",
    [
        "a Ongoing 1 0 {t-0} t 0",
        "a Empty 1 1 t 0",
        "a gone t 0",
        f"{BEGUN}; a gone t 2",
        f"{BEGUN}; a Empty 1 1 t 2; a Ongoing 1 0 {{t-1}} t 3",
        f"{BEGUN}; a Ongoing 1 0 {{t-1}} t 2",
        f"{BEGUN}; a Ongoing 1 1 {{t-0, t-1}} t 2",
        f"{BEGUN}; a Ongoing 2 0 {{t-0, t-1}} t 2",
        f"{BEGUN}; a CompleteCommit 1 0 t 2",
        f"{BEGUN}; a PrepareCommit 1 1 {{t-0}} t 2",
        f"{BEGUN}; a PrepareCommit 1 0 tv 2 {{t-0}} t 2",
        f"{BEGUN}; a PrepareCommit 1 0 {{t-0, t-1}} t 2",
        f"{BEGUN}; a PrepareAbort 1 3 {{t-0}} t 2",
        f"{BEGUN}; a PrepareAbort 1 1 {{t-0}} start 5 t 2",
        f"{BEGUN}; a PrepareCommit 1 0 {{t-0}} t 2; a CompleteAbort 1 0 t 3",
        f"{BEGUN}; a PrepareCommit 1 0 {{t-0}} t 2; a CompleteCommit 1 1 t 3",
        f"{BEGUN}; a PrepareCommit 1 0 {{t-0}} t 2; a CompleteCommit 7 0 t 3",
        f"{BEGUN}; a PrepareCommit 1 0 {{t-0}} t 2; a CompleteCommit 1 0 {{t-0}} t 3",
        f"{BEGUN}; a PrepareCommit 1 0 {{t-0}} t 2; a PrepareAbort 1 0 {{t-1}} t 3",
        f"{ENDED}; a Empty 1 2 t 5",
        f"{ENDED}; a Empty 2 0 t 5",
        f"{ENDED}; a PrepareCommit 1 0 start 5 t 5",
        f"{ENDED}; a PrepareAbort 1 1 {{t-0}} start 5 t 5",
    ],
)
def test_a_state_that_does_not_follow(log: str, tmp_path: Path) -> None:
    first, *_ = codes(forged_findings(tmp_path, log))
    assert first[0] == "txnlog-illegal-transition"


def test_a_record_that_was_never_acknowledged_is_an_excuse(tmp_path: Path) -> None:
    """Its coordinator continued from the previous state."""
    (placed,) = forged_findings(tmp_path, f"{BEGUN}; a Empty 1 1 t 2; a Ongoing 1 1 {{t-0}} t 3")
    assert codes([placed]) == [("txnlog-illegal-transition", "warning", 2)]
    assert any("not acknowledged" in words and "possible" in words for words in placed.finding.benign)
    (placed,) = forged_findings(tmp_path / "other", f"{BEGUN}; a Empty 1 2 t 2")
    assert codes([placed]) == [("txnlog-illegal-transition", "error", 2)]


def test_records_that_were_never_acknowledged_may_follow_one_another(tmp_path: Path) -> None:
    """The producer adds its partition again after each time-out; Kafka 2.7.2 did so while its replicas were down.

    The same request again is no fault, another one may be.
    """
    begins = [f"a Ongoing 1 0 {{t-0}} start {time} t {time}" for time in (5, 8, 11)]
    found = codes(forged_findings(tmp_path, "; ".join([ENDED, *begins])))
    assert found == [("txnlog-illegal-transition", "info", offset) for offset in (5, 6)]
    others = [f"a Ongoing 1 0 {{t-{number}}} start {number} t {number}" for number in (5, 8)]
    found = codes(forged_findings(tmp_path / "others", "; ".join([ENDED, *others])))
    assert found == [("txnlog-illegal-transition", "warning", 5)]
    found = codes(forged_findings(tmp_path / "other", "; ".join([ENDED, *begins, "a CompleteCommit 1 0 t 12"])))
    assert found[-1] == ("txnlog-illegal-transition", "error", 7)


def test_what_the_cleaner_left_is_not_evaluated_step_by_step(tmp_path: Path) -> None:
    log = {0: "a CompleteCommit 1 4 t 1; b Ongoing 2 0 {t-0} @7 t 2", 20: "a Ongoing 1 6 {t-0} t 3; b Empty 2 1 t 4"}
    forge_coordinator(tmp_path, log, first_dirty=20)
    assert set(codes_in(cluster_under(tmp_path))) <= {"atomicity-unverifiable"}


@pytest.mark.parametrize(("marker", "severity"), [("A", "warning"), ("C", "error")])
def test_the_end_was_decided_twice(marker: str, severity: str, tmp_path: Path) -> None:
    log = f"{BEGUN}; a PrepareCommit 1 0 {{t-0}} t 2; a PrepareAbort 1 1 {{t-0}} t 4; a CompleteAbort 1 1 t 6"
    forge_coordinator(tmp_path, log)
    first = f"M 1 0 C 0 @1 {at(3)}; " if marker == "C" else ""
    forge(tmp_path, f"D 1 0 0-0 @0-0 T; {first}M 1 1 A 0 @{1 + bool(first)} {at(5)}")
    assert codes_in(cluster_under(tmp_path))["txnlog-prepare-flip"] == severity


def test_the_end_was_decided_twice_and_the_partitions_are_missing(tmp_path: Path) -> None:
    log = f"{BEGUN}; a PrepareAbort 1 0 {{t-0}} t 2; a PrepareCommit 1 0 {{t-0}} t 4; a CompleteCommit 1 0 t 6"
    (placed,) = forged_findings(tmp_path, log)
    assert codes([placed]) == [("txnlog-prepare-flip", "warning", 2)]
    assert placed.finding.evidence == {"markers_sent": 0, "partitions": 1, "partitions_seen": 0, "appended_ms": NOW + 2}
    assert placed.finding.exactness == "approximate"


def test_an_epoch_falls(tmp_path: Path) -> None:
    log = f"{ENDED}; a Empty 1 1 t 5; a Empty 1 0 t 6"
    assert codes(forged_findings(tmp_path, log)) == [("txnlog-epoch-regressed", "error", 5)]


def test_an_epoch_falls_after_the_cleaner(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, {0: "a Empty 1 4 t 1", 20: "a Empty 1 3 t 3"}, first_dirty=20)
    assert codes_in(cluster_under(tmp_path)) == {"txnlog-epoch-regressed": "error"}


@pytest.mark.parametrize("between", ["a Empty 9 0 t 2; a Empty 9 1 t 3", "a gone t 2"])
def test_a_producer_id_comes_back(between: str, tmp_path: Path) -> None:
    forge_coordinator(tmp_path, {5: f"a Empty 1 32766 t 1; {between}; a Empty 1 32766 t 4"})
    assert codes_in(cluster_under(tmp_path)) == {"txnlog-pid-reused": "error"}


@pytest.mark.parametrize("state", ["Dead", "PrepareEpochFence", "42"])
def test_a_state_that_is_never_written(state: str, tmp_path: Path) -> None:
    """Later records are not compared with it."""
    placed = forged_findings(tmp_path, f"{BEGUN}; a {state} 1 0 {{t-0}} t 2; a PrepareCommit 1 0 {{t-0}} t 3")
    assert codes(placed) == [("txnlog-transient-state", "error", 2)]
    place, finding = placed[0]
    assert (place.topic, place.partition, finding.position is not None) == ("__transaction_state", 0, True)
    assert (state if state != "42" else "state 42") in finding.message


def test_only_the_first_findings_are_reported(tmp_path: Path) -> None:
    log = "; ".join(f"a Dead 1 0 t {number}" for number in range(1_010))
    placed = forged_findings(tmp_path, log)
    assert len(placed) == 1_000
    assert placed[-1].finding.evidence["left_out"] == 10


@pytest.mark.parametrize(("producer", "codes"), [(9, set()), (8, {"txnlog-illegal-transition"})])
def test_an_id_leaves_with_the_producer_id_that_was_named(producer: int, codes: set[str], tmp_path: Path) -> None:
    log = "a Ongoing 1 32766 tv 2 {t-0} t 1; a PrepareAbort 1 32767 tv 2 next 9 {t-0} t 2"
    forge_coordinator(tmp_path, {5: f"{log}; a CompleteAbort {producer} 0 tv 2 prev 1 t 3"})
    assert codes_in(cluster_under(tmp_path)).keys() - {"atomicity-unverifiable"} == codes
