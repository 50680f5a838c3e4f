"""A broker that was away learns from the controllers what happened since, before it looks at its logs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kforensics.analyses.forecast import forecast_brokers
from kforensics.forensics.metadata.cluster_metadata import log_records
from tests.command import SAMPLES
from tests.forensics.forge import cut

METADATA, LOG = "__cluster_metadata-0", "00000000000000000000.log"
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
