"""Errors of every command: a sentence on standard error, or a JSON object if the results are JSON; and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kforensics.cli import COMMANDS
from tests.command import SAMPLES, Ended, run

CLUSTER, MISSING = SAMPLES / "transactions-v2", "/nonexistent"
LOG = CLUSTER / "broker-1"
# For each command with formats, words that read something which is not there.
UNREADABLE: dict[str, tuple[object, ...]] = {
    **{name: (name, MISSING) for name in COMMANDS if name not in ("report", "plot", "collect", "query", "mirror")},
    "explain": ("explain", "--producer-id", 12, MISSING),
    "forecast --elect": ("forecast", "--elect", MISSING),
    "ids --where": ("ids", "--where", "a", MISSING),
    "groups NAME": ("groups", MISSING, SAMPLES / "groups"),
    "ids NAME": ("ids", MISSING, LOG),
    "explain --group": ("explain", "--group", "a", MISSING),
    "lso and others": ("lso", LOG, MISSING),
    "dump and others": ("dump", LOG / "hanging-0", MISSING),
    "dump --records": ("dump", "--records", LOG / "hanging-0", MISSING),
    "mirror": ("mirror", MISSING, f"{MISSING}-too"),
    "mirror from nothing": ("mirror", MISSING, LOG),
    "mirror into nothing": ("mirror", LOG, MISSING),
    "query": ("query", MISSING, "SELECT 1 AS one"),
    "query --logs": ("query", "--logs", MISSING, "--logs", LOG, "SELECT 1 AS one"),
}


def _errors(ended: Ended) -> list[dict[str, object]]:
    """Return the errors, which fails if one is not a JSON object; sentences that are no errors are left out."""
    lines = [line for line in ended.err.splitlines() if not line.startswith("evaluated as of ")]
    documents = [json.loads(line) for line in lines]
    assert [document["schema"] for document in documents] == ["kforensics/1"] * len(lines)
    return [document["error"] for document in documents]


@pytest.mark.parametrize("output_format", ["json", "ndjson"])
@pytest.mark.parametrize("name", UNREADABLE)
def test_an_unreadable_input_is_a_json_error_and_the_exit_code_is_3(name: str, output_format: str) -> None:
    command, *words = UNREADABLE[name]
    ended = run(command, "--format", output_format, *words)
    errors = _errors(ended)
    assert any(f"cannot read {MISSING}: " in str(error["message"]) for error in errors)
    assert {(error["kind"], error["exit_code"]) for error in errors} == {("unreadable", 3)}
    assert ended.code == 3


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_unreadable_input_is_a_sentence_in_text_and_the_exit_code_is_3(name: str) -> None:
    ended = run(*UNREADABLE[name] if name != "dump --records" else ("dump", "--format", "csv", *UNREADABLE[name][1:]))
    (line,) = [line for line in ended.err.splitlines() if f"cannot read {MISSING}: " in line]
    assert not line.startswith("{")
    assert ended.code == 3


@pytest.mark.parametrize("words", [("--nonexistent", "x"), ("--help=1",)], ids=" ".join)
@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_option_is_a_json_error(command: str, words: tuple[str, ...]) -> None:
    ended = run(command, "--format=json", *words, LOG)
    (error,) = _errors(ended)
    assert (ended.code, ended.out, error["kind"], error["exit_code"]) == (2, b"", "usage", 2)
    assert "Error" in run(command, *words, LOG).err


@pytest.mark.parametrize("words", [("lso", "--at", "x"), ("lsoo",), ("plot", "lso", "--partition", "-1")], ids=" ".join)
def test_whatever_typer_refuses_is_a_json_error(words: tuple[str, ...]) -> None:
    ended = run(*words, "--format", "JSON", LOG)
    (error,) = _errors(ended)
    assert (ended.code, ended.out, error["kind"]) == (2, b"", "usage")


def test_a_format_of_the_configuration_file_counts_for_errors(tmp_path: Path) -> None:
    file = tmp_path / "k.toml"
    file.write_text('[options]\nformat = "json"\n', encoding="utf-8")
    (error,) = _errors(run("lso", "--config", file, MISSING))
    assert error["message"] == f"cannot read {MISSING}: there is no such file"
    assert not run("lso", "--config", file, "--format", "csv", MISSING).err.startswith("{")


def test_with_an_unreadable_side_a_mirror_is_not_called_clean() -> None:
    ended = run("mirror", MISSING, LOG)
    assert ended.code == 3
    assert ended.err == f"cannot read {MISSING}: there is no such file\n"
