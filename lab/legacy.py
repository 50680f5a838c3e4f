"""Brokers from before KRaft, with ZooKeeper, on a current Java."""

import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.broker import QUIET_CONFIG, Cluster, JavaProcess, Node, free_port, running
from lab.driver import driving
from lab.errors import LabError
from lab.jars import broker_jars
from lab.scenario import Scenario, Stage, keep, workspace
from lab.truth import take_truth

_ZOOKEEPER_SECONDS = 30
# What releases before 3.0 reach into, and Java 17 hides.
_OPENED = [
    f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.lang", "java.nio", "java.util", "sun.nio.ch")
]
_UNKNOWN_THEN = {"metadata.max.idle.interval.ms", "log.initial.task.delay.ms"}


@dataclass(slots=True)
class ZooKeeperNode(Node):
    """A broker that keeps its metadata in ZooKeeper; it needs no formatting."""

    def wait(self) -> None:
        """Wait until the broker serves requests."""
        self.java.wait_for(f"[KafkaServer id={self.node_id}] started", times=self._starts)

    @staticmethod
    def logging() -> list[str]:
        """JVM options for the quiet logging back-end, and what the release needs on Java 17."""
        return [*_OPENED, *Node.logging()]


def build_legacy(scenario: Scenario) -> None:
    """ZooKeeper and the brokers up, clients at work, truth, orderly stop, copy."""
    folder = workspace(scenario.name)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with _zookeeper(folder, broker_jars(scenario.kafka)) as port:
        cluster = Cluster([_node(number, folder, port, scenario) for number in range(scenario.nodes)])
        with running(cluster), driving(cluster.bootstrap, folder / "driver.out") as driver:
            stage = Stage(scenario, cluster, driver)
            if scenario.play is not None:
                scenario.play(stage)
            truth = take_truth(driver, scenario.kafka, records=scenario.records)
            cluster.stop()
    for action in stage.after_stop:
        action()
    keep(scenario, scenario.name, cluster, driver.journal, truth)


def _node(number: int, folder: Path, zookeeper_port: int, scenario: Scenario) -> Node:
    node = ZooKeeperNode(number, scenario.kafka, folder, {})
    quiet = {key: value for key, value in QUIET_CONFIG.items() if key not in _UNKNOWN_THEN}
    node.config = {
        "broker.id": str(node.node_id),
        "zookeeper.connect": f"127.0.0.1:{zookeeper_port}",
        "listeners": f"PLAINTEXT://{node.listener}",
        "log.dirs": str(node.data),
        **quiet,
        **scenario.config,
    }
    return node


@contextmanager
def _zookeeper(folder: Path, jars: Path) -> Iterator[int]:
    """A ZooKeeper on loopback; gives its port."""
    port = free_port()
    settings = folder / "zookeeper.properties"
    lines = [
        f"dataDir={folder / 'zookeeper'}",
        "clientPortAddress=127.0.0.1",
        f"clientPort={port}",
        "admin.enableServer=false",
    ]
    settings.write_text("\n".join(lines) + "\n", encoding="utf-8")
    java = JavaProcess(jars, folder / "zookeeper.out")
    java.start("org.apache.zookeeper.server.ZooKeeperServerMain", str(settings), jvm=Node.logging())
    try:
        _wait_for_port(java, port)
        yield port
    finally:
        java.end()


def _wait_for_port(java: JavaProcess, port: int) -> None:
    deadline = time.monotonic() + _ZOOKEEPER_SECONDS
    while time.monotonic() < deadline and java.running:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise LabError(f"ZooKeeper did not answer in {_ZOOKEEPER_SECONDS} s; see {java.log}.")
