"""Audits whose tasks have second attempts, and whose executors come and go, leave the tables of an audit in process."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kforensics.spark.audit.run import SparkRequest
from tests.command import SAMPLES
from tests.spark.audits import AS_OF_MS, Stored, audit_elsewhere, audit_in_process, stored
from tests.spark.clusters import Cluster, standalone_cluster
from tests.spark.event_logs import EVENT_LOG, events
from tests.thorough import some

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]
PATHS = tuple(str(SAMPLES / name) for name in some(("replication", "transactions-v2", "duplicates"), 2))
# Second attempts of what takes longer than most tasks of its stage, and of what is the last of few.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.task.duration.threshold": "2s",
}
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.initialExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.dynamicAllocation.shuffleTracking.timeout": "1s",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    "spark.default.parallelism": "2",
}
SECOND_ATTEMPT = re.compile(r"Running task \d+\.1 in stage")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a cluster with two workers, which are on two hosts for Spark."""
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Return what an audit in this process says."""
    return audit_in_process([*PATHS], tmp_path_factory.mktemp("expected") / "store", records=True)


def request_for(folder: Path) -> SparkRequest:
    """Return an audit with all stages."""
    return SparkRequest(
        PATHS, output=str(folder / "store"), as_of_ms=AS_OF_MS, records=True, whole=0, split_size=1, few=0
    )


def conf_for(folder: Path, cluster: Cluster, *, adaptive: bool) -> dict[str, str]:
    """Return the properties of a driver that keeps an event log."""
    (folder / "events").mkdir()
    logged = {**EVENT_LOG, "spark.eventLog.dir": (folder / "events").as_uri()}
    return {**cluster.conf, **logged, "spark.sql.adaptive.enabled": str(adaptive).lower()}


@pytest.mark.parametrize("adaptive", some([False, True], 2, 1))
def test_second_attempts_of_tasks_on_a_machine_that_hangs_change_nothing(
    cluster: Cluster, expected: Stored, tmp_path: Path, *, adaptive: bool
) -> None:
    """The first attempts go on once a second one runs, so that two attempts of a task write at the same time."""
    before = cluster.executor_logs()
    conf = conf_for(tmp_path, cluster, adaptive=adaptive) | SPECULATION
    driver = audit_elsewhere(conf, request_for(tmp_path))
    until = time.monotonic() + 400
    while not list(tmp_path.glob(".store.*/*/part-copies-*")):
        assert driver.poll() is None, driver.communicate()[0]
        assert time.monotonic() < until, "the stage has left no file"
        time.sleep(0.02)
    with cluster.hanging_executor():
        while not any(
            SECOND_ATTEMPT.search(log.read_text("utf-8", "replace")) for log in cluster.executor_logs() - before
        ):
            assert driver.poll() is None, driver.communicate()[0]
            assert time.monotonic() < until, "no task has a second attempt"
            time.sleep(0.1)
    output, _ = driver.communicate(timeout=500)
    assert driver.returncode == 0, output
    assert any(event["Task Info"]["Speculative"] for event in events(tmp_path / "events", "TaskStart"))
    found = stored(tmp_path / "store")
    for name, rows in expected.items():
        assert found[name] == rows, name
    assert sum(map(len, found.values())) > 100


def test_executors_that_come_and_go_change_nothing(cluster: Cluster, expected: Stored, tmp_path: Path) -> None:
    """With dynamic allocation and shuffle tracking, and adaptive execution."""
    driver = audit_elsewhere(conf_for(tmp_path, cluster, adaptive=True) | DYNAMIC, request_for(tmp_path))
    output, _ = driver.communicate(timeout=600)
    assert driver.returncode == 0, output
    kinds = {kind: len(events(tmp_path / "events", kind)) for kind in ("ExecutorAdded", "ExecutorRemoved")}
    assert kinds["ExecutorAdded"] >= 2, kinds
    assert kinds["ExecutorRemoved"] >= 1, kinds
    found = stored(tmp_path / "store")
    for name, rows in expected.items():
        assert found[name] == rows, name
