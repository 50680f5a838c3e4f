"""Copies of running brokers that were made at different times: none has what was written after it was made."""

from __future__ import annotations

from os import utime
from pathlib import Path

import pytest

from kforensics.analyses.audit import AuditRequest, audit_results
from kforensics.analyses.partitions import as_of_notes, investigate
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.partition_files import partitions_of
from kforensics.parsers.files.discover import FoundFile, discover
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import at, forge_coordinator
from tests.forensics.forge import forge

MINUTE = 60_000
HOUR = 60 * MINUTE
STUCK = {"lso-stuck", "txn-late", "txn-hanging"}
# It began after a marker that did not bump the epoch, as late writes do, and was ongoing when broker 1 was copied.
AT_WORK = f"D 1 0 0-0 @0-0 T {at(2)}; M 1 0 A 0 @1 {at(4)}; D 1 0 1-1 @2-2 T {at(7)}; plain @3"
ENDED = (
    "a Empty 1 0 t 0; a Ongoing 1 0 {t-0} t 1; a PrepareAbort 1 0 {t-0} t 3; a CompleteAbort 1 0 t 5; "
    "a Ongoing 1 0 {t-0} t 6; a PrepareCommit 1 0 {t-0} t 600000; a CompleteCommit 1 0 t 600010"
)


def written_at(folder: Path, milliseconds: int) -> None:
    """Set the modification times in a log directory to some milliseconds after ``NOW``."""
    for file in folder.rglob("*"):
        utime(file, ns=((NOW + milliseconds) * 1_000_000,) * 2)


def two_brokers(folder: Path, *, clean: bool = False) -> None:
    """Write the logs of two brokers: one was copied after ten seconds, the other, a coordinator, after an hour."""
    forge(folder / "broker-1", AT_WORK, clean_shutdown=clean)
    written_at(folder / "broker-1", 10_000)
    forge_coordinator(folder / "broker-2", ENDED, clean_shutdown=False)
    written_at(folder / "broker-2", HOUR)


def codes_under(folder: Path, as_of_ms: int | None = None, processes: int | None = None) -> tuple[set[str], list[str]]:
    """Return the finding codes of an audit for the partition, and its notes."""
    notes: list[str] = []
    investigation = investigate([str(folder)], as_of_ms, notes.append, notes.append)
    results = audit_results(investigation, AuditRequest(processes=processes), lambda _: None)
    return {finding.code.name for result in results if result.place.topic == "t" for finding in result.findings}, notes


@pytest.mark.parametrize("processes", [None, 2])
def test_a_transaction_that_was_open_in_an_older_copy_does_not_hang(processes: int | None, tmp_path: Path) -> None:
    """Its coordinator, copied an hour later, had ended it by then; the marker is not in this copy."""
    two_brokers(tmp_path)
    codes, notes = codes_under(tmp_path, processes=processes)
    assert not codes & STUCK
    copied = "was copied 59 min 50 s earlier, while its broker was running or after it crashed"
    assert notes == [
        (
            "evaluated as of 2023-11-14 23:13:20 UTC,"
            f" when {tmp_path / 'broker-2' / 'replication-offset-checkpoint'} was last modified;"
            " set another time with --as-of"
        ),
        f"{tmp_path / 'broker-1'} {copied}: its open transactions are evaluated as of 2023-11-14 22:13:30 UTC",
    ]


def test_all_copies_are_evaluated_as_of_a_given_time(tmp_path: Path) -> None:
    two_brokers(tmp_path)
    codes, notes = codes_under(tmp_path, NOW + HOUR)
    assert (codes >= STUCK - {"txn-hanging"}, notes) == (True, [])  # its coordinator may have ended it since


def test_nothing_is_written_to_a_stopped_broker_later(tmp_path: Path) -> None:
    """Its open transactions are as old as the newest of all files shows, whenever it was copied."""
    two_brokers(tmp_path, clean=True)
    codes, notes = codes_under(tmp_path)
    assert (codes >= STUCK, len(notes)) == (True, 1)


def test_a_hanging_transaction_in_an_idle_cluster_is_as_old_as_the_checkpoints(tmp_path: Path) -> None:
    """No producer writes to the log any more, but the running broker still writes its checkpoints."""
    two_brokers(tmp_path)
    for file in (tmp_path / "broker-1").glob("*-checkpoint"):
        utime(file, ns=((NOW + HOUR - 5_000) * 1_000_000,) * 2)
    codes, notes = codes_under(tmp_path)
    assert (codes >= STUCK, len(notes)) == (True, 1)


@pytest.mark.parametrize("named", ["broker-1/t-0", "broker-1"])
def test_a_folder_of_a_partition_is_as_old_as_its_log_directory(named: str, tmp_path: Path) -> None:
    """The log directory itself may be given, or only be read for the files that describe the partition."""
    two_brokers(tmp_path)
    found = [row for row in discover([str(tmp_path / named)]) if isinstance(row, FoundFile)]
    (partition,) = partitions_of(found)
    assert partition.taken_ms == NOW + 10_000


def test_without_checkpoints_the_time_of_the_copy_is_unknown(tmp_path: Path) -> None:
    two_brokers(tmp_path)
    for file in (tmp_path / "broker-1").glob("*-checkpoint"):
        file.unlink()
    codes, notes = codes_under(tmp_path)
    assert (codes >= STUCK - {"txn-hanging"}, len(notes)) == (True, 1)


