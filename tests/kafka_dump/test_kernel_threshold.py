"""The log size from which kernels are used: the output below and above it is the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kforensics.kafka_dump.plain_run import PlainRun
from kforensics.kafka_dump.styles import STYLES
from kforensics.kafka_dump.tool_options import ToolOptions
from kforensics.kafka_dump.tool_run import run_tool
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import LocalSource
from kforensics.parsers.format.decompression import DEFAULT_BUDGET
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.kernels import policy as module
from kforensics.parsers.kernels.library import load_kernels
from kforensics.parsers.kernels.policy import KernelPolicy, kernels_for, no_kernels
from kforensics.parsers.log.selection import Selection
from tests.parsers.builders import batches

Dump = Callable[[Path, KernelPolicy], tuple[list[str | Damage], bool]]
THRESHOLD = 2000
OPTIONS = ToolOptions(print_data_log=True)
NEWEST = list(STYLES.values())[-1]


@pytest.fixture(autouse=True)
def _low_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use kernels for logs of a few batches; the kernels are compiled by then."""
    assert load_kernels(), "the kernels cannot be compiled here"
    monkeypatch.setattr(module, "MIN_LOAD_BYTES", THRESHOLD)
    monkeypatch.delenv(module.VARIABLE, raising=False)


def segment(folder: Path, size: int) -> Path:
    """Write a segment of the given size, whose last batch is cut off."""
    path = folder / "00000000000000000000.log"
    path.write_bytes(b"".join(batches(40))[:size])
    assert path.stat().st_size == size
    return path


def plain_style(path: Path, choice: KernelPolicy, start: int = 0) -> tuple[list[str | Damage], bool]:
    """Return the text and the damage of the plain style, and whether kernels printed a part of it."""
    run = PlainRun(OPTIONS, Selection(), DEFAULT_BUDGET, kernels=choice)
    text, damage, by_kernels = "", [], False
    with LocalSource(path) as source:
        for piece in run.text(FoundFile(str(path), "log", source.size), source, start):
            if isinstance(piece, Damage):
                damage.append(piece)
            else:
                by_kernels |= isinstance(piece, memoryview)
                text += piece if isinstance(piece, str) else str(piece, "utf-8")
    return [text, *damage, *run.summary()], by_kernels


def imitation(path: Path, choice: KernelPolicy) -> tuple[list[str | Damage], bool]:
    """Return both streams and the exit code of the imitated tool, and whether kernels printed a part of it."""
    out: list[str | memoryview] = []
    texts: list[str] = []

    def write(piece: str | memoryview) -> None:
        out.append(piece)
        texts.append(piece if isinstance(piece, str) else str(piece, "utf-8"))

    errors: list[str] = []
    options = ToolOptions(files=(str(path),), print_data_log=True)
    code = run_tool(options, NEWEST, write, errors.append, str(path.parent), kernels=choice)
    return ["".join(texts), "".join(errors), str(code)], any(isinstance(piece, memoryview) for piece in out)


@pytest.mark.parametrize("dump", [plain_style, imitation])
@pytest.mark.parametrize(("size", "expected"), [(THRESHOLD - 1, False), (THRESHOLD, True), (THRESHOLD + 1, True)])
def test_the_size_decides_about_kernels_and_the_output_is_the_same(
    tmp_path: Path, dump: Dump, size: int, expected: bool
) -> None:
    path = segment(tmp_path, size)
    output, by_kernels = dump(path, kernels_for)
    assert by_kernels == expected
    assert (output, False) == dump(path, no_kernels)
    assert str(output[0]).count("baseOffset: ") > 20


@pytest.mark.parametrize(("choice", "size", "expected"), [("never", 3000, False), ("always", 500, True)])
def test_the_environment_variable_overrides_the_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: str, size: int, expected: bool
) -> None:
    monkeypatch.setenv(module.VARIABLE, choice)
    path = segment(tmp_path, size)
    output, by_kernels = plain_style(path, kernels_for)
    assert by_kernels == expected
    assert (output, False) == plain_style(path, no_kernels)


def test_bytes_before_the_start_do_not_count(tmp_path: Path) -> None:
    """The size is the number of bytes to read."""
    path = segment(tmp_path, THRESHOLD + 83)
    assert len(batches(1)[0]) == 83
    assert plain_style(path, kernels_for, 83)[1]
    second = 83 + len(batches(1, first=1)[0])
    output, by_kernels = plain_style(path, kernels_for, second)
    assert not by_kernels
    assert (output, False) == plain_style(path, no_kernels, second)
