"""Producer epochs that decrease, are bumped at the wrong point, or are nearly exhausted."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.checks.partition import producer_epochs
from kforensics.forensics.core.findings import Exactness, Severity
from kforensics.forensics.partition.log_gaps import MERGED_IN_COPY
from kforensics.forensics.partition.partition_files import Partition
from tests.forensics.batch_notation import NOW
from tests.forensics.checks.partition.producer_states import (
    DAY,
    codes_of,
    forged_findings,
    only,
    sample_id,
    sample_state,
)
from tests.forensics.partition_states import each_sample

FIRES = {
    "epoch-regressed": "test_example_14_a_zombie",
    "epoch-bump-nonzero-seq": "test_a_new_epoch_that_does_not_begin_at_0",
    "epoch-bump-without-marker": "test_example_11_the_epoch_rises_inside_a_transaction",
    "epoch-near-exhaustion": "test_a_producer_that_has_nearly_used_up_its_epochs",
    "epoch-max-used": "test_the_last_epoch_with_transactions",
    "pid-mixed-modes": "test_a_producer_with_transactions_and_without",
    "pid-churn": "test_very_many_producers",
}
SILENT = dict.fromkeys(FIRES, "test_samples_have_only_what_is_known")
# A fenced producer wrote to a broker that had lost its snapshots.
KNOWN = {
    "state-lost-after-stop/broker-1/zombie-0": ["epoch-regressed"],
    "look-alikes/broker-1/unknown-producers-0": ["pid-churn"],
}
BUMP = "D 9 3 0-4 @0-4 N; D 9 4 2-3 @5-6 N"


@each_sample()
def test_samples_have_only_what_is_known(partition: Partition) -> None:
    assert codes_of(list(producer_epochs.findings(sample_state(partition)))) == KNOWN.get(sample_id(partition), [])


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("D 1 7 0-2 @0-2 T; M 1 8 C 4 @3; D 1 8 0-0 @4-4 T; M 1 9 A 4 @5", id="7 version 2"),
        pytest.param("D 1 0 0-2 @0-2 T; M 1 1 A 4 @3; D 1 2 0-0 @4-4 T", id="9 timeout"),
        pytest.param("D 1 0 0-0 @0-0 T; M 1 0 C 3 @1; M 1 0 C 4 @2", id="15"),
        pytest.param("D 1 4 0-0 @0-0 T; M 1 4 A 6 @1; D 1 4 1-1 @2-2 T; M 1 9 C 6 @3", id="33"),
        pytest.param("D 1 0 0-1 @0-1 T; M 1 1 C 2 @2", id="36"),
        pytest.param("D 9 31999 0-1 @0-1 N", id="not near the end"),
    ],
)
def test_examples_without_such_findings(tmp_path: Path, text: str) -> None:
    assert not forged_findings(producer_epochs, tmp_path, text)


def test_example_14_a_zombie(tmp_path: Path) -> None:
    text = "D 9 3 0-0 @0-0 N; D 9 4 0-0 @1-1 N; D 9 3 1-1 @2-2 N; D 9 4 1-1 @3-3 N"
    findings = forged_findings(producer_epochs, tmp_path, text)
    assert [(finding.code.name, finding.first_offset, finding.cause) for finding in findings] == [
        ("epoch-regressed", 2, None),
        ("epoch-bump-nonzero-seq", 3, "epoch-regressed"),
    ]
    assert {finding.severity for finding in findings} == {Severity.ERROR}
    assert "with epoch 3, after epoch 4." in findings[0].message


def test_a_zombie_may_write_more_than_once(tmp_path: Path) -> None:
    text = "D 9 3 0-0 @0-0 N; D 9 4 0-0 @1-1 N; D 9 3 1-1 @2-2 N; D 9 3 2-2 @3-3 N; D 9 4 1-1 @4-4 N"
    assert only(forged_findings(producer_epochs, tmp_path, text), "epoch-bump-nonzero-seq").cause == "epoch-regressed"


def test_a_marker_may_be_what_fell(tmp_path: Path) -> None:
    text = "D 1 5 0-0 @0-0 T; M 1 4 A 3 @1; D 1 5 1-1 @2-2 T"
    assert (
        only(forged_findings(producer_epochs, tmp_path, text), "epoch-bump-nonzero-seq").cause
        == "marker-epoch-regressed"
    )


def test_an_epoch_beyond_the_one_that_fell_is_no_consequence(tmp_path: Path) -> None:
    text = "D 9 3 0-0 @0-0 N; D 9 4 0-0 @1-1 N; D 9 3 1-1 @2-2 N; D 9 5 1-1 @3-3 N"
    assert only(forged_findings(producer_epochs, tmp_path, text), "epoch-bump-nonzero-seq").cause is None


def test_a_leader_may_have_forgotten_the_epoch(tmp_path: Path) -> None:
    text = f"D 9 4 0-0 @0-0 N; D 9 3 0-0 @1-1 N ts {NOW + DAY}"
    (regressed,) = forged_findings(producer_epochs, tmp_path, text, as_of_ms=NOW + 2 * DAY)
    assert regressed.severity is Severity.WARNING
    assert regressed.benign[0] == "producer expired at the leader: yes, idle for 1 d"
    (regressed,) = forged_findings(
        producer_epochs, tmp_path / "before", f"D 9 4 0-0 @0-0 N; D 9 3 0-0 @1-1 N ts {NOW + DAY - 1}"
    )
    assert regressed.severity is Severity.ERROR


def test_a_new_epoch_that_does_not_begin_at_0(tmp_path: Path) -> None:
    (bump,) = forged_findings(producer_epochs, tmp_path, BUMP)
    assert (bump.code.name, bump.severity, bump.first_offset) == ("epoch-bump-nonzero-seq", Severity.ERROR, 5)
    assert (bump.cause, bump.evidence) == (
        None,
        {"raised_by": 1, "previous_offset": 4, "written_ms": 1_700_000_000_005},
    )


def test_a_leader_that_forgot_the_producer_lets_a_bump_pass(tmp_path: Path) -> None:
    (bump,) = forged_findings(producer_epochs, tmp_path, f"{BUMP} ts {NOW + DAY}")
    assert bump.severity is Severity.WARNING


def test_the_group_coordinator_begins_nowhere(tmp_path: Path) -> None:
    assert not forged_findings(producer_epochs, tmp_path, BUMP, topic="__consumer_offsets")


def test_where_the_cleaner_was_the_first_batches_may_be_gone(tmp_path: Path) -> None:
    segments = {0: "D 9 3 0-4 @0-4 N; gone D 9 4 0-1 @5-6 N; D 9 4 2-3 @7-8 N", 9: "plain @9"}
    assert not forged_findings(producer_epochs, tmp_path, segments, compacted=True)
    assert not forged_findings(producer_epochs, tmp_path / "whole", {0: BUMP, 7: "plain @7"}, compacted=True)
    assert not forged_findings(producer_epochs, tmp_path / "gap", {0: "D 9 3 0-4 @0-4 N", 7: "D 9 4 2-3 @7-8 N"})
    later = {0: "D 9 3 0-4 @0-4 N", 5: "D 9 4 2-3 @5-6 N"}
    assert codes_of(forged_findings(producer_epochs, tmp_path / "later", later, compacted=True)) == [
        "epoch-bump-nonzero-seq"
    ]


def test_example_11_the_epoch_rises_inside_a_transaction(tmp_path: Path) -> None:
    text = "D 1 0 0-2 @0-2 T; M 1 0 A 4 @3; D 1 0 3-3 @4-4 T; D 1 1 0-0 @5-5 T; M 1 1 C 4 @6"
    (bump,) = forged_findings(producer_epochs, tmp_path, text)
    assert (bump.code.name, bump.severity, bump.first_offset) == ("epoch-bump-without-marker", Severity.WARNING, 5)
    assert bump.exactness is Exactness.EXACT
    cleaned = forged_findings(producer_epochs, tmp_path / "cleaned", {0: text, 7: "plain @7"}, compacted=True)
    assert only(cleaned, "epoch-bump-without-marker").exactness is Exactness.APPROXIMATE
    assert cleaned[0].benign == ("marker removed by a cleaner: possible", f"{MERGED_IN_COPY}: no")


def test_a_transaction_of_two_epochs_may_begin_the_log(tmp_path: Path) -> None:
    (bump,) = forged_findings(producer_epochs, tmp_path, "D 1 0 0-0 @0-0 T; D 1 1 0-0 @1-1 T")
    assert (bump.exactness, bump.benign) == (
        Exactness.EXACT,
        ("marker removed by a cleaner: no, never compacted here", f"{MERGED_IN_COPY}: no"),
    )


def test_a_producer_that_has_nearly_used_up_its_epochs(tmp_path: Path) -> None:
    text = "D 9 31999 0-0 @0-0 N; D 9 32000 0-0 @1-1 N; D 9 32003 0-0 @2-2 N"
    (near,) = forged_findings(producer_epochs, tmp_path, text)
    assert (near.code.name, near.severity, near.first_offset) == ("epoch-near-exhaustion", Severity.WARNING, 1)
    assert near.evidence == {"batches": 2, "epoch": 32003, "written_ms": 1_700_000_000_001}


def test_version_2_uses_up_its_epochs_by_design(tmp_path: Path) -> None:
    """Example 25, as far as the log of the partition shows it."""
    (near,) = forged_findings(producer_epochs, tmp_path, "D 1 32766 0-0 @0-0 T; M 1 32767 C 4 @1")
    assert (near.code.name, near.severity) == ("epoch-near-exhaustion", Severity.INFO)


def test_aborts_that_raise_the_epoch_may_be_the_loop_itself(tmp_path: Path) -> None:
    (near,) = forged_findings(producer_epochs, tmp_path, "D 1 32004 0-0 @0-0 T; M 1 32005 A 4 @1")
    assert near.severity is Severity.WARNING
    (near,) = forged_findings(producer_epochs, tmp_path / "commit", "D 1 32004 0-0 @0-0 T; M 1 32004 C 4 @1")
    assert (near.severity, near.benign[0].endswith("no sign of it")) == (Severity.WARNING, True)


def test_aborts_by_a_producer_that_goes_on_with_their_epoch_are_those_of_version_2(tmp_path: Path) -> None:
    aborted = "D 1 32004 0-0 @0-0 T; M 1 32005 A 4 @1"
    (near,) = forged_findings(producer_epochs, tmp_path, f"{aborted}; D 1 32005 0-0 @2-2 T")
    assert near.severity is Severity.INFO
    (near,) = forged_findings(producer_epochs, tmp_path / "fenced", f"{aborted}; D 1 32006 0-0 @2-2 T")
    assert near.severity is Severity.WARNING, "up to version 1 the next instance has an epoch above that of the abort"
    near, _ = forged_findings(producer_epochs, tmp_path / "other", f"{aborted}; D 2 32005 0-0 @2-2 T")
    assert (near.producer_id, near.severity) == (1, Severity.WARNING)


def test_the_last_epoch_with_transactions(tmp_path: Path) -> None:
    findings = forged_findings(producer_epochs, tmp_path, "D 1 32767 0-0 @0-0 T; D 1 32767 1-1 @1-1 T")
    assert codes_of(findings) == ["epoch-max-used", "epoch-near-exhaustion"]
    last = only(findings, "epoch-max-used")
    assert (last.severity, last.first_offset) == (Severity.ERROR, 0)
    assert last.evidence == {"batches": 2, "written_ms": 1_700_000_000_000}


@pytest.mark.parametrize("text", ["D 1 32767 0-0 @0-0 N", "D 1 32766 0-0 @0-0 T; M 1 32767 A 4 @1"])
def test_the_last_epoch_without_transactions_and_of_markers(tmp_path: Path, text: str) -> None:
    assert codes_of(forged_findings(producer_epochs, tmp_path, text)) == ["epoch-near-exhaustion"]


def test_a_producer_with_transactions_and_without(tmp_path: Path) -> None:
    text = "D 1 0 0-0 @0-0 T; M 1 0 C 3 @1; D 1 0 1-1 @2-2 N; D 1 0 2-2 @3-3 N"
    (mixed,) = forged_findings(producer_epochs, tmp_path, text)
    assert (mixed.code.name, mixed.severity, mixed.first_offset) == ("pid-mixed-modes", Severity.WARNING, 2)
    assert not forged_findings(producer_epochs, tmp_path / "offsets", text, topic="__consumer_offsets")


@pytest.mark.parametrize(("producers", "codes"), [(5, []), (6, ["pid-churn"])])
def test_very_many_producers(tmp_path: Path, producers: int, codes: list[str]) -> None:
    """Less than an hour counts as one hour."""
    text = "; ".join(f"D {n} 0 0-0 @{n}-{n} N" for n in range(producers))
    findings = forged_findings(producer_epochs, tmp_path, text, rules={"new_producers_per_hour": 5})
    assert codes_of(findings) == codes
    assert [(finding.severity, finding.exactness) for finding in findings] == [
        (Severity.INFO, Exactness.APPROXIMATE)
    ] * len(codes)


def test_as_many_in_a_longer_time_are_not_many(tmp_path: Path) -> None:
    text = "; ".join(f"D {n} 0 0-0 @{n}-{n} N ts {NOW + n * 3_600_000}" for n in range(6))
    assert not forged_findings(producer_epochs, tmp_path, text, rules={"new_producers_per_hour": 2})


def test_producers_of_the_snapshot_did_not_come_here(tmp_path: Path) -> None:
    gone = "; ".join(f"gone D {n} 0 0-0 @{n}-{n} N" for n in range(9))
    assert not forged_findings(
        producer_epochs, tmp_path, {9: f"{gone}; D 9 0 0-0 @9-9 N"}, rules={"new_producers_per_hour": 5}
    )
