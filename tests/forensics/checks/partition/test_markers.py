"""Markers that end no data, contradict one another, or have unexpected epochs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.checks.partition import markers
from kforensics.forensics.core.findings import Exactness, Severity
from kforensics.forensics.partition.partition_files import Partition
from tests.forensics.batch_notation import NOW
from tests.forensics.checks.partition.producer_states import (
    DAY,
    LATER,
    codes_of,
    forged_findings,
    only,
    sample_id,
    sample_state,
)
from tests.forensics.forge import file_of, forge, patch
from tests.forensics.partition_states import each_sample, state_under

FIRES = {
    "marker-empty": "test_example_15_the_same_marker_again",
    "marker-duplicate": "test_example_15_the_same_marker_again",
    "marker-conflict": "test_both_kinds_for_one_epoch_of_version_2_are_a_conflict",
    "marker-epoch-regressed": "test_a_marker_below_the_epoch_of_its_producer",
    "marker-epoch-jump": "test_example_33_a_marker_may_have_any_higher_epoch",
    "marker-coordinator-epoch-regressed": "test_a_marker_of_an_older_coordinator",
    "marker-admin-abort": "test_example_27_an_abort_a_day_later_is_an_operators",
}
SILENT = dict.fromkeys(FIRES, "test_samples_have_only_what_is_known")
# Their data was cleaned; then the producer aborted without having written here; then the data was deleted with
# the start of the log, and the killed broker forgot it.
EMPTY_MARKERS = {
    "compaction/broker-1/compact-transactional-0": 6,
    "compaction/broker-1/compact-transactional-kept-0": 12,
    "compaction/broker-1/emptied-0": 3,
    "compaction-3.9/broker-1/compact-transactional-0": 3,
    "compaction-3.9/broker-1/compact-transactional-kept-0": 11,
    "legacy-2.7/broker-0/compact-transactional-0": 3,
    "legacy-2.7/broker-0/empty-aborts-0": 2,
    "ghosts/broker-1/killed-committed-late-0": 1,
    # Behind a marker that no coordinator sent, the coordinator's own ends nothing.
    **{
        f"forged-markers-v{version}/broker-1/{topic}-0": 1
        for version in (0, 1, 2)
        for topic in ("aborted", "committed")
    },
}
# Up to version 1 the one after an ABORT may be that of another transaction of the epoch. After the restart of a
# broker the next coordinator sends again.
RESENT = {f"rolling-restart/broker-{broker}/rolled-{partition}" for broker in (0, 1, 2) for partition in (0, 1)}


@each_sample()
def test_samples_have_only_what_is_known(partition: Partition) -> None:
    findings = list(markers.findings(sample_state(partition)))
    name = sample_id(partition)
    resent = ["marker-duplicate", "marker-empty"] if name in RESENT else []
    assert codes_of(findings) == resent + ["marker-empty"] * EMPTY_MARKERS.get(name, 0)


@pytest.mark.parametrize(
    "field", [{"producer_epoch": 9}, {"producer_id": 1025}, {"base_timestamp": 0, "max_timestamp": 0}], ids=str
)
def test_a_marker_whose_checksum_fails_is_damaged_and_nothing_else(field: dict[str, int], tmp_path: Path) -> None:
    """Its neighbors are not unusual either: what differs is what the damaged one says."""
    folder = forge(tmp_path, "D 1 0 0-0 @0-0 T; M 1 0 C 3 @1; D 1 0 1-1 @2-2 T; M 1 0 C 3 @3; M 1 0 C 3 @4")
    patch(file_of(folder), 3, fix_crc=False, **field)
    found = list(markers.findings(state_under(tmp_path)))
    assert not [one for one in found if one.first_offset == 3 or one.severity >= Severity.WARNING]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("D 1 0 0-0 @0-0 T; D 2 0 0-0 @1-1 T; M 2 0 A 1 @2; M 1 0 A 1 @3", id="5"),
        pytest.param("D 1 7 0-2 @0-2 T; M 1 8 C 4 @3; D 1 8 0-0 @4-4 T; M 1 9 A 4 @5", id="7 version 2"),
        pytest.param("D 1 0 0-2 @0-2 T; M 1 1 A 4 @3; D 1 2 0-0 @4-4 T", id="9 timeout"),
        pytest.param("D 1 0 0-2 @0-2 T; M 1 0 A 4 @3; D 1 0 3-3 @4-4 T", id="10"),
        pytest.param("D 1 0 0-0 @0-0 T; D 1 0 1-1 @1-1 N; M 1 0 C 3 @2", id="16"),
        pytest.param("D 1 5 0-0 @0-0 T; M 1 7 A 3 @1", id="abort by 4.0.0"),
        pytest.param("D 1 0 0-1 @0-1 T; M 1 0 A 2 @2; D 1 0 2-2 @3-3 T; M 1 0 C 2 @4", id="35"),
    ],
)
def test_examples_without_such_findings(tmp_path: Path, text: str) -> None:
    assert not forged_findings(markers, tmp_path, text)


def test_example_15_the_same_marker_again(tmp_path: Path) -> None:
    findings = forged_findings(markers, tmp_path, "D 1 0 0-0 @0-0 T; M 1 0 C 3 @1; M 1 0 C 4 @2")
    assert [(finding.code.name, finding.first_offset, finding.severity) for finding in findings] == [
        ("marker-empty", 2, Severity.INFO),
        ("marker-duplicate", 2, Severity.INFO),
    ]
    assert "resent: yes" in findings[0].benign
    assert findings[0].evidence == {"empty_markers": 1, "markers": 2, "appended_ms": 1_700_000_000_002}
    assert findings[1].evidence == {"previous_offset": 1, "written_ms": 1_700_000_000_002}


def test_example_15_the_contrary_by_a_new_coordinator(tmp_path: Path) -> None:
    conflict, empty = forged_findings(markers, tmp_path, "D 1 0 0-0 @0-0 T; M 1 0 C 3 @1; M 1 0 A 4 @2")
    assert (empty.code.name, empty.first_offset) == ("marker-empty", 2), "which remains if the coordinator explains it"
    assert (conflict.code.name, conflict.severity) == ("marker-conflict", Severity.WARNING)
    assert conflict.exactness is Exactness.APPROXIMATE
    assert conflict.benign[0].endswith("possible, the coordinator log was not consulted")
    conflict, _ = forged_findings(
        markers, tmp_path / "slow", f"D 1 0 0-0 @0-0 T; M 1 0 C 3 @1; M 1 0 A 4 @2 ts {NOW + 5_001}"
    )
    assert conflict.code.name == "marker-conflict"


@pytest.mark.parametrize(
    "second",
    [
        pytest.param("M 1 0 A 3 @2", id="same coordinator"),
        pytest.param(f"M 1 0 A 4 @2 ts {NOW + 5_002}", id="later"),
    ],
)
def test_an_empty_transaction_right_after_another_is_no_conflict(tmp_path: Path, second: str) -> None:
    findings = forged_findings(markers, tmp_path, f"D 1 0 0-0 @0-0 T; M 1 0 C 3 @1; {second}")
    assert codes_of(findings) == ["marker-empty"]
    assert "resent: no" in findings[0].benign


def test_both_kinds_for_one_epoch_of_version_2_are_a_conflict(tmp_path: Path) -> None:
    (conflict,) = forged_findings(markers, tmp_path, f"D 1 7 0-0 @0-0 T; M 1 8 C 4 @1; M 1 8 A 4 @2 ts {LATER}")
    assert conflict.code.name == "marker-conflict"
    assert (conflict.severity, conflict.exactness) == (Severity.CRITICAL, Exactness.EXACT)
    assert (conflict.first_offset, conflict.producer_epoch) == (2, 8)
    assert conflict.benign[0].endswith("no, each bumps the epoch")
    (conflict,) = forged_findings(
        markers, tmp_path / "first", f"D 1 0 0-0 @0-0 T; M 1 1 C 4 @1; M 1 1 A 4 @2 ts {LATER}"
    )
    assert conflict.severity is Severity.CRITICAL


def test_of_two_empty_markers_the_epoch_of_the_data_is_unknown(tmp_path: Path) -> None:
    findings = forged_findings(markers, tmp_path, f"M 1 8 C 4 @0; M 1 8 A 4 @1 ts {LATER}")
    assert [finding.message.split(" of ")[0] for finding in findings] == ["The COMMIT", "The ABORT"]
    assert codes_of(findings) == ["marker-empty", "marker-empty"]


def test_where_offsets_are_missing_markers_are_not_compared(tmp_path: Path) -> None:
    segments = {0: "D 1 0 0-0 @0-0 T; M 1 0 C 3 @1; gone D 1 0 1-1 @2-2 T; M 1 0 C 3 @3", 4: "plain @4"}
    assert codes_of(forged_findings(markers, tmp_path, segments, compacted=True)) == ["marker-empty"]


def test_between_different_markers_of_one_epoch_a_cleaner_may_have_removed_a_transaction(tmp_path: Path) -> None:
    """An operator's abort of version 2 has the epoch of its data, which is that of the marker before."""
    segments = {0: "D 1 7 0-0 @0-0 T; M 1 8 C 4 @1; gone D 1 8 0-0 @2-2 T; M 1 8 A 4 @3", 4: "plain @4"}
    assert codes_of(forged_findings(markers, tmp_path, segments, compacted=True)) == ["marker-empty"]


