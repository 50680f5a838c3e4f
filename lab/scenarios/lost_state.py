"""Snapshots deleted while the broker is down: the state is rebuilt after a crash, and lost after an orderly stop."""

import time
from typing import Any

from lab.broker import make_cluster, running
from lab.driver import Driver, driving, records
from lab.scenario import Scenario, Stage, keep, workspace
from lab.scenarios.steps import open_producer, raw_batch, set_broker, small_segments, transaction
from lab.truth import take_truth, wait_for_markers

_CRASH, _STOP = "state-lost-after-crash", "state-lost-after-stop"
_LONG = {"transaction_timeout_ms": "900000"}


def build(scenario: Scenario) -> None:
    """Write, take the broker down, delete the snapshots, start it, go on writing."""
    folder = workspace(scenario.name)
    cluster = make_cluster(folder, scenario.kafka, config=scenario.config)
    cluster.format()
    with running(cluster), driving(cluster.bootstrap, folder / "driver.out") as driver:
        stage, now = Stage(scenario, cluster, driver), int(time.time() * 1000)
        zombie = _before(stage, now)
        _lose(stage)
        _after(stage, zombie, now)
        truth = take_truth(driver, scenario.kafka)
        cluster.stop()
    keep(scenario, scenario.name, cluster, driver.journal, truth)


def _before(stage: Stage, now: int) -> dict[str, Any]:
    driver = stage.driver
    small = small_segments(stage.scenario.kafka, 700)
    for topic in ("open", "ended-late", "zombie", "retried", "gap", "idempotent"):
        driver.call("create_topic", name=topic, configs=small)
    open_producer(driver, "p")
    for topic in ("open", "ended-late"):
        open_producer(driver, topic, topic, **_LONG)
        transaction(driver, topic, topic, "abort", 2, 2)
        driver.call("begin", name=topic)
        for number in range(3):
            driver.send(topic, topic, records(f"open {number}", 2))
            driver.send("p", topic, records(f"plain {number}", 2, 60))
    for number in range(5):
        driver.send("p", "idempotent", records(f"idempotent {number}", 3))
    for sequence in (0, 3):
        raw_batch(driver, "retried", 7100, sequence, now)
        raw_batch(driver, "gap", 7200, sequence, now)
    return _fenced(driver)


def _fenced(driver: Driver) -> dict[str, Any]:
    """A producer that is fenced by its successor; returns its id and epoch."""
    open_producer(driver, "zombie", "zombie")
    transaction(driver, "zombie", "zombie", "commit", 2)
    wait_for_markers(driver)
    zombie: dict[str, Any] = driver.ask("describe_transaction", id="zombie")
    open_producer(driver, "successor", "zombie")
    transaction(driver, "successor", "zombie", "commit", 1)
    wait_for_markers(driver)
    return zombie


def _lose(stage: Stage) -> None:
    """Take the broker down and delete the snapshots of all topics."""
    if stage.scenario.name == _CRASH:
        stage.cluster.kill()
    else:
        stage.cluster.stop()
    stage.note(f"stop ({'SIGKILL' if stage.scenario.name == _CRASH else 'SIGTERM'}); delete all *.snapshot; start")
    for snapshot in stage.cluster.node(1).data.glob("*/*.snapshot"):
        if snapshot.parent.name != "__cluster_metadata-0":
            snapshot.unlink()
    stage.cluster.start()


def _after(stage: Stage, zombie: dict[str, Any], now: int) -> None:
    """A retry, a write with a gap before it and one of a fenced producer: refused where the state was rebuilt."""
    driver = stage.driver
    raw_batch(driver, "retried", 7100, 3, now)
    raw_batch(driver, "gap", 7200, 9, now)
    set_broker(stage, transaction_partition_verification_enable="false")
    driver.call("pause", milliseconds=1000)
    errors = driver.call(
        "raw_produce", topic="zombie", transactional_id="zombie", producer_id=zombie["producer_id"],
        producer_epoch=zombie["producer_epoch"], sequence=0, records=records("zombie", 2),
    )  # fmt: skip
    driver.journal[-1] += f"  -> {errors}"
    set_broker(stage, transaction_partition_verification_enable=None)
    driver.send("p", "open", records("afterwards", 2))
    driver.call("commit", name="ended-late")
    wait_for_markers(driver)
    driver.send("p", "ended-late", records("afterwards", 2))
    driver.send("p", "idempotent", records("afterwards", 2))


_STORIES = (
    "Open transactions, a retry, a write with a gap before it and a write of a fenced producer, around the restart of a"
    " broker whose `.snapshot` files were deleted"
)
SCENARIOS = [
    Scenario(
        name=_CRASH,
        kafka="4.4.0",
        shows=f"{_STORIES} after a kill: recovery has rebuilt the state from the logs.",
        build=build,
    ),
    Scenario(
        name=_STOP,
        kafka="4.4.0",
        shows=(
            f"{_STORIES} after an orderly stop: the broker has forgotten all producers, shows the data of open"
            " transactions to everybody, and takes what it should refuse. `truth.json` is what it said."
        ),
        build=build,
    ),
]
