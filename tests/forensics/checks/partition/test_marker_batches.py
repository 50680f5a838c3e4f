"""Control batches that neither a coordinator nor the cleaner writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kforensics.forensics.checks.partition import marker_batches
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.format.rows import CONTROL_BIT, TRANSACTIONAL_BIT
from tests.forensics.batch_notation import NOW
from tests.forensics.checks.partition.producer_states import DAY, SOON, codes_of, forged_findings, only, sample_state
from tests.forensics.forge import file_of, forge, patch
from tests.forensics.partition_states import SAMPLES, each_sample, state_under

FIRES = {
    "marker-malformed": "test_damaged_control_records",
    "marker-flags-unexpected": "test_a_marker_with_other_flags",
    "control-shell": "test_example_22_the_cleaner_leaves_empty_control_batches",
    "marker-timestamp-regressed": "test_a_marker_older_than_the_one_before",
}
SILENT = dict.fromkeys(FIRES, "test_samples_have_nothing_of_the_kind")
CONTROLS = SAMPLES / "damaged" / "controls"
MALFORMED = (
    *("control-key-empty", "control-key-null", "control-key-short", "control-key-version-negative"),
    *("control-type-9", "control-type-negative", "markers-two-in-one"),
    *("marker-value-empty", "marker-value-null", "marker-value-short", "marker-version-negative"),
)
EXPECTED = {name: ["marker-malformed"] for name in MALFORMED} | {
    "control-batch-empty": ["control-shell"],
    "marker-compressed": ["marker-flags-unexpected"],
    "marker-not-transactional": ["marker-flags-unexpected"],
}
ENDED = "D 1 0 0-0 @0-0 T; M 1 0 C 3 @1; plain @2"
MARKER = CONTROL_BIT | TRANSACTIONAL_BIT


@each_sample()
def test_samples_have_nothing_of_the_kind(partition: Partition) -> None:
    assert not list(marker_batches.findings(sample_state(partition)))


@pytest.mark.parametrize("folder", sorted(CONTROLS.iterdir()), ids=lambda path: str(path.name))
def test_damaged_control_records(folder: Path) -> None:
    """Kafka accepts longer values and higher versions; without a producer it is not a marker."""
    findings = list(marker_batches.findings(state_under(folder, as_of_ms=SOON, collectors=[marker_batches.COLLECTOR])))
    assert codes_of(findings) == EXPECTED.get(folder.name.removesuffix("-0"), [])
    assert all((finding.first_offset, finding.producer_id) == (6, 4711) for finding in findings)
    assert all(finding.path == str(folder / "00000000000000000000.log") for finding in findings)


def test_a_malformed_marker_is_an_error_that_says_how_many() -> None:
    (two,) = marker_batches.findings(
        state_under(CONTROLS / "markers-two-in-one-0", as_of_ms=SOON, collectors=[marker_batches.COLLECTOR])
    )
    assert two.severity is Severity.ERROR
    assert two.message == "The control batch of producer 4711 at offset 6 has 2 records."
    (unreadable,) = marker_batches.findings(
        state_under(CONTROLS / "control-type-9-0", as_of_ms=SOON, collectors=[marker_batches.COLLECTOR])
    )
    assert unreadable.message == "The control batch of producer 4711 at offset 6 cannot be read as a marker."


def test_malformed_markers_of_a_producer_are_reported_together(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, f"{ENDED}; D 1 0 1-1 @3-3 T; M 1 0 C 3 @4"))
    for offset in (1, 4):
        patch(log, offset, count=2)
    (both,) = marker_batches.findings(state_under(tmp_path, as_of_ms=SOON, collectors=[marker_batches.COLLECTOR]))
    assert both.message.endswith("at offset 1 has 2 records; 1 more of its control batches are malformed.")
    assert (both.first_offset, both.last_offset, both.evidence["batches"]) == (1, 4, 2)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"attributes": CONTROL_BIT}, id="not transactional"),
        pytest.param({"base_sequence": 5}, id="with a sequence"),
        pytest.param({"attributes": CONTROL_BIT, "base_sequence": 0}, id="both"),
    ],
)
def test_a_marker_with_other_flags(tmp_path: Path, fields: dict[str, Any]) -> None:
    patch(file_of(forge(tmp_path, ENDED)), 1, **fields)
    (strange,) = marker_batches.findings(state_under(tmp_path, as_of_ms=SOON, collectors=[marker_batches.COLLECTOR]))
    assert (strange.code.name, strange.severity) == ("marker-flags-unexpected", Severity.WARNING)
    assert (strange.first_offset, strange.producer_id) == (1, 1)


@pytest.mark.parametrize("fields", [{}, {"attributes": MARKER | 0x08}])
def test_a_marker_as_brokers_write_them(tmp_path: Path, fields: dict[str, Any]) -> None:
    """Log append time is not an unexpected flag."""
    patch(file_of(forge(tmp_path, ENDED)), 1, **fields)
    assert not list(
        marker_batches.findings(state_under(tmp_path, as_of_ms=SOON, collectors=[marker_batches.COLLECTOR]))
    )


def test_a_marker_whose_checksum_fails_is_not_evaluated(tmp_path: Path) -> None:
    patch(file_of(forge(tmp_path, ENDED)), 1, fix_crc=False, base_sequence=5)
    assert not list(
        marker_batches.findings(state_under(tmp_path, as_of_ms=SOON, collectors=[marker_batches.COLLECTOR]))
    )


def test_example_22_the_cleaner_leaves_empty_control_batches(tmp_path: Path) -> None:
    text = "D 1 0 0-4 @0-4 T cnt 2; M 1 0 C 3 @5; D 2 0 0-0 @9-9 T cnt 0; M 2 0 A 3 @12; empty 3 @15; plain @19"
    (empty,) = forged_findings(marker_batches, tmp_path, {0: text, 20: "plain @20"}, compacted=True)
    assert (empty.code.name, empty.severity, empty.first_offset) == ("control-shell", Severity.INFO, 15)
    assert empty.benign == ("left by the cleaner: yes",)


def test_an_empty_control_batch_where_no_cleaner_was_is_an_error(tmp_path: Path) -> None:
    (empty,) = forged_findings(marker_batches, tmp_path, "plain @0-4; empty 3 @5; empty 3 @6")
    assert (empty.severity, empty.first_offset, empty.last_offset) == (Severity.ERROR, 5, 6)
    assert "2 control batches" in empty.message


def test_a_marker_older_than_the_one_before(tmp_path: Path) -> None:
    text = f"D 1 0 0-0 @0-0 T; M 1 0 C 3 @1; D 2 0 0-0 @2-2 T; M 2 0 C 3 @3 ts {NOW - 5_000}"
    (regressed,) = forged_findings(marker_batches, tmp_path, text)
    assert (regressed.code.name, regressed.severity) == ("marker-timestamp-regressed", Severity.INFO)
    assert regressed.first_offset == 3
    assert regressed.evidence == {"fallen_by_ms": 5_001, "written_ms": NOW - 5_000}


def test_the_same_over_the_border_of_a_segment(tmp_path: Path) -> None:
    segments = {0: "D 1 0 0-0 @0-0 T; M 1 0 C 3 @1", 2: f"D 2 0 0-0 @2-2 T; M 2 0 C 3 @3 ts {NOW - 5_000}"}
    assert only(forged_findings(marker_batches, tmp_path, segments), "marker-timestamp-regressed").first_offset == 3


@pytest.mark.parametrize(
    ("timestamp", "leader_epochs"),
    [
        pytest.param(NOW - 4_999, {0: 0}, id="clocks differ so much"),
        pytest.param(NOW - DAY, {0: 0, 2: 1}, id="another leader"),
    ],
)
def test_a_marker_may_be_a_little_older_or_of_another_leader(
    tmp_path: Path, timestamp: int, leader_epochs: dict[int, int]
) -> None:
    text = f"D 1 0 0-0 @0-0 T; M 1 0 C 3 @1; D 2 0 0-0 @2-2 T; M 2 0 C 3 @3 ts {timestamp}"
    assert not forged_findings(marker_batches, tmp_path, text, leader_epochs=leader_epochs)
