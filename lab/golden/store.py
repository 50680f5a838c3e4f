"""The golden files: runs and their texts, each text stored once."""

import json
import lzma
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class GoldenRun:
    """One run of one tool, with what it printed."""

    tool: str
    arguments: tuple[str, ...]
    exit: int
    stdout: str
    stderr: str


def write_golden(path: Path, scenario: str, directory: str, runs: Sequence[GoldenRun]) -> None:
    """Write a golden file; the same runs give the same bytes."""
    blobs: dict[str, str] = {}
    rows = [
        {
            "tool": run.tool,
            "arguments": run.arguments,
            "exit": run.exit,
            "stdout": blobs.setdefault(run.stdout, str(len(blobs))),
            "stderr": blobs.setdefault(run.stderr, str(len(blobs))),
        }
        for run in runs
    ]
    texts = {number: text for text, number in blobs.items()}
    document = {"scenario": scenario, "directory": directory, "runs": rows, "blobs": texts}
    text = json.dumps(document, ensure_ascii=False, indent=0, separators=(",", ":"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_compress(text.encode()))


def _compress(text: bytes) -> bytes:
    """One window over the whole text, for the outputs of the tools differ from each other in a few words only."""
    window = max(1 << len(text).bit_length(), 1 << 16)
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": window}]
    return lzma.compress(text, format=lzma.FORMAT_XZ, filters=filters)


def read_golden(path: Path) -> list[GoldenRun]:
    """The runs of a golden file."""
    document: dict[str, Any] = json.loads(lzma.decompress(path.read_bytes()))
    blobs = document["blobs"]
    return [
        GoldenRun(row["tool"], tuple(row["arguments"]), row["exit"], blobs[row["stdout"]], blobs[row["stderr"]])
        for row in document["runs"]
    ]
