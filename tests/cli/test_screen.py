"""What a terminal shows: the same commands at 80 and 120 columns, with and without colours, as files.

``KFORENSICS_UPDATE_SCREENS=1`` writes the files anew; the difference is for people to read.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.command import ROOT, run
from tests.forensics.forge import forge

SCREENS = Path(__file__).parent / "screens"
AS_OF = "2026-11-21T12:30"
FORGED = ("--as-of", 1_700_009_000_000)
V2 = Path("sample_logs/transactions-v2/broker-1")
QUIET, STUCK = 400, 40
WIDTHS, ESCAPE = (80, 120), "\x1b["
SGR = re.compile(r"\x1b\[[0-9;]*m")

CASES = {
    "lso": ("lso", "--as-of", AS_OF, V2),
    "lso-history": ("lso", "--as-of", AS_OF, "--history", V2 / "open-0", V2 / "committed-0"),
    "lso-one-stuck-of-400": ("lso", *FORGED, "cluster"),
    "lso-forty-of-one-producer": ("lso", *FORGED, "held"),
    "transactions": ("transactions", "--as-of", AS_OF, V2 / "open-0", V2 / "committed-0", V2 / "segments-0"),
    "transactions-wide": ("transactions", "--as-of", AS_OF, "--wide", V2 / "open-0"),
    "transactions-one-stuck-of-400": ("transactions", *FORGED, "--state", "open", "cluster"),
    "producers": ("producers", "--as-of", AS_OF, V2),
    "duplicates": ("duplicates", "--as-of", "2026-11-21T18:00", "sample_logs/duplicates"),
    "scan": ("scan", "--as-of", AS_OF, V2),
    "scan-one-stuck-of-400": ("scan", *FORGED, "cluster"),
    "verify": ("verify", "--as-of", "2026-11-21T12:15", "sample_logs/damaged/batches/written-twice-0"),
    "explain": ("explain", "--as-of", "2026-11-21T12:16", "--offset", 5, V2 / "open-0"),
    "keys": ("keys", "--as-of", "2026-11-22", "--topic", "grown-twice", "sample_logs/partition-growth"),
}
screens = pytest.mark.parametrize("name", CASES)


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a log directory of 400 healthy partitions and a stuck one, and another of 40 stuck ones."""
    folder = tmp_path_factory.mktemp("c")
    for number in range(QUIET):
        forge(folder / "cluster", "D 1 0 0-4 @0-4 T ts 1700000000000; M 1 0 C 3 @5", topic="orders", partition=number)
    forge(folder / "cluster", "D 7 2 0-4 @0-4 T ts 1700000000000; D 8 0 0-3 @5-8 N", topic="stuck")
    for number in range(STUCK):
        open_since = "D 1 0 0-4 @0-4 T ts 1700000000000; M 1 0 C 3 @5; D 9 1 0-4 @6-10 T ts 1700000100000"
        forge(folder / "held", open_since, topic="held", partition=number)
    return folder


SHOWN: dict[tuple[str, int, str], str] = {}


def _shown(name: str, clusters: Path, monkeypatch: pytest.MonkeyPatch, width: int, color: str) -> str:
    """Return what a command shows; it runs once for several tests."""
    if (name, width, color) not in SHOWN:
        SHOWN[name, width, color] = _run(name, clusters, monkeypatch, width, color)
    return SHOWN[name, width, color]


def _run(name: str, clusters: Path, monkeypatch: pytest.MonkeyPatch, width: int, color: str) -> str:
    monkeypatch.chdir(clusters if CASES[name][-1] in ("cluster", "held") else ROOT)
    monkeypatch.setenv("COLUMNS", str(width))
    command, *words = CASES[name]
    ended = run(command, "--quiet", "--color", color, *words)
    assert (ended.code in (0, 1), ended.err) == (True, "")
    return ended.text.replace(f" --color {color}", "")


