"""Every way a transaction can end, for each version of the transaction protocol."""

import time
from typing import Any

from lab.driver import Driver, record, records
from lab.scenario import Scenario, Stage
from lab.scenarios.steps import open_producer, set_broker, small_segments, transaction
from lab.truth import wait_for_markers

_CONFIG = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "producer.id.expiration.ms": "86400000",
}
_ALL = (
    "transactions committed, aborted, open at shutdown, interleaved, spanning segments, timed out, fenced, hanging,"
    " resolved by hand, over several partitions, and with consumer offsets"
)


def play(stage: Stage) -> None:
    """One topic per outcome, on one broker."""
    driver = stage.driver
    _committed_and_aborted(driver)
    _interleaved(driver)
    _spanning_segments(stage)
    _several_partitions(driver)
    _fenced(driver)
    _consume_transform_produce(driver)
    _hanging(stage)
    _timed_out(driver)
    _epochs(driver)
    _open_at_shutdown(driver)


def _committed_and_aborted(driver: Driver) -> None:
    driver.call("create_topic", name="committed")
    driver.call("create_topic", name="aborted")
    open_producer(driver, "a", "committer")
    transaction(driver, "a", "committed", "commit", 1)
    transaction(driver, "a", "committed", "commit", 3, 2)
    driver.call("begin", name="a")
    driver.call("commit", name="a")
    transaction(driver, "a", "committed", "commit", 5)
    open_producer(driver, "b", "aborter")
    transaction(driver, "b", "aborted", "abort", 2)
    transaction(driver, "b", "aborted", "commit", 2)
    transaction(driver, "b", "aborted", "abort", 1, 1, 1)
    transaction(driver, "b", "aborted", "abort", 4)


def _interleaved(driver: Driver) -> None:
    """Two transactions and two producers without, batch by batch in one partition."""
    driver.call("create_topic", name="interleaved")
    open_producer(driver, "left", "left")
    open_producer(driver, "right", "right", compression_type="lz4")
    open_producer(driver, "idempotent")
    open_producer(driver, "plain", enable_idempotence="false", acks="1")
    for outcomes in (("commit", "abort"), ("abort", "commit"), ("abort", "abort"), ("commit", "commit")):
        for name in ("left", "right"):
            driver.call("begin", name=name)
        for number, name in enumerate(("left", "plain", "right", "left", "idempotent", "right")):
            driver.send(name, "interleaved", records(f"{name} {number}", 2))
        for name, outcome in zip(("left", "right"), outcomes, strict=True):
            driver.call(outcome, name=name)
            driver.send("plain", "interleaved", records("between", 1))


def _spanning_segments(stage: Stage) -> None:
    driver = stage.driver
    driver.call("create_topic", name="segments", configs=small_segments(stage.scenario.kafka, 1200))
    open_producer(driver, "long", "long")
    open_producer(driver, "short", "short")
    for outcome in ("commit", "abort"):
        driver.call("begin", name="long")
        for number in range(8):
            driver.send("long", "segments", records(f"long {outcome} {number}", 2, 100))
            transaction(driver, "short", "segments", "abort" if number % 2 else "commit", 1)
        driver.call(outcome, name="long")


def _several_partitions(driver: Driver) -> None:
    driver.call("create_topic", name="multi", partitions=3)
    open_producer(driver, "wide", "wide")
    for outcome in ("commit", "abort", "commit"):
        driver.call("begin", name="wide")
        for partition in range(3):
            driver.send("wide", "multi", records(f"wide {outcome}", 1 + partition), partition)
        driver.send("wide", "committed", records(f"wide {outcome}", 1))
        driver.call(outcome, name="wide")


def _fenced(driver: Driver) -> None:
    """A zombie and its successor with the same transactional id."""
    driver.call("create_topic", name="fenced")
    open_producer(driver, "zombie", "fenced")
    transaction(driver, "zombie", "fenced", "commit", 1)
    driver.call("begin", name="zombie")
    driver.send("zombie", "fenced", records("zombie", 2))
    open_producer(driver, "successor", "fenced")
    transaction(driver, "successor", "fenced", "commit", 2)
    driver.refused("send", name="zombie", topic="fenced", partition=0, records=records("zombie late", 1))
    driver.call("close_producer", name="zombie")
    transaction(driver, "successor", "fenced", "commit", 1)


def _consume_transform_produce(driver: Driver) -> None:
    driver.call("create_topic", name="input")
    driver.call("create_topic", name="output")
    open_producer(driver, "source")
    driver.send("source", "input", records("in", 6))
    open_producer(driver, "transformer", "transformer")
    for offset, outcome in ((2, "commit"), (4, "abort"), (4, "commit"), (6, "commit")):
        driver.call("begin", name="transformer")
        driver.send("transformer", "output", records(f"out {offset} {outcome}", 2))
        driver.call(
            "send_offsets", name="transformer", group="transformers", topic="input", offset=offset, metadata=outcome
        )
        driver.call(outcome, name="transformer")


