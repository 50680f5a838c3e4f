"""Transactions that are open, late or hanging, compared with live brokers and in forged logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kforensics.forensics.checks.partition import open_transactions
from kforensics.forensics.coordinators.cluster_evidence import PlacedFinding
from kforensics.forensics.core.findings import Exactness, Severity
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_rows import remedy_text
from tests.forensics.batch_notation import NOW
from tests.forensics.checks.partition.producer_states import (
    BACKDATED,
    DAY,
    LATER,
    SOON,
    codes_of,
    forged_findings,
    forged_state,
    only,
    sample_id,
    sample_state,
    truth_of,
)
from tests.forensics.coordinators.clusters import cluster_under, forge_coordinator, found_in
from tests.forensics.forge import Segments, forge
from tests.forensics.partition_states import each_sample

FIRES = {
    "txn-open-at-end": "test_a_transaction_without_a_marker_is_open",
    "txn-late": "test_a_transaction_that_is_silent_for_long_is_late",
    "txn-hanging": "test_example_10_a_late_write_hangs",
    "txn-head-deleted": "test_example_19_records_deleted_inside_a_transaction",
}
SILENT = {
    "txn-open-at-end": "test_samples_have_the_open_transactions_their_broker_named",
    "txn-late": "test_no_sample_was_late_when_it_was_taken",
    "txn-hanging": "test_no_sample_was_late_when_it_was_taken",
    "txn-head-deleted": "test_samples_have_the_open_transactions_their_broker_named",
}
LATE_WRITE = "D 1 0 0-2 @0-2 T; M 1 0 A 4 @3; D 1 0 3-3 @4-4 T"


@each_sample()
def test_samples_have_the_open_transactions_their_broker_named(partition: Partition) -> None:
    """Excludes logs written to afterwards; 2.7 does not report producers."""
    state, expected = sample_state(partition), truth_of(partition)
    findings = list(open_transactions.findings(state))
    if state.log_end_offset == expected.get("latest") and expected["producers"] is not None:
        starts = sorted(producer["current_transaction_start_offset"] for producer in expected["producers"])
        begun = [start for start in starts if start >= 0]
        assert [finding.first_offset for finding in findings if finding.code.name == "txn-open-at-end"] == begun
        deleted = [start for start in begun if start < expected["earliest"]]
        assert [finding.first_offset for finding in findings if finding.code.name == "txn-head-deleted"] == deleted


@each_sample()
def test_no_sample_was_late_when_it_was_taken(partition: Partition) -> None:
    codes = set(codes_of(list(open_transactions.findings(sample_state(partition)))))
    assert codes <= {"txn-open-at-end", "txn-head-deleted", "txn-late"}
    assert ("txn-late" in codes) is (sample_id(partition) in BACKDATED)


@each_sample()
def test_samples_that_lie_for_a_day_are_late(partition: Partition) -> None:
    """Only their coordinators show which ones hang."""
    state = sample_state(partition, later_ms=DAY)
    codes = codes_of(list(open_transactions.findings(state)))
    assert codes.count("txn-late") == len(state.open_transactions)
    assert "txn-hanging" not in codes


def test_a_transaction_without_a_marker_is_open(tmp_path: Path) -> None:
    findings = forged_findings(
        open_transactions, tmp_path, "D 1 0 0-1 @0-1 T; M 1 0 C 3 @2; D 1 0 2-4 @3-5 T; D 2 3 0-0 @6-6 T"
    )
    assert codes_of(findings) == ["txn-open-at-end", "txn-open-at-end"]
    assert [
        (finding.producer_id, finding.producer_epoch, finding.first_offset, finding.last_offset) for finding in findings
    ] == [
        (1, 0, 3, 5),
        (2, 3, 6, 6),
    ]
    assert "3 records, last offset 5" in findings[0].message
    assert findings[0].benign == ("in flight when the files were copied: likely",)


def test_an_ended_transaction_is_not_open(tmp_path: Path) -> None:
    assert not forged_findings(open_transactions, tmp_path, "D 1 0 0-4 @0-4 T; M 1 0 C 3 @5", as_of_ms=LATER)


def test_a_transaction_that_is_silent_for_long_is_late(tmp_path: Path) -> None:
    findings = forged_findings(open_transactions, tmp_path, "D 1 0 0-4 @0-4 T", as_of_ms=NOW + 1_200_001)
    assert codes_of(findings) == ["txn-late", "txn-open-at-end"]
    late = only(findings, "txn-late")
    assert late.evidence["silent_ms"] == 1_200_001
    assert "still open 20 min after its last batch" in late.message
    assert only(findings, "txn-open-at-end").benign == ("in flight when the files were copied: no, it is late",)


def test_a_transaction_is_not_late_a_millisecond_before(tmp_path: Path) -> None:
    (is_open,) = forged_findings(open_transactions, tmp_path, "D 1 0 0-4 @0-4 T", as_of_ms=NOW + 1_200_000)
    assert is_open.code.name == "txn-open-at-end"
    assert is_open.benign == ("in flight when the files were copied: likely",)


def test_timestamps_of_long_ago_do_not_make_a_transaction_late(tmp_path: Path) -> None:
    """A marker of another producer before the data shows the actual time."""
    text = f"D 2 0 0-0 @0-0 T; M 2 0 C 1 @1; D 1 0 0-0 @2-2 T ts {NOW - 9 * DAY}"
    assert codes_of(forged_findings(open_transactions, tmp_path, text, as_of_ms=SOON)) == ["txn-open-at-end"]
    late = only(forged_findings(open_transactions, tmp_path, text, as_of_ms=LATER), "txn-late")
    assert late.evidence["silent_ms"] == DAY - 1
    assert "timestamps set by the client: yes, so the marker counts" in late.benign


def test_data_without_a_timestamp_is_not_late(tmp_path: Path) -> None:
    state = forged_state(tmp_path, "D 1 0 0-0 @0-0 T", as_of_ms=LATER)
    state.open_transactions["last_timestamp"] = -1
    assert codes_of(list(open_transactions.findings(state))) == ["txn-open-at-end"]


def hanging_in(folder: Path, log: Segments, **options: Any) -> PlacedFinding:
    """Return what the coordinator's log shows of an open transaction of producer 1."""
    forge(folder, log, **options)
    forge_coordinator(folder, "a Empty 1 0 t 0")
    (found,) = (one for one in found_in(cluster_under(folder)) if one.finding.code.name == "txn-hanging")
    return found


