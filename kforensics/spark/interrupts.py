"""Ends the jobs of Spark when a signal ends a command."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from types import FrameType
from typing import TYPE_CHECKING

from kforensics.render.output import ENDING

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["cancelling_jobs", "is_interrupted", "own_handlers", "wait_for_tasks"]

# Seconds to wait until cancelled tasks have ended, and between looks at them; Spark ends their Python after two.
LONGEST_WAIT, POLL_INTERVAL = 20.0, 0.05


@contextmanager
def own_handlers() -> Iterator[None]:
    """Keep the handler of Ctrl-C: that of Spark cancels jobs in the middle of another call, and logs how that fails."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)
    logging.getLogger().addHandler(logging.NullHandler())


@contextmanager
def cancelling_jobs(context: SparkContext | None, on_signal: Callable[[], object]) -> Iterator[None]:
    """Cancel the jobs of a context if a signal arrives, before its handler ends the block.

    PySpark waits for the end of a job whose result it was reading, however the reading ended.

    Args:
        context: the context, None for a client of Spark Connect.
        on_signal: called first.
    """
    if context is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {int(number): handler for number in ENDING if callable(handler := signal.getsignal(number))}

    def cancel_jobs(number: int, frame: FrameType | None) -> None:
        on_signal()
        _call_java(context.cancelAllJobs)
        handlers[number](number, frame)

    for number in handlers:
        signal.signal(number, cancel_jobs)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _call_java(function: Callable[[], object]) -> Thread:
    """Start a function that calls Java, while the main thread may be in the middle of another call.

    A thread has a connection of its own. Java may have ended by now, so errors are ignored.
    """

    def call() -> None:
        with suppress(Exception):
            function()

    thread = Thread(target=call, daemon=True)
    thread.start()
    return thread


def wait_for_tasks(context: SparkContext) -> None:
    """Return when no task is running, or after some seconds."""
    _call_java(lambda: _poll_tasks(context)).join(LONGEST_WAIT)


def _poll_tasks(context: SparkContext) -> None:
    tracker = context._jsc.sc().statusTracker()  # noqa: SLF001  # PySpark's own has no executors
    while any(executor.numRunningTasks() for executor in tracker.getExecutorInfos()):
        time.sleep(POLL_INTERVAL)


def is_interrupted(error: BaseException | None) -> bool:
    """Return whether an exception is KeyboardInterrupt, or was raised while one was handled."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None
