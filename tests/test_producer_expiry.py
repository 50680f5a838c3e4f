"""A broker that forgets producers within seconds: its settings or its own snapshots show it, and nothing is wrong."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from kforensics.parsers.files.source import open_source
from kforensics.parsers.state.producer_snapshot import ProducerSnapshotEntry, read_producer_snapshot
from tests.command import SAMPLES, run
from tests.forensics.forge import SnapshotEntry, snapshot_bytes

SAMPLE = SAMPLES / "producer-expiry"
TRUTH = json.loads((SAMPLE / "truth.json").read_text("utf-8"))
TAKEN = TRUTH["taken"]
# The broker was asked, and then took some seconds to stop.
STOPPED_MS = int(datetime.fromisoformat(TAKEN).timestamp() * 1000) + 5_000
GIVEN = {
    "--set": ["--set", "producer.id.expiration.ms=4000"],
    "server.properties": ["--server-properties", SAMPLE / "server.properties"],
    "proof": [],
}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy in which each snapshot has the time at which it was taken: git does not keep the times of files."""
    folder = Path(shutil.copytree(SAMPLE, tmp_path / "copy"))
    for file in folder.rglob("*"):
        os.utime(file, (STOPPED_MS / 1000, STOPPED_MS / 1000))
    for snapshot in folder.rglob("*-0/*.snapshot"):
        segment = snapshot.with_suffix(".log")
        if segment.exists() and (taken := _first_timestamp(segment)):
            os.utime(snapshot, (taken / 1000, taken / 1000))
    return folder


def _first_timestamp(segment: Path) -> int | None:
    """Return the time of the first batch of a segment: the snapshot was taken just before it was appended."""
    rows = run("dump", "--format", "ndjson", segment).objects
    return next((row["base_timestamp"] for row in rows if row.get("base_timestamp")), None)


def _findings(folder: Path, *words: object) -> list[dict[str, Any]]:
    answer = run("audit", folder, "--as-of", STOPPED_MS, "--format", "ndjson", "--fail-on", "never", *words)
    assert answer.code == 0, answer.err
    return answer.rows("findings")


def _warnings(folder: Path, *words: object) -> set[str]:
    return {row["code"] for row in _findings(folder, *words) if row["severity"] != "info"}


def _settings(folder: Path, *words: object) -> dict[str, dict[str, Any]]:
    rows = run("audit", folder, "--as-of", STOPPED_MS, "--format", "ndjson", "--fail-on", "never", *words).rows(
        "settings"
    )
    return {row["name"]: row for row in reversed(rows) if not (row["entity"] or "").startswith("topic")}


@pytest.mark.parametrize("words", GIVEN.values(), ids=GIVEN)
def test_what_a_broker_forgot_is_no_warning(copy: Path, words: list[object]) -> None:
    assert _warnings(copy, *words) == set()


def test_by_the_default_of_kafka_it_would_be(copy: Path) -> None:
    found = _warnings(copy, "--set", "producer.id.expiration.ms=86400000")
    assert found == {"snapshot-missing-producer", "seq-gap"}


def test_a_warning_about_an_expiry_names_the_setting(copy: Path) -> None:
    """The files may not show it: then it is assumed."""
    found = _findings(copy, "--set", "producer.id.expiration.ms=86400000")
    (missing, *_) = (row for row in found if row["code"] == "snapshot-missing-producer" and row["severity"] != "info")
    assert "expired: not by producer.id.expiration.ms as it is given or assumed" in missing["benign"]
    assert "With a shorter producer.id.expiration.ms, it has expired." in missing["remedy"]


