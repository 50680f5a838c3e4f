"""Copies of running brokers, of which some were taken before the others: none knows what came after it was taken."""

from __future__ import annotations

from os import utime
from pathlib import Path

import pytest

from kforensics.analyses.audit import AuditRequest, judged
from kforensics.analyses.partitions import investigate
from kforensics.forensics.audit.copy_ages import as_of_sentences
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.partition_files import partitions_of
from kforensics.parsers.files.discover import FoundFile, discover
from tests.forensics.coordinators.clusters import at, forge_coordinator
from tests.forensics.events import NOW
from tests.forensics.forge import forge

MINUTE = 60_000
HOUR = 60 * MINUTE
STUCK = {"lso-stuck", "txn-late", "txn-hanging"}
# It began behind a marker that did not raise the epoch, as late writes do, and was at work when broker 1 was copied.
AT_WORK = f"D 1 0 0-0 @0-0 T {at(2)}; M 1 0 A 0 @1 {at(4)}; D 1 0 1-1 @2-2 T {at(7)}; plain @3"
ENDED = (
    "a Empty 1 0 t 0; a Ongoing 1 0 {t-0} t 1; a PrepareAbort 1 0 {t-0} t 3; a CompleteAbort 1 0 t 5; "
    "a Ongoing 1 0 {t-0} t 6; a PrepareCommit 1 0 {t-0} t 600000; a CompleteCommit 1 0 t 600010"
)


def written_at(folder: Path, milliseconds: int) -> None:
    """Have the files of a log directory be as old as if the broker had last written so long after ``NOW``."""
    for file in folder.rglob("*"):
        utime(file, ns=((NOW + milliseconds) * 1_000_000,) * 2)


def two_brokers(folder: Path, *, clean: bool = False) -> None:
    """Write what two brokers had: the first was copied after ten seconds, the second, a coordinator, after an hour."""
    forge(folder / "broker-1", AT_WORK, clean_shutdown=clean)
    written_at(folder / "broker-1", 10_000)
    forge_coordinator(folder / "broker-2", ENDED, clean_shutdown=False)
    written_at(folder / "broker-2", HOUR)


def codes_under(folder: Path, as_of_ms: int | None = None, processes: int | None = None) -> tuple[set[str], list[str]]:
    """Return what an audit finds in the partition, and what it notes."""
    notes: list[str] = []
    found = investigate([str(folder)], as_of_ms, notes.append, notes.append)
    judgements = judged(found, AuditRequest(processes=processes), lambda _: None)
    return {
        one.code.name for judgement in judgements if judgement.place.topic == "t" for one in judgement.findings
    }, notes


@pytest.mark.parametrize("processes", [None, 2])
def test_what_was_open_when_its_broker_was_copied_does_not_hang(processes: int | None, tmp_path: Path) -> None:
    """Its coordinator, copied an hour later, has ended it meanwhile; the marker is not in this copy."""
    two_brokers(tmp_path)
    codes, notes = codes_under(tmp_path, processes=processes)
    assert not codes & STUCK
    since = "from 0:59:50 before, of a broker that was running or crashed"
    assert notes == [
        "judged as of 2023-11-14 23:13:20 UTC, when the newest of these files was written; --as-of sets another time",
        f"{tmp_path / 'broker-1'} is {since}: what is open there is judged as of 2023-11-14 22:13:30 UTC",
    ]


def test_as_of_the_time_that_the_user_says_all_are_judged(tmp_path: Path) -> None:
    two_brokers(tmp_path)
    codes, notes = codes_under(tmp_path, NOW + HOUR)
    assert (codes >= STUCK, notes) == (True, [])


def test_nothing_comes_to_a_broker_that_was_stopped(tmp_path: Path) -> None:
    """What is open on it is as old as the newest of all files says, whenever it was copied."""
    two_brokers(tmp_path, clean=True)
    codes, notes = codes_under(tmp_path)
    assert (codes >= STUCK, len(notes)) == (True, 1)


def test_a_hanging_one_in_an_idle_cluster_is_as_old_as_the_checkpoints_say(tmp_path: Path) -> None:
    """Nobody writes to a log any more; the broker that runs writes its checkpoints all the same."""
    two_brokers(tmp_path)
    for file in (tmp_path / "broker-1").glob("*-checkpoint"):
        utime(file, ns=((NOW + HOUR - 5_000) * 1_000_000,) * 2)
    codes, notes = codes_under(tmp_path)
    assert (codes >= STUCK, len(notes)) == (True, 1)


@pytest.mark.parametrize("named", ["broker-1/t-0", "broker-1"])
def test_a_folder_of_a_partition_is_as_old_as_its_log_directory(named: str, tmp_path: Path) -> None:
    """Whether that was named, or only looked into for what its files say of the partition."""
    two_brokers(tmp_path)
    found = [row for row in discover([str(tmp_path / named)]) if isinstance(row, FoundFile)]
    (partition,) = partitions_of(found)
    assert partition.taken_ms == NOW + 10_000


def test_without_checkpoints_nobody_knows_when_it_was_copied(tmp_path: Path) -> None:
    two_brokers(tmp_path)
    for file in (tmp_path / "broker-1").glob("*-checkpoint"):
        file.unlink()
    codes, notes = codes_under(tmp_path)
    assert (codes >= STUCK, len(notes)) == (True, 1)


@pytest.mark.parametrize(("after", "hangs"), [(20 * MINUTE, False), (20 * MINUTE + 1, True)])
def test_what_was_silent_for_long_when_its_broker_was_copied_hangs(after: int, hangs: bool, tmp_path: Path) -> None:
    two_brokers(tmp_path)
    written_at(tmp_path / "broker-1", 7 + after)
    assert bool(codes_under(tmp_path)[0] & {"lso-stuck", "txn-late"}) is hangs


def test_a_batch_that_is_younger_than_its_file_has_not_been_silent(tmp_path: Path) -> None:
    """It was written between the look at the file's time and the copying of its bytes."""
    two_brokers(tmp_path)
    written_at(tmp_path / "broker-1", -10)
    notes: list[str] = []
    found = investigate([str(tmp_path)], None, notes.append, notes.append)
    judgements = judged(found, AuditRequest(), lambda _: None)
    (opened,) = (one for each in judgements for one in each.findings if one.code.name == "txn-open-at-end")
    assert opened.evidence["silent_ms"] == 0


def test_of_very_many_old_copies_some_are_named() -> None:
    taken = [(f"/copies/{number}", NOW - number) for number in range(12)]
    told = list(as_of_sentences([*taken, (None, 5), ("/there", None)], Rules(NOW + HOUR, is_assumed=True)))
    assert len(told) == 12
    assert told[1].startswith("/copies/11 is from ")
    assert told[-1] == "… and 2 more of such log directories"


def test_a_quarter_of_an_hour_is_no_matter() -> None:
    rules = Rules(NOW + 15 * MINUTE, is_assumed=True)
    assert len(list(as_of_sentences([("/one", NOW), ("/one", NOW - HOUR)], rules))) == 1
    assert len(list(as_of_sentences([("/one", NOW - 1), ("/one", NOW - HOUR)], rules))) == 2
