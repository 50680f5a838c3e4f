"""Transactions that are open, late or hanging, compared with live brokers and in forged logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.checks.partition import open_transactions
from kforensics.forensics.core.findings import Exactness, Severity
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_rows import remedy_text
from tests.forensics.batch_notation import NOW
from tests.forensics.checks.partition.producer_states import (
    DAY,
    FORGOTTEN,
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
# A day later these seem to hang: each starts after a marker that did not bump the
# epoch, as always with the older protocol. Some hang on purpose; the others were open when the broker stopped.
LOOK_HANGING = {
    "transactions-v0/broker-1/hanging-0": [3],
    "transactions-v1/broker-1/hanging-0": [3],
    "transactions-v0/broker-1/open-0": [2],
    "transactions-v1/broker-1/open-0": [2],
    "legacy-2.7/broker-0/open-0": [3],
    "compaction-3.9/broker-1/compact-transactional-0": [100],
    "state-lost-after-stop/broker-1/zombie-0": [5],
    **{
        f"consume-transform-produce-{version}/broker-1/{partition}": [first]
        for version in ("v1", "3.9")
        for partition, first in {
            "__consumer_offsets-0": 12,
            "__consumer_offsets-1": 42,
            "output-0": 36,
            "output-1": 60,
            "output-2": 44,
        }.items()
    },
}


@each_sample()
def test_samples_have_the_open_transactions_their_broker_named(partition: Partition) -> None:
    """Excludes logs written to afterwards; 2.7 does not report producers."""
    state, expected = sample_state(partition), truth_of(partition)
    findings = list(open_transactions.findings(state))
    if state.log_end_offset == expected.get("latest") and expected["producers"] is not None:
        starts = sorted(producer["current_transaction_start_offset"] for producer in expected["producers"])
        begun = [5] if sample_id(partition) == FORGOTTEN else [start for start in starts if start >= 0]
        assert [finding.first_offset for finding in findings if finding.code.name == "txn-open-at-end"] == begun
        deleted = [start for start in begun if start < expected["earliest"]]
        assert [finding.first_offset for finding in findings if finding.code.name == "txn-head-deleted"] == deleted


@each_sample()
def test_no_sample_was_late_when_it_was_taken(partition: Partition) -> None:
    codes = set(codes_of(list(open_transactions.findings(sample_state(partition)))))
    assert codes <= {"txn-open-at-end", "txn-head-deleted"}


@each_sample()
def test_samples_that_lie_for_a_day_are_late_and_some_look_hanging(partition: Partition) -> None:
    state = sample_state(partition, later_ms=DAY)
    findings = list(open_transactions.findings(state))
    assert codes_of(findings).count("txn-late") == len(state.open_transactions)
    hanging = [finding.first_offset for finding in findings if finding.code.name == "txn-hanging"]
    assert hanging == LOOK_HANGING.get(sample_id(partition), [])


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


def test_example_10_a_late_write_hangs(tmp_path: Path) -> None:
    findings = forged_findings(open_transactions, tmp_path, LATE_WRITE, as_of_ms=LATER)
    assert codes_of(findings) == ["txn-hanging", "txn-late", "txn-open-at-end"]
    hanging = only(findings, "txn-hanging")
    assert (hanging.severity, hanging.exactness) == (Severity.CRITICAL, Exactness.APPROXIMATE)
    assert (hanging.first_offset, hanging.producer_id, hanging.producer_epoch) == (4, 1, 0)
    assert hanging.evidence["coordinator_epoch"] == 4
    assert "it starts after the marker of the same epoch at offset 3" in hanging.message
    assert "known to its coordinator: the coordinator log was not consulted" in hanging.benign


def test_the_remedy_is_the_command_with_its_own_figures(tmp_path: Path) -> None:
    state = forged_state(tmp_path, LATE_WRITE, as_of_ms=LATER, topic="orders", partition=7)
    text = remedy_text(state.partition.place, only(list(open_transactions.findings(state)), "txn-hanging")) or ""
    tool = "kafka-transactions.sh --bootstrap-server <host:port>"
    assert f"{tool} find-hanging --topic orders --partition 7." in text
    assert f"{tool} abort --topic orders --partition 7 --start-offset 4;" in text
    assert f"{tool} abort --topic orders --partition 7 --producer-id 1 --producer-epoch 0 --coordinator-epoch" in text


def test_the_message_names_the_blocking_transaction(tmp_path: Path) -> None:
    text = f"{LATE_WRITE}; D 2 0 0-0 @5-5 T; M 2 0 C 1 @6; D 2 0 1-1 @7-7 T; D 3 0 0-0 @8-8 T"
    hanging = [
        finding
        for finding in forged_findings(open_transactions, tmp_path, text, as_of_ms=LATER)
        if finding.code.name == "txn-hanging"
    ]
    assert "blocks the last stable offset at 4; 1 ended and 2 other open transactions are blocked" in hanging[0].message
    assert "An older transaction, first offset 4, blocks" in hanging[1].message
    assert [finding.evidence["holds_last_stable_offset"] for finding in hanging] == [True, False]


def test_data_of_an_epoch_that_was_ended_hangs(tmp_path: Path) -> None:
    """With transaction version 2 a marker with a higher epoch than the data has ended that epoch."""
    text = "D 1 7 0-0 @0-0 T; M 1 8 C 4 @1; D 1 7 1-1 @2-2 T"
    hanging = only(forged_findings(open_transactions, tmp_path, text, as_of_ms=LATER), "txn-hanging")
    assert "a marker of epoch 8 had ended its epoch 7" in hanging.message


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
    findings = forged_findings(open_transactions, tmp_path, segments, compacted=True, as_of_ms=LATER)
    hanging = only(findings, "txn-hanging")
    assert "its marker was removed before its data" in hanging.message
    assert hanging.exactness is Exactness.APPROXIMATE


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
    assert "--start-offset 0." in (remedy_text(state.partition.place, deleted) or "")


def test_a_transaction_that_begins_at_the_log_start_is_whole(tmp_path: Path) -> None:
    text = "plain @0-4; D 1 0 0-9 @5-14 T"
    assert codes_of(forged_findings(open_transactions, tmp_path, text, log_start=5)) == ["txn-open-at-end"]
