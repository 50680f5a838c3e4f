"""Copies of log directories at intervals under load: of brokers that run, and of brokers that were just killed."""

import os
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from lab.broker import Cluster, Node
from lab.random_cluster.load import Log

_PAUSES = (0, 0, 0.01, 0.03)


@dataclass(frozen=True, slots=True)
class Counts:
    """How many copies to take under load.

    Attributes:
        hot: of all brokers while they run.
        killed: of one broker that was killed for it, and is started again afterwards.
    """

    hot: int = 2
    killed: int = 0


class Copies:
    """Takes the copies that are due.

    Args:
        cluster: the brokers.
        folder: where the copies go, one folder each.
        counts: how many.
        log: where each is noted.
        start: starts a broker that was killed.
    """

    def __init__(self, cluster: Cluster, folder: Path, counts: Counts, log: Log, start: Callable[[Node], None]) -> None:
        self._cluster = cluster
        self._folder = folder
        self._counts = counts
        self._log = log
        self._chance = Random(counts.hot)
        self._start = start
        self._hot = self._killed = 0

    def take(self, share: float) -> None:
        """Take what is due once this share of the time under load has passed."""
        while self._hot < self._counts.hot and (self._hot + 1) / (self._counts.hot + 1) <= share:
            self._hot += 1
            self._take_hot()
        while self._killed < self._counts.killed and (self._killed + 1) / (self._counts.killed + 1) <= share:
            self._killed += 1
            self._take_killed()

    def _take_hot(self) -> None:
        target = self._folder / f"hot-{self._hot}"
        copy(self._cluster.nodes, target, self._log, pause=lambda: time.sleep(self._chance.choice(_PAUSES)))

    def _take_killed(self) -> None:
        node = self._chance.choice(self._cluster.nodes)
        time.sleep(self._chance.uniform(0, 1.5))  # in the middle of something
        self._log.note(f"FAULT kill -9 broker {node.node_id}")
        node.kill()
        copy([node], self._folder / f"killed-{self._killed}", self._log)
        self._start(node)


def copy(nodes: Sequence[Node], target: Path, log: Log, pause: Callable[[], Any] = lambda: None) -> None:
    """Copy the log directories file by file; what vanishes meanwhile is left out, as ``rsync`` would."""
    log.note(f"COPY {target.name} begins")
    for node in nodes:
        for folder, _, names in os.walk(node.data):
            place = target / node.data.name / Path(folder).relative_to(node.data)
            place.mkdir(parents=True, exist_ok=True)
            for name in names:
                with suppress(FileNotFoundError):
                    shutil.copy2(Path(folder) / name, place / name)
                pause()
        log.note(f"COPY {target.name} has broker {node.node_id}")
