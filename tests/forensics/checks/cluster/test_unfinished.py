"""Transactions that their coordinator should have ended."""

from __future__ import annotations

import shutil
from dataclasses import replace
from os import utime
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.forensics.core.broker_settings import ABORT_SCAN, GIVEN, Setting
from kforensics.forensics.core.election import Election
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.partition.partition_rows import remedy_text
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import at, cluster_under, codes_in, forge_coordinator, found_in
from tests.forensics.forge import cut, file_of, forge, keep_times, patch
from tests.forensics.partition_states import SAMPLES

FIRES = {
    "txnlog-prepare-stuck": "test_an_end_that_is_not_everywhere",
    "txnlog-ongoing-overdue": "test_a_transaction_beyond_its_timeout",
}
SILENT = {
    "txnlog-prepare-stuck": "test_an_end_that_is_on_its_way",
    "txnlog-ongoing-overdue": "test_a_transaction_within_its_timeout",
}
PREPARED = "a Empty 1 0 t 0; a Ongoing 1 0 {t-0, t-1, t-2} t 1; a PrepareAbort 1 0 {t-0, t-1, t-2} t 100"
MAX = 900_000
METADATA = SAMPLES / "replication" / "broker-1" / "__cluster_metadata-0"
# The time of its last batch: when its broker stopped.
END_OF_METADATA = 1_795_262_964_763


def prepared(folder: Path) -> None:
    forge_coordinator(folder, PREPARED)
    forge(folder, f"D 1 0 0-0 @0-0 T {at(2)}; M 1 0 A 0 @1 {at(101)}")
    forge(folder, f"D 1 0 0-0 @0-0 T {at(2)}", partition=1)


def test_an_end_that_is_not_everywhere(tmp_path: Path) -> None:
    """The third partition is not available, so its marker is unknown."""
    prepared(tmp_path)
    keep_times(tmp_path, NOW + 101, NOW + 100 + MAX + 1)
    placed = found_in(cluster_under(tmp_path, as_of_ms=NOW + 100 + MAX + 1))
    (finding,) = (result for _, result in placed if result.code.name == "txnlog-prepare-stuck")
    assert str(finding.severity) == "critical"
    assert finding.evidence["without_marker"] == ["t-1"]
    assert "Without a marker: t-1." in finding.message


def test_an_end_that_is_on_its_way(tmp_path: Path) -> None:
    prepared(tmp_path)
    assert codes_in(cluster_under(tmp_path, as_of_ms=NOW + 100 + MAX)) == {"atomicity-unverifiable": "info"}


RESTORED = "a Empty 1 0 tv 2 t 0; a Ongoing 1 0 tv 2 {t-0,t-1} t 10; a PrepareAbort 1 1 tv 2 {t-0,t-1} t 20"
# The coordinator's log continues after the marker with the higher epoch.
LATER = "; b Empty 2 0 t 50000"


def restored(folder: Path, later: str = "", *, epoch: int = 3, clean_shutdown: bool = False) -> dict[str, str]:
    """Return the findings where a coordinator's log is older than a partition, as a backup of it is."""
    forge_coordinator(folder, RESTORED + later, clean_shutdown=clean_shutdown)
    old, new = f"D 1 0 0-0 @0-0 T {at(11)}; M 1 1 A 0 @1 {at(21)}", f"D 1 {epoch - 1} 0-0 @2-2 T {at(39_999)}"
    new += f"; M 1 {epoch} C 0 @3 {at(40_000)}"
    forge(folder, f"{old}; {new}", clean_shutdown=clean_shutdown)
    forge(folder, old, partition=1, clean_shutdown=clean_shutdown)
    keep_times(folder, NOW + 50_000, NOW + 50_000)
    return codes_in(cluster_under(folder, as_of_ms=NOW + 60_000, is_assumed=True))


