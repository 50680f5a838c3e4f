"""Files whose times are from before what is in them are no bounds on when it was written."""

from __future__ import annotations

import shutil
from dataclasses import replace
from os import utime
from pathlib import Path

import pytest

import kforensics
from kforensics.analyses.settings import rules_for
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.kept_times import kept_until, newest_written_ms
from tests.command import SAMPLES, run
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import at, forge_coordinator
from tests.forensics.forge import file_of, forge, keep_times
from tests.forensics.partition_states import partitions_under, state_under

SECOND, HOUR, DAY = 1000, 3_600_000, 86_400_000
CHECKPOINT = "recovery-point-offset-checkpoint"
MARKER = f"D 7 0 0-0 @0-0 T {at(0)}; M 7 0 C 0 @1 {at(40 * SECOND)}"
# The coordinator has ended the transaction, and an id that is nothing to this partition wrote last.
ENDED = "a PrepareCommit 7 0 {t-0} t 39000; a CompleteCommit 7 0 t 41000; b Empty 9 0 t 60000"


def forge_broker(log_dir: Path, log: str, coordinator: str = ENDED) -> Path:
    """Write the log directory of a running broker; return the folder of its data partition."""
    forge_coordinator(log_dir, coordinator, clean_shutdown=False)
    folder = forge(log_dir, log, clean_shutdown=False)
    (log_dir / CHECKPOINT).write_text("0\n0\n")
    return folder


def hanging(path: Path, as_of_ms: int | None = None) -> list[tuple[str, str]]:
    """Return the severity and exactness of what an audit calls hanging."""
    rows = kforensics.audit(str(path), as_of=as_of_ms).findings.to_pylist()
    return [(row["severity"], row["exactness"]) for row in rows if row["code"] == "txn-hanging"]


@pytest.mark.parametrize("written", [NOW + 61 * SECOND, NOW + 61 * SECOND - HOUR, NOW - 365 * DAY, 0])
@pytest.mark.parametrize("as_of_ms", [None, NOW + 62 * SECOND])
@pytest.mark.parametrize(
    "log",
    [f"{MARKER}; D 7 0 1-1 @2-2 T {at(60_900)}", f"D 7 0 1-1 @0-0 T {at(60_900)}"],
    ids=["after a marker", "without any marker"],
)
def test_a_transaction_in_flight_does_not_hang_by_old_file_times(
    log: str, as_of_ms: int | None, written: int, tmp_path: Path
) -> None:
    """A copy of a running 3.7.1: an archive from another time zone, or with one time for all files.

    Where the partition shows nothing itself, the coordinator's log in the same log directory does.
    """
    folder = forge_broker(tmp_path, log)
    keep_times(tmp_path, written, written)
    assert hanging(tmp_path, as_of_ms) == []
    assert "txn-hanging" not in run("lso", folder).text


@pytest.mark.parametrize("written", [45 * SECOND, 40 * SECOND, 36 * SECOND, 55 * SECOND])
def test_a_late_write_with_timestamps_of_tomorrow_hangs_by_its_file(written: int, tmp_path: Path) -> None:
    """A client's clock shows nothing; the file may be as much older than a marker as clocks differ."""
    forge_broker(tmp_path, f"{MARKER}; D 7 0 1-1 @2-2 T {at(DAY)}", ENDED.replace("60000", "61000"))
    keep_times(tmp_path / "t-0", NOW + written, NOW + written)
    for file in (*tmp_path.glob("__transaction_state-0/*"), *tmp_path.glob("*-checkpoint")):
        utime(file, ns=((NOW + 62 * SECOND) * 1_000_000,) * 2)
    assert hanging(tmp_path, NOW + 62 * SECOND) == [("critical", "exact")]


@pytest.mark.parametrize(
    ("written", "expected"),
    [(45, [("critical", "exact")]), (58, []), (34, []), (-3600, [])],
    ids=["before the coordinator's last record", "as clocks differ", "older than a marker", "another time zone"],
)
def test_a_broker_that_was_restarted_has_not_written_to_the_log_since(
    written: int, expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    """A 4.3.1 with a late write: its orderly stop wrote the snapshot, and its start the indexes."""
    folder = forge_broker(tmp_path, MARKER)
    forge(tmp_path, f"{MARKER}; D 7 0 1-1 @2-2 T {at(DAY)}")
    (tmp_path / ".kafka_cleanshutdown").unlink()
    keep_times(tmp_path, NOW + 62 * SECOND, NOW + 70 * SECOND)
    utime(file_of(folder), ns=((NOW + written * SECOND) * 1_000_000,) * 2)
    assert file_of(folder, 3, "snapshot").exists()
    assert hanging(tmp_path, NOW + 70 * SECOND) == expected


@pytest.mark.parametrize(
    ("topic", "log", "appended"),
    [
        ("t", MARKER, False),
        ("t", f"plain @0 {at(40 * SECOND)}", True),
        ("__consumer_offsets", f"plain @0 {at(40 * SECOND)}", False),
        ("__transaction_state", f"plain @0 {at(40 * SECOND)}", False),
        ("t", f"{MARKER}; plain @2 {at(DAY)}", False),
    ],
    ids=["marker", "append time", "offsets", "transaction state", "a client ahead"],
)
def test_what_brokers_wrote_shows_how_old_its_files_are(topic: str, log: str, appended: bool, tmp_path: Path) -> None:
    forge(tmp_path, log, topic=topic, log_append_time=appended, clean_shutdown=False)
    for written, is_kept in ((41, True), (36, True), (34, False), (-3600, False)):
        written_ms = NOW + written * SECOND
        keep_times(tmp_path, written_ms, written_ms)
        state = state_under(tmp_path, as_of_ms=NOW + DAY)
        assert newest_written_ms(state) == (written_ms if is_kept else None)
        assert (kept_until(state) == NO_TIME) is not is_kept


def test_timestamps_of_clients_do_not(tmp_path: Path) -> None:
    forge(tmp_path, f"plain @0 {at(DAY)}", clean_shutdown=False)
    keep_times(tmp_path, NOW, NOW)
    assert newest_written_ms(state_under(tmp_path, as_of_ms=NOW)) == NOW


def test_another_log_of_the_same_log_directory_does(tmp_path: Path) -> None:
    forge(tmp_path, f"D 7 0 0-0 @0-0 T {at(0)}", clean_shutdown=False)
    keep_times(tmp_path, NOW, NOW)
    state = state_under(tmp_path, as_of_ms=NOW)
    for log_dir, written in ((state.partition.place.log_dir, None), ("another", NOW)):
        rules = replace(state.rules, predated=frozenset({log_dir}))
        assert newest_written_ms(replace(state, rules=rules)) == written


@pytest.mark.parametrize(("written_ms", "is_predated"), [(0, True), (NOW, True), (NOW + 2000 * DAY, False)])
def test_the_metadata_log_shows_it_too(written_ms: int, is_predated: bool, tmp_path: Path) -> None:
    """A checkout makes the files of the samples younger than what is in them."""
    metadata = Path(shutil.copytree(next(SAMPLES.glob("cluster-metadata/*/__cluster_metadata-0")), tmp_path / "logs"))
    folder = metadata.rename(tmp_path / "__cluster_metadata-0")
    for file in folder.iterdir():
        utime(file, ns=(written_ms * 1_000_000,) * 2)
    partitions = partitions_under(tmp_path)
    rules = rules_for(Rules(NOW), (), partitions)
    assert rules.predated == ({one.place.log_dir for one in partitions} if is_predated else set())
