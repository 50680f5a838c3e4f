"""What remains after deletion: by offset, by size, by age, of a whole topic."""

import time

from lab.driver import Driver, record, records
from lab.scenario import Scenario, Stage
from lab.scenarios.record_contents import NEW_YEAR
from lab.scenarios.steps import open_producer, small_segments, transaction

_CONFIG = {
    "log.retention.check.interval.ms": "500",
    "log.segment.delete.delay.ms": "3600000",
}


def play(stage: Stage) -> None:
    """One topic per way to lose records."""
    driver, kafka = stage.driver, stage.scenario.kafka
    open_producer(driver, "p")
    open_producer(driver, "t", "deletion")
    _write(driver, kafka, "delete-records")
    driver.call("delete_records", topic="delete-records", partition=0, before=17)
    _write(driver, kafka, "delete-all-records")
    driver.call("delete_records", topic="delete-all-records", partition=0, before=-1)
    _transactional(driver, kafka)
    _write(driver, kafka, "retention-size", **{"retention.bytes": "2500"})
    _write(driver, kafka, "retention-time", **{"retention.ms": "60000"})
    _write(driver, kafka, "topic-deleted")
    _write(driver, kafka, "topic-recreated")
    for topic in ("topic-deleted", "topic-recreated"):
        driver.call("delete_topic", name=topic)
    _wait_for_deletion(stage)
    _write(driver, kafka, "topic-recreated")


def _write(driver: Driver, kafka: str, topic: str, **extra: str) -> None:
    driver.call("create_topic", name=topic, configs={**small_segments(kafka, 1000), **extra})
    for number in range(12):
        batch = [record(f"{number}-{each}", "." * 100, NEW_YEAR + 1000 * number) for each in range(2)]
        driver.send("p", topic, batch)


def _transactional(driver: Driver, kafka: str) -> None:
    """The log start moves into the middle of an aborted transaction."""
    topic = "delete-records-transactional"
    driver.call("create_topic", name=topic, configs=small_segments(kafka, 600))
    transaction(driver, "t", topic, "commit", 2)
    transaction(driver, "t", topic, "abort", 3, 3, 3)
    transaction(driver, "t", topic, "commit", 2, 2)
    driver.call("delete_records", topic=topic, partition=0, before=7)
    driver.call("begin", name="t")
    driver.send("t", topic, records("open", 2))


def _wait_for_deletion(stage: Stage) -> None:
    """Retention runs twice a second; a deleted topic's folders are renamed at once."""
    stage.note("wait for retention")
    data = stage.cluster.node(1).data
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        aged = list((data / "retention-time-0").glob("*.log"))
        if len(list(data.glob("*-delete"))) == 2 and len(aged) == 1 and aged[0].stat().st_size == 0:
            return
        time.sleep(0.2)


def play_two_disks(stage: Stage) -> None:
    """A replica that has moved from one log dir to another, and one caught on its way."""
    driver = stage.driver
    driver.call("create_topic", name="moving", configs=small_segments(stage.scenario.kafka, 2000))
    driver.call("create_topic", name="moved", configs=small_segments(stage.scenario.kafka, 2000))
    open_producer(driver, "p")
    open_producer(driver, "t", "moving")
    for number in range(10):
        driver.send("p", "moving", records(f"moving {number}", 3, 100))
    driver.send("p", "moved", records("moved", 3))
    transaction(driver, "t", "moving", "abort", 2)
    _move(stage, "moved")
    time.sleep(3)
    throttle = {"replica.alter.log.dirs.io.max.bytes.per.second": "1"}
    driver.call("alter_config", type="BROKER", name="1", configs=throttle)
    _move(stage, "moving")
    time.sleep(3)


def _move(stage: Stage, topic: str) -> None:
    data = stage.cluster.node(1).data
    source = next(data.glob(f"*/{topic}-0")).parent.name
    target = "disk-2" if source == "disk-1" else "disk-1"
    stage.driver.call("move_replica", topic=topic, partition=0, broker=1, path=str(data / target))
    stage.driver.journal[-1] = f"move_replica topic={topic} partition=0 broker=1 path={target}"


SCENARIOS = [
    Scenario(
        name="deletion",
        kafka="4.4.0",
        shows=(
            "Log starts moved by DeleteRecords, also into a transaction; segments gone by size and by age and"
            " still there as `.deleted`; a deleted topic (`-delete`), and one deleted and created again."
        ),
        play=play,
        config=_CONFIG,
    ),
    Scenario(
        name="log-dirs",
        kafka="4.4.0",
        shows="Two log dirs: a replica that has moved (`-delete`), and one caught on its way (`-future`).",
        play=play_two_disks,
        config={"log.segment.delete.delay.ms": "3600000", "replica.fetch.max.bytes": "500"},
        log_dirs=("disk-1", "disk-2"),
    ),
]
