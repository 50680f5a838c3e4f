"""A Spark session: the active one, or a new one whose Python workers use this environment."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from kforensics.errors import EngineError, MissingExtraError
from kforensics.spark.quiet_logging import QUICK_COMPILE, StartupOutput, options_first

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["answering", "parallelism", "session"]

# Spark's property for the Python of workers.
PYTHON = "spark.pyspark.python"
NO_GATEWAY = "JAVA_GATEWAY_EXITED"
# The innermost error of a line with nested errors.
RAISED = re.compile(r"^.*\b((?:\w+[.$])*\w*(?:Error|Exception): .+)$", re.MULTILINE)
# A thread reports this for an error in another thread, which follows.
ELSEWHERE = "Exception thrown in awaitResult"


@contextmanager
def session(master: str | None = None, conf: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Yield the active session, or a new one that ends with the context.

    Args:
        master: URL of the cluster's master; None for Spark's own configuration, which defaults to all processors of
            this machine.
        conf: properties of Spark.

    Raises:
        MissingExtraError: pyspark is not installed.
        EngineError: Spark does not start.
    """
    try:
        from pyspark.sql import SparkSession  # imported only where Spark is used
    except ImportError as error:
        raise MissingExtraError("spark", "pyspark") from error
    if active := SparkSession.getActiveSession():
        yield active
        return
    _check_java()
    given = {**({"spark.master": master} if master else {}), **(conf or {})}
    os.environ.setdefault("PYSPARK_PYTHON", given.get(PYTHON, sys.executable))
    builder = SparkSession.builder.appName("kforensics")
    for name, value in given.items():
        builder = builder.config(name, value)
    remarks = StartupOutput()
    # The Java of a cluster may run for hours and is not ours.
    java = options_first(QUICK_COMPILE) if given.get("spark.master", "local").startswith("local") else nullcontext()
    with answering("Spark does not start", remarks.text), java, remarks.held(), _interruptible():
        started = builder.getOrCreate()
    try:
        yield started
    finally:
        started.stop()


@contextmanager
def _interruptible() -> Iterator[None]:
    """Restore Ctrl-C: KeyboardInterrupt leaves the context of the session, which ends its jobs.

    Spark's own handler asks Java to cancel jobs in the middle of another call, and logs how that fails.
    """
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)
    logging.getLogger().addHandler(logging.NullHandler())


def _check_java() -> None:
    """Check that there is a Java runtime, unless ``spark-submit`` or a remote server provides one.

    Raises:
        EngineError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    known = "PYSPARK_GATEWAY_PORT" in os.environ or "SPARK_REMOTE" in os.environ
    if not known and not shutil.which("java", path=f"{home}/bin" if home else None):
        where = f"in JAVA_HOME, which is {home}" if home else "on the PATH"
        raise EngineError(f"Spark needs Java 17 or later, and there is none {where}; install a runtime and try again")


@contextmanager
def answering(failure: str, output: Callable[[], str] = str) -> Iterator[None]:
    """Turn exceptions of Spark into one sentence.

    Args:
        failure: what did not work, as the start of the sentence.
        output: returns the output of Java, in case it exits before it raises anything.

    Raises:
        EngineError: Spark raised something.
    """
    from py4j.protocol import Py4JError  # imported only where Spark is used
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = str(error)
        reason = _reason((output() if NO_GATEWAY in text else "") or text)
        raise EngineError(f"{failure}: {reason}; see Spark's logs") from error


def _reason(text: str) -> str:
    """Return the reason: the error that a worker raised, otherwise the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and ELSEWHERE not in line]
    raised: list[str] = RAISED.findall("\n".join(lines))
    return [*raised, *lines, "no reason is given"][0].rstrip(".")


def parallelism(spark: SparkSession) -> int:
    """Return the approximate number of tasks that can run at once."""
    from pyspark.errors import PySparkAttributeError  # imported only where Spark is used

    try:
        return int(spark.sparkContext.defaultParallelism)
    except PySparkAttributeError:  # a client of Spark Connect does not see the cluster
        return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
