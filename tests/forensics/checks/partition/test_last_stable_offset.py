"""Why the last stable offset is stuck or unknown, and what makes it expensive."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kforensics.forensics.checks.partition import last_stable_offset
from kforensics.forensics.checks.partition.last_stable_offset import UNCONFIRMED
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition
from tests.forensics.batch_notation import NOW
from tests.forensics.checks.partition.producer_states import (
    BACKDATED,
    DAY,
    LATER,
    codes_of,
    forged_findings,
    sample_id,
    sample_state,
    truth_of,
)
from tests.forensics.forge import forge
from tests.forensics.partition_states import each_sample, partitions_under

MINUTE, HOUR = 60_000, 3_600_000
FIRES = {
    "lso-stuck": "test_example_10_the_last_stable_offset_is_stuck",
    "lso-prefix-unknown": "test_example_21_without_a_snapshot_it_is_a_range",
    "txn-open-many": "test_many_transactions_at_once",
}
SILENT = dict.fromkeys(FIRES, "test_samples_say_nothing_when_they_were_taken")
LATE_WRITE = "D 1 0 0-2 @0-2 T; M 1 0 A 4 @3; D 1 0 3-3 @4-4 T"


@each_sample()
def test_samples_say_nothing_when_they_were_taken(partition: Partition) -> None:
    expected = ["lso-stuck"] if sample_id(partition) in BACKDATED else []
    assert codes_of(list(last_stable_offset.findings(sample_state(partition)))) == expected


@each_sample()
def test_samples_that_lie_for_a_day_are_stuck_where_the_broker_said(partition: Partition) -> None:
    """Since 4.0 a broker may report the base offset of the batch in which the log starts."""
    state, expected = sample_state(partition, later_ms=DAY), truth_of(partition)
    findings = list(last_stable_offset.findings(state))
    if state.log_end_offset == expected.get("latest"):
        stable_offset = max(expected.get("latest_read_committed", expected["latest"]), state.log_start_offset)
        stuck = [finding.evidence["last_stable_offset"] for finding in findings]
        assert stuck == ([stable_offset] if stable_offset < expected["latest"] else [])


def test_example_10_the_last_stable_offset_is_stuck(tmp_path: Path) -> None:
    findings = forged_findings(last_stable_offset, tmp_path, LATE_WRITE, as_of_ms=LATER)
    assert codes_of(findings) == ["lso-stuck"]
    (stuck,) = findings
    assert (stuck.severity, stuck.first_offset, stuck.last_offset) == (Severity.WARNING, 4, 4)
    assert (stuck.producer_id, stuck.cause) == (1, "txn-late")
    assert "idle partition: yes, nothing else is blocked" in stuck.benign


def test_blocked_transactions_are_counted(tmp_path: Path) -> None:
    text = "D 1 0 0-0 @0-0 T; D 2 0 0-0 @1-1 T; M 2 0 C 1 @2; D 3 0 0-0 @3-3 N; D 2 0 1-1 @4-4 T"
    (stuck,) = forged_findings(last_stable_offset, tmp_path, text, as_of_ms=LATER, high_watermark=3)
    assert "LSO stuck at 0 (log end 5, 5 offsets hidden) since 2023-11-14 22:13:20 UTC" in stuck.message
    assert "1 ended and 1 other open transactions are blocked" in stuck.message
    assert stuck.cause == "txn-late"
    assert stuck.benign == (
        "high watermark stuck instead: no, checkpointed at 3",
        "idle partition: no",
        "damaged, or ended in damaged bytes or a lost segment: no",
    )


@pytest.mark.parametrize(
    ("topic", "after", "append_time", "written_ms", "severity"),
    [
        ("t", "", False, None, Severity.WARNING),
        ("t", "", True, None, Severity.CRITICAL),
        ("t", "", False, DAY - HOUR, Severity.CRITICAL),
        ("t", "", False, DAY - MINUTE, Severity.WARNING),
        ("t", f"; D 2 0 0-0 @5-5 T; M 2 0 C 4 @6 ts {NOW + HOUR}", False, None, Severity.CRITICAL),
        ("t", f"; D 2 0 0-0 @5-5 T; M 2 0 C 4 @6 ts {NOW + DAY - MINUTE}", False, None, Severity.WARNING),
        ("__consumer_offsets", "", False, None, Severity.CRITICAL),
    ],
    ids=["timestamps", "append-time", "file-time", "young-file", "later-marker", "young-marker", "group-coordinator"],
)
def test_timestamps_that_a_client_may_have_set_do_not_make_a_transaction_old(  # noqa: PLR0917  # as parametrized
    tmp_path: Path, topic: str, after: str, append_time: bool, written_ms: int | None, severity: Severity
) -> None:
    """MirrorMaker and Kafka Streams write with the timestamps of what they read."""
    folder = forge(tmp_path, f"{LATE_WRITE}{after}", topic=topic, log_append_time=append_time)
    if written_ms is not None:
        for path in folder.iterdir():
            os.utime(path, ns=((NOW + written_ms) * 1_000_000,) * 2)
    (partition,) = partitions_under(tmp_path)
    (stuck,) = last_stable_offset.findings(examine(partition, Rules(LATER)))
    assert stuck.severity is severity
    assert (UNCONFIRMED in stuck.benign) is (severity is Severity.WARNING)


def test_a_high_watermark_that_is_no_higher_is_reported(tmp_path: Path) -> None:
    (stuck,) = forged_findings(last_stable_offset, tmp_path, LATE_WRITE, as_of_ms=LATER, high_watermark=4)
    assert "high watermark stuck instead: yes, checkpointed at 4" in stuck.benign
    checkpoint = {"replication-offset-checkpoint": None}
    (stuck,) = forged_findings(last_stable_offset, tmp_path / "none", LATE_WRITE, as_of_ms=LATER, replaced=checkpoint)
    assert "high watermark stuck instead: unknown, no checkpoint" in stuck.benign


def test_data_without_a_transaction_is_blocked_too(tmp_path: Path) -> None:
    (stuck,) = forged_findings(last_stable_offset, tmp_path, f"{LATE_WRITE}; plain @5", as_of_ms=LATER)
    assert "idle partition: no" in stuck.benign


def test_a_young_transaction_blocks_it_rightly(tmp_path: Path) -> None:
    assert not forged_findings(last_stable_offset, tmp_path, LATE_WRITE, as_of_ms=NOW + 4 + 1_200_000)
    assert forged_findings(last_stable_offset, tmp_path / "late", LATE_WRITE, as_of_ms=NOW + 4 + 1_200_001)


def test_of_a_transaction_in_a_snapshot_the_last_batch_is_known(tmp_path: Path) -> None:
    segments = {10: "gone D 1 0 0-9 @0-9 T; plain @10"}
    (stuck,) = forged_findings(last_stable_offset, tmp_path, segments, as_of_ms=LATER)
    assert "LSO stuck at 10 (log end 11, 1 offset hidden) since 2023-11-14 22:13:20 UTC" in stuck.message
    assert (stuck.first_offset, stuck.path) == (0, None)


def test_only_the_oldest_transaction_counts(tmp_path: Path) -> None:
    """The blocking transaction is still being written; the later one is late."""
    text = f"D 1 0 0-0 @0-0 T; D 2 0 0-0 @1-1 T; D 1 0 1-1 @2-2 T ts {LATER}"
    assert not forged_findings(last_stable_offset, tmp_path, text, as_of_ms=LATER)


def test_nothing_is_stuck_where_nothing_is_left(tmp_path: Path) -> None:
    """DeleteRecords may advance to the end of the log, past the start of an open transaction."""
    assert not forged_findings(last_stable_offset, tmp_path, "D 1 0 0-9 @0-9 T", as_of_ms=LATER, log_start=10)


@pytest.mark.parametrize(
    ("topic", "is_range"),
    [("__share_group_state", False), ("__transaction_state", False), ("__consumer_offsets", True), ("t", True)],
)
def test_no_transaction_is_open_where_brokers_write_none(tmp_path: Path, topic: str, *, is_range: bool) -> None:
    segments = {100: "gone plain @0-99; plain @100-109"}
    missing = {100: None, 110: None}
    found = forged_findings(last_stable_offset, tmp_path, segments, snapshots=missing, topic=topic)
    assert codes_of(found) == ["lso-prefix-unknown"] * is_range


def test_example_21_without_a_snapshot_it_is_a_range(tmp_path: Path) -> None:
    segments = {100: "gone plain @0-99; D 1 0 5-5 @100-100 T; M 2 0 A 1 @101; M 1 0 C 1 @102"}
    findings = forged_findings(
        last_stable_offset, tmp_path, segments, snapshots={100: None, 103: None}, txnindex={100: None}
    )
    assert codes_of(findings) == ["lso-prefix-unknown"]
    assert findings[0].evidence == {"lowest": 100, "highest": 103}


def test_a_snapshot_at_the_head_makes_it_exact(tmp_path: Path) -> None:
    segments = {100: "gone plain @0-99; D 1 0 5-5 @100-100 T; M 1 0 C 1 @101"}
    assert not forged_findings(last_stable_offset, tmp_path, segments)


def test_an_empty_log_has_no_range(tmp_path: Path) -> None:
    assert not forged_findings(last_stable_offset, tmp_path, {50: ""}, snapshots={50: None})


def test_many_transactions_at_once(tmp_path: Path) -> None:
    rules = {"many_open_transactions": 2}
    text = "D 1 0 0-0 @0-0 T; D 2 0 0-0 @1-1 T; D 3 0 0-0 @2-2 T; M 1 0 C 1 @3; M 2 0 C 1 @4; M 3 0 C 1 @5"
    (many,) = forged_findings(last_stable_offset, tmp_path, text, rules=rules)
    assert (many.code.name, many.first_offset, many.evidence) == ("txn-open-many", 2, {"open_transactions": 3})


def test_many_transactions_one_after_the_other_are_not_open_at_once(tmp_path: Path) -> None:
    text = "; ".join(f"D 1 0 {n}-{n} @{2 * n}-{2 * n} T; M 1 0 C 1 @{2 * n + 1}" for n in range(5))
    assert not forged_findings(last_stable_offset, tmp_path, text, rules={"many_open_transactions": 1})


def test_a_transaction_over_many_segments(tmp_path: Path) -> None:
    data = {n: f"D 1 0 {n}-{n} @{n}-{n} T" for n in range(11)}
    (many,) = forged_findings(last_stable_offset, tmp_path, data)
    assert (many.code.name, many.evidence) == ("txn-open-many", {"segments": 11, "written_ms": NOW})
    assert many.severity is Severity.INFO


def test_segments_that_are_gone_do_not_count(tmp_path: Path) -> None:
    segments = {10: "gone D 1 0 0-9 @0-9 T; plain @10", 11: "D 1 0 10-10 @11 T", 12: "M 1 0 C 1 @12"}
    assert not forged_findings(last_stable_offset, tmp_path, segments, rules={"many_segments": 3})


def test_ten_segments_are_not_many(tmp_path: Path) -> None:
    data = {n: f"D 1 0 {n}-{n} @{n}-{n} T" for n in range(9)} | {9: "M 1 0 C 1 @9"}
    assert not forged_findings(last_stable_offset, tmp_path, data)
    (many,) = forged_findings(last_stable_offset, tmp_path, data | {10: "plain @10"}, rules={"many_segments": 9})
    assert many.code.name == "txn-open-many"
