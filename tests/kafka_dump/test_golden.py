"""`--style` against the recorded output of Kafka's own tools: stdout, stderr and exit code, byte for byte.

The recordings are in ``sample_logs/golden``; ``python -m lab.golden`` makes them anew. What of them cannot be
reproduced by anyone is one thing: the identity hash of a Java object in a message, which differs from run to run.
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

from kforensics.kafka_dump.options import ToolOptions
from kforensics.kafka_dump.run import run_tool
from kforensics.kafka_dump.styles import STYLES
from kforensics.parsers.kernels.library import Kernels, kernels
from kforensics.parsers.kernels.policy import Choice, no_kernels
from lab.places import SAMPLES

pytestmark = pytest.mark.exhaustive

GOLDEN = SAMPLES / "golden"
SCENARIOS = sorted(path.name.removesuffix(".json.xz") for path in GOLDEN.glob("*.json.xz"))
TOOLS = {style.release: style for style in STYLES.values()}
IDENTITY_HASH = re.compile(r"(FileChannelImpl@|\[B@)[0-9a-f]+")
# No batch of format 2 lies in these.
ONLY_OLD_FORMATS: set[str] = set()
NUMBERS = ("--max-bytes", "--max-message-size")
CLASSES = ("--key-decoder-class", "--value-decoder-class")


@dataclass(frozen=True)
class Recording:
    """One run of a tool."""

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
    """Return the options that arguments stand for, None if the tool refuses them before it looks at a file."""
    options: dict[str, Any] = {}
    words = list(arguments)
    while words:
        name = words.pop(0)
        field = name.removeprefix("--").replace("-", "_")
        if name == "--files" and words:
            options["files"] = tuple(words.pop(0).rstrip(",").split(","))
        elif name in NUMBERS and words and re.fullmatch("-?[0-9]+", words[0]):
            options[field] = int(words.pop(0))
        elif name in CLASSES:
            options[field] = words.pop(0) if words and not words[0].startswith("-") else ""
        elif field in ToolOptions.__dataclass_fields__ and name not in ("--files", *NUMBERS):
            options[field] = True
        else:
            return None
    return ToolOptions(**options) if "files" in options else None


def imitated(recording: Recording, options: ToolOptions, choice: Choice) -> tuple[str, str, int, int]:
    """Return what our imitation prints on both streams, its exit code, and how many pieces kernels wrote."""
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
    """Choose kernels whatever the size."""
    found = kernels()
    assert found, "the kernels cannot be compiled here"
    return found


def comparable(outcome: tuple[str | int, ...]) -> tuple[str, str, int]:
    """Return an outcome without identity hashes."""
    out, err, code = (IDENTITY_HASH.sub(r"\1", part) if isinstance(part, str) else part for part in outcome)
    return str(out), str(err), int(code)


@pytest.mark.parametrize("decoder", ["plain", "kernels"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_style_prints_what_the_tool_of_that_release_printed(
    scenario: str, decoder: str, monkeypatch: pytest.MonkeyPatch, record_property: Any
) -> None:
    """Every recorded run of every file and option is reproduced, in plain Python and with kernels wherever they can."""
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
    assert bool(pieces) == (decoder == "kernels" and scenario not in ONLY_OLD_FORMATS), "the wrong decoder has run"
    record_property("compared", dict(compared))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_file_of_a_scenario_has_a_recording(scenario: str) -> None:
    """No segment, index, snapshot or transaction index of a sample goes unrecorded, by any tool."""
    dumped = {"log", "index", "timeindex", "snapshot", "txnindex", "checkpoint"}
    folder = SAMPLES / scenario
    files = {str(path.relative_to(folder)) for path in folder.rglob("*.*") if path.suffix[1:] in dumped}
    recorded: dict[str, set[str]] = {tool: set() for tool in TOOLS}
    for recording in recordings(scenario):
        options = tool_options(recording.arguments)
        recorded[recording.tool].update(options.files if options else ())
    assert {tool: sorted(files - names) for tool, names in recorded.items()} == {tool: [] for tool in TOOLS}


def test_every_scenario_has_recordings() -> None:
    """A scenario folder without recordings is a mistake, and so are recordings without a folder."""
    folders = {path.name for path in SAMPLES.iterdir() if path.is_dir() and path != GOLDEN}
    assert folders == set(SCENARIOS)


def test_only_runs_without_files_are_left_out() -> None:
    """What is not compared are refusals of the option parser: its usage text is its own."""
    refused = [
        recording for recording in recordings("classic-transaction") if tool_options(recording.arguments) is None
    ]
    assert {recording.outcome[2] for recording in refused} == {1}
    assert {tuple(recording.arguments[2:]) for recording in refused} <= {
        (),
        ("--no-such-option",),
        ("--max-message-size", "many"),
        ("--max-bytes", "many"),
    }
