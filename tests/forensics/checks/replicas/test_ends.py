"""Replicas that end or start at different offsets, and how severe that is."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from os import utime
from pathlib import Path
from typing import Any

import pytest

from kforensics.forensics.audit.copies import compare_copies
from kforensics.forensics.checks.replicas.ends import findings
from kforensics.forensics.core.election import STOPS_TO_FETCH_MS, Election, SyncChange
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.formatting import format_time
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import Segments
from tests.forensics.partition_states import SAMPLES, partitions_under
from tests.forensics.replicas.replicas import RULES, brief, compare, compared_group, forged, groups_under

FIRES = {
    "replica-truncated": "test_an_end_below_what_was_committed_is_found",
    "replica-lag": "test_an_end_after_all_that_was_committed_is_a_lag",
    "replica-start-differs": "test_another_start_is_reported",
}
SILENT = {
    "replica-truncated": "test_equal_replicas_of_real_brokers_are_in_order",
    "replica-lag": "test_equal_replicas_of_real_brokers_are_in_order",
    "replica-start-differs": "test_equal_replicas_of_real_brokers_are_in_order",
}

TRUNCATED, LAG, START = FIRES
OLDER, NEWER = 1, 4_000_000_000
DAY = 86_400_000
SHORT, LONG = "plain @0-4", "plain @0-4; plain @5-9"


def found_in(folder: Path) -> list[tuple[str, Severity, int | None, int | None]]:
    """Return the findings on the replicas in a folder."""
    return brief(list(findings(compare(folder))))


@pytest.mark.parametrize("name", ["durable-0", "replicated-0", "replicated-1", "reassigned-0", "stray-0"])
def test_equal_replicas_of_real_brokers_are_in_order(name: str) -> None:
    """Copies that were set aside need not keep up."""
    assert list(findings(compared_group(name))) == []


def test_an_end_below_what_was_committed_is_found(tmp_path: Path) -> None:
    forged(tmp_path, (SHORT, {}), (LONG, {"high_watermark": 8}))
    assert found_in(tmp_path) == [(TRUNCATED, Severity.WARNING, 5, 7)]


@pytest.mark.parametrize(
    ("options", "seconds", "severity"),
    [
        ({"clean_shutdown": False}, (1, 2), Severity.INFO),
        ({"clean_shutdown": False}, (2, 2), Severity.WARNING),
        ({"clean_shutdown": True}, (1, 2), Severity.INFO),
        ({"clean_shutdown": True}, (2, 2), Severity.WARNING),
        ({"clean_shutdown": True, "high_watermark": 7}, (1, 2), Severity.WARNING),
    ],
    ids=["copied first", "copied at the same time", "stopped first", "stopped at the same time", "it once had more"],
)
def test_an_end_below_what_was_committed_says_little_of_a_copy_that_was_taken_first(
    tmp_path: Path, options: dict[str, Any], seconds: tuple[int, int], severity: Severity
) -> None:
    forged(tmp_path, (SHORT, options), (LONG, {"high_watermark": 8}))
    for broker, second in enumerate(seconds, 1):
        for file in (tmp_path / f"broker-{broker}" / "t-0").iterdir():
            utime(file, (second, second))
    assert found_in(tmp_path) == [(TRUNCATED, severity, 5, 7)]


@pytest.mark.parametrize(
    ("seconds", "since_ms", "clean_shutdown", "severity"),
    [
        ((0, 0), 0, False, Severity.INFO),
        ((0, 0), 990, False, Severity.INFO),
        ((0, 0), -1, False, Severity.WARNING),
        ((0, 0), 60_000, False, Severity.WARNING),
        ((0, 0), 990, True, Severity.WARNING),
        ((0.25, 0.25), 990, False, Severity.WARNING),
        ((2, 0), 990, False, Severity.WARNING),
    ],
    ids=[
        *("of that second", "at the end of that second", "of the second before", "times older than the data"),
        *("stopped", "times of parts of a second", "two seconds later"),
    ],
)
def test_files_of_an_archive_may_have_the_same_second(
    tmp_path: Path, seconds: tuple[float, float], since_ms: int, clean_shutdown: bool, severity: Severity
) -> None:
    """``tar`` had copied three running brokers of 3.7.1 within two seconds, each a little later than the one before."""
    whole_ms = NOW // 1000 * 1000
    long = f"plain @0-4 ts {whole_ms - 60_000}; plain @5-9 ts {whole_ms + since_ms}"
    options = {"clean_shutdown": clean_shutdown}
    forged(tmp_path, (long.split(";", maxsplit=1)[0], options), (long, {"high_watermark": 8, **options}))
    for broker, second in enumerate(seconds, 1):
        for file in (tmp_path / f"broker-{broker}" / "t-0").iterdir():
            utime(file, ns=(whole_ms * 1_000_000 + int(second * 1e9),) * 2)
    assert found_in(tmp_path) == [(TRUNCATED, severity, 5, 7)]


@pytest.mark.parametrize(
    ("recovery_point", "appended", "severity"),
    [(5, 1, Severity.INFO), (5, 3, Severity.WARNING), (4, 1, Severity.WARNING)],
    ids=["at its end", "truncated later", "before its end"],
)
def test_a_broker_in_its_shutdown_stops_to_follow_before_it_writes_its_snapshots(
    tmp_path: Path, recovery_point: int, appended: int, severity: Severity
) -> None:
    """One of 4.4.0 wrote them a second after the last records that it lacked; its recovery point is its end."""
    checkpoint = {"recovery-point-offset-checkpoint": f"0\n1\nt 0 {recovery_point}\n".encode()}
    forged(tmp_path, (SHORT, {"replaced": checkpoint}), (LONG, {"high_watermark": 8}))
    for broker, second in ((1, appended), (2, 2)):
        for file in (tmp_path / f"broker-{broker}" / "t-0").iterdir():
            written = 3 if file.suffix == ".snapshot" else second
            utime(file, (written, written))
    assert found_in(tmp_path) == [(TRUNCATED, severity, 5, 7)]


@pytest.mark.parametrize(
    ("is_in_sync", "after_ms", "seconds", "options", "severity"),
    [
        (False, 1, NEWER, {}, Severity.INFO),
        (False, STOPS_TO_FETCH_MS, NEWER, {}, Severity.INFO),
        (False, STOPS_TO_FETCH_MS + 100, NEWER, {}, Severity.WARNING),
        (False, -1, NEWER, {"clean_shutdown": True}, Severity.INFO),
        (False, 1, NEWER, {"clean_shutdown": True}, Severity.WARNING),
        (False, 1, NEWER, {"high_watermark": 7}, Severity.WARNING),
        (True, 1, OLDER, {}, Severity.INFO),
        (True, 1, NEWER, {}, Severity.WARNING),
    ],
    ids=[
        *("out of sync", "when it was noticed", "long after it had the records"),
        *("stopped before", "in sync until it was stopped", "it once had more"),
        *("in sync after the copy", "in sync before"),
    ],
)
def test_the_metadata_shows_that_a_replica_was_out_of_sync(
    tmp_path: Path, *, is_in_sync: bool, after_ms: int, seconds: int, options: dict[str, Any], severity: Severity
) -> None:
    own = {"high_watermark": 5, "clean_shutdown": False, **options}
    forged(tmp_path, (SHORT, own), (LONG, {"high_watermark": 8, "clean_shutdown": False}))
    for file in tmp_path.rglob("*"):
        utime(file, (seconds, seconds))
    comparison = compare(tmp_path)
    (behind,) = comparison.differences
    (begun,) = {side.timestamps[0] for side in behind.sides if side.timestamps}
    change = SyncChange(1, is_in_sync, begun + after_ms)
    (finding,) = findings(replace(comparison, sync_changes=(change, SyncChange(2, not is_in_sync, 1))))
    assert brief([finding]) == [(TRUNCATED, severity, 5, 7)]
    words = f"came into sync at {format_time(begun + after_ms)}" if is_in_sync else "so it lags and will catch up"
    assert (words in finding.message) == (severity == Severity.INFO)
    assert ("Not ruled out: it lags out of sync" in finding.message) == (severity == Severity.WARNING)


@pytest.mark.parametrize(
    ("created_ms", "options", "change", "severity"),
    [
        (0, {}, {}, Severity.INFO),
        (-4_000, {}, {}, Severity.INFO),
        (None, {}, {}, Severity.INFO),
        (-60_000, {}, {}, Severity.WARNING),
        (0, {"high_watermark": 7}, {}, Severity.WARNING),
        (0, {"leader_epochs": {0: 0, 5: 1}}, {}, Severity.CRITICAL),
        (0, {}, {"is_added": False}, Severity.WARNING),
        (0, {}, {"is_added": False, "is_in_sync": True}, Severity.WARNING),
    ],
    ids=[
        *("created then", "as clocks differ", "unknown", "there before", "it once had more", "elected"),
        *("fell out of sync", "in sync"),
    ],
)
def test_a_replica_that_a_reassignment_fills_may_lack_what_is_older(
    tmp_path: Path, created_ms: int | None, options: dict[str, Any], change: dict[str, bool], severity: Severity
) -> None:
    """Seen on 4.1.1: copied in the middle of a reassignment with a throttle, after the leader's files."""
    own = {"high_watermark": 0, "clean_shutdown": False, **options}
    other = {"high_watermark": 8, "clean_shutdown": False, "leader_epochs": {0: 0}}
    forged(tmp_path, (SHORT, own), (LONG, other))
    for file in tmp_path.rglob("*"):
        utime(file, (NEWER, NEWER))
    added_ms = NOW + DAY
    created = tmp_path / "broker-1" / "t-0" / "partition.metadata"
    if created_ms is None:
        created.unlink()
    else:
        utime(created, ns=((added_ms + created_ms) * 1_000_000,) * 2)
    added = SyncChange(1, is_in_sync=False, timestamp=added_ms, is_added=True)
    (finding,) = findings(replace(compare(tmp_path), sync_changes=(replace(added, **change),)))
    assert brief([finding])[0][:2] == (TRUNCATED, severity)
    words = f"It was added to the replicas at {format_time(added_ms)} and has not come into sync yet"
    assert (words in finding.message) == (severity == Severity.INFO)


