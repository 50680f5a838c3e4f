"""A shell completes commands and options, as the shell itself asks for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kforensics

COMPLETE = """
eval "$(kforensics --show-completion)"
COMP_WORDS=({words}) COMP_CWORD={last}
_kforensics_completion kforensics
printf '%s ' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("kforensics au", "audit"),
        ("kforensics du", "dump duplicates"),
        ("kforensics audit --no-c", "--no-config"),
        ("kforensics lso --his", "--history"),
        ("kforensics --show", "--show-completion"),
    ],
)
def test_bash_completes(words: str, completed: str) -> None:
    script = COMPLETE.format(words=words, last=len(words.split()) - 1)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/bash", "--norc", "-c", script],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout.strip(), done.stderr) == (completed, "")


@pytest.mark.parametrize(("line", "completed"), [("au", "audit"), ("lso --his", "--history")])
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_complete(shell: str, line: str, completed: str) -> None:
    """The function of each shell passes the line in the environment, and reads the answer."""
    line_of_shell = {"_KFORENSICS_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": f"kforensics {line}"}
    answer = _asked(line_of_shell | {"_TYPER_COMPLETE_FISH_ACTION": "get-args"})
    named = answer.partition("\t")[0] if shell == "fish" else answer.partition('(("')[2].partition('":"')[0]
    assert named == completed


@pytest.mark.parametrize(
    ("shell", "expected"),
    [
        ("bash", "complete -o default -F _kforensics_completion kforensics"),
        ("zsh", "compdef _kforensics_completion kforensics"),
        ("fish", "complete --command kforensics "),
    ],
)
def test_the_page_on_completion_has_the_line_for_each_shell(shell: str, expected: str) -> None:
    """For packages, which are not built in the shell of a user."""
    page = (Path(__file__).parents[2] / "docs" / "shell.md").read_text(encoding="utf-8")
    assert f"\n_KFORENSICS_COMPLETE=source_{shell} kforensics > /usr/" in page
    assert expected in _asked({"_KFORENSICS_COMPLETE": f"source_{shell}"})


def _asked(variables: dict[str, str]) -> str:
    command = [str(Path(sys.executable).with_name("kforensics"))]
    environment = {**os.environ, **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_a_command_does_not_pay_for_completion() -> None:
    """To find out which shell it is takes another process, and as long as a small dump."""
    script = "import sys; sys.argv[1:] = ['dump']; from kforensics.cli import app; print(app._add_completion)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version(option: str) -> None:
    done = subprocess.run([sys.executable, "-m", "kforensics", option], capture_output=True, text=True, check=True)
    assert done.stdout == f"kforensics {kforensics.__version__}\n"
