"""Open transactions and late writes, with the knowledge of the coordinators."""

from __future__ import annotations

import shutil
from os import utime
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.forensics.core.findings import Exactness, Severity
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import at, cluster_under, codes_in, forge_coordinator, found_in
from tests.forensics.forge import file_of, forge, keep_times, patch
from tests.forensics.metadata.random_metadata import ABORT, write_log
from tests.forensics.partition_states import SAMPLES

FIRES = {"txn-hanging-unknown-id": "test_a_producer_that_no_coordinator_knows"}
SILENT = {"txn-hanging-unknown-id": "test_a_transaction_in_flight"}
DAY = 86_400_000
UNKNOWN = "txn-hanging-unknown-id"
OPEN = f"D 7 0 0-0 @0-0 T {at(5)}"


@pytest.mark.parametrize(
    ("reported", "severity", "exactness"),
    [(1, "critical", "exact"), (2, "warning", "unverifiable"), (None, "warning", "unverifiable")],
)
def test_a_producer_that_no_coordinator_knows(
    reported: int | None, severity: str, exactness: str, tmp_path: Path
) -> None:
    """Unless all coordinator partitions are available, a missing one may know the producer."""
    forge_coordinator(tmp_path, "b Empty 1 0 t 0")
    forge(tmp_path, OPEN)
    ((place, finding),) = found_in(cluster_under(tmp_path, as_of_ms=NOW + DAY, partition_count=reported))
    assert (finding.code.name, str(finding.severity), finding.exactness) == (
        "txn-hanging-unknown-id",
        severity,
        exactness,
    )
    assert (place.topic, finding.first_offset, finding.producer_id) == ("t", 0, 7)


@pytest.mark.parametrize(
    ("last", "written", "severity"),
    [
        (10_000, 20_000, "warning"),
        (60_000, 61_000, "critical"),
        (10_000, 30 * 60_000, "critical"),
        (10_000, None, "warning"),
    ],
    ids=["stopped before", "a later record", "later files", "files without times"],
)
@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_producer_may_be_registered_after_the_log_of_a_coordinator_ends(
    tmp_path: Path, last: int, written: int | None, severity: str, *, is_stopped: bool
) -> None:
    """Seen on 4.3.1: broker 2 was stopped first, then another one led its coordinator, which registered the producer.

    Of a broker that was not stopped, who gives the time at which files without times were copied is believed.
    """
    forge_coordinator(tmp_path / "broker-2", f"b Empty 1 0 t {last}", node_id=2, clean_shutdown=is_stopped)
    forge(tmp_path / "broker-1", f"D 7 0 0-0 @0-0 T {at(40_000)}")
    keep_times(tmp_path / "broker-1", NOW + 40_000, NOW + 45_000)
    if written is not None:
        keep_times(tmp_path / "broker-2", NOW + last, NOW + written)
    ((_, finding),) = found_in(cluster_under(tmp_path, as_of_ms=NOW + DAY, partition_count=1))
    is_believed = written is None and not is_stopped
    assert (finding.code.name, str(finding.severity)) == (UNKNOWN, "critical" if is_believed else severity)
    sentence = "But __transaction_state-0 may end before that: its last record is of 2023-11-14 22:13:30 UTC."
    assert (sentence in finding.message) == (finding.severity is Severity.WARNING)


def test_an_empty_log_of_a_coordinator_without_file_times_shows_no_time(tmp_path: Path) -> None:
    """Seen on 4.3.1: the copy of the empty partition was older than the producer, which its coordinator knew since."""
    forge_coordinator(tmp_path / "broker-2", "b Empty 1 0 t 60000", node_id=2)
    keep_times(tmp_path / "broker-2", NOW + 60_000, NOW + 61_000)
    forge_coordinator(tmp_path / "broker-3", "", partition=1, node_id=3)
    forge(tmp_path / "broker-1", f"D 7 0 0-0 @0-0 T {at(40_000)}")
    keep_times(tmp_path / "broker-1", NOW + 40_000, NOW + 45_000)
    ((_, finding),) = found_in(cluster_under(tmp_path, as_of_ms=NOW + DAY, partition_count=2))
    assert (finding.code.name, finding.severity) == (UNKNOWN, Severity.WARNING)
    assert "But __transaction_state-1 may end before that: it has no record." in finding.message


