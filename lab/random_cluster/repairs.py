"""What administrators do to a cluster: grow and move internal topics, set their retention, and decommission brokers."""

import time
from random import Random
from typing import Any

from lab.broker import Cluster, Node
from lab.random_cluster.late_writes import Ask
from lab.random_cluster.load import Log
from lab.scenarios.replication import directory_id

INTERNAL = ("__transaction_state", "__transaction_state", "__consumer_offsets")
_SETTINGS: list[tuple[str, str | None]] = [
    ("cleanup.policy", "delete"), ("cleanup.policy", "compact,delete"), ("cleanup.policy", "compact"),
    ("retention.ms", "8000"), ("retention.ms", None), ("delete.retention.ms", "1000"), ("segment.ms", "5000"),
    ("min.cleanable.dirty.ratio", "0.01"),
]  # fmt: skip
# Bytes per second; the load writes some thousand.
_RATES = (300, 1_500, 8_000)
# Until the partitions that a decommissioned broker leads have moved.
_MOVE_SECONDS = 20


class Repairs:
    """An administrator who means well.

    Args:
        cluster: the brokers.
        ask: asks the driver; None stands for an error, which it notes.
        log: where what is not asked of the driver is noted.
        chance: decides.
    """

    def __init__(self, cluster: Cluster, ask: Ask, log: Log, chance: Random) -> None:
        self._cluster = cluster
        self._ask = ask
        self._log = log
        self._chance = chance
        self._throttled: list[str] = []

    def grow(self) -> None:
        """Add partitions to an internal topic, after which ids and groups belong to other partitions."""
        name = self._chance.choice(INTERNAL)
        topic = self._topics().get(name)
        if topic is not None:
            self._ask("add_partitions", name=name, partitions=len(topic["partitions"]) + self._chance.choice((1, 2)))

    def move(self) -> None:
        """Give a partition of an internal topic to other brokers."""
        name = self._chance.choice(INTERNAL)
        topic = self._topics().get(name)
        if topic is not None:
            nodes = self._chance.sample(self._node_ids(), self._chance.choice((1, 2, len(self._cluster.nodes))))
            partition = self._chance.randrange(len(topic["partitions"]))
            self._ask("reassign", topic=name, partition=partition, replicas=nodes)

    def set(self) -> None:
        """Change a setting of an internal topic, as when its disk is full."""
        setting, value = self._chance.choice(_SETTINGS)
        self._ask("alter_config", type="TOPIC", name=self._chance.choice(INTERNAL), configs={setting: value})

    def delete(self) -> None:
        """Delete an internal topic, as advised against in every forum; coordinators create it again when asked."""
        self._ask("delete_topic", name=self._chance.choice(INTERNAL))

    def throttle(self) -> None:
        """Limit how fast replicas that are out of sync fetch, as a reassignment with a throttle, or lift the limit."""
        topics, self._throttled = self._throttled, [] if self._throttled else [*self._topics()]
        rate = None if topics else str(self._chance.choice(_RATES))
        for role in ("leader", "follower"):
            for name in topics or self._throttled:
                replicas = {f"{role}.replication.throttled.replicas": None if topics else "*"}
                self._ask("alter_config", type="TOPIC", name=name, configs=replicas)
            for node in self._node_ids():
                limit = {f"{role}.replication.throttled.rate": rate}
                self._ask("alter_config", type="BROKER", name=str(node), configs=limit)

    def decommission(self) -> None:
        """Take a broker out of service for good, which a later fault may undo by starting it with what it has."""
        node = self._chance.choice(self._cluster.nodes)
        others = [each for each in self._node_ids() if each != node.node_id]
        for name, topic in self._topics().items():
            for each in topic["partitions"]:
                if node.node_id in each["replicas"]:
                    replicas = [broker for broker in each["replicas"] if broker != node.node_id] or others
                    place = {"topic": name, "partition": each["partition"]}
                    self._ask("reassign", **place, replicas=replicas)
        self._wait_until_empty(node)
        self._log.note(f"FAULT stop broker {node.node_id} and unregister it")
        node.stop()
        time.sleep(2)
        self._ask("unregister_broker", broker=node.node_id)

    def replace_voter(self) -> None:
        """Take a controller out of the quorum for some seconds, perhaps while it does not run."""
        node = self._chance.choice(self._cluster.controllers or self._cluster.nodes)
        voter = {"voter": node.node_id, "directory": directory_id(node)}
        self._ask("remove_voter", **voter)
        time.sleep(self._chance.choice((0.5, 6)))
        self._ask("add_voter", **voter, endpoint=f"127.0.0.1:{node.controller_port}")

    def _wait_until_empty(self, node: Node) -> None:
        deadline = time.monotonic() + _MOVE_SECONDS
        while time.monotonic() < deadline:
            partitions = [each for topic in self._topics().values() for each in topic["partitions"]]
            if all(node.node_id not in each["replicas"] for each in partitions):
                return
            time.sleep(0.5)

    def _node_ids(self) -> list[int]:
        return [node.node_id for node in self._cluster.nodes]

    def _topics(self) -> dict[str, Any]:
        return self._ask("list_topics") or {}
