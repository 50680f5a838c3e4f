"""Segments that overlap, have a wrong name or are missing; cleaning, deletion and remote storage are not reported."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import kforensics
from kforensics.forensics.checks.partition import damage, segments, structure
from kforensics.forensics.core.broker_settings import Setting
from kforensics.forensics.core.findings import Exactness, Finding, Severity
from kforensics.forensics.explain.offset_story import RecordStatus
from kforensics.forensics.partition.partition_files import CLEANER
from tests.forensics.batch_notation import NOW
from tests.forensics.checks.partition.check_runs import (
    HEALTHY_SCENARIOS,
    RULES,
    code_names,
    findings_in_sample,
    found_in,
    state_under,
)
from tests.forensics.explain.stories import story
from tests.forensics.forge import cut, file_of, forge, patch, remove_segment

FIRES = {
    "segment-missing": "test_missing_segment_is_found",
    "segment-overlap": "test_segment_that_reaches_over_the_next_is_found",
    "segment-base-mismatch": "test_segment_that_begins_below_its_name_is_found",
}
SILENT = dict.fromkeys(segments.CODES, "test_real_segments_are_contiguous")
CHECK_MODULES = (segments, structure, damage)
FOUR = {0: "plain @0-9", 10: "plain @10-19", 20: "plain @20-29", 30: "plain @30-39"}


@pytest.mark.parametrize("scenario", HEALTHY_SCENARIOS)
def test_real_segments_are_contiguous(scenario: str) -> None:
    assert findings_in_sample(scenario, CHECK_MODULES) == {}


def _the_one(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


def test_missing_segment_is_found(tmp_path: Path) -> None:
    partition = forge(tmp_path, FOUR)
    file_of(partition, 10).unlink()
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.code.name, finding.severity, finding.exactness) == (
        "segment-missing",
        Severity.CRITICAL,
        Exactness.EXACT,
    )
    assert (finding.first_offset, finding.last_offset, finding.evidence["missing"]) == (10, 19, 10)
    assert (finding.path, finding.position, finding.cause) == (
        str(file_of(partition)),
        file_of(partition).stat().st_size,
        None,
    )


def test_emptied_segment_is_as_good_as_missing(tmp_path: Path) -> None:
    cut(file_of(forge(tmp_path, FOUR), 10), 0)
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.code.name, finding.first_offset, finding.last_offset) == ("segment-missing", 10, 19)


def test_missing_segment_and_front_of_the_next_are_one_finding(tmp_path: Path) -> None:
    forge(tmp_path, {0: "plain @0-9", 20: "plain @25-29"})
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.first_offset, finding.last_offset) == (10, 24)


def test_missing_head_is_deleted_or_on_remote_storage(tmp_path: Path) -> None:
    partition = forge(tmp_path, FOUR)
    for base_offset in (0, 10):
        file_of(partition, base_offset).unlink()
    assert found_in(tmp_path, CHECK_MODULES) == []


def test_front_of_a_segment_is_left_to_others(tmp_path: Path) -> None:
    forge(tmp_path, {0: "plain @0-9", 10: "plain @15-19"})
    assert found_in(tmp_path, CHECK_MODULES) == []


def test_a_torn_end_may_explain_the_whole_gap(tmp_path: Path) -> None:
    cut(file_of(forge(tmp_path, FOUR), 10), -1)
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.code.name, finding.cause) == ("segment-missing", "batch-truncated")


def test_segment_may_have_been_renamed_while_it_was_copied(tmp_path: Path) -> None:
    partition = forge(tmp_path, FOUR)
    path = file_of(partition, 10)
    path.rename(f"{path}.deleted")
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.severity, finding.exactness) == (Severity.WARNING, Exactness.APPROXIMATE)
    assert finding.evidence["deleted"] == [f"{path}.deleted"]


@pytest.mark.parametrize(("base_offset", "kind"), [(0, "log"), (9, "log"), (20, "log"), (10, "index")])
def test_other_deleted_files_are_no_excuse(tmp_path: Path, base_offset: int, kind: str) -> None:
    partition = forge(tmp_path, FOUR)
    file_of(partition, 10).rename(f"{file_of(partition, base_offset, kind)}.deleted")
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.severity, finding.evidence["deleted"]) == (Severity.CRITICAL, [])


def test_other_damage_is_not_what_is_missing(tmp_path: Path) -> None:
    partition = forge(tmp_path, FOUR)
    file_of(partition, 20).unlink()
    patch(file_of(partition, 10), 10, crc=1)
    cut(file_of(partition, 30), -1)
    assert _the_one(found_in(tmp_path, CHECK_MODULES)).cause is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("plain @0-9", ["segment-missing"]), ("plain @0-9 cnt 5", []), ("plain @0-2; plain @5-9", [])],
)
def test_without_the_cleaners_checkpoint_traces_of_it_decide(tmp_path: Path, text: str, expected: list[str]) -> None:
    forge(tmp_path, {0: text, 20: "plain @20-29"}, replaced={CLEANER: None})
    findings = found_in(tmp_path, CHECK_MODULES)
    assert code_names(findings) == expected
    assert all(
        finding.exactness is Exactness.APPROXIMATE and finding.severity is Severity.CRITICAL for finding in findings
    )


@pytest.mark.parametrize(("first_dirty", "expected"), [(0, ["segment-missing"]), (5, []), (20, []), (30, [])])
def test_cleaner_takes_segments_as_far_as_it_came(tmp_path: Path, first_dirty: int, expected: list[str]) -> None:
    partition = forge(tmp_path, FOUR, first_dirty=first_dirty)
    file_of(partition, 10).unlink()
    findings = found_in(tmp_path, CHECK_MODULES)
    assert code_names(findings) == expected
    assert all(finding.exactness is Exactness.APPROXIMATE for finding in findings)


def test_offset_gap_after_the_cleaned_part_is_found(tmp_path: Path) -> None:
    partition = forge(tmp_path, {**FOUR, 40: "plain @40-49"}, first_dirty=20)
    file_of(partition, 30).unlink()
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.severity, finding.first_offset, finding.last_offset) == (Severity.CRITICAL, 30, 39)
    assert finding.benign[-2:] == (
        "cleaner: ruled out, it only reached offset 20",
        "fetched from a leader that had compacted it: no, other files of a missing segment are left",
    )


@pytest.mark.parametrize(
    ("first_dirty", "left", "severity"),
    [
        (20, None, Severity.INFO),
        (0, None, Severity.INFO),
        (None, None, Severity.CRITICAL),
        (20, f"{30:020}.index", Severity.CRITICAL),
        (20, f"{30:020}.timeindex", Severity.CRITICAL),
        (20, f"{35:020}.snapshot", Severity.CRITICAL),
        (20, f"{30:020}.snapshot", Severity.INFO),
    ],
    ids=["cleaned", "truncated since", "never cleaned", "index", "time index", "snapshot", "snapshot when it stopped"],
)
def test_a_replica_that_was_away_fetched_what_its_leader_had_compacted(
    tmp_path: Path, first_dirty: int | None, left: str | None, severity: Severity
) -> None:
    """A broker of 2.7.2 was stopped, and fetched 1,440 offsets less when it came back; its cleaner had not run again.

    Unless another file of the missing segment shows that it was there.
    """
    partition = forge(tmp_path, {**FOUR, 40: "plain @40-49"}, first_dirty=first_dirty)
    remove_segment(partition, 30)
    if left is not None:
        shutil.copy(partition / f"{10:020}.{left.rpartition('.')[2]}", partition / left)
    finding = _the_one(found_in(tmp_path, (segments,)))
    assert (finding.code.name, finding.severity) == ("segment-missing", severity)
    assert ("lists the partition" in finding.benign[-1]) == (severity is Severity.INFO)
    assert (finding.remedy is not None) == (severity is Severity.INFO)
    status = RecordStatus.COMPACTED if severity is Severity.INFO else RecordStatus.LOST
    assert story(tmp_path, 33).status is status


def test_what_a_leader_had_compacted_is_not_lost(tmp_path: Path) -> None:
    remove_segment(forge(tmp_path, FOUR, first_dirty=5, clean_shutdown=True), 20)
    (incident,) = kforensics.audit(tmp_path, as_of=NOW).incidents.to_pylist()
    assert (incident["kind"], incident["severity"], incident["lost_records"]) == ("missing-offsets", "info", None)


@pytest.mark.parametrize(("clean_shutdown", "expected"), [(False, []), (True, ["segment-missing"])])
def test_cleaner_of_a_running_broker_may_have_gone_on_up_to_the_active_segment(
    tmp_path: Path, clean_shutdown: bool, expected: list[str]
) -> None:
    """Its checkpoint is copied first, and is out of date when the segments are copied."""
    log = {**FOUR, 40: "plain @40-49"}
    partition = forge(tmp_path, log, first_dirty=20, clean_shutdown=clean_shutdown)
    file_of(partition, 30).unlink()
    assert code_names(found_in(tmp_path, CHECK_MODULES)) == expected


CLEANED_BATCHES = {0: "plain @1; plain @3; plain @5; plain @7", 10: "plain @12", 20: "plain @20", 30: "plain @30"}


@pytest.mark.parametrize(
    ("segments", "clean_shutdown", "expected"),
    [
        (CLEANED_BATCHES, False, set()),
        (CLEANED_BATCHES, True, {"offset-gap", "segment-missing"}),
        (CLEANED_BATCHES | {30: "plain @30; plain @32"}, False, {"offset-gap", "segment-missing"}),
        (CLEANED_BATCHES | {0: "plain @0-3; plain @5; plain @7"}, False, {"offset-gap", "segment-missing"}),
        ({0: "plain @0-9", 20: "plain @20-29", 40: "plain @40-49", 60: "plain @60"}, False, {"segment-missing"}),
    ],
    ids=["cleaned", "stopped", "missing in the active segment", "once or twice", "between segments only"],
)
def test_whole_batches_were_cleaned_after_the_cleaners_checkpoint_was_copied(
    tmp_path: Path, segments: dict[int, str], clean_shutdown: bool, expected: set[str]
) -> None:
    """Unless they are missing where no cleaner has been, or where a segment is."""
    forge(tmp_path, segments, clean_shutdown=clean_shutdown)
    found = (found_in(tmp_path, modules) for modules in (CHECK_MODULES, (structure, damage)))
    assert {name for findings in found for name in code_names(findings)} == expected


def test_replica_of_a_cleaned_log_names_segments_after_batches(tmp_path: Path) -> None:
    """A follower names a segment after the first batch it fetches, even if offsets before it are missing."""
    forge(tmp_path, {0: "plain @0-9", 20: "plain @20-29"}, topic="__consumer_offsets")
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.severity, finding.exactness) == (Severity.WARNING, Exactness.APPROXIMATE)
    assert "fetched from a leader that had compacted it: likely" in finding.benign[-1]


@pytest.mark.parametrize("highest", [10, 11])
def test_segment_that_reaches_over_the_next_is_found(tmp_path: Path, highest: int) -> None:
    text = f"plain @0-9; plain @10-{highest}"
    partition = forge(tmp_path, {0: text, 10: "plain @10-19", 20: "plain @20"})
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.code.name, finding.severity, finding.exactness) == (
        "segment-overlap",
        Severity.CRITICAL,
        Exactness.EXACT,
    )
    assert (finding.first_offset, finding.last_offset, finding.path) == (10, highest, str(file_of(partition)))


@pytest.mark.parametrize(("state", "base_offset"), [("swap", 0), ("cleaned", 10)])
def test_interrupted_cleaning_may_leave_both_generations(tmp_path: Path, state: str, base_offset: int) -> None:
    partition = forge(tmp_path, {0: "plain @0-9; plain @10-11", 10: "plain @10-19"})
    unfinished = partition / f"{base_offset:020}.log.{state}"
    unfinished.write_bytes(file_of(partition).read_bytes())
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.severity, finding.exactness) == (Severity.WARNING, Exactness.APPROXIMATE)
    assert finding.evidence["unfinished"] == [str(unfinished)]


@pytest.mark.parametrize(
    ("first_dirty", "clean_shutdown", "severity"),
    [
        (12, False, Severity.WARNING),
        (10, False, Severity.CRITICAL),
        (None, False, Severity.CRITICAL),
        (12, True, Severity.CRITICAL),
    ],
    ids=["cleaned", "not cleaned so far", "never cleaned", "of a broker that was stopped"],
)
def test_a_copy_may_hold_a_segment_before_it_was_cleaned_and_one_after(
    tmp_path: Path, first_dirty: int | None, clean_shutdown: bool, severity: Severity
) -> None:
    """The first one replaced both, after the second one had been copied."""
    text = {0: "plain @0-9; plain @10-10", 10: "plain @10-19"}
    forge(tmp_path, text, first_dirty=first_dirty, clean_shutdown=clean_shutdown)
    (finding,) = (result for result in found_in(tmp_path, CHECK_MODULES) if result.code.name == "segment-overlap")
    assert finding.severity == severity
    assert ("likely, compacted here" in finding.benign[-1]) == (severity is Severity.WARNING)


def test_cleaning_further_on_is_no_excuse(tmp_path: Path) -> None:
    partition = forge(tmp_path, {0: "plain @0-9; plain @10-11", 10: "plain @10-19"})
    (partition / f"{11:020}.log.swap").write_bytes(b"")
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.severity, finding.evidence["unfinished"]) == (Severity.CRITICAL, [])


@pytest.mark.parametrize("named", [11, 15, 19])
def test_segment_that_begins_below_its_name_is_found(tmp_path: Path, named: int) -> None:
    partition = forge(tmp_path, FOUR)
    file_of(partition, 10).rename(file_of(partition, named))
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.code.name, finding.severity) == ("segment-base-mismatch", Severity.ERROR)
    assert (finding.first_offset, finding.last_offset, finding.evidence["base_offset"]) == (10, named - 1, named)
    assert finding.benign == ("renamed file: likely, its first batch continues the previous segment",)


def test_segment_that_follows_none_need_not_be_renamed(tmp_path: Path) -> None:
    partition = forge(tmp_path, {0: "plain @0-4", 10: "plain @10-19"})
    file_of(partition, 10).rename(file_of(partition, 12))
    mismatch, missing = found_in(tmp_path, CHECK_MODULES)
    assert (mismatch.code.name, mismatch.benign) == ("segment-base-mismatch", ("renamed file: possible",))
    assert (missing.code.name, missing.first_offset, missing.last_offset) == ("segment-missing", 5, 9)


def test_first_segment_that_begins_below_its_name_need_not_be_renamed(tmp_path: Path) -> None:
    partition = forge(tmp_path, "plain @5-9")
    file_of(partition, 5).rename(file_of(partition, 7))
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.code.name, finding.benign) == ("segment-base-mismatch", ("renamed file: possible",))


def test_partition_without_segments_has_none_missing(tmp_path: Path) -> None:
    forge(tmp_path, FOUR)
    state = state_under(tmp_path, CHECK_MODULES)
    assert list(segments.findings(replace(state, partition=replace(state.partition, segments=())))) == []


@pytest.mark.parametrize(
    ("entity", "policy", "severity"),
    [
        ("topic t", "compact,delete", Severity.WARNING),
        (None, "compact", Severity.WARNING),
        ("topic t", "delete", Severity.CRITICAL),
        ("topic other", "compact", Severity.CRITICAL),
    ],
)
def test_a_topic_that_is_known_to_be_compacted_may_have_been_on_its_leader(
    tmp_path: Path, entity: str | None, policy: str, severity: Severity
) -> None:
    remove_segment(forge(tmp_path, FOUR), 10)
    settings = (Setting("cleanup.policy", policy, "metadata log, topic t", entity),)
    finding = _the_one(found_in(tmp_path, CHECK_MODULES, replace(RULES, topic_settings=settings)))
    assert (finding.code.name, finding.severity) == ("segment-missing", severity)
    known = f"likely, cleanup.policy is {policy} (metadata log, topic t)"
    assert (known in finding.benign[-1]) == (severity is Severity.WARNING)
