"""``kforensics cluster``: the image at an offset or a time, its changes, and the history of a partition."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.forensics.metadata.image_replay import ImageReplay
from kforensics.parsers.messages import metadata as schemas
from lab.metadata_images import copy_whole
from tests.command import run
from tests.forensics.metadata.random_metadata import metadata_record, uuid, write_log
from tests.forensics.metadata.test_image_replay import metadata_in, stated
from tests.forensics.partition_states import SAMPLES

UNCLEAN = SAMPLES / "unclean-election"
AS_OF = ("--as-of", "2026-11-22T18:00")
# The metadata log of one broker of each sample.
LOGS = {
    folder.relative_to(SAMPLES).parts[0]: folder
    for folder in sorted(SAMPLES.glob("*/broker-*/**/__cluster_metadata-0"), reverse=True)
}
METADATA = SAMPLES / "cluster-metadata" / "broker-1" / "__cluster_metadata-0"


def _rows(*arguments: Any, **options: Any) -> list[dict[str, Any]]:
    return list(kforensics.cluster(*arguments, **options).to_arrow().to_pylist())


def _comparable(record: dict[str, Any]) -> str:
    by_name = {
        name: sorted(record[name], key=itemgetter("name")) for name in ("features", "endPoints") if name in record
    }
    return json.dumps(record | by_name, sort_keys=True)


def test_rows_are_the_records_of_the_image() -> None:
    """The column ``record`` states each entity as Kafka's snapshots do."""
    rows = _rows(UNCLEAN, at=70)
    image = ImageReplay(metadata_in(UNCLEAN / "broker-1"), at=70).run().image
    records = [json.loads(row["record"]) for row in rows if row["record"] is not None]
    versions = {record.message.name: record.message.highest_version for record in image.records()}
    assert sorted(map(_comparable, records)) == sorted(
        _comparable(json.loads(text)[1]) for text in stated(image, versions)
    )
    assert {row["end_offset"] for row in rows} == {70}
    (lossy,) = (row for row in rows if row["name"] == "lossy-0")
    assert (lossy["leader"], lossy["isr"], lossy["replicas"], lossy["leader_epoch"]) == (3, "3", "2,3", 2)
    assert lossy["state"] == "recovering from an unclean election, under-replicated"


def test_at_a_time_is_the_image_at_the_offset_after_its_last_record() -> None:
    by_offset, by_time = _rows(UNCLEAN, at=70), _rows(UNCLEAN, at="2026-11-22T17:24:15.999")
    assert {row["end_offset"] for row in by_time} == {72}
    assert [row["name"] for row in by_offset] == [row["name"] for row in by_time]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--at", "900"), "ends at offset 97"),
        (("--at", "yesterday"), "neither an offset nor a time"),
        (("--diff", "3"), "is not a pair"),
        (("--diff", "4..3"), "goes back"),
        (("--diff", "3..4", "--at", "5"), "leave --at"),
        (("--history", "lossy"), "is not a partition"),
        (("--history", "unknown-0"), "has no partition unknown-0"),
        (("--since", "2h"), "--since"),
    ],
)
def test_refused(options: tuple[str, ...], message: str) -> None:
    ended = run("cluster", *AS_OF, *options, UNCLEAN)
    assert (ended.code, ended.out) == (2, b"")
    assert message in ended.err


@pytest.mark.parametrize("at", ["104", "2026-11-21T12:00"])
def test_nothing_is_known_before_the_oldest_snapshot(at: str) -> None:
    ended = run("cluster", *AS_OF, "--at", at, SAMPLES / "cluster-metadata")
    assert ended.code == 2
    assert "available from offset 105 on" in ended.err or "available from offset 90 on" in ended.err


def test_history_of_a_partition() -> None:
    rows = _rows(UNCLEAN, history="lossy-0")
    seen = [(row["offset"], row["leader"], row["isr"], row["leader_epoch"]) for row in rows]
    assert seen[:5] == [(27, 2, "2,3", 0), (41, 2, "2", 0), (56, -1, "", 1), (64, 3, "3", 2), (75, 3, "2,3", 2)]
    assert rows[3]["change"].startswith("unclean election")
    assert (rows[3]["controller"], rows[3]["controller_epoch"]) == (1, 2)
    durations = [later["timestamp"] - row["timestamp"] for row, later in pairwise(rows)]
    assert [row["duration_ms"] for row in rows] == [*durations, None]


