"""Diverged replicas are reported with the right severity, and healthy ones are not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.forensics.audit.copies import compare_copies, replica_findings
from kforensics.forensics.checks.replicas.divergence import findings
from kforensics.forensics.core.findings import Exactness, Severity
from kforensics.forensics.metadata.cluster_metadata import Election, elections_in
from kforensics.parsers.columns import batch_reader
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import Segments, drop, file_of, patch
from tests.forensics.partition_states import partitions_under
from tests.forensics.replicas.replicas import GROUPS, REPLICATION, RULES, brief, compare, compared_group, forged

FIRES = {"replica-divergence": "test_batches_of_one_leader_epoch_that_differ_are_critical"}
SILENT = {"replica-divergence": "test_replicas_of_healthy_partitions_do_not_diverge"}

CODE = "replica-divergence"
STOPPED = Path(__file__).resolve().parents[3] / "data" / "stopped-controllers"
COMMON = "D 9 0 0-4 @0-4 N; D 9 0 5-5 @5 N"
OLD, NEW = f"{COMMON}; D 1 0 0-1 @6-7 N; D 1 0 2-2 @8 N", f"{COMMON}; D 2 0 0-0 @6 N"
OLD_EPOCHS, NEW_EPOCHS = {0: 2, 6: 3}, {0: 2, 6: 4}


@pytest.mark.parametrize("name", [name for name in GROUPS if name != "unclean-0"])
def test_replicas_of_healthy_partitions_do_not_diverge(name: str) -> None:
    assert list(findings(compared_group(name))) == []


def test_replicas_with_other_segments_are_the_same(tmp_path: Path) -> None:
    row: Segments = {0: "plain @0-4; plain @5-9; plain @10-14"}
    forged(tmp_path, (row, {}), ({0: "plain @0-4", 5: "plain @5-9; plain @10-14"}, {}))
    comparison = compare(tmp_path)
    assert comparison.differences == ()
    assert comparison.common == {(0, 1): 3}


def test_batches_of_one_leader_epoch_that_differ_are_critical(tmp_path: Path) -> None:
    forged(tmp_path, (OLD, {"high_watermark": 6}), (NEW, {"high_watermark": 6}))
    (finding,) = findings(compare(tmp_path))
    assert brief([finding]) == [(CODE, Severity.CRITICAL, 6, 8)]
    assert finding.message.endswith("No leader had both.")


def test_leader_changes_of_controllers_that_stopped_in_turn_are_harmless() -> None:
    """Brokers of 3.9.1: while they stopped one after the other, two became leader and had no majority left."""
    (finding,) = findings(compare(STOPPED))
    assert brief([finding]) == [(CODE, Severity.INFO, 418, 418)]
    assert (finding.evidence["records"], finding.evidence["batches"]) == (0, 1)
    assert finding.message == (
        "broker 2 and broker 1 differ at offset 418: 1 batch of leader epoch 15 against 1 batch of leader epoch 16. "
        "The log of the controller that is elected next decides which of them is kept."
    )


def test_records_of_controllers_that_differ_are_a_warning(tmp_path: Path) -> None:
    options = {"topic": "__cluster_metadata", "high_watermark": 6}
    forged(
        tmp_path,
        (OLD, {"leader_epochs": OLD_EPOCHS, **options}),
        (NEW, {"leader_epochs": NEW_EPOCHS, **options}),
    )
    (finding,) = findings(compare(tmp_path))
    assert brief([finding]) == [(CODE, Severity.WARNING, 6, 8)]
    assert "truncates_to" not in finding.evidence
    assert finding.message.endswith("The log of the controller that is elected next decides which of them is kept.")


def test_one_replica_against_two_is_one_finding(tmp_path: Path) -> None:
    new: tuple[Segments, dict[str, Any]] = (NEW, {"leader_epochs": NEW_EPOCHS})
    forged(tmp_path, new, (OLD, {"leader_epochs": OLD_EPOCHS, "high_watermark": 6}), new)
    (finding,) = findings(compare(tmp_path))
    assert brief([finding]) == [(CODE, Severity.WARNING, 6, 8)]
    assert finding.path is not None
    assert "broker-2" in finding.path
    assert len(finding.evidence["others"]) == 2
    assert (finding.evidence["batches"], finding.evidence["records"], finding.evidence["producer_ids"]) == (2, 3, [1])


def test_what_lies_after_the_end_of_the_other_belongs_to_the_branch(tmp_path: Path) -> None:
    forged(tmp_path, (f"{OLD}; D 1 0 3-9 @9-15 N", {"leader_epochs": OLD_EPOCHS}), (NEW, {"leader_epochs": NEW_EPOCHS}))
    assert brief(list(findings(compare(tmp_path)))) == [(CODE, Severity.CRITICAL, 6, 15)]


def test_the_same_bytes_under_another_leader_epoch_are_found(tmp_path: Path) -> None:
    """A producer that retries at a new leader sends the same bytes; the checksum does not cover the leader epoch."""
    forged(
        tmp_path,
        (COMMON, {"leader_epochs": {0: 2, 5: 3}, "high_watermark": 5}),
        (COMMON, {"leader_epochs": {0: 2, 5: 4}}),
    )
    (finding,) = findings(compare(tmp_path))
    assert brief([finding]) == [(CODE, Severity.INFO, 5, 5)]
    assert finding.message == (
        "broker 1 and broker 2 have the same records at offset 5 with leader epochs 3 and 4. When broker 1 follows "
        "broker 2 it truncates to offset 5 and fetches them again."
    )
    assert (finding.remedy or "").startswith("Nothing: ")
    assert finding.evidence["records"] == finding.evidence["written_again"] == 1


@pytest.mark.parametrize("later_epoch", [{5: 4}, {}], ids=["committed", "changed-byte"])
def test_committed_records_under_another_leader_epoch_are_a_warning(
    tmp_path: Path, later_epoch: dict[int, int]
) -> None:
    forged(
        tmp_path,
        (COMMON, {"leader_epochs": {0: 2, 5: 3}, "high_watermark": 6}),
        (COMMON, {"leader_epochs": {0: 2, 5: 3} | later_epoch}),
    )
    patch(file_of(tmp_path / "broker-2" / "t-0"), 5, fix_crc=False, partition_leader_epoch=4)
    (finding,) = findings(compare(tmp_path))
    assert brief([finding]) == [(CODE, Severity.WARNING, 5, 5)]
    assert "Let broker 1 follow, or rebuild it; the records are the same." in (finding.remedy or "")


def test_an_incident_of_the_same_records_loses_none(tmp_path: Path) -> None:
    options = {"leader_epochs": {0: 2, 5: 3}}
    forged(tmp_path, (COMMON, {**options, "high_watermark": 6}), (COMMON, {"leader_epochs": {0: 2, 5: 4}}))
    (incident,) = kforensics.audit(tmp_path, as_of=NOW).incidents.to_pylist()
    assert (incident["kind"], incident["lost_records"]) == (CODE, None)
    assert "lost or at risk" not in incident["impact"]


def test_a_batch_that_one_replica_has_lost_in_the_middle_is_found(tmp_path: Path) -> None:
    forged(tmp_path, (f"{COMMON}; plain @6", {}), (f"{COMMON}; plain @6", {}))
    drop(file_of(tmp_path / "broker-2" / "t-0"), 5)
    (finding,) = findings(compare(tmp_path))
    assert brief([finding]) == [(CODE, Severity.CRITICAL, 5, 5)]
    assert finding.message == "broker 2 has no batch at offset 5, with batches before and after; broker 1: 1 batch."


@pytest.mark.parametrize("broken", [1, 2])
def test_a_batch_whose_bytes_have_changed_on_one_disk_is_found(tmp_path: Path, broken: int) -> None:
    forged(tmp_path, (COMMON, {}), (COMMON, {}))
    patch(file_of(tmp_path / f"broker-{broken}" / "t-0"), 5, fix_crc=False, max_timestamp=1)
    (finding,) = findings(compare(tmp_path))
    assert brief([finding]) == [(CODE, Severity.CRITICAL, 5, 5)]
    assert finding.message.startswith(f"broker {broken} has 1 batch at offset 5 whose checksum fails")


def test_batches_damaged_on_either_disk_are_separate_findings(tmp_path: Path) -> None:
    forged(tmp_path, (COMMON, {}), (COMMON, {}))
    patch(file_of(tmp_path / "broker-1" / "t-0"), 0, fix_crc=False, max_timestamp=1)
    patch(file_of(tmp_path / "broker-2" / "t-0"), 5, fix_crc=False, max_timestamp=1)
    results = list(findings(compare(tmp_path)))
    assert brief(results) == [(CODE, Severity.CRITICAL, 0, 4), (CODE, Severity.CRITICAL, 5, 5)]
    assert [finding.message[:8] for finding in results] == ["broker 1", "broker 2"]


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("name", ["unclean-0", "replicated-0"])
def test_however_few_batches_are_read_at_once_the_ranges_are_the_same(
    monkeypatch: pytest.MonkeyPatch, name: str, rows: int
) -> None:
    whole = compared_group(name)
    monkeypatch.setattr(batch_reader, "CHUNK_ROWS", rows)
    parts = compare_copies(GROUPS[name], RULES)
    assert parts.differences == whole.differences
    assert parts.common == whole.common


def test_an_unclean_election_of_real_brokers_is_found() -> None:
    (finding,) = findings(compared_group("unclean-0"))
    assert brief([finding]) == [(CODE, Severity.WARNING, 8, 13)]
    assert finding.path is not None
    assert "broker-2" in finding.path
    assert (finding.evidence["truncates_to"], finding.evidence["records"], finding.producer_id) == (8, 6, 0)
    assert finding.message.endswith("drops 6 records, written from 2026-11-21 12:09:13 UTC to 2026-11-21 12:09:14 UTC.")


def test_the_metadata_of_the_cluster_shows_an_unclean_election() -> None:
    """The checkpointed high watermark is as old as the branch, but the controller recorded the ISR."""
    group = GROUPS["unclean-0"]
    elections = elections_in(partitions_under(REPLICATION))[group[0].topic_id or "", 0]
    (finding,) = findings(compare_copies(group, RULES, elections))
    assert (finding.severity, finding.exactness) == (Severity.CRITICAL, Exactness.EXACT)
    assert "broker 3 became leader with epoch 3 at 2026-11-21 12:09:19 UTC while out of sync (in sync: 2)" in str(
        finding.benign
    )


def test_a_clean_election_leaves_it_a_warning(tmp_path: Path) -> None:
    forged(
        tmp_path,
        (OLD, {"leader_epochs": OLD_EPOCHS, "high_watermark": 6}),
        (NEW, {"leader_epochs": NEW_EPOCHS, "high_watermark": 6}),
    )
    elections = [Election(3, 1, 0, (1, 2), is_unclean=True), Election(4, 2, 0, (1, 2), is_unclean=False)]
    (finding,) = findings(compare_copies(partitions_under(tmp_path), RULES, elections))
    assert finding.severity is Severity.WARNING
    assert "the elections since were clean" in str(finding.benign)


def test_the_remedy_names_the_winner_and_saves_what_the_loser_has() -> None:
    (finding,) = findings(compared_group("unclean-0"))
    assert (finding.remedy or "").startswith("broker 3 is right: its leader epoch is the later one. ")
    assert re.search(r"--records --offset 8:14 --output \S+-8-13.ndjson ", finding.remedy or "")


def test_without_a_later_leader_no_replica_is_right(tmp_path: Path) -> None:
    forged(tmp_path, ("plain @0-4; plain @5-9", {}), ("plain @0-4; D 1 0 0-4 @5-9 N", {}))
    (finding,) = findings(compare(tmp_path))
    remedy = finding.remedy or ""
    assert remedy.startswith("The leader epochs do not show which is right")
    assert [f"-broker-{broker}-t-0-5-9.ndjson {tmp_path}/broker-{broker}/t-0`" in remedy for broker in (1, 2)] == [
        True
    ] * 2


@pytest.mark.parametrize("without_id", ["broker-*", "broker-1", "broker-2"])
def test_a_topic_that_was_created_again_between_the_copies_is_a_warning(tmp_path: Path, without_id: str) -> None:
    """Broker 1 was copied before its topic was deleted, broker 2 afterwards.

    Before 2.8 topics had no ids, and with ZooKeeper a broker of 2.8.2 had written the id only in the later copy.
    """
    forged(tmp_path, ("D 1 0 0-4 @0-4 N; plain @5-9", {"high_watermark": 10}), ("D 2 0 0-2 @0-2 N", {}))
    later = file_of(tmp_path / "broker-2" / "t-0")
    patch(later, 0, base_timestamp=1 << 41, max_timestamp=1 << 41)
    (finding,) = findings(compare(tmp_path))
    assert finding.severity is Severity.CRITICAL  # copies of one topic, by its id
    for file in tmp_path.glob(f"{without_id}/t-0/partition.metadata"):
        file.unlink()
    (finding,) = findings(compare(tmp_path))
    assert brief([finding]) == [(CODE, Severity.WARNING, 0, 9)]
    assert finding.message.endswith("the topic was probably deleted and created again.")
    assert replica_findings(compare(tmp_path)) == (finding,)
    patch(file_of(tmp_path / "broker-1" / "t-0"), 5, base_timestamp=1 << 41, max_timestamp=1 << 41)
    (finding,) = findings(compare(tmp_path))
    assert finding.severity is Severity.CRITICAL


@pytest.mark.parametrize(
    ("high_watermarks", "is_later", "severity", "truncates_to", "message"),
    [
        (
            (6, 7),
            True,
            Severity.WARNING,
            6,
            "When broker 1 follows broker 2 it truncates to offset 6 and drops 3 records",
        ),
        (
            (5, 7),
            True,
            Severity.WARNING,
            5,
            "When broker 1 follows broker 2 it truncates to offset 5 and drops 3 records",
        ),
        ((6, 7), False, Severity.CRITICAL, None, "No leader had both."),
        ((6, 6), True, Severity.WARNING, None, "When one of them follows another it truncates to its high watermark"),
        ((7, 7), True, Severity.CRITICAL, None, "No leader had both."),
    ],
    ids=[
        "committed on one",
        "checkpointed before",
        "committed was overwritten",
        "committed on none",
        "committed on both",
    ],
)
def test_without_leader_epochs_an_uncommitted_tail_is_truncated(
    *,
    high_watermarks: tuple[int, int],
    is_later: bool,
    severity: Severity,
    truncates_to: int | None,
    message: str,
    tmp_path: Path,
) -> None:
    """A leader of 0.10.2 was killed with records that no follower had; the broker truncated them when it was back.

    Committed batches on both sides are the divergence of KIP-101.
    """
    options: dict[str, Any] = {"leader_epochs": {0: -1}, "replaced": {"t-0/leader-epoch-checkpoint": None}}
    sides = zip((OLD, NEW), high_watermarks, strict=True)
    forged(tmp_path, *((log, {**options, "high_watermark": end}) for log, end in sides))
    patch(file_of(tmp_path / "broker-2" / "t-0"), 6, max_timestamp=NOW + 60_000 if is_later else 1)
    comparison = compare(tmp_path)
    (finding,) = findings(comparison)
    assert brief([finding]) == [(CODE, severity, 6, 8)]
    assert (finding.evidence.get("truncates_to"), len(comparison.branches)) == (
        truncates_to,
        int(truncates_to is not None),
    )
    assert message in finding.message
    assert "without leader epochs" in finding.message
    assert "epoch -1" not in finding.message
    assert ("the next leader" in (finding.remedy or "").lower()) is (truncates_to is None)


def test_what_is_to_be_decided_first_is_not_fetched(tmp_path: Path) -> None:
    """An election of 0.8.2 overwrote committed records, whose format has no timestamps."""
    options: dict[str, Any] = {"leader_epochs": {0: -1}, "replaced": {"t-0/leader-epoch-checkpoint": None}}
    forged(tmp_path, (OLD, {**options, "high_watermark": 9}), (NEW, {**options, "high_watermark": 6}))
    for number, offsets in ((1, (6, 8)), (2, (6,))):
        for offset in offsets:
            patch(file_of(tmp_path / f"broker-{number}" / "t-0"), offset, max_timestamp=-1)
    found = {one.code.name: one for one in replica_findings(compare(tmp_path))}
    assert found[CODE].severity is Severity.CRITICAL
    assert (found["replica-truncated"].remedy or "").startswith("Decide first which of the two is right")
