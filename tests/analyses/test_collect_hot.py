"""Copies of a broker that writes, by real clients, show nothing that is not so."""

from __future__ import annotations

import fcntl
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Event, Thread

import pytest

import kforensics
from kforensics.analyses.collect import collect_files
from kforensics.parsers.files.log_capture import find_log_files
from lab.broker import make_cluster, running
from lab.driver import Driver, driving, records
from lab.jars import broker_jars
from lab.places import CACHE
from tests.thorough import share

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.repository]

VERSION = "4.4.0"
COPIES = 50
ALARMS = ("warning", "error", "critical")
CONFIG = {"transaction.state.log.num.partitions": "3", "offsets.topic.num.partitions": "3"}
TOPICS = {
    "plain": {},
    "deleted": {"retention.bytes": "1000000", "segment.bytes": "1048576"},
    "compacted": {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"},
}


def write(driver: Driver, stop: Event) -> None:
    """Commit and abort transactions with the offsets of a group until told to stop; each of them ends."""
    dice = Random(23)  # noqa: S311  # the same every time
    driver.ask("producer", name="p", config={"transactional.id": "tx", "linger.ms": "0"})
    driver.ask("init_transactions", name="p")
    while not stop.is_set():
        driver.ask("begin", name="p")
        for _ in range(3):
            place = {"topic": dice.choice([*TOPICS]), "partition": dice.randrange(3)}
            driver.ask("send", name="p", **place, records=records("k", dice.randrange(1, 20), 400))
        end = driver.ask("list_offset", topic="plain", partition=0, spec="latest")
        driver.ask("send_offsets", name="p", group="g", topic="plain", partition=0, offset=end, metadata="")
        driver.ask("commit" if dice.random() < 0.9 else "abort", name="p")


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the log directory of a broker under load."""
    if shutil.which("mvn") is None:
        pytest.skip("mvn fetches Kafka's brokers, and is not installed here")
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        broker_jars(VERSION)
    folder, stop = tmp_path_factory.mktemp("hot"), Event()
    cluster = make_cluster(folder / "run", VERSION, 1, CONFIG)
    cluster.format()
    with running(cluster), driving(cluster.bootstrap, folder / "driver.out") as driver:
        for topic, config in TOPICS.items():
            driver.ask("create_topic", name=topic, partitions=3, replicas=1, config=config)
        client = Thread(target=write, args=(driver, stop))
        client.start()
        try:
            yield cluster.nodes[0].data
        finally:
            stop.set()
            client.join()


@pytest.mark.timeout(3600)
def test_copies_of_a_broker_under_load_show_nothing_false(log_dir: Path, tmp_path: Path) -> None:
    """All transactions end in time and offsets advance, so there is nothing at warning or above to find.

    A copy takes seconds, in which the broker goes on, as hours would for a large one.
    """
    found: dict[int, list[str]] = {}
    offsets = []
    for number in range(share(COPIES, 10)):
        archive = tmp_path / f"{number}.tar.zst"
        assert not collect_files(find_log_files([str(log_dir)]), str(archive), lambda _: time.sleep(0.02)).unreadable
        audit = kforensics.audit(archive)
        alarms = [row["message"] for row in audit.findings.to_pylist() if row["severity"] in ALARMS]
        found |= {number: alarms} if alarms else {}
        offsets.append(sum(row["log_end_offset"] for row in audit.partitions.to_pylist()))
        archive.unlink()
    assert found == {}
    assert offsets == sorted(set(offsets))