def test_history_has_both_lives_of_a_topic(tmp_path: Path) -> None:
    def topic(number: int) -> list[bytes]:
        replicas = {"replicas": [1, 2], "isr": [1, 2], "leader": 1, "leaderEpoch": 0, "partitionEpoch": 0}
        made = metadata_record(schemas.TOPIC_RECORD, name="t", topicId=uuid(number))
        partition = {**replicas, "partitionId": 0, "topicId": uuid(number), "directories": [uuid(1), uuid(2)]}
        return [made, metadata_record(schemas.PARTITION_RECORD, **partition)]

    gone = metadata_record(schemas.REMOVE_TOPIC_RECORD, topicId=uuid(1))
    moving = {"replicas": [1, 2, 3], "addingReplicas": [3], "directories": [uuid(1), uuid(2), uuid(3)]}
    moved = metadata_record(schemas.PARTITION_CHANGE_RECORD, partitionId=0, topicId=uuid(2), **moving)
    rows = _rows(write_log(tmp_path, [topic(1), [gone], topic(2), [moved]]), history="t-0")
    assert [(row["offset"], row["change"]) for row in rows] == [
        (1, "created"),
        (2, "deleted"),
        (4, "created"),
        (5, "reassigning"),
    ]
    assert rows[1]["leader"] is None
    assert (rows[3]["replicas"], rows[3]["adding"]) == ("1,2,3", "3")


def _images(log: Path, at: int) -> dict[tuple[Any, ...], dict[str, Any]]:
    rows = _rows(log, at=at, alone=True)
    return {(row["kind"], row["name"], row["setting"], row["topic_id"]): row for row in rows}


def _check_changes(log: Path, first: int, last: int) -> None:
    before, after = _images(log, first), _images(log, last)
    rows = _rows(log, diff=f"{first}..{last}", alone=True)
    expected = {}
    for key in before.keys() | after.keys():
        old, new = before.get(key), after.get(key)
        records = [None if row is None else row["record"] for row in (old, new)]
        if old is None or new is None or records[0] != records[1]:
            expected[key[:3]] = ("created" if old is None else "deleted" if new is None else "changed", *records)
    found = {(row["kind"], row["name"], row["setting"]): (row["change"], row["before"], row["after"]) for row in rows}
    assert found == expected
    # The voters of a static quorum are in the control record of an election, which is no record of metadata.
    recorded = [row for row in rows if row["kind"] != "voter"]
    assert all(row["records"] and first <= row["first_offset"] <= row["last_offset"] < last for row in recorded)


