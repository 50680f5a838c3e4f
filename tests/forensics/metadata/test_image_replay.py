"""Images of metadata logs, compared with those that Kafka's own classes replay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from kforensics.forensics.metadata import cluster_metadata
from kforensics.forensics.metadata.cluster_image import ClusterImage
from kforensics.forensics.metadata.cluster_metadata import METADATA_SNAPSHOT
from kforensics.forensics.metadata.image_replay import ImageReplay
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.files.log_names import METADATA_TOPIC
from kforensics.parsers.messages import framed_columns
from kforensics.parsers.messages import metadata as schemas
from kforensics.parsers.messages.json_render import json_tree
from lab.metadata_images import IMAGES, copy_whole, read_metadata_images
from tests.forensics.metadata.random_metadata import metadata_record, random_log, write_log
from tests.forensics.partition_states import SAMPLES, partitions_under

KAFKA_IMAGES = read_metadata_images()
RANDOM_IMAGES = read_metadata_images(IMAGES.with_name("random-4.4.0.json.xz"))
FOLDERS = sorted({image["folder"] for image in KAFKA_IMAGES})
# Kafka 3.9.1 lost a credential: it applied it together with a removal of another one of the same mechanism.
LOST_CREDENTIAL = ("cluster-metadata-3.9/broker-1/__cluster_metadata-0", 91)


def metadata_in(folder: Path) -> Partition:
    """Return the metadata log under a folder."""
    (metadata,) = (found for found in partitions_under(folder) if found.place.topic == METADATA_TOPIC)
    return metadata


def stated(image: ClusterImage, versions: dict[str, int]) -> list[str]:
    """Return the records that state an image, as text."""
    records = ((record.message, record.value) for record in image.records())
    trees = ((message.name, json_tree(message, value, versions.get(message.name, 0))) for message, value in records)
    return sorted(_text(name, {**tree}) for name, tree in trees)


def stated_by_kafka(image: dict[str, Any]) -> list[str]:
    """Return the records of an image of Kafka as text."""
    return sorted(_text(record["type"], record["data"]) for record in image["records"])


def _text(name: str, data: dict[str, Any]) -> str:
    """Return a record as text; Kafka keeps features and end points in the order of a hash map, secrets as base64."""
    for field in ("features", "endPoints"):
        if field in data:
            data[field] = sorted(data[field], key=lambda element: str(element["name"]))
    secrets = {field: "" for field, value in data.items() if value == b""}
    return json.dumps([name, {**data, **secrets}], sort_keys=True)


def _versions(image: dict[str, Any]) -> dict[str, int]:
    return {record["type"]: record["version"] for record in image["records"]}


def _from(metadata: Partition, snapshot: str | None) -> Partition:
    """Return a metadata log whose only snapshot is this one."""
    others = [file for file in metadata.others if file.kind != METADATA_SNAPSHOT]
    if snapshot is not None:
        others += [file for file in metadata.others if file.path.endswith(f"/{snapshot}")]
    return replace(metadata, others=tuple(others))


@pytest.fixture(params=["one by one", "in columns"])
def _reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read records one by one, as of small files, or in columns, as of large ones."""
    if request.param == "in columns":
        monkeypatch.setattr(cluster_metadata, "COLUMNAR_BYTES", 0)
        monkeypatch.setattr(framed_columns, "MIN_ROWS", 1)


@pytest.mark.usefixtures("_reading")
@pytest.mark.parametrize("folder", FOLDERS)
def test_images_are_those_of_kafka(folder: str, tmp_path: Path) -> None:
    """From each snapshot and from the start of the log, at each later snapshot and at the end of the log."""
    metadata = metadata_in(copy_whole(SAMPLES / folder, tmp_path / "__cluster_metadata-0").parent)
    images = [image for image in KAFKA_IMAGES if image["folder"] == folder]
    assert images
    for image in images:
        replayed = ImageReplay(_from(metadata, image["from"]), at=image["offset"]).run()
        assert (replayed.snapshot or "").endswith(image["from"] or "")
        assert stated(replayed.image, _versions(image)) == stated_by_kafka(image), (image["from"], image["offset"])
        assert replayed.image.not_applied.total() + replayed.skipped.total() == image["faults"]
        assert replayed.offset == image["offset"]
        assert not replayed.gaps


