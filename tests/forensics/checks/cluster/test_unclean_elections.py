"""What an unclean election lost, found after all replicas agree again."""

from __future__ import annotations

import json
import re
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from os import utime
from pathlib import Path

import pytest

from kforensics.forensics.audit.cluster_result import evaluate_cluster
from kforensics.forensics.coordinators.cluster_evidence import PlacedFinding
from kforensics.forensics.coordinators.consumer_groups.commit_replay import commits_of
from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
from kforensics.forensics.core.election import Election
from kforensics.forensics.core.findings import Exactness, Finding, Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.metadata.cluster_metadata import elections_in
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_rows import remedy_text
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS
from kforensics.parsers.files.log_names import METADATA_TOPIC
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import walk
from tests.command import run
from tests.forensics.forge import cut
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
    rules = [Rules(max(partition.newest_mtime_ms or 0, 0)) for partition in partitions]
    states = [examine(partition, of, watches_indexes=True) for partition, of in zip(partitions, rules, strict=True)]
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


# In the sample broker 2 had led lossy-unread to offset 11; broker 3 continued at offset 3, and both end at offset 8.
CUT = "lossy-unread"
ELECTED_MS, SECOND = 1_795_368_252_000, 1000


def copied_while_running(
    folder: Path,
    *,
    high_watermark: int = 11,
    checkpointed: int = 60,
    truncated: int = 61,
    leader_checkpointed: int = 63,
    leader_watermark: int = 8,
) -> Path:
    """Return a copy of the sample from shortly after broker 2 has truncated its log, which leaves no other file.

    Args:
        folder: where to.
        high_watermark: in the checkpoint of broker 2.
        checkpointed: when that was written, in seconds since the election.
        truncated: when the log of broker 2 was last written.
        leader_checkpointed: when the checkpoint of broker 3 was written.
        leader_watermark: the high watermark in it.
    """
    copy = copied(folder)
    for file in (*copy.glob("broker-2/lossy*/*.deleted"), *copy.glob("*/.kafka_cleanshutdown")):
        file.unlink()
    for log in copy.glob(f"*/{METADATA_TOPIC}-0/*.log"):
        _cut_after(log, ELECTED_MS + 5 * SECOND)
    for broker, offset, logs, checkpoints in (
        ("broker-2", high_watermark, truncated, checkpointed),
        ("broker-3", leader_watermark, 5, leader_checkpointed),
    ):
        checkpoint = copy / broker / "replication-offset-checkpoint"
        checkpoint.write_text(checkpoint.read_text().replace(f"{CUT} 0 8", f"{CUT} 0 {offset}"))
        for file in (file for file in (copy / broker).rglob("*") if file.is_file()):
            since = checkpoints if file.parent.name == broker else logs
            _written(file, -3600 if file.name == "partition.metadata" else since)
    return copy


def _cut_after(log: Path, time_ms: int) -> None:
    """Remove what was written after a time, when the brokers were stopped one after the other."""
    with open_source(str(log)) as source:
        batches = [row for row in walk(source) if isinstance(row, Batch)]
    later = next(batch for batch in batches if batch.max_timestamp > time_ms)
    cut(log, later.position)
    for snapshot in log.parent.glob("*.snapshot"):
        if int(snapshot.stem) > (later.base_offset or 0):
            snapshot.unlink()


def _written(file: Path, since: int) -> None:
    """Set when a file was written, in seconds since the election."""
    utime(file, ns=((ELECTED_MS + since * SECOND) * 1_000_000,) * 2)


def losses_of_cut(folder: Path) -> list[Finding]:
    """Return the losses of the partition that a file or a group shows."""
    return [placed.finding for placed in shown_in(folder) if placed.place.topic == CUT]


