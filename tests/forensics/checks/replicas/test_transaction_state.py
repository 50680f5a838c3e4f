"""Replicas that disagree on transactions; replicas compacted at different times are not reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.checks.replicas.transaction_state import findings
from kforensics.forensics.core.findings import Severity
from tests.forensics.forge import Segments, drop, file_of
from tests.forensics.replicas.replicas import GROUPS, brief, compare, compared_group, forged

FIRES = {
    "replica-txn-state-divergence": "test_a_lost_marker_is_found",
    "lso-regressed": "test_an_open_transaction_that_ended_elsewhere_lowers_the_last_stable_offset",
}
SILENT = dict.fromkeys(FIRES, "test_replicas_of_real_brokers_agree")

STATE, REGRESSED = FIRES
ABORTED = "D 1 0 0-4 @0-4 T; M 1 0 A 3 @5"
TWO_TRANSACTIONS = f"{ABORTED}; D 1 0 5-5 @6-6 T; M 1 0 C 3 @7"
CLEANED = {"compacted": True}


@pytest.mark.parametrize("name", GROUPS)
def test_replicas_of_real_brokers_agree(name: str) -> None:
    assert list(findings(compared_group(name))) == []


def test_transactions_are_compared_up_to_where_the_shorter_replica_ends(tmp_path: Path) -> None:
    forged(tmp_path, (TWO_TRANSACTIONS, {}), ("D 1 0 0-4 @0-4 T", {}))
    assert list(findings(compare(tmp_path))) == []


def test_transactions_of_another_branch_are_not_compared(tmp_path: Path) -> None:
    forged(
        tmp_path,
        (ABORTED, {"leader_epochs": {0: 0, 5: 1}}),
        ("D 1 0 0-4 @0-4 T; M 1 0 C 3 @5", {"leader_epochs": {0: 0, 5: 2}}),
    )
    assert list(findings(compare(tmp_path))) == []


@pytest.mark.parametrize("turned", [False, True])
def test_transactions_that_began_before_one_of_the_logs_are_not_compared(tmp_path: Path, turned: bool) -> None:
    whole = {0: "D 1 0 0-4 @0-4 T; D 1 0 5-5 @5-5 T; M 1 0 A 3 @6"}
    sides = (whole, {5: "D 1 0 5-5 @5-5 T; M 1 0 A 3 @6"})
    forged(tmp_path, *((side, {}) for side in (sides[::-1] if turned else sides)))
    assert list(findings(compare(tmp_path))) == []


CLEANINGS = {
    "some data": "D 1 0 0-4 @0-4 T cnt 2; M 1 0 C 3 @5",
    "the first batch": "D 1 0 2-2 @2-2 T; M 1 0 C 3 @5",
    "all data": "M 1 0 C 3 @5",
    "all data, but an empty batch": "D 1 0 2-2 @2-2 T cnt 0; M 1 0 C 3 @5",
    "all of it": "",
}


@pytest.mark.parametrize("left", CLEANINGS.values(), ids=CLEANINGS)
def test_a_replica_that_was_cleaned_further_agrees(tmp_path: Path, left: str) -> None:
    after = "plain @6; plain @7"
    cleaned = f"{left}; {after}" if left else after
    forged(
        tmp_path,
        ({0: f"D 1 0 0-1 @0-1 T; D 1 0 2-2 @2 T; D 1 0 3-4 @3-4 T; M 1 0 C 3 @5; {after}", 8: "plain @8"}, {}),
        ({0: cleaned, 8: "plain @8"}, CLEANED),
    )
    assert list(findings(compare(tmp_path))) == []


@pytest.mark.parametrize(("clean_shutdown", "expected"), [(False, []), (True, [Severity.ERROR])])
def test_a_marker_may_be_in_a_segment_that_was_merged_during_the_copy(
    tmp_path: Path, clean_shutdown: bool, expected: list[Severity]
) -> None:
    """Of a hot copy of a broker of 4.4.0: the indexes of a segment, and no log."""
    log = {0: "D 1 0 0-4 @0-4 T", 5: "M 1 0 C 3 @5; plain @6-7", 8: "plain @8"}
    forged(tmp_path, (log, {}), (log, {"first_dirty": 8, "clean_shutdown": clean_shutdown}))
    file_of(tmp_path / "broker-2" / "t-0", 5).unlink()
    found = findings(compare(tmp_path))
    assert [finding.severity for finding in found if finding.code.name == STATE] == expected


@pytest.mark.parametrize("lost", [1, 2])
def test_a_lost_marker_is_found(tmp_path: Path, lost: int) -> None:
    forged(tmp_path, (TWO_TRANSACTIONS, {}), (TWO_TRANSACTIONS, {}))
    drop(file_of(tmp_path / f"broker-{lost}" / "t-0"), 5)
    (finding,) = findings(compare(tmp_path))
    assert brief([finding]) == [(STATE, Severity.ERROR, 0, 5)]
    assert finding.message.startswith(f"broker {lost} lacks the ABORT marker at offset 5")
    assert finding.message.endswith("is committed at offset 7.")
    assert finding.cause == "replica-divergence"
    assert finding.path is not None
    assert f"broker-{lost}" in finding.path


def test_a_marker_that_the_cleaner_took_too_early_is_found(tmp_path: Path) -> None:
    """As with KAFKA-13727: the aborted data before it becomes part of the next transaction."""
    forged(
        tmp_path,
        ({0: TWO_TRANSACTIONS, 8: "plain @8"}, {}),
        ({0: "D 1 0 0-4 @0-4 T; D 1 0 5-5 @6-6 T; M 1 0 C 3 @7", 8: "plain @8"}, CLEANED),
    )
    (finding,) = findings(compare(tmp_path))
    assert (finding.code.name, finding.evidence["how"], finding.evidence["instead"]) == (STATE, "marker", "committed")
    assert finding.cause is None


def test_an_open_transaction_that_ended_elsewhere_lowers_the_last_stable_offset(tmp_path: Path) -> None:
    log = f"{ABORTED}; plain @6"
    forged(tmp_path, (log, {}), (log, {}))
    drop(file_of(tmp_path / "broker-2" / "t-0"), 5)
    results = list(findings(compare(tmp_path)))
    assert brief(results) == [(STATE, Severity.ERROR, 0, 5), (REGRESSED, Severity.WARNING, 0, 6)]
    assert results[1].cause == STATE


def test_brokers_that_delete_old_segments_at_different_times_are_silent(tmp_path: Path) -> None:
    """With retention, a follower of Kafka 2.8.2 had deleted an open transaction that the others still had."""
    forged(tmp_path, ({0: "D 1 0 0-0 @0 T; plain @1", 2: "plain @2"}, {}), ({2: "plain @2"}, {"log_start": 2}))
    assert list(findings(compare(tmp_path))) == []


@pytest.mark.parametrize(("first_open", "expected"), [(1, []), (2, [(REGRESSED, 2)])])
def test_a_replica_that_began_after_the_start_of_an_open_transaction_does_not_have_it(
    tmp_path: Path, first_open: int, expected: list[tuple[str, int]]
) -> None:
    """A follower of 3.3.2 was stopped while records were deleted: it went on at the new log start, in a transaction."""
    batches = [f"D 1 0 0-0 @{base} T" if base == first_open else f"plain @{base}" for base in range(4)]
    forged(tmp_path, ("; ".join(batches), {"log_start": 2}), ({2: "plain @2; plain @3"}, {"log_start": 2}))
    results = [finding for finding in findings(compare(tmp_path)) if finding.code.name == REGRESSED]
    assert [(finding.code.name, finding.first_offset) for finding in results] == expected


def test_data_of_an_open_transaction_that_is_gone_is_found(tmp_path: Path) -> None:
    """The cleaner removes nothing of an open transaction."""
    forged(
        tmp_path,
        ({0: "plain @0; D 1 0 0-0 @1 T; plain @2", 3: "plain @3"}, {}),
        ({0: "plain @0; plain @2", 3: "plain @3"}, CLEANED),
    )
    results = list(findings(compare(tmp_path)))
    assert [(finding.code.name, finding.evidence.get("how")) for finding in results] == [
        (STATE, "absent"),
        (REGRESSED, None),
    ]


@pytest.mark.parametrize("turned", [False, True])
def test_a_transaction_that_ended_and_was_cleaned_after_the_other_copy_was_taken_is_no_finding(
    tmp_path: Path, turned: bool
) -> None:
    """One copy ends with the transaction open; the other was taken later, when its marker was already cleaned."""
    early = {0: "plain @0; D 1 0 0-0 @1 T; plain @2"}
    later = {0: "plain @0; plain @2", 3: "plain @4", 5: "plain @5"}
    sides: list[tuple[Segments, dict[str, bool]]] = [(early, {}), (later, CLEANED)]
    forged(tmp_path, *(sides[::-1] if turned else sides))
    assert list(findings(compare(tmp_path))) == []


def test_a_first_batch_that_is_gone_moves_the_beginning(tmp_path: Path) -> None:
    log = "plain @0; D 1 0 0-0 @1 T; D 1 0 1-1 @2 T; M 1 0 C 3 @3"
    forged(tmp_path, (log, {}), (log, {}))
    drop(file_of(tmp_path / "broker-2" / "t-0"), 1)
    (finding,) = findings(compare(tmp_path))
    assert brief([finding]) == [(STATE, Severity.ERROR, 1, 3)]
    assert finding.message.endswith("starts at offset 2.")


def test_a_transaction_that_began_before_the_other_log_does_is_left_out(tmp_path: Path) -> None:
    """A follower of 2.8.2 began to fetch in the middle of a transaction, and had none of its producers before."""
    data, rest = "D 1 0 1-1 @1 T", {2: "M 1 0 C 3 @2; plain @3"}
    forged(tmp_path, ({1: data, **rest}, {"snapshots": {1: None}}), ({0: f"D 1 0 0-0 @0 T; {data}", **rest}, {}))
    assert list(findings(compare(tmp_path))) == []


@pytest.mark.parametrize(("gone", "offsets"), [((0, 5), (0, 5)), ((6, 7), (6, 7))], ids=["the first", "the second"])
def test_a_transaction_that_is_all_gone_is_found(
    tmp_path: Path, gone: tuple[int, int], offsets: tuple[int, int]
) -> None:
    log = f"{TWO_TRANSACTIONS}; plain @8"
    forged(tmp_path, (log, {}), (log, {}))
    for base_offset in gone:
        drop(file_of(tmp_path / "broker-2" / "t-0"), base_offset)
    (finding,) = findings(compare(tmp_path))
    assert brief([finding]) == [(STATE, Severity.ERROR, *offsets)]
    assert (finding.evidence["how"], finding.cause) == ("absent", "replica-divergence")


def test_a_marker_of_which_a_disk_has_changed_a_bit_is_found(tmp_path: Path) -> None:
    forged(tmp_path, (ABORTED, {}), (ABORTED, {}))
    log = file_of(tmp_path / "broker-2" / "t-0")
    data = bytearray(log.read_bytes())
    # The key of the marker, its version and its type: 0 for ABORT, 1 for COMMIT.
    at = data.rindex(b"\x08\x00\x00\x00\x00") + 4
    data[at] = 1
    log.write_bytes(data)
    (finding,) = findings(compare(tmp_path))
    assert (finding.evidence["how"], finding.evidence["outcome"], finding.evidence["instead"]) == (
        *("outcome", "aborted", "committed"),
    )
    assert finding.cause == "replica-divergence"


def test_a_last_stable_offset_of_another_branch_follows_from_it(tmp_path: Path) -> None:
    forged(
        tmp_path,
        ("plain @0; D 1 0 0-0 @1 T", {"leader_epochs": {0: 0, 1: 1}}),
        ("plain @0; plain @1", {"leader_epochs": {0: 0, 1: 2}}),
    )
    (finding,) = findings(compare(tmp_path))
    assert brief([finding]) == [(REGRESSED, Severity.WARNING, 1, 1)]
    assert finding.cause == "replica-divergence"


def test_a_transaction_that_is_all_gone_after_one_that_begins_elsewhere_is_found(tmp_path: Path) -> None:
    log = "D 1 0 0-0 @0 T; D 1 0 1-1 @1 T; M 1 0 C 3 @2; D 1 0 2-2 @3 T; M 1 0 C 3 @4; plain @5"
    forged(tmp_path, (log, {}), (log, {}))
    for base_offset in (0, 3, 4):
        drop(file_of(tmp_path / "broker-2" / "t-0"), base_offset)
    results = [(finding.first_offset, finding.evidence["how"]) for finding in findings(compare(tmp_path))]
    assert sorted(results) == [(0, "first offset"), (3, "absent")]
