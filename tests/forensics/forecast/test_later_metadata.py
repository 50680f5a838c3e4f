"""A broker that was away learns from the controllers what happened since, before it looks at its logs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kforensics.analyses.forecast import forecast_brokers
from kforensics.forensics.forecast.broker_forecast import ASSIGNED, COPIED
from kforensics.forensics.forecast.partition_fates import PartitionFates
from kforensics.forensics.metadata.cluster_metadata import log_records
from tests.command import SAMPLES
from tests.forensics.forge import cut

METADATA, LOG = "__cluster_metadata-0", "00000000000000000000.log"
CHANGE = "PartitionChangeRecord"
EPOCHS = f"{METADATA}/leader-epoch-checkpoint"


def cluster(folder: Path) -> Path:
    """Write a cluster whose broker 1 was stopped before a topic was deleted; return its log directory.

    Its folder of the topic has become stray in the sample, which was taken later.
    """
    shutil.copytree(SAMPLES / "replication", folder)
    broker = folder / "broker-1"
    (stray,) = broker.glob("stray-0.*-stray")
    stray.rename(broker / "stray-0")
    end_before(broker, "RemoveTopicRecord")
    (broker / EPOCHS).write_text("0\n3\n1 0\n2 80\n3 102\n")
    return broker


def end_before(broker: Path, kind: str) -> None:
    """Let the metadata log of a broker end before the first record of a type."""
    log = broker / METADATA / LOG
    cut(log, next(record.position for record in log_records(str(log), 0) if record.kind == kind))


def fates(paths: Path | list[Path], node_id: int = 1) -> dict[str, str]:
    """Return what becomes of the folders of a broker."""
    named = [str(path) for path in (paths if isinstance(paths, list) else [paths])]
    (forecast,) = (one for one in forecast_brokers(named, None) if one.node_id == node_id)
    return {Path(one.folder).name: one.fate for one in forecast.partitions if one.folder is not None}


def test_a_topic_that_was_deleted_meanwhile(tmp_path: Path) -> None:
    broker = cluster(tmp_path / "logs")
    assert fates(tmp_path / "logs")["stray-0"] == "stray"
    assert fates(sorted((tmp_path / "logs").glob("broker-*")))["stray-0"] == "stray"
    assert fates(broker)["stray-0"] == "served"  # nothing shows it
    (forecast,) = (one for one in forecast_brokers([str(tmp_path / "logs")], None) if one.node_id == 1)
    (effect,) = (effect for part, effect in forecast.all_effects() if part is not None and part.name == "stray-0")
    assert effect.kind == "topic-deleted"
    assert "its topic was deleted at 2026-11-21 " in effect.detail


def effects_on_missing(paths: Path, node_id: int = 3) -> dict[str, tuple[str, str]]:
    """Return kind and detail of the effects on the partitions without a folder."""
    (forecast,) = (one for one in forecast_brokers([str(paths)], None) if one.node_id == node_id)
    missing = ((part, effect) for part, effect in forecast.all_effects() if part is not None and part.folder is None)
    return {part.name: (effect.kind, effect.detail) for part, effect in missing}


def before_the_reassignment(folder: Path) -> Path:
    """Write a cluster whose broker 3 was stopped before it got ``reassigned-0``; return its log directory."""
    shutil.copytree(SAMPLES / "replication", folder)
    broker = folder / "broker-3"
    log = broker / METADATA / LOG
    records = log_records(str(log), 0)
    cut(log, next(one.position for one in records if one.kind == CHANGE and one.value and one.value["addingReplicas"]))
    (broker / EPOCHS).write_text("0\n2\n1 0\n2 80\n")
    shutil.rmtree(broker / "reassigned-0")
    return broker


def test_partitions_assigned_meanwhile_are_no_lost_ones(tmp_path: Path) -> None:
    """The folder of one that the broker had before is missing, too."""
    broker = before_the_reassignment(tmp_path / "logs")
    shutil.rmtree(broker / "durable-0")
    missing = effects_on_missing(tmp_path / "logs")
    assert {name: kind for name, (kind, _) in missing.items()} == {"durable-0": COPIED, "reassigned-0": ASSIGNED}
    after = "it was assigned to the broker after the end of its own metadata log: it is copied from the leader"
    assert missing["reassigned-0"][1] == after
    assert set(effects_on_missing(broker)) == {"durable-0"}  # nothing shows the other


def test_a_partition_that_was_assigned_before_is_lost(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "replication", tmp_path / "logs")
    shutil.rmtree(tmp_path / "logs" / "broker-3" / "reassigned-0")
    end_before(tmp_path / "logs" / "broker-3", "RemoveTopicRecord")
    (tmp_path / "logs" / "broker-3" / EPOCHS).write_text("0\n2\n1 0\n2 80\n")
    assert effects_on_missing(tmp_path / "logs")["reassigned-0"][0] == COPIED


def test_a_metadata_log_on_a_new_disk_does_not_show_what_was_assigned_before(tmp_path: Path) -> None:
    """It has been fetched only in part, as far as the registration with the old disk."""
    broker = before_the_reassignment(tmp_path / "logs")
    meta = broker / "meta.properties"
    lines = (line for line in meta.read_text().splitlines() if not line.startswith("directory.id"))
    meta.write_text("\n".join([*lines, "directory.id=a2ZvcmVuc2ljcy1kaXItNA", ""]))
    assert effects_on_missing(tmp_path / "logs")["reassigned-0"][0] == COPIED


@pytest.mark.parametrize(("is_listed", "kind"), [(False, ASSIGNED), (True, COPIED)])
def test_a_replica_that_a_reassignment_adds_had_nothing(is_listed: bool, kind: str, tmp_path: Path) -> None:
    """Unless a checkpoint shows that it had."""
    shutil.copytree(SAMPLES / "replication" / "broker-3", tmp_path / "broker-3")
    broker = tmp_path / "broker-3"
    log = broker / METADATA / LOG
    records = [one for one in log_records(str(log), 0) if one.kind == CHANGE]
    added = next(index for index, one in enumerate(records) if one.value and one.value["addingReplicas"])
    cut(log, records[added + 1].position)
    (broker / EPOCHS).write_text("0\n2\n1 0\n2 80\n")
    shutil.rmtree(broker / "reassigned-0")
    for checkpoint in broker.glob("*-offset-checkpoint") if not is_listed else ():
        checkpoint.write_text("0\n0\n")
    assert effects_on_missing(broker)["reassigned-0"][0] == kind


@pytest.mark.parametrize(
    ("changes", "kind"), [(0, ASSIGNED), (3, COPIED)], ids=["as it was created", "was perhaps in sync before"]
)
def test_a_replica_that_was_never_in_sync_had_nothing(
    changes: int, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start that was refused has read the metadata, but made no folder."""
    shutil.copytree(SAMPLES / "replication" / "broker-3", tmp_path / "broker-3")
    shutil.rmtree(tmp_path / "broker-3" / "unclean-0")
    for checkpoint in (tmp_path / "broker-3").glob("*-offset-checkpoint"):
        checkpoint.write_text("0\n0\n")
    assign = PartitionFates.assign

    def of_a_new_topic(fates: PartitionFates) -> None:
        assert fates.forecast.metadata is not None
        topic = fates.forecast.metadata.image.topic_named("unclean")
        assert topic is not None
        topic.partitions[0] = topic.partitions[0]._replace(isr=(2,), elr=(), partition_epoch=changes)
        assign(fates)

    monkeypatch.setattr(PartitionFates, "assign", of_a_new_topic)
    assert effects_on_missing(tmp_path / "broker-3")["unclean-0"][0] == kind