def test_a_transaction_in_flight(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, "a Empty 1 0 t 0")
    forge(tmp_path, OPEN)
    assert codes_in(cluster_under(tmp_path)) == {}


@pytest.mark.parametrize(("coordinator", "code"), [("a Empty 7 0 t 1", "txn-hanging"), ("b Empty 1 0 t 0", UNKNOWN)])
@pytest.mark.parametrize("minutes", [1, 30])
def test_an_evaluation_hours_after_the_copy_of_a_running_broker(
    tmp_path: Path, coordinator: str, code: str, minutes: int
) -> None:
    """Its coordinator's log may have been copied before the transaction began, or after it ended, as long ago."""
    forge_coordinator(tmp_path, coordinator, clean_shutdown=False)
    forge(tmp_path, OPEN, clean_shutdown=False)
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    keep_times(tmp_path, NOW, NOW + 60_000 * minutes)
    codes = codes_in(cluster_under(tmp_path, as_of_ms=NOW + DAY))
    assert (code in codes) == (minutes == 30)


@pytest.mark.parametrize("are_times_kept", [False, True])
@pytest.mark.parametrize(
    ("coordinator", "code"),
    [
        ("a Empty 7 0 t 1; a PrepareCommit 7 0 {t-0} t 40; a CompleteCommit 7 0 t 41; a Ongoing 7 0 {t-1} t 60", None),
        ("a Ongoing 7 0 {t-1} t 60", None),
        ("b Empty 9 0 t 60", None),
        (f"a CompleteCommit 7 0 t {-2 * DAY}; b Empty 9 0 t 60", "txn-hanging"),
    ],
    ids=["decided since", "cleaned since", "begun since", "silent for days"],
)
def test_old_timestamps_of_a_client_are_no_age_in_copies_of_running_brokers(
    coordinator: str, code: str | None, are_times_kept: bool, tmp_path: Path
) -> None:
    """Kafka Streams read records of three days ago; its first transaction ended between the copies of two brokers."""
    forge_coordinator(tmp_path, coordinator, clean_shutdown=False)
    log = f"D 7 0 0-0 @0-0 T {at(-3 * DAY)}; D 7 0 1-1 @1-1 T {at(-3 * DAY)}; M 8 0 C 0 @2 {at(25)}"
    forge(tmp_path, log, clean_shutdown=False)
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    copied_ms = NOW + 30 if are_times_kept else NOW + DAY
    keep_times(tmp_path, copied_ms, copied_ms)
    # Who gives the time at which files without times were copied is believed.
    for is_assumed in (True, False) if are_times_kept else (True,):
        cluster = cluster_under(tmp_path, as_of_ms=NOW + DAY, is_assumed=is_assumed)
        assert {*codes_in(cluster)} & {"txn-hanging", UNKNOWN} == {code} - {None}


@pytest.mark.parametrize(
    ("before_gap", "hangs"),
    [
        ("a PrepareCommit 7 0 {t-0} t 3; a CompleteCommit 7 0 t 4; b Empty 9 0 t 5", False),
        ("a PrepareCommit 7 0 {t-0} t 3; a CompleteCommit 7 0 t 4; b Empty 9 0 t 40000", True),
        ("a CompleteCommit 7 0 t 4; b Empty 9 0 t 5", True),
    ],
    ids=["as written", "as written, later", "cleaned before"],
)
def test_a_coordinators_log_whose_cleaner_merged_segments_during_the_copy(
    tmp_path: Path, before_gap: str, hangs: bool
) -> None:
    """Seen on 2.8.2: a segment was gone when its turn came, with the record that added the partition."""
    forge_coordinator(tmp_path, {0: before_gap, 20: "b Empty 9 1 t 90000"}, clean_shutdown=False)
    data = f"D 7 0 0-0 @0-0 T {at(2)}; M 7 0 C 0 @1 {at(3)}; D 7 0 1-1 @2-2 T {at(30_000)}; M 9 0 C 0 @3 {at(80_000)}"
    forge(tmp_path, data, log_append_time=True, clean_shutdown=False)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\n__transaction_state 0 20\n")
    keep_times(tmp_path, NOW + 90_000, NOW + 100_000)
    assert ("txn-hanging" in codes_in(cluster_under(tmp_path, as_of_ms=NOW + DAY))) == hangs


