"""Tiered storage on three brokers: leaders that change, a replica that is built from the remote store, a way back."""

import shutil
from collections.abc import Iterator
from typing import Any

from lab.broker import make_cluster, running
from lab.driver import Driver, driving, records
from lab.places import SAMPLES
from lab.scenario import Scenario, Stage, copy_data, workspace, write_json
from lab.scenarios import remote_storage, replication
from lab.scenarios.steps import open_producer, small_segments, transaction

_TIERED = ("tiered", "moved", "paused", "disabled")
_CONFIG = {
    **replication.CONFIG,
    **remote_storage.CONFIG,
    "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "3",
    "log.segment.delete.delay.ms": "1000",
}


def build(scenario: Scenario) -> None:
    """Play, and keep copies of the brokers while they are at work."""
    target = SAMPLES.parent / "tests" / "data" / scenario.name
    shutil.rmtree(target, ignore_errors=True)
    folder = workspace(scenario.name)
    cluster = make_cluster(folder, scenario.kafka, scenario.nodes, scenario.config)
    remote_storage.prepare(cluster)
    cluster.format()
    truth: dict[str, Any] = {}
    with running(cluster), driving(cluster.bootstrap, folder / "driver.out") as driver:
        stage = Stage(scenario, cluster, driver)
        for name in _play(stage):
            truth[name] = _state(driver)
            copy_data(cluster, target / name)
    write_json(target / "truth.json", truth | {"commands": driver.journal})


def _play(stage: Stage) -> Iterator[str]:
    """Change leaders while segments are copied; move one topic to a broker that never had it, tier one no more."""
    driver = stage.driver
    _topics(stage)
    _write(driver, "first")
    _wait(stage, 1, *_TIERED)
    _read(driver)
    driver.call("begin", name="t")
    driver.send("t", "tiered", records("while the leader dies", 2))
    replication.end(stage, 1, "kill")
    replication.wait_for(driver, "tiered", leader=2)
    driver.call("commit", name="t")
    _write(driver, "without broker 1")
    _wait(stage, 2, "tiered", "paused")
    replication.start(stage, 1)
    yield "restarted"
    _wait_for_all(driver)
    driver.call("reassign", topic="moved", partition=0, replicas=[2, 3])
    yield "moving"
    replication.wait_for(driver, "moved", isr=2, replicas=[2, 3])
    _configure(driver)
    _write(driver, "after the move")
    driver.call("delete_records", topic="tiered", partition=0, before=9)
    replication.end(stage, 2, "stop")
    replication.wait_for(driver, "tiered", leader=1)
    _write(driver, "after the restart")
    replication.start(stage, 2)
    _wait_for_all(driver)
    _write(driver, "last")
    driver.call("begin", name="t")
    driver.send("t", "tiered", records("open", 2))
    driver.call("pause", milliseconds=6000)
    yield "last"


def _topics(stage: Stage) -> None:
    configs = {"remote.storage.enable": "true", "local.retention.bytes": "1"}
    for topic in _TIERED:
        assignment = [[1, 2]] if topic == "moved" else [[1, 2, 3]]
        small = small_segments(stage.scenario.kafka, 1000)
        stage.driver.call("create_topic", name=topic, assignment=assignment, configs={**configs, **small})
    open_producer(stage.driver, "p")
    open_producer(stage.driver, "t", "tiered")


def _configure(driver: Driver) -> None:
    """Copy no more of one topic, and keep another one only on disks."""
    paused = {"remote.log.copy.disable": "true", "local.retention.bytes": "-2", "local.retention.ms": "-2"}
    disabled = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}
    for topic, configs in (("paused", paused), ("disabled", disabled)):
        driver.call("alter_config", type="TOPIC", name=topic, configs=configs)


def _state(driver: Driver) -> dict[str, Any]:
    """What the leaders say of the logs."""
    specs = {"earliest": {}, "earliest-local": {}, "latest": {}, "last_stable": {"isolation": "read_committed"}}
    return {
        topic: {
            name: driver.ask(
                "list_offset", topic=topic, partition=0, spec=name.replace("last_stable", "latest"), **more
            )
            for name, more in specs.items()
        }
        for topic in _TIERED
    }


def _wait_for_all(driver: Driver) -> None:
    for topic in ("tiered", "paused", "disabled"):
        replication.wait_for(driver, topic, isr=3)


def _write(driver: Driver, text: str) -> None:
    for topic in _TIERED:
        for number in range(6):
            driver.send("p", topic, records(f"{topic} {text} {number}", 3, 100))
            if number % 3 == 0:
                transaction(driver, "t", topic, "commit" if number else "abort", 1)


def _wait(stage: Stage, node: int, *topics: str) -> None:
    for topic in topics:
        remote_storage.wait_for_local_deletion(stage, topic, node)


def _read(driver: Driver) -> None:
    for topic in _TIERED:
        driver.call("consumer", name=topic, config={"group.id": f"readers-of-{topic}"})
        driver.call("assign", name=topic, topic=topic, partition=0)
        driver.call("poll", names=[topic], milliseconds=2000)
        driver.call("commit_offset", name=topic, topic=topic, partition=0, offset=12, metadata="")
        driver.call("close_consumer", name=topic)


SCENARIOS = [
    Scenario(
        name="tiered-cluster",
        kafka=remote_storage.KAFKA,
        shows=(
            "Three brokers with tiered storage: a broker that has just come back, a replica that is built from the"
            " remote store (`moved`), a topic of which no more is copied (`paused`), and one that is tiered no more"
            " (`disabled`)."
        ),
        config=_CONFIG,
        nodes=3,
        build=build,
    )
]
