"""A Spark session: the one there is, or a new one whose Python workers are of this very environment."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kforensics.errors import EngineError, MissingExtraError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["answering", "parallelism", "session"]

# What Spark says without being asked would stand between the lines for people; errors are still said.
QUIET = {"spark.log.level": "ERROR"}


def session(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Return the session there is, else a new one.

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
        return active
    _check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("kforensics")
    for name, value in {**QUIET, **({"spark.master": master} if master else {}), **(conf or {})}.items():
        builder = builder.config(name, value)
    with answering("Spark does not start"):
        return builder.getOrCreate()


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
def answering(what: str) -> Iterator[None]:
    """Turn what Spark raises into a sentence.

    Args:
        what: half a sentence that says what did not work.

    Raises:
        EngineError: Spark raised something.
    """
    from py4j.protocol import Py4JError  # as above
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise EngineError(f"{what}: {_reason(str(error))}; the logs of Spark tell more") from error


def _reason(text: str) -> str:
    """Return the line that tells why: what a worker raised, else the first one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if line.partition(":")[0].endswith(("Error", "Exception"))]
    return ([*raised, *lines, "no reason is given"])[0].rstrip(".")


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks can run at once, about."""
    from pyspark.errors import PySparkAttributeError  # as above

    try:
        return int(spark.sparkContext.defaultParallelism)
    except PySparkAttributeError:  # a client of Spark Connect does not see the cluster
        return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