@pytest.mark.parametrize(("later", "clean_shutdown"), [(LATER, False), ("", True), (LATER, True)])
def test_a_marker_that_its_partition_rejects(later: str, clean_shutdown: bool, tmp_path: Path) -> None:
    """Seen on 4.3.1, whose ``__transaction_state`` was restored from a backup: it waits for the marker for ever."""
    codes = restored(tmp_path, later, clean_shutdown=clean_shutdown)
    assert codes["txnlog-prepare-stuck"] == "critical"
    placed = found_in(cluster_under(tmp_path, as_of_ms=NOW + 60_000, is_assumed=True))
    (finding,) = (result for _, result in placed if result.code.name == "txnlog-prepare-stuck")
    assert finding.evidence["rejected_by"] == ["t-0"]
    assert "INVALID_PRODUCER_EPOCH" in finding.message
    assert (finding.remedy or "").startswith("Do not move the leadership")
    assert "`" not in (finding.remedy or "`")  # no command helps


@pytest.mark.parametrize(("later", "epoch"), [("", 3), ("; b Empty 2 0 t 44999", 3), (LATER, 1)])
def test_a_partition_that_was_copied_after_the_coordinator(later: str, epoch: int, tmp_path: Path) -> None:
    """With transaction version 2 it has the marker of the next transaction if that is a second later."""
    assert "txnlog-prepare-stuck" not in restored(tmp_path, later, epoch=epoch)


def test_the_end_before_a_higher_epoch_may_be_in_records_that_a_copy_lacks(tmp_path: Path) -> None:
    """The cleaner merged segments while they were copied; see ``LackingSpan``."""
    before = "c Empty 3 0 t 0; c Empty 3 1 t 1"
    log = {0: f"{before}; {RESTORED}", 20: LATER[2:]}
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\n__transaction_state 0 20\n")
    forge_coordinator(tmp_path, log, clean_shutdown=False)
    forge(tmp_path, f"D 1 2 0-0 @2-2 T {at(39_999)}; M 1 3 C 0 @3 {at(40_000)}", clean_shutdown=False)
    keep_times(tmp_path, NOW + 50_000, NOW + 50_000)
    assert "txnlog-prepare-stuck" not in codes_in(cluster_under(tmp_path, as_of_ms=NOW + 60_000, is_assumed=True))


def overdue(folder: Path, after: int, timeout: int = 60_000, *, kept: bool = False) -> dict[str, str]:
    forge_coordinator(folder, f"a Empty 1 0 t 0; a Ongoing 1 0 timeout {timeout} {{t-0}} t 100")
    forge(folder, f"D 1 0 0-0 @0-0 T {at(101)}")
    if kept:
        keep_times(folder, NOW + 101, NOW + 100 + after)
    return codes_in(cluster_under(folder, as_of_ms=NOW + 100 + after))


LATE = "a Ongoing 1 0 timeout 60000 {t-0} t 100; b Empty 2 0 t 101"


def found_late(folder: Path, more: str = "", *, log_ms: int = 126_001, **options: Any) -> tuple[str, str] | None:
    """Return severity and benign causes of the finding on a transaction that seems to be beyond its timeout, if any."""
    forge_coordinator(folder, f"a Empty 1 0 t 0; {LATE}{more}", clean_shutdown=False, **options)
    forge(folder, f"D 1 0 0-0 @0-0 T {at(101)}", clean_shutdown=False)
    keep_times(folder, NOW + log_ms, NOW + 126_000)
    placed = found_in(cluster_under(folder, as_of_ms=NOW + 130_000))
    found = [one for _, one in placed if one.code.name == "txnlog-ongoing-overdue"]
    return (str(found[0].severity), "; ".join(found[0].benign)) if found else None


def test_the_end_may_be_where_the_log_of_its_coordinator_was_cut_off(tmp_path: Path) -> None:
    """A disk was full: the log is younger than the checkpoint beside it, which counts records that it lacks.

    Seen on 3.7.2, copied with a limit on the sizes of files: the id had 36 transactions.
    """
    assert found_late(tmp_path / "cut", high_watermark=2137) is None
    later = "; b Empty 2 1 t 125900"
    severity, benign = found_late(tmp_path / "later", later, high_watermark=2137) or ("", "")
    assert severity == "info"
    assert "its checkpoint has the high watermark 2137, and the log ends at offset 4" in benign


