"""Times and memory of whole processes, summarized over several rounds."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.peers import Peer
from benchmarks.segments import Segment
from lab.progress import say

# Linux counts the peak in KiB, macOS in bytes.
_PEAK_UNIT = 1 if os.uname().sysname == "Darwin" else 1024


@dataclass(frozen=True, slots=True)
class Run:
    """One process.

    Attributes:
        seconds: from its start to its end.
        peak: most bytes of memory it held.
        failure: why the run does not count, or empty.
    """

    seconds: float
    peak: int
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Spread:
    """A value over several rounds."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """The spread of these values."""
        return cls(median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics of one program on one segment over all rounds.

    Attributes:
        seconds: the times of its rounds.
        times_faster: than the base of its job, median by median, and the least and most of any round; None if the
            base failed.
        peak_bytes: most memory in any round.
    """

    seconds: Spread
    times_faster: Spread | None
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Result:
    """A program and its metrics.

    Attributes:
        peer: the program.
        first_run: the run before the rounds, which does not count.
        metrics: of the rounds; None if a run failed.
        failure: why there are no metrics, or empty.
    """

    peer: Peer
    first_run: Run
    metrics: Metrics | None
    failure: str = ""


Measured = Sequence[tuple[Segment, Sequence[Result]]]


def measure(segment: Segment, peers: Sequence[Peer], rounds: int) -> list[Result]:
    """Every program once per round, one after the other, so that load on the machine affects all of them.

    A round before the first does not count: a program that compiles once and caches the result does so there.
    """
    segment.into_page_cache()
    runs: dict[Peer, list[Run]] = {peer: [] for peer in peers}
    for number in range(rounds + 1):
        for peer in peers:
            if runs[peer] and runs[peer][-1].failure:
                continue
            run = run_once(peer, segment)
            round_name = f"round {number} of {rounds}" if number else "first run"
            label = f"{segment.name}, {round_name}: {peer.name}, {peer.job}"
            say(f"{label}: {run.seconds:.2f} s {run.failure}".rstrip())
            runs[peer].append(run)
    bases = {peer.job: runs[peer] for peer in peers if peer.base}
    return [_summed_up(peer, runs[peer], bases[peer.job]) for peer in peers]


def run_once(peer: Peer, segment: Segment) -> Run:
    """Run one process from start to end and time it."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(
            peer.command(segment),
            stdin=subprocess.DEVNULL,
            stdout=output if peer.counts else subprocess.DEVNULL,
            stderr=errors,
        )
        # Not process.wait(): only this call returns the memory of this one child.
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        failure = _failure(peer, segment, process.returncode, output.read(), errors.read())
    return Run(seconds, usage.ru_maxrss * _PEAK_UNIT, failure)


def _failure(peer: Peer, segment: Segment, exit_code: int, output: bytes, errors: bytes) -> str:
    if exit_code != 0:
        last = errors.decode(errors="replace").strip().splitlines()[-1:]
        return " ".join([f"ended with exit code {exit_code}.", *last])
    if peer.counts and (met := json.loads(output)["records"]) != segment.records:
        return f"met {met} records of {segment.records}."
    return ""


def _summed_up(peer: Peer, runs: Sequence[Run], base: Sequence[Run]) -> Result:
    first, *rounds = runs
    if runs[-1].failure:
        return Result(peer, first, None, runs[-1].failure)
    seconds = Spread.of([run.seconds for run in rounds])
    ratio = None if base[-1].failure else _ratio(base[1:], rounds)
    return Result(peer, first, Metrics(seconds, ratio, max(run.peak for run in rounds)))


def _ratio(base: Sequence[Run], runs: Sequence[Run]) -> Spread:
    by_round = [other.seconds / run.seconds for other, run in zip(base, runs, strict=True)]
    by_median = median(run.seconds for run in base) / median(run.seconds for run in runs)
    return Spread(by_median, min(by_round), max(by_round))