def test_no_coordinator_available(tmp_path: Path) -> None:
    forge(tmp_path, OPEN)
    assert codes_in(cluster_under(tmp_path, as_of_ms=NOW + DAY)) == {}


@pytest.mark.parametrize(
    ("coordinator", "words"),
    [
        ("a Empty 7 0 t 1", "Empty"),
        ("a Empty 7 0 t 1; a Ongoing 7 0 {t-1} t 2", "Ongoing"),
        ("a Empty 7 0 t 1; a gone t 2", "was removed"),
    ],
)
def test_a_transaction_that_its_coordinator_does_not_wait_for(coordinator: str, words: str, tmp_path: Path) -> None:
    forge_coordinator(tmp_path, coordinator)
    forge(tmp_path, OPEN)
    findings = {result.code.name: result for _, result in found_in(cluster_under(tmp_path, as_of_ms=NOW + DAY))}
    assert findings.keys() - {"txnlog-ongoing-overdue"} == {"txn-hanging"}
    finding = findings["txn-hanging"]
    assert (str(finding.severity), finding.exactness, finding.first_offset) == ("critical", "exact", 0)
    assert words in finding.message


def test_an_id_that_went_on_with_another_producer_id(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, {5: "a Empty 7 32766 t 1; a Empty 9 0 t 2; a Ongoing 9 0 timeout 2147483647 {t-0} t 3"})
    forge(tmp_path, OPEN)
    assert codes_in(cluster_under(tmp_path, as_of_ms=NOW + DAY))["txn-hanging"] == "critical"


@pytest.mark.parametrize("state", ["Ongoing", "PrepareCommit"])
def test_a_transaction_that_its_coordinator_awaits(state: str, tmp_path: Path) -> None:
    """A slow transaction does not hang; its coordinator is reported instead."""
    log = "a Empty 7 0 t 1; a Ongoing 7 0 {t-0} t 4"
    forge_coordinator(tmp_path, log if state == "Ongoing" else f"{log}; a PrepareCommit 7 0 {{t-0}} t 9")
    forge(tmp_path, OPEN)
    findings = codes_in(cluster_under(tmp_path, as_of_ms=NOW + DAY))
    assert findings.keys() == {"txnlog-ongoing-overdue" if state == "Ongoing" else "txnlog-prepare-stuck"}


def test_a_last_record_that_cannot_be_read_proves_nothing(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, "a Empty 7 0 t 1; a Dead 7 0 t 2")
    forge(tmp_path, OPEN)
    assert codes_in(cluster_under(tmp_path, as_of_ms=NOW + DAY)).keys() == {"txnlog-transient-state"}


@pytest.mark.parametrize(("append_times", "codes"), [(True, {"txn-foreign-data-absorbed"}), (False, set())])
def test_data_from_before_its_transaction(append_times: bool, codes: set[str], tmp_path: Path) -> None:
    """Timestamps that a client may have set prove nothing."""
    log = "a Ongoing 7 0 {t-0} t 10000; a PrepareCommit 7 0 {t-0} t 10010; a CompleteCommit 7 0 t 10020"
    forge_coordinator(tmp_path, f"a Empty 7 0 t 1; {log}")
    data = f"D 7 0 0-0 @0-0 T {at(4_999)}; D 7 0 1-1 @1-1 T {at(10_001)}; M 7 0 C 0 @2 {at(10_015)}"
    forge(tmp_path, data, log_append_time=append_times)
    assert codes_in(cluster_under(tmp_path)).keys() == codes


@pytest.mark.parametrize(("marker_ms", "codes"), [(10_015, {"txn-foreign-data-absorbed"}), (9_990, set())])
def test_a_marker_from_before_the_decision_may_be_another_one(tmp_path: Path, marker_ms: int, codes: set[str]) -> None:
    """A hot copy of brokers of 3.9.1 had the newest transaction in the coordinator's log, but not yet its marker."""
    log = "a Ongoing 7 0 {t-0} t 10000; a PrepareCommit 7 0 {t-0} t 10010; a CompleteCommit 7 0 t 10020"
    forge_coordinator(tmp_path, f"a Empty 7 0 t 1; {log}")
    data = f"D 7 0 0-0 @0-0 T {at(4_999)}; M 7 0 C 0 @1 {at(marker_ms)}"
    forge(tmp_path, data, log_append_time=True)
    assert codes_in(cluster_under(tmp_path)).keys() == codes


