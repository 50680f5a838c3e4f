"""What an unclean election lost, found after all replicas agree again."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kforensics.forensics.audit.cluster_result import evaluate_cluster
from kforensics.forensics.coordinators.cluster_evidence import PlacedFinding
from kforensics.forensics.coordinators.consumer_groups.commit_replay import commits_of
from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
from kforensics.forensics.core.election import Election
from kforensics.forensics.core.findings import Exactness, Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.metadata.cluster_metadata import elections_in
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_rows import remedy_text
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS
from kforensics.parsers.files.log_names import METADATA_TOPIC
from tests.command import run
from tests.forensics.partition_states import SAMPLES, partitions_under

FIRES = {"unclean-election-loss": "test_lost_records_are_found_after_the_replicas_agree"}
SILENT = {"unclean-election-loss": "test_elections_that_lost_nothing_are_no_loss"}

SAMPLE = SAMPLES / "unclean-election"
ASIDE = "lossy-0.0123456789abcdef0123456789abcdef"


def found_in(
    folder: Path,
    change: Callable[[Election], Election] = lambda election: election,
    leader_epoch: int | None = None,
) -> list[PlacedFinding]:
    """Return the losses found in the files of a cluster, with its elections and the epochs of commits changed."""
    partitions = partitions_under(folder)
    states = [examine(partition, Rules(max(partition.newest_mtime_ms or 0, 0))) for partition in partitions]
    commits = [commits_of(state) for state in states if state.partition.place.topic == CONSUMER_OFFSETS]
    if leader_epoch is not None:
        for one in commits:
            one.last.table.rows["leader_epoch"] = leader_epoch
    markers = [PartitionMarkers.of(state) for state in states]
    has_metadata = any(partition.place.topic == METADATA_TOPIC for partition in partitions)
    known_elections = {key: tuple(map(change, known)) for key, known in elections_in(partitions).items()}
    elections = known_elections if has_metadata else None
    result = evaluate_cluster([], markers, Rules(0), commits=commits, elections=elections)
    return [placed for placed in result.findings if placed.finding.code.name in FIRES]


def shown_in(folder: Path, change: Callable[[Election], Election] = lambda election: election) -> list[PlacedFinding]:
    """Return the losses that files or groups show."""
    return [placed for placed in found_in(folder, change) if placed.finding.severity > Severity.INFO]


def copied(folder: Path) -> Path:
    """Return a copy of the sample in a folder."""
    return shutil.copytree(SAMPLE, folder / "sample")


def test_lost_records_are_found_after_the_replicas_agree() -> None:
    """Eight records were acknowledged; a group had committed six of them, a truncated segment still has four."""
    read, unread = shown_in(SAMPLE)
    assert (read.place.topic, unread.place.topic) == ("lossy", "lossy-unread")
    for placed in (read, unread):
        finding = placed.finding
        assert (finding.severity, finding.first_offset, finding.last_offset) == (Severity.CRITICAL, 3, 10)
        assert (finding.path or "").endswith("-0/00000000000000000007.log.deleted")
        assert finding.evidence["records_in_copies"] == 4
    assert (read.finding.evidence["groups"], read.finding.exactness) == ({"readers": 9}, Exactness.EXACT)
    assert (unread.finding.evidence["groups"], unread.finding.exactness) == ({}, Exactness.APPROXIMATE)
    assert "'readers' to offset 8" in read.finding.message
    remedy = remedy_text(read.place, read.finding) or ""
    assert re.search(r"--records --offset 7:11 --output \S+-lossy-0-7-10.ndjson ", remedy)


def test_elections_that_lost_nothing_are_no_loss() -> None:
    """An unclean election without a difference, clean ones, and one whose loser still has its records."""
    assert {placed.place.topic for placed in shown_in(SAMPLE)} == {"lossy", "lossy-unread"}
    assert shown_in(SAMPLES / "replication") == []
    assert found_in(SAMPLE, lambda election: replace(election, is_unclean=False)) == []


def test_an_unclean_election_of_which_nothing_shows_what_it_lost_is_named() -> None:
    """Broker 2 may have acknowledged records to producers alone; a leader that is elected again lacks nothing."""
    (placed,) = (placed for placed in found_in(SAMPLE) if placed.finding.severity is Severity.INFO)
    finding = placed.finding
    assert (placed.place.topic, finding.exactness) == ("lossless", Exactness.UNVERIFIABLE)
    assert finding.message == (
        "Broker 3 became leader with epoch 2 at 2026-11-22 17:24:12 UTC while out of sync (no replica was in sync), "
        f"and continued at offset {finding.first_offset}: whether its predecessor had acknowledged records from there "
        "on, no file and no group shows."
    )
    again = found_in(SAMPLE, lambda election: replace(election, predecessor=election.leader))
    assert {placed.place.topic for placed in again} == {"lossy", "lossy-unread"}


def test_a_group_alone_shows_a_loss(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    for file in folder.glob("broker-2/lossy*/*.deleted"):
        file.unlink()
    (placed,) = shown_in(folder)
    assert (placed.finding.first_offset, placed.finding.last_offset, placed.finding.path) == (3, 8, None)


def test_a_group_that_committed_after_the_election_shows_nothing(tmp_path: Path) -> None:
    """It read what the new leader wrote."""
    folder = copied(tmp_path)
    for file in folder.glob("broker-2/lossy*/*.deleted"):
        file.unlink()
    assert shown_in(folder, lambda election: replace(election, timestamp=election.timestamp - 60_000)) == []


@pytest.mark.parametrize("state", ["delete", "stray", "future"])
def test_a_folder_that_was_set_aside_shows_a_loss(tmp_path: Path, state: str) -> None:
    """Its oldest segments, which nobody overruled, do not matter."""
    folder = copied(tmp_path)
    aside = folder / "broker-1" / f"{ASIDE}-{state}"
    shutil.copytree(folder / "broker-2" / "lossy-0", aside)
    for file in aside.glob("*.deleted"):
        file.rename(file.with_suffix(""))
    for file in folder.glob("broker-2/lossy*/*.deleted"):
        file.unlink()
    (placed,) = shown_in(folder)
    assert placed.finding.evidence["copies"] == [f"{aside}/00000000000000000007.log"]
    assert placed.finding.last_offset == 10


def test_a_folder_of_a_deleted_topic_shows_nothing(tmp_path: Path) -> None:
    """A topic of the same name that was deleted before has another id."""
    folder = copied(tmp_path)
    (placed, _) = shown_in(folder)
    aside = folder / "broker-1" / f"{ASIDE}-delete"
    shutil.copytree(folder / "broker-2" / "lossy-0", aside)
    for file in aside.glob("*.deleted"):
        file.rename(file.with_suffix(""))
    (aside / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    assert shown_in(folder)[0].finding.evidence["copies"] == placed.finding.evidence["copies"]


def _without(folder: Path, *topics: str) -> Path:
    for topic in topics:
        for partition in folder.glob(f"broker-*/{topic}-*"):
            shutil.rmtree(partition)
    return folder


def test_an_audit_needs_no_coordinator_to_find_a_loss(tmp_path: Path) -> None:
    folder = _without(copied(tmp_path), "__consumer_offsets", "__transaction_state")
    ended = run("audit", folder, "--format", "json", "--fail-on", "never")
    found = [row for row in json.loads(ended.text)["tables"]["findings"] if row["code"] in FIRES]
    severities = {row["topic"]: row["severity"] for row in found}
    assert severities == {"lossy": "critical", "lossy-unread": "critical", "lossless": "info"}


def test_without_the_metadata_log_a_group_is_a_clue(tmp_path: Path) -> None:
    """It had read what a later leader wrote again. The lab's groups commit no leader epochs, as consumers do."""
    folder = _without(copied(tmp_path), METADATA_TOPIC)
    assert found_in(folder) == found_in(folder, leader_epoch=2) == []
    (placed,) = found_in(folder, leader_epoch=0)
    finding = placed.finding
    assert (placed.place.topic, finding.severity, finding.exactness) == (
        "lossy",
        Severity.INFO,
        Exactness.UNVERIFIABLE,
    )
    assert (finding.first_offset, finding.last_offset) == (3, 8)
    assert finding.evidence["groups"] == {"readers": 9}
    assert METADATA_TOPIC in (finding.remedy or "")


