"""Runs the readers and analyses on Spark: it starts them and carries their values, and has no knowledge of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kforensics.errors import MissingExtraError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register", "views"]


def register(spark: SparkSession) -> None:
    """Make ``spark.read.format("kforensics")`` known to a session.

    Args:
        spark: the session; its workers need this package too.

    Raises:
        MissingExtraError: pyspark is not installed.
        EngineError: Spark is too old, or the Python workers of a local session do not have this package.

    Examples:
        >>> kforensics.register(spark)
        >>> reader = spark.read.format("kforensics").option("table", "batches")
        >>> reader.load("sample_logs/classic-transaction/broker-1/classic-0").count()
        2
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


def views(spark: SparkSession, paths: str | Path | Sequence[str | Path], *, prefix: str = "") -> tuple[str, ...]:
    """Make every table of decoded files a temporary view of a session, for queries in SQL.

    Args:
        spark: the session; its workers need this package too.
        paths: log directories, partition folders, files, globs or URIs; files are listed when a view is queried.
        prefix: start of the names of the views.

    Returns:
        The names of the views.

    Raises:
        MissingExtraError: pyspark is not installed.
        EngineError: Spark is too old, or the Python workers of a local session do not have this package.

    Examples:
        >>> names = kforensics.views(spark, "sample_logs/classic-transaction/broker-1/classic-0", prefix="classic_")
        >>> spark.sql("select count(*) as batches from classic_batches").first().batches
        2
    """
    from kforensics.parsers.tables.schemas import TABLES  # importing the package needs no tables

    register(spark)
    several = [paths] if isinstance(paths, (str, Path)) else list(paths)
    reader = spark.read.format("kforensics").option("paths", json.dumps([str(path) for path in several]))
    for name in TABLES:
        reader.option("table", name).load().createOrReplaceTempView(f"{prefix}{name}")
    return tuple(f"{prefix}{name}" for name in TABLES)
