"""Forecasts of a broker of 4.3.1 with three log directories, one of which was replaced, and a controller apart.

``after`` is what the brokers answered once the broker was started on these files.
"""

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.errors import UsageError
from kforensics.forensics.forecast.broker_forecast import COPIED, CREATED, REFUSES, STARTS, WITHOUT_LEADER
from kforensics.forensics.forecast.effects import DIRECTORY_LOST
from kforensics.forensics.forecast.forecast_rows import remedies
from kforensics.forensics.forecast.identity import UNFORMATTED
from kforensics.forensics.forecast.metadata_loading import NOT_KNOWN
from kforensics.forensics.forecast.next_start import forecast_start
from kforensics.forensics.forecast.partition_fates import ELIGIBLE_LEADERS, PartitionFates
from tests.command import ROOT, run
from tests.forensics.partition_states import SAMPLES

DATA = ROOT / "tests" / "data" / "forecast"


def unpacked(name: str, folder: Path) -> tuple[list[str], dict[str, Any]]:
    """Return the log directories in an archive, and what the brokers answered after the start."""
    with zipfile.ZipFile(DATA / f"4.3.1-{name}.zip") as archive:
        archive.extractall(folder)
    after: dict[str, Any] = json.loads((folder / "truth.json").read_text(encoding="utf-8"))["j"]
    return [str(folder / "broker-1" / disk) for disk in ("d0", "d1", "d2")], after


def test_partitions_of_a_replaced_disk_are_copied_from_their_leaders(tmp_path: Path) -> None:
    paths, after = unpacked("replaced-disk", tmp_path)
    forecast = forecast_start(paths)
    assert forecast.outcome == STARTS
    lost = {each.partition for each in forecast.partitions if each.folder is None}
    assert lost == {4, 5}
    assert {effect.kind for part, effect in forecast.all_effects() if part and part.partition in lost} == {COPIED}
    # Another replica led them, and this one was in sync again soon.
    assert {(after[str(each)]["leader"], *after[str(each)]["isr"], after[str(each)]["latest"]) for each in lost} == {
        (2, 1, 2, 5)
    }
    assert run("forecast", "--fail-on", "critical", *paths).code == 0


def test_an_emptied_disk_is_refused_however_its_folder_is_given(tmp_path: Path) -> None:
    """A broker of 4.4.0 whose disk was not mounted ended with this exception."""
    folder = tmp_path / "broker-1"
    shutil.copytree(SAMPLES / "log-dirs" / "broker-1", folder)
    paths = sorted(folder.iterdir())
    (folder / "lost+found").mkdir()
    (folder / "backup").mkdir()
    assert ": starts" in run("forecast", folder).lines[0], "all that it registered last are there"
    emptied = paths[-1]
    shutil.rmtree(emptied)
    (folder / "backup").rmdir()
    assert ": starts" in run("forecast", folder).lines[0], "no folder shows where it was"
    emptied.mkdir()
    for given in ([folder], paths):
        ended = run("forecast", *given)
        assert ended.lines[0].endswith(": refuses")
        assert UNFORMATTED.format(emptied) in ended.text
    (folder / "backup").mkdir()
    assert ": starts" in run("forecast", folder).lines[0], "either folder may have been the log directory"


def test_partitions_without_another_replica_are_served_empty(tmp_path: Path) -> None:
    """Another controller elects the broker, as an eligible leader replica."""
    paths, after = unpacked("replaced-disk-alone", tmp_path)
    forecast = forecast_start(paths)
    empty = {each.partition for each in forecast.partitions if each.folder is None}
    assert empty == {int(number) for number, each in after.items() if each["latest"] == 0} == {0, 3}
    assert {after[str(each)]["leader"] for each in empty} == {1}
    effects = [effect for part, effect in forecast.all_effects() if part and part.partition in empty]
    assert {effect.kind for effect in effects} == {CREATED}
    assert all(effect.detail.endswith("it is served empty") for effect in effects)


