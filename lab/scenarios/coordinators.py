"""Coordinator topics after cleaning: state overwritten, expired and deleted."""

import time

from lab.driver import Driver, records
from lab.scenario import Scenario, Stage
from lab.scenarios.compaction import wait_until_clean
from lab.scenarios.steps import open_producer, small_segments, transaction

_CONFIG = {
    "log.cleaner.backoff.ms": "200",
    "log.segment.delete.delay.ms": "100",
    "transactional.id.expiration.ms": "4000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
}
_TOPICS = ("__transaction_state", "__consumer_offsets")


def play(stage: Stage) -> None:
    """Transactional ids come, expire and leave tombstones; offsets are committed again and again."""
    driver = stage.driver
    driver.call("create_topic", name="data")
    open_producer(driver, "open", "open", transaction_timeout_ms="900000")
    driver.call("begin", name="open")
    driver.send("open", "data", records("open", 1))
    driver.call("consumer", name="c", config={"group.id": "committing"})
    driver.call("assign", name="c", topic="data", partition=0)
    driver.call("commit_offset", name="c", topic="data", partition=0, offset=0, metadata="first")
    for topic in _TOPICS:
        configs = {"min.cleanable.dirty.ratio": "0.001", **small_segments(stage.scenario.kafka, 1500)}
        driver.call("alter_config", type="TOPIC", name=topic, configs=configs)
    for number in range(3):
        _round(driver, number)
        _wait_for_expiry(stage)
        for topic in _TOPICS:
            wait_until_clean(stage.cluster.node(1), topic)


def _round(driver: Driver, number: int) -> None:
    for each in range(4):
        name = f"short-lived-{number}-{each}"
        open_producer(driver, name, name)
        transaction(driver, name, "data", "abort" if each == 3 else "commit", 1)
        driver.call("close_producer", name=name)
    for each in range(8):
        driver.call("commit_offset", name="c", topic="data", partition=0, offset=each, metadata=f"round {number} " * 5)
    driver.call("alter_group_offset", group=f"gone-{number}", topic="data", partition=0, offset=1, metadata="soon gone")
    driver.call("delete_group", group=f"gone-{number}")


def _wait_for_expiry(stage: Stage) -> None:
    stage.note("wait until the transactional ids have expired")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and len(stage.driver.ask("list_transactions")) > 1:
        time.sleep(0.5)


SCENARIOS = [
    Scenario(
        name="coordinators-cleaned",
        kafka="4.4.0",
        shows=(
            "`__transaction_state` and `__consumer_offsets` in small segments, cleaned: transactional ids that"
            " expired (tombstones), groups deleted, offsets overwritten, and one open transaction that outlives"
            " them all."
        ),
        play=play,
        config=_CONFIG,
    )
]
