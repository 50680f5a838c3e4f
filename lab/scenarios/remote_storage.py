"""Tiered storage, with the store that Kafka's own tests use: a folder."""

import time
from pathlib import Path

from lab.broker import Cluster
from lab.driver import Driver, records
from lab.errors import LabError
from lab.jars import Artifact, fetch
from lab.scenario import Scenario, Stage
from lab.scenarios.steps import open_producer, small_segments, transaction

# The newest release whose test jar is published.
KAFKA = "4.3.1"
_PACKAGE = "org.apache.kafka.server.log.remote"
CONFIG = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": f"{_PACKAGE}.storage.LocalTieredStorage",
    "remote.log.storage.manager.impl.prefix": "rsm.config.",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.initialization.retry.interval.ms": "300",
    "remote.log.manager.task.interval.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.segment.delete.delay.ms": "100",
}
_WAIT_SECONDS = 60
_RETAINED = ("kept", "retained", "cut", "retained-and-cut")


def play(stage: Stage) -> None:
    """Segments go to the remote store, leave the local disk, are read back; one topic is deleted."""
    driver = stage.driver
    configs = {"remote.storage.enable": "true", "local.retention.bytes": "1", **small_segments(KAFKA, 1000)}
    for topic in ("tiered", "tiered-deleted"):
        driver.call("create_topic", name=topic, configs=configs)
    open_producer(driver, "p")
    open_producer(driver, "t", "tiered")
    for topic in ("tiered", "tiered-deleted"):
        _write(driver, topic)
    for topic in ("tiered", "tiered-deleted"):
        wait_for_local_deletion(stage, topic)
    driver.call("consumer", name="reader", config={"group.id": "reader", "isolation.level": "read_committed"})
    driver.call("assign", name="reader", topic="tiered", partition=0)
    driver.call("poll", names=["reader"], milliseconds=3000)
    driver.call("delete_topic", name="tiered-deleted")
    driver.call("pause", milliseconds=5000)
    driver.call("delete_records", topic="tiered", partition=0, before=9)
    driver.call("pause", milliseconds=5000)


def play_retention(stage: Stage) -> None:
    """Logs whose start is in remote storage: at offset 0, moved by retention, moved by DeleteRecords, and by both."""
    driver = stage.driver
    configs = {"remote.storage.enable": "true", "local.retention.bytes": "1", **small_segments(KAFKA, 1000)}
    for topic in _RETAINED:
        driver.call("create_topic", name=topic, configs=configs)
    open_producer(driver, "p")
    open_producer(driver, "t", "tiered")
    for topic in _RETAINED:
        _write(driver, topic)
    for topic in _RETAINED:
        wait_for_local_deletion(stage, topic)
    for topic in ("retained", "retained-and-cut"):
        driver.call("alter_config", type="TOPIC", name=topic, configs={"retention.bytes": "1500"})
        _wait_for_start(stage, topic)
    for topic in ("cut", "retained-and-cut"):
        before = 2 + driver.ask("list_offset", topic=topic, partition=0, spec="earliest")
        driver.call("delete_records", topic=topic, partition=0, before=before + 9 * (topic == "cut"))
    driver.call("pause", milliseconds=5000)  # the broker deletes what is before the log start in remote storage
    stage.extra_truth["earliest_local"] = {
        topic: driver.ask("list_offset", topic=topic, partition=0, spec="earliest-local") for topic in _RETAINED
    }


def _wait_for_start(stage: Stage, topic: str) -> None:
    stage.note(f"wait until retention has moved the start of {topic}")
    deadline = time.monotonic() + _WAIT_SECONDS
    while not stage.driver.ask("list_offset", topic=topic, partition=0, spec="earliest"):
        if time.monotonic() > deadline:
            raise LabError(f"retention did not move the start of {topic} within {_WAIT_SECONDS} s")
        time.sleep(0.3)


def _write(driver: Driver, topic: str) -> None:
    for number in range(8):
        driver.send("p", topic, records(f"{topic} {number}", 3, 100))
        if number % 3 == 0:
            transaction(driver, "t", topic, "commit" if number else "abort", 1)


def wait_for_local_deletion(stage: Stage, topic: str, node: int = 1) -> None:
    """Wait until a broker has only the active segment of a topic on its disk, or for a minute."""
    stage.note(f"wait until the old segments of {topic} are in the remote store only")
    folder = stage.cluster.node(node).data / f"{topic}-0"
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline and len(list(folder.glob("*.log"))) > 1:
        time.sleep(0.3)


def prepare(cluster: Cluster) -> list[str]:
    """The store lives in the test jar, which a broker loads from a path of its own."""
    jars = fetch(f"remote-{KAFKA}", [Artifact(f"org.apache.kafka:kafka-storage:{KAFKA}:test")])
    for node in cluster.nodes:
        node.config["remote.log.storage.manager.class.path"] = _test_jar(jars)
        node.config["rsm.config.dir"] = str(node.data.parent / "remote-store")
    return []


def _test_jar(jars: Path) -> str:
    return str(next(jars.glob("kafka-storage-*-test.jar")))


SCENARIOS = [
    Scenario(
        name="remote-storage",
        kafka=KAFKA,
        shows=(
            "Tiered storage: `__remote_log_metadata` with segments copied and deleted and a partition deleted, a"
            " log whose local start is beyond its start, and the cache of remote indexes."
        ),
        play=play,
        config=CONFIG,
        prepare=prepare,
    ),
    Scenario(
        name="remote-retention",
        kafka=KAFKA,
        shows=(
            "Logs whose start is in remote storage: at offset 0 (`kept`), moved by retention (`retained`), by"
            " DeleteRecords (`cut`) and by both. `earliest_local` in `truth.json` is what ListOffsets said of their"
            " parts on disk."
        ),
        play=play_retention,
        config=CONFIG,
        prepare=prepare,
    ),
]