@pytest.mark.parametrize(
    "sample", ["replication", "rolling-restart", "format-downgrade", "groups", "consume-transform-produce", "deletion"]
)
def test_without_the_metadata_log_clean_elections_are_no_clue(tmp_path: Path, sample: str) -> None:
    """Leaders that were stopped and elected again, replicas reassigned, and an uncommitted tail that was truncated."""
    folder = shutil.copytree(SAMPLES / sample, tmp_path / sample)
    assert found_in(_without(folder, METADATA_TOPIC)) == []


def test_an_incident_says_what_can_be_saved_and_how_in_each_partition() -> None:
    """Records 3 to 6 are in no file; the files of the commands differ, so that none overwrites another one."""
    words = ("audit", "--quiet", *(SAMPLE / f"broker-{number}" for number in (1, 2, 3)))
    short = " ".join(run(*words).text.split())
    assert "lossy-0: Records at offsets 3 to 10 are lost (a file still has offsets 7 to 10): broker 3" in short
    (incident,) = (row for row in run(*words, "--format", "ndjson").rows("incidents") if row["severity"] == "critical")
    assert incident["impact"].startswith("16 records lost or at risk in 2 partitions.")
    saved = [word for word in incident["remedy"].split() if word.endswith(".ndjson")]
    assert [name.partition("broker-")[2] for name in saved] == ["2-lossy-0-7-10.ndjson", "2-lossy-unread-0-7-10.ndjson"]
    assert "Save those of lossy-unread-0: `kforensics dump " in incident["remedy"]


def test_what_no_file_has_is_not_said_to_be_left(tmp_path: Path) -> None:
    folder = copied(tmp_path)
    for file in folder.glob("broker-2/lossy*/*.deleted"):
        file.unlink()
    (placed,) = shown_in(folder)
    assert placed.finding.message.startswith("Records at offsets 3 to 8 are lost: broker 3 became leader")
    assert "(no replica was in sync)" in placed.finding.message