@pytest.mark.parametrize(("log_ms", "high_watermark"), [(126_001, 3), (126_001, 2), (125_999, 2137)])
def test_a_log_that_is_whole_or_was_copied_before_its_checkpoint(
    log_ms: int, high_watermark: int, tmp_path: Path
) -> None:
    """The broker was at work: what it wrote after the copy of the log is hardly more than a second of it."""
    found = found_late(tmp_path, log_ms=log_ms, high_watermark=high_watermark)
    assert found is not None
    assert found[0] == "error"


def test_a_torn_end_within_the_checkpoints(tmp_path: Path) -> None:
    """As after ``kill -9``: what was written last had not become a batch."""
    assert (found_late(tmp_path, "; c Empty 3 0 t 102", high_watermark=3) or ("",))[0] == "error"
    log = file_of(tmp_path / "__transaction_state-0")
    cut(log, log.stat().st_size - 9)
    keep_times(tmp_path, NOW + 126_001, NOW + 126_000)
    assert codes_in(cluster_under(tmp_path, as_of_ms=NOW + 130_000))["txnlog-ongoing-overdue"] == "error"


def test_a_transaction_beyond_its_timeout(tmp_path: Path) -> None:
    """Coordinators before 2.5 look for such transactions every minute, and clocks differ by at most five seconds."""
    assert overdue(tmp_path, 125_001, kept=True) == {"txnlog-ongoing-overdue": "error"}


@pytest.mark.parametrize("kept", [False, True])
def test_no_broker_was_seen_after_the_timeout(tmp_path: Path, kept: bool) -> None:
    """It was stopped: only who gives a later time of evaluation says that it should have been started again."""
    overdue(tmp_path, 1_000, kept=kept)
    codes = codes_in(cluster_under(tmp_path, as_of_ms=NOW + 100 * MAX, is_assumed=not kept))
    assert codes == ({"txnlog-ongoing-overdue": "warning"} if kept else {})


@pytest.mark.parametrize(("copied_ms", "is_reported"), [(130_000, False), (2 * MAX, True)])
def test_a_broker_that_was_stopped_ends_no_transaction(copied_ms: int, is_reported: bool, tmp_path: Path) -> None:
    """A copy of a cluster of 3.9.1 that was made a few seconds after its stop gave the files the times of the copy."""
    overdue(tmp_path, 1_000)
    keep_times(tmp_path, NOW + 101, NOW + copied_ms)
    codes = codes_in(cluster_under(tmp_path, as_of_ms=NOW + copied_ms, is_assumed=True))
    assert ("txnlog-ongoing-overdue" in codes) == is_reported


def test_other_partitions_of_a_broker_that_was_stopped_do_not_matter(tmp_path: Path) -> None:
    """A command that reads less of the log directory finds the same."""
    overdue(tmp_path, 1_000)
    forge(tmp_path, f"M 2 0 C 0 @0 {at(600_000)}", partition=1)
    assert "txnlog-ongoing-overdue" not in codes_in(cluster_under(tmp_path, as_of_ms=NOW + MAX, is_assumed=True))


def copied(folder: Path, milliseconds: int) -> None:
    """Make it a copy of a running broker, taken this long after ``NOW``."""
    (folder / ".kafka_cleanshutdown").unlink()
    for file in (folder / "t-0").iterdir():
        utime(file, ns=((NOW + milliseconds) * 1_000_000,) * 2)


@pytest.mark.parametrize(
    ("before", "state", "severity"),
    [
        ("a Empty 1 0 t 0", "Ongoing", "info"),
        ("a Empty 1 0 t 0", "PrepareAbort", "warning"),
        ("c Empty 2 0 t 0", "Ongoing", "error"),
        ("c Empty 2 0 t 0", "PrepareAbort", "critical"),
    ],
)
def test_the_end_may_be_in_a_segment_that_a_cleaner_merged_during_the_copy(
    before: str, state: str, severity: str, tmp_path: Path
) -> None:
    """Several records of an id show that no cleaner has been there: the gap after them is one of the copy."""
    log = {0: f"{before}; a {state} 1 0 {{t-0}} t 100", 20: f"b Empty 9 0 t {2 * MAX}"}
    forge_coordinator(tmp_path, log, clean_shutdown=False)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\n__transaction_state 0 20\n")
    keep_times(tmp_path, NOW + 2 * MAX, NOW + 2 * MAX)
    found = codes_in(cluster_under(tmp_path, as_of_ms=NOW + 2 * MAX))
    code = "txnlog-ongoing-overdue" if state == "Ongoing" else "txnlog-prepare-stuck"
    assert found[code] == severity


