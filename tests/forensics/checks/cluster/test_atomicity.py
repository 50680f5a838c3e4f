"""Transactions with different outcomes, missing markers, and offsets that do not match their output."""

from __future__ import annotations

import shutil
from dataclasses import replace
from os import utime
from pathlib import Path
from typing import Any

import pytest

from kforensics.forensics.audit.cluster_result import coordinator_history, evaluate_cluster, is_coordinator
from kforensics.forensics.audit.incident_kinds import PlacedEvidence, key_of
from kforensics.forensics.audit.incident_links import links
from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
from kforensics.forensics.coordinators.transactions.marker_roles import MarkerRole
from kforensics.forensics.coordinators.transactions.transaction_partitions import MarkerStatus
from kforensics.forensics.core.commands import TRANSACTIONS_TOOL
from kforensics.forensics.core.election import DatedEpochs, Election, Leaderless
from kforensics.forensics.core.findings import Exactness, Finding, Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_rows import remedy_text
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import (
    SOON,
    at,
    cluster_under,
    codes_in,
    forge_coordinator,
    forge_offsets,
    found_in,
)
from tests.forensics.coordinators.doctored import MINUTE, batch_at, taken, transactions_of
from tests.forensics.coordinators.leaderless import topic_id_of
from tests.forensics.coordinators.living import forge_living
from tests.forensics.forge import drop, file_of, forge, keep_times
from tests.forensics.partition_states import SAMPLES, partitions_under

FIRES = {
    "atomicity-split-outcome": "test_a_marker_against_the_decision",
    "atomicity-marker-missing": "test_a_partition_without_its_marker",
    "eos-offset-outcome-mismatch": "test_offsets_on_the_other_side",
}
SILENT = {
    "atomicity-split-outcome": "test_everything_as_decided",
    "atomicity-marker-missing": "test_everything_as_decided",
    "eos-offset-outcome-mismatch": "test_everything_as_decided",
}
OFFSETS = "__consumer_offsets"
HOUR = 3_600_000


def decided(epoch: int, marker: int, *, version: int = 0, state: str = "Commit", time: int = 10) -> str:
    """Return a transaction over two partitions and offsets, starting at ``time``."""
    tag, listed = f"tv {version} " if version else "", f"{{p-0, p-1, {OFFSETS}-0}}"
    return (
        f"; a Ongoing 1 {epoch} {tag}{listed} t {time}; a Prepare{state} 1 {marker} {tag}{listed} t {time + 10}; "
        f"a Complete{state} 1 {marker} {tag}t {time + 20}"
    )


def forge_data(folder: Path, logs: dict[str, str]) -> None:
    for name, log in logs.items():
        topic, _, partition = name.rpartition("-")
        forge(folder, log, topic=topic, partition=int(partition))


def data(marker: int, outcome: str = "C", time: int = 25, *, epoch: int = 0) -> str:
    return f"D 1 {epoch} 0-0 @0-0 T {at(11)}; M 1 {marker} {outcome} 0 @1 {at(time)}"


def everything(marker: int, outcome: str = "C") -> dict[str, str]:
    return {name: data(marker, outcome) for name in ("p-0", "p-1", f"{OFFSETS}-0")}


PROTOCOLS = pytest.mark.parametrize(("version", "marker"), [(0, 0), (2, 1)], ids=["TV1", "TV2"])


@PROTOCOLS
@pytest.mark.parametrize("state", ["Commit", "Abort"])
def test_everything_as_decided(version: int, marker: int, state: str, tmp_path: Path) -> None:
    forge_coordinator(tmp_path, "a Empty 1 0 t 0" + decided(0, marker, version=version, state=state))
    forge_data(tmp_path, everything(marker, state[0]))
    assert codes_in(cluster_under(tmp_path, as_of_ms=SOON + HOUR)) == {}


@PROTOCOLS
def test_a_marker_against_the_decision(version: int, marker: int, tmp_path: Path) -> None:
    forge_coordinator(tmp_path, "a Empty 1 0 t 0" + decided(0, marker, version=version))
    forge_data(tmp_path, everything(marker) | {"p-1": data(marker, "A")})
    findings = {placed.finding.code.name: placed for placed in found_in(cluster_under(tmp_path))}
    assert findings.keys() == {"atomicity-split-outcome", "eos-offset-outcome-mismatch"}
    place, finding = findings["atomicity-split-outcome"]
    assert str(finding.severity) == "critical"
    assert (place.topic, place.partition, finding.first_offset, finding.producer_epoch) == ("p", 1, 1, marker)
    assert finding.evidence["transactional_id"] == "a"
    by_operator = "possible" if marker == 0 else "no, not the epoch of its data"
    assert f"abort by an operator: {by_operator}" in finding.benign
    assert findings["eos-offset-outcome-mismatch"].finding.benign == (f"abort by an operator: {by_operator}",)


@pytest.mark.parametrize(("state", "outcome"), [("Commit", "A"), ("Abort", "C")])
@pytest.mark.parametrize("is_recreated", [True, False], ids=["recreated", "kept"])
def test_a_marker_of_the_next_transaction_in_a_topic_that_was_recreated(
    state: str, outcome: str, *, is_recreated: bool, tmp_path: Path
) -> None:
    """The brokers ran; the coordinator's log was copied before the next transaction, whose epoch is the same.

    In a log that existed before the transaction, the marker is where that of the transaction must be.
    """
    forge_coordinator(tmp_path, "a Empty 1 0 t 0" + decided(0, 0, state=state))
    followed = f"plain @0-0 {at(5)}; D 1 0 0-0 @1-1 T {at(1_000)}; M 1 0 {outcome} 0 @2 {at(1_010)}"
    forge_data(tmp_path, everything(0, state[0]) | {"p-1": followed})
    (tmp_path / ".kafka_cleanshutdown").unlink()
    if is_recreated:
        created_at(tmp_path / "p-1", 900)
    assert ("atomicity-split-outcome" in codes_in(cluster_under(tmp_path))) is not is_recreated


