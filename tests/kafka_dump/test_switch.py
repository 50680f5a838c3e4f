"""From which size on kernels read: on both sides of the border the same is printed, by whom it should be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kforensics.kafka_dump.options import ToolOptions
from kforensics.kafka_dump.plain_run import PlainRun
from kforensics.kafka_dump.run import run_tool
from kforensics.kafka_dump.styles import STYLES
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import LocalSource
from kforensics.parsers.format.codecs import DEFAULT_BUDGET
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.kernels import policy as module
from kforensics.parsers.kernels.library import kernels
from kforensics.parsers.kernels.policy import Choice, kernels_for, no_kernels
from kforensics.parsers.log.selection import Selection
from tests.parsers.builders import batches

Dump = Callable[[Path, Choice], tuple[list[str | Damage], bool]]
BORDER = 2000
OPTIONS = ToolOptions(print_data_log=True)
NEWEST = list(STYLES.values())[-1]


@pytest.fixture(autouse=True)
def _low_border(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have kernels read from a few batches on; they are compiled by now."""
    assert kernels(), "the kernels cannot be compiled here"
    monkeypatch.setattr(module, "WORTH_LOADING", BORDER)
    monkeypatch.delenv(module.VARIABLE, raising=False)


def segment(folder: Path, size: int) -> Path:
    """Return a segment of exactly so many bytes, the last batch cut."""
    path = folder / "00000000000000000000.log"
    path.write_bytes(b"".join(batches(40))[:size])
    assert path.stat().st_size == size
    return path


def plain_style(path: Path, choice: Choice, start: int = 0) -> tuple[list[str | Damage], bool]:
    """Return what the plain style gives, text and damage, and whether kernels wrote some of it."""
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


def imitation(path: Path, choice: Choice) -> tuple[list[str | Damage], bool]:
    """Return the same of the imitation of Kafka's tool: both streams and the exit code."""
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
@pytest.mark.parametrize(("size", "expected"), [(BORDER - 1, False), (BORDER, True), (BORDER + 1, True)])
def test_the_size_decides_who_reads_and_nobody_sees_it(tmp_path: Path, dump: Dump, size: int, expected: bool) -> None:
    path = segment(tmp_path, size)
    found, by_kernels = dump(path, kernels_for)
    assert by_kernels == expected
    assert (found, False) == dump(path, no_kernels)
    assert str(found[0]).count("baseOffset: ") > 20


@pytest.mark.parametrize(("choice", "size", "expected"), [("never", 3000, False), ("always", 500, True)])
def test_the_user_overrules_the_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: str, size: int, expected: bool
) -> None:
    monkeypatch.setenv(module.VARIABLE, choice)
    path = segment(tmp_path, size)
    found, by_kernels = plain_style(path, kernels_for)
    assert by_kernels == expected
    assert (found, False) == plain_style(path, no_kernels)


def test_what_is_skipped_at_the_start_does_not_count(tmp_path: Path) -> None:
    """The size is what is left to read."""
    path = segment(tmp_path, BORDER + 83)
    assert len(batches(1)[0]) == 83
    assert plain_style(path, kernels_for, 83)[1]
    second = 83 + len(batches(1, first=1)[0])
    found, by_kernels = plain_style(path, kernels_for, second)
    assert not by_kernels
    assert (found, False) == plain_style(path, no_kernels, second)