@screens
def test_the_screen_is_the_recorded_one(name: str, clusters: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sections = []
    for width in WIDTHS:
        plain, coloured = (_shown(name, clusters, monkeypatch, width, color) for color in ("never", "always"))
        assert ESCAPE not in plain
        assert SGR.sub("", coloured) == plain
        sections.append(f"==== {width} columns\n{plain}==== {width} columns, in colour\n{coloured}")
    screen, file = "".join(sections).replace("\x1b", "␛"), SCREENS / f"{name}.txt"
    if os.environ.get("KFORENSICS_UPDATE_SCREENS"):
        file.write_text(screen, encoding="utf-8")
    assert screen == file.read_text(encoding="utf-8")


@screens
@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_longer_than_the_screen_but_commands_and_words(
    name: str, width: int, clusters: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = _shown(name, clusters, monkeypatch, width, "never").splitlines()
    long = [line for line in lines if len(line) > width and not line.lstrip().startswith("$ ")]
    if "--wide" not in CASES[name]:
        assert [line for line in long if len(line.split()) > 2 and "/" not in line] == []


@screens
def test_no_word_and_no_command_is_torn(name: str, clusters: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The words at 80 columns are those of a screen without an end, in the same order."""
    if CASES[name][0] in ("transactions", "producers"):
        pytest.skip("the width decides about the columns of a table")
    narrow, endless = (_shown(name, clusters, monkeypatch, width, "never") for width in (80, 9_999))
    assert narrow.split() == endless.split()
    commands = [line.strip() for line in endless.splitlines() if line.lstrip().startswith("$ ")]
    assert [line.strip() for line in narrow.splitlines() if line.lstrip().startswith("$ ")] == commands


def test_the_stuck_partition_of_400_is_on_the_first_screen(clusters: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lso-one-stuck-of-400", "transactions-one-stuck-of-400", "scan-one-stuck-of-400"):
        lines = _shown(name, clusters, monkeypatch, 80, "never").splitlines()
        assert "stuck-0" in lines[0]
        assert len(lines) <= 24, name


def test_a_cause_is_stated_once_for_forty_partitions(clusters: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = _shown("lso-forty-of-one-producer", clusters, monkeypatch, 80, "never")
    assert text.startswith("40 partitions: LSO stuck, blocked by producer 9, epoch 1\n")
    assert text.count("find-hanging") == 1
    monkeypatch.chdir(clusters)
    complete = run("lso", "--quiet", "--all", *FORGED, "held").text
    assert [f"held-{number} on" in complete for number in range(STUCK)] == [True] * STUCK


def test_all_lists_every_partition(tmp_path: Path) -> None:
    for number in range(5):
        forge(tmp_path, "plain @0-4 ts 1700000000000", partition=number)
    for command in ("lso", "transactions", "producers", "scan", "verify"):
        words = (command, "--quiet", *FORGED, tmp_path)
        (closing,) = run(*words).lines
        assert closing.startswith("5 partitions: "), command
        complete = run(*words, "--all").lines
        assert sum(" on broker 1" in line for line in complete if not line.startswith(" ")) == 5, command


def test_two_clusters_with_the_same_producer_id_have_two_causes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The transactions of two clusters have nothing to do with each other, whatever their producer ids."""
    monkeypatch.chdir(ROOT)
    words = ("lso", "--quiet", "--as-of", AS_OF, "--topic", "hanging")
    text = run(*words, "sample_logs/transactions-v2", "sample_logs/transactions-v1").text
    assert text.count("blocked by producer") == 2
    assert "2 partitions: LSO stuck" not in text


def test_no_color_and_pipes_have_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert ESCAPE not in run(*CASES["lso"]).text
    monkeypatch.setenv("NO_COLOR", "1")
    assert ESCAPE in run("lso", "--color", "always", *CASES["lso"][1:]).text


def test_a_pipe_has_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("COLUMNS", raising=False)
    (line,) = (line for line in run(*CASES["lso"]).lines if "critical lso-stuck: LSO stuck at 3" in line)
    assert line.endswith("2 ended and 0 other open transactions are blocked.")
