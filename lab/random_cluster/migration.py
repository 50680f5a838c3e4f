"""A migration from ZooKeeper to KRaft (KIP-866), step by step: controllers, dual writes, KRaft brokers, the end."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from lab.broker import Cluster, Node, kraft_config, make_controllers
from lab.errors import LabError
from lab.random_cluster.load import Log
from lab.random_cluster.plan import Plan

_MIGRATED = "Completed migration of metadata from ZooKeeper to KRaft"
_MIGRATION_SECONDS = 120
_CONNECT, _ENABLE = "zookeeper.connect", "zookeeper.metadata.migration.enable"
_CONTROLLER_SETTINGS = ("controller.quorum.voters", "controller.listener.names", "listener.security.protocol.map")


class Migration:
    """The steps of one migration, each to be taken once, in order.

    Args:
        plan: the cluster as planned.
        cluster: its brokers, which use ZooKeeper; they are replaced, and controllers are added.
        replace: stops a broker and starts the other in its place.
        log: where each step is noted.
    """

    def __init__(self, plan: Plan, cluster: Cluster, replace: Callable[[Node, Node], None], log: Log) -> None:
        self._plan = plan
        self._cluster = cluster
        self._replace = replace
        self._log = log
        self._zookeeper = cluster.nodes[0].config[_CONNECT]

    def steps(self) -> list[Callable[[], None]]:
        """What to do one after the other, with as much time in between as you like."""
        places = range(len(self._cluster.nodes))
        return [
            self._start_controllers,
            *(lambda place=place: self._write_to_both(place) for place in places),
            self._wait_until_migrated,
            *(lambda place=place: self._leave_zookeeper(place) for place in places),
            self._finish,
        ]

    def _start_controllers(self) -> None:
        first = self._cluster.nodes[0]
        self._log.note("FAULT migration: start controllers")
        controllers = make_controllers(first.folder, first.version, self._plan.controllers or 1, self._plan.config)
        for node in controllers:
            node.config |= {_CONNECT: self._zookeeper, _ENABLE: "true"}
            node.format(cluster_id=_cluster_id(first.data))
        self._cluster.controllers.extend(controllers)
        for node in controllers:
            node.start(wait=False)
        for node in controllers:
            node.wait()

    def _write_to_both(self, place: int) -> None:
        """Restart a broker of ZooKeeper so that it registers with the controllers too."""
        node = self._cluster.nodes[place]
        self._log.note(f"FAULT migration: broker {node.node_id} registers with the controllers")
        kraft = kraft_config(node, self._cluster.controllers)
        node.config |= {name: kraft[name] for name in _CONTROLLER_SETTINGS}
        node.config |= {_ENABLE: "true"}
        self._replace(node, node)

    def _wait_until_migrated(self) -> None:
        deadline = time.monotonic() + _MIGRATION_SECONDS
        while not any(_MIGRATED in node.log.read_text(errors="replace") for node in self._cluster.controllers):
            if time.monotonic() > deadline:
                raise LabError(f"The controllers did not log {_MIGRATED!r} in {_MIGRATION_SECONDS} s.")
            time.sleep(0.5)
        self._log.note("FAULT migration: the metadata is in KRaft")

    def _leave_zookeeper(self, place: int) -> None:
        """Start a broker of KRaft on the log directories of a broker of ZooKeeper."""
        old = self._cluster.nodes[place]
        self._log.note(f"FAULT migration: broker {old.node_id} leaves ZooKeeper")
        new = Node(old.node_id, old.version, old.folder, {}, old.log_dirs, "broker", old.port, old.controller_port)
        new.environment.update(old.environment)
        new.config.update(kraft_config(new, self._cluster.controllers) | self._plan.config)
        self._replace(old, new)

    def _finish(self) -> None:
        """Restart the controllers without ZooKeeper, after which nothing leads back."""
        self._log.note("FAULT migration: the controllers leave ZooKeeper")
        for node in self._cluster.controllers:
            node.stop()
            for name in (_CONNECT, _ENABLE):
                del node.config[name]
            node.start()


def _cluster_id(log_dir: Path) -> str:
    """The id that ZooKeeper gave the cluster."""
    properties = next(log_dir.rglob("meta.properties")).read_text(encoding="utf-8")
    return next(_values(properties, "cluster.id"))


def _values(properties: str, name: str) -> Iterator[str]:
    return (line.partition("=")[2] for line in properties.splitlines() if line.startswith(f"{name}="))