@pytest.mark.parametrize(
    ("log", "created_ms", "severity"),
    [
        ("", 16_000, Severity.INFO),
        (SHORT, 16_000, Severity.INFO),
        (SHORT, -16_000, Severity.WARNING),
        (SHORT, DAY + 1, Severity.WARNING),
    ],
    ids=["nothing fetched yet", "being filled", "the disk is older", "in a copy without file times"],
)
def test_a_replica_whose_disk_was_replaced_may_lack_what_is_older(
    tmp_path: Path, log: str, created_ms: int, severity: Severity
) -> None:
    """Seen on 3.7.2: broker 3 got an empty disk, and was copied while it fetched slowly, and others wrote."""
    other = f"plain @0-4; plain @5-9 ts {NOW}; plain @10 ts {NOW + DAY}"
    forged(tmp_path, (log, {"high_watermark": 0, "clean_shutdown": False}), (other, {"high_watermark": 8}))
    for file in tmp_path.rglob("*"):
        utime(file, (NEWER, NEWER))
    fell_ms = NOW + DAY // 2
    utime(tmp_path / "broker-1" / "t-0" / "partition.metadata", ns=((fell_ms + created_ms) * 1_000_000,) * 2)
    change = SyncChange(1, is_in_sync=False, timestamp=fell_ms)
    (finding,) = findings(replace(compare(tmp_path), sync_changes=(change,)))
    assert brief([finding])[0][:2] == (TRUNCATED, severity)