def _hanging(stage: Stage) -> None:
    """A transactional write that arrives after the end of its transaction: no marker will ever follow."""
    driver = stage.driver
    for topic in ("hanging", "hanging-resolved"):
        driver.call("create_topic", name=topic)
    open_producer(driver, "other", "other")
    set_broker(stage, transaction_partition_verification_enable="false")
    for topic in ("hanging", "hanging-resolved"):
        open_producer(driver, topic, topic)
        transaction(driver, topic, topic, "commit", 2)
        _write_late(stage, topic)
        transaction(driver, "other", topic, "commit", 1)
        transaction(driver, "other", topic, "abort", 1)
    set_broker(stage, transaction_partition_verification_enable="true")
    _resolve(driver, "hanging-resolved")


def _write_late(stage: Stage, topic: str) -> None:
    wait_for_markers(stage.driver)
    producer = producer_of(stage.driver, topic)
    errors = stage.driver.call(
        "raw_produce",
        topic=topic,
        transactional_id=topic,
        producer_id=producer["producer_id"],
        producer_epoch=producer["producer_epoch"],
        # Where every transaction has an epoch of its own (transaction.version 2) sequences start again at 0.
        sequence=0 if stage.scenario.name.endswith("v2") else 2,
        records=[record("late", "late 0"), record("late", "late 1")],
    )
    stage.note(f"  -> {errors}")


def producer_of(driver: Driver, transactional_id: str) -> dict[str, Any]:
    """What the coordinator says of a transactional id."""
    described: dict[str, Any] = driver.ask("describe_transaction", id=transactional_id)
    return described


def _resolve(driver: Driver, topic: str) -> None:
    """What ``kafka-transactions.sh --abort`` does."""
    stuck = next(
        each for each in driver.ask("describe_producers", topic=topic) if each["current_transaction_start_offset"] >= 0
    )
    driver.call(
        "abort_hanging",
        topic=topic,
        producer_id=stuck["producer_id"],
        producer_epoch=stuck["producer_epoch"],
        coordinator_epoch=max(stuck["coordinator_epoch"], 0),
    )


def _timed_out(driver: Driver) -> None:
    driver.call("create_topic", name="timed-out")
    open_producer(driver, "slow", "slow", transaction_timeout_ms="1000")
    driver.call("begin", name="slow")
    driver.send("slow", "timed-out", records("slow", 2))
    wait_for_end(driver, "slow")
    driver.refused("commit", name="slow")
    driver.call("close_producer", name="slow")
    open_producer(driver, "retry", "slow")
    transaction(driver, "retry", "timed-out", "commit", 2)


def wait_for_end(driver: Driver, transactional_id: str) -> None:
    """Wait until a transaction was aborted, by its time or by an administrator."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and producer_of(driver, transactional_id)["state"] != "CompleteAbort":
        time.sleep(0.2)


def _epochs(driver: Driver) -> None:
    """The same transactional id opened again and again, and one fenced by an administrator."""
    driver.call("create_topic", name="epochs")
    for number in range(3):
        open_producer(driver, f"epoch {number}", "epochs")
        transaction(driver, f"epoch {number}", "epochs", "abort" if number == 1 else "commit", 1)
    driver.call("begin", name="epoch 2")
    driver.send("epoch 2", "epochs", records("fenced by the administrator", 1))
    driver.call("fence_producers", ids=["epochs"])


def _open_at_shutdown(driver: Driver) -> None:
    """Two open transactions hold the last stable offset back while later ones end."""
    driver.call("create_topic", name="open")
    for name in ("first", "second"):
        open_producer(driver, name, f"open-{name}", transaction_timeout_ms="900000")
    transaction(driver, "first", "open", "commit", 1)
    for name in ("first", "second"):
        driver.call("begin", name=name)
        driver.send(name, "open", records(f"{name} open", 2))
    transaction(driver, "a", "open", "commit", 1)
    transaction(driver, "b", "open", "abort", 1)
    driver.send("first", "open", records("first open", 1))
    driver.send("plain", "open", records("plain", 1))
    driver.call("begin", name="a")


SCENARIOS = [
    Scenario(
        name="transactions-v2",
        kafka="4.4.0",
        shows=f"transaction.version 2 (an epoch for every transaction): {_ALL}.",
        play=play,
        config=_CONFIG,
        format_options=("--feature", "transaction.version=2"),
    ),
    Scenario(
        name="transactions-v1",
        kafka="4.4.0",
        shows=f"transaction.version 1 (flexible coordinator records): {_ALL}.",
        play=play,
        config=_CONFIG,
        format_options=("--feature", "transaction.version=1"),
    ),
    Scenario(
        name="transactions-v0",
        kafka="3.9.1",
        shows=f"transaction.version 0, the protocol of 0.11 to 3.9: {_ALL}.",
        play=play,
        config=_CONFIG,
    ),
]
