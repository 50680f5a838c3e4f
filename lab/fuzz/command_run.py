"""Runs commands of kforensics in this process, which is ten times faster than a process for each."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest.mock import patch

from kforensics.cli import main
from lab.fuzz.attack import Weakness, require

# Of processor time: a command over a cluster of the samples takes a second. And of all time, on a busy machine.
MOST_SECONDS, MOST_PATIENCE = 30, 600
CLEAN, FINDINGS, USAGE, UNREADABLE = 0, 1, 2, 3
VARIABLE = "KFORENSICS_KERNELS"


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command printed, and its exit code."""

    code: int
    out: bytes
    err: str


class _Terminal(io.BytesIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def run_command(*words: object, terminal: bool = False, kernels: str | None = None) -> CommandResult:
    """Run ``kforensics``, and require a documented exit code, sentences instead of tracebacks, and an end in time.

    Args:
        words: the arguments.
        terminal: whether standard output is a terminal.
        kernels: ``always`` or ``never`` to use compiled kernels or not; None for what the size of the input suggests.
    """
    stdout = io.TextIOWrapper(_Terminal() if terminal else io.BytesIO(), "utf-8", errors="backslashreplace")
    stderr = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace")
    # Colors are the only control characters that text on a terminal may have.
    environment = {"NO_COLOR": "1", **({VARIABLE: kernels} if kernels else {})}
    arguments = ["kforensics", *map(str, words)]
    code = CLEAN
    with (
        patch.object(sys, "argv", arguments),
        patch.dict(os.environ, environment),
        redirect_stdout(stdout),
        redirect_stderr(stderr),
        _in_time(arguments),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else FINDINGS
    stdout.flush()
    stderr.flush()
    written = [stream.buffer.getvalue() for stream in (stdout, stderr)]
    result = CommandResult(code, written[0], written[1].decode())
    require(code in {CLEAN, FINDINGS, USAGE, UNREADABLE}, "exit code", code, "of", arguments)
    require("Traceback" not in result.err, "a traceback of", arguments, result.err)
    is_explained = any(
        line.startswith(("kforensics: ", "cannot read ", '{"schema": "kforensics/')) for line in result.err.splitlines()
    )
    require(code != USAGE or is_explained, "exit code 2 without a sentence of", arguments, result.err)
    return result


@contextmanager
def _in_time(arguments: list[str]) -> Iterator[None]:
    def give_up(number: int, _frame: object) -> None:
        raise Weakness(f"no end in time, by {signal.Signals(number).name}: {arguments}")

    if threading.current_thread() is not threading.main_thread():  # only that one takes signals
        yield
        return
    before = {number: signal.signal(number, give_up) for number in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, MOST_PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
