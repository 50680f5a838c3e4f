"""Timestamps that cannot be right, and unusual ones that can."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kforensics.forensics.checks.partition import timestamps
from kforensics.forensics.core.findings import Exactness, Finding, Severity
from kforensics.forensics.core.rules import DAY_MS, Rules
from kforensics.forensics.partition.examine import examine
from kforensics.parsers.format.rows import LOG_APPEND_TIME_BIT
from lab.places import SAMPLES
from tests.forensics.batch_notation import NOW
from tests.forensics.checks.partition.check_runs import (
    HEALTHY_SCENARIOS,
    HOUR_MS,
    RULES,
    code_names,
    collectors,
    findings_in_sample,
    found_in,
)
from tests.forensics.forge import file_of, forge, patch
from tests.forensics.partition_states import partitions_under

FIRES = {
    "ts-future": "test_timestamp_after_the_copy_is_found",
    "ts-ancient": "test_old_create_time_is_found",
    "ts-missing": "test_missing_timestamp_is_found",
    "ts-append-regressed": "test_append_time_that_goes_back_is_found",
    "ts-type-mixed": "test_both_types_are_found",
}
SILENT = dict.fromkeys(timestamps.CODES, "test_real_timestamps_are_right")
CHECK_MODULES = (timestamps,)
MONTH_MS = 30 * DAY_MS
THREE = "plain @0-2; plain @3-5; plain @6-8"
# Here the lab's clients set their own timestamps: of another year, or none.
CHOSEN = {
    "duplicates/broker-1/sent-again-0": ["ts-ancient"],
    "duplicates/broker-1/sent-again-after-abort-0": ["ts-ancient"],
    "legacy-2.7/broker-0/compact-transactional-0": ["ts-ancient"],
    "look-alikes/broker-1/states-0": ["ts-missing"],
    "records/broker-1/timestamps-0": ["ts-ancient", "ts-missing"],
}


@pytest.mark.parametrize("scenario", HEALTHY_SCENARIOS)
def test_real_timestamps_are_right(scenario: str) -> None:
    findings = findings_in_sample(scenario, CHECK_MODULES)
    chosen = {folder: codes for folder, codes in CHOSEN.items() if folder.startswith(f"{scenario}/")}
    assert {folder: code_names(group) for folder, group in findings.items()} == chosen


def _the_one(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


def test_timestamp_after_the_copy_is_found(tmp_path: Path) -> None:
    late = RULES.as_of_ms + RULES.clock_skew_ms + 1
    forge(tmp_path, f"plain @0; D 7 2 0-1 @1-2 N ts {late}; plain @3; D 7 2 2-2 @4 N ts {late + 5_000}; plain @5")
    _copy_at(tmp_path, RULES.as_of_ms)
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.code.name, finding.severity, finding.exactness) == ("ts-future", Severity.WARNING, Exactness.EXACT)
    assert (finding.producer_id, finding.producer_epoch) == (7, 2)
    assert (finding.first_offset, finding.last_offset, finding.evidence["batches"]) == (1, 4, 2)
    assert finding.evidence["newest_timestamp"] == late + 5_000


def test_clocks_may_differ_a_little(tmp_path: Path) -> None:
    forge(tmp_path, f"plain @0 ts {RULES.as_of_ms + RULES.clock_skew_ms}; plain @1")
    _copy_at(tmp_path, RULES.as_of_ms)
    assert found_in(tmp_path, CHECK_MODULES) == []


def test_files_that_have_lost_their_times_show_no_future(tmp_path: Path) -> None:
    """As after a copy that sets them to 0: every record would be of a time after it."""
    forge(tmp_path, f"plain @0 ts {NOW}; plain @1 ts {NOW + HOUR_MS}")
    _copy_at(tmp_path, 0)
    assert found_in(tmp_path, CHECK_MODULES, Rules(0, is_assumed=True)) == []


def test_an_evaluation_before_the_last_write_is_no_copy_at_that_time(tmp_path: Path) -> None:
    """With --as-of before the last write, the timestamps after it are not later than the copy."""
    forge(tmp_path, f"plain @0 ts {NOW}; plain @1 ts {NOW + HOUR_MS}")
    _copy_at(tmp_path, NOW + HOUR_MS)
    assert found_in(tmp_path, CHECK_MODULES, Rules(NOW)) == []
    assert found_in(tmp_path, CHECK_MODULES, Rules(NOW - DAY_MS)) == []


def test_an_evaluation_after_the_copy_does_not_excuse_the_future(tmp_path: Path) -> None:
    forge(tmp_path, f"plain @0 ts {NOW}; plain @1 ts {NOW + HOUR_MS}")
    _copy_at(tmp_path, NOW)
    finding = _the_one(found_in(tmp_path, CHECK_MODULES, Rules(NOW + DAY_MS)))
    assert finding.message == "1 batch with timestamps up to 1 h after the files were copied."
    assert finding.evidence["copied"] == NOW
    assert found_in(tmp_path, CHECK_MODULES, Rules(NOW + DAY_MS, is_assumed=True)) == []


def test_real_transactions_evaluated_before_their_last_write_are_not_of_the_future() -> None:
    (partition,) = partitions_under(SAMPLES / "transactions-v0" / "broker-1" / "open-0")
    for as_of_ms in (0, NOW):
        state = examine(partition, Rules(as_of_ms), collectors(CHECK_MODULES))
        assert state.log.newest_timestamp > as_of_ms
        assert list(timestamps.findings(state)) == []


def _copy_at(folder: Path, time_ms: int) -> None:
    for path in folder.rglob("*"):
        os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))


@pytest.mark.parametrize(
    ("factor", "unit"), [(1_000, "microseconds"), (1_000_000, "nanoseconds"), (50, "ruled out, not a plausible time")]
)
def test_wrong_units_are_recognized(tmp_path: Path, factor: int, unit: str) -> None:
    forge(tmp_path, f"plain @0; plain @1 ts {NOW * factor}")
    assert unit in _the_one(found_in(tmp_path, CHECK_MODULES)).benign[0]


def test_markers_of_the_future_make_the_time_of_the_copy_doubtful(tmp_path: Path) -> None:
    late = RULES.as_of_ms + HOUR_MS
    forge(tmp_path, f"D 7 2 0-1 @0-1 T ts {late}; M 7 2 C 0 @2 ts {late}")
    _copy_at(tmp_path, RULES.as_of_ms)
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert finding.exactness is Exactness.APPROXIMATE
    assert finding.benign[1] == "copied later than assumed: likely, the last marker is later too"


def test_largest_and_smallest_timestamps_are_accepted(tmp_path: Path) -> None:
    findings = found_in(SAMPLES / "damaged" / "batches" / "times-extreme-0", CHECK_MODULES, Rules(as_of_ms=NOW))
    assert "ts-future" in code_names(findings)
    log = file_of(forge(tmp_path, THREE))
    patch(log, 3, max_timestamp=-(2**63))
    assert _the_one(found_in(tmp_path, CHECK_MODULES)).evidence["largest_step_ms"] == NOW + 2**62


def test_old_create_time_is_found(tmp_path: Path) -> None:
    forge(tmp_path, f"plain @0-2; plain @3-5 ts {NOW - MONTH_MS - 1}; plain @6-8; plain @9 ts {NOW - 2 * MONTH_MS}")
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.code.name, finding.severity) == ("ts-ancient", Severity.INFO)
    assert (finding.first_offset, finding.last_offset) == (3, 9)
    assert finding.evidence == {"batches": 2, "largest_step_ms": 2 * MONTH_MS + 6}


@pytest.mark.parametrize(
    "text",
    [
        f"plain @0 ts {NOW - 3 * MONTH_MS}; plain @1",  # a pause
        f"plain @0 ts {NOW}; plain @1 ts {NOW - MONTH_MS}",
        f"plain @0 ts {NOW * 1000}; plain @1",  # the previous one is wrong
        f"D 1 0 0-0 @0 T; M 1 0 C 0 @1 ts {NOW - 2 * MONTH_MS}",  # a broker's clock is for others
        f"plain @0; plain @1 cnt 0 ts {NOW - 2 * MONTH_MS}",
    ],
)
def test_other_steps_of_time_are_no_import(tmp_path: Path, text: str) -> None:
    forge(tmp_path, text)
    assert "ts-ancient" not in code_names(found_in(tmp_path, CHECK_MODULES))


def test_missing_timestamp_is_found(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, THREE))
    patch(log, 3, max_timestamp=-1)
    patch(log, 6, max_timestamp=-1)
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.code.name, finding.severity) == ("ts-missing", Severity.INFO)
    assert (finding.first_offset, finding.last_offset, finding.evidence["batches"]) == (3, 8, 2)


def test_emptied_batch_and_broken_batch_may_have_no_timestamp(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, "plain @0-2; plain @3-5 cnt 0; plain @6-8"))
    patch(log, 3, max_timestamp=-1)
    patch(log, 6, max_timestamp=-1, fix_crc=False)
    assert found_in(tmp_path, CHECK_MODULES) == []


def test_append_time_that_goes_back_is_found(tmp_path: Path) -> None:
    forge(tmp_path, f"plain @0-2; plain @3-5 ts {NOW - 5_001}; plain @6 ts {NOW - 10_001}", log_append_time=True)
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.code.name, finding.severity) == ("ts-append-regressed", Severity.INFO)
    assert (finding.first_offset, finding.evidence) == (3, {"batches": 1, "largest_step_ms": 5_001})
    assert finding.benign[0] == "leader change: ruled out, no leader epoch starts at offset 3"


def test_append_time_may_go_back_with_a_leader(tmp_path: Path) -> None:
    forge(tmp_path, f"plain @0-2; plain @3-5 ts {NOW - 6_000}", log_append_time=True, leader_epochs={0: 0, 3: 1})
    benign = _the_one(found_in(tmp_path, CHECK_MODULES)).benign
    assert benign[0] == "leader change: likely, a leader epoch starts at offset 3"


@pytest.mark.parametrize(("step", "append"), [(5_000, True), (6_000, False)])
def test_small_steps_and_create_times_are_no_clock_set_back(tmp_path: Path, step: int, append: bool) -> None:
    forge(tmp_path, f"plain @0 ts {NOW}; plain @3-5 ts {NOW - step}", log_append_time=append)
    assert found_in(tmp_path, CHECK_MODULES) == []


@pytest.mark.parametrize("append", [0, 2])
def test_clock_of_a_client_is_no_clock_of_a_broker(tmp_path: Path, append: int) -> None:
    log = file_of(forge(tmp_path, f"plain @0-1 ts {NOW + 60_000}; plain @2-3 ts {NOW}"))
    patch(log, append, attributes=LOG_APPEND_TIME_BIT)
    assert code_names(found_in(tmp_path, CHECK_MODULES)) == ["ts-type-mixed"]


@pytest.mark.parametrize(("magic", "expected"), [(0, []), (1, ["ts-missing"])])
def test_format_0_has_no_timestamps_to_miss(magic: int, expected: list[str]) -> None:
    folder = SAMPLES / "damaged" / "legacy" / f"magic-{magic}-time-minus-1-0"
    assert code_names(found_in(folder, CHECK_MODULES)) == expected


def test_both_types_are_found(tmp_path: Path) -> None:
    patch(file_of(forge(tmp_path, THREE)), 3, attributes=LOG_APPEND_TIME_BIT)
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.code.name, finding.severity) == ("ts-type-mixed", Severity.INFO)


@pytest.mark.parametrize("append", [True, False])
def test_one_type_is_not_mixed(tmp_path: Path, append: bool) -> None:
    forge(tmp_path, "D 1 0 0-0 @0 T; M 1 0 C 0 @1; plain @2", log_append_time=append)
    assert found_in(tmp_path, CHECK_MODULES) == []