@pytest.mark.parametrize(("last", "is_left"), [(10, True), (7, False)])
def test_what_an_index_still_has_from_before_the_truncation_is_named(tmp_path: Path, last: int, is_left: bool) -> None:
    """Entries left by a truncation show what the log had, if the last of them is beyond its end."""
    copy = copied_while_running(tmp_path, high_watermark=8)
    log = copy / "broker-2" / f"{CUT}-0" / "00000000000000000000.log"
    with log.open("ab") as whole:  # one segment
        whole.write(log.with_name("00000000000000000006.log").read_bytes())
    for file in log.parent.glob("00000000000000000006.*"):
        file.unlink()
    _written(log, 61)
    with open_source(str(log)) as source:
        first, second, *_ = [row for row in walk(source) if isinstance(row, Batch)]
    entries = [(first.last_offset, first.position), (second.last_offset - 1, second.position + 7), (last, 900)]
    log.with_suffix(".index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    _written(log.with_suffix(".index"), 61)
    (found,) = [placed.finding for placed in found_in(copy) if placed.place.topic == CUT]
    assert found.severity is Severity.INFO
    assert ("The index of broker 2 still has offsets up to 10" in found.message) == is_left
    assert ("no file and no group shows" in found.message) != is_left
    assert found.evidence.get("indexed_to") == (10 if is_left else None)


def test_a_high_watermark_from_before_the_truncation_shows_a_loss(tmp_path: Path) -> None:
    """The checkpoint of the broker that followed has not been written again since it truncated its log."""
    (finding,) = losses_of_cut(copied_while_running(tmp_path))
    assert (finding.severity, finding.exactness) == (Severity.CRITICAL, Exactness.EXACT)
    assert (finding.first_offset, finding.last_offset, finding.path) == (3, 10, None)
    assert finding.message.endswith(
        "and continued at offset 3. The checkpoint of broker 2 has the high watermark 11, so they were committed. Its "
        "log was truncated after that, and ends at offset 8."
    )
    assert (finding.evidence["high_watermark"], finding.evidence["high_watermark_of"]) == (11, 2)
    assert finding.benign[0].startswith("never acknowledged: no, ")


@pytest.mark.parametrize(
    "times",
    [
        {"checkpointed": 61, "truncated": 60},  # the log was copied before the checkpoint: it may be longer
        {"high_watermark": 8},
        {"leader_checkpointed": 30},  # the leader may have reached the high watermark since, and a crash cut off this
        {"truncated": 3600},  # a checkout
    ],
)
def test_a_high_watermark_that_the_new_leader_may_have_reached_shows_nothing(
    tmp_path: Path, times: dict[str, int]
) -> None:
    assert losses_of_cut(copied_while_running(tmp_path, **times)) == []


def test_a_high_watermark_from_before_the_election_shows_a_loss_without_the_leader(tmp_path: Path) -> None:
    """Whatever the leader has reached since, this was committed before."""
    folder = copied_while_running(tmp_path, checkpointed=-8)
    shutil.rmtree(folder / "broker-3" / f"{CUT}-0")
    (finding,) = losses_of_cut(folder)
    assert (finding.first_offset, finding.last_offset) == (3, 10)


def test_a_later_election_may_have_cut_off_what_a_high_watermark_shows(tmp_path: Path) -> None:
    """All brokers may have crashed since, and the new leader may have been in sync."""
    folder = copied_while_running(tmp_path)
    for broker in (2, 3):
        epochs = folder / f"broker-{broker}" / f"{CUT}-0" / "leader-epoch-checkpoint"
        epochs.write_text("0\n3\n0 0\n2 3\n4 8\n")
        _written(epochs, 60)
    assert losses_of_cut(folder) == []
    (unknown,) = (placed.finding for placed in found_in(folder) if placed.place.topic == CUT)
    assert unknown.message.endswith(
        "and continued at offset 3. Whether its predecessor had acknowledged records from there on is not certain: the "
        "checkpoint of broker 2 has the high watermark 11, beyond all logs."
    )


@pytest.mark.parametrize(
    ("size", "leader_watermark"),
    [
        (100, 8),
        (0, 8),  # broken off between two batches
        (100, 6),  # the checkpoint of the leader is older
    ],
)
def test_logs_that_a_full_disk_has_broken_off_show_nothing(tmp_path: Path, size: int, leader_watermark: int) -> None:
    """The checkpoints are whole, so that the high watermark is beyond all logs, long after the election."""
    folder = copied_while_running(tmp_path, high_watermark=8, leader_checkpointed=50, leader_watermark=leader_watermark)
    for broker in (2, 3):
        log = folder / f"broker-{broker}" / f"{CUT}-0" / "00000000000000000006.log"
        cut(log, size)
        _written(log, 61)
    assert losses_of_cut(folder) == []
    ended = run("audit", folder, "--format", "json", "--fail-on", "never")
    found = [row for row in json.loads(ended.text)["tables"]["findings"] if row["topic"] == CUT]
    (checkpoint,) = (row for row in found if row["code"] == "checkpoint-hw-beyond-end" and row["broker_id"] == 2)
    assert (checkpoint["severity"], checkpoint["first_offset"], checkpoint["last_offset"]) == ("warning", 6, 7)
    assert "critical" not in {row["severity"] for row in found}


def test_only_what_is_below_the_high_watermark_is_said_to_have_been_committed(tmp_path: Path) -> None:
    """A segment that was set aside has records beyond it."""
    folder = copied_while_running(tmp_path, high_watermark=9)
    aside = f"broker-2/{CUT}-0/00000000000000000007.log.deleted"
    shutil.copy(SAMPLE / aside, folder / aside)
    (finding,) = losses_of_cut(folder)
    assert (finding.first_offset, finding.last_offset) == (3, 10)
    assert "has the high watermark 9, so those below it were committed. Its log was truncated" in finding.message
    assert finding.benign[0].startswith("never acknowledged: no for those below the high watermark 9, not")


def test_each_election_has_the_high_watermark_from_before_it(tmp_path: Path) -> None:
    """Broker 2 was stopped before another election, whose leader cut off what the checkpoint of broker 1 counts."""
    partitions = partitions_under(copied_while_running(tmp_path, checkpointed=-8))
    states = [examine(one, Rules(max(one.newest_mtime_ms or 0, 0))) for one in partitions if one.place.topic == CUT]
    second, third = sorted(map(PartitionMarkers.of, states), key=lambda one: one.place.broker_id or 0)
    key = (second.topic_id or "", 0)
    elections = elections_in(partitions)[key]
    again = replace(
        elections[-1], leader_epoch=4, leader=3, predecessor=1, timestamp=elections[-1].timestamp + 600 * SECOND
    )
    starts = (*third.epoch_starts, (4, 20))
    assert second.watermark is not None
    place = third.place._replace(broker_id=1)
    watermark = replace(
        second.watermark,
        place=place,
        log_end_offset=25,
        offset=30,
        checkpointed_ms=again.timestamp - 60 * SECOND,
        epoch_starts=starts,
    )
    first = replace(third, place=place, log_end_offset=25, epoch_starts=starts, watermark=watermark)
    result = evaluate_cluster([], [first, second], Rules(0), elections={key: (*elections, again)})
    found = [(one.finding.severity, one.finding.first_offset, one.finding.last_offset) for one in result.findings]
    assert sorted(found) == [
        (Severity.INFO, 8, 10),
        (Severity.INFO, 25, 29),
        (Severity.CRITICAL, 3, 10),
        (Severity.CRITICAL, 20, 29),
    ]


def test_a_high_watermark_of_an_earlier_topic_shows_nothing(tmp_path: Path) -> None:
    """The broker was down when the topic was deleted and created again, and its log is younger than its checkpoint."""
    folder = copied_while_running(tmp_path, checkpointed=-86_400)
    assert losses_of_cut(folder) == []


def test_the_audit_names_the_election_as_the_cause_of_what_a_checkpoint_lacks(tmp_path: Path) -> None:
    """One incident; neither a crash nor the order of the copy is named as another possible cause."""
    folder = copied_while_running(tmp_path)
    ended = run("audit", folder, "--format", "json", "--fail-on", "never")
    tables = json.loads(ended.text)["tables"]
    found = [row for row in tables["findings"] if row["topic"] == CUT]
    effects = {row["code"]: row for row in found if row["code"] in ("checkpoint-hw-beyond-end", "replica-truncated")}
    for row in effects.values():
        assert (row["severity"], row["first_offset"], row["last_offset"]) == ("info", 8, 10)
        assert "missing. They are lost: broker 3 became leader with epoch 2 at " in row["message"]
        assert "ruled out" not in f"{row['message']} {row['benign']}"
    assert len(effects) == 2
    (critical,) = (row for row in found if row["severity"] == "critical")
    assert critical["code"] == "unclean-election-loss"
    kinds = {row["kind"] for row in tables["incidents"] if CUT in row["partitions"]}
    assert "unclean-election" in kinds
    assert not kinds & {"checkpoint-damage", "replica-divergence"}


def test_a_replica_that_ends_before_the_election_continued_lags(tmp_path: Path) -> None:
    """Broker 1 has nothing yet: what it lacks up to offset 3 is not lost, and broker 3 lacks what the election lost."""
    folder = copied_while_running(tmp_path)
    empty = folder / "broker-1" / f"{CUT}-0"
    empty.mkdir()
    shutil.copy(folder / "broker-2" / f"{CUT}-0" / "partition.metadata", empty)
    for file in (empty / "00000000000000000000.log", empty / "partition.metadata"):
        file.touch()
        _written(file, 61)
    ended = run("audit", folder, "--format", "json", "--fail-on", "never")
    found = [row for row in json.loads(ended.text)["tables"]["findings"] if row["code"] == "replica-truncated"]
    lagging, cut_off = sorted(found, key=lambda row: row["first_offset"])
    assert (lagging["first_offset"], lagging["severity"], lagging["cause"]) == (0, "warning", None)
    assert "lost" not in lagging["message"]
    assert (cut_off["first_offset"], cut_off["severity"], cut_off["cause"]) == (8, "info", "unclean-election-loss")


def test_a_coordinators_partition_is_no_data_partition_but_has_elections(tmp_path: Path) -> None:
    """The joins of transactions know its history only."""
    partitions = partitions_under(copied_while_running(tmp_path))
    states = [examine(one, Rules(max(one.newest_mtime_ms or 0, 0))) for one in partitions if one.place.topic == CUT]
    replicas, elections = [PartitionMarkers.of(state) for state in states], elections_in(partitions)
    result = evaluate_cluster([], [], Rules(0), coordinator_replicas=replicas, elections=elections)
    losses = (placed.finding for placed in result.findings if placed.finding.code.name in FIRES)
    assert [(loss.severity, loss.first_offset, loss.last_offset) for loss in losses] == [(Severity.CRITICAL, 3, 10)]
    assert not result.cluster.supplied_partitions
