"""The cluster that Spark's tests run on: it works, loses executors, and leaves no process or file."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

import pytest

from tests.command import SAMPLES
from tests.spark.clusters import Cluster, standalone_cluster
from tests.spark.object_store import object_store

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]
TASKS = 8
# The first word is how many properties follow; the others are the job's.
SESSION = """
import hashlib, sys, time, uuid
from pathlib import Path
from pyspark.sql import SparkSession

builder, count = SparkSession.builder, int(sys.argv[1])
for word in sys.argv[2 : 2 + count]:
    name, _, value = word.partition("=")
    builder = builder.config(name, value)
words = sys.argv[2 + count :]
context = builder.getOrCreate().sparkContext
"""
# Each attempt leaves a file; none ends before the test lets it.
SQUARES = """
folder = Path(words[0])

def square(number):
    (folder / f"{number}-{uuid.uuid4()}").touch()
    while not (folder / "go").exists():
        time.sleep(0.02)
    return number * number

tasks = int(words[1])
print(sum(context.parallelize(range(tasks), tasks).map(square).collect()))
context.stop()
"""
DIGESTS = """
def digest(uri):
    from kforensics.parsers.files.source import open_source
    with open_source(uri) as source:
        return hashlib.sha256(source.read(0, source.size)).hexdigest()

for found in context.parallelize(words, len(words)).map(digest).collect():
    print(found)
context.stop()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a cluster with two workers of one core each; nothing of it may be left."""
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        assert len(cluster._processes()) == 3
        yield cluster
    assert cluster._processes() == []


def started(job: str, conf: Mapping[str, str], *words: object) -> subprocess.Popen[str]:
    """Begin a job."""
    properties = [f"{name}={value}" for name, value in conf.items()]
    return subprocess.Popen(
        [sys.executable, "-c", SESSION + job, str(len(properties)), *properties, *map(str, words)],
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
    with started(SQUARES, cluster.conf, tmp_path, TASKS) as job:
        wait_for_attempts(tmp_path, job, 2)
        before = cluster.executors()
        killed = cluster.kill_executor()
        (tmp_path / "go").touch()
        out, errors = job.communicate(timeout=90)
    assert out == f"{sum(number * number for number in range(TASKS))}\n", errors[-2000:]
    assert len(before) == 2
    assert killed in before
    attempts = [path.name.partition("-")[0] for path in tmp_path.iterdir() if path.name != "go"]
    assert set(attempts) == {str(number) for number in range(TASKS)}
    assert len(attempts) > TASKS


def test_executors_read_from_a_store(cluster: Cluster, tmp_path: Path) -> None:
    """The driver hands on what leads there."""
    logs = sorted(SAMPLES.glob("transactions-v2/broker-1/*/*.log"))[:6]
    with object_store(tmp_path) as store:
        uris = [store.put(path, f"{path.parent.name}/{path.name}") for path in logs]
        handed_on = {f"spark.executorEnv.{name}": value for name, value in store.environment.items()}
        with started(DIGESTS, cluster.conf | handed_on, *uris) as job:
            out, errors = job.communicate(timeout=90)
    assert out.splitlines() == [sha256(path.read_bytes()).hexdigest() for path in logs], errors[-2000:]


def test_executors_inherit_what_they_are_given_and_nothing_is_left(tmp_path: Path) -> None:
    """Credentials of a store come from the environment of the process that reads."""
    with standalone_cluster(tmp_path, workers=0, environment={"AWS_REGION": "nowhere"}) as cluster:
        (master,) = cluster._processes()
        variables = Path(f"/proc/{master}/environ").read_text().split("\0")
        assert cluster.url.startswith("spark://127.0.0.1:")
        assert cluster.executors() == []
    assert "AWS_REGION=nowhere" in variables
    assert f"PYSPARK_PYTHON={sys.executable}" in variables
    assert cluster._processes() == []
