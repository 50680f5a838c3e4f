"""A metadata log that a broker with ZooKeeper left over from a migration that was rolled back."""

from __future__ import annotations

import shutil
from os import utime
from pathlib import Path

import pytest

from kforensics.forensics.audit.setting_evidence import setting_evidence
from kforensics.forensics.checks.partition import start_effects
from kforensics.forensics.forecast.next_start import forecast_start
from kforensics.forensics.metadata.cluster_metadata import metadata_records
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.kept_times import newest_time_in
from kforensics.forensics.partition.unused_metadata import COPYING_MS, KEPT_MS, STOPPING_MS, unused_since
from kforensics.parsers.files.log_names import METADATA_TOPIC
from tests.command import SAMPLES, run
from tests.forensics.checks.partition.check_runs import RULES
from tests.forensics.partition_states import partitions_under

BROKER = SAMPLES / "unclean-election" / "broker-2"
MARKER = ".kafka_cleanshutdown"
MINUTE_MS = 60_000


def _newest(folder: Path) -> int:
    return newest_time_in(str(max((folder / f"{METADATA_TOPIC}-0").glob("*.log")))) or 0


def _broker(folder: Path, later_ms: int, *, version: int = 0, copied_ms: int = 0, clean: bool = True) -> Path:
    """Return a broker that went on running after the last write to its metadata log.

    Args:
        folder: where to put it.
        later_ms: for how long.
        version: of its ``meta.properties``.
        copied_ms: how much later than it was written the metadata log was copied without its file times.
        clean: whether it was shut down cleanly.
    """
    shutil.copytree(BROKER, folder)
    (folder / "meta.properties").write_text(
        (folder / "meta.properties").read_text("ascii").replace("version=1", f"version={version}"), "ascii"
    )
    if not clean:
        (folder / MARKER).unlink()
    written = _newest(folder) + copied_ms
    for path in folder.rglob("*"):
        is_metadata = path.parent.name == f"{METADATA_TOPIC}-0"
        utime(path, ns=((written if is_metadata else written + later_ms) * 1_000_000,) * 2)
    return folder


def _unused_since(folder: Path) -> int | None:
    (metadata,) = (one for one in partitions_under(folder) if one.place.topic == METADATA_TOPIC)
    since = unused_since(metadata.log_dir)
    assert bool(list(metadata_records([metadata], ("TopicRecord",)))) == (since is None)
    return since


def test_a_broker_that_ran_on_with_zookeeper_left_its_metadata_log(tmp_path: Path) -> None:
    assert _unused_since(_broker(tmp_path / "b", MINUTE_MS)) == _newest(BROKER)
    assert _unused_since(_broker(tmp_path / "running", COPYING_MS + MINUTE_MS, clean=False)) == _newest(BROKER)


@pytest.mark.parametrize(
    ("later_ms", "version", "copied_ms", "clean"),
    [
        pytest.param(MINUTE_MS, 1, 0, True, id="with KRaft, cut off from its controllers"),
        pytest.param(STOPPING_MS, 0, 0, True, id="being migrated, stopped"),
        pytest.param(-500, 0, 0, True, id="being migrated, its metadata log closed last"),
        pytest.param(COPYING_MS, 0, 0, False, id="being migrated, copied slowly while it ran"),
        pytest.param(MINUTE_MS, 0, 2 * KEPT_MS, True, id="copied without file times"),
    ],
)
def test_the_metadata_log_of_other_brokers_is_in_force(
    later_ms: int, version: int, copied_ms: int, clean: bool, tmp_path: Path
) -> None:
    folder = _broker(tmp_path / "b", later_ms, version=version, copied_ms=copied_ms, clean=clean)
    assert _unused_since(folder) is None


@pytest.mark.parametrize("later_ms", [0, MINUTE_MS])
def test_only_a_metadata_log_in_force_makes_topics_stray(later_ms: int, tmp_path: Path) -> None:
    folder = _broker(tmp_path / "b", later_ms)
    (folder / "lossy-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg\n", "ascii")
    findings = [
        (state.partition.name, finding.code.name)
        for state in (examine(partition, RULES) for partition in partitions_under(folder))
        for finding in start_effects.findings(state)
    ]
    forecast = forecast_start([str(folder)])
    strays = [each.topic for each, effect in forecast.all_effects() if each is not None and effect.kind == "stray"]
    assert strays == ["lossy"] * (later_ms == 0)
    assert ("lossy-0", "start-stray") in findings or later_ms
    assert not findings or not later_ms
    assert forecast.has_zookeeper == (later_ms > 0)


@pytest.mark.parametrize("later_ms", [0, MINUTE_MS])
def test_only_a_metadata_log_in_force_shows_settings_and_lagging_replicas(later_ms: int, tmp_path: Path) -> None:
    partitions = partitions_under(_broker(tmp_path / "b", later_ms))
    (metadata,) = (one for one in partitions if one.place.topic == METADATA_TOPIC)
    evidence = setting_evidence(metadata, RULES.as_of_ms)
    assert evidence is not None  # its snapshots show how long producers are kept
    assert (evidence.running_ms is None) == (evidence.release is None) == (later_ms > 0)


def test_cluster_shows_such_a_log_and_says_so(tmp_path: Path) -> None:
    assert "not in force" not in run("cluster", _broker(tmp_path / "b", 0)).text
    assert "not in force since" in run("cluster", _broker(tmp_path / "c", MINUTE_MS)).text