def test_a_commit_against_the_decision_is_not_by_an_operator(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, "a Empty 1 0 t 0" + decided(0, 0, state="Abort"))
    forge_data(tmp_path, everything(0, "A") | {"p-1": data(0, "C")})
    (mismatch,) = [
        placed.finding
        for placed in found_in(cluster_under(tmp_path))
        if placed.finding.code.name == "eos-offset-outcome-mismatch"
    ]
    assert mismatch.benign == ("abort by an operator: no, it is a COMMIT",)


def test_a_decision_of_which_the_cleaner_left_the_last_record(tmp_path: Path) -> None:
    """Its partitions are unknown; with version 2 its epoch identifies the marker."""
    forge_coordinator(tmp_path, {0: "a CompleteCommit 1 7 tv 2 t 30", 20: "b Empty 2 0 t 50"}, first_dirty=20)
    forge_data(tmp_path, {"p-0": data(7, epoch=6), "p-1": data(7, "A", epoch=6)})
    ((place, finding),) = found_in(cluster_under(tmp_path))
    assert (place.partition, finding.code.name) == (1, "atomicity-split-outcome")


@PROTOCOLS
@pytest.mark.parametrize(
    ("later", "after", "trust"),
    [
        (0, 0, ("warning", Exactness.APPROXIMATE)),
        (0, HOUR, ("critical", Exactness.APPROXIMATE)),
        (5_031, 0, ("critical", Exactness.EXACT)),
        (5_030, 0, ("warning", Exactness.APPROXIMATE)),
    ],
    ids=["copied-at-once", "copied-later", "followed", "followed-too-soon"],
)
def test_a_partition_without_its_marker(
    version: int, marker: int, *, later: int, after: int, trust: tuple[str, Exactness], tmp_path: Path
) -> None:
    """A marker of another producer after the end of the transaction proves that its own marker should exist.

    Broker clocks may differ by five seconds.
    """
    forge_coordinator(
        tmp_path,
        f"a Empty 1 0 t 0{decided(0, marker, version=version)}; b Empty 2 0 t 40; b Ongoing 2 0 {{p-1}} t 41; "
        "b PrepareCommit 2 0 {p-1} t 5000; b CompleteCommit 2 0 t 6000",
    )
    other = f"; D 2 0 0-0 @1-1 T {at(42)}; M 2 0 C 0 @2 {at(later)}" if later else ""
    forge_data(tmp_path, everything(marker) | {"p-1": f"D 1 0 0-0 @0-0 T {at(11)}{other}"})
    findings = {placed.finding.code.name: placed for placed in found_in(cluster_under(tmp_path, as_of_ms=SOON + after))}
    assert findings.keys() - {"txn-hanging"} == {"atomicity-marker-missing"}
    missing = [
        placed for placed in found_in(cluster_under(tmp_path, as_of_ms=SOON + after)) if placed.finding.producer_id == 1
    ]
    place, finding = next(placed for placed in missing if placed.finding.code.name == "atomicity-marker-missing")
    assert (place.topic, place.partition, finding.first_offset) == ("p", 1, 0)
    assert (str(finding.severity), finding.exactness) == trust


@PROTOCOLS
@pytest.mark.parametrize(
    ("state", "is_open", "begins", "commands"),
    [
        (
            "Commit",
            True,
            "No coordinator sends the marker again, and no tool can write a COMMIT",
            ["dump", "find", "abort"],
        ),
        ("Abort", True, "No coordinator sends the marker again, and the decision was to abort.", ["find", "abort"]),
        ("Commit", False, "Nothing is to be aborted: none of its data is open here. If it wrote here, a later", []),
        ("Abort", False, "Nothing is to be aborted: none of its data is open here, and the decision was to", []),
    ],
)
def test_what_to_do_without_a_marker(
    version: int, marker: int, *, state: str, is_open: bool, begins: str, commands: list[str], tmp_path: Path
) -> None:
    """Only an abort can be written by hand, so data that was to be committed has to be saved first."""
    forge_coordinator(tmp_path, f"a Empty 1 0 t 0{decided(0, marker, version=version, state=state)}")
    logs = everything(marker, state[0]) | {"p-1": f"D 1 0 0-2 @0-2 T {at(11)}" if is_open else "plain @0-2"}
    forge_data(tmp_path, logs)
    (placed,) = (
        placed
        for placed in found_in(cluster_under(tmp_path, as_of_ms=SOON + HOUR))
        if placed.finding.code.name == "atomicity-marker-missing"
    )
    text = remedy_text(*placed) or ""
    saved = f"{tmp_path.as_posix().strip('/').replace('/', '-')}-p-1-0-2.ndjson"
    lines = {
        "dump": f"kforensics dump --format ndjson --records --offset 0:3 --output {saved} {tmp_path}/p-1",
        "find": f"{TRANSACTIONS_TOOL} find-hanging --topic p --partition 1",
        "abort": f"{TRANSACTIONS_TOOL} abort --topic p --partition 1 --start-offset 0",
    }
    assert text.startswith(begins)
    assert text.split("`")[1::2] == [lines[name] for name in commands]


def test_a_later_transaction_ends_data_without_a_marker(tmp_path: Path) -> None:
    """An abort would end what its coordinator is about to commit."""
    later = f"a Ongoing 1 0 {{p-1}} t {HOUR}"
    forge_coordinator(tmp_path, f"a Empty 1 0 t 0{decided(0, 0)}; {later}")
    log = f"D 1 0 0-0 @0-0 T {at(11)}; D 1 0 1-1 @1-1 T {at(HOUR + 1)}"
    forge_data(tmp_path, everything(0) | {"p-1": log})
    found = found_in(cluster_under(tmp_path, as_of_ms=SOON + HOUR))
    (finding,) = (placed.finding for placed in found if placed.finding.code.name == "atomicity-marker-missing")
    assert str(finding.remedy).startswith("Do not abort it: a later transaction of the same producer is open")
    assert "abort --topic" not in str(finding.remedy)


