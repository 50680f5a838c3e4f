"""What happens to brokers: kills, stops, rolling restarts and upgrades, elections, moved replicas, other settings."""

import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from lab.broker import Cluster, Node
from lab.driver import Driver
from lab.errors import DriverError
from lab.random_cluster.file_repairs import FileRepairs
from lab.random_cluster.late_writes import LateWrites
from lab.random_cluster.load import Log
from lab.random_cluster.plan import Plan
from lab.random_cluster.repairs import INTERNAL, Repairs

_ELECTION_SECONDS = 25
# ZooKeeper forgets a broker that was killed after its session has timed out.
_SESSION_SECONDS = 8
# Levels of 4.0 (4.0-IV3) and 4.2; a broker refuses those that it does not know.
_METADATA_VERSIONS = (25, 29)
# What stays on a disk that is replaced: the operator formats it with the same ids, and a voter must not forget how it
# voted.
_of_the_node = shutil.ignore_patterns("meta.properties", "bootstrap.checkpoint", "__cluster_metadata*")
_MOVED = ("plain", "small", "compact", "unclean", "__transaction_state", "__consumer_offsets")
_SETTINGS: list[tuple[str, str | None]] = [
    ("message.timestamp.type", "LogAppendTime"), ("message.timestamp.type", "CreateTime"), ("compression.type", "gzip"),
    ("compression.type", "producer"), ("retention.ms", "5000"), ("retention.ms", None), ("cleanup.policy", "compact"),
    ("cleanup.policy", "delete"), ("unclean.leader.election.enable", "true"),
]  # fmt: skip


