"""Replicas that are out of sync, as far as the metadata of the cluster shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.checks.partition import out_of_sync
from kforensics.forensics.core.findings import Finding
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import at
from tests.forensics.forge import forge, keep_times
from tests.forensics.partition_states import partitions_under

FIRES = {"replica-out-of-sync": "test_a_replica_that_does_not_catch_up"}
SILENT = {"replica-out-of-sync": "test_a_stopped_broker_was_out_of_sync_only_since_then"}
MINUTE = 60_000


def found(
    log_dir: Path,
    since: int | None,
    *,
    is_stopped: bool = False,
    kept_ms: int = NOW,
    running_until: int | None = None,
) -> list[Finding]:
    """Return what is found on a broker whose data is from NOW, if its replica is out of sync since a time."""
    forge(log_dir, f"D 7 0 0-0 @0-0 {at(0)}; D 7 0 1-1 @1-1 {at(0)}", clean_shutdown=is_stopped)
    keep_times(log_dir, kept_ms, kept_ms)
    (partition,) = partitions_under(log_dir)
    late = {} if since is None else {(partition.topic_id or "", 0): since}
    running: dict[str | None, int] = {} if running_until is None else {str(log_dir): running_until}
    rules = Rules(NOW + 61 * MINUTE, out_of_sync={str(log_dir): late}, running_until=running)
    return list(out_of_sync.findings(examine(partition, rules)))


@pytest.mark.parametrize(
    ("since", "severity", "words"),
    [
        (NOW - 11 * MINUTE, "warning", "since 2023-11-14 22:02:20 UTC, for 10 min 55 s when copied"),
        (NOW - 9 * MINUTE, "info", "for 8 min 55 s when"),
        (NO_TIME, "info", "This replica has been out of sync. It ends at offset 2"),
    ],
    ids=["for long", "it catches up", "a reassignment fills it"],
)
def test_a_replica_that_does_not_catch_up(tmp_path: Path, since: int, severity: str, words: str) -> None:
    (finding,) = found(tmp_path, since)
    assert str(finding.severity) == severity
    assert words in finding.message


def test_a_replica_that_is_in_sync(tmp_path: Path) -> None:
    assert found(tmp_path, None) == []


@pytest.mark.parametrize(("since", "count"), [(NOW - 30_000, 0), (NOW + 9_000, 0), (NOW - 2 * MINUTE, 1)])
def test_a_stopped_broker_was_out_of_sync_only_since_then(tmp_path: Path, since: int, count: int) -> None:
    """A broker that shuts down hands over its partitions first, and goes on writing for some time."""
    assert len(found(tmp_path, since, is_stopped=True)) == count


@pytest.mark.parametrize(("running_until", "count"), [(None, 0), (NOW - 12 * MINUTE, 0), (NOW - 5 * MINUTE, 1)])
def test_without_the_times_of_its_files_its_metadata_log_shows_whether_a_broker_was_running(
    tmp_path: Path, running_until: int | None, count: int
) -> None:
    assert len(found(tmp_path, NOW - 11 * MINUTE, kept_ms=NOW + 60 * MINUTE, running_until=running_until)) == count


def test_a_killed_broker_falls_out_of_sync_later(tmp_path: Path) -> None:
    """The controller notices when its session has expired."""
    assert found(tmp_path, NOW + 9_000) == []