@PROTOCOLS
@pytest.mark.parametrize(
    ("other", "taken", "code"),
    [
        (5_030, 60_000, "atomicity-unverifiable"),
        (5_031, 60_000, "atomicity-marker-missing"),
        (0, 15 * 60_000 + 30, "atomicity-unverifiable"),
        (0, 15 * 60_000 + 31, "atomicity-marker-missing"),
    ],
    ids=["no-later-marker", "later-marker", "copied-soon", "copied-late"],
)
def test_a_marker_that_may_have_come_after_its_partition_was_copied(
    version: int, marker: int, *, other: int, taken: int, code: str, tmp_path: Path
) -> None:
    """The broker was running, and its files were copied before those of the coordinator."""
    forge_coordinator(tmp_path, "a Empty 1 0 t 0" + decided(0, marker, version=version))
    more = f"; M 2 0 C 0 @1 {at(other)}" if other else ""
    forge_data(tmp_path, everything(marker) | {"p-1": f"plain @0-0 {at(11)}{more}"})
    (tmp_path / ".kafka_cleanshutdown").unlink()
    for file in (tmp_path / "p-1").glob("0*"):
        utime(file, ns=((NOW + (11 if file.suffix == ".log" else taken)) * 1_000_000,) * 2)
    assert code in codes_in(cluster_under(tmp_path, as_of_ms=SOON + HOUR))


@pytest.mark.parametrize(
    ("log", "append_time", "created", "is_missing"),
    [
        (f"plain @0-0 {at(-HOUR)}; M 2 0 C 0 @1 {at(9_000)}", False, 8_000, False),
        (f"plain @0-0 {at(-HOUR)}; M 2 0 C 0 @1 {at(9_000)}", False, -6_000, True),
        (f"plain @0-0 {at(-HOUR)}; M 2 0 C 0 @1 {at(5)}; M 3 0 C 0 @2 {at(9_000)}", False, 8_000, True),
        (f"plain @0-0 {at(5)}; M 2 0 C 0 @1 {at(9_000)}", True, 8_000, True),
        (f"D 1 {{epoch}} 0-0 @0-0 T {at(11)}; M 2 0 C 0 @1 {at(9_000)}", False, 8_000, True),
    ],
    ids=["created again", "older file", "earlier marker", "append time", "its data"],
)
def test_create_times_do_not_show_that_a_log_is_older_than_a_transaction(
    log: str, *, append_time: bool, created: int, is_missing: bool, tmp_path: Path
) -> None:
    """MirrorMaker and Kafka Streams write records with the times of others."""
    version, marker = 2, 1
    forge_coordinator(tmp_path, "a Empty 1 0 t 0" + decided(0, marker, version=version))
    forge_data(tmp_path, everything(marker))
    forge(tmp_path, log.format(epoch=0), topic="p", partition=1, log_append_time=append_time)
    created_at(tmp_path / "p-1", created)
    code = "atomicity-marker-missing" if is_missing else "atomicity-unverifiable"
    assert code in codes_in(cluster_under(tmp_path, as_of_ms=SOON + HOUR))


def test_the_oldest_replica_shows_since_when_a_log_existed(tmp_path: Path) -> None:
    """One that a reassignment has added is younger than the topic."""
    forge_coordinator(tmp_path / "1", "a Empty 1 0 t 0" + decided(0, 0))
    forge_data(tmp_path / "1", everything(0) | {"p-1": f"plain @0-1 {at(5)}"})
    created_at(tmp_path / "1" / "p-1", 8_000)
    for created, code in ((8_000, "atomicity-unverifiable"), (-6_000, "atomicity-marker-missing")):
        forge(tmp_path / "2", f"plain @0-0 {at(5)}", topic="p", partition=1, node_id=2)
        created_at(tmp_path / "2" / "p-1", created)
        states = [examine(one, Rules(SOON + HOUR)) for one in partitions_under(tmp_path)]
        result = evaluate_cluster(
            [coordinator_history(state) for state in states if is_coordinator(state)],
            [PartitionMarkers.of(state) for state in states if not is_coordinator(state)],
            Rules(SOON + HOUR),
        )
        assert code in {placed.finding.code.name for placed in result.findings}


@pytest.mark.parametrize(
    ("other", "is_missing"),
    [
        (f"plain @0-0 {at(-9_000)}; plain @1-1 {at(-8_000)}", False),
        (f"plain @0-0 {at(8_000)}; M 3 0 C 0 @1 {at(5)}", True),
        (f"plain @0-1 {at(8_000)}; M 3 0 C 0 @2 {at(5)}", True),
        (f"plain @0-1 {at(-9_000)}; M 3 0 C 0 @2 {at(9_500)}", True),
        (f"plain @1-1 {at(-9_000)}", True),
    ],
    ids=["of a deleted topic", "of this topic", "compacted", "not older", "without its first batch"],
)
@pytest.mark.parametrize("has_ids", [False, True])
def test_a_replica_of_a_deleted_topic_does_not_date_the_one_that_was_created_again(
    other: str, *, is_missing: bool, has_ids: bool, tmp_path: Path
) -> None:
    """Topics of 2.8.2 with ZooKeeper have no ids in their folders at first; a broker was copied before the deletion."""
    forge_coordinator(tmp_path / "1", "a Empty 1 0 t 0" + decided(0, 0))
    forge_data(tmp_path / "1", everything(0) | {"p-1": f"plain @0-0 {at(8_000)}; M 2 0 C 0 @1 {at(9_000)}"})
    forge(tmp_path / "2", other, topic="p", partition=1, node_id=2)
    for file in () if has_ids else tmp_path.glob("*/p-1/partition.metadata"):
        file.unlink()
    states = [examine(one, Rules(SOON + HOUR)) for one in partitions_under(tmp_path)]
    result = evaluate_cluster(
        [coordinator_history(state) for state in states if is_coordinator(state)],
        [PartitionMarkers.of(state) for state in states if not is_coordinator(state)],
        Rules(SOON + HOUR),
    )
    found = {placed.finding.code.name for placed in result.findings}
    assert ("atomicity-marker-missing" in found) == (is_missing or has_ids)


