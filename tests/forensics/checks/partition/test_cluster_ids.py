"""Cluster ids that contradict a metadata log, and those of several clusters that do not."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from kforensics.analyses.forecast import forecast_brokers
from kforensics.forensics.checks.partition import cluster_ids
from kforensics.forensics.core.findings import Finding
from kforensics.forensics.forecast.effects import OTHER_CLUSTER
from kforensics.forensics.partition.examine import examine
from lab.forecast.bases import BASES, unpack
from lab.forecast.cases import cases_of
from tests.command import run
from tests.forensics.checks.partition.check_runs import HEALTHY_SCENARIOS, RULES, findings_in_sample
from tests.forensics.partition_states import SAMPLES, partitions_under

CHECKS = [cluster_ids]
FIRES = {"start-other-cluster": "test_a_broker_that_names_another_cluster_is_found"}
SILENT = {"start-other-cluster": "test_log_directories_of_healthy_clusters_are_silent"}
CLUSTER = "unclean-election"
OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def _rename_cluster(log_dir: Path) -> None:
    meta = log_dir / "meta.properties"
    meta.write_text(re.sub("cluster.id=.*", f"cluster.id={OTHER_ID}", meta.read_text("ascii")), "ascii")


def _found(folder: Path) -> list[Finding]:
    states = (examine(partition, RULES) for partition in partitions_under(folder))
    return [finding for state in states for finding in cluster_ids.findings(state)]


def _forecast(*folders: Path) -> list[str]:
    """The log directories of which a forecast says that they are of another cluster."""
    forecasts = forecast_brokers([str(folder) for folder in folders], None)
    return [str(effect.path) for each in forecasts for _, effect in each.all_effects() if effect.kind == OTHER_CLUSTER]


@pytest.mark.parametrize("scenario", HEALTHY_SCENARIOS)
def test_log_directories_of_healthy_clusters_are_silent(scenario: str) -> None:
    assert findings_in_sample(scenario, CHECKS) == {}


@pytest.mark.parametrize("broker", [1, 2, 3])
def test_a_broker_that_names_another_cluster_is_found(broker: int, tmp_path: Path) -> None:
    """By ``verify`` and by ``forecast``; not the two others, which agree with each other."""
    shutil.copytree(SAMPLES / CLUSTER, tmp_path / "c")
    log_dir = tmp_path / "c" / f"broker-{broker}"
    _rename_cluster(log_dir)
    (finding,) = _found(tmp_path / "c")
    assert finding.path == f"{log_dir}/meta.properties"
    assert finding.evidence["cluster_id"] == OTHER_ID
    assert f"`kforensics forecast {tmp_path}/c`" in (finding.remedy or "")
    assert _forecast(tmp_path / "c") == [finding.path]
    ended = run("forecast", tmp_path / "c")
    assert ended.code == 1
    assert f"cluster.id of the other log directories into {finding.path}" in " ".join(ended.text.split())


def test_a_broker_without_a_metadata_log_of_its_own_is_found(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / CLUSTER, tmp_path / "c")
    log_dir = tmp_path / "c" / "broker-2"
    shutil.rmtree(log_dir / "__cluster_metadata-0")
    _rename_cluster(log_dir)
    assert [finding.path for finding in _found(tmp_path / "c")] == [f"{log_dir}/meta.properties"]


def test_log_directories_of_one_broker_are_refused_as_the_broker_did(tmp_path: Path) -> None:
    """Given as one folder, too: by their cluster ids they would be two brokers."""
    base = next(base for base in BASES if base.state == "jbod")
    unpack(base, tmp_path)
    next(case for case in cases_of(base) if case.name == "second-meta-other-cluster").doctor(tmp_path / "data")
    (forecast,) = forecast_brokers([str(tmp_path / "data")], None)
    assert forecast.outcome == "refuses"
    assert forecast.refusals[0].message.startswith("Invalid cluster.id in: ")
    assert [finding.path for finding in _found(tmp_path / "data")] == [f"{tmp_path}/data/b/meta.properties"]


def test_two_clusters_beside_each_other_are_silent(tmp_path: Path) -> None:
    """Their brokers have the same node ids, and each metadata log has its own."""
    for scenario, prefix in ((CLUSTER, "one"), ("replication", "other")):
        for broker in (1, 2, 3):
            copied = tmp_path / f"{prefix}-{broker}"
            shutil.copytree(SAMPLES / scenario / f"broker-{broker}", copied)
            if prefix == "other":
                _rename_cluster(copied)
    assert _found(tmp_path) == []
    assert _forecast(tmp_path) == []


def test_a_cluster_copied_under_another_id_is_silent(tmp_path: Path) -> None:
    """The copies have the same directory ids, each set in the metadata log of both."""
    for broker in (1, 2, 3):
        for prefix in ("one", "other"):
            shutil.copytree(SAMPLES / CLUSTER / f"broker-{broker}", tmp_path / f"{prefix}-{broker}")
        _rename_cluster(tmp_path / f"other-{broker}")
    assert _found(tmp_path) == []
    assert _forecast(tmp_path) == []


@pytest.mark.parametrize("release", ["4.4.0", "3.9.1", "3.6.2"])
def test_a_lone_broker_with_another_cluster_id_is_silent(release: str, tmp_path: Path) -> None:
    """No file contradicts it, and the recorded brokers started and served all partitions."""
    base = next(base for base in BASES if base.name == f"{release}-stopped")
    unpack(base, tmp_path)
    next(case for case in cases_of(base) if case.name == "meta-other-cluster").doctor(tmp_path / "data")
    assert _found(tmp_path / "data") == []
    assert _forecast(tmp_path / "data") == []
