"""Workers of the pool are interrupted only while they run a task."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from kforensics.analyses.pool import _submit


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