def of_another_cluster(folder: Path) -> None:
    for broker in (2, 3):
        meta = folder / f"broker-{broker}" / "meta.properties"
        meta.write_text(meta.read_text().replace("cluster.id=a", "cluster.id=b"))


def without_their_logs(folder: Path) -> None:
    for broker in (2, 3):
        shutil.rmtree(folder / f"broker-{broker}" / METADATA)


def torn(folder: Path) -> None:
    """The other copies are damaged before the deletion, and their brokers read no further."""
    for broker in (2, 3):
        log = folder / f"broker-{broker}" / METADATA / LOG
        data = bytearray(log.read_bytes())
        data[5000:5040] = bytes(40)
        log.write_bytes(data)


def with_a_tail_of_an_earlier_epoch(folder: Path) -> None:
    """Broker 1 has been elected since, which overrules what the others have beyond their last epoch."""
    (folder / "broker-1" / EPOCHS).write_text("0\n3\n1 0\n2 80\n5 102\n")
    log = folder / "broker-1" / METADATA / LOG
    data, records = bytearray(log.read_bytes()), list(log_records(str(log), 0))
    position = records[-1].position
    data[position + 12 : position + 16] = (5).to_bytes(4, "big")  # no checksum covers it
    log.write_bytes(data)


def of_a_cluster_with_the_same_id(folder: Path) -> None:
    """No topic of theirs is one of broker 1."""
    for broker in (2, 3):
        shutil.rmtree(folder / f"broker-{broker}" / METADATA)
        shutil.copytree(
            SAMPLES / "unclean-election" / f"broker-{broker}" / METADATA, folder / f"broker-{broker}" / METADATA
        )


@pytest.mark.parametrize(
    "change",
    [of_another_cluster, without_their_logs, torn, with_a_tail_of_an_earlier_epoch, of_a_cluster_with_the_same_id],
)
def test_otherwise_its_own_log_counts(tmp_path: Path, change: Callable[[Path], None]) -> None:
    cluster(tmp_path / "logs")
    change(tmp_path / "logs")
    assert fates(tmp_path / "logs")["stray-0"] == "served"


def test_faults_of_its_own_files_are_forecast(tmp_path: Path) -> None:
    """The others have all of the metadata, but the broker reads its own files first."""
    broker = cluster(tmp_path / "logs")
    (broker / METADATA / "quorum-state").write_text("{")
    (forecast,) = (one for one in forecast_brokers([str(tmp_path / "logs")], None) if one.node_id == 1)
    assert (forecast.outcome, len(forecast.refusals)) == ("refuses", 1)


def test_a_metadata_log_that_is_cut_off_is_completed(tmp_path: Path) -> None:
    """Its own log is as long as the others, and damaged."""
    broker = cluster(tmp_path / "logs")
    log = broker / METADATA / LOG
    shutil.copy(tmp_path / "logs" / "broker-3" / METADATA / LOG, log)
    data = bytearray(log.read_bytes())
    data[9150:9180] = bytes(30)
    log.write_bytes(data)
    shutil.copy(tmp_path / "logs" / "broker-3" / EPOCHS, broker / EPOCHS)
    assert fates(broker)["stray-0"] == "served"
    assert fates(tmp_path / "logs")["stray-0"] == "stray"


def test_equal_logs_change_nothing(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "replication", tmp_path / "logs")
    together = {one.node_id: one for one in forecast_brokers([str(tmp_path / "logs")], None)}
    for number in (1, 3):
        (alone,) = forecast_brokers([str(tmp_path / "logs" / f"broker-{number}")], None)
        assert list(together[number].all_effects()) == list(alone.all_effects())