@pytest.mark.parametrize(("after", "hangs"), [(20 * MINUTE, False), (20 * MINUTE + 1, True)])
def test_a_transaction_that_was_idle_in_an_older_copy_hangs(after: int, hangs: bool, tmp_path: Path) -> None:
    two_brokers(tmp_path)
    written_at(tmp_path / "broker-1", 7 + after)
    assert bool(codes_under(tmp_path)[0] & {"lso-stuck", "txn-late"}) is hangs


def test_a_batch_that_is_newer_than_its_file_has_no_idle_time(tmp_path: Path) -> None:
    """It was written after the file's modification time was read, and before its bytes were copied."""
    two_brokers(tmp_path)
    written_at(tmp_path / "broker-1", -10)
    notes: list[str] = []
    investigation = investigate([str(tmp_path)], None, notes.append, notes.append)
    results = audit_results(investigation, AuditRequest(), lambda _: None)
    findings = (finding for result in results for finding in result.findings)
    (opened,) = (finding for finding in findings if finding.code.name == "txn-open-at-end")
    assert opened.evidence["silent_ms"] == 0


def test_of_very_many_old_copies_some_are_listed() -> None:
    copy_times = [(f"/copies/{number}", NOW - number) for number in range(12)]
    sentences = list(as_of_notes([*copy_times, (None, 5), ("/there", None)], Rules(NOW + HOUR, is_assumed=True)))
    assert len(sentences) == 12
    assert sentences[1].startswith("/copies/11 was copied ")
    assert sentences[-1] == "… and 2 more log directories"


def test_copies_within_a_quarter_of_an_hour_have_no_note() -> None:
    rules = Rules(NOW + 15 * MINUTE, is_assumed=True)
    assert len(list(as_of_notes([("/one", NOW), ("/one", NOW - HOUR)], rules))) == 1
    assert len(list(as_of_notes([("/one", NOW - 1), ("/one", NOW - HOUR)], rules))) == 2


def test_a_transaction_that_another_replica_has_lost_to_the_cleaner_does_not_hang(tmp_path: Path) -> None:
    """The replica that was copied early waits for its marker; on the longer one the cleaner removed data and marker."""
    two_brokers(tmp_path)
    forge(tmp_path / "broker-2", "plain @3-3; plain @30-39", compacted=True, clean_shutdown=False)
    written_at(tmp_path / "broker-2", 11_000)
    ended = ENDED.replace("t 600000", "t 10500").replace("t 600010", "t 10510")
    forge_coordinator(tmp_path / "broker-2", f"{ended}; b Empty 9 0 t 30000", clean_shutdown=False)
    codes, _ = codes_under(tmp_path)
    assert not codes & {*STUCK, "txn-write-after-marker"}


@pytest.mark.parametrize("outcome", ["C", "A"])
@pytest.mark.parametrize("listed", ["t-0", "u-0"])
def test_a_marker_that_is_younger_than_the_coordinators_log_is_in_order(
    outcome: str, listed: str, tmp_path: Path
) -> None:
    """Its decision was written after the log had been copied; before version 2 other transactions have its epoch."""
    ended = f"a Ongoing 1 0 {{{listed}}} t 6; a PrepareCommit 1 0 {{{listed}}} t 20; a CompleteCommit 1 0 t 25"
    forge_coordinator(tmp_path, f"a Empty 1 0 t 0; {ended}; b Empty 2 0 t 30000", clean_shutdown=False)
    first = f"D 1 0 0-0 @0-0 T {at(7)}; M 1 0 C 0 @1 {at(22)}; " if listed == "t-0" else ""
    later = f"D 1 0 1-1 @2-2 T {at(89_000)}; M 1 0 {outcome} 0 @3 {at(90_000)}"
    forge(tmp_path, f"{first}{later}; plain @4 {at(90_001)}", clean_shutdown=False)
    written_at(tmp_path, 91_000)
    assert not codes_under(tmp_path)[0] & {"marker-partition-unlisted", "marker-outside-window"}


def test_a_topic_that_is_younger_than_a_transaction_has_no_marker_of_it(tmp_path: Path) -> None:
    """The topic was deleted and created again; the coordinators list partitions by name alone."""
    ended = "a Ongoing 1 0 {t-0} t 6; a PrepareCommit 1 0 {t-0} t 20; a CompleteCommit 1 0 t 25"
    again = "a Ongoing 1 0 {t-0} t 30010; a PrepareCommit 1 0 {t-0} t 30020; a CompleteCommit 1 0 t 30030"
    forge_coordinator(tmp_path, f"a Empty 1 0 t 0; {ended}; {again}")
    forge(tmp_path, f"D 1 0 0-0 @0-0 T {at(30_012)}; M 1 0 C 0 @1 {at(30_022)}; M 2 0 C 0 @2 {at(60_000)}")
    assert "atomicity-marker-missing" not in codes_under(tmp_path)[0]


def test_a_topic_that_was_created_again_and_is_empty_has_no_marker(tmp_path: Path) -> None:
    ended = "a Ongoing 1 0 {t-0} t 6; a PrepareCommit 1 0 {t-0} t 20; a CompleteCommit 1 0 t 25"
    forge_coordinator(tmp_path, f"a Empty 1 0 t 0; {ended}")
    forge(tmp_path, "")
    assert "atomicity-marker-missing" not in codes_under(tmp_path)[0]
