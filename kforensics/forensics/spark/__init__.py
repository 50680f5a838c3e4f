"""Runs the readers and analyses on Spark: it starts them and carries their values, and has no knowledge of its own."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from kforensics.errors import MissingExtraError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("kforensics")`` known to a session.

    Args:
        spark: the session; its workers need this package too.

    Raises:
        MissingExtraError: pyspark is not installed.
    """
    if find_spec("pyspark") is None:
        raise MissingExtraError("spark", "pyspark")
    from kforensics.forensics.spark.sources import KforensicsSource  # the package is imported where no pyspark is

    spark.dataSource.register(KforensicsSource)