# With transaction version 2: the first transaction has no marker in the partition, the next one is committed.
FIRST = "a Ongoing 7 0 tv 2 {t-0} t 10; a %s 7 1 tv 2 {t-0} t 20; a %s 7 1 tv 2 t 30"
NEXT = "a Ongoing 7 1 tv 2 {t-0} t 40; a PrepareCommit 7 2 tv 2 {t-0} t 50; a CompleteCommit 7 2 tv 2 t 60"
BOTH = f"D 7 0 0-0 @0-0 T {at(11)}; D 7 1 0-0 @1-1 T {at(41)}; M 7 2 C 0 @2 {at(51)}; M 8 0 C 0 @3 {at(100_000)}"


@pytest.mark.parametrize(
    ("outcome", "severity"), [("Commit", Severity.INFO), ("Abort", Severity.CRITICAL), (None, Severity.CRITICAL)]
)
def test_absorbed_data_that_was_to_be_committed_changes_nothing_for_consumers(
    tmp_path: Path, outcome: str | None, severity: Severity
) -> None:
    """Only later than in the other partitions. Without a decision on it, it is a late write."""
    first = f"{FIRST % (f'Prepare{outcome}', f'Complete{outcome}')}; " if outcome else ""
    forge_coordinator(tmp_path / "broker-1", f"a Empty 7 {0 if outcome else 1} tv 2 t 1; {first}{NEXT}")
    forge(tmp_path / "broker-1", BOTH)
    forge(tmp_path / "broker-2", BOTH, node_id=2)
    rows = kforensics.audit(str(tmp_path), as_of=NOW + 200_000).findings.to_pylist()
    absorbed = [row for row in rows if row["code"] == "txn-foreign-data-absorbed"]
    assert {row["severity"] for row in absorbed} == {str(severity)}
    assert ("Its own transaction was committed as well, at 2023-11-14 22:13:20 UTC." in absorbed[0]["message"]) is (
        severity is Severity.INFO
    )
    assert len(absorbed) == (1 if severity is Severity.INFO else 2)


# A transaction of an id, its marker, and data that came after it.
ENDED = "a Empty 7 0 t 0; a Ongoing 7 0 {t-0} t 1; a PrepareCommit 7 0 {t-0} t 3; a CompleteCommit 7 0 t 5"
LATE = f"D 7 0 0-0 @0-0 T {at(2)}; M 7 0 C 0 @1 {at(4)}; D 7 0 1-1 @2-2 T {at(20_000)}"
# A transaction of another id, of which the coordinator has all but the last record.
OTHER = "; b Empty 8 0 t 6; b Ongoing 8 0 {t-0} t 7; b PrepareCommit 8 0 {t-0} t 8"
# Of another producer, whose marker shows when the broker wrote what is before it.
LATER = f"; D 8 0 0-0 @3-3 T {at(21_000)}; M 8 0 C 0 @4 {at(30_000)}"


def hanging_copy(
    folder: Path, log: str, coordinator: str | dict[int, str], *, is_stopped: bool, **options: Any
) -> list[Exactness]:
    """Return the certainty of the hanging transactions, half a minute after the last write."""
    forge(folder, log, clean_shutdown=is_stopped)
    forge_coordinator(folder, coordinator, clean_shutdown=is_stopped, **options)
    found = found_in(cluster_under(folder, as_of_ms=NOW + 60_000))
    return [one.finding.exactness for one in found if one.finding.code.name == "txn-hanging"]


def test_a_late_write_hangs_at_once_if_the_broker_was_stopped(tmp_path: Path) -> None:
    assert hanging_copy(tmp_path, LATE, ENDED, is_stopped=True) == [Exactness.EXACT]


