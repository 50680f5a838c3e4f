"""An audit whose executors are killed, in each of its stages, leaves the tables of an audit in process."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kforensics.spark.audit.run import SparkRequest
from tests.command import SAMPLES
from tests.spark.audits import AS_OF_MS, Stored, audit_elsewhere, audit_in_process, stored
from tests.spark.clusters import Cluster, standalone_cluster
from tests.thorough import some

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]
PATHS = tuple(str(SAMPLES / name) for name in some(("replication", "transactions-v2", "duplicates"), 2))
# The first file that a stage leaves; those of clusters, keys and duplicates are stages whose results go to the driver.
STAGES = ("copies", "files", "large", "keys", "duplicates", "cluster")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a cluster with two workers, which start another executor when one is killed."""
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Return what an audit in this process says."""
    return audit_in_process([*PATHS], tmp_path_factory.mktemp("expected") / "store", records=True)


@pytest.mark.parametrize(("number", "stage"), some([*enumerate(STAGES)], 6, 3), ids=some(STAGES, 6, 3))
def test_an_executor_that_is_killed_in_a_stage_changes_nothing(
    cluster: Cluster, expected: Stored, tmp_path: Path, number: int, stage: str
) -> None:
    """With and without adaptive execution; Spark compares the bytes of tasks that run again, as it does by default."""
    request = SparkRequest(
        PATHS, output=str(tmp_path / "store"), as_of_ms=AS_OF_MS, records=True, whole=0, split_size=1, few=0
    )
    adaptive = {"spark.sql.adaptive.enabled": str(bool(number % 2)).lower()}
    driver = audit_elsewhere(cluster.conf | adaptive, request)
    until = time.monotonic() + 400
    while not list(tmp_path.glob(f".store.*/*/part-{stage}-*")):
        assert driver.poll() is None, driver.communicate()[0]
        assert time.monotonic() < until, f"the stage {stage} has left no file"
        time.sleep(0.02)
    cluster.kill_executor()
    output, _ = driver.communicate(timeout=500)
    assert driver.returncode == 0, output
    found = stored(tmp_path / "store")
    for name, rows in expected.items():
        assert found[name] == rows, name
    assert sum(map(len, found.values())) > 100