@pytest.mark.parametrize(
    ("log", "epochs", "elected", "found"),
    [
        (f"plain @0-0 {at(5)}; plain @1-1 {at(9_000)}", {0: 0, 1: 2}, 9_000, "cut off"),
        (f"plain @0-0 {at(5)}; plain @1-2 {at(9_000)}", {0: 0, 1: 1, 2: 2}, 9_000, "may have cut off"),
        (f"plain @0-0 {at(5)}; plain @1-1 {at(9_000)}", {0: 0, 1: 2}, 5_000, None),
        (f"plain @0-0 {at(5)}; plain @1-1 {at(9_000)}", {0: 0, 3: 2}, 9_000, None),
        (f"plain @0-0 {at(9_000)}", {0: 2}, 9_000, "cut off"),
        (f"plain @0-0 {at(9_000)}", {0: 2}, 9_000, "begins at offset 0 with leader epoch 2"),
        ("", {0: 2}, 9_000, "begins at offset 0 with leader epoch 2"),
        ("", {0: 0}, 9_000, None),
    ],
    ids=[
        "unclean",
        "undated epoch between",
        "clocks differ",
        "epoch copied later",
        "unclean, of an empty replica",
        "began again",
        "empty",
        "empty from the start",
    ],
)
def test_a_leader_epoch_dates_a_log(
    log: str, epochs: dict[int, int], elected: int, found: str | None, tmp_path: Path
) -> None:
    """A log with the epoch of a later election was copied after it, whatever else it shows; the brokers ran."""
    forge_coordinator(tmp_path, "a Empty 1 0 t 0" + decided(0, 0))
    forge_data(tmp_path, everything(0))
    folder = forge(tmp_path, log, topic="p", partition=1, leader_epochs=epochs, clean_shutdown=False)
    created_at(folder, 8_000)
    key = topic_id_of(folder), 1
    dated: dict[str | None, dict[tuple[str, int], DatedEpochs]] = {
        str(tmp_path): {key: DatedEpochs(NOW - HOUR, {2: NOW + elected})}
    }
    rules = Rules(SOON, dated_epochs=dated)
    states = [examine(one, rules) for one in partitions_under(tmp_path)]
    is_same = (found or "").startswith("begins")  # the only replica comes back, without what it had
    before = 1 if is_same else 2
    election = Election(2, 1, NOW + elected, (before,), is_unclean=not is_same, predecessor=before)
    result = evaluate_cluster(
        [coordinator_history(state) for state in states if is_coordinator(state)],
        [PartitionMarkers.of(state) for state in states if not is_coordinator(state)],
        rules,
        elections={key: (election,)},
    )
    missing = [one.finding for one in result.findings if one.finding.code.name == "atomicity-marker-missing"]
    assert [(found or "") in one.message and str(one.severity) == "critical" for one in missing] == [True] * bool(found)


def created_at(folder: Path, since: int) -> None:
    """Let a partition be created some time in ms after ``NOW``, in a copy that has kept the times of files."""
    for file in folder.glob("0*"):
        utime(file, ns=((NOW + 10_000) * 1_000_000,) * 2)
    utime(folder / "partition.metadata", ns=((NOW + since) * 1_000_000,) * 2)


def test_files_without_their_times_do_not_show_when_a_partition_was_copied(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, "a Empty 1 0 t 0" + decided(0, 0))
    forge_data(tmp_path, everything(0) | {"p-1": f"plain @0-0 {at(11)}"})
    (tmp_path / ".kafka_cleanshutdown").unlink()
    for file in (tmp_path / "p-1").glob("0*"):
        utime(file, ns=((NOW + HOUR) * 1_000_000,) * 2)
    innocent = cluster_under(tmp_path, as_of_ms=SOON + HOUR, is_assumed=True)
    assert codes_in(innocent) == {"atomicity-unverifiable": "info"}
    guilty = cluster_under(tmp_path, as_of_ms=SOON + HOUR)  # the user says when they were copied
    assert "atomicity-marker-missing" in codes_in(guilty)


def test_a_partition_without_its_marker_and_without_data(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, "a Empty 1 0 t 0" + decided(0, 0))
    forge_data(tmp_path, everything(0) | {"p-1": "plain @0-0"})
    ((_, finding),) = found_in(cluster_under(tmp_path, as_of_ms=SOON + HOUR))
    assert (finding.code.name, finding.first_offset) == ("atomicity-marker-missing", None)


@pytest.mark.parametrize(
    ("data", "deleted", "severity"),
    [
        ("plain @0-0", 15, Severity.INFO),
        ("plain @0-0", -4_990, Severity.INFO),
        ("plain @0-0", -4_991, Severity.CRITICAL),
        ("plain @0-0", None, Severity.CRITICAL),
        ("D 1 0 0-0 @0-0 T", 15, Severity.CRITICAL),
    ],
    ids=["deleted since", "clocks differ", "deleted before", "not deleted", "open data"],
)
def test_the_topic_was_deleted_after_the_transaction_had_begun(
    tmp_path: Path, data: str, deleted: int | None, severity: Severity
) -> None:
    """A cluster of 3.3.2 created the topic again at the time of the markers, which the new log does not have."""
    forge_coordinator(tmp_path, "a Empty 1 0 t 0" + decided(0, 0))
    forge_data(tmp_path, everything(0) | {"p-1": data})
    cluster = cluster_under(tmp_path, as_of_ms=SOON + HOUR)
    times = () if deleted is None else (NOW + deleted,)
    findings = [finding for _, finding in found_in(replace(cluster, removed_topics={"p": times}))]
    (finding,) = (finding for finding in findings if finding.code.name == "atomicity-marker-missing")
    assert finding.severity == severity
    assert ("Nothing is to be done here" in (finding.remedy or "")) is (severity is Severity.INFO)
    assert ("was deleted at" in finding.message) is (severity is Severity.INFO)