def test_example_32_a_marker_of_version_2_again(tmp_path: Path) -> None:
    text = "D 1 4 0-2 @0-2 T; M 1 5 C 6 @3; M 1 5 C 6 @4; D 1 5 0-0 @5-5 T; M 1 6 C 6 @6"
    findings = forged_findings(markers, tmp_path, text)
    assert [(finding.code.name, finding.first_offset) for finding in findings] == [
        ("marker-empty", 4),
        ("marker-duplicate", 4),
    ]


def test_example_39_an_empty_abort(tmp_path: Path) -> None:
    text = "M 1 0 A 2 @0; D 1 0 0-1 @1-2 T; M 1 0 C 2 @3"
    for index in (None, [(1, 0, 0, 1)]):  # as since 2.8, and as up to 2.7
        findings = forged_findings(markers, tmp_path, text, txnindex={0: index})
        assert [(finding.code.name, finding.first_offset) for finding in findings] == [("marker-empty", 0)]


def test_example_37_an_abort_whose_data_was_deleted_is_not_empty(tmp_path: Path) -> None:
    segments = {200: "gone D 3 0 0-0 @150-150 T; plain @200-229; M 3 0 A 1 @230"}
    assert not forged_findings(markers, tmp_path, segments)
    assert not forged_findings(markers, tmp_path, segments, snapshots={200: [], 231: None})