def test_every_sample_with_a_metadata_log_is_compared() -> None:
    found = {str(path.relative_to(SAMPLES)) for path in SAMPLES.rglob("__cluster_metadata-0")}
    assert found - set(FOLDERS) == {"every-record/made-by-4.3.1/__cluster_metadata-0"}
    assert len(KAFKA_IMAGES) > 130


def _pairs() -> Iterator[tuple[str, str, int]]:
    """Yield each snapshot of a log that is there from its start: the folder, the snapshot and its offset."""
    whole = {image["folder"] for image in KAFKA_IMAGES if image["from"] is None}
    for image in KAFKA_IMAGES:
        if image["folder"] in whole and image["from"] is not None:
            offset = int(image["from"].partition("-")[0])
            if image["offset"] == offset > 0:
                yield image["folder"], image["from"], offset


@pytest.mark.parametrize(("folder", "snapshot", "offset"), sorted(set(_pairs())))
def test_log_alone_and_snapshot_with_log_are_one_image(folder: str, snapshot: str, offset: int, tmp_path: Path) -> None:
    metadata = metadata_in(copy_whole(SAMPLES / folder, tmp_path / "__cluster_metadata-0").parent)
    versions = {"PartitionRecord": 2, "RegisterBrokerRecord": 4}
    for at in (offset, None):
        alone = stated(ImageReplay(_from(metadata, None), at=at).run().image, versions)
        both = stated(ImageReplay(_from(metadata, snapshot), at=at).run().image, versions)
        if (folder, offset) == LOST_CREDENTIAL:
            lost = set(alone) - set(both)
            assert [json.loads(text)[0] for text in lost] == ["UserScramCredentialRecord"]
            assert not set(both) - set(alone)
        else:
            assert alone == both


@pytest.mark.usefixtures("_reading")
@pytest.mark.parametrize("image", RANDOM_IMAGES, ids=lambda image: image["folder"])
def test_random_records_make_the_image_of_kafka(image: dict[str, Any], tmp_path: Path) -> None:
    """With transactions, and with records that do not apply or that no release knows."""
    metadata = metadata_in(random_log(tmp_path, int(image["folder"].removeprefix("seed-"))))
    replayed = ImageReplay(metadata, at=image["offset"]).run()
    assert stated(replayed.image, _versions(image)) == stated_by_kafka(image)
    assert set(replayed.skipped) <= {"unknown record type 99"}


# The metadata logs that end before the truth was taken, and why.
ENDS_EARLIER = {("replication", 2): "the broker was killed and stayed down"}


def _live_partitions() -> Iterator[tuple[Partition, int, dict[str, Any]]]:
    """Yield the metadata logs of the samples with what live brokers answered, and when."""
    for path in sorted(SAMPLES.glob("*/truth.json")):
        truth = json.loads(path.read_text(encoding="utf-8"))
        taken_ms = int(datetime.fromisoformat(truth["taken"]).timestamp() * 1000)
        for metadata in partitions_under(path.parent):
            is_late = (path.parent.name, metadata.place.broker_id) not in ENDS_EARLIER
            if metadata.place.topic == METADATA_TOPIC and is_late:
                yield metadata, taken_ms, truth["topics"]


def test_images_are_what_live_brokers_answered() -> None:
    """Topic id, leader, replicas and in-sync replicas of every partition, when the truth was taken."""
    wrong, compared = dict[str, Any](), 0
    for metadata, taken_ms, topics in _live_partitions():
        image = ImageReplay(metadata, at_ms=taken_ms).run().image
        found = {
            (name, str(number)): (image.names[name], part.leader, [*part.replicas], sorted(part.isr))
            for name, number, part in image.partitions()
        }
        answered = {
            (name, number): (said["topic_id"], said["leader"], said["replicas"], sorted(said["isr"]))
            for name, partitions in topics.items()
            for number, said in partitions.items()
        }
        compared += len(answered)
        if found != answered:
            wrong[metadata.folder] = {key: (found.get(key), answered.get(key)) for key in found.keys() | answered}
    assert wrong == {}
    assert compared > 400