def _with_elections(folder: Path, *elections: Election, state: str = "Commit", log: str = "plain @0-0") -> Finding:
    """Return the finding about ``p-1``, which has no marker of a transaction decided at 20 and completed at 30."""
    forge_coordinator(folder, "a Empty 1 0 t 0" + decided(0, 0, state=state))
    forge_data(folder, everything(0, state[0]) | {"p-1": log})
    cluster = cluster_under(folder, as_of_ms=SOON + HOUR)
    (replica,) = (markers for markers in cluster.marker_join.by_partition.values() if markers.name == ("p", 1))
    found = found_in(cluster.with_elections({(replica.topic_id or "", 1): elections}, [replica]))
    (placed,) = (each for each in found if " T" not in log or each.finding.code.name == "atomicity-marker-missing")
    evidence = PlacedEvidence("c", placed.place, "", placed.finding)
    epoch = placed.finding.evidence.get("leader_epoch")
    assert (("led", "c", "p", 1, epoch) in links(evidence, key_of(evidence))) is (epoch is not None)
    return placed.finding


@pytest.mark.parametrize(
    ("elected", "is_unclean", "predecessor", "is_cause"),
    [(20, True, 1, True), (19, True, 1, False), (40, False, 1, False), (40, True, 2, False), (40, True, -1, False)],
    ids=["after", "before", "clean", "same broker", "unknown"],
)
def test_an_unclean_election_took_the_marker(
    *, elected: int, is_unclean: bool, predecessor: int, is_cause: bool, tmp_path: Path
) -> None:
    """One before the decision, a clean one, or one of the last leader cannot have cut off a marker."""
    finding = _with_elections(tmp_path, Election(5, 2, NOW + elected, (1,), is_unclean, predecessor))
    sentence = "The unclean election of broker 2 at 2023-11-14 22:13:20 UTC (epoch 5, in sync: 1) cut off the marker"
    assert (sentence in finding.message) is is_cause
    assert ("log truncated after an unclean election: likely" in finding.benign) is is_cause
    assert finding.evidence.get("leader_epoch") == (5 if is_cause else None)
    assert finding.evidence.get("elected_at") == (NOW + 20 if is_cause else None)


@pytest.mark.parametrize(
    ("lost", "decision", "log", "severity"),
    [
        (True, "Abort", "plain @0-0", Severity.WARNING),
        (True, "Commit", "plain @0-0", Severity.CRITICAL),
        (True, "Abort", "D 1 0 0-0 @0 T", Severity.CRITICAL),
        (False, "Abort", "plain @0-0", Severity.CRITICAL),
    ],
    ids=["nothing left to abort", "committed elsewhere", "open", "nothing explains it"],
)
def test_the_loss_of_an_abort_that_has_no_effect_is_a_warning(
    *, lost: bool, decision: str, log: str, severity: Severity, tmp_path: Path
) -> None:
    """Seen after unclean elections of 4.3.1: transactions that were to be aborted were lost whole."""
    elections = [Election(5, 2, NOW + 20, (1,), is_unclean=True, predecessor=1)] if lost else []
    assert _with_elections(tmp_path, *elections, state=decision, log=log).severity is severity


@pytest.mark.parametrize(("leader", "is_cut_off"), [(2, True), (1, False)], ids=["another broker", "the same broker"])
def test_an_unclean_election_after_a_time_without_a_leader_took_the_marker(
    *, leader: int, is_cut_off: bool, tmp_path: Path
) -> None:
    """The transaction of a cluster of 4.3.1 was completed four seconds before its partition lost its leader."""
    lost = Election(4, -1, NOW + 4_030, (1,), is_unclean=False, predecessor=1)
    elected = Election(5, leader, NOW + 5_030, (1,), is_unclean=True, predecessor=1)
    finding = _with_elections(tmp_path, lost, elected)
    assert ("cut off the marker" in finding.message) is is_cut_off
    assert ("if clocks differ" in finding.message) is not is_cut_off


@pytest.mark.parametrize(
    ("lost", "elected", "period", "likelihood"),
    [
        (-60_000, 1_000, "from 2023-11-14 22:12:20 UTC to 2023-11-14 22:13:21 UTC", "likely"),
        (5_030, 9_000, "from 2023-11-14 22:13:25 UTC to 2023-11-14 22:13:29 UTC", "possible"),
        (-60_000, -4_970, "from 2023-11-14 22:12:20 UTC to 2023-11-14 22:13:15 UTC", "possible"),
        (-60_000, None, "since 2023-11-14 22:12:20 UTC", "likely"),
        (5_031, 9_000, None, ""),
        (-60_000, -4_971, None, ""),
    ],
    ids=["no leader", "almost", "shortly before", "none since", "later", "before"],
)
def test_the_coordinator_skipped_a_partition_without_a_leader(
    lost: int, elected: int | None, period: str | None, likelihood: str, tmp_path: Path
) -> None:
    """Seen at a broker of 4.4.0 that had been killed: "these partitions are likely deleted already". Clocks differ.

    One of 3.9.1 that got an older image of its disk had a leader at that time, and shortly before and after it had not.
    """
    elections = [Election(1, -1, NOW + lost, (1,), is_unclean=False, predecessor=1)]
    elections += [Election(2, 1, NOW + elected, (), is_unclean=True, predecessor=1)] if elected is not None else []
    finding = _with_elections(tmp_path, *elections)
    begins = f"p-1 had no leader {period}, so it got no marker of" if likelihood == "likely" else "p-1 has no marker of"
    assert finding.message.startswith(f"{begins} the transaction of 'a' (producer 1, epoch 0")
    assert (f"It had no leader {period}, which may have been" in finding.message) is (likelihood == "possible")
    benign = "; ".join(finding.benign)
    assert (f"no leader when the transaction was completed: {likelihood}, " in benign) is (period is not None)
    assert finding.evidence.get("leaderless_from") == (None if period is None else NOW + lost)