def test_without_its_entry_an_abort_after_a_snapshot_is_empty(tmp_path: Path) -> None:
    """The first snapshot shows that no transaction was open."""
    segments = {200: "gone D 3 0 0-0 @150-150 T; plain @200-229; M 3 0 A 1 @230"}
    findings = forged_findings(markers, tmp_path, segments, snapshots={200: []}, txnindex={200: None})
    assert codes_of(findings) == ["marker-empty"]


@pytest.mark.parametrize(
    ("entry", "empty"),
    [
        pytest.param([(3, 3, 5, 6)], [8], id="its own"),
        pytest.param([(9, 3, 5, 6)], [5, 8], id="of another producer"),
        pytest.param([(3, 3, 4, 6)], [5, 8], id="of another marker"),
        pytest.param([(3, 5, 5, 6)], [5, 8], id="of an empty abort"),
        pytest.param([], [5, 8], id="none"),
    ],
)
def test_an_entry_proves_what_the_cleaner_took(
    tmp_path: Path, entry: list[tuple[int, int, int, int]], empty: list[int]
) -> None:
    segments = {0: "plain @0; gone D 3 0 0-0 @3-3 T; plain @4; M 3 0 A 1 @5; plain @6-7 cnt 1", 8: "M 4 0 A 1 @8"}
    findings = forged_findings(markers, tmp_path, segments, compacted=True, txnindex={0: entry})
    assert [(finding.code.name, finding.first_offset) for finding in findings] == [
        ("marker-empty", offset) for offset in empty
    ]


def test_a_marker_that_may_end_data_before_the_log_is_not_empty(tmp_path: Path) -> None:
    """Example 21: the log does not show it."""
    segments = {100: "gone plain @0-99; D 1 0 5-5 @100-100 T; M 2 0 A 1 @101; M 1 0 C 1 @102"}
    assert not forged_findings(markers, tmp_path, segments, snapshots={100: None, 103: None}, txnindex={100: None})


def test_a_marker_below_the_epoch_of_its_producer(tmp_path: Path) -> None:
    (regressed,) = forged_findings(markers, tmp_path, "D 1 5 0-0 @0-0 T; M 1 4 A 3 @1")
    assert (regressed.code.name, regressed.severity) == ("marker-epoch-regressed", Severity.ERROR)
    assert "after epoch 5." in regressed.message


def test_a_leader_may_have_forgotten_the_epoch(tmp_path: Path) -> None:
    findings = forged_findings(markers, tmp_path, f"D 1 5 0-0 @0-0 N; M 1 4 A 3 @1 ts {NOW + DAY}")
    regressed = only(findings, "marker-epoch-regressed")
    assert regressed.severity is Severity.WARNING
    assert regressed.benign[0].startswith("producer expired at the leader: yes")


def test_no_leader_forgets_a_producer_inside_a_transaction(tmp_path: Path) -> None:
    findings = forged_findings(markers, tmp_path, f"D 1 5 0-0 @0-0 T; M 1 4 A 3 @1 ts {NOW + DAY}")
    assert only(findings, "marker-epoch-regressed").severity is Severity.ERROR