@pytest.mark.parametrize("words", GIVEN.values(), ids=GIVEN)
def test_a_gap_after_the_expiry_names_the_setting_and_no_election(copy: Path, words: list[object]) -> None:
    (gap,) = (row for row in _findings(copy, *words) if row["code"] == "seq-gap")
    evidence = json.loads(gap["evidence"])
    assert evidence["setting"] == "producer.id.expiration.ms"
    assert 4_000 <= evidence["setting_value"] < 6_000
    assert evidence["setting_source"] == _settings(copy, *words)["producer.id.expiration.ms"]["source"]
    assert "producer expired at the leader: yes" in gap["benign"]
    assert "election" not in gap["remedy"]


@pytest.mark.parametrize("words", GIVEN.values(), ids=GIVEN)
def test_alive_are_the_producers_that_the_broker_describes(copy: Path, words: list[object]) -> None:
    answer = run("producers", copy, "--as-of", TAKEN, "--format", "ndjson", "--fail-on", "never", *words)
    alive: dict[str, set[int]] = {}
    for row in answer.objects:
        if not row["expired"]:
            alive.setdefault(row["topic"], set()).add(row["producer_id"])
    described = {
        topic: {producer["producer_id"] for producer in partitions["0"]["producers"]}
        for topic, partitions in TRUTH["topics"].items()
    }
    assert alive == {topic: producers for topic, producers in described.items() if producers}


def test_the_proof_names_a_snapshot(copy: Path) -> None:
    row = _settings(copy)["producer.id.expiration.ms"]
    assert 4_000 <= int(row["value"]) < 6_000
    assert row["source"].startswith("proof: ")
    assert ".snapshot lacks producer" in row["source"]
    assert row["entity"] == "broker 1"


def _entries(path: Path) -> Iterator[SnapshotEntry]:
    with open_source(str(path)) as source:
        for row in read_producer_snapshot(source):
            if isinstance(row, ProducerSnapshotEntry):
                yield SnapshotEntry(*(getattr(row, name) for name in SnapshotEntry._fields))


@pytest.mark.parametrize("words", GIVEN.values(), ids=GIVEN)
def test_a_snapshot_that_lacks_a_live_producer_is_found_all_the_same(copy: Path, words: list[object]) -> None:
    """Its last write was a moment ago; the other snapshots have producers that were idle for seconds."""
    path = sorted((copy / "broker-1" / "busy-0").glob("*.snapshot"))[8]
    modified = path.stat().st_mtime
    first, *others = _entries(path)
    path.write_bytes(snapshot_bytes(others))
    os.utime(path, (modified, modified))
    (missing,) = (row for row in _findings(copy, *words) if row["code"] == "snapshot-missing-producer")
    assert (missing["severity"], missing["producer_id"], missing["path"]) == ("warning", first.producer_id, str(path))
    assert json.loads(missing["evidence"])["setting"] == "producer.id.expiration.ms"


def test_snapshots_that_were_deleted_prove_nothing() -> None:
    """A broker that lost its state forgot producers of a moment ago, and no snapshot has had them."""
    rows = run("audit", SAMPLES / "state-lost-after-stop", "--format", "ndjson", "--fail-on", "never").rows("settings")
    (expiry,) = (row for row in rows if row["name"] == "producer.id.expiration.ms")
    assert (expiry["value"], expiry["source"]) == ("86400000", "Kafka's default since 3.4")


def test_a_partition_alone_has_the_settings_of_its_log_directory(copy: Path) -> None:
    """The snapshots that prove the setting are those of other topics."""
    whole, one = (_settings(copy / path)["producer.id.expiration.ms"] for path in ("", "broker-1/gap-0"))
    assert whole == one
    assert ".snapshot lacks producer" in one["source"]
    assert _warnings(copy / "broker-1" / "gap-0") == set()
    (alone,) = (
        row
        for row in run(
            "audit", copy / "broker-1" / "gap-0", "--alone", "--as-of", STOPPED_MS, "--format", "ndjson"
        ).rows("settings")
        if row["name"] == "producer.id.expiration.ms"
    )
    assert alone["source"].startswith("Kafka's default since 3.4; the release is unknown")