@pytest.mark.parametrize(
    ("damaged", "severity"), [(2, "warning"), (0, "critical")], ids=["after its last record", "before it"]
)
def test_the_end_may_be_in_a_damaged_record(damaged: int, severity: str, tmp_path: Path) -> None:
    """Of a coordinator of 4.4.0: a bit of the record with the state Complete was flipped."""
    log = f"b Empty 9 0 t 0; a PrepareAbort 1 0 {{t-0}} t 100; a CompleteAbort 1 0 t 110; b Empty 9 1 t {2 * MAX}"
    if damaged == 0:
        log = f"b Empty 9 0 t 0; a PrepareAbort 1 0 {{t-0}} t 100; b Empty 9 1 t {2 * MAX}"
    folder = forge_coordinator(tmp_path, log)
    patch(file_of(folder), damaged, fix_crc=False, crc=1)
    keep_times(tmp_path, NOW + 2 * MAX, NOW + 2 * MAX)
    findings = kforensics.audit(str(tmp_path), processes=1, as_of=NOW + 2 * MAX).findings.to_pylist()
    assert [row["severity"] for row in findings if row["code"] == "txnlog-prepare-stuck"] == [severity]


@pytest.mark.parametrize(("taken", "code"), [(125_100, None), (125_101, "txnlog-ongoing-overdue")])
def test_a_transaction_within_its_timeout_when_its_coordinator_was_copied(
    taken: int, code: str | None, tmp_path: Path
) -> None:
    """Other brokers were copied later; this one may have ended it meanwhile."""
    overdue(tmp_path, 125_001)
    copied(tmp_path, taken)
    findings = codes_in(cluster_under(tmp_path, as_of_ms=NOW + MAX)).keys()
    assert findings & {"txnlog-ongoing-overdue"} == {code} - {None}


@pytest.mark.parametrize(
    ("later", "copied_ms", "severity"),
    [(125_100, MAX, "info"), (125_101, MAX, "error"), (125_100, 3_800_000, "warning")],
)
def test_a_broker_that_crashed_knows_less_than_its_copy_is_old(
    later: int, copied_ms: int, severity: str, tmp_path: Path
) -> None:
    """Unless a later marker shows that it was running and had caught up. No copy takes longer than an hour."""
    overdue(tmp_path, 125_001)
    forge(tmp_path, f"M 2 0 C 0 @0 {at(later)}", partition=1)
    copied(tmp_path, copied_ms)
    findings = codes_in(cluster_under(tmp_path, as_of_ms=NOW + copied_ms))
    assert findings["txnlog-ongoing-overdue"] == severity


@pytest.mark.parametrize(("is_running", "severity"), [(True, "info"), (False, "error")])
def test_other_logs_of_a_running_broker_may_have_been_copied_later(
    is_running: bool, severity: str, tmp_path: Path
) -> None:
    """To copy a broker of 4.4.0 took 27 s, in which a transaction with a timeout of 3 s ended."""
    overdue(tmp_path, 125_001)
    forge(tmp_path, f"M 2 0 C 0 @0 {at(125_101)}", partition=1)
    keep_times(tmp_path, NOW + 101, NOW + 101)
    for file in (tmp_path / "t-1").iterdir():
        utime(file, ns=((NOW + 125_101) * 1_000_000,) * 2)
    if is_running:
        (tmp_path / ".kafka_cleanshutdown").unlink()
    findings = codes_in(cluster_under(tmp_path, as_of_ms=NOW + MAX))
    assert findings["txnlog-ongoing-overdue"] == severity