@pytest.mark.parametrize(("elected", "severity"), [({0: 0, 5: 1}, Severity.CRITICAL), ({0: 0}, Severity.WARNING)])
def test_a_replica_without_committed_records_that_was_elected_has_lost_them(
    tmp_path: Path, elected: dict[int, int], severity: Severity
) -> None:
    forged(tmp_path, (SHORT, {"leader_epochs": elected}), (LONG, {"leader_epochs": {0: 0}}))
    assert found_in(tmp_path) == [(TRUNCATED, severity, 5, 9)]


def test_what_an_elected_replica_lacks_can_be_saved_from_the_other(tmp_path: Path) -> None:
    """It is the leader already, so keeping it from becoming one is no advice."""
    forged(tmp_path, (SHORT, {"leader_epochs": {0: 0, 5: 1}}), (LONG, {"leader_epochs": {0: 0}}))
    (finding,) = findings(compare(tmp_path))
    folder = tmp_path / "broker-2" / "t-0"
    assert (finding.remedy or "").startswith("Save offsets 5 to 9 from broker 2 before its broker starts again")
    assert f"-broker-2-t-0-5-9.ndjson {folder}" in (finding.remedy or "")


def test_a_replica_that_lost_its_last_segment_shows_it(tmp_path: Path) -> None:
    """Its own high watermark and the snapshot of its shutdown are beyond its end; that it lags is not ruled out."""
    shutil.copytree(SAMPLES / "replication", tmp_path / "sample")
    for file in (tmp_path / "sample" / "broker-1" / "replicated-0").glob("00000000000000000039.*x"):
        file.unlink()
    (tmp_path / "sample" / "broker-1" / "replicated-0" / "00000000000000000039.log").unlink()
    (group,) = (group for group in groups_under(tmp_path) if group[0].name == "replicated-0")
    (finding,) = (row for row in findings(compare_copies(group, RULES)) if row.code.name == TRUNCATED)
    assert (finding.severity, finding.evidence["snapshots_beyond"]) == (Severity.WARNING, [51])
    assert (finding.remedy or "").startswith(
        "Keep broker 1 from becoming leader until it has fetched offsets 39 to 50 "
    )
    assert "a snapshot at offset 51" in finding.message
    assert "Not ruled out: it lags out of sync, or was copied before the others." in finding.message


