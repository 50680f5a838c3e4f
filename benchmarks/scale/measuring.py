"""Measurements in processes of their own, so that what one has loaded or compiled helps no other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.scale import data
from benchmarks.scale.synthetic import Made
from lab.errors import LabError
from lab.places import ROOT
from lab.progress import say

Row = dict[str, "str | float"]
Scans = Sequence[tuple[str, str]]
Metrics = dict[str, float]


@dataclass(frozen=True, slots=True)
class Bench:
    """Runs measurements.

    Attributes:
        rounds: how often audits run.
    """

    rounds: int

    def audits(self, paths: Sequence[Path], cores: int) -> list[tuple[Metrics, Metrics]]:
        """Medians of the audit of each of these logs, in a pool and on Spark, which take turns.

        Raises:
            LabError: one of them failed.
        """
        arguments = {"paths": list(map(str, paths)), "cores": cores}
        rounds = [(_measured("in_process", arguments), _measured("on_spark", arguments)) for _ in range(self.rounds)]
        pools, sparks = ([_medians(one) for one in zip(*some, strict=True)] for some in zip(*rounds, strict=True))
        return list(zip(pools, sparks, strict=True))

    def least(self, job: str, path: Path, times: int, cores: int, *, is_pinned: bool = True) -> Metrics:
        """The minimum of each metric of a job over several runs, one after the other.

        Raises:
            LabError: it failed.
        """
        arguments = {"paths": [str(path)] * times, "cores": cores, "is_pinned": is_pinned}
        taken = [one for _ in range(self.rounds) for one in _measured(job, arguments)]
        return {name: min(one[name] for one in taken) for name in taken[0]}

    def scans(self, path: Path, scans: Scans, properties: Mapping[str, str]) -> list[Metrics]:
        """What counting rows takes on one processor, for each of some scans; the least of all rounds.

        Args:
            path: the logs.
            scans: tables and the columns that are read of them, all if none is named.
            properties: of Spark.

        Raises:
            LabError: it failed.
        """
        arguments = {"paths": [str(path)] * 2, "cores": 1, "scans": scans, "properties": properties}
        rounds = [_measured("scanning", arguments) for _ in range(self.rounds)]
        again = [one[half : half + len(scans)] for one in rounds for half in (0, len(scans))]
        return [min(some, key=lambda one: one["seconds"]) for some in zip(*again, strict=True)]

    def synthetic(self, job: str, made: Sequence[Made]) -> list[Metrics]:
        """What a job takes for each kind of made partitions, once.

        Raises:
            LabError: it failed.
        """
        return _measured(job, {"made": [asdict(one) for one in made]})


def _medians(rounds: Sequence[Metrics]) -> Metrics:
    return {name: median(one[name] for one in rounds) for name in rounds[0]}


def _measured(job: str, arguments: dict[str, Any]) -> list[Metrics]:
    with _warm() as warm, data.folder("work") as folder:
        given = json.dumps({"job": job, "folder": str(folder), "warm": str(warm), **arguments})
        command = [sys.executable, "-m", "benchmarks.scale.child", given]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise LabError(f"{job} failed:\n{ended.stderr[-2000:]}")
    measured: list[Metrics] = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    for one in measured:
        say(f"{job}: {one['seconds']:.1f} s, {one['cpu']:.1f} s of processors, load {one['load']:.1f}")
    return measured


@contextmanager
def _warm() -> Iterator[Path]:
    with data.folder("warm") as folder:
        data.write_transactions(folder / "warm-0", 2, 10)
        yield folder
