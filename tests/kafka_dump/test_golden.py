"""`--style` against the recorded output of Kafka's own tools: stdout, stderr and exit code, byte for byte.

The recordings are in ``sample_logs/golden``; ``python -m lab.golden`` makes them. Only the identity hash code of a Java
object in a message cannot be reproduced, because it differs from run to run.
"""

from __future__ import annotations

import json
import lzma
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from kforensics.kafka_dump.styles import STYLES
from kforensics.kafka_dump.tool_options import ToolOptions
from kforensics.kafka_dump.tool_run import run_tool
from kforensics.parsers.kernels.library import Kernels, load_kernels
from kforensics.parsers.kernels.policy import KernelPolicy, no_kernels
from lab.places import SAMPLES
from tests.thorough import some

pytestmark = pytest.mark.exhaustive

GOLDEN = SAMPLES / "golden"
SCENARIOS = sorted(path.name.removesuffix(".json.xz") for path in GOLDEN.glob("*.json.xz"))
TOOLS = {style.release: style for style in STYLES.values()}
IDENTITY_HASH = re.compile(r"(FileChannelImpl@|\[B@)[0-9a-f]+")
# These scenarios have no batch of format 2.
ONLY_OLD_FORMATS: set[str] = set()
NUMBERS = ("--max-bytes", "--max-message-size")
CLASSES = ("--key-decoder-class", "--value-decoder-class")


@dataclass(frozen=True)
class Recording:
    """A recorded run of a tool."""

    tool: str
    arguments: list[str]
    directory: str
    outcome: tuple[str, str, int]


def recordings(scenario: str) -> Iterator[Recording]:
    """Yield the runs recorded for a scenario."""
    with lzma.open(GOLDEN / f"{scenario}.json.xz") as file:
        recorded: dict[str, Any] = json.load(file)
    texts = recorded["blobs"]
    for run in recorded["runs"]:
        outcome = texts[str(run["stdout"])], texts[str(run["stderr"])], run["exit"]
        yield Recording(run["tool"], run["arguments"], recorded["directory"], outcome)


def tool_options(arguments: list[str]) -> ToolOptions | None:
    """Return the options of a command line, or None if the tool rejects it before it opens a file."""
    options: dict[str, Any] = {}
    rest = list(arguments)
    while rest:
        name = rest.pop(0)
        field = name.removeprefix("--").replace("-", "_")
        if name == "--files" and rest:
            options["files"] = tuple(rest.pop(0).rstrip(",").split(","))
        elif name in NUMBERS and rest and re.fullmatch("-?[0-9]+", rest[0]):
            options[field] = int(rest.pop(0))
        elif name in CLASSES:
            options[field] = rest.pop(0) if rest and not rest[0].startswith("-") else ""
        elif field in ToolOptions.__dataclass_fields__ and name not in ("--files", *NUMBERS):
            options[field] = True
        else:
            return None
    return ToolOptions(**options) if "files" in options else None


def imitated(recording: Recording, options: ToolOptions, choice: KernelPolicy) -> tuple[str, str, int, int]:
    """Return what the imitation prints to both streams, its exit code, and the number of pieces printed by kernels."""
    out: list[str] = []
    err: list[str] = []
    by_kernels = 0

    def write(text: str | memoryview) -> None:
        nonlocal by_kernels
        by_kernels += isinstance(text, memoryview)
        out.append(text if isinstance(text, str) else str(text, "utf-8"))

    code = run_tool(options, TOOLS[recording.tool], write, err.append, recording.directory, kernels=choice)
    return "".join(out), "".join(err), code, by_kernels


def forced_kernels(_size: int) -> Kernels | None:
    """Load the kernels for a log of any size."""
    loaded = load_kernels()
    assert loaded, "the kernels cannot be compiled here"
    return loaded


def comparable(outcome: tuple[str | int, ...]) -> tuple[str, str, int]:
    """Return an outcome without identity hash codes."""
    out, err, code = (IDENTITY_HASH.sub(r"\1", part) if isinstance(part, str) else part for part in outcome)
    return str(out), str(err), int(code)


@pytest.mark.parametrize(
    ("scenario", "decoder"),
    [*((scenario, "kernels") for scenario in SCENARIOS), *((scenario, "plain") for scenario in some(SCENARIOS, 2))],
)
def test_a_style_prints_what_the_tool_of_that_release_printed(
    scenario: str, decoder: str, monkeypatch: pytest.MonkeyPatch, record_property: Any
) -> None:
    """Every recorded run of every file and option is reproduced, in pure Python and with kernels where possible."""
    monkeypatch.chdir(SAMPLES / scenario)
    compared: Counter[str] = Counter()
    pieces = 0
    choice = no_kernels if decoder == "plain" else forced_kernels
    for recording in recordings(scenario):
        options = tool_options(recording.arguments)
        if options is None:
            continue
        expected = comparable(recording.outcome)
        out, err, code, by_kernels = imitated(recording, options, choice)
        assert comparable((out, err, code)) == expected, (recording.tool, recording.arguments)
        compared[recording.tool] += 1
        pieces += by_kernels
    assert set(compared) == set(TOOLS)
    assert bool(pieces) == (decoder == "kernels" and scenario not in ONLY_OLD_FORMATS), "the wrong decoder was used"
    record_property("compared", dict(compared))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_file_of_a_scenario_has_a_recording(scenario: str) -> None:
    """Every segment, index and snapshot of a sample has recordings of every tool."""
    dumped = {"log", "index", "timeindex", "snapshot", "txnindex", "checkpoint"}
    folder = SAMPLES / scenario
    files = {str(path.relative_to(folder)) for path in folder.rglob("*.*") if path.suffix[1:] in dumped}
    recorded: dict[str, set[str]] = {tool: set() for tool in TOOLS}
    for recording in recordings(scenario):
        options = tool_options(recording.arguments)
        recorded[recording.tool].update(options.files if options else ())
    assert {tool: sorted(files - names) for tool, names in recorded.items()} == {tool: [] for tool in TOOLS}


def test_every_scenario_has_recordings() -> None:
    """Every scenario folder has recordings, and all recordings have a folder."""
    folders = {path.name for path in SAMPLES.iterdir() if path.is_dir() and path != GOLDEN}
    assert folders == set(SCENARIOS)


def test_only_runs_without_files_are_left_out() -> None:
    """Only runs that the option parser rejects are not compared, because its usage text is not imitated."""
    rejected = [
        recording for recording in recordings("classic-transaction") if tool_options(recording.arguments) is None
    ]
    assert {recording.outcome[2] for recording in rejected} == {1}
    assert {tuple(recording.arguments[2:]) for recording in rejected} <= {
        (),
        ("--no-such-option",),
        ("--max-message-size", "many"),
        ("--max-bytes", "many"),
    }
