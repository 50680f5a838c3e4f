"""What commands write to standard error while they work: progress, evidence and timings, and nothing unless wanted."""

from __future__ import annotations

import re

import pytest

from kforensics.render import streams
from tests.command import SAMPLES, run

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
    "scan": ("scan", BROKER),
    "verify": ("verify", BROKER),
    "audit": ("audit", BROKER),
}
commands = pytest.mark.parametrize("name", COMMANDS)
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
