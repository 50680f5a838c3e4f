"""Which copies an audit compares."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.copies import Copies, copies_among, copies_of, evaluate_copies, partition_elections
from kforensics.forensics.core.rules import Rules
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import forge
from tests.forensics.partition_states import SAMPLES, partitions_under

RULES = Rules(NOW)


def _copies(folder: Path) -> list[Copies]:
    partitions = partitions_under(folder)
    return list(copies_among(partitions, Clusters.of(partitions)))


def _broker(folder: Path, number: int, cluster: str = "c", text: str = "D 1 0 0-0 @0-0 N") -> None:
    forge(folder, text)
    (folder / "meta.properties").write_text(f"version=1\nnode.id={number}\ncluster.id={cluster}\n", "ascii")


def test_each_partition_of_three_brokers_is_compared_once() -> None:
    compared = {copies.partitions[0].name: len(copies.partitions) for copies in _copies(SAMPLES / "replication")}
    assert compared == {
        "__cluster_metadata-0": 3,
        "__transaction_state-0": 3,
        "durable-0": 3,
        "reassigned-0": 2,
        "replicated-0": 3,
        "replicated-1": 3,
        "unclean-0": 2,
    }


def test_the_metadata_has_the_unclean_election() -> None:
    (unclean,) = (copies for copies in _copies(SAMPLES / "replication") if copies.partitions[0].name == "unclean-0")
    assert [election.is_unclean for election in unclean.elections].count(True) == 1
    result = evaluate_copies(unclean, RULES, workers=0)
    assert "replica-divergence" in {finding.code.name for finding in result.findings}
    assert (result.is_counted, result.place.broker_id, result.place.topic) == (False, None, "unclean")
    assert [*result.rows["lost_records"]]


def test_partitions_of_different_clusters_are_not_compared(tmp_path: Path) -> None:
    _broker(tmp_path / "a", 1, "one")
    _broker(tmp_path / "b", 2, "two", "D 2 0 0-3 @0-3 N")
    assert _copies(tmp_path) == []


def test_of_two_copies_of_one_broker_the_newer_one_is_used(tmp_path: Path) -> None:
    for name, number, when in (("old", 1, 10), ("new", 1, 20), ("other", 2, 5)):
        _broker(tmp_path / name, number)
        for path in (tmp_path / name / "t-0").iterdir():
            os.utime(path, (when, when))
    (copies,) = _copies(tmp_path)
    assert [Path(partition.log_dir.path or "").name for partition in copies.partitions] == ["new", "other"]


def test_copies_of_unknown_brokers_are_compared(tmp_path: Path) -> None:
    for name in "ab":
        forge(tmp_path / name, "D 1 0 0-0 @0-0 N")
        (tmp_path / name / "meta.properties").unlink()
    (copies,) = _copies(tmp_path)
    assert [Path(partition.log_dir.path or "").name for partition in copies.partitions] == ["a", "b"]


@pytest.mark.parametrize("broken", ["a", "b"])
def test_an_unreadable_copy_is_reported_by_its_own_result(broken: str, tmp_path: Path) -> None:
    for name, number in (("a", 1), ("b", 2)):
        _broker(tmp_path / name, number)
    (copies,) = _copies(tmp_path)
    (log,) = (tmp_path / broken / "t-0").glob("*.log")
    log.unlink()
    result = evaluate_copies(copies, RULES, workers=0)
    assert (result.findings, result.rows, result.is_counted) == ((), {}, False)


def test_copies_can_be_selected_partition_by_partition() -> None:
    """Tasks on workers do this, with elections from another task."""
    partitions = partitions_under(SAMPLES / "replication")
    clusters = Clusters.of(partitions)
    elections = list(partition_elections(partitions, clusters))
    assert {entry.topic for entry in elections} >= {"unclean", "replicated", "durable"}
    names = sorted({partition.name for partition in partitions})
    by_name = [[partition for partition in partitions if partition.name == name] for name in names]
    selected = [copies for members in by_name for copies in copies_of(members, clusters, elections)]
    assert selected == list(copies_among(partitions, clusters))


def test_unreadable_metadata_has_no_elections(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "replication", tmp_path / "copy")
    partitions = partitions_under(tmp_path / "copy")
    for log in (tmp_path / "copy").glob("*/__cluster_metadata-0/*.log"):
        log.unlink()
    clusters = Clusters.of(partitions)
    assert list(partition_elections(partitions, clusters)) == []
    assert {copies.elections for copies in copies_among(partitions, clusters)} == {()}