@pytest.mark.parametrize("selection", [["broker-1/gap-0"], ["", "--topic", "gap"]])
def test_a_partition_alone_has_the_expired_producers_that_it_has_among_others(copy: Path, selection: list[str]) -> None:
    def expired(*words: object) -> list[object]:
        later = ["--as-of", STOPPED_MS + 60_000, "--format", "ndjson", "--fail-on", "never"]
        rows = run("producers", *words, *later).objects
        return [(row["producer_id"], row["expired"]) for row in rows if row["topic"] == "gap"]

    path, *words = selection
    assert expired(copy / path, *words) == expired(copy) == [(2, True), (7300, True)]


LATE_MS = STOPPED_MS + 600_000


@pytest.fixture
def late_copy(tmp_path: Path) -> Path:
    """A copy that has lost the times of its files, as a git checkout does."""
    folder = Path(shutil.copytree(SAMPLE, tmp_path / "late"))
    for file in folder.rglob("*"):
        os.utime(file, (LATE_MS / 1000, LATE_MS / 1000))
    return folder


def test_the_metadata_log_shows_until_when_the_broker_ran(late_copy: Path) -> None:
    row = _settings(late_copy, "--as-of", LATE_MS)["producer.id.expiration.ms"]
    assert 4_000 <= int(row["value"]) < 12_000
    assert _warnings(late_copy, "--as-of", LATE_MS) == set()


def test_a_broker_that_lost_its_controllers_ran_for_longer_than_its_metadata_log_shows(late_copy: Path) -> None:
    """Then its snapshots have later times than the metadata log, which shows nothing."""
    path = late_copy / "broker-1" / "__cluster_metadata-0" / "00000000000000000000.log"
    batches = run("dump", "--format", "ndjson", path).objects
    early = [row for row in batches if row["table"] == "batches" and row["max_timestamp"] < STOPPED_MS - 20_000]
    with path.open("r+b") as file:
        file.truncate(early[-1]["position"] + early[-1]["size"])
    row = _settings(late_copy, "--as-of", LATE_MS)["producer.id.expiration.ms"]
    assert row["source"].startswith("proof: ")
    assert int(row["value"]) > 600_000


def _alone(copy: Path, topic: str, number: int) -> Path:
    """Keep one snapshot of a topic, and no other topic; return it."""
    for folder in (folder for folder in (copy / "broker-1").iterdir() if folder.is_dir()):
        if folder.name != f"{topic}-0":
            shutil.rmtree(folder)
    snapshots = sorted((copy / "broker-1" / f"{topic}-0").glob("*.snapshot"))
    kept = snapshots.pop(number)
    for path in snapshots:
        path.unlink()
    return kept


@pytest.mark.parametrize("number", [8, 10, 12])
def test_one_snapshot_that_has_only_younger_producers_is_no_warning(copy: Path, number: int) -> None:
    """No other snapshot proves the setting, but all that it lacks had been idle for seconds."""
    kept = _alone(copy, "idle", number)
    rows = [row for row in _findings(copy) if row["code"] == "snapshot-missing-producer"]
    assert {(row["severity"], row["exactness"], row["path"]) for row in rows} == {("info", "unverifiable", str(kept))}
    given = _findings(copy, "--set", "producer.id.expiration.ms=86400000")
    assert {row["severity"] for row in given if row["code"] == "snapshot-missing-producer"} == {"warning"}


def test_one_snapshot_that_lacks_a_younger_producer_is_found(copy: Path) -> None:
    path = _alone(copy, "busy", 8)
    modified, entries = path.stat().st_mtime, sorted(_entries(path), key=attrgetter("timestamp"))
    path.write_bytes(snapshot_bytes(entries[:-1]))
    os.utime(path, (modified, modified))
    (missing,) = (row for row in _findings(copy) if row["code"] == "snapshot-missing-producer")
    assert (missing["severity"], missing["producer_id"]) == ("warning", entries[-1].producer_id)
