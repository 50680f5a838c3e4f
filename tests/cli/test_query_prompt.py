"""The prompt of queries on a terminal, and what Ctrl-C ends."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.command import ROOT, SAMPLES

BROKER = SAMPLES / "transactions-v2" / "broker-1"


class Terminal:
    """A prompt on a pseudo-terminal."""

    def __init__(self, *words: object) -> None:
        self.pid, self._descriptor = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="dumb", COLUMNS="100")
            os.execv(sys.executable, [sys.executable, "-m", "kforensics", "query", *map(str, words)])  # noqa: S606

    def until(self, text: str) -> str:
        """Return what is shown, up to a text."""
        shown, deadline = "", time.monotonic() + 60
        waiting = select.poll()  # select.select refuses file descriptors above 1,023
        waiting.register(self._descriptor, select.POLLIN)
        while text not in shown:
            assert time.monotonic() < deadline, shown
            if waiting.poll(1000):
                shown += os.read(self._descriptor, 1 << 16).decode()
        return shown

    def type(self, text: str) -> None:
        """Type text."""
        os.write(self._descriptor, text.encode())

    def code(self) -> int:
        """Return the exit code."""
        deadline = time.monotonic() + 60
        while not (ended := os.waitpid(self.pid, os.WNOHANG))[0]:
            assert time.monotonic() < deadline, "the prompt does not end"
            time.sleep(0.05)
        os.close(self._descriptor)
        return os.waitstatus_to_exitcode(ended[1])


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """Return a prompt over logs."""
    prompt = Terminal("--logs", BROKER)
    prompt.until("kforensics> ")
    yield prompt
    try:
        os.kill(prompt.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


@pytest.mark.slow
def test_the_prompt_answers_until_it_is_ended(terminal: Terminal) -> None:
    terminal.type(".tables\n")
    assert "transactions\r\n" in terminal.until("duplicates\r\nkforensics> ")
    terminal.type(".schema batches\n")
    assert "producer_id" in terminal.until("coordinator_epoch")
    terminal.type("SELECT count(*) AS n\nFROM batches WHERE topic = 'hanging';\n")
    assert "n\r\n7\r\n" in terminal.until("7\r\nkforensics> ")
    terminal.type("SELECT 1 FROM batch;\n")
    terminal.until("did you mean batches?")
    terminal.type(".tabels\n")
    terminal.until("there is no command .tabels")
    terminal.type(".schema bathces\n")
    terminal.until("did you mean batches?")
    terminal.type(".quit\n")
    assert terminal.code() == 0


@pytest.mark.slow
def test_ctrl_c_ends_a_query_and_the_prompt_goes_on(terminal: Terminal) -> None:
    terminal.type("SELECT count(*) FROM range(100000000000000);\n")
    time.sleep(1)
    terminal.type("\x03")
    terminal.until("\r\nkforensics> ")
    terminal.type("SELECT 'going ' || 'on' AS it;\n")
    terminal.until("going on\r\nkforensics> ")  # before the prompt, Ctrl-D would be lost
    terminal.type("\x04")
    assert terminal.code() == 0


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.5, 0.7, 0.9, 3])
def test_ctrl_c_ends_a_command(seconds: float) -> None:
    """While DuckDB is imported, and while it computes."""
    sql = "SELECT count(*) FROM range(100000000000000)"
    command = [sys.executable, "-m", "kforensics", "query", "--logs", str(BROKER), sql]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    # Python itself ends by the signal if that arrives in what exec() compiles; to a shell both are 130.
    assert process.returncode in (130, -signal.SIGINT)
    assert (out, err) == (b"", b"")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_that_arrives_in_a_finalizer_ends_a_command(number: signal.Signals) -> None:
    """Python only prints what is raised in one, and goes on. Some run in each import."""
    program = f"""
import os, sys
from kforensics.cli import main
class Finalized:
    def __del__(self):
        os.kill(os.getpid(), {number.value})
        [None for _ in range(1000)]
class Finder:
    def find_spec(self, name, *_):
        if name == "kforensics.sql":
            Finalized()
sys.meta_path.insert(0, Finder())
main()
"""
    sql = "SELECT count(*) FROM range(100000000000000)"
    command = [sys.executable, "-c", program, "query", "--logs", str(BROKER), sql]
    done = subprocess.run(command, check=False, capture_output=True, cwd=ROOT, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, b"", b"")
