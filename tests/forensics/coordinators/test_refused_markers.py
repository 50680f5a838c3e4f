"""Markers that a leader refused because its topic had been set to message format 0 or 1 while a transaction was open.

As Kafka 2.8.2 and 3.3.2 did: the coordinator completes the transaction, and the data stays open until a broker loads
the log; from then on read_committed consumers receive it.
"""

from __future__ import annotations

from os import utime
from pathlib import Path

import pytest

from kforensics.forensics.core.findings import Finding, Severity
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import at, cluster_under, forge_coordinator, found_in
from tests.forensics.forge import file_of, forge, snapshot_bytes
from tests.parsers.builders import message

MINUTE = 60_000
DATA = f"D 1 0 0-0 @0-0 T {at(5)}"
SECOND = f"M 1 0 C 0 @1 {at(7)}; D 1 0 1-1 @2-2 T {at(8)}"
BEGUN = "a Empty 1 0 t 0; a Ongoing 1 0 {t-0} t 4"
COMMITTED = f"{BEGUN}; a PrepareCommit 1 0 {{t-0}} t 20; a CompleteCommit 1 0 t 25"
ABORTED = f"{BEGUN}; a PrepareAbort 1 0 {{t-0}} t 20; a CompleteAbort 1 0 t 25"
UNENDED = {"atomicity-marker-missing", "txn-hanging", "txn-write-after-marker"}


def write(
    folder: Path,
    coordinator: str,
    *,
    data: str = DATA,
    first_old: int = 1,
    is_loaded: bool = False,
    written_ms: int = MINUTE,
    clean: bool = False,
) -> None:
    """Write a log that ends with two messages of format 1, and its coordinator's; a broker may have loaded it since."""
    forge_coordinator(folder, coordinator, clean_shutdown=clean)
    end = first_old + 2
    place = forge(
        folder,
        f"{data}; plain @{first_old}; plain @{first_old + 1}",
        clean_shutdown=clean,
        snapshots={end: snapshot_bytes([]) if is_loaded else None},
    )
    new = forge(folder.parent / "new", data, clean_shutdown=False)
    old = b"".join(message(offset, b"k", b"v", magic=1, timestamp=NOW + 30) for offset in (first_old, first_old + 1))
    file_of(place).write_bytes(file_of(new).read_bytes() + old)
    for file in folder.rglob("*"):
        utime(file, ns=((NOW + written_ms) * 1_000_000,) * 2)


def found(folder: Path, written_ms: int = MINUTE) -> dict[str, Finding]:
    """Return the findings in a cluster as of the time of its files, by code."""
    placed = found_in(cluster_under(folder, as_of_ms=NOW + written_ms, is_assumed=True))
    return {each.finding.code.name: each.finding for each in placed}


@pytest.mark.parametrize("coordinator", [COMMITTED, ABORTED])
@pytest.mark.parametrize("clean", [False, True])
def test_a_transaction_whose_marker_was_refused_hangs(coordinator: str, clean: bool, tmp_path: Path) -> None:
    """Its coordinator has completed it, and batches of the old format follow its data."""
    write(tmp_path / "b", coordinator, clean=clean)
    codes = found(tmp_path / "b")
    assert codes.keys() & UNENDED == {"atomicity-marker-missing", "txn-hanging"}
    missing, hanging = codes["atomicity-marker-missing"], codes["txn-hanging"]
    assert {missing.severity, hanging.severity} == {Severity.CRITICAL}
    assert "batches of message format 0 or 1 follow its data, so its leader refused the marker" in missing.message
    assert "message.format.version" in (missing.remedy or "")
    assert "message.format.version" in (hanging.remedy or "")


def test_it_is_no_write_after_the_marker_of_the_transaction_before(tmp_path: Path) -> None:
    first = f"{BEGUN}; a PrepareCommit 1 0 {{t-0}} t 6; a CompleteCommit 1 0 t 7"
    second = "a Ongoing 1 0 {t-0} t 8; a PrepareCommit 1 0 {t-0} t 20; a CompleteCommit 1 0 t 25"
    write(tmp_path / "b", f"{first}; {second}", data=f"{DATA}; {SECOND}", first_old=3)
    assert found(tmp_path / "b").keys() & UNENDED == {"atomicity-marker-missing", "txn-hanging"}


@pytest.mark.parametrize(("coordinator", "severity"), [(COMMITTED, Severity.INFO), (ABORTED, Severity.ERROR)])
def test_what_a_broker_forgot_is_received_whatever_was_decided(
    coordinator: str, severity: Severity, tmp_path: Path
) -> None:
    """That is wrong only of what was aborted."""
    write(tmp_path / "b", coordinator, is_loaded=True)
    codes = found(tmp_path / "b")
    assert codes.keys() & UNENDED == {"atomicity-marker-missing"}
    finding = codes["atomicity-marker-missing"]
    assert (finding.severity, finding.first_offset, finding.last_offset) == (severity, 0, 0)
    assert "read_committed consumers receive its data" in finding.message


@pytest.mark.parametrize(
    ("coordinator", "data"),
    [
        (BEGUN, DATA),
        (f"{BEGUN}; a PrepareCommit 1 0 {{t-0}} t 20", DATA),
        (COMMITTED, f"plain @0 {at(5)}"),
        (ABORTED, f"D 2 0 0-0 @0-0 T {at(5)}"),
    ],
    ids=["ongoing", "prepared", "without data", "data of another producer"],
)
@pytest.mark.parametrize("is_loaded", [False, True])
def test_without_data_of_a_complete_transaction_no_marker_is_missed(
    coordinator: str, data: str, is_loaded: bool, tmp_path: Path
) -> None:
    write(tmp_path / "b", coordinator, data=data, is_loaded=is_loaded)
    assert not found(tmp_path / "b").keys() & UNENDED


@pytest.mark.parametrize("is_loaded", [False, True])
def test_what_was_committed_before_the_format_changed_is_in_order(is_loaded: bool, tmp_path: Path) -> None:
    """The partition was merely converted."""
    write(tmp_path / "b", COMMITTED, data=f"{DATA}; M 1 0 C 0 @1 {at(22)}", first_old=2, is_loaded=is_loaded)
    assert not found(tmp_path / "b").keys() & UNENDED


def test_a_copy_from_before_the_end_of_the_transaction_shows_nothing(tmp_path: Path) -> None:
    """The log was written to last within the time by which clocks may differ; the true reason is stated."""
    write(tmp_path / "b", COMMITTED, written_ms=3_000)
    codes = found(tmp_path / "b", 3_000)
    assert not codes.keys() & UNENDED
    assert "its topic has had message format 0 or 1" in codes["atomicity-unverifiable"].message


def test_a_log_with_an_offset_gap_may_have_lost_the_marker(tmp_path: Path) -> None:
    write(tmp_path / "b", COMMITTED, first_old=2)
    assert not found(tmp_path / "b").keys() & UNENDED
