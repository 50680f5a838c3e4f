"""A share of ``make fuzz``: some inputs of each attack, and what each attack reports if something is wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kforensics.parsers.format.rows import Batch, Damage
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.resync import Candidates
from kforensics.render import output
from kforensics.render.markup import Markup
from kforensics.report_html import report_page
from lab.errors import LabError
from lab.fuzz import decoder_attack
from lab.fuzz.attack import Weakness, keep_bytes
from lab.fuzz.kills import KilledAudits
from lab.fuzz.run import ATTACKS, Plan, run_attacks, try_input
from lab.fuzz.system_calls import run_and_kill
from lab.fuzz.text_attack import check_page, check_spreadsheet

SEED = 1
INPUTS = {"decoders": 150, "state-files": 1000, "commands": 3, "text": 2}
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has ptrace")


@pytest.mark.parametrize("attack", ATTACKS)
def test_inputs_are_withstood(attack: str) -> None:
    for number in range(INPUTS[attack]):
        assert try_input(attack, SEED, number) is None, f"input {number} of {attack}"


def first_weakness(attack: str, inputs: int) -> str:
    """Return what an attack reports of the first input that is not withstood."""
    reports = (try_input(attack, SEED, number) for number in range(inputs))
    return next((report for report in reports if report), "nothing")


def test_a_lost_batch_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Candidates, "between", lambda *_: iter(()))  # nothing is found after damage
    assert "an untouched batch is lost" in first_weakness("decoders", 200)


def test_a_lost_byte_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_damage(*arguments: Any) -> Iterator[Batch | Damage]:
        return (row for row in walk(*arguments) if isinstance(row, Batch))

    monkeypatch.setattr(decoder_attack, "walk", without_damage)
    report = first_weakness("decoders", 200)
    # Inside a file, or where the damage reaches its end.
    assert "a gap or an overlap at" in report or "the rows end at" in report


def test_kernels_that_differ_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kforensics.parsers.columns.batch_reader._signed16", lambda attributes: attributes & 0xF)
    assert "batches: kernels and Python differ" in first_weakness("decoders", 200)


def test_a_row_that_fits_no_table_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kforensics.parsers.state.text_checkpoint.parse_long", lambda text: int(text) << 64)
    assert "Traceback" in first_weakness("state-files", 200)


def test_a_traceback_of_a_command_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def plant(*_: object) -> int:
        raise IndexError("planted")

    monkeypatch.setattr("kforensics.parsers.log.resync.zeros_end", plant)
    assert "planted" in first_weakness("commands", 12)


def test_a_terminal_that_is_not_guarded_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_guarded", lambda stream: stream)
    assert "a terminal acts on" in first_weakness("text", 6)


def test_a_page_that_is_not_escaped_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    check_page("<script>1</script><p>&lt;fz&gt;</p>")
    with pytest.raises(Weakness, match="an element of the page is from the evidence"):
        check_page("<script>1</script><fz>")
    with pytest.raises(Weakness, match="an attribute of the page is active"):
        check_page("<script>1</script><a href='javascript:alert(1)'>")
    monkeypatch.setattr(report_page, "_packed", lambda _name, _text: Markup("<script></script><fz>"))
    assert "an element of the page is from the evidence" in first_weakness("text", 12)


def test_a_formula_is_reported() -> None:
    check_spreadsheet("name,number\n'=1,-5\n", [])
    with pytest.raises(Weakness, match="a spreadsheet runs =1 of"):
        check_spreadsheet("name,number\n=1,-5\n", [])


def test_a_failure_can_be_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An attack runs in a process of its own; what it does not withstand is kept, and the next process goes on."""
    plan = Plan(("decoders",), SEED, 60, 0, 3, tmp_path)
    (progress,) = run_attacks(plan)
    assert (progress.done, progress.failures) == (3, 0)
    progress.done = 1
    progress.fail("planted")
    assert "--attack decoders --seed 1 --first 1 --inputs 1" in capsys.readouterr().err
    try_input("decoders", SEED, 1, tmp_path / "kept")
    assert (tmp_path / "kept" / "00000000000000000000.log").stat().st_size
    keep_bytes(None, "nothing", b"")


# Kills ---------------------------------------------------------------------------------------------------------------


@needs_linux
@pytest.mark.slow
def test_a_killed_audit_leaves_no_store_or_a_whole_one(tmp_path: Path) -> None:
    """An audit is killed at some of its system calls; ``make fuzz`` kills it at every hundredth."""
    audits = KilledAudits(tmp_path)
    first = audits.calls * 6 // 10  # before that, it loads modules and reads logs
    calls = {audits.calls // 4, *range(first, audits.calls, (audits.calls - first) // 7), audits.calls - 5}
    assert audits.kill_at_all(calls) == len(calls)
    assert audits.unfinished >= len(calls) // 2
    assert not audits.kill_at(2 * audits.calls)


@needs_linux
def test_a_command_is_killed_at_a_system_call() -> None:
    command = [sys.executable, "-c", "import threading; threading.Thread(target=print).start()"]
    environment: dict[str, str] = {}
    code, calls = run_and_kill(command, None, environment)
    assert code == 0
    assert calls > 100
    assert run_and_kill(command, 50, environment) == (-9, 50)


def test_a_system_without_ptrace_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(LabError, match="needs ptrace, which only Linux has"):
        run_and_kill([sys.executable, "--version"], 50, {})