@pytest.mark.parametrize(("taken", "is_stuck"), [(100 + MAX, False), (101 + MAX, True)])
def test_an_end_that_was_on_its_way_when_its_coordinator_was_copied(taken: int, is_stuck: bool, tmp_path: Path) -> None:
    prepared(tmp_path)
    copied(tmp_path, taken)
    for file in (tmp_path / "t-1").iterdir():
        utime(file, (1, 1))
    assert ("txnlog-prepare-stuck" in codes_in(cluster_under(tmp_path, as_of_ms=NOW + 9 * MAX))) == is_stuck


@pytest.mark.parametrize(("after", "timeout"), [(125_000, 60_000), (30 * 86_400_000, 2_147_483_647)])
def test_a_transaction_within_its_timeout(after: int, timeout: int, tmp_path: Path) -> None:
    """A two-phase commit has no timeout."""
    assert "txnlog-ongoing-overdue" not in overdue(tmp_path, after, timeout)


@pytest.mark.parametrize(("time", "codes"), [(125_100, {}), (125_101, {"txn-duration-excessive": "warning"})])
def test_a_transaction_that_was_decided_late(time: int, codes: dict[str, str], tmp_path: Path) -> None:
    ends = f"a PrepareAbort 1 0 {{t-0}} t {time}; a CompleteAbort 1 0 t {time + 2}"
    forge_coordinator(tmp_path, f"a Empty 1 0 t 0; a Ongoing 1 0 {{t-0}} t 100; {ends}")
    forge(tmp_path, f"D 1 0 0-0 @0-0 T {at(101)}; M 1 0 A 0 @1 {at(time + 1)}")
    assert codes_in(cluster_under(tmp_path)) == codes


@pytest.mark.parametrize(
    ("elected", "severity"),
    [
        (60_000, Severity.INFO),
        (-4_900, Severity.INFO),
        (135_000, Severity.INFO),
        (-4_901, Severity.WARNING),
        (135_001, Severity.WARNING),
    ],
    ids=["meanwhile", "clocks differ at its start", "clocks differ at its end", "before", "after"],
)
def test_a_coordinator_that_was_elected_meanwhile_decides_late(
    elected: int, severity: Severity, tmp_path: Path
) -> None:
    """Seen in rolling restarts of brokers of 3.3.2 to 4.4.0, and after they had been killed."""
    forge_coordinator(
        tmp_path,
        "a Empty 1 0 t 0; a Ongoing 1 0 {t-0} t 100; a PrepareAbort 1 0 {t-0} t 130000; a CompleteAbort 1 0 t 130002",
    )
    forge(tmp_path, f"D 1 0 0-0 @0-0 T {at(101)}; M 1 0 A 0 @1 {at(130_001)}")
    cluster = cluster_under(tmp_path)
    (history,) = cluster.coordinators.histories
    elections = (Election(7, 1, NOW + elected, (1,), is_unclean=False, predecessor=2),)
    (placed,) = found_in(
        cluster.with_elections({(history.topic_id or "", history.place.partition or 0): elections}, [])
    )
    assert (placed.finding.code.name, placed.finding.severity) == ("txn-duration-excessive", severity)
    assert ("election at" in "; ".join(placed.finding.benign)) is (severity is Severity.INFO)


def test_a_two_phase_commit_takes_its_time(tmp_path: Path) -> None:
    begun = "a Empty 1 0 t 0; a Ongoing 1 0 timeout 2147483647 {t-0} t 100"
    ends = "a PrepareAbort 1 0 timeout 2147483647 {t-0} t 9000000; a CompleteAbort 1 0 timeout 2147483647 t 9000002"
    forge_coordinator(tmp_path, f"{begun}; {ends}")
    forge(tmp_path, f"D 1 0 0-0 @0-0 T {at(101)}; M 1 0 A 0 @1 {at(9_000_001)}")
    assert codes_in(cluster_under(tmp_path)) == {"txnlog-timeout-too-large": "info"}