@pytest.mark.parametrize(
    ("broker", "last", "stopped", "shown", "hangs"),
    [
        (2, 1, 2_000, None, False),
        (2, 1, 2_000, 44_000, False),
        (2, 1, 30 * 60_000, None, True),
        (2, 1, 60_000, 60_000, True),
        (2, 60_000, 60_000, None, True),
        (1, 1, 45_000, None, True),
    ],
    ids=["before", "at the same time", "long after", "after, by its metadata log", "a later record", "the same broker"],
)
def test_an_id_may_have_begun_a_transaction_after_its_coordinator_was_stopped(
    *, broker: int, last: int, stopped: int, shown: int | None, hangs: bool, tmp_path: Path
) -> None:
    """Another broker was elected to lead the coordinator, and added the partition. Evaluated as of the newest file."""
    own, other = (tmp_path / f"broker-{number}" for number in (broker, 1))
    forge_coordinator(own, f"a Empty 7 0 t 1; b Empty 8 0 t {last}", node_id=broker)
    if shown is not None:
        write_log(own, [[ABORT], [ABORT]], times=[NOW, NOW + shown])
    _keep_all_times(own, last, stopped)
    forge(other, f"D 7 0 0-0 @0-0 T {at(40_000)}")
    _keep_all_times(other, 40_000, 45_000)
    rows = kforensics.audit(str(tmp_path)).findings.to_pylist()
    found = [(row["severity"], row["exactness"]) for row in rows if row["code"] == "txn-hanging"]
    assert found == ([("critical", "exact")] if hangs else [])


@pytest.mark.parametrize(
    ("coordinator", "copied", "epoch", "hangs"),
    [
        ("a CompleteCommit 7 0 t 25", 60_000, 0, False),
        ("a Ongoing 7 0 {t-1} t 30", 30 * 60_000, 3, False),
        ("a CompleteCommit 7 0 t 25", 30 * 60_000, 0, True),
        ("a CompleteCommit 7 1 tv 2 t 25", 30 * 60_000, 0, True),
        ("a CompleteCommit 7 1 tv 2 t 25", 30 * 60_000, 1, True),
    ],
    ids=["an older copy", "a newer epoch", "quiet in a newer copy", "a late write", "a late write of the next epoch"],
)
def test_a_copy_of_a_coordinators_log_that_is_older_than_the_data_shows_no_hang(
    *, coordinator: str, copied: int, epoch: int, hangs: bool, tmp_path: Path
) -> None:
    """Seen on 4.3.1 and 2.8.2: the coordinators were copied ten minutes earlier, and the id went on since."""
    forge_coordinator(tmp_path / "broker-2", f"a Empty 7 0 t 1; {coordinator}", node_id=2, clean_shutdown=False)
    keep_times(tmp_path / "broker-2", NOW + 30, NOW + copied)
    log = f"D 7 0 0-0 @0-0 T {at(10)}; M 7 0 C 0 @1 {at(20)}; D 7 {epoch} 1-1 @2-2 T {at(300_000)}"
    forge(tmp_path / "broker-1", log if epoch == 0 else log.replace(" 1-1 ", " 0-0 "))
    keep_times(tmp_path / "broker-1", NOW + 300_000, NOW + 310_000)
    codes = {*codes_in(cluster_under(tmp_path, as_of_ms=NOW + DAY))}
    expected = {"txn-hanging", "txn-write-after-marker"} if hangs else set()
    assert codes & {"txn-hanging", "txn-write-after-marker"} == expected


def _keep_all_times(log_dir: Path, written: int, stopped: int) -> None:
    for file in log_dir.rglob("*"):
        utime(file, ns=((NOW + stopped) * 1_000_000,) * 2)
    keep_times(log_dir, NOW + written, NOW + stopped)


@pytest.mark.parametrize(("last", "expected"), [(29_000, []), (40_000, [Exactness.EXACT])])
def test_a_copy_of_a_coordinator_shows_what_hangs_if_it_is_newer(
    last: int, expected: list[Exactness], tmp_path: Path
) -> None:
    """The partition may have been added to the next transaction after an older copy of the coordinator's log."""
    other = f"; b CompleteCommit 8 0 t {last}"
    assert hanging_copy(tmp_path, LATE + LATER, ENDED + OTHER + other, is_stopped=False) == expected