@pytest.mark.parametrize(
    ("elected", "read", "lost"),
    [(3_000, 4, True), (3_000, 1, False), (19, 4, False), (3_000, None, False)],
    ids=["a group had read more", "no more than is there", "elected before", "no group"],
)
@pytest.mark.parametrize("leaderless", [(-60_000, -4_000), (2_000, 3_000)], ids=["before", "at the restart"])
def test_the_marker_was_lost_with_a_disk(
    *, elected: int, read: int | None, lost: bool, leaderless: tuple[int, int], tmp_path: Path
) -> None:
    """A broker of 4.4.0 got an older image of its disk, so it is its own predecessor; it had a leader at that time."""
    forge_coordinator(tmp_path, "a Empty 1 0 t 0" + decided(0, 0))
    forge_data(tmp_path, everything(0))
    forge(tmp_path, "plain @0-0; plain @1", topic="p", partition=1, leader_epochs={0: 0, 1: 3})
    if read is not None:
        forge_offsets(tmp_path, f"plain @0 {at(40)}", {0: ("g", "p-1", read)}, partition=1)
    cluster = cluster_under(tmp_path, as_of_ms=SOON + HOUR)
    (replica,) = (markers for markers in cluster.marker_join.by_partition.values() if markers.name == ("p", 1))
    elections = (
        Election(1, -1, NOW + leaderless[0], (1,), is_unclean=False, predecessor=1),
        Election(2, 1, NOW + leaderless[1], (1,), is_unclean=False, predecessor=1),
        Election(3, 1, NOW + elected, (), is_unclean=True, predecessor=1),
    )
    placed_findings = found_in(cluster.with_elections({(replica.topic_id or "", 1): elections}, [replica]))
    (placed,) = (each for each in placed_findings if each.finding.code.name == "atomicity-marker-missing")
    assert ("so the marker was probably lost with them" in placed.finding.message) is lost
    assert ("had no leader from" in placed.finding.message) is not lost
    assert placed.finding.evidence.get("leader_epoch") == (3 if lost else None)
    assert ("records lost in an unclean election: likely" in placed.finding.benign) is lost
    assert str(placed.finding.severity) == "critical"


def test_one_of_many_markers_of_the_same_epoch_is_missing(tmp_path: Path) -> None:
    """Before version 2 the times show which one."""
    times = range(10, 10_010, 1000)
    states = ["Commit" if number % 3 else "Abort" for number in range(10)]
    log = "".join(decided(0, 0, state=state, time=time) for state, time in zip(states, times, strict=True))
    forge_coordinator(tmp_path, f"a Empty 1 0 t 0{log}")
    logs: dict[str, str] = {}
    for name in ("p-0", "p-1", f"{OFFSETS}-0"):
        batches, offset = [], 0
        for number, (state, time) in enumerate(zip(states, times, strict=True)):
            if (name, number) != ("p-1", 4):
                batches.append(f"M 1 0 {state[0]} 0 @{offset} {at(time + 15)}")
                offset += 1
        logs[name] = "; ".join(batches)
    forge_data(tmp_path, logs)
    ((place, finding),) = found_in(cluster_under(tmp_path))
    assert (place.partition, finding.code.name, str(finding.severity)) == (1, "atomicity-marker-missing", "warning")
    assert finding.evidence["completed_ms"] == NOW + times[4] + 20
    assert finding.exactness is Exactness.APPROXIMATE


@PROTOCOLS
@pytest.mark.parametrize(("wrong", "outcome"), [(f"{OFFSETS}-0", "aborted"), ("p-0", "committed")])
def test_offsets_on_the_other_side(version: int, marker: int, wrong: str, outcome: str, tmp_path: Path) -> None:
    forge_coordinator(tmp_path, "a Empty 1 0 t 0" + decided(0, marker, version=version))
    forge_data(tmp_path, everything(marker) | {wrong: data(marker, "A")})
    findings = {placed.finding.code.name: placed for placed in found_in(cluster_under(tmp_path))}
    assert findings.keys() == {"atomicity-split-outcome", "eos-offset-outcome-mismatch"}
    place, finding = findings["eos-offset-outcome-mismatch"]
    assert (place.topic, str(finding.severity), finding.cause) == (OFFSETS, "critical", "atomicity-split-outcome")
    assert f"were {outcome}" in finding.message


@pytest.mark.parametrize("coordinator", [True, False])
def test_markers_that_contradict_one_another_without_a_coordinator(coordinator: bool, tmp_path: Path) -> None:
    """If two markers agree and one does not, the one is reported."""
    if coordinator:
        forge_coordinator(tmp_path, "z Empty 99 0 t 0")
    forge_data(tmp_path, everything(1) | {"p-1": data(1, "A")})
    ((place, finding),) = found_in(cluster_under(tmp_path))
    assert (finding.code.name, finding.exactness) == ("atomicity-split-outcome", Exactness.APPROXIMATE)
    assert (place.topic, place.partition, finding.first_offset) == ("p", 1, 1)
    assert finding.evidence == {"others": 2, "appended_ms": 1_700_000_000_025}


def test_without_a_coordinator_an_epoch_that_stays_shows_nothing(tmp_path: Path) -> None:
    """Nor does an abort by an operator."""
    forge_data(tmp_path, everything(0) | {"p-1": data(0, "A")})
    assert codes_in(cluster_under(tmp_path)) == {}
    forge_data(tmp_path, everything(1) | {"p-1": data(1, "A", epoch=1)})
    assert codes_in(cluster_under(tmp_path)) == {}


