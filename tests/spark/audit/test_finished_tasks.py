"""An audit that ended early goes on from its finished tasks, and its tables are those of an audit in one process."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kforensics.spark.audit.finished_tasks import FinishedTasks, resume_key
from kforensics.spark.audit.run import SparkRequest
from tests.command import SAMPLES
from tests.forensics.forge import forge
from tests.spark.audits import AS_OF_MS, Stored, audit_elsewhere, audit_here, audit_in_process, read_bytes, stored
from tests.spark.class_archive import local_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SCHEMA = pa.schema([("number", pa.int64()), ("payload", pa.binary())])
KEY, OTHER_KEY = b"k" * 32, b"o" * 32


def batches(*numbers: int) -> list[pa.RecordBatch]:
    """Return a record batch for each number."""
    return [pa.record_batch([pa.array([number]), pa.array([b"x" * number])], SCHEMA) for number in numbers]


class Work:
    """The work of a task, which counts how often it is done."""

    def __init__(self) -> None:
        self.done = 0

    def __call__(self, arriving: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return what arrives."""
        self.done += 1
        yield from arriving


def returned(staging: Path, work: Work, *, key: bytes = KEY, job: str = "job-2", task: int = 3) -> pa.Table:
    """Return what the task returns."""
    stage = FinishedTasks(str(staging), job, key).stage("read")
    return pa.Table.from_batches(stage.of_task(task, iter(batches(1, 2, 3)), work, SCHEMA), SCHEMA)


def test_a_finished_task_returns_what_it_returned_before(tmp_path: Path) -> None:
    work = Work()
    assert returned(tmp_path, work).equals(pa.Table.from_batches(batches(1, 2, 3)))
    assert returned(tmp_path, work).equals(pa.Table.from_batches(batches(1, 2, 3)))
    assert work.done == 1
    assert FinishedTasks(str(tmp_path), "job-2", KEY).count() == 1
    assert FinishedTasks(str(tmp_path), "job-2", KEY).parallelism == 2


def test_other_tasks_and_audits_do_their_own_work(tmp_path: Path) -> None:
    work = Work()
    for _ in range(2):
        returned(tmp_path, work, task=3)
        returned(tmp_path, work, task=4)
        returned(tmp_path, work, job="other-2")
    assert work.done == 3


def test_what_another_key_has_written_is_not_used(tmp_path: Path) -> None:
    work = Work()
    returned(tmp_path, work, key=OTHER_KEY)
    returned(tmp_path, work)
    assert work.done == 2


@pytest.mark.parametrize("damage", ["cut", "flipped", "longer", "length", "of another task", "a pipe"])
def test_what_is_damaged_is_done_again(tmp_path: Path, damage: str) -> None:
    work = Work()
    returned(tmp_path, work)
    path = tmp_path / "_finished" / "job-2" / "read-000003"
    data = path.read_bytes()
    if damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "flipped":
        path.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])
    elif damage == "longer":
        path.write_bytes(data[:8] + data)
    elif damage == "length":
        path.write_bytes(b"\x3f" + data[1:])
    elif damage == "of another task":
        returned(tmp_path, Work(), task=4)
        path.write_bytes((path.parent / "read-000004").read_bytes())
    else:
        path.unlink()
        os.mkfifo(path)
    assert returned(tmp_path, work).num_rows == 3
    assert returned(tmp_path, work).num_rows == 3
    assert work.done == 2


def test_a_task_that_fails_has_not_finished(tmp_path: Path) -> None:
    def fails(arriving: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from arriving
        raise OSError("gone")

    stage = FinishedTasks(str(tmp_path), "job-2", KEY).stage("read")
    with pytest.raises(OSError, match="gone"):
        list(stage.of_task(3, batches(1), fails, SCHEMA))
    assert FinishedTasks(str(tmp_path), "job-2", KEY).count() == 0


def test_the_key_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    key = resume_key()
    assert key is not None
    assert len(key) == 32
    assert resume_key() == key
    path = tmp_path / "kforensics" / "resume-key"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    path.chmod(0o644)
    assert resume_key() is None
    path.unlink()
    path.symlink_to("elsewhere")
    assert resume_key() is None
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nothing")
    assert resume_key() is None


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return copies of samples, with their times, which a test may change."""
    folder = tmp_path_factory.mktemp("logs")
    names = ("transactions-v2", "duplicates")
    return [str(shutil.copytree(SAMPLES / name, folder / name)) for name in names]


@pytest.fixture(scope="module")
def expected(logs: list[str], tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Return what an audit in this process says."""
    return audit_in_process(logs, tmp_path_factory.mktemp("expected") / "store", records=True)


def killed(request: SparkRequest, folder: Path, conf: dict[str, str], finished: int) -> None:
    """Audit until some tasks have finished, and kill the driver and its workers."""
    driver = audit_elsewhere(conf, request, {"XDG_STATE_HOME": str(folder / "state")})
    until = time.monotonic() + 400
    while len(list(folder.glob(".store.*/_finished/*/[a-z]*"))) < finished:
        assert driver.poll() is None, driver.communicate()[0]
        assert time.monotonic() < until, "too few tasks have finished"
        time.sleep(0.01)
    driver.kill()
    driver.communicate(timeout=60)


@pytest.mark.thorough
def test_an_audit_that_was_killed_goes_on(logs: list[str], expected: Stored, tmp_path: Path) -> None:
    store, conf = tmp_path / "store", local_conf()
    request = SparkRequest(
        tuple(logs), output=str(store), as_of_ms=AS_OF_MS, records=True, whole=0, split_size=1, few=0
    )
    killed(request, tmp_path, conf, 12)
    first = {path.name for path in tmp_path.glob(".store.*/_finished/*/[a-z]*")}
    assert not store.exists()
    driver = audit_elsewhere(conf, request, {"XDG_STATE_HOME": str(tmp_path / "state")})
    output, _ = driver.communicate(timeout=400)
    assert driver.returncode == 0, output
    assert f"going on from {len(first)} finished tasks" in output
    assert stored(store) == expected
    assert [path.name for path in tmp_path.iterdir() if path.name != "state"] == ["store"]


@pytest.mark.exhaustive
def test_an_audit_that_was_killed_half_way_reads_the_other_half(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processors get eight tasks that read; after four of them at most 60 % of the bytes are left."""
    logs, store = tmp_path / "logs", tmp_path / "store"
    for number in range(16):
        forge(logs, "D 1 0 0-4 @0-4 T; M 1 0 C 3 @5", topic=f"topic{number:02}")
    size = sum(path.stat().st_size for path in logs.rglob("*.log"))
    request = SparkRequest((str(logs),), output=str(store), as_of_ms=AS_OF_MS, whole=0, split_size=1, alone=True)
    killed(request, tmp_path, local_conf(), 4)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found = audit_here(spark, request)
    assert 0 < read_bytes(store) <= 0.6 * size
    assert found == audit_in_process([str(logs)], tmp_path / "expected")
