"""Damaged bytes are classified by their possible causes; what real brokers leave raises no alarm."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from kforensics.forensics.checks.partition import damage, structure
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.reporting import MOST
from kforensics.parsers.format.rows import Damage
from lab.places import SAMPLES
from tests.forensics.checks.partition.check_runs import (
    HEALTHY_SCENARIOS,
    RULES,
    code_names,
    findings_in_sample,
    found_in,
    state_under,
)
from tests.forensics.forge import cut, drop, file_of, forge, patch

FIRES = {
    "batch-crc-mismatch": "test_wrong_checksum_is_found",
    "batch-truncated": "test_cut_batch_is_found",
    "batch-length-invalid": "test_broken_length_is_found",
}
SILENT = dict.fromkeys(damage.CODES, "test_real_logs_are_not_damaged")
CHECK_MODULES = (damage, structure)
THREE = "plain @0-2; plain @3-5; plain @6-8"
SEGMENTS = {0: "plain @0-2; plain @3-5", 6: "plain @6-8; plain @9"}
# What brokers left that the lab made crash.
TORN = {
    "crash-before-recovery/broker-1/preallocated-0": ("batch-truncated", Severity.INFO),
    "crash-before-recovery/broker-1/torn-0": ("batch-truncated", Severity.WARNING),
}


@pytest.mark.parametrize("scenario", HEALTHY_SCENARIOS)
def test_real_logs_are_not_damaged(scenario: str) -> None:
    findings = findings_in_sample(scenario, CHECK_MODULES)
    severities = {
        folder: [(finding.code.name, finding.severity) for finding in group] for folder, group in findings.items()
    }
    assert severities == {folder: [torn] for folder, torn in TORN.items() if folder.startswith(f"{scenario}/")}


def _flip(log: Path, position: int) -> None:
    data = bytearray(log.read_bytes())
    data[position] ^= 1
    log.write_bytes(bytes(data))


def _the_one(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


@pytest.mark.parametrize("at", [-1, 1, 70])
def test_wrong_checksum_is_found(tmp_path: Path, at: int) -> None:
    log = file_of(forge(tmp_path, THREE, clean_shutdown=False))
    size = log.stat().st_size // 3
    _flip(log, size + at if at > 1 else 2 * size - 1)
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.code.name, finding.severity) == ("batch-crc-mismatch", Severity.CRITICAL)
    assert (finding.first_offset, finding.last_offset, finding.position) == (3, 5, size)
    assert finding.path == str(log)
    assert finding.benign[0].startswith("copied while the broker was writing: ruled out")


@pytest.mark.parametrize(
    ("written", "clean", "severity"),
    [(0, False, Severity.WARNING), (-60_000, False, Severity.CRITICAL), (0, True, Severity.CRITICAL)],
)
def test_last_batch_may_have_been_copied_too_early(
    tmp_path: Path, written: int, clean: bool, severity: Severity
) -> None:
    """Only if the file was being written when it was copied, and the broker was not shut down cleanly."""
    log = file_of(forge(tmp_path, THREE, clean_shutdown=clean))
    _flip(log, log.stat().st_size - 1)
    seconds = (RULES.as_of_ms + written) // 1000
    os.utime(log, (seconds, seconds))
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.code.name, finding.severity) == ("batch-crc-mismatch", severity)


def test_only_the_last_segment_is_being_written(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, SEGMENTS, clean_shutdown=False), 6)
    _flip(log, log.stat().st_size - 1)
    for path in log.parent.iterdir():
        os.utime(path, (0, 0))
    os.utime(log, (RULES.as_of_ms // 1000, RULES.as_of_ms // 1000))
    assert _the_one(found_in(tmp_path, CHECK_MODULES)).severity is Severity.WARNING


def test_last_batch_of_an_earlier_segment_was_not_being_written(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, SEGMENTS, clean_shutdown=False))
    _flip(log, log.stat().st_size - 1)
    for path in log.parent.iterdir():
        os.utime(path, (RULES.as_of_ms // 1000, RULES.as_of_ms // 1000))
    assert _the_one(found_in(tmp_path, CHECK_MODULES)).severity is Severity.CRITICAL


@pytest.mark.parametrize("left", [1, 17, 40, 70])
def test_cut_batch_is_found(tmp_path: Path, left: int) -> None:
    log = file_of(forge(tmp_path, THREE, clean_shutdown=False))
    end = 2 * log.stat().st_size // 3
    log.write_bytes(log.read_bytes()[:end] + b"\1" * left if left == 1 else log.read_bytes()[: end + left])
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.code.name, finding.severity, finding.position) == ("batch-truncated", Severity.WARNING, end)
    assert finding.benign[0].endswith("likely, the log ends here")


def test_clean_stop_does_not_excuse_a_cut_batch(tmp_path: Path) -> None:
    cut(file_of(forge(tmp_path, THREE)), -1)
    assert _the_one(found_in(tmp_path, CHECK_MODULES)).benign[0].endswith("clean shutdown")


def test_cut_in_an_earlier_segment_is_an_error_and_names_what_is_lost(tmp_path: Path) -> None:
    cut(file_of(forge(tmp_path, SEGMENTS)), -1)
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.code.name, finding.severity) == ("batch-truncated", Severity.ERROR)
    assert (finding.first_offset, finding.last_offset) == (3, 5)


def test_zero_tail_is_info_in_the_last_segment_and_an_error_elsewhere(tmp_path: Path) -> None:
    forge(tmp_path, SEGMENTS)
    log = tmp_path / "t-0" / f"{6:020}.log"
    log.write_bytes(log.read_bytes() + bytes(300))
    assert _the_one(found_in(tmp_path, CHECK_MODULES)).severity is Severity.INFO
    log = file_of(log.parent)
    log.write_bytes(log.read_bytes() + bytes(300))
    assert [finding.severity for finding in found_in(tmp_path, CHECK_MODULES)] == [Severity.ERROR, Severity.INFO]


@pytest.mark.parametrize("length", [-5, 0, 13, 20, 48, 2**31 - 1])
def test_broken_length_is_found(tmp_path: Path, length: int) -> None:
    log = file_of(forge(tmp_path, THREE))
    size = log.stat().st_size // 3
    patch(log, 3, length=length, fix_crc=False)
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.code.name, finding.severity) == ("batch-length-invalid", Severity.CRITICAL)
    assert (finding.first_offset, finding.last_offset, finding.position) == (3, 5, size)
    assert finding.evidence["next_good_position"] == 2 * size


def test_messages_have_position_and_reason(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, THREE, clean_shutdown=False))
    end = 2 * log.stat().st_size // 3
    patch(log, 0, crc=7)
    patch(log, 6, length=0, fix_crc=False)
    wrong, broken = (finding.message for finding in found_in(tmp_path, CHECK_MODULES))
    assert wrong.startswith("Corrupt batch with offsets 0 to 2 at position 0: the stored checksum 7 ")
    assert broken.startswith(f"No valid batch from position {end} to the end of the segment: Found record size 0 ")


def test_unknown_magic_breaks_the_chain(tmp_path: Path) -> None:
    patch(file_of(forge(tmp_path, THREE)), 3, magic=3, fix_crc=False)
    assert code_names(found_in(tmp_path, CHECK_MODULES)) == ["batch-length-invalid"]


def test_nothing_is_lost_in_bytes_between_batches(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, THREE))
    data, size = log.read_bytes(), log.stat().st_size // 3
    log.write_bytes(data[:size] + b"\xff" * 50 + data[size:])
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.code.name, finding.first_offset) == ("batch-length-invalid", None)


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        ("noise-between-0", "batch-length-invalid"),
        ("zeros-between-0", "batch-length-invalid"),
        ("magic-minus-1-0", "batch-length-invalid"),
        ("length-long-by-one-0", "batch-crc-mismatch"),
        ("flipped-crc-bit-0", "batch-crc-mismatch"),
        ("truncated-in-header-0", "batch-truncated"),
        ("zero-tail-300-0", "batch-truncated"),
    ],
)
def test_damaged_samples_have_their_code(sample: str, expected: str) -> None:
    assert code_names(found_in(SAMPLES / "damaged" / "batches" / sample, CHECK_MODULES)) == [expected]


def test_damage_inside_records_is_left_to_others(tmp_path: Path) -> None:
    forge(tmp_path, THREE)
    state = state_under(tmp_path, CHECK_MODULES)
    rows = tuple((0, Damage(0, 70, reason, "said", inside_batch=0)) for reason in ("codec", "record-structure"))
    assert code_names(damage.findings(replace(state, log=replace(state.log, damage=rows)))) == []


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("crc", "batch-crc-mismatch"),
        ("length", "batch-length-invalid"),
        ("magic", "batch-length-invalid"),
        ("shrunk", "batch-truncated"),
        ("truncated", "batch-truncated"),
        ("zero-tail", "batch-truncated"),
        ("zeros", "batch-length-invalid"),
    ],
)
def test_each_reason_of_a_walk_has_a_code(tmp_path: Path, reason: str, code: str) -> None:
    forge(tmp_path, THREE)
    state = state_under(tmp_path, CHECK_MODULES)
    row = Damage(300, 310, reason, "said")
    assert code_names(damage.findings(replace(state, log=replace(state.log, damage=((0, row),))))) == [code]


def test_more_than_can_be_read_are_counted(tmp_path: Path) -> None:
    forge(tmp_path, THREE)
    state = state_under(tmp_path, CHECK_MODULES)
    rows = tuple((0, Damage(at, at + 1, "length", "said", at + 1)) for at in range(MOST + 7))
    findings = list(damage.findings(replace(state, log=replace(state.log, damage=rows))))
    assert (len(findings), findings[-1].evidence["left_out"]) == (MOST, 7)


def test_dropped_batch_is_no_damage(tmp_path: Path) -> None:
    drop(file_of(forge(tmp_path, THREE)), 3)
    assert found_in(tmp_path, CHECK_MODULES) == []


TIMED = "plain @0-2 ts 1700000000000; plain @3-5 ts 1700000060000; plain @6-8 ts 1700000120000"
FIRST, SECOND, THIRD = (1_700_000_000_000 + 60_000 * number for number in range(3))


@pytest.mark.parametrize(
    ("batch", "between", "sentence"),
    [
        (0, [None, SECOND], "Written before 2023-11-14 22:14:20 UTC, by the batch after it."),
        (
            1,
            [FIRST, THIRD],
            "Written between 2023-11-14 22:13:20 UTC and 2023-11-14 22:15:20 UTC, by the batches around",
        ),
        (2, [SECOND, None], "Written after 2023-11-14 22:14:20 UTC, by the batch before it."),
    ],
)
def test_a_corrupt_batch_was_written_between_the_batches_around_it(
    tmp_path: Path, batch: int, between: list[int | None], sentence: str
) -> None:
    log = file_of(forge(tmp_path, TIMED, clean_shutdown=False))
    _flip(log, (batch + 1) * log.stat().st_size // 3 - 1)
    finding = _the_one(found_in(tmp_path, [damage]))
    assert finding.code.name == "batch-crc-mismatch"
    assert finding.evidence["written_between_ms"] == between
    assert finding.evidence["written_ms"] == (between[0] or between[1])
    assert sentence in finding.message


def test_of_several_damaged_batches_the_readable_ones_around_all_of_them_show_the_time(tmp_path: Path) -> None:
    size = file_of(forge(tmp_path / "three", TIMED)).stat().st_size // 3
    log = file_of(forge(tmp_path / "four", f"{TIMED}; plain @9-11 ts 1700000180000"))
    for batch in (1, 2):
        _flip(log, (batch + 1) * size - 1)
    findings = found_in(tmp_path / "four", [damage])
    assert [finding.evidence["written_between_ms"] for finding in findings] == [[FIRST, FIRST + 180_000]] * 2


@pytest.mark.parametrize(("batch", "between"), [(0, [None, SECOND]), (1, [FIRST, THIRD]), (2, [SECOND, None])])
def test_bytes_that_are_no_batch_were_written_between_the_batches_around_them(
    tmp_path: Path, batch: int, between: list[int | None]
) -> None:
    log = file_of(forge(tmp_path, TIMED))
    size, data = log.stat().st_size // 3, log.read_bytes()
    log.write_bytes(data[: batch * size] + b"\xff" * size + data[(batch + 1) * size :])
    finding = _the_one(found_in(tmp_path, [damage]))
    assert finding.code.name == "batch-length-invalid"
    assert finding.evidence["written_between_ms"] == between


def test_what_brokers_timed_is_dated_by_brokers(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, TIMED, log_append_time=True))
    cut(log, log.stat().st_size - 10)
    finding = _the_one(found_in(tmp_path, [damage]))
    assert finding.code.name == "batch-truncated"
    assert finding.evidence["appended_ms"] == SECOND
    assert "written_ms" not in finding.evidence


def test_zeros_at_the_end_have_no_time_of_writing(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, TIMED))
    with log.open("ab") as file:
        file.write(bytes(500))
    assert "written_between_ms" not in _the_one(found_in(tmp_path, [damage])).evidence
