"""The cluster that Spark's tests run on: it works, loses executors, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.clusters import Cluster, standalone_cluster

pytestmark = pytest.mark.spark
TASKS = 8
# Each attempt leaves a file; none ends before the test lets it.
JOB = """
import sys, time, uuid
from pathlib import Path
from pyspark.sql import SparkSession

folder = Path(sys.argv[1])

def square(number):
    (folder / f"{number}-{uuid.uuid4()}").touch()
    while not (folder / "go").exists():
        time.sleep(0.02)
    return number * number

builder = SparkSession.builder
for word in sys.argv[3:]:
    name, _, value = word.partition("=")
    builder = builder.config(name, value)
session = builder.getOrCreate()
tasks = int(sys.argv[2])
print(sum(session.sparkContext.parallelize(range(tasks), tasks).map(square).collect()))
session.stop()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a cluster with two workers of one core each; nothing of it may be left."""
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        assert len(cluster._processes()) == 3
        yield cluster
    assert cluster._processes() == []


def started(cluster: Cluster, folder: Path) -> subprocess.Popen[str]:
    """Begin the job on a cluster."""
    properties = [f"{name}={value}" for name, value in cluster.conf.items()]
    return subprocess.Popen(
        [sys.executable, "-c", JOB, str(folder), str(TASKS), *properties],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_attempts(folder: Path, job: subprocess.Popen[str], count: int) -> None:
    """Wait until so many tasks have begun; a job that ends before is a failure."""
    until = time.monotonic() + 90
    while len(list(folder.iterdir())) < count:
        assert job.poll() is None, job.communicate()[1][-2000:]
        assert time.monotonic() < until, "no task has begun"
        time.sleep(0.05)


def test_a_job_survives_the_loss_of_an_executor(cluster: Cluster, tmp_path: Path) -> None:
    """Two tasks run at a time, one on each executor; so one is lost with either of them, and done again."""
    with started(cluster, tmp_path) as job:
        wait_for_attempts(tmp_path, job, 2)
        before = cluster.executors()
        killed = cluster.kill_executor()
        (tmp_path / "go").touch()
        out, said = job.communicate(timeout=90)
    assert out == f"{sum(number * number for number in range(TASKS))}\n", said[-2000:]
    assert len(before) == 2
    assert killed in before
    attempts = [path.name.partition("-")[0] for path in tmp_path.iterdir() if path.name != "go"]
    assert set(attempts) == {str(number) for number in range(TASKS)}
    assert len(attempts) > TASKS


def test_executors_inherit_what_they_are_given_and_nothing_is_left(tmp_path: Path) -> None:
    """Credentials of a store come from the environment of whoever reads."""
    with standalone_cluster(tmp_path, workers=0, environment={"AWS_REGION": "nowhere"}) as cluster:
        (master,) = cluster._processes()
        variables = Path(f"/proc/{master}/environ").read_text().split("\0")
        assert cluster.url.startswith("spark://127.0.0.1:")
        assert cluster.executors() == []
    assert "AWS_REGION=nowhere" in variables
    assert f"PYSPARK_PYTHON={sys.executable}" in variables
    assert cluster._processes() == []
