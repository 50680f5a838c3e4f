"""Snapshots of the metadata log that a node cannot load, that are missing, or that are not what the log says.

Kafka 4.4.0 was started on copies of the same files, as broker and controller. With one bit changed in the newest
snapshot it ended with a CorruptRecordException, without snapshots with "Inconsistent snapshot state"; with a newest
snapshot of 0 bytes it hung. Without the last segments it emptied the log and ran, and it ran on the files as they are.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.checks.partition import metadata_snapshots
from kforensics.forensics.core.findings import Finding, Severity
from lab.metadata_images import copy_whole
from tests.command import run
from tests.forensics.checks.partition.check_runs import HEALTHY_SCENARIOS, findings_in_sample, found_in
from tests.forensics.partition_states import SAMPLES

FIRES = {
    "metadata-snapshot-damaged": "test_a_damaged_snapshot_is_found",
    "metadata-snapshot-missing": "test_a_log_without_its_start_needs_a_snapshot",
    "metadata-snapshot-differs": "test_a_credential_that_kafka_lost_is_found",
    "metadata-snapshot-ahead": "test_a_snapshot_beyond_the_log_is_named",
}
SILENT = dict.fromkeys(FIRES, "test_snapshots_that_brokers_wrote_are_silent") | {
    "metadata-snapshot-differs": "test_snapshots_with_the_log_before_them_are_silent"
}
CHECKS = [metadata_snapshots]
NEWEST, OLDER = "00000000000000000105-0000000002.checkpoint", "00000000000000000051-0000000001.checkpoint"
LOST = "cluster-metadata-3.9"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A metadata log from offset 0 on, with four snapshots of a real broker."""
    return copy_whole(SAMPLES / "cluster-metadata/broker-1/__cluster_metadata-0", tmp_path / "__cluster_metadata-0")


def _found(folder: Path) -> list[tuple[str, Severity, str]]:
    return [(one.code.name, one.severity, Path(one.path or "").name) for one in _findings(folder)]


def _findings(folder: Path) -> list[Finding]:
    return list(found_in(folder, CHECKS))


@pytest.mark.parametrize("scenario", [name for name in HEALTHY_SCENARIOS if name != LOST])
def test_snapshots_that_brokers_wrote_are_silent(scenario: str) -> None:
    assert findings_in_sample(scenario, CHECKS) == {}


def test_snapshots_with_the_log_before_them_are_silent(folder: Path) -> None:
    """All four agree with the log: each is the newest one once."""
    snapshots = sorted(folder.glob("*.checkpoint"))
    assert len(snapshots) == 4
    while snapshots:
        assert _found(folder) == []
        snapshots.pop().unlink()


@pytest.mark.parametrize("change", ["bit", "cut", "empty", "no footer"])
def test_a_damaged_snapshot_is_found(change: str, folder: Path) -> None:
    content = (folder / NEWEST).read_bytes()
    changed = {
        "bit": content[:900] + bytes([content[900] ^ 1]) + content[901:],
        "cut": content[:-5],
        "empty": b"",
        "no footer": content[:-75],
    }
    (folder / NEWEST).write_bytes(changed[change])
    assert _found(folder) == [("metadata-snapshot-damaged", Severity.CRITICAL, NEWEST)]
    ended = run("verify", "--alone", folder)
    assert (ended.code, "refuses to start or hangs" in ended.text) == (1, True)


def test_a_damaged_snapshot_that_no_node_loads_is_named(folder: Path) -> None:
    (folder / OLDER).write_bytes((folder / OLDER).read_bytes()[:-1])
    assert _found(folder) == [("metadata-snapshot-damaged", Severity.INFO, OLDER)]


@pytest.mark.parametrize("left", [(), (OLDER,)])
def test_a_log_without_its_start_needs_a_snapshot(left: tuple[str, ...], folder: Path) -> None:
    for file in (*folder.glob("*.checkpoint"), *(folder / f"{base:020}.log" for base in (0, 29, 57))):
        if file.name not in left:
            file.unlink()
    assert _found(folder) == [("metadata-snapshot-missing", Severity.CRITICAL, "__cluster_metadata-0")]
    (finding,) = _findings(folder)
    assert "begins at offset 90" in finding.message


def test_a_snapshot_that_was_not_named_is_not_missing(folder: Path) -> None:
    for file in (folder / f"{base:020}.log" for base in (0, 29, 57)):
        file.unlink()
    ended = run("verify", "--alone", *sorted(folder.glob("*.log")))
    assert (ended.code, "metadata-snapshot-missing" in ended.text) == (0, False)


def test_a_snapshot_beyond_the_log_is_named(folder: Path) -> None:
    for base in (90, 132):
        (folder / f"{base:020}.log").unlink()
    assert _found(folder) == [("metadata-snapshot-ahead", Severity.INFO, NEWEST)]


def test_a_credential_that_kafka_lost_is_found() -> None:
    """Kafka 3.9.1 applied it together with the removal of another one, and wrote a snapshot without it."""
    (findings,) = findings_in_sample(LOST, CHECKS).values()
    (finding,) = findings
    assert (finding.code.name, finding.severity) == ("metadata-snapshot-differs", Severity.WARNING)
    assert finding.message.endswith("differs from the log before it: scram user alice SCRAM-SHA-256 is missing.")