def test_example_33_a_marker_may_have_any_higher_epoch(tmp_path: Path) -> None:
    (jump,) = forged_findings(markers, tmp_path, "D 1 4 0-0 @0-0 T; M 1 4 A 6 @1; D 1 4 1-1 @2-2 T; M 1 9 C 6 @3")
    assert (jump.code.name, jump.severity, jump.first_offset) == ("marker-epoch-jump", Severity.WARNING, 3)
    assert jump.evidence == {"risen_by": 5, "first_offset": 2, "appended_ms": 1_700_000_000_003}


def test_a_marker_of_an_older_coordinator(tmp_path: Path) -> None:
    text = "D 1 0 0-0 @0-0 T; M 1 0 C 4 @1; D 1 0 1-1 @2-2 T; M 1 0 C 3 @3"
    (regressed,) = forged_findings(markers, tmp_path, text)
    assert regressed.code.name == "marker-coordinator-epoch-regressed"
    assert (regressed.severity, regressed.first_offset) == (Severity.WARNING, 3)
    assert "has coordinator epoch 3, but the marker at offset 1 has 4" in regressed.message
    assert "abort by an operator, with epoch 0: no" in regressed.benign


def test_a_marker_of_an_older_coordinator_than_one_in_a_snapshot(tmp_path: Path) -> None:
    """The marker before it was deleted with the start of the log, so its offset is unknown."""
    text = {100: "gone D 1 0 0-0 @98-98 T; gone M 1 0 C 4 @99; M 1 0 C 3 @100; plain @101"}
    regressed = only(forged_findings(markers, tmp_path, text), "marker-coordinator-epoch-regressed")
    shown = "has coordinator epoch 3, but a producer snapshot shows that an earlier marker had 4."
    assert regressed.message.endswith(shown)


def test_an_operator_may_have_written_coordinator_epoch_0(tmp_path: Path) -> None:
    text = "D 1 0 0-0 @0-0 T; M 1 0 C 4 @1; D 1 0 1-1 @2-2 T; M 1 0 A 0 @3"
    code = "marker-coordinator-epoch-regressed"
    assert "abort by an operator, with epoch 0: possible" in only(forged_findings(markers, tmp_path, text), code).benign
    commit = only(forged_findings(markers, tmp_path / "commit", text.replace("A 0", "C 0")), code)
    assert "abort by an operator, with epoch 0: no" in commit.benign


def test_example_27_an_abort_a_day_later_is_an_operators(tmp_path: Path) -> None:
    text = f"D 1 0 0-2 @0-2 T; M 1 0 A 4 @3; D 1 0 3-3 @4-4 T; M 1 0 A 4 @5 ts {NOW + DAY}"
    (abort,) = forged_findings(markers, tmp_path, text, as_of_ms=LATER + DAY)
    assert (abort.code.name, abort.severity, abort.first_offset) == ("marker-admin-abort", Severity.INFO, 5)
    assert abort.exactness is Exactness.APPROXIMATE
    assert abort.evidence == {"silent_ms": DAY - 4, "first_offset": 4, "appended_ms": 1_700_000_000_000 + DAY}


def test_an_abort_is_an_operators_from_the_time_on_when_a_transaction_is_late(tmp_path: Path) -> None:
    text = f"D 1 0 0-2 @0-2 T; M 1 0 A 4 @3; D 1 0 3-3 @4-4 T; M 1 0 A 4 @5 ts {NOW + 4 + 1_200_001}"
    assert codes_of(forged_findings(markers, tmp_path, text)) == ["marker-admin-abort"]


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(f"M 1 0 C 4 @5 ts {NOW + DAY}", id="commit"),
        pytest.param(f"M 1 1 A 4 @5 ts {NOW + DAY}", id="fenced by its coordinator"),
        pytest.param(f"M 1 0 A 5 @5 ts {NOW + DAY}", id="a coordinator that was not there before"),
        pytest.param(f"M 1 0 A 4 @5 ts {NOW + 4 + 1_200_000}", id="in time"),
        pytest.param(
            f"M 2 0 A 4 @5 ts {NOW + DAY}; D 1 0 4-4 @6-6 T; M 1 0 A 4 @7 ts {NOW + DAY}", id="old timestamps"
        ),
    ],
)
def test_other_ends_are_not_an_operators(tmp_path: Path, end: str) -> None:
    text = f"D 1 0 0-2 @0-2 T; M 1 0 A 4 @3; D 1 0 3-3 @4-4 T; {end}"
    assert "marker-admin-abort" not in codes_of(forged_findings(markers, tmp_path, text, as_of_ms=LATER + DAY))
