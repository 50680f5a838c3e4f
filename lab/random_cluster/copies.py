"""Copies of log directories at intervals under load: of brokers that run, and of brokers that were just killed."""

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from lab.broker import Cluster, Node
from lab.random_cluster.load import Log
from lab.random_cluster.plan import Plan

_PAUSES = (0, 0, 0.01, 0.03)
_FULL_SECONDS = 8
# Longer than until the next checkpoint, with which a broker notices that a log directory is away.
_OFFLINE_SECONDS = 8


@dataclass(frozen=True, slots=True)
class Counts:
    """How many copies to take under load.

    Attributes:
        hot: of all brokers while they run.
        killed: of one broker that was killed for it, and is started again afterwards.
        full: of one broker whose disk was full, and which is started again when it is not.
        offline: of all brokers while one of several disks of one of them is away; it is started again with the disk.
    """

    hot: int = 2
    killed: int = 0
    full: int = 0
    offline: int = 0


@dataclass(frozen=True, slots=True)
class Copier:
    """Copies the log directories of brokers.

    Attributes:
        plan: the cluster as planned.
        folder: where the copies go, one folder each.
        log: where each is noted.
    """

    plan: Plan
    folder: Path
    log: Log

    def copy(self, nodes: Sequence[Node], name: str, pause: Callable[[], Any] = lambda: None) -> None:
        """Copy the log directories file by file; what vanishes meanwhile is left out, as ``rsync`` would.

        Files have the times that the clock of their broker's host would have given them.
        """
        self.log.note(f"COPY {name} begins")
        for node in nodes:
            error_ns = self.plan.clock_error_ms(node.node_id) * 1_000_000
            for folder, _, names in os.walk(node.data):
                place = self.folder / name / node.data.name / Path(folder).relative_to(node.data)
                place.mkdir(parents=True, exist_ok=True)
                for file in names:
                    with suppress(FileNotFoundError):
                        copied = Path(shutil.copy2(Path(folder) / file, place / file))
                        times = copied.stat()
                        os.utime(copied, ns=(times.st_atime_ns + error_ns, times.st_mtime_ns + error_ns))
                    pause()
            self.log.note(f"COPY {name} has broker {node.node_id}")


class Copies:
    """Takes the copies that are due.

    Args:
        cluster: the brokers.
        copier: takes them.
        counts: how many.
        start: starts a broker that was killed.
    """

    def __init__(self, cluster: Cluster, copier: Copier, counts: Counts, start: Callable[[Node], None]) -> None:
        self._copier = copier
        self._cluster = cluster
        self._counts = counts
        self._chance = Random(counts.hot)
        self._start = start
        self._taken: Counter[str] = Counter()

    def take(self, share: float) -> None:
        """Take what is due once this share of the time under load has passed."""
        kinds = (
            ("hot", self._take_hot),
            ("killed", self._take_killed),
            ("full", self._take_full),
            ("offline", self._take_offline),
        )
        for kind, take in kinds:
            count = getattr(self._counts, kind)
            while self._taken[kind] < count and (self._taken[kind] + 1) / (count + 1) <= share:
                self._taken[kind] += 1
                take(f"{kind}-{self._taken[kind]}")

    def _take_hot(self, name: str) -> None:
        pauses = self._chance.choice((_PAUSES, (0,)))
        nodes = [*self._cluster.nodes, *self._cluster.controllers]
        self._copier.copy(nodes, name, lambda: time.sleep(self._chance.choice(pauses)))

    def _take_killed(self, name: str) -> None:
        node = self._chance.choice(self._cluster.nodes)
        time.sleep(self._chance.uniform(0, 1.5))  # in the middle of something
        self._copier.log.note(f"FAULT kill -9 broker {node.node_id}")
        node.kill()
        self._copier.copy([node], name)
        self._start(node)

    def _take_full(self, name: str) -> None:
        """A broker that cannot write to its only log directory ends; with others left, it goes on with them."""
        node = self._chance.choice(self._cluster.nodes)
        flag = full_disk_flag(node)
        self._copier.log.note(f"FAULT the disk of broker {node.node_id} is full")
        flag.touch()
        deadline = time.monotonic() + _FULL_SECONDS
        while node.java.running and time.monotonic() < deadline:
            time.sleep(0.1)
        self._copier.copy([node], name)
        flag.unlink()
        node.kill()
        self._start(node)

    def _take_offline(self, name: str) -> None:
        """A broker goes on without a log directory, unless that of its metadata; the disk comes back as it was."""
        node = self._chance.choice(self._cluster.nodes)
        disk = node.data / self._chance.choice(node.log_dirs)
        away = node.folder / f"away-{node.node_id}-{disk.name}"
        self._copier.log.note(f"FAULT {disk.name} of broker {node.node_id} is away")
        disk.rename(away)
        time.sleep(self._chance.choice((1, _OFFLINE_SECONDS, 2 * _OFFLINE_SECONDS)))
        self._copier.copy([*self._cluster.nodes, *self._cluster.controllers], name)
        self._chance.choice((node.kill, node.stop))()
        away.rename(disk)
        self._start(node)


def full_disk_flag(node: Node) -> Path:
    """The file that is there as long as the disk of a broker is full."""
    return node.folder / f"disk-of-{node.node_id}-is-full"
