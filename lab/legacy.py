"""Brokers from before KRaft, with ZooKeeper, on a current Java."""

import shutil
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
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
# ZooKeeper 3.4 wants to register log4j 1 with JMX, and the lab has another logging back-end.
_WITHOUT_LOG4J = "-Dzookeeper.jmx.log4j.disable=true"
_UNKNOWN_THEN = {"metadata.max.idle.interval.ms", "log.initial.task.delay.ms"}


@dataclass(slots=True)
class ZooKeeperNode(Node):
    """A broker that keeps its metadata in ZooKeeper; it needs no formatting."""

    def wait(self) -> None:
        """Wait until the broker serves requests."""
        if self.version.startswith(("0.", "1.")):
            # Their log goes to log4j 1, which has no configuration here.
            _wait_for_port(self.java, self.port, f"Kafka {self.version}")
        else:
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
    with zookeeper(folder, broker_jars(scenario.kafka)) as port:
        nodes = range(scenario.nodes)
        cluster = Cluster([zookeeper_node(each, folder, port, scenario.kafka, scenario.config) for each in nodes])
        with running(cluster), driving(cluster.bootstrap, folder / "driver.out") as driver:
            stage = Stage(scenario, cluster, driver)
            if scenario.play is not None:
                scenario.play(stage)
            truth = take_truth(driver, scenario.kafka, records=scenario.records) | stage.extra_truth
            cluster.stop()
    for action in stage.after_stop:
        action()
    keep(scenario, scenario.name, cluster, driver.journal, truth)


def zookeeper_node(
    number: int,
    folder: Path,
    zookeeper_port: int,
    version: str,
    config: Mapping[str, str],
    *,
    log_dirs: Sequence[str] = ("",),
) -> ZooKeeperNode:
    """A broker, not yet started, that registers with the ZooKeeper on this port."""
    node = ZooKeeperNode(number, version, folder, {}, log_dirs)
    quiet = {key: value for key, value in QUIET_CONFIG.items() if key not in _UNKNOWN_THEN}
    node.config = {
        "broker.id": str(node.node_id),
        "zookeeper.connect": f"127.0.0.1:{zookeeper_port}",
        "listeners": f"PLAINTEXT://{node.listener}",
        "log.dirs": ",".join(str(node.data / name) for name in log_dirs),
        **quiet,
        **config,
    }
    return node


@contextmanager
def zookeeper(folder: Path, jars: Path) -> Iterator[int]:
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
    java.start("org.apache.zookeeper.server.ZooKeeperServerMain", str(settings), jvm=[*Node.logging(), _WITHOUT_LOG4J])
    try:
        _wait_for_port(java, port, "ZooKeeper")
        yield port
    finally:
        java.end()


def _wait_for_port(java: JavaProcess, port: int, name: str) -> None:
    deadline = time.monotonic() + _ZOOKEEPER_SECONDS
    while time.monotonic() < deadline and java.running:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    why = f"did not answer in {_ZOOKEEPER_SECONDS} s" if java.running else "ended before it answered"
    raise LabError(f"{name} {why}; see {java.log}.")
