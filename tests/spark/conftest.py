"""A Spark session for the tests of this folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

from tests.spark.class_archive import local_conf


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Return a session with two workers in this machine's Python."""
    from pyspark.sql import SparkSession  # not all tests of this folder need it

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("kforensics tests")
    for name, value in local_conf().items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    """Return the text of the page on Spark."""
    return (root / "docs" / "spark.md").read_text(encoding="utf-8")
