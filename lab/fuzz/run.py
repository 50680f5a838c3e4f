"""Runs the attacks, each in a process of its own, until their time is over."""

from __future__ import annotations

import multiprocessing
import re
import resource
import shutil
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

from lab.fuzz.attack import Attack, Weakness, input_dice
from lab.progress import say

# Each attack is in a module that loads much; only the process that makes it loads that.
ATTACKS: Mapping[str, tuple[str, str]] = {
    "decoders": ("lab.fuzz.decoder_attack", "attack_decoders"),
    "state-files": ("lab.fuzz.state_file_attack", "attack_state_files"),
    "commands": ("lab.fuzz.cluster_attack", "attack_commands"),
    "text": ("lab.fuzz.text_attack", "attack_with_text"),
}
# No input takes longer, and no process more memory: all inputs are small.
MOST_SECONDS, MOST_MEMORY = 900, 1 << 30
# Then the attack ends: something is wrong with everything.
MOST_FAILURES = 20


Worker = tuple[SpawnProcess, Connection]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do.

    Attributes:
        attacks: names of the attacks.
        seed: decides all inputs.
        seconds: how long each attack lasts.
        first: number of the first input.
        inputs: how many inputs of each attack, None for as many as there is time for.
        output: folder for the inputs that were not withstood.
    """

    attacks: tuple[str, ...]
    seed: int
    seconds: float
    first: int
    inputs: int | None
    output: Path


@dataclass(slots=True)
class Progress:
    """How far an attack is.

    Attributes:
        plan: what to do.
        name: the attack.
        done: number of inputs that were used.
        failures: how many of them were not withstood.
        deadline: when the attack ends, in seconds of the monotonic clock.
        seen: when the last input ended.
    """

    plan: Plan
    name: str
    deadline: float
    done: int = 0
    failures: int = 0
    seen: float = 0

    def fail(self, why: str) -> None:
        """Report the current input, and how to repeat it."""
        number = self.plan.first + self.done
        folder = kept_in(self.plan, self.name, number)
        repeat = f"python -m lab.fuzz --attack {self.name} --seed {self.plan.seed} --first {number} --inputs 1"
        say(f"{self.name}: input {number} of seed {self.plan.seed} was not withstood: {why}")
        say(f"{self.name}: the input is in {folder}; repeat it with: {repeat}")
        self.failures += 1
        self.done += 1

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to do."""
        is_all = self.plan.inputs is not None and self.done >= self.plan.inputs
        return is_all or self.failures >= MOST_FAILURES or time.monotonic() > self.deadline


def kept_in(plan: Plan, name: str, number: int) -> Path:
    """Return the folder in which an input is kept."""
    return plan.output / f"{name}-{plan.seed}-{number}"


def attack_of(name: str) -> Attack:
    """Return the function of an attack."""
    module, function = ATTACKS[name]
    attack: Attack = getattr(import_module(module), function)
    return attack


def try_input(name: str, seed: int, number: int, keep: Path | None = None) -> str | None:
    """Make an attack with one input; return why it was not withstood, None if it was.

    Args:
        name: the attack.
        seed: with the number, decides the input.
        number: number of the input.
        keep: folder in which to keep the input.
    """
    try:
        attack_of(name)(input_dice(seed, name, number), keep)
    except Weakness as weakness:
        return str(weakness)
    except Exception:  # noqa: BLE001  # whatever it is, it must not happen
        return traceback.format_exc()
    return None


def run_attacks(plan: Plan) -> list[Progress]:
    """Make all attacks at once, and return how far each came."""
    deadline = time.monotonic() + plan.seconds
    running = {name: Progress(plan, name, deadline, seen=time.monotonic()) for name in plan.attacks}
    workers = {name: _started(progress) for name, progress in running.items()}
    with suppress(KeyboardInterrupt):  # the counts are printed all the same
        _follow(running, workers)
    for process, _ in workers.values():
        process.kill()
    return list(running.values())


def _follow(running: dict[str, Progress], workers: dict[str, Worker]) -> None:
    """Follow the attacks to their ends."""
    while workers:
        wait([connection for _, connection in workers.values()], timeout=1)
        for name, (process, connection) in list(workers.items()):
            if _is_running(running[name], process, connection):
                continue
            process.kill()
            process.join()
            del workers[name]
            if not running[name].is_over:
                workers[name] = _started(running[name])


def _started(progress: Progress) -> Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    numbers = progress.plan.first + progress.done, progress.plan.inputs
    left = None if numbers[1] is None else numbers[1] - progress.done
    process = context.Process(target=_work, args=(theirs, progress.plan, progress.name, numbers[0], left), daemon=False)
    process.start()
    theirs.close()
    progress.seen = time.monotonic()
    return process, ours


def _work(connection: Connection, plan: Plan, name: str, first: int, inputs: int | None) -> None:
    """Use one input after the other, and send of each why it was not withstood."""
    for number in _numbers(first, inputs):
        why = try_input(name, plan.seed, number)
        used = _most_memory()
        if why is None and used > MOST_MEMORY:
            why = f"the process has used {used} bytes of memory"
        connection.send(why)
        if why:
            _keep(plan, name, number)
            return  # what failed may have left this process in any state


def _most_memory() -> int:
    """Return the most memory in bytes that this process has used.

    ``getrusage`` also counts what the process that started it had used: Linux keeps the number when a program starts.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:  # not Linux
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (peak,) = re.findall(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    return 1024 * int(peak)


def _numbers(first: int, inputs: int | None) -> Iterator[int]:
    number = first
    while inputs is None or number < first + inputs:
        yield number
        number += 1


def _keep(plan: Plan, name: str, number: int) -> None:
    folder = kept_in(plan, name, number)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try_input(name, plan.seed, number, folder)


def _is_running(progress: Progress, process: SpawnProcess, connection: Connection) -> bool:
    """Take what a process has sent; return False if it has ended, or must be ended."""
    try:
        while not progress.is_over and connection.poll():
            progress.seen = time.monotonic()
            if why := connection.recv():
                progress.fail(why)
                process.join(MOST_SECONDS)  # while it keeps the input
                return False
            progress.done += 1
    except EOFError:
        process.join()
        if process.exitcode:
            progress.fail(f"the process ended with {process.exitcode}")
        return False
    if not progress.is_over and time.monotonic() - progress.seen > MOST_SECONDS:
        progress.fail(f"no end after {MOST_SECONDS} s")
        return False
    return not progress.is_over
