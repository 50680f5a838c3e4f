"""Producer snapshots that are missing, corrupt, or in the wrong place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from kforensics.forensics.checks.partition.snapshot_files import findings
from kforensics.forensics.core.findings import Exactness, Finding, Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition
from tests.forensics.forge import Segments, SnapshotEntry, file_of, forge, snapshot_bytes
from tests.forensics.partition_states import SAMPLES, each_sample, state_under

FIRES = {
    "snapshot-corrupt": "test_what_a_broker_refuses_is_found",
    "snapshot-beyond-offset": "test_offsets_that_are_not_below_the_snapshot_are_found",
    "snapshot-absent": "test_producers_without_a_snapshot_are_found",
    "snapshot-stray": "test_a_snapshot_between_segments_is_a_stray",
}
SILENT = {
    "snapshot-corrupt": "test_brokers_keep_their_snapshots_in_order",
    "snapshot-beyond-offset": "test_brokers_keep_their_snapshots_in_order",
    "snapshot-absent": "test_brokers_keep_their_snapshots_in_order",
    "snapshot-stray": "test_only_a_second_start_leaves_a_stray",
}

CORRUPT, BEYOND, ABSENT, STRAY = FIRES
# Scenarios in which a broker was stopped and started, or its cleaner merged segments (legacy-2.7).
STARTED_AGAIN = {
    "cluster-metadata",
    "cluster-metadata-3.9",
    "crash-after-recovery",
    "format-downgrade",
    "ghosts",
    "legacy-2.7",
    "replication",
    "rolling-restart",
    "state-lost-after-crash",
    "unclean-election",
    "state-lost-after-stop",
}
Snapshots = Mapping[int, list[SnapshotEntry] | bytes | None]
TIMED_OUT = {0: "D 1 0 0-2 @0-2 T; M 1 1 A 4 @3", 4: "D 1 2 0-0 @4-4 T"}
ENDED = {0: "D 1 0 0-2 @0-2 T", 3: "M 1 1 A 4 @3"}
PLAIN = {0: "plain @0-2", 3: "plain @3"}
SOUND = snapshot_bytes([SnapshotEntry(1, 1, coordinator_epoch=4)])


def found_in(folder: Path) -> list[Finding]:
    """Return the findings in the one partition of a log directory."""
    return list(findings(state_under(folder)))


def key_facts(findings: list[Finding]) -> list[tuple[str, Severity]]:
    """Return codes and severities."""
    return [(finding.code.name, finding.severity) for finding in findings]


def of_sample(partition: Partition) -> set[str]:
    """Return the codes of the findings in a sample."""
    return {finding.code.name for finding in findings(examine(partition, Rules(partition.newest_mtime_ms or 0)))}


@each_sample()
def test_brokers_keep_their_snapshots_in_order(partition: Partition) -> None:
    assert of_sample(partition) <= {STRAY}


@each_sample()
def test_only_a_second_start_leaves_a_stray(partition: Partition) -> None:
    """A snapshot of a shutdown stays until the start after the next segment roll, or until segments are merged."""
    scenario = Path(partition.folder).relative_to(SAMPLES).parts[0]
    assert of_sample(partition) == set() or scenario in STARTED_AGAIN


SPOILT = {
    "version": b"\x00\x02" + SOUND[2:],
    "checksum": SOUND[:-1] + b"\x00",
    "cut": SOUND[:-1],
    "longer, and changed": SOUND[:-1] + b"\x00" + bytes(46),
    "empty": b"",
}


@pytest.mark.parametrize("content", SPOILT.values(), ids=SPOILT)
def test_what_a_broker_refuses_is_found(tmp_path: Path, content: bytes) -> None:
    folder = forge(tmp_path, TIMED_OUT, snapshots={4: content})
    (finding,) = found_in(tmp_path)
    assert key_facts([finding]) == [(CORRUPT, Severity.WARNING)]
    assert finding.path == str(file_of(folder, 4, "snapshot"))


@pytest.mark.parametrize("entries", [[], [SnapshotEntry(1, 1, coordinator_epoch=4)]], ids=["none", "one"])
def test_a_snapshot_over_an_older_longer_one_is_refused_but_harmless(
    tmp_path: Path, entries: list[SnapshotEntry]
) -> None:
    """Brokers write such files when a topic goes back to an old message format."""
    forge(tmp_path, TIMED_OUT, snapshots={4: snapshot_bytes(entries) + SOUND[-46:]})
    assert key_facts(found_in(tmp_path)) == [(CORRUPT, Severity.INFO)]


def test_the_newest_may_have_been_copied_while_it_was_written(tmp_path: Path) -> None:
    forge(tmp_path, TIMED_OUT, clean_shutdown=False, snapshots={4: [SnapshotEntry(1, 1)], 5: SOUND[:-1]})
    (finding,) = found_in(tmp_path)
    assert "possible" in finding.benign[0]


def test_a_snapshot_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    folder = forge(tmp_path, TIMED_OUT)
    state = state_under(tmp_path)
    file_of(folder, 4, "snapshot").unlink()
    (finding,) = findings(state)
    assert (finding.code.name, finding.exactness) == (CORRUPT, Exactness.UNVERIFIABLE)


@pytest.mark.parametrize(
    "entry", [SnapshotEntry(1, 2, 0, 4, 0), SnapshotEntry(1, 2, 0, 9, 0), SnapshotEntry(1, current_txn_first_offset=4)]
)
def test_offsets_that_are_not_below_the_snapshot_are_found(tmp_path: Path, entry: SnapshotEntry) -> None:
    folder = forge(tmp_path, TIMED_OUT, snapshots={4: [entry]})
    (finding,) = found_in(tmp_path)
    assert key_facts([finding]) == [(BEYOND, Severity.ERROR)]
    assert (finding.producer_id, finding.path) == (1, str(file_of(folder, 4, "snapshot")))


def test_offsets_right_below_the_snapshot_are_not(tmp_path: Path) -> None:
    forge(tmp_path, TIMED_OUT, snapshots={4: [SnapshotEntry(1, 2, 0, 3, 0, current_txn_first_offset=3)]})
    assert found_in(tmp_path) == []


NONE: Snapshots = {3: None, 4: None, 5: None}
WITHOUT: dict[str, tuple[Segments, Snapshots, bool, list[tuple[str, Severity]]]] = {
    "stopped with an open transaction": (TIMED_OUT, NONE, True, [(ABSENT, Severity.CRITICAL)]),
    "killed with an open transaction": (TIMED_OUT, NONE, False, [(ABSENT, Severity.INFO)]),
    "stopped": (ENDED, NONE, True, [(ABSENT, Severity.WARNING)]),
    "a single segment, stopped": ("D 1 0 0-2 @0-2 N", NONE, True, [(ABSENT, Severity.WARNING)]),
    "all refused": (
        ENDED,
        {3: b"", 4: SOUND[:-1]},
        True,
        [(CORRUPT, Severity.WARNING), (CORRUPT, Severity.WARNING), (ABSENT, Severity.WARNING)],
    ),
}


@pytest.mark.parametrize(("log", "snapshots", "clean", "expected"), WITHOUT.values(), ids=WITHOUT)
def test_producers_without_a_snapshot_are_found(
    tmp_path: Path, log: Segments, snapshots: Snapshots, clean: bool, expected: list[tuple[str, Severity]]
) -> None:
    forge(tmp_path, log, snapshots=snapshots, clean_shutdown=clean)
    findings = found_in(tmp_path)
    assert key_facts(findings) == expected
    assert findings[-1].cause == (None if len(findings) == 1 else CORRUPT)


HEALTHY_SCENARIOS: dict[str, tuple[Segments, bool, int | None]] = {
    "no producer": (PLAIN, True, None),
    "younger than a segment": ("D 1 0 0-2 @0-2 N", False, None),
    "all below the log start": ("D 1 0 0-2 @0-2 N; plain @3", True, 3),
}


@pytest.mark.parametrize(("log", "clean", "log_start"), HEALTHY_SCENARIOS.values(), ids=HEALTHY_SCENARIOS)
def test_not_every_log_needs_a_snapshot(tmp_path: Path, log: Segments, clean: bool, log_start: int | None) -> None:
    forge(tmp_path, log, snapshots=NONE, clean_shutdown=clean, log_start=log_start)
    assert found_in(tmp_path) == []


def test_where_only_logs_were_captured_nothing_is_said(tmp_path: Path) -> None:
    folder = forge(tmp_path, ENDED, snapshots=NONE)
    for path in folder.glob("*.*index"):
        path.unlink()
    assert found_in(tmp_path) == []


def test_a_snapshot_between_segments_is_a_stray(tmp_path: Path) -> None:
    folder = forge(tmp_path, TIMED_OUT, snapshots={2: [SnapshotEntry(1)]})
    (finding,) = found_in(tmp_path)
    assert key_facts([finding]) == [(STRAY, Severity.INFO)]
    assert (finding.first_offset, finding.path) == (2, str(file_of(folder, 2, "snapshot")))


def test_the_newest_snapshot_is_no_stray(tmp_path: Path) -> None:
    forge(tmp_path, {0: "D 1 0 0-2 @0-2 T; M 1 1 A 4 @3"}, snapshots={4: None, 2: [SnapshotEntry(1)]})
    assert found_in(tmp_path) == []