def test_without_eligible_leader_replicas_they_have_no_leader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So 3.9.1 did with the same directories; the advice is not to put an id back whose log is gone."""
    paths, _ = unpacked("replaced-disk-alone", tmp_path)
    assign = PartitionFates.assign

    def of_an_older_release(fates: PartitionFates) -> None:
        assert fates.forecast.metadata is not None
        assert fates.forecast.metadata.image.features.pop(ELIGIBLE_LEADERS) == 1
        assign(fates)

    monkeypatch.setattr(PartitionFates, "assign", of_an_older_release)
    forecast = forecast_start(paths)
    empty = [each for each in forecast.partitions if each.folder is None]
    assert {each.partition for each in empty} == {0, 3}
    assert {each.fate for each in empty} == {WITHOUT_LEADER}
    assert [effect.kind for each in empty for effect in each.effects] == [DIRECTORY_LOST] * 2
    assert not any("Put the directory.id back" in step.text for step in remedies(forecast, ""))


def test_the_broker_with_id_0_is_a_broker_like_any_other(tmp_path: Path) -> None:
    """3.9.1 started with an empty second disk, and its partitions had no leader; without that disk it refuses."""
    with zipfile.ZipFile(DATA / "3.9.1-broker-0-replaced-disk.zip") as archive:
        archive.extractall(tmp_path)
    after = json.loads((tmp_path / "truth.json").read_text(encoding="utf-8"))["after"]
    lost = {int(number) for number, each in after.items() if each["leader"] == -1}
    paths = [str(tmp_path / "broker-0" / disk) for disk in ("d0", "d1")]
    forecast = forecast_start(paths)
    assert {each.partition for each in forecast.partitions if each.fate == WITHOUT_LEADER} == lost == {0, 2, 4}
    assert {each.partition for each in forecast_start(paths[:1]).partitions} == {1, 3, 5}, "the others are elsewhere"


@pytest.mark.parametrize("content", [None, b""])
def test_log_directories_without_an_identity_are_of_either_kind(content: bytes | None, tmp_path: Path) -> None:
    """A broker with ZooKeeper writes it again; one with KRaft, whose metadata log is elsewhere, refuses."""
    paths, _ = unpacked("replaced-disk", tmp_path)
    identity = Path(paths[1]) / "meta.properties"
    identity.unlink()
    if content is not None:
        identity.write_bytes(content)
    forecast = forecast_start(paths[1:2])
    assert (forecast.outcome, forecast.has_zookeeper) == (NOT_KNOWN, False)


def test_a_disk_that_is_not_formatted_is_refused(tmp_path: Path) -> None:
    paths, _ = unpacked("replaced-disk", tmp_path)
    shutil.rmtree(paths[2])
    Path(paths[2]).mkdir()
    forecast = forecast_start(paths)
    assert forecast.outcome == REFUSES
    assert [refusal.message for refusal in forecast.refusals] == [UNFORMATTED.format(paths[2])]
    ended = run("forecast", *paths)
    assert ended.code == 1
    assert ended.lines[0].endswith(": refuses")
    assert any("kafka-storage.sh format --ignore-formatted" in line for line in ended.lines)


def test_a_log_directory_that_is_not_named_is_mentioned(tmp_path: Path) -> None:
    """The folder of the broker has an empty folder, which is no log directory by itself."""
    paths, _ = unpacked("replaced-disk", tmp_path)
    shutil.rmtree(paths[1])
    shutil.rmtree(paths[2])
    Path(paths[2]).mkdir()
    for forecast_of in (tmp_path / "broker-1", paths[0]):
        ended = run("forecast", forecast_of)
        assert sum("is none of these" in line for line in ended.lines) == 2
    with pytest.raises(UsageError, match="there is no log directory"):
        kforensics.forecast(paths[2])


@pytest.mark.parametrize("other", ["controller", "deeper/controller"])
def test_log_directories_at_other_depths_are_found(other: str, tmp_path: Path) -> None:
    paths, _ = unpacked("replaced-disk", tmp_path / "cluster")
    target = tmp_path / "cluster" / other
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(paths[0], target)
    (target / "meta.properties").write_text("version=1\nnode.id=101\ncluster.id=a2ZvcmVuc2ljcy1sYWItMQ\n")
    ended = run("forecast", tmp_path / "cluster")
    assert sum(" on " in line and line.startswith(("broker", "controller")) for line in ended.lines) == 2