def earlier_replica(folder: Path, *, high_watermark: int, has_empty_segment: bool) -> Finding:
    """Return what is found about broker 2 with its files of the time when it had 39 records and rolled a segment."""
    shutil.copytree(SAMPLES / "replication", folder / "sample")
    log_dir = folder / "sample" / "broker-2"
    segment = log_dir / "replicated-0" / f"{39:020}.log"
    if has_empty_segment:
        segment.write_bytes(b"")
    else:
        for file in segment.parent.glob(f"{39:020}.*"):
            file.unlink()
    of_other = folder / "sample" / "broker-3" / "replicated-0" / f"{39:020}.snapshot"
    shutil.copy(of_other, log_dir / "replicated-0")
    (log_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (log_dir / "replicated-0" / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n1 14\n2 27\n")
    checkpoint = log_dir / "replication-offset-checkpoint"
    checkpoint.write_text(checkpoint.read_text().replace("replicated 0 51", f"replicated 0 {high_watermark}"))
    (group,) = (group for group in groups_under(folder) if group[0].name == "replicated-0")
    (finding,) = (row for row in findings(compare_copies(group, RULES)) if row.code.name == TRUNCATED)
    assert finding.message.startswith("broker 2 ends at offset 39, ")
    return finding


def test_a_follower_that_stopped_before_the_others_was_not_longer(tmp_path: Path) -> None:
    """It has a snapshot at its end, and no high watermark of its own after it."""
    finding = earlier_replica(tmp_path, high_watermark=39, has_empty_segment=False)
    assert "was longer" not in finding.message
    assert "snapshots_beyond" not in finding.evidence


def test_a_snapshot_at_the_beginning_of_an_empty_segment_is_no_trace(tmp_path: Path) -> None:
    """A copy of a running broker: the log was copied before the checkpoint of high watermarks."""
    finding = earlier_replica(tmp_path, high_watermark=45, has_empty_segment=True)
    assert "was longer" not in finding.message
    assert "Not ruled out: it lags out of sync, or was copied before the others." in finding.message


def test_an_end_after_all_that_was_committed_is_a_lag(tmp_path: Path) -> None:
    forged(tmp_path, (SHORT, {}), (LONG, {"high_watermark": 5}))
    assert found_in(tmp_path) == [(LAG, Severity.INFO, 5, 9)]


@pytest.mark.parametrize(
    ("row", "other", "offsets"),
    [
        ((LONG, {}), ({5: "plain @5-9"}, {}), (0, 4)),
        ((LONG, {}), (LONG, {"log_start": 7}), (0, 6)),
    ],
    ids=["segments", "log start"],
)
def test_another_start_is_reported(
    tmp_path: Path,
    row: tuple[Segments, dict[str, Any]],
    other: tuple[Segments, dict[str, Any]],
    offsets: tuple[int, int],
) -> None:
    forged(tmp_path, row, other)
    assert found_in(tmp_path) == [(START, Severity.INFO, *offsets)]


@pytest.mark.parametrize(("unclean", "severity"), [(True, Severity.CRITICAL), (False, Severity.WARNING)])
def test_a_leader_that_ends_before_the_tail_of_another_one_cuts_it_off(
    tmp_path: Path, unclean: bool, severity: Severity
) -> None:
    forged(
        tmp_path,
        (SHORT, {"leader_epochs": {0: 0, 5: 1}}),
        (LONG, {"leader_epochs": {0: 0}, "high_watermark": 5}),
    )
    elections = [Election(1, 1, 0, (2,), unclean)]
    results = list(findings(compare_copies(partitions_under(tmp_path), RULES, elections)))
    assert brief(results) == [(TRUNCATED, severity, 5, 9)]


def test_a_lag_follows_from_a_branch() -> None:
    (finding,) = findings(compared_group("unclean-0"))
    assert (finding.code.name, finding.cause) == (LAG, "replica-divergence")


def test_an_end_below_what_another_branch_has_committed_follows_from_it(tmp_path: Path) -> None:
    forged(
        tmp_path,
        ("plain @0-4; plain @5-9; plain @10", {"leader_epochs": {0: 0, 5: 1}}),
        ("plain @0-4; D 1 0 0-0 @5 N", {"leader_epochs": {0: 0, 5: 2}}),
    )
    results = list(findings(compare(tmp_path)))
    assert brief(results) == [(TRUNCATED, Severity.WARNING, 6, 10)]
    assert results[0].cause == "replica-divergence"
    assert "broker 1 truncates its own records from there when it follows" in results[0].message
    assert re.search(r"--records --offset 5:11 --output \S+-5-10.ndjson ", str(results[0].remedy))


def test_what_no_replica_has_cannot_be_fetched(tmp_path: Path) -> None:
    """The other one knows only that the records were committed."""
    forged(tmp_path, (SHORT, {}), (SHORT, {"high_watermark": 8}))
    remedies = {finding.remedy for finding in findings(compare(tmp_path)) if finding.code.name == TRUNCATED}
    assert [text for text in remedies if not str(text).startswith("No available replica has offsets 5 to 7: ")] == []
    assert remedies


def test_a_leader_does_not_get_back_what_no_replica_has(tmp_path: Path) -> None:
    forged(
        tmp_path,
        (SHORT, {"leader_epochs": {0: 0, 5: 1}}),
        (SHORT, {"leader_epochs": {0: 0}, "high_watermark": 8}),
    )
    (finding,) = (row for row in findings(compare(tmp_path)) if row.code.name == TRUNCATED)
    assert str(finding.remedy).startswith("No available replica has the records from offset 5 on: ")


def test_a_copy_set_aside_that_goes_further_makes_no_replica_lag(tmp_path: Path) -> None:
    forged(tmp_path, (SHORT, {}), (LONG, {}))
    folder = tmp_path / "broker-2" / "t-0"
    folder.rename(folder.with_name("t-0.0123456789abcdef0123456789abcdef-stray"))
    (group,) = groups_under(tmp_path)
    assert list(findings(compare_copies(group, RULES))) == []