def test_a_remedy_quotes_the_id_for_a_shell(tmp_path: Path) -> None:
    """The name of the id must not be able to change the command."""
    forge_coordinator(tmp_path, "$(reboot) Empty 1 0 t 0; $(reboot) Ongoing 1 0 {t-0} t 5")
    placed = found_in(cluster_under(tmp_path, as_of_ms=NOW + 100 * MAX))
    (finding,) = (
        placed_finding for placed_finding in placed if placed_finding.finding.code.name == "txnlog-ongoing-overdue"
    )
    remedy = str(remedy_text(*finding))
    assert "describe --transactional-id '$(reboot)'`. If" in remedy
    assert "forceTerminateTransaction --transactionalId '$(reboot)'`." in remedy


@pytest.mark.parametrize(("settings", "codes"), [((), set()), (("10000",), {"txn-duration-excessive"})])
def test_an_abort_by_a_coordinator_before_2_5(settings: tuple[str, ...], codes: set[str], tmp_path: Path) -> None:
    """The times are those of a broker of Kafka 1.1.1 with Kafka's defaults. Newer ones look every ten seconds."""
    ongoing = "a Empty 0 0 timeout 2000 t 0; a Ongoing 0 0 timeout 2000 {t-0} t 100"
    decided = "a PrepareAbort 0 1 timeout 2000 {t-0} t 39900; a CompleteAbort 0 1 timeout 2000 t 40000"
    forge_coordinator(tmp_path, f"{ongoing}; {decided}")
    forge(tmp_path, f"D 0 0 0-1 @0-1 T {at(101)}; M 0 1 A 0 @2 {at(39_950)}")
    cluster = cluster_under(tmp_path, as_of_ms=NOW + MAX)
    known = tuple(Setting(ABORT_SCAN, value, GIVEN) for value in settings)
    found = found_in(replace(cluster, rules=replace(cluster.rules, settings=known)))
    assert {placed.code.name for _, placed in found} == codes


@pytest.mark.parametrize(
    ("minutes", "kept", "severity"),
    [
        pytest.param(2, (), "info", id="a copy that makes all files new"),
        pytest.param(4, (), "info", id="a later one"),
        pytest.param(16, (), "info", id="a later one, beside a topic with the times of clients"),
        pytest.param(4, ("partition.metadata",), "warning", id="a broker that has lost its controllers"),
        pytest.param(4, ("partition.metadata", METADATA.name), "error", id="a broker without a metadata log"),
    ],
)
def test_a_copy_some_minutes_after_a_crash_that_makes_its_files_new(
    minutes: int, kept: tuple[str, ...], severity: str, tmp_path: Path
) -> None:
    """A transaction of the last ten seconds was not overdue: the metadata log shows when the broker was killed.

    A broker without controllers creates no partition, so partitions that are older show that files have their times.
    """
    stopped, copied_ms = END_OF_METADATA - NOW, END_OF_METADATA + minutes * 60_000
    coordinator = f"a Empty 1 0 t 0; a Ongoing 1 0 timeout 60000 {{t-0}} t {stopped - 10_000}"
    forge_coordinator(tmp_path, coordinator, clean_shutdown=False)
    forge(tmp_path, f"D 1 0 0-0 @0-0 T {at(stopped - 10_000)}", clean_shutdown=False)
    forge(tmp_path, f"plain @0-0 {at(stopped + 20 * 60_000)}", topic="clients", clean_shutdown=False)
    shutil.copytree(METADATA, tmp_path / METADATA.name)
    for folder in tmp_path.glob("*-0"):
        (folder / "partition.metadata").touch()
    keep_times(tmp_path, copied_ms, copied_ms)
    for file in tmp_path.glob("*-0/partition.metadata") if kept else ():
        utime(file, ns=((NOW + 1) * 1_000_000,) * 2)
    if METADATA.name in kept:
        shutil.rmtree(tmp_path / METADATA.name)
    rows = kforensics.audit(str(tmp_path), processes=1).findings.to_pylist()
    assert [row["severity"] for row in rows if row["code"] == "txnlog-ongoing-overdue"] == [severity]
