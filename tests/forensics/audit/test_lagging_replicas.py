"""Replicas that are out of sync while their broker is at work: what they lack, their leader may have."""

from __future__ import annotations

import json
import shutil
from datetime import datetime
from os import utime
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.forensics.metadata.cluster_settings import cluster_facts_in
from tests.command import run
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import at, forge_coordinator, forge_offsets
from tests.forensics.forge import file_of, forge, keep_times, patch
from tests.forensics.partition_states import SAMPLES, partitions_under

REPLICATION = SAMPLES / "replication"
METADATA = REPLICATION / "broker-1" / "__cluster_metadata-0"
# A topic of that cluster. Broker 2 was killed, and from this time on it was not in the ISR of partition 0. Broker 1 is
# never out of sync: it has no replica.
TOPIC_ID, SINCE = "EJC5W0aMQOq8f7Z7wwYGmw", 1_795_262_959_511
# Its coordinators' topic.
COORDINATOR_ID = "LPA4pcdLSrOnCUvBlNmQpg"
# A topic that broker 2 had fallen out of sync of, too.
OTHER_ID = "8QQXHJoCTx2uyZFBCDl29A"
SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000
NOW_MS = SINCE + 2 * HOUR
START = SINCE - NOW
BEFORE, AFTER = START - HOUR, START + HOUR
DONE = f"D 7 0 0-0 @0-0 T {at(BEFORE - 9000)}; M 7 0 C 0 @1 {at(BEFORE - 8000)}"
OPEN = f"{DONE}; D 7 0 1-1 @2-2 T {at(BEFORE)}; plain @3-3"
FIRST = f"a Ongoing 7 0 {{t-0}} t {BEFORE - 9100}; a PrepareCommit 7 0 {{t-0}} t {BEFORE - 8100}; "
FIRST += f"a CompleteCommit 7 0 t {BEFORE - 7900}"


def transaction(partition: str, time: int) -> str:
    """Return what a coordinator writes about a transaction of one partition."""
    listed = f"7 0 {{{partition}}} t"
    return f"; a Ongoing {listed} {time}; a PrepareCommit {listed} {time + 100}; a CompleteCommit 7 0 t {time + 200}"


# Of the partition, and later of another one.
ENDED_SINCE = FIRST + transaction("t-0", BEFORE + MINUTE) + transaction("u-0", AFTER)


def broker(
    folder: Path, node_id: int, log: str | dict[int, str], coordinator: str, *, stopped_ms: int | None = None
) -> Path:
    """Write the log directory of a broker with the metadata log; return the partition.

    Its files have just been written, unless the broker was stopped at some time.
    """
    is_stopped, written_ms = stopped_ms is not None, SINCE if stopped_ms else NOW_MS
    metadata = {"t-0/partition.metadata": f"version: 0\ntopic_id: {TOPIC_ID}".encode()}
    forge_coordinator(folder, coordinator, node_id=node_id, clean_shutdown=is_stopped)
    partition = forge(folder, log, node_id=node_id, clean_shutdown=is_stopped, replaced=metadata)
    shutil.copytree(METADATA, folder / METADATA.name)
    keep_times(folder, written_ms, stopped_ms or NOW_MS)
    for file in folder.glob("__*/0*"):  # they have later records, whatever broker wrote them
        utime(file, ns=((SINCE + HOUR + SECOND) * 1_000_000,) * 2)
    return partition