def _features(tmp_path: Path, batches: list[list[bytes]]) -> ImageReplay:
    return ImageReplay(metadata_in(write_log(tmp_path, batches))).run()


def _feature(name: str) -> bytes:
    return metadata_record(schemas.FEATURE_LEVEL_RECORD, name=name, featureLevel=1)


BEGIN = metadata_record(schemas.BEGIN_TRANSACTION_RECORD)
END = metadata_record(schemas.END_TRANSACTION_RECORD)
ABORT = metadata_record(schemas.ABORT_TRANSACTION_RECORD)


@pytest.mark.parametrize(
    ("batches", "expected", "open_transaction"),
    [
        ("a B b", "a", 1),
        ("a B b|c E d", "abcd", None),
        ("B b|A|c", "c", None),
        ("B b|c A", "", None),
        # Kafka's loader does not drop what was aborted if another record of the same batch follows.
        ("B b|A c", "bc", None),
        ("B b|A B c|E", "bc", None),
        ("a E b", "ab", None),
        ("B b B c|E", "bc", None),
        ("B b|c", "", 0),
    ],
)
def test_transactions_are_those_of_kafkas_loader(
    batches: str, expected: str, open_transaction: int | None, tmp_path: Path
) -> None:
    """As ``MetadataBatchLoader`` of 4.4.0 did with the same batches."""
    values = {"B": BEGIN, "E": END, "A": ABORT}
    made = [[values.get(name) or _feature(name) for name in names.split()] for names in batches.split("|")]
    replayed = _features(tmp_path, made)
    assert "".join(sorted(replayed.image.features)) == expected
    assert replayed.open_transaction == open_transaction


def test_a_missing_range_of_offsets_is_a_gap(tmp_path: Path) -> None:
    write_log(tmp_path, [[_feature("a")], [_feature("b")]])
    write_log(tmp_path, [[_feature("c")]], base_offset=5)
    replayed = ImageReplay(metadata_in(tmp_path)).run()
    assert (sorted(replayed.image.features), replayed.gaps, replayed.offset) == (["a", "b", "c"], [(2, 4)], 6)


def test_a_log_without_its_start_and_without_a_snapshot_is_incomplete(tmp_path: Path) -> None:
    replayed = ImageReplay(metadata_in(write_log(tmp_path, [[_feature("c")]], base_offset=5))).run()
    assert (replayed.is_complete, replayed.start, sorted(replayed.image.features)) == (False, 5, ["c"])


def test_a_damaged_snapshot_is_not_loaded(tmp_path: Path) -> None:
    """The next newer one is, and the replay begins there."""
    folder = copy_whole(SAMPLES / "cluster-metadata/broker-1/__cluster_metadata-0", tmp_path / "__cluster_metadata-0")
    (folder / "00000000000000000000.log").unlink()
    whole = ImageReplay(metadata_in(tmp_path)).run()
    assert whole.start == 51
    snapshot = folder / "00000000000000000051-0000000001.checkpoint"
    content = bytearray(snapshot.read_bytes())
    content[700] ^= 1
    snapshot.write_bytes(content)
    replayed = ImageReplay(metadata_in(tmp_path)).run()
    assert replayed.start == 105
    assert stated(replayed.image, {}) == stated(whole.image, {})


def test_at_a_time(tmp_path: Path) -> None:
    log = write_log(tmp_path, [[_feature("a")], [_feature("b")], [_feature("c")]])
    replayed = ImageReplay(metadata_in(log), at_ms=1_700_000_001_000).run()
    assert (sorted(replayed.image.features), replayed.offset) == (["a", "b"], 2)