@pytest.mark.parametrize("order", ["CA", "AC"])
def test_a_marker_against_the_decision_next_to_the_right_one(order: str, tmp_path: Path) -> None:
    """The first marker decides what consumers see, but a coordinator never sends both."""
    forge_coordinator(tmp_path, "a Empty 1 0 t 0" + decided(0, 1, version=2))
    both = f"D 1 0 0-0 @0-0 T {at(11)}; M 1 1 {order[0]} 0 @1 {at(25)}; M 1 1 {order[1]} 0 @2 {at(26)}"
    forge_data(tmp_path, everything(1) | {"p-1": both})
    findings = {placed.finding.code.name: placed.finding.first_offset for placed in found_in(cluster_under(tmp_path))}
    assert findings == {"atomicity-split-outcome": 1 + order.index("A"), "eos-offset-outcome-mismatch": 1}


def test_a_transaction_of_the_last_epoch_of_all(tmp_path: Path) -> None:
    """Its marker has the epoch of its data, as an operator's would."""
    log = (
        "a Ongoing 1 32767 tv 2 {t-0} t 10; a PrepareAbort 1 32767 tv 2 next 9 {t-0} t 20; "
        "a CompleteAbort 9 0 tv 2 prev 1 t 30"
    )
    forge_coordinator(tmp_path, {5: log})
    forge(tmp_path, f"D 1 32767 0-0 @0-0 T {at(11)}; M 1 32767 A 0 @1 {at(25)}")
    cluster = cluster_under(tmp_path)
    assert codes_in(cluster) == {}
    assert cluster.marker_join.roles.tolist() == [MarkerRole.SENT]


def test_a_marker_of_a_transaction_that_the_cleaner_took(tmp_path: Path) -> None:
    """It is not assigned to the only transaction of its epoch that is left."""
    rest = "a PrepareCommit 1 0 {t-0} t 10000; a CompleteCommit 1 0 t 20000"
    forge_coordinator(tmp_path, {0: "a Ongoing 1 0 {t-0} @9 t 10", 20: rest}, first_dirty=20)
    forge(tmp_path, f"M 1 0 A 0 @0 {at(5)}")
    ((_, finding),) = found_in(cluster_under(tmp_path, as_of_ms=SOON + HOUR))
    assert (finding.code.name, str(finding.severity)) == ("atomicity-marker-missing", "critical")
    assert finding.exactness is Exactness.APPROXIMATE
    assert finding.exactness is Exactness.APPROXIMATE


@pytest.mark.parametrize(
    ("version", "spoil", "verdict"),
    [
        (2, False, (MarkerStatus.MISSING, "atomicity-marker-missing")),
        (0, False, (MarkerStatus.NOT_COVERED, "atomicity-unverifiable")),
        (2, True, (MarkerStatus.NOT_COVERED, "atomicity-unverifiable")),
    ],
    ids=["TV2", "TV1", "marker that cannot be read"],
)
def test_data_that_outlived_its_marker(
    version: int, spoil: bool, verdict: tuple[MarkerStatus, str], tmp_path: Path
) -> None:
    """Offset gaps prove nothing in a compacted topic, but no cleaner removes a marker before its data."""
    marker = int(version == 2)
    forge_coordinator(tmp_path, "a Empty 1 0 t 0" + decided(0, marker, version=version))
    forge_data(tmp_path, everything(marker) | {f"{OFFSETS}-0": data(marker) + "; plain @2-2; plain @3-3"})
    log = file_of(tmp_path / f"{OFFSETS}-0")
    if spoil:
        content, batch = log.read_bytes(), batch_at(log, 1)
        log.write_bytes(content[: batch.position] + bytes(batch.size) + content[batch.position + batch.size :])
    else:
        drop(log, 1)
    cluster = cluster_under(tmp_path, as_of_ms=SOON + HOUR)
    (part,) = (
        part for part in cluster.marker_join.transaction_partitions if cluster.name(part["partition"]) == f"{OFFSETS}-0"
    )
    assert part["marker_status"] == verdict[0]
    assert verdict[1] in codes_in(cluster)


def test_data_that_the_cleaner_took_with_its_marker(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, "a Empty 1 0 t 0" + decided(0, 1, version=2))
    forge_data(tmp_path, everything(1) | {f"{OFFSETS}-0": "plain @2-2"})
    assert codes_in(cluster_under(tmp_path, as_of_ms=SOON + HOUR)) == {"atomicity-unverifiable": "info"}


def test_data_of_an_earlier_transaction_of_the_same_epoch(tmp_path: Path) -> None:
    """A new client of version 2 fenced one of version 1, whose transactions all had the same epoch.

    The cleaner has removed the last of them with its marker; data of an earlier one is still there.
    """
    forge_coordinator(tmp_path, "a Empty 1 0 t 0" + decided(0, 0) + decided(0, 1, version=2, state="Abort", time=1_000))
    both = f"{data(0)}; D 1 0 1-1 @2-2 T {at(1_001)}; M 1 1 A 0 @3 {at(1_015)}"
    forge_data(tmp_path, {"p-0": both, "p-1": both, f"{OFFSETS}-0": f"{data(0)}; plain @4-4"})
    assert codes_in(cluster_under(tmp_path, as_of_ms=SOON + HOUR)) == {"atomicity-unverifiable": "info"}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_marker_that_no_coordinator_sent_ended_one_half(version: int) -> None:
    """A real broker took it before the coordinator's own, which ended nothing more in that partition."""
    sample = f"forged-markers-v{version}"
    cluster = cluster_under(SAMPLES / sample, as_of_ms=taken(sample) + MINUTE)
    split = {
        one.place[2:]: one.finding for one in found_in(cluster) if one.finding.code.name == "atomicity-split-outcome"
    }
    assert {place: finding.evidence["decided"] for place, finding in split.items()} == {
        ("aborted", 0): "CompleteCommit",
        ("committed", 0): "CompleteAbort",
    }
    assert {(str(one.severity), one.exactness) for one in split.values()} == {("critical", Exactness.EXACT)}
    assert [one.first_offset for one in split.values()] == [8, 8]
    assert split["aborted", 0].message.endswith("The data at offsets 6 to 7 is lost to read_committed consumers.")
    assert "The data at offsets 6 to 7 is visible to read_committed consumers" in split["committed", 0].message
    rows = transactions_of(cluster)
    assert sorted(one["transactional_id"] for one in rows if one["atomic"] == "no") == ["aborted-app", "committed-app"]
    assert {one["atomic"] for one in rows if one["state"] != "Ongoing"} == {"yes", "no"}