def give_topic_id(folder: Path, topic_id: str, partition: str = "__transaction_state-0") -> None:
    """Write the topic id of a partition, by default of the coordinators, long before the broker stopped."""
    (folder / partition / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    keep_times(folder, SINCE, SINCE + 20 * SECOND)


def findings_in(path: Path, as_of_ms: int = NOW_MS) -> dict[str, Any]:
    rows = kforensics.audit(str(path), as_of=as_of_ms).findings.to_pylist()
    return {row["code"]: row for row in rows if row["topic"] == "t"}


def test_replicas_out_of_sync_are_those_that_the_live_brokers_named() -> None:
    """All brokers were stopped after they had been asked, which takes them out of sync, too.

    While no replica is in sync, the last leader lacks nothing.
    """
    (metadata,) = (one for one in partitions_under(METADATA.parent) if one.name == METADATA.name)
    known = cluster_facts_in(metadata).topics.out_of_sync
    truth = json.loads((REPLICATION / "truth.json").read_text())
    asked = datetime.fromisoformat(truth["taken"]).timestamp() * SECOND
    places = [(int(number), place) for one in truth["topics"].values() for number, place in one.items()]
    assert any(place["isr"] != place["replicas"] for _, place in places)
    for number, place in places:
        late = {broker for broker, since in known.get((place["topic_id"], number), {}).items() if since < asked}
        not_in_sync = {*place["replicas"]} - {*place["isr"]}
        assert late <= not_in_sync or not place["isr"]
        assert len(not_in_sync - late) == (not place["isr"])


@pytest.mark.parametrize(("node_id", "worst"), [(1, "critical"), (2, "warning")])
def test_an_old_transaction_hangs_only_in_a_replica_in_sync(tmp_path: Path, node_id: int, worst: str) -> None:
    """Seen on 4.1.0 while a throttled reassignment filled a replica: its coordinator had ended it long since."""
    broker(tmp_path, node_id, OPEN, ENDED_SINCE)
    found = findings_in(tmp_path)
    assert found["lso-stuck"]["severity"] == worst
    assert ("txn-hanging" in found) == (node_id == 1)
    assert ("Ask the leader" in found["lso-stuck"]["remedy"]) == (node_id == 2)


@pytest.mark.parametrize(("node_id", "is_missing"), [(1, True), (2, False)])
def test_a_marker_is_missing_only_in_a_replica_in_sync(tmp_path: Path, node_id: int, *, is_missing: bool) -> None:
    broker(tmp_path, node_id, DONE, ENDED_SINCE)
    assert ("atomicity-marker-missing" in findings_in(tmp_path)) is is_missing


@pytest.mark.parametrize(("stopped_ms", "is_missing"), [(SINCE + 20 * SECOND, True), (SINCE + HOUR, False)])
def test_a_broker_that_fell_out_of_sync_because_it_was_stopped(
    tmp_path: Path, stopped_ms: int, *, is_missing: bool
) -> None:
    """Its replicas lack nothing that was there then; one that had lagged for an hour when it was stopped may."""
    log = f"{DONE}; D 8 0 0-0 @2-2 {at(START - MINUTE)}"
    broker(tmp_path, 2, log, ENDED_SINCE, stopped_ms=stopped_ms)
    assert ("atomicity-marker-missing" in findings_in(tmp_path)) is is_missing


def broker_that_left(folder: Path, log: str, later: str) -> Path:
    """Write broker 2, which was shut down when it fell out of sync, and broker 3, whose coordinator went on.

    Args:
        folder: where to write them.
        log: the log of the partition on broker 2.
        later: what only the coordinator on broker 3 has.
    """
    partition = broker(folder / "broker-2", 2, log, FIRST, stopped_ms=SINCE + 20 * SECOND)
    forge_coordinator(folder / "broker-3", FIRST + later, node_id=3, clean_shutdown=False)
    shutil.copytree(METADATA, folder / "broker-3" / METADATA.name)
    keep_times(folder / "broker-3", NOW_MS, NOW_MS)
    return partition


@pytest.mark.parametrize(("decided", "is_missing"), [(BEFORE + MINUTE, True), (START + 2 * SECOND, False)])
def test_a_coordinator_that_went_on_says_nothing_of_a_replica_that_left(
    tmp_path: Path, decided: int, *, is_missing: bool
) -> None:
    """Its leader may have the markers of what was decided after the shutdown, and all replicas those from before."""
    broker_that_left(tmp_path, DONE, transaction("t-0", decided))
    assert ("atomicity-marker-missing" in findings_in(tmp_path)) is is_missing


@pytest.mark.parametrize("began", [BEFORE, START - MINUTE])
def test_what_was_open_when_a_broker_was_shut_down_may_have_ended_since(tmp_path: Path, began: int) -> None:
    """It was not stuck then if it was young; if it was old, its leader may have its marker."""
    log = f"{DONE}; D 7 0 1-1 @2-2 T {at(began)}; plain @3-3"
    partition = broker_that_left(tmp_path, log, transaction("t-0", START + 2 * SECOND))
    found = findings_in(tmp_path)
    assert ("lso-stuck" in found) == (began == BEFORE)
    assert {row["severity"] for row in found.values()} <= {"warning", "info"}
    text = " ".join(run("lso", partition, "--as-of", str(NOW_MS)).text.split())
    assert "this replica has been out of sync since 2026-11-21 12:09:19 UTC: its leader may have the marker" in text
    assert "critical" not in text


def test_what_hung_when_a_broker_was_shut_down_hangs_if_its_coordinator_never_came_back(tmp_path: Path) -> None:
    """Its own coordinator had all that was decided until then. Since then only an operator can have ended it."""
    log = f"{DONE}; D 7 0 1-1 @2-2 T {at(START - MINUTE)}; plain @3-3"
    broker(tmp_path, 2, log, FIRST + transaction("u-0", START - SECOND), stopped_ms=SINCE + 20 * SECOND)
    assert findings_in(tmp_path)["txn-hanging"]["severity"] == "critical"
    text = " ".join(run("lso", tmp_path, "--as-of", str(NOW_MS)).text.split())
    assert "its leader may have the marker of an abort by an operator: look there first" in text


@pytest.mark.parametrize("later_ms", [MINUTE, 2 * HOUR, 24 * HOUR])
@pytest.mark.parametrize("producer_id", [7, 99])
def test_what_was_certain_at_a_shutdown_is_certain_however_late_one_looks(
    tmp_path: Path, producer_id: int, later_ms: int
) -> None:
    """No coordinator knows producer 99."""
    log = f"{DONE}; D {producer_id} 0 {'1-1' if producer_id == 7 else '0-0'} @2-2 T {at(START - 10 * HOUR)}"
    broker(tmp_path, 2, f"{log}; plain @3-3 {at(BEFORE)}", FIRST, stopped_ms=SINCE + 20 * SECOND)
    give_topic_id(tmp_path, COORDINATOR_ID)
    found = findings_in(tmp_path, as_of_ms=SINCE + later_ms)
    hanging = "txn-hanging" if producer_id == 7 else "txn-hanging-unknown-id"
    assert (found[hanging]["severity"], found["lso-stuck"]["severity"]) == ("critical", "critical")


def test_a_coordinator_in_another_log_directory_of_the_broker_was_shut_down_with_it(tmp_path: Path) -> None:
    log = f"{DONE}; D 7 0 1-1 @2-2 T {at(START - MINUTE)}; plain @3-3"
    broker(tmp_path / "disk-1", 2, log, FIRST + transaction("u-0", START - SECOND), stopped_ms=SINCE + 20 * SECOND)
    forge_coordinator(tmp_path / "disk-2", FIRST + transaction("u-0", START - SECOND), node_id=2, clean_shutdown=True)
    shutil.rmtree(tmp_path / "disk-1" / "__transaction_state-0")
    keep_times(tmp_path / "disk-2", SINCE, SINCE + 20 * SECOND)
    assert findings_in(tmp_path)["txn-hanging"]["severity"] == "critical"


@pytest.mark.parametrize("asked", ["", "broker-3"])
def test_a_replica_in_sync_counts_before_one_that_left_with_more_of_the_past(tmp_path: Path, asked: str) -> None:
    """Retention has deleted a segment of the replica in sync since."""
    earlier, last = (
        f"{DONE}; plain @2-4",
        f"D 8 0 0-0 @5-5 T {at(START - MINUTE)}; M 8 0 C 0 @6 {at(START - 59 * SECOND)}",
    )
    left: dict[int, str] = {0: earlier, 5: last}
    kept: dict[int, str] = {5: f"gone {earlier}; {last}"}
    broker(tmp_path / "broker-2", 2, left, FIRST, stopped_ms=SINCE + 20 * SECOND)
    later = transaction("t-0", START + HOUR).replace("; a ", "; b ").replace(" 7 0", " 20 0")
    broker(tmp_path / "broker-3", 3, kept, FIRST + later, stopped_ms=NOW_MS)
    assert findings_in(tmp_path / asked)["atomicity-marker-missing"]["severity"] == "critical"


def test_damage_of_the_longer_replica_does_not_hide_a_transaction_that_hangs_in_another(tmp_path: Path) -> None:
    log = f"{DONE}; D 7 0 1-1 @2-2 T {at(BEFORE)}; plain @3-3 {at(BEFORE + 1)}"
    coordinator = FIRST + transaction("u-0", AFTER)
    damaged = broker(tmp_path / "broker-1", 1, f"{log}; plain @4-4 {at(BEFORE + 2)}", coordinator, stopped_ms=NOW_MS)
    patch(file_of(damaged, 0, "log"), 3, crc=1)
    broker(tmp_path / "broker-3", 3, log, coordinator, stopped_ms=NOW_MS)
    for folder in tmp_path.iterdir():
        keep_times(folder, SINCE, NOW_MS - MINUTE)
    rows = kforensics.audit(str(tmp_path), as_of=NOW_MS).findings.to_pylist()
    hanging = [(row["broker_id"], row["severity"]) for row in rows if row["code"] == "txn-hanging"]
    assert hanging == [(3, "critical")]


def test_an_offset_beyond_a_log_that_was_shut_down_with_the_commits(tmp_path: Path) -> None:
    """It was beyond the log end already; what the leaders have since explains nothing."""
    broker(tmp_path, 2, f"{DONE}; plain @2-9 {at(BEFORE)}", FIRST, stopped_ms=SINCE + 20 * SECOND)
    give_topic_id(tmp_path, OTHER_ID, "t-0")
    metadata = {"__consumer_offsets-0/partition.metadata": f"version: 0\ntopic_id: {TOPIC_ID}".encode()}
    log = f"plain @0-0 {at(BEFORE)}"
    forge_offsets(tmp_path, log, {0: ("g", "t-0", 11)}, node_id=2, clean_shutdown=True, replaced=metadata)
    keep_times(tmp_path, SINCE, SINCE + 20 * SECOND)
    rows = kforensics.audit(str(tmp_path), as_of=NOW_MS).findings.to_pylist()
    (beyond,) = (row for row in rows if row["code"] == "eos-offset-beyond-log")
    assert beyond["severity"] == "error"
    assert "its log was truncated" in run("groups", "--group", "g", "--as-of", str(NOW_MS), tmp_path).text


def test_a_coordinator_whose_broker_left_does_not_show_that_a_transaction_is_overdue(tmp_path: Path) -> None:
    ongoing = f"; a Ongoing 7 0 timeout 60000 {{t-0}} t {START - MINUTE}"
    codes = {"txnlog-ongoing-overdue", "txnlog-prepare-stuck"}
    for topic_id, is_overdue in ((COORDINATOR_ID, False), (None, True)):
        folder = tmp_path / str(topic_id)
        broker(folder, 2, DONE, FIRST + ongoing, stopped_ms=SINCE + 20 * SECOND)
        if topic_id:
            give_topic_id(folder, topic_id)
        rows = kforensics.audit(str(folder), as_of=NOW_MS).findings.to_pylist()
        assert bool(codes & {row["code"] for row in rows}) is is_overdue


def test_lso_says_that_the_leader_may_have_the_marker(tmp_path: Path) -> None:
    partition = broker(tmp_path, 2, OPEN, ENDED_SINCE)
    text = " ".join(run("lso", partition).text.split())
    assert "this replica has been out of sync since 2026-11-21 12:09:19 UTC: its leader may have the marker" in text
    assert "critical" not in text


@pytest.mark.parametrize(
    ("command", "lacking"),
    [
        (("transactions",), "the marker"),
        (("explain", "--producer-id", "7"), "the marker"),
        (("explain", "--offset", "2"), "the marker"),
        (("explain", "--offset", "3"), "the marker"),
        (("explain", "--offset", "9"), "this offset"),
        (("explain", "--offset", "1:"), "more"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("node_id", [1, 2])
def test_what_a_lagging_replica_shows_is_not_all(
    tmp_path: Path, node_id: int, command: tuple[str, ...], lacking: str
) -> None:
    """A replica that does not lag, and an offset that is decided, have no such line."""
    partition = broker(tmp_path, node_id, OPEN, ENDED_SINCE)
    expected = f"  this replica has been out of sync since 2026-11-21 12:09:19 UTC: its leader may have {lacking}\n"
    assert (expected in run(*command, partition).text) == (node_id == 2)
    assert "out of sync" not in run("explain", "--offset", "0", partition).text


@pytest.mark.parametrize("node_id", [1, 2])
def test_groups_say_that_the_leader_may_have_later_offsets(tmp_path: Path, node_id: int) -> None:
    """An offset beyond the log end may then be one that the group has replaced."""
    broker(tmp_path, node_id, DONE, FIRST)
    give_topic_id(tmp_path, OTHER_ID, "t-0")
    metadata = {"__consumer_offsets-0/partition.metadata": f"version: 0\ntopic_id: {TOPIC_ID}".encode()}
    log = f"plain @0-0 {at(BEFORE)}"
    forge_offsets(tmp_path, log, {0: ("g", "t-0", 9)}, node_id=node_id, clean_shutdown=False, replaced=metadata)
    keep_times(tmp_path, NOW_MS, NOW_MS)
    as_of = ("--as-of", str(NOW_MS))
    listed, shown = run("groups", *as_of, tmp_path).text, run("groups", *as_of, "--group", "g", tmp_path).text
    lags = node_id == 2
    assert ("\n  out of sync: 1 of these partitions, whose leaders may have later offsets\n" in listed) is lags
    assert (
        "\n  this replica has been out of sync since 2026-11-21 12:09:19 UTC: its leader may have later" in shown
    ) is lags
    rows = kforensics.audit(str(tmp_path), as_of=NOW_MS).findings.to_pylist()
    (beyond,) = (row for row in rows if row["code"] == "eos-offset-beyond-log")
    assert beyond["severity"] == ("info" if lags else "error")
    why = "the log of the group's offsets is out of sync" if lags else "its log was truncated"
    assert why in beyond["message"]
    assert why in " ".join(shown.split())


@pytest.mark.parametrize("node_id", [1, 2])
def test_an_id_has_a_coordinator_whose_leader_may_have_later_records(tmp_path: Path, node_id: int) -> None:
    broker(tmp_path, node_id, DONE, FIRST)
    topic_id = f"version: 0\ntopic_id: {COORDINATOR_ID}"
    (tmp_path / "__transaction_state-0" / "partition.metadata").write_text(topic_id)
    keep_times(tmp_path, NOW_MS, NOW_MS)
    text = run("ids", "--transactional-id", "a", tmp_path).text
    said = "\n  this replica has been out of sync since 2026-11-21 12:09:19 UTC: its leader may have later records\n"
    assert (said in text) == (node_id == 2)


def test_a_later_transaction_does_not_date_data_that_its_replica_has_fetched_late(tmp_path: Path) -> None:
    """The coordinator has the same producer in a transaction of today, whose data the replica does not have yet."""
    ongoing = f"; a Ongoing 7 0 timeout 900000 {{t-0}} t {START + 2 * HOUR - MINUTE}"
    broker(tmp_path, 2, OPEN, FIRST + transaction("t-0", AFTER) + ongoing)
    row = findings_in(tmp_path)["lso-stuck"]
    assert "by its coordinator" not in row["message"]
    assert "Ask the leader" in row["remedy"]
