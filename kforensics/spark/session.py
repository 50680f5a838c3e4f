"""A Spark session: the one there is, or a new one whose Python workers are of this very environment."""

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
from kforensics.spark.java_options import BRIEF, options_first
from kforensics.spark.quiet_logging import Remarks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["answering", "parallelism", "session"]

# Where Spark's own settings name the Python of workers.
PYTHON = "spark.pyspark.python"
NO_GATEWAY = "JAVA_GATEWAY_EXITED"
# Of a line that tells of several errors, one in the other, the innermost.
RAISED = re.compile(r"^.*\b((?:\w+[.$])*\w*(?:Error|Exception): .+)$", re.MULTILINE)
# What a thread says of an error in another one; that one comes behind it.
ELSEWHERE = "Exception thrown in awaitResult"


@contextmanager
def session(master: str | None = None, conf: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Give the session there is, else a new one, which ends with the block.

    Args:
        master: URL of the cluster's master; None for what Spark's own configuration says, which without one is all
            processors of this machine.
        conf: properties of Spark.

    Raises:
        MissingExtraError: pyspark is not installed.
        EngineError: Spark does not start.
    """
    try:
        from pyspark.sql import SparkSession  # only Spark pays for Spark
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
    remarks = Remarks()
    # A cluster's Java may live for hours, and is not ours.
    java = options_first(BRIEF) if given.get("spark.master", "local").startswith("local") else nullcontext()
    with answering("Spark does not start", remarks.text), java, remarks.held(), _interruptible():
        started = builder.getOrCreate()
    try:
        yield started
    finally:
        started.stop()


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C mean what it means elsewhere: the block of the session is left, and with that its jobs end.

    What Spark does instead asks Java to cancel jobs amid another question, and logs how that fails.
    """
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)
    logging.getLogger().addHandler(logging.NullHandler())


def _check_java() -> None:
    """Make sure that there is a Java runtime, unless ``spark-submit`` or a server elsewhere brings one.

    Raises:
        EngineError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    known = "PYSPARK_GATEWAY_PORT" in os.environ or "SPARK_REMOTE" in os.environ
    if not known and not shutil.which("java", path=f"{home}/bin" if home else None):
        where = f"in JAVA_HOME, which is {home}" if home else "on the PATH"
        raise EngineError(f"Spark needs Java 17 or later, and there is none {where}; install a runtime and try again")


@contextmanager
def answering(what: str, said: Callable[[], str] = str) -> Iterator[None]:
    """Turn what Spark raises into a sentence.

    Args:
        what: half a sentence that says what did not work.
        said: tells what Java said, should it end before it raises anything.

    Raises:
        EngineError: Spark raised something.
    """
    from py4j.protocol import Py4JError  # as above
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        text = str(error)
        reason = _reason((said() if NO_GATEWAY in text else "") or text)
        raise EngineError(f"{what}: {reason}; the logs of Spark tell more") from error


def _reason(text: str) -> str:
    """Return what tells why: what a worker raised, else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and ELSEWHERE not in line]
    raised: list[str] = RAISED.findall("\n".join(lines))
    return [*raised, *lines, "no reason is given"][0].rstrip(".")


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks can run at once, about."""
    from pyspark.errors import PySparkAttributeError  # as above

    try:
        return int(spark.sparkContext.defaultParallelism)
    except PySparkAttributeError:  # a client of Spark Connect does not see the cluster
        return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
