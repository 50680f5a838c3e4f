"""Bases of brokers that keep their metadata in ZooKeeper: how they are written, and how they are started again."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.broker import Cluster, Node, give_back, running
from lab.driver import driving
from lab.forecast.bases import BASES, CONFIG, JBOD, Base, keep, write, write_more, write_plain
from lab.jars import broker_jars
from lab.legacy import zookeeper, zookeeper_node
from lab.scenario import workspace

# Until ZooKeeper forgets a broker that was killed; a start before that would be refused.
_SESSION = {"zookeeper.session.timeout.ms": "4000", "zookeeper.connection.timeout.ms": "30000"}
_SESSION_SECONDS = 10


def build_with_zookeeper(release: str) -> None:
    """Write the archives of the bases of a release whose metadata is in ZooKeeper."""
    bases = {base.state: base for base in BASES if base.release == release and base.has_zookeeper}
    for log_dirs in dict.fromkeys(base.log_dirs for base in bases.values()):
        folder = workspace(f"forecast-{release}-zookeeper{'-jbod' * (log_dirs == JBOD)}")
        folder.mkdir(parents=True, exist_ok=True)
        with zookeeper(folder, broker_jars(release)) as port:
            _build(folder, zookeeper_node(1, folder, port, release, CONFIG | _SESSION, log_dirs=log_dirs), bases)


def _build(folder: Path, node: Node, bases: dict[str, Base]) -> None:
    cluster, store = Cluster([node]), folder / "zookeeper"
    with running(cluster), driving(cluster.bootstrap, folder / "driver.out") as driver:
        if node.log_dirs == JBOD:
            write_plain(driver)
            cluster.stop()
            keep(node, folder, bases["jbod"], store)
            return
        write(driver, node.version)
        cluster.stop()
        keep(node, folder, bases["stopped"], store)
        cluster.start()
        write_more(driver)
        cluster.kill()
        time.sleep(_SESSION_SECONDS)
        keep(node, folder, bases["killed"], store)


@contextmanager
def restored(base: Base, folder: Path) -> Iterator[Node]:
    """Give the broker of a base that lies in a folder, with a ZooKeeper that has what it had."""
    with zookeeper(folder, broker_jars(base.release)) as port:
        node = zookeeper_node(1, folder, port, base.release, CONFIG | _SESSION, log_dirs=base.log_dirs)
        yield node
    give_back(port, node.port, node.controller_port)
