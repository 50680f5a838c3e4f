"""A rolling restart of three healthy brokers, with transactions before, between and after."""

import time

from lab.driver import Driver, records
from lab.errors import LabError
from lab.legacy import build_legacy
from lab.scenario import Scenario, Stage
from lab.scenarios.steps import open_producer
from lab.truth import wait_for_markers

_CONFIG = {
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "offsets.topic.replication.factor": "3",
    "replica.fetch.wait.max.ms": "200",
    "leader.imbalance.check.interval.seconds": "3600",
}
_TOPIC = "rolled"
_IDS = ("rolling-1", "rolling-2", "rolling-3")
_WAIT_SECONDS = 40


def play(stage: Stage) -> None:
    """One broker after the other is stopped in order, and started again."""
    driver = stage.driver
    first, *others = (node.node_id for node in stage.cluster.nodes)
    driver.call("create_topic", name=_TOPIC, assignment=[[first, *others], [*others, first]])
    for name in _IDS:
        open_producer(driver, name, name)
    _write(driver, "before")
    for node in stage.cluster.nodes:
        driver.call("begin", name=_IDS[0])
        driver.send(_IDS[0], _TOPIC, records("across the restart", 1))
        stage.note(f"stop broker {node.node_id}")
        node.stop()
        driver.call("commit", name=_IDS[0])
        _write(driver, f"without broker {node.node_id}")
        stage.note(f"start broker {node.node_id}")
        node.start()
        _wait_for_replicas(driver)
        _write(driver, f"with broker {node.node_id}")
    wait_for_markers(driver)


def _write(driver: Driver, text: str) -> None:
    for number, name in enumerate(_IDS):
        driver.call("begin", name=name)
        for partition in (0, 1):
            driver.send(name, _TOPIC, records(f"{text} {name}", 1), partition)
        driver.call("abort" if number == 2 else "commit", name=name)


def _wait_for_replicas(driver: Driver) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while time.monotonic() < deadline:
        topics = driver.ask("list_topics")
        if all(len(one["isr"]) == len(one["replicas"]) for topic in topics.values() for one in topic["partitions"]):
            return
        time.sleep(0.3)
    raise LabError("The restarted broker did not catch up.")


SCENARIOS = [
    Scenario(
        name="rolling-restart",
        kafka="2.7.2",
        shows=(
            "Three brokers with ZooKeeper, restarted one after the other with transactions under way. Followers that "
            "leave and return raise the leader epoch of `__transaction_state`; a coordinator that stays keeps the "
            "coordinator epoch of its election in its markers."
        ),
        play=play,
        config=_CONFIG,
        nodes=3,
        build=build_legacy,
    )
]
