"""Wrong offsets, record counts and attributes of batches; what the cleaner does is not reported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kforensics.forensics.checks.partition import damage, structure
from kforensics.forensics.core.broker_settings import Setting
from kforensics.forensics.core.commands import UNLESS_REPLICAS_DIFFER
from kforensics.forensics.core.findings import Exactness, Finding, Severity
from kforensics.forensics.core.observations import Observed, observations_of
from kforensics.forensics.core.reporting import MOST
from kforensics.forensics.partition.log_summary import LogSummary, log_summary, merged_logs
from kforensics.forensics.partition.partition_files import CLEANER
from kforensics.parsers.columns.batch_columns import BatchColumns, column_dtype
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import LOG_APPEND_TIME_BIT, Batch
from kforensics.parsers.log.batches import walk
from lab.places import SAMPLES
from tests.forensics.batch_notation import NOW
from tests.forensics.checks.partition.check_runs import (
    HEALTHY_SCENARIOS,
    RULES,
    code_names,
    findings_in_sample,
    found_in,
    state_under,
)
from tests.forensics.forge import drop, file_of, forge, patch, swap

FIRES = {
    "offset-not-monotonic": "test_batch_after_a_later_one_is_found",
    "offset-overlap": "test_batch_that_begins_too_early_is_found",
    "offset-gap": "test_gap_in_a_log_that_is_not_cleaned_is_found",
    "batch-magic-old": "test_old_formats_are_reported_once",
    "batch-attributes-unknown": "test_unknown_attributes_are_found",
    "seq-count-mismatch": "test_wrong_count_is_found",
}
SILENT = dict.fromkeys(structure.CODES, "test_real_logs_are_in_order")
CHECK_MODULES = (structure, damage)
FIVE = "plain @0-4; plain @5-9; plain @10-14; plain @15-19; plain @20-24"
# Example 22 of the specification of transactions: a compacted log.
CLEANED = {
    0: "D 1 0 0-4 @0-4 T cnt 2; M 1 0 C 3 @5; D 2 0 0-0 @9-9 T cnt 0; M 2 0 A 3 @12; empty 3 1 @15; plain @19",
    20: "plain @20-21",
}


@pytest.mark.parametrize("scenario", HEALTHY_SCENARIOS)
def test_real_logs_are_in_order(scenario: str) -> None:
    """Only old brokers wrote old formats."""
    findings = findings_in_sample(scenario, CHECK_MODULES)
    assert bool(findings) is scenario.startswith(("legacy-magic", "format-downgrade"))
    assert all(code_names(group) == ["batch-magic-old"] for group in findings.values())


def _the_one(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


def _position(log: Path, base_offset: int) -> int:
    rows = (row for row in walk(open_source(log)) if isinstance(row, Batch))
    return next(row.position for row in rows if row.base_offset == base_offset)


def _rebase(log: Path, base_offset: int, other: int) -> None:
    data, at = bytearray(log.read_bytes()), _position(log, base_offset)
    data[at : at + 8] = other.to_bytes(8, "big", signed=True)
    log.write_bytes(bytes(data))


def test_gap_in_a_log_that_is_not_cleaned_is_found(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, FIVE))
    drop(log, 10)
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.code.name, finding.severity, finding.exactness) == ("offset-gap", Severity.ERROR, Exactness.EXACT)
    assert (finding.first_offset, finding.last_offset, finding.evidence["missing"]) == (10, 14, 5)
    assert (finding.path, finding.position) == (str(log), _position(log, 15))


@pytest.mark.parametrize(
    ("entity", "policy", "severity"),
    [
        ("topic t", "compact,delete", Severity.INFO),
        (None, "compact", Severity.INFO),
        ("topic t", "delete", Severity.ERROR),
        ("topic other", "compact", Severity.ERROR),
    ],
)
def test_gap_in_a_topic_that_is_known_to_be_compacted_may_come_from_its_leader(
    tmp_path: Path, entity: str | None, policy: str, severity: Severity
) -> None:
    drop(file_of(forge(tmp_path, FIVE)), 10)
    settings = (Setting("cleanup.policy", policy, "metadata log, topic t", entity),)
    finding = _the_one(found_in(tmp_path, CHECK_MODULES, replace(RULES, topic_settings=settings)))
    assert (finding.code.name, finding.severity) == ("offset-gap", severity)
    known = f"likely, cleanup.policy is {policy} (metadata log, topic t)"
    assert (known in finding.benign[-1]) == (severity is Severity.INFO)
    assert (finding.remedy == UNLESS_REPLICAS_DIFFER) == (severity is Severity.INFO)


def test_gap_proves_nothing_where_the_cleaner_is_not_known(tmp_path: Path) -> None:
    drop(file_of(forge(tmp_path, FIVE, replaced={CLEANER: None})), 10)
    assert found_in(tmp_path, CHECK_MODULES) == []


def test_cleaned_log_has_gaps_and_partially_compacted_batches(tmp_path: Path) -> None:
    forge(tmp_path, CLEANED, compacted=True)
    assert found_in(tmp_path, CHECK_MODULES) == []


def test_missing_front_is_no_gap(tmp_path: Path) -> None:
    forge(tmp_path, {100: "plain @107-109; plain @110"})
    assert found_in(tmp_path, CHECK_MODULES) == []


def test_missing_front_of_a_later_segment_is_a_gap(tmp_path: Path) -> None:
    """No segment is missing: its name shows that it began where the previous one ends."""
    drop(file_of(forge(tmp_path, {0: "plain @0-4", 5: "plain @5-9; plain @10"}), 5), 5)
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.code.name, finding.first_offset, finding.last_offset) == ("offset-gap", 5, 9)


@pytest.mark.parametrize("base_offset", [6, 7])
def test_missing_segment_is_left_to_others(tmp_path: Path, base_offset: int) -> None:
    forge(tmp_path, {0: "plain @0-4", base_offset: f"plain @{base_offset}-9"})
    assert found_in(tmp_path, CHECK_MODULES) == []


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_internal_topic_may_come_from_a_leader_that_cleaned_it(tmp_path: Path, topic: str) -> None:
    drop(file_of(forge(tmp_path, FIVE, topic=topic)), 10)
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.severity, finding.exactness) == (Severity.INFO, Exactness.APPROXIMATE)
    assert finding.benign[-1].endswith("likely, the topic is compacted")


def test_what_a_leader_compacted_needs_no_action_here(tmp_path: Path) -> None:
    forge(tmp_path, "plain @0-4 cnt 2; plain @9; plain @10-11", topic="__consumer_offsets")
    findings = found_in(tmp_path, CHECK_MODULES)
    assert code_names(findings) == ["offset-gap", "seq-count-mismatch"]
    assert all(finding.severity is Severity.INFO for finding in findings)
    assert all(finding.remedy == UNLESS_REPLICAS_DIFFER for finding in findings)


def test_partially_compacted_batches_next_to_gaps_suggest_compaction(tmp_path: Path) -> None:
    forge(tmp_path, "plain @0-4 cnt 2; plain @9; plain @10-11")
    findings = found_in(tmp_path, CHECK_MODULES)
    assert [(finding.code.name, finding.severity) for finding in findings] == [
        ("offset-gap", Severity.WARNING),
        ("seq-count-mismatch", Severity.WARNING),
    ]
    assert "likely, 4 offsets are missing, and 1 batch, with offsets 0 to 4, holds fewer" in findings[0].benign[-1]


def test_batch_after_a_later_one_is_found(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, FIVE))
    swap(log, 5, 15)
    findings = found_in(tmp_path, CHECK_MODULES)
    assert [
        (finding.code.name, finding.first_offset, finding.evidence["previous_last_offset"]) for finding in findings
    ] == [
        ("offset-not-monotonic", 10, 19),
        ("offset-not-monotonic", 5, 14),
    ]
    assert {finding.severity for finding in findings} == {Severity.CRITICAL}


def test_batch_written_twice_is_found_once(tmp_path: Path) -> None:
    forge(tmp_path, "plain @0-2; plain @3-5; plain @3-5; plain @6")
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.code.name, finding.first_offset, finding.last_offset) == ("offset-not-monotonic", 3, 5)
    assert finding.benign == (
        "append repeated after a failed index entry, before 2.3 (KAFKA-7866): possible, both end at the same offset",
    )


def test_batch_from_elsewhere_leaves_no_gap(tmp_path: Path) -> None:
    forge(tmp_path, "plain @0-4; plain @5-9; plain @2-4; plain @10-14")
    assert code_names(found_in(tmp_path, CHECK_MODULES)) == ["offset-not-monotonic"]


def test_gap_that_a_later_repetition_would_fill_is_still_found(tmp_path: Path) -> None:
    forge(tmp_path, "plain @0-4; plain @10-14; plain @15-19; plain @10-14; plain @20")
    findings = found_in(tmp_path, CHECK_MODULES)
    assert [(finding.code.name, finding.first_offset) for finding in findings] == [
        ("offset-not-monotonic", 10),
        ("offset-gap", 5),
    ]


def test_batch_that_begins_too_early_is_found(tmp_path: Path) -> None:
    forge(tmp_path, "plain @0-2; plain @2-5; plain @6")
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.code.name, finding.severity) == ("offset-overlap", Severity.CRITICAL)
    assert (finding.first_offset, finding.last_offset, finding.evidence["previous_last_offset"]) == (2, 5, 2)


@pytest.mark.parametrize("base_offset", [0, 3, 8, 9, 12, 14, 1034])
def test_wrong_base_offset_is_one_finding(tmp_path: Path, base_offset: int) -> None:
    """No checksum covers it; the batches on both sides are in the right place."""
    _rebase(file_of(forge(tmp_path, FIVE)), 10, base_offset)
    assert code_names(found_in(tmp_path, CHECK_MODULES)) in (["offset-not-monotonic"], ["offset-overlap"])


@pytest.mark.parametrize(("gone", "wrong"), [(5, 15), (20, 10)])
def test_gap_next_to_a_batch_out_of_order_is_still_found(tmp_path: Path, gone: int, wrong: int) -> None:
    text = "; ".join(f"plain @{base}-{base + 4}" for base in range(0, 40, 5))
    log = file_of(forge(tmp_path, text))
    drop(log, gone)
    _rebase(log, wrong, 1000)
    assert code_names(found_in(tmp_path, CHECK_MODULES)) == ["offset-not-monotonic", "offset-gap"]


def test_wrong_checksum_leaves_offsets_alone(tmp_path: Path) -> None:
    patch(file_of(forge(tmp_path, FIVE)), 10, last_offset_delta=7, count=5, attributes=0x700, fix_crc=False)
    assert found_in(tmp_path, CHECK_MODULES) == []


def test_lost_offsets_of_damaged_bytes_are_reported_with_these(tmp_path: Path) -> None:
    patch(file_of(forge(tmp_path, FIVE)), 10, length=0, fix_crc=False)
    assert found_in(tmp_path, CHECK_MODULES) == []


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_reported_once(magic: int) -> None:
    finding = _the_one(found_in(SAMPLES / "damaged" / "legacy" / f"magic-{magic}-gzip-0", CHECK_MODULES))
    assert (finding.code.name, finding.severity) == ("batch-magic-old", Severity.INFO)
    assert (finding.first_offset, finding.last_offset, finding.evidence["batches"]) == (0, 7, 5)


@pytest.mark.parametrize("attributes", [0x80, 0x4000, -0x8000, 5, 6, 7])
def test_unknown_attributes_are_found(tmp_path: Path, attributes: int) -> None:
    patch(file_of(forge(tmp_path, FIVE)), 10, attributes=attributes)
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.code.name, finding.severity) == ("batch-attributes-unknown", Severity.WARNING)
    assert (finding.first_offset, finding.last_offset) == (10, 14)
    assert finding.evidence == {"batches": 1, "attributes": attributes % 65536, "written_ms": NOW + 10}


@pytest.mark.parametrize("attributes", [1, 2, 3, 4, LOG_APPEND_TIME_BIT, 0x10, 0x40])
def test_known_attributes_are_not_found(tmp_path: Path, attributes: int) -> None:
    patch(file_of(forge(tmp_path, FIVE)), 10, attributes=attributes)
    assert found_in(tmp_path, CHECK_MODULES) == []


@pytest.mark.parametrize("sample", ["magic-0-zstd-0", "magic-1-zstd-0", "magic-1-codec-5-0"])
def test_codecs_that_old_formats_do_not_have_are_found(sample: str) -> None:
    findings = found_in(SAMPLES / "damaged" / "legacy" / sample, CHECK_MODULES)
    assert code_names(findings) == ["batch-magic-old", "batch-attributes-unknown"]


@pytest.mark.parametrize("count", [0, 4, 6])
def test_wrong_count_is_found(tmp_path: Path, count: int) -> None:
    patch(file_of(forge(tmp_path, FIVE)), 10, count=count)
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.code.name, finding.severity, finding.exactness) == (
        "seq-count-mismatch",
        Severity.ERROR,
        Exactness.EXACT,
    )
    assert (finding.first_offset, finding.evidence["largest_excess"]) == (10, count - 5)


def test_wrong_counts_of_all_producers_are_one_finding(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, "D 1 0 0-4 @0-4 N; D 2 0 0-4 @5-9 N; D 1 0 5-9 @10-14 N; D 1 0 10-14 @15-19 N"))
    for base_offset, count in ((0, 6), (5, 8), (10, 7)):
        patch(log, base_offset, count=count)
    finding = _the_one(found_in(tmp_path, CHECK_MODULES))
    assert (finding.first_offset, finding.last_offset, finding.position) == (0, 14, 0)
    assert finding.evidence == {"batches": 3, "largest_excess": 3, "written_ms": NOW}
    assert finding.message == (
        "3 batches between offsets 0 and 14 have a different number of records than offsets: one has 3 more."
    )


@pytest.mark.parametrize(("count", "expected"), [(4, []), (6, ["seq-count-mismatch"])])
def test_cleaner_takes_records_out_and_adds_none(tmp_path: Path, count: int, expected: list[str]) -> None:
    patch(file_of(forge(tmp_path, FIVE, compacted=True, first_dirty=25)), 10, count=count)
    assert code_names(found_in(tmp_path, CHECK_MODULES)) == expected


def _column_of_gaps(count: int) -> BatchColumns:
    """Return batches of one record with every second batch missing."""
    given = {
        "base_offset": np.arange(count) * 2,
        "last_offset": np.arange(count) * 2,
        "position": np.arange(count) * 70,
    }
    constant = {"size": 70, "count": 1, "magic": 2, "crc_valid": True, "exact": True, "control": -1, "producer_id": -1}
    names_of_columns = BatchColumns.__dataclass_fields__
    return BatchColumns(
        *(
            given.get(name, np.full(count, constant.get(name, 0))).astype(column_dtype(name))
            for name in names_of_columns
        )
    )


@pytest.mark.parametrize("sizes", [[5000], [1, 4999], [2500, 2500], [1700, 1700, 1600], [999, 1001, 3000]])
def test_many_gaps_are_counted_alike_however_the_log_was_split(tmp_path: Path, sizes: list[int]) -> None:
    forge(tmp_path, FIVE)
    state = state_under(tmp_path, CHECK_MODULES)
    batches, log, start = _column_of_gaps(5000), LogSummary.empty(), 0
    for size in sizes:
        part = log_summary(batches[start : start + size], RULES, [structure.COLLECTOR])
        log, start = merged_logs(log, part, RULES, [structure.COLLECTOR]), start + size
    assert len(observations_of(log.observations, Observed.OFFSET_GAP)) <= len(sizes) * (MOST + 1)
    findings = list(structure.findings(replace(state, log=log)))
    assert [finding.first_offset for finding in findings] == [2 * at + 1 for at in range(MOST)]
    assert findings[-1].evidence["left_out"] == 4999 - MOST
