"""Runs the readers and analyses on Spark: it starts them and carries their values, and has no knowledge of its own."""

from __future__ import annotations

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
        EngineError: Spark is too old, or the Python workers of a local session do not have this package.
    """
    from kforensics.spark.session import check_version, check_workers  # importing the package needs no session

    try:
        check_version()
        from kforensics.spark.source.data_source import (
            KforensicsSource,  # this package is imported without pyspark, too
        )
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyspark":
            raise
        raise MissingExtraError("spark", "pyspark") from error
    check_workers(spark)
    spark.dataSource.register(KforensicsSource)