def test_example_10_a_late_write_hangs(tmp_path: Path) -> None:
    """Only the coordinator's log shows it; the log alone may as well have the next transaction."""
    findings = forged_findings(open_transactions, tmp_path / "alone", LATE_WRITE, as_of_ms=LATER)
    assert codes_of(findings) == ["txn-late", "txn-open-at-end"]
    hanging = hanging_in(tmp_path, LATE_WRITE).finding
    assert (hanging.severity, hanging.exactness) == (Severity.CRITICAL, Exactness.EXACT)
    assert (hanging.first_offset, hanging.producer_id, hanging.producer_epoch) == (4, 1, 0)
    assert hanging.evidence["coordinator_epoch"] == 4


def test_the_remedy_is_the_command_with_its_own_figures(tmp_path: Path) -> None:
    text = remedy_text(*hanging_in(tmp_path, LATE_WRITE, topic="orders", partition=7)) or ""
    tool = '`kafka-transactions.sh --bootstrap-server "$BOOTSTRAP"'
    assert f"{tool} find-hanging --topic orders --partition 7`." in text
    assert f"{tool} abort --topic orders --partition 7 --start-offset 4`;" in text
    old = "--producer-id 1 --producer-epoch 0 --coordinator-epoch 4`"
    assert f"{tool} abort --topic orders --partition 7 {old}" in text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("D 1 7 0-2 @0-2 T; M 1 8 C 4 @3; D 1 8 0-0 @4-4 T", id="the next epoch of version 2"),
        pytest.param("D 1 0 0-2 @0-2 T; M 2 0 A 4 @3; D 1 0 3-3 @4-4 T", id="the marker of another producer"),
        pytest.param("D 1 0 0-0 @0-0 T", id="no marker at all"),
    ],
)
def test_a_late_transaction_need_not_hang(tmp_path: Path, text: str) -> None:
    assert codes_of(forged_findings(open_transactions, tmp_path, text, as_of_ms=LATER)) == [
        "txn-late",
        "txn-open-at-end",
    ]


def test_example_22_a_marker_that_was_cleaned_hangs(tmp_path: Path) -> None:
    segments = {0: "D 1 0 0-4 @0-4 T cnt 2; empty 1 @5; plain @19", 20: "plain @20"}
    assert hanging_in(tmp_path, segments, compacted=True).finding.first_offset == 0


def test_an_empty_control_batch_before_the_data_is_not_its_marker(tmp_path: Path) -> None:
    segments = {0: "empty 1 @5; D 1 0 0-4 @9-13 T; plain @19", 20: "plain @20"}
    findings = forged_findings(open_transactions, tmp_path, segments, compacted=True, as_of_ms=LATER)
    assert codes_of(findings) == ["txn-late", "txn-open-at-end"]


def test_example_19_records_deleted_inside_a_transaction(tmp_path: Path) -> None:
    state = forged_state(tmp_path, "D 1 0 0-9 @0-9 T; D 2 0 0-9 @10-19 N", log_start=5)
    findings = list(open_transactions.findings(state))
    assert codes_of(findings) == ["txn-head-deleted", "txn-open-at-end"]
    deleted = only(findings, "txn-head-deleted")
    assert deleted.first_offset == 0
    assert "--start-offset 0`." in (remedy_text(state.partition.place, deleted) or "")


def test_all_records_deleted_of_a_transaction(tmp_path: Path) -> None:
    """As DeleteRecords left it in a broker of 4.4.0; no record can be exposed."""
    state = forged_state(tmp_path, "D 1 0 0-7 @0-7 T; D 2 0 0-11 @8-19 N; plain @20-43", log_start=20)
    deleted = only(list(open_transactions.findings(state)), "txn-head-deleted")
    assert deleted.message.endswith(
        "below the log start offset 20: all its records so far were deleted before it ended."
    )
    text = remedy_text(state.partition.place, deleted) or ""
    assert "--start-offset 0`." in text
    assert "with no data left to expose" in text


def test_a_transaction_that_begins_at_the_log_start_is_whole(tmp_path: Path) -> None:
    text = "plain @0-4; D 1 0 0-9 @5-14 T"
    assert codes_of(forged_findings(open_transactions, tmp_path, text, log_start=5)) == ["txn-open-at-end"]
