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
        ("kforensics du", "dump duplicates"),
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


def test_a_command_does_not_pay_for_completion() -> None:
    """To find out which shell it is takes another process, and as long as a small dump."""
    script = "import sys; sys.argv[1:] = ['dump']; from kforensics.cli import app; print(app._add_completion)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version(option: str) -> None:
    done = subprocess.run([sys.executable, "-m", "kforensics", option], capture_output=True, text=True, check=True)
    assert done.stdout == f"kforensics {kforensics.__version__}\n"