@pytest.mark.parametrize("scenario", LOGS)
def test_changes_are_the_difference_of_the_images(scenario: str) -> None:
    """From the start of each log, and from its middle, to its end."""
    log = LOGS[scenario]
    whole = ImageReplay(metadata_in(log)).run()
    for first in (whole.start, (whole.start + whole.offset) // 2):
        _check_changes(log, first, whole.offset)


@pytest.mark.parametrize(("first", "last"), [(20, 97), (50, 60), (60, 60), (1, 40)])
def test_changes_between_any_offsets_are_the_difference_of_the_images(first: int, last: int) -> None:
    _check_changes(UNCLEAN, first, last)


def test_changes_are_compared_in_every_sample_with_a_metadata_log() -> None:
    written = [pedigree.parent for pedigree in SAMPLES.glob("*/pedigree.json")]
    assert {folder.name for folder in written if any(folder.rglob("__cluster_metadata-0/*.log"))} == set(LOGS)
    assert len(LOGS) > 35


@pytest.mark.parametrize("broker", [1, 2, 3, 4])
def test_broker_leaves_what_concerns_it(broker: int) -> None:
    """The node, and the partitions of which it has a replica, in the image and among the changes."""
    every = _rows(UNCLEAN, at=90)
    mine = [row for row in every if row["node_id"] == broker or str(broker) in (row["replicas"] or "").split(",")]
    assert _rows(UNCLEAN, at=90, broker=broker) == mine
    assert {row["name"] for row in mine if row["kind"] == "partition"} == {
        row["name"]
        for row in every
        if row["kind"] == "partition" and row["replicas"] and str(broker) in row["replicas"]
    }
    changes = _rows(UNCLEAN, diff="20..97", broker=broker)
    names = {row["name"] for row in mine}
    assert {row["name"] for row in changes} <= names
    ended = run("cluster", *AS_OF, "--broker", str(broker), "--at", "90", "--all", UNCLEAN)
    assert ended.code == 0
    assert all(row["name"] in ended.text for row in mine)
    others = {row["name"] for row in every if row["kind"] == "partition"} - names
    assert not [name for name in others if name in ended.text]


def test_changes_between_two_copies(tmp_path: Path) -> None:
    older, newer = tmp_path / "older", tmp_path / "newer"
    for folder, batches in ((older, 1), (newer, 2)):
        values = [
            [metadata_record(schemas.TOPIC_RECORD, name="kept", topicId=uuid(1))],
            [metadata_record(schemas.TOPIC_RECORD, name="new", topicId=uuid(2))],
        ]
        write_log(folder, values[:batches])
    (row,) = _rows([older, newer], diff=f"{older}..{newer}")
    assert (row["kind"], row["name"], row["change"], row["records"], row["last_offset"]) == (
        "topic",
        "new",
        "created",
        1,
        1,
    )
    ended = run("cluster", "--diff", f"{older}..{tmp_path}", older)
    assert ended.code == 0


def test_settings_of_a_deleted_topic_have_the_record_that_deleted_it(tmp_path: Path) -> None:
    topic = metadata_record(schemas.TOPIC_RECORD, name="t", topicId=uuid(1))
    config = {"resourceType": 2, "resourceName": "t", "name": "retention.ms", "value": "1"}
    batches = [[topic, metadata_record(schemas.CONFIG_RECORD, **config)]]
    batches.append([metadata_record(schemas.REMOVE_TOPIC_RECORD, topicId=uuid(1))])
    rows = _rows(write_log(tmp_path, batches), diff="2..3")
    assert {(row["kind"], row["change"], row["last_offset"]) for row in rows} == {
        ("topic", "deleted", 2),
        ("config", "deleted", 2),
    }


def test_secrets_are_hidden(tmp_path: Path) -> None:
    values = [
        metadata_record(schemas.CONFIG_RECORD, resourceType=4, resourceName="1", name=name, value=value)
        for name, value in (
            ("listener.name.sasl.ssl.keystore.password", "s3cret"),
            ("listener.name.sasl.plain.sasl.jaas.config", "s3cret"),
            ("log.retention.ms", "7"),
        )
    ]
    secrets = {"salt": b"s3cret", "storedKey": b"s3cret", "serverKey": b"s3cret"}
    values.append(metadata_record(schemas.USER_SCRAM_CREDENTIAL_RECORD, name="u", mechanism=1, iterations=1, **secrets))
    log = write_log(tmp_path, [values])
    for output_format in ("text", "json", "csv"):
        ended = run("cluster", "--all", "--wide", "--format", output_format, log)
        assert b"s3cret" not in ended.out
        assert b"czNjcmV0" not in ended.out
        assert b"log.retention.ms" in ended.out
    changes = run("cluster", "--diff", "0..4", "--all", "--format", "json", log)
    assert b"s3cret" not in changes.out
    assert b"u" in changes.out


def test_what_limits_the_image_is_said(tmp_path: Path) -> None:
    folder = copy_whole(METADATA, tmp_path / "__cluster_metadata-0")
    for file in folder.glob("*.checkpoint"):
        file.unlink()
    (folder / "00000000000000000000.log").unlink()
    (folder / "00000000000000000057.log").unlink()
    ended = run("cluster", "--alone", tmp_path)
    # The leader epochs begin at 105: what is before the gap was deleted, and an earlier copy left it in the folder.
    assert "incomplete: the log begins at offset 90, and no whole snapshot has what was before" in ended.text
    (folder / "leader-epoch-checkpoint").unlink()
    ended = run("cluster", "--alone", tmp_path)
    assert "incomplete: the log begins at offset 29, and no whole snapshot has what was before" in ended.text
    assert "incomplete: offsets 57 to 89 missing or damaged" in ended.text
    assert "of what the image does not have" in ended.text


def test_what_the_next_start_refuses_is_a_finding(tmp_path: Path) -> None:
    folder = copy_whole(METADATA, tmp_path / "__cluster_metadata-0")
    snapshot = folder / "00000000000000000105-0000000002.checkpoint"
    snapshot.write_bytes(snapshot.read_bytes()[:-1])
    ended = run("cluster", "--alone", tmp_path)
    assert (ended.code, "critical metadata-snapshot-damaged: " in ended.text) == (1, True)
    as_json = json.loads(run("cluster", "--alone", "--format", "json", tmp_path).text)
    assert [row["code"] for row in as_json["tables"]["findings"]] == ["metadata-snapshot-damaged"]
    assert run("cluster", "--alone", "--code", "metadata-snapshot-missing", tmp_path).text == "nothing to show\n"


def test_without_a_metadata_log_the_log_directories_answer(tmp_path: Path) -> None:
    ended = run("cluster", *AS_OF, "--topic", "transactions", SAMPLES / "legacy-2.7")
    assert "no metadata log; by its log directories alone 1 topic, 1 partition" in ended.text
    rows = _rows(SAMPLES / "legacy-2.7")
    assert {row["kind"] for row in rows} == {"broker", "topic", "partition"}
    assert {row["record"] for row in rows} == {None}
    refused = run("cluster", *AS_OF, "--at", "5", SAMPLES / "legacy-2.7")
    assert (refused.code, "--at, --diff and --history need it" in refused.err) == (2, True)


def test_a_partition_folder_finds_the_metadata_log_around_it(tmp_path: Path) -> None:
    shutil.copytree(UNCLEAN, tmp_path / "c")
    rows = _rows(tmp_path / "c" / "broker-3" / "lossy-0", topic="clean")
    assert "clean-0" in {row["name"] for row in rows}


def test_an_audit_stores_the_image_at_the_end_of_each_metadata_log() -> None:
    rows = kforensics.audit(UNCLEAN).tables["cluster_image"].to_pylist()
    asked = _rows(UNCLEAN)
    by_broker = [row for row in rows if row["broker_id"] == asked[0]["broker_id"]]
    assert by_broker == asked
    assert {row["broker_id"] for row in rows} == {1, 2, 3}