@pytest.mark.parametrize(("last", "expected"), [(19_000, []), (40_000, [Exactness.EXACT])])
def test_the_log_of_the_coordinator_was_cut_off(last: int, expected: list[Exactness], tmp_path: Path) -> None:
    """If it goes on after the data, the partition was not added to a transaction; else it may have been since."""
    other = f"{OTHER}; b CompleteCommit 8 0 t {last}"
    cut_off: dict[str, Any] = {"is_stopped": True, "high_watermark": 99}
    assert hanging_copy(tmp_path, LATE + LATER, ENDED + other, **cut_off) == expected


def test_a_copy_of_the_data_from_before_the_end_of_its_transaction(tmp_path: Path) -> None:
    """Its marker was written after the partition, and before the coordinator's log, was copied."""
    ongoing = "; a Ongoing 7 0 {t-0} t 19000"
    assert hanging_copy(tmp_path / "1", LATE, ENDED + ongoing, is_stopped=False) == []
    ended = f"{ongoing}; a PrepareCommit 7 0 {{t-0}} t 50000; a CompleteCommit 7 0 t 50010"
    assert hanging_copy(tmp_path / "2", LATE + LATER, ENDED + ended, is_stopped=False) == []


@pytest.mark.parametrize(("known_from", "expected"), [(20_000, [Exactness.EXACT]), (39_000, [])])
def test_a_cleaner_took_the_end_of_a_transaction_from_the_log_of_its_coordinator(
    tmp_path: Path, known_from: int, expected: list[Exactness]
) -> None:
    """Seen on 3.9.1: the partition was copied before the marker was written, and the decision was cleaned since."""
    kept = f"b Empty 8 0 t {known_from}; a Empty 7 2 t 40000; b Empty 8 1 t 60000"
    data = f"M 7 0 C 0 @0 {at(4)}; M 8 0 C 0 @1 {at(30_000)}; D 7 0 1-1 @2-2 T {at(31_000)}; M 9 0 C 0 @3 {at(32_000)}"
    coordinator = {0: "c Empty 9 0 t 1", 20: kept}
    assert hanging_copy(tmp_path, data, coordinator, is_stopped=False, first_dirty=20) == expected


def test_its_own_timeout_counts_before_its_coordinator_is_known_to_be_as_new(tmp_path: Path) -> None:
    """Half an hour after the last batch: the copy of the coordinator's log may be older than the transaction."""
    for timeout, expected in ((60_000, True), (3_600_000, False), (2_147_483_647, False)):
        folder = tmp_path / str(timeout)
        forge(folder, LATE, clean_shutdown=False)
        forge_coordinator(folder, ENDED.replace(" 0 {", f" 0 timeout {timeout} {{").replace(
            "CompleteCommit 7 0", f"CompleteCommit 7 0 timeout {timeout}"), clean_shutdown=False)  # fmt: skip
        # Without the times of the files the partition may have been copied half an hour ago, too.
        assert "txn-hanging" not in codes_in(cluster_under(folder, as_of_ms=NOW + 1_800_000, is_assumed=True))
        keep_times(folder, NOW + 30_000, NOW + 1_800_000)
        codes = codes_in(cluster_under(folder, as_of_ms=NOW + 1_800_000))
        assert ("txn-hanging" in codes) is expected


def test_data_before_damage_may_have_ended(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, ENDED)
    folder = forge(tmp_path, f"{LATE}; M 7 0 C 0 @3 {at(20_001)}")
    patch(file_of(folder), 3, fix_crc=False, producer_id=9)
    assert codes_in(cluster_under(tmp_path, as_of_ms=NOW + DAY)).keys() <= {"atomicity-unverifiable"}


@pytest.mark.parametrize("has_metadata", [True, False])
def test_the_command_of_older_releases_is_only_named_where_a_broker_may_be_of_one(
    has_metadata: bool, tmp_path: Path
) -> None:
    """An operator who runs both commands writes two markers."""
    folder = shutil.copytree(SAMPLES / "transactions-v2" / "broker-1", tmp_path / "broker-1")
    if not has_metadata:
        shutil.rmtree(folder / "__cluster_metadata-0")
    findings = kforensics.audit(folder).findings.to_pylist()
    (remedy,) = (row["remedy"] for row in findings if row["code"] == "txn-hanging" and row["topic"] == "hanging")
    assert ("on brokers before 3.0 with" in remedy) == (not has_metadata)
    assert "--start-offset 3`" in remedy
