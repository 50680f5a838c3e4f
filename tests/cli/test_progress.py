"""What commands write to standard error while they work: progress, evidence and timings, and nothing unless wanted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kforensics.render import streams
from tests.command import ROOT, SAMPLES, run

BROKER = SAMPLES / "transactions-v2" / "broker-1"
AS_OF = ("--as-of", "2026-11-21T12:30")
COMMANDS: dict[str, tuple[object, ...]] = {
    "lso": ("lso", BROKER),
    "transactions": ("transactions", BROKER),
    "producers": ("producers", BROKER),
    "duplicates": ("duplicates", BROKER),
    "keys": ("keys", BROKER),
    "explain-offset": ("explain", "--offset", 1, BROKER / "open-0"),
    "explain-range": ("explain", "--offset", "1:9", BROKER / "open-0"),
    "explain-producer": ("explain", "--producer-id", 12, BROKER),
    "explain-id": ("explain", "--transactional-id", "wide", BROKER),
    "ids": ("ids", BROKER),
    "groups": ("groups", SAMPLES / "groups"),
    "cluster": ("cluster", BROKER),
    "settings": ("settings", BROKER),
    "scan": ("scan", BROKER),
    "verify": ("verify", BROKER),
    "audit": ("audit", BROKER),
}
MIRRORED, FILE = ROOT / "tests" / "data" / "mirror", "FILE"
# Commands that tell nothing of their evidence, and may be long at work all the same. FILE is where they write.
OTHERS: dict[str, tuple[object, ...]] = {
    "forecast": ("forecast", BROKER),
    "forecast-elect": ("forecast", "--elect", SAMPLES / "replication"),
    "mirror": ("mirror", MIRRORED / "source", MIRRORED / "target"),
    "query-logs-table": ("query", "--logs", BROKER, "SELECT count(*) AS batches FROM batches"),
    "query-logs-damage": ("query", "--logs", BROKER, "SELECT * FROM damage"),
    "query-logs-answer": ("query", "--logs", BROKER, "SELECT * FROM lso"),
    "query-store": ("query", "STORE", "SELECT code, count(*) AS findings FROM findings GROUP BY code"),
    "plot-answer": ("plot", "lso", "--topic", "open", "--output", FILE, BROKER),
    "plot-table": ("plot", "sequences", "--topic", "open", "--output", FILE, BROKER),
    "plot-audit": ("plot", "timeline", "--output", FILE, BROKER),
    "report": ("report", "STORE", "--output", FILE),
    "dump": ("dump", BROKER / "open-0" / "00000000000000000000.log"),
    "collect": ("collect", BROKER, "--output", FILE),
}
commands = pytest.mark.parametrize("name", COMMANDS)
others = pytest.mark.parametrize("name", OTHERS)
TIMING = re.compile(r"[a-z ,]+: \d+\.\d\d s")
EVIDENCE = ("evidence: ", "logs of coordinators", "settings given: ", "time of evaluation: ")


@commands
def test_long_work_shows_what_and_how_far(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PATIENCE_SECONDS", -1.0)
    monkeypatch.setenv("FORCE_COLOR", "1")  # the library of the bar then takes standard error for a terminal
    monkeypatch.setenv("COLUMNS", "100")
    command, *words = COMMANDS[name]
    err = run(command, *AS_OF, "--progress", *words).err
    last = re.findall(rf"{command} (\d+)/(\d+) partitions", err)[-1]
    assert int(last[0]) > 0
    assert last[0] == last[1]
    (done, total) = re.findall(r"([\d.]+)/([\d.]+) (?:kB|bytes)", err)[-1]
    assert done == total


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an evidence store."""
    folder = tmp_path_factory.mktemp("s") / "store"
    assert run("audit", "--output", folder, BROKER).code == 1
    return folder


def _words(name: str, store: Path, tmp_path: Path) -> list[object]:
    file = tmp_path / ("case.tar" if name == "collect" else "report.html")
    return [{"STORE": store, FILE: file}.get(str(word), word) for word in OTHERS[name]]


@others
def test_other_long_work_shows_how_far_it_is(
    name: str, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "PATIENCE_SECONDS", -1.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    command, *words = _words(name, store, tmp_path)
    err = run(command, "--progress", *words).err
    assert f"{command} " in err
    done, total = re.findall(r"([\d.]+)/([\d.]+) (?:MB|kB|bytes)", err)[-1]
    assert float(total) > 0
    assert done == total
    for finished, expected in re.findall(rf"{command} (\d+)/(\d+) partitions", err)[-1:]:
        assert finished == expected


@others
def test_other_work_shows_no_progress_unless_wanted(
    name: str, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "PATIENCE_SECONDS", -1.0)
    command, *words = _words(name, store, tmp_path)
    assert run(command, "--quiet", "--progress", *words).err == ""


@commands
def test_no_terminal_and_quiet_show_no_progress(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PATIENCE_SECONDS", -1.0)
    command, *words = COMMANDS[name]
    assert run(command, *AS_OF, *words).err == ""
    assert run(command, *AS_OF, "--quiet", "--progress", *words).err == ""


@commands
def test_verbose_names_the_evidence_and_twice_the_time(name: str) -> None:
    command, *words = COMMANDS[name]
    once, twice = (run(command, *AS_OF, option, *words).err.splitlines() for option in ("-v", "-vv"))
    assert [line.startswith(start) for line, start in zip(once, EVIDENCE, strict=True)] == [True] * len(EVIDENCE)
    timings = [line for line in twice if TIMING.fullmatch(line)]
    assert len(timings) > 1
    assert [line for line in twice if line not in timings] == once