class Faults:
    """An administrator with a hammer.

    Args:
        plan: the cluster as planned.
        cluster: its brokers.
        driver: clients of its own.
        log: where everything provoked is noted.
    """

    def __init__(self, plan: Plan, cluster: Cluster, driver: Driver, log: Log) -> None:
        self._plan = plan
        self._cluster = cluster
        self._driver = driver
        self._log = log
        self._chance = Random(plan.seed * 100 + 99)
        self._late_writes = LateWrites(cluster, self._ask, self._chance)
        self._repairs = Repairs(cluster, self._ask, log, self._chance)
        self._file_repairs = FileRepairs(plan.log_dirs, log, self._chance)
        self._is_upgraded = self._is_rolled_back = False
        self._backups: dict[Path, Path] = {}

    def one(self) -> None:
        """Provoke something."""
        kinds: list[tuple[Callable[[], None], int]] = [
            (self._kill, 3), (self._stop, 2), (self._change_setting, 3), (self._feature, 1), (self._freeze, 2),
            (self._repair_files, 4), (self._lose_power, 3),
        ]  # fmt: skip
        if not self._plan.early:
            late = self._late_writes
            kinds += [(late.write, 3), (late.commit_offsets, 1), (late.abort, 3), (late.terminate, 2)]
        if self._plan.brokers > 1:
            kinds += [(self._roll, 2), (self._prefer, 2), (self._unclean, 2), (self._reassign, 2)]
            kinds += [(self._replace_disk, 2), (self._restore_disk, 3)]
            kinds += [(self._repairs.grow, 1), (self._repairs.move, 4), (self._repairs.set, 2)]
            kinds += [] if self._plan.early else [(self._repairs.throttle, 3), (self._repairs.delete, 1)]
            kinds += [(self._repairs.decommission, 2)] if self._plan.kraft else []
        if self._plan.dynamic:
            kinds += [(self._repairs.replace_voter, 4)]
        if len(self._plan.log_dirs) > 1:
            kinds += [(self._move, 6)]
        if self._next_release():
            kinds = [*kinds, (self._roll, 12)]
        names = self._plan.faults
        chosen = [(kind, weight) for kind, weight in kinds if not names or kind.__name__.lstrip("_") in names]
        self._chance.choices([kind for kind, _ in chosen], [weight for _, weight in chosen])[0]()

    def start(self, node: Node) -> None:
        """Start a broker, however it ended."""
        if not self._plan.kraft:
            time.sleep(_SESSION_SECONDS)
        self._log.note(f"FAULT start broker {node.node_id}")
        node.start()

    def replace(self, node: Node, new: Node) -> None:
        """Stop a broker in order, and start another configuration of it in its place."""
        node.stop()
        self._cluster.nodes[self._cluster.nodes.index(node)] = new
        self.start(new)
        self._wait_for_replicas()

    def _ask(self, operation: str, **arguments: Any) -> Any:
        try:
            answer = self._driver.ask(operation, **arguments)
        except DriverError as error:
            self._log.note(f"FAULT {operation} {arguments} -> {error.kind}: {error.message[:160]}")
            return None
        self._log.note(f"FAULT {operation} {arguments} -> {str(answer)[:200]}")
        return answer

    def _kill(self) -> None:
        node = self._chance.choice([*self._cluster.nodes, *self._cluster.controllers])
        self._log.note(f"FAULT kill -9 broker {node.node_id}")
        node.kill()
        time.sleep(self._chance.choice((0.5, 5.0)))
        self.start(node)

    def _stop(self) -> None:
        node = self._chance.choice([*self._cluster.nodes, *self._cluster.controllers])
        self._log.note(f"FAULT stop broker {node.node_id}")
        node.stop()
        time.sleep(self._chance.choice((0.5, 4.0)))
        self.start(node)

    def _repair_files(self) -> None:
        node = self._chance.choice(self._cluster.nodes)
        self._log.note(f"FAULT stop broker {node.node_id} and change its files")
        self._file_repairs.repair(node)
        self.start(node)

    def _lose_power(self) -> None:
        node = self._chance.choice(self._cluster.nodes)
        self._log.note(f"FAULT kill -9 broker {node.node_id}, which had not flushed everything")
        self._file_repairs.lose_power(node)
        self.start(node)

    def _roll(self) -> None:
        """Restart one broker after the other; the first time, with the release to upgrade to if there is one."""
        upgrade = self._next_release()
        for node in (*self._cluster.controllers, *self._cluster.nodes):
            self._log.note(f"FAULT roll broker {node.node_id}" + (f" to {upgrade}" if upgrade else ""))
            node.stop()
            if upgrade:
                node.use(upgrade)
            self.start(node)
            self._wait_for_replicas()
        if not upgrade:
            return
        self._is_rolled_back, self._is_upgraded = self._is_upgraded, True
        if not self._plan.rolls_back:
            for level in _METADATA_VERSIONS:
                self._ask("update_feature", name="metadata.version", level=level, type="UPGRADE")
            self._ask("update_feature", name="transaction.version", level=2, type="UPGRADE")

    def _next_release(self) -> str | None:
        """The release that the next rolling restart brings, None if it leaves it as it is."""
        if not self._is_upgraded:
            return self._plan.upgrade
        return self._plan.kafka if self._plan.rolls_back and not self._is_rolled_back else None

    def _reassign(self) -> None:
        """Move a partition to two or three brokers."""
        topic = self._chance.choice(("unclean", "unclean", "plain", "small", "compact"))
        nodes = [node.node_id for node in self._cluster.nodes]
        replicas = self._chance.sample(nodes, 2 if topic == "unclean" else self._chance.choice((2, 3)))
        self._ask("reassign", topic=topic, partition=self._chance.randrange(2), replicas=replicas)

    def _move(self) -> None:
        """Move some replicas to another disk of their broker, now and then to be stopped on the way."""
        node = self._chance.choice(self._cluster.nodes)
        path = node.data / self._chance.choice(self._plan.log_dirs)
        for topic in self._chance.sample(_MOVED, self._chance.choice((1, 2, len(_MOVED)))):
            place = {"topic": topic, "partition": self._chance.randrange(2), "broker": node.node_id}
            self._ask("move_replica", **place, path=str(path))
        if self._chance.random() < 0.3:
            self._log.note(f"FAULT kill -9 broker {node.node_id} while it moves replicas")
            node.kill()
            self.start(node)

    def _replace_disk(self) -> None:
        """Start a broker with an empty disk, as after it was replaced: it fetches everything from the others."""
        node = self._chance.choice(self._cluster.nodes)
        folder = node.data / self._chance.choice(self._plan.log_dirs)
        self._log.note(f"FAULT stop broker {node.node_id} and replace {folder.name}")
        node.stop()
        _empty(folder)
        self.start(node)

    def _restore_disk(self) -> None:
        """Back a disk up, or start a broker with an old backup: its replicas are behind, and truncated or fetched."""
        node = self._chance.choice(self._cluster.nodes)
        folder = node.data / self._chance.choice(self._plan.log_dirs)
        backup = self._backups.pop(folder, None)
        self._log.note(
            f"FAULT stop broker {node.node_id} and {'back up' if backup is None else 'restore'} {folder.name}"
        )
        node.stop()
        if backup is None:
            self._backups[folder] = node.folder / f"backup-{node.node_id}-{folder.name}"
            shutil.copytree(folder, self._backups[folder], ignore=_of_the_node)
        else:
            _empty(folder)
            shutil.copytree(backup, folder, dirs_exist_ok=True)
            shutil.rmtree(backup)
        self.start(node)

    def _freeze(self) -> None:
        """Stop the process of a broker for some seconds, as a virtual machine that is moved, or a long collection."""
        node = self._chance.choice([*self._cluster.nodes, *self._cluster.controllers])
        seconds = self._chance.choice((2, 7, 12))
        self._log.note(f"FAULT freeze broker {node.node_id} for {seconds} s")
        node.java.send(signal.SIGSTOP)
        time.sleep(seconds)
        node.java.send(signal.SIGCONT)

    def _prefer(self) -> None:
        for name, topic in (self._driver_topics() or {}).items():
            for each in topic["partitions"]:
                if each["leader"] != each["replicas"][0]:
                    self._ask("elect_leader", topic=name, partition=each["partition"], type="PREFERRED")

    def _unclean(self) -> None:
        """The follower is away while the leader writes; then the leader is away when the follower returns."""
        topics = self._driver_topics() or {}
        pairs = [
            (name, each)
            for name in {"unclean", *INTERNAL} & topics.keys()
            for each in topics[name]["partitions"]
            if len(each["replicas"]) == 2 and each["leader"] >= 0
        ]
        if not pairs:
            return
        topic, each = self._chance.choice(sorted(pairs, key=lambda pair: (pair[0], pair[1]["partition"])))
        partition, leader = each["partition"], each["leader"]
        follower = next(number for number in each["replicas"] if number != leader)
        if topic != "unclean":
            self._ask("alter_config", type="TOPIC", name=topic, configs={"unclean.leader.election.enable": "true"})
        self._log.note(f"FAULT unclean election of {topic}-{partition}: {leader} -> {follower}")
        self._cluster.node(follower).kill()
        time.sleep(7)
        self._cluster.node(leader).kill()
        self.start(self._cluster.node(follower))
        time.sleep(3)
        self._wait(lambda now: now[topic]["partitions"][partition]["leader"] == follower)
        self.start(self._cluster.node(leader))
        self._wait_for_replicas()

    def _driver_topics(self) -> dict[str, Any] | None:
        try:
            topics: dict[str, Any] = self._driver.ask("list_topics")
        except DriverError:
            return None
        return topics

    def _wait_for_replicas(self) -> None:
        self._wait(lambda topics: all(len(each["isr"]) == len(each["replicas"]) for each in _partitions(topics)))

    def _wait(self, met: Callable[[dict[str, Any]], bool]) -> None:
        deadline = time.monotonic() + _ELECTION_SECONDS
        while time.monotonic() < deadline:
            topics = self._driver_topics()
            if topics is not None and met(topics):
                return
            time.sleep(0.4)
        self._log.note("FAULT the brokers did not come to rest in time")

    def _change_setting(self) -> None:
        """Another setting of a topic, and before 3.0 another message format as well."""
        name, value = self._chance.choice(_SETTINGS)
        if self._plan.kafka.startswith("2.") and self._chance.random() < 0.5:
            name, value = "message.format.version", self._chance.choice(("0.9.0", "0.10.2", self._plan.kafka[:3]))
        if not self._plan.early:
            self._ask("alter_config", type="TOPIC", name="settings", configs={name: value})

    def _feature(self) -> None:
        if self._plan.transaction_version is not None or self._is_upgraded:
            kind, level = self._chance.choice((("UPGRADE", 1), ("UPGRADE", 2), ("SAFE_DOWNGRADE", 1)))
            self._ask("update_feature", name="transaction.version", level=level, type=kind)


def _empty(folder: Path) -> None:
    """Remove everything from a log directory but what makes it this node's."""
    names = [path.name for path in folder.iterdir()]
    for path in (folder / name for name in {*names} - _of_the_node(str(folder), names)):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _partitions(topics: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for topic in topics.values() for each in topic["partitions"]]
