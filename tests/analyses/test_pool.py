"""Workers of the pool are interrupted only while they run a task."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pytest

from kforensics.analyses import pool
from kforensics.analyses.pool import _executor, _submit
from kforensics.errors import EngineError
from kforensics.render.output import deferred_signals


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_ctrl_c_between_two_pieces_of_work_waits_for_the_next_one(method: str) -> None:
    """A worker that waits for work holds the lock of the queue; one that dies there leaves the others waiting."""
    with ProcessPoolExecutor(1, get_context(method)) as executor:
        worker = _submit(executor, os.getpid).result(60)
        os.kill(worker, signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            _submit(executor, os.getpid).result(60)
        assert _submit(executor, os.getpid).result(60) == worker


def test_ctrl_c_ends_work_at_once() -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        worker = _submit(executor, os.getpid).result(60)
        waiting = _submit(executor, signal.pause)
        while not waiting.running():
            pass
        os.kill(worker, signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            waiting.result(60)


def test_the_process_that_submits_work_can_be_interrupted_again() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        assert _submit(executor, os.getpid).result(60) != os.getpid()
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


# A command with a pool whose workers say that they have begun, and would work for ever; it leaves an unfinished file.
ENDLESS = """
import os, sys, time
from functools import partial
from pathlib import Path
import multiprocessing
from kforensics import cli
from kforensics.analyses import pool
from kforensics.render.output import open_output

def work(folder):
    Path(folder, f"worker-{os.getpid()}").touch()
    time.sleep(600)

def app():
    with open_output(Path(sys.argv[1], "out")), pool._executor(2) as executor:
        for _ in range(6):
            waiting = pool._submit(executor, partial(work, sys.argv[1]))
        waiting.result()

if __name__ == "__main__":
    pool._context = lambda: multiprocessing.get_context(sys.argv[2])
    cli.app = app
    cli.main()
"""


def _started(script: Path, folder: Path, method: str) -> tuple[subprocess.Popen[bytes], list[int]]:
    """Return the endless command, and its workers."""
    script.write_text(ENDLESS)
    words = [sys.executable, str(script), str(folder), method]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, start_new_session=True)
    _wait_until(lambda: len(list(folder.glob("worker-*"))) == 2)
    return running, [int(path.name.partition("-")[2]) for path in folder.glob("worker-*")]


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # a process whose parent is gone is reaped by the first process, sooner or later


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system does not show processes as files")
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("is_group", [False, True], ids=["one", "group"])
@pytest.mark.parametrize(
    "sign", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL], ids=lambda sign: sign.name
)
def test_a_signal_ends_the_workers_too(sign: signal.Signals, is_group: bool, method: str, tmp_path: Path) -> None:
    """No worker stays and holds standard output. Only SIGKILL leaves the unfinished file."""
    running, workers = _started(tmp_path / "script.py", tmp_path, method)
    (os.killpg if is_group else os.kill)(running.pid, sign)
    out, _ = running.communicate(timeout=60)
    assert out == b""
    assert running.returncode == (-sign if sign is signal.SIGKILL else 128 + sign)
    _wait_until(lambda: not any(map(_is_alive, workers)))
    assert len(list(tmp_path.glob(".out.*.part"))) == (sign is signal.SIGKILL)


def test_a_worker_that_is_killed_is_one_sentence() -> None:
    with (
        pytest.raises(EngineError, match=r"a process of the pool was killed, .* with --processes"),
        _executor(1) as executor,
    ):
        _submit(executor, partial(os.kill, _submit(executor, os.getpid).result(60), signal.SIGKILL)).result(60)


@pytest.mark.parametrize("number", pool.ENDING)
def test_a_signal_that_is_ignored_stays_ignored(number: signal.Signals) -> None:
    """After nohup a command survives the end of its terminal."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with deferred_signals():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)
