"""Runs the tools over scenarios and writes the golden files."""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from random import Random

from lab.errors import LabError
from lab.golden.matrix import Command, argument_errors, list_commands, list_samples
from lab.golden.process import Outcome, ToolProcess, run_alone
from lab.golden.sandbox import DIRECTORY, Sandbox, sandbox
from lab.golden.store import GoldenRun, read_golden, write_golden
from lab.golden.tools import TOOLS, DumpTool
from lab.places import SAMPLES
from lab.progress import say

GOLDEN = SAMPLES / "golden"
# The scenario whose files also get the command lines that a tool refuses.
REFUSED_IN = "classic-transaction"
# How much memory there is decides what the tool prints then.
_IRREPRODUCIBLE = "java.lang.OutOfMemoryError"


def list_scenarios() -> list[str]:
    """The names of all scenarios that have samples now."""
    return sorted(path.name for path in SAMPLES.iterdir() if path.is_dir() and path != GOLDEN)


def _folder(scenario: str) -> Path:
    folder = SAMPLES / scenario
    if not folder.is_dir():
        raise LabError(f"There are no samples of a scenario {scenario}; python -m lab samples {scenario} makes them.")
    return folder


def golden_path(scenario: str) -> Path:
    """Where the golden output of a scenario lies."""
    return GOLDEN / f"{scenario}.json.xz"


def make_golden(scenarios: Sequence[str]) -> Counter[str]:
    """Dump the samples of these scenarios with every tool.

    Returns:
        The number of runs of each tool.
    """
    total: Counter[str] = Counter()
    with ExitStack() as stack:
        box = stack.enter_context(sandbox())
        processes = [stack.enter_context(ToolProcess(tool, box.directory)) for tool in TOOLS]
        for scenario in scenarios:
            box.load(_folder(scenario))
            runs = _run_all(processes, box, scenario)
            write_golden(golden_path(scenario), scenario, str(box.directory), runs)
            total.update(run.tool for run in runs)
            say(f"golden {scenario}: {len(runs)} runs, {golden_path(scenario).stat().st_size} bytes")
    return total


def check_alone(scenarios: Sequence[str], runs_per_tool: int) -> list[str]:
    """Repeat a choice of the golden runs in processes of their own.

    Returns:
        One sentence for every run that went otherwise.
    """
    differences = []
    with sandbox() as box:
        for scenario in scenarios:
            box.load(_folder(scenario))
            runs = read_golden(golden_path(scenario))
            for tool in TOOLS:
                mine = [run for run in runs if run.tool == tool.version]
                chosen = Random(scenario).sample(mine, min(runs_per_tool, len(mine)))
                differences += [_difference(tool, run, scenario) for run in chosen if _differs(tool, run)]
                box.load(_folder(scenario))
    return differences


def _run_all(processes: Sequence[ToolProcess], box: Sandbox, scenario: str) -> list[GoldenRun]:
    """The runs of all tools: those that only read at the same time, those that may write one after the other."""
    plans = [(process, _plan(process.tool, scenario)) for process in processes]
    with ThreadPoolExecutor(len(processes)) as pool:
        readings = list(pool.map(lambda plan: _read(*plan), plans))
    runs = []
    for (process, commands), outcomes in zip(plans, readings, strict=True):
        for command in commands:
            outcome = outcomes.get(command) or _write(process, command, box)
            version = process.tool.version
            runs.append(GoldenRun(version, command.arguments, outcome.exit, outcome.stdout, outcome.stderr))
    kept = [run for run in runs if _IRREPRODUCIBLE not in run.stderr]
    if len(kept) < len(runs):
        say(f"left out {len(runs) - len(kept)} runs of {scenario} that ran out of memory")
    return kept


def _plan(tool: DumpTool, scenario: str) -> list[Command]:
    samples = list_samples(SAMPLES / scenario)
    refused = argument_errors(tool, samples) if scenario == REFUSED_IN else []
    return [*list_commands(tool, samples), *refused]


def _read(process: ToolProcess, commands: Sequence[Command]) -> dict[Command, Outcome]:
    return {command: process.run(command.arguments) for command in commands if not command.alters}


def _write(process: ToolProcess, command: Command, box: Sandbox) -> Outcome:
    try:
        return process.run(command.arguments)
    finally:
        for folder in command.alters:
            box.restore(folder)


def _differs(tool: DumpTool, run: GoldenRun) -> bool:
    alone = run_alone(tool, DIRECTORY, run.arguments)
    return alone != Outcome(run.exit, run.stdout, run.stderr)


def _difference(tool: DumpTool, run: GoldenRun, scenario: str) -> str:
    return f"{scenario}: tool {tool.version} in a process of its own does otherwise: {' '.join(run.arguments)}"