FIRST = "a Empty 1 0 t 0; a Ongoing 1 0 {p-0} t 10; a PrepareCommit 1 0 {p-0} t 20; a CompleteCommit 1 0 t 30"
SECOND = "; a Ongoing 1 0 {p-0} t 20000; a PrepareCommit 1 0 {p-0} t 30000; a CompleteCommit 1 0 t 30010"


@pytest.mark.parametrize(
    ("written", "aborted", "is_split"),
    [(10_000, 15_000, False), (19_000, 19_999, False), (19_999, 25_000, True), (20_001, 25_000, True)],
)
@pytest.mark.parametrize("more", [True, False])
def test_a_late_write_that_an_operator_aborted_is_not_half_of_the_next_transaction(
    written: int, aborted: int, is_split: bool, more: bool, tmp_path: Path
) -> None:
    """Just before the start, data is of the transaction if the one before was over long ago."""
    forge_coordinator(tmp_path, FIRST + SECOND)
    early = f"D 1 0 0-0 @0-0 T; M 1 0 C 0 @1 {at(25)}; D 1 0 1-1 @2-2 T {at(written)}; M 1 0 A 0 @3 {at(aborted)}"
    rest = f"; D 1 0 2-2 @4-4 T {at(26_000)}; M 1 0 C 0 @5 {at(30_005)}" if more else f"; M 1 0 C 0 @4 {at(30_005)}"
    forge(tmp_path, early + rest, topic="p")
    codes = codes_in(cluster_under(tmp_path))
    assert ("atomicity-split-outcome" in codes) is is_split
    assert codes["marker-admin-abort"] == "info"


@pytest.mark.parametrize(
    ("end", "has_more", "is_split"), [(14_998, True, True), (14_999, True, False), (14_999, False, True)]
)
def test_data_from_just_before_the_start_that_an_operator_aborted(
    end: int, has_more: bool, is_split: bool, tmp_path: Path
) -> None:
    """Seen on 3.4.1, whose client created a record 8 ms before the coordinator had begun the transaction.

    It may be a late write of the transaction before if that was decided just before, unless there is no other data.
    """
    forge_living(tmp_path, {1: end}, has_more=has_more)
    codes = codes_in(cluster_under(tmp_path))
    assert codes.get("atomicity-split-outcome") == ("critical" if is_split else None)
    assert codes["marker-admin-abort"] == "info"


def test_the_transaction_before_may_be_in_records_that_the_cleaner_took(tmp_path: Path) -> None:
    forge_living(tmp_path, {1: 20})
    assert "atomicity-split-outcome" in codes_in(cluster_under(tmp_path))
    shutil.rmtree(tmp_path / "__transaction_state-0")
    forge_coordinator(tmp_path, {5: f"{SECOND[2:]}; z Empty 99 0 t 50000"}, first_dirty=5)
    assert "atomicity-split-outcome" not in codes_in(cluster_under(tmp_path))


@pytest.mark.parametrize(
    ("lost", "until", "is_elected", "epochs", "is_complete", "is_missing"),
    [
        (57_000, 200_000, True, {0: 0, 1: 2}, True, True),
        (50_000, 200_000, True, {0: 0}, True, True),
        (50_000, 65_020, False, {0: 0}, True, True),
        (50_000, 65_019, False, {0: 0}, True, False),
        (57_000, 200_000, True, {0: 0}, True, False),
        (50_000, 62_000, True, {0: 0, 1: 2}, True, False),
        (61_000, 200_000, True, {0: 0, 1: 2}, True, False),
        (50_000, 200_000, True, {0: 0, 1: 2}, False, False),
    ],
    ids=[
        "copied later",
        "no leader",
        "none since",
        "none seen since",
        "just lost",
        "soon elected",
        "lost later",
        "pending",
    ],
)
def test_a_marker_that_no_leader_can_have_written_is_missing_however_early_the_partition_was_copied(
    *,
    lost: int,
    until: int,
    is_elected: bool,
    epochs: dict[int, int],
    is_complete: bool,
    is_missing: bool,
    tmp_path: Path,
) -> None:
    """Seen on 4.3.1: the files of a killed broker were older than the transaction, also after its restart.

    On 3.9.1 the coordinator waited, and the new leader got the marker.
    """
    transaction = decided(0, 0, time=60_000)
    if not is_complete:
        transaction = transaction.rpartition(";")[0]
    forge_coordinator(tmp_path / "broker-1", "a Empty 1 0 t 0" + transaction, clean_shutdown=False)
    options: dict[str, Any] = {"node_id": 3, "leader_epochs": epochs, "clean_shutdown": False}
    log = f"D 1 0 0-0 @0-0 T {at(50_000)}"
    key = topic_id_of(forge(tmp_path / "broker-3", log, topic="p", partition=1, **options)), 1
    keep_times(tmp_path / "broker-3", NOW + 50_000, NOW + 50_000)
    time = Leaderless(NOW + lost, NOW + until, 2 if is_elected else None)
    known = cluster_under(tmp_path, as_of_ms=SOON + HOUR, leaderless={key: (time,)})
    found = {(one.finding.code.name, one.finding.severity) for one in found_in(known) if one.place.topic == "p"}
    assert (("atomicity-marker-missing", Severity.CRITICAL) in found) is is_missing
    unknown = [one.finding for one in found_in(known) if one.finding.code.name == "atomicity-unverifiable"]
    assert ("p-1" in {one.evidence["partition"] for one in unknown}) is (is_complete and not is_missing)
    (row,) = transactions_of(known)
    assert (row["atomic"] == "no") is is_missing
