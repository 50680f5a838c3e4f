"""Which copies an audit compares."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.copies import Copies, compared_copies, copies_among, copies_of, elected_in
from kforensics.forensics.core.rules import Rules
from tests.forensics.cases import SAMPLES, partitions_under
from tests.forensics.events import NOW
from tests.forensics.forge import forge

RULES = Rules(NOW)


def _copies(folder: Path) -> list[Copies]:
    partitions = partitions_under(folder)
    return list(copies_among(partitions, Clusters.of(partitions)))


def _broker(folder: Path, number: int, cluster: str = "c", text: str = "D 1 0 0-0 @0-0 N") -> None:
    forge(folder, text)
    (folder / "meta.properties").write_text(f"version=1\nnode.id={number}\ncluster.id={cluster}\n", "ascii")


def test_each_partition_of_three_brokers_is_compared_once() -> None:
    found = {one.partitions[0].name: len(one.partitions) for one in _copies(SAMPLES / "replication")}
    assert found == {
        "__cluster_metadata-0": 3,
        "__transaction_state-0": 3,
        "durable-0": 3,
        "reassigned-0": 2,
        "replicated-0": 3,
        "replicated-1": 3,
        "unclean-0": 2,
    }


def test_the_metadata_tells_of_the_unclean_election() -> None:
    (unclean,) = (one for one in _copies(SAMPLES / "replication") if one.partitions[0].name == "unclean-0")
    assert [one.is_unclean for one in unclean.elections].count(True) == 1
    found = compared_copies(unclean, RULES, workers=0)
    assert "replica-divergence" in {one.code.name for one in found.findings}
    assert (found.is_counted, found.place.broker_id, found.place.topic) == (False, None, "unclean")
    assert [*found.rows["lost_records"]]


def test_clusters_have_nothing_to_do_with_each_other(tmp_path: Path) -> None:
    _broker(tmp_path / "a", 1, "one")
    _broker(tmp_path / "b", 2, "two", "D 2 0 0-3 @0-3 N")
    assert _copies(tmp_path) == []


def test_of_two_copies_of_one_broker_the_newer_one_counts(tmp_path: Path) -> None:
    for name, number, when in (("old", 1, 10), ("new", 1, 20), ("other", 2, 5)):
        _broker(tmp_path / name, number)
        for path in (tmp_path / name / "t-0").iterdir():
            os.utime(path, (when, when))
    (found,) = _copies(tmp_path)
    assert [Path(one.log_dir.path or "").name for one in found.partitions] == ["new", "other"]


def test_copies_of_unknown_brokers_are_compared(tmp_path: Path) -> None:
    for name in "ab":
        forge(tmp_path / name, "D 1 0 0-0 @0-0 N")
        (tmp_path / name / "meta.properties").unlink()
    (found,) = _copies(tmp_path)
    assert [Path(one.log_dir.path or "").name for one in found.partitions] == ["a", "b"]


@pytest.mark.parametrize("broken", ["a", "b"])
def test_a_copy_that_cannot_be_read_is_left_to_its_own_verdict(broken: str, tmp_path: Path) -> None:
    for name, number in (("a", 1), ("b", 2)):
        _broker(tmp_path / name, number)
    (found,) = _copies(tmp_path)
    (log,) = (tmp_path / broken / "t-0").glob("*.log")
    log.unlink()
    judgement = compared_copies(found, RULES, workers=0)
    assert (judgement.findings, judgement.rows, judgement.is_counted) == ((), {}, False)


def test_copies_can_be_taken_partition_by_partition() -> None:
    """As tasks on workers do, which have the elections from elsewhere."""
    partitions = partitions_under(SAMPLES / "replication")
    clusters = Clusters.of(partitions)
    elected = list(elected_in(partitions, clusters))
    assert {one.topic for one in elected} >= {"unclean", "replicated", "durable"}
    names = sorted({one.name for one in partitions})
    some = [copies_of([one for one in partitions if one.name == name], clusters, elected) for name in names]
    assert [copies for found in some for copies in found] == list(copies_among(partitions, clusters))


def test_metadata_that_cannot_be_read_tells_of_no_election(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "replication", tmp_path / "copy")
    partitions = partitions_under(tmp_path / "copy")
    for log in (tmp_path / "copy").glob("*/__cluster_metadata-0/*.log"):
        log.unlink()
    clusters = Clusters.of(partitions)
    assert list(elected_in(partitions, clusters)) == []
    assert {one.elections for one in copies_among(partitions, clusters)} == {()}
