"""Topics that get more partitions, and where keys go before and after: by the default hash, and by other rules."""

import time
from collections.abc import Sequence
from typing import Any

from lab.driver import Driver, record
from lab.errors import LabError
from lab.scenario import Scenario, Stage
from lab.scenarios.steps import open_producer

KEYS = tuple(f"customer-{number:02}" for number in range(24))
_WAIT_SECONDS = 20
_ROUND_ROBIN = "org.apache.kafka.clients.producer.RoundRobinPartitioner"


def play(stage: Stage) -> None:
    """One topic per story; ``truth.json`` says which record was sent where, and when the partitions became more."""
    stage.extra_truth = {"growth": {}, "sent": {}}
    _grown(stage, "keyed", 2, 4)
    _grown(stage, "grown-twice", 1, 3, 5)
    _compacted(stage)
    _transactional(stage)
    _late_writer(stage)
    _other_partitioners(stage)


def _grown(stage: Stage, topic: str, *counts: int) -> None:
    """Every key again and again, and some records without a key."""
    for count in counts:
        _grow(stage, topic, count)
        name = f"{topic} {count}"
        open_producer(stage.driver, name)
        for number in range(3):
            _send(stage, name, topic, KEYS[number % 2 :: 2] if number else KEYS, f"round {number} of {count}")
        _send(stage, name, topic, [None] * 3, f"no key of {count}")


def _compacted(stage: Stage) -> None:
    """Tombstones and values that go elsewhere than the values they replace; no cleaning yet."""
    topic = "compacted"
    _grow(stage, topic, 2, {"cleanup.policy": "compact"})
    open_producer(stage.driver, "before")
    _send(stage, "before", topic, KEYS, "a value")
    _grow(stage, topic, 4)
    open_producer(stage.driver, "after")
    _send(stage, "after", topic, KEYS[:12], None)
    _send(stage, "after", topic, KEYS[12:18], "another value")


def _transactional(stage: Stage) -> None:
    """Transactions over all partitions there are, committed and aborted, before and after."""
    driver, topic = stage.driver, "transactional"
    for count in (2, 4):
        _grow(stage, topic, count)
        name = f"{topic} {count}"
        open_producer(driver, name, topic)
        for outcome in ("commit", "abort"):
            driver.call("begin", name=name)
            _send(stage, name, topic, KEYS[:8], f"{outcome} of {count}")
            driver.call(outcome, name=name)


def _late_writer(stage: Stage) -> None:
    """A producer with stale metadata keeps using the old partition count, while another uses the new one."""
    topic = "late-writer"
    _grow(stage, topic, 2)
    open_producer(stage.driver, "unaware")
    _send(stage, "unaware", topic, KEYS, "before")
    _grow(stage, topic, 4)
    open_producer(stage.driver, "aware")
    for number in range(2):
        _send(stage, "aware", topic, KEYS, f"aware {number}")
        _send(stage, "unaware", topic, KEYS[:12], f"unaware {number}")


def _other_partitioners(stage: Stage) -> None:
    """Keys that are not placed by hash: explicit partitions, round robin, and records without keys."""
    driver = stage.driver
    for topic in ("by-hand", "round-robin", "no-keys"):
        _grow(stage, topic, 3)
    open_producer(driver, "by hand")
    for number in range(2):
        for partition in range(3):
            _send(stage, "by hand", "by-hand", KEYS[partition::3], f"by hand {number}", partition=partition)
    open_producer(driver, "round robin", partitioner_class=_ROUND_ROBIN)
    open_producer(driver, "no keys", batch_size="200")
    for number in range(4):
        _send(stage, "round robin", "round-robin", KEYS[:9], f"in turn {number}")
        _send(stage, "no keys", "no-keys", [None] * 6, f"no key {number}")


def _grow(stage: Stage, topic: str, count: int, configs: dict[str, str] | None = None) -> None:
    """Have a topic of so many partitions, which is created if need be, and note when it had them."""
    driver = stage.driver
    requested, before = _now(), _count(driver, topic)
    if before:
        driver.call("add_partitions", name=topic, partitions=count)
    else:
        driver.call("create_topic", name=topic, partitions=count, configs=configs)
    deadline = time.monotonic() + _WAIT_SECONDS
    while _count(driver, topic) != count:
        if time.monotonic() > deadline:
            raise LabError(f"{topic} did not come to {count} partitions")
        time.sleep(0.1)
    growth = stage.extra_truth["growth"].setdefault(topic, [])
    growth.append({"partitions": count, "asked_ms": requested, "seen_ms": _now()})


def _count(driver: Driver, topic: str) -> int:
    topics = driver.ask("list_topics")
    return len(topics[topic]["partitions"]) if topic in topics else 0


def _now() -> int:
    return time.time_ns() // 1_000_000


def _send(
    stage: Stage, name: str, topic: str, keys: Sequence[str | None], value: str | None, *, partition: int | None = None
) -> None:
    """Send records in one flush and note the acknowledged partitions, offsets and timestamps, in the order sent."""
    batch = [record(key, value) for key in keys]
    placed: list[list[int]] = stage.driver.call(
        "send_placed", name=name, topic=topic, partition=partition, records=batch
    )
    sent: list[dict[str, Any]] = stage.extra_truth["sent"].setdefault(topic, [])
    for key, (where, offset, timestamp) in zip(keys, placed, strict=True):
        sent.append({"producer": name, "key": key, "partition": where, "offset": offset, "timestamp": timestamp})


SCENARIOS = [
    Scenario(
        name="partition-growth",
        kafka="4.4.0",
        shows=(
            "Topics that got more partitions, once and twice, with records of the same keys before and after; a"
            " compacted one whose tombstones miss the values, transactions on both sides of the growth, a producer that"
            " has not heard of it yet; and topics whose records were placed by hand, in turn, and without keys."
            " `truth.json` also says when each topic had how many partitions (`growth`), and which record was sent"
            " where (`sent`)."
        ),
        play=play,
    )
]
