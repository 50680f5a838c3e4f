"""Partitions that have lost their log are found on Spark as in one process, whichever task lists them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kforensics.errors import UsageError
from kforensics.spark.audit.run import SparkRequest, planned
from tests.command import SAMPLES
from tests.forensics.moved_by_hand import move_by_hand
from tests.spark.audits import AS_OF_MS, audit_here, audit_in_process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_partitions_without_a_log_give_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    """One lost its log, one moved to another log directory, and of a whole log directory no log is left."""
    logs = tmp_path / "logs"
    for scenario in ("transactions-v2", "log-dirs", "deletion"):
        shutil.copytree(SAMPLES / scenario, logs / scenario)
    log_dirs = logs / "log-dirs" / "broker-1"
    (moved,) = log_dirs.glob("*/moved-0")
    (other,) = (path for path in log_dirs.glob("disk-*") if path != moved.parent)
    shutil.copytree(moved, other / "moved-0")
    gone = [(other / "moved-0"), logs / "transactions-v2" / "broker-1" / "committed-0"]
    for path in [path for folder in gone for path in folder.glob("*.log")] + [*logs.glob("deletion/**/*.log")]:
        path.unlink()
    expected = audit_in_process([str(logs)], tmp_path / "expected", records=True)
    request = SparkRequest((str(logs),), output=str(tmp_path / "store"), as_of_ms=AS_OF_MS, records=True)
    found = audit_here(spark, request)
    assert sum("'log-missing'" in row for row in expected["findings"]) > 1
    for table in ("partitions", "findings", "lso"):
        assert found[table] == expected[table], table


def test_a_partition_that_was_moved_by_hand_gives_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    """The cleaner checkpoint that lists it is in another log directory, whose partitions another task lists."""
    source = shutil.copytree(SAMPLES / "compaction" / "broker-1", tmp_path / "logs" / "disk-1")
    logs = move_by_hand("compact-0", Path(source))
    expected = audit_in_process([str(logs)], tmp_path / "expected")
    found = audit_here(spark, SparkRequest((str(logs),), output=str(tmp_path / "store"), as_of_ms=AS_OF_MS))
    assert not any("'offset-gap'" in row for row in expected["findings"])
    for table in ("files", "partitions", "findings", "lso"):
        assert found[table] == expected[table], table


def test_the_start_of_a_broker_with_two_log_directories_gives_the_same_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Another task lists the log directory with the metadata log, which no longer assigns what has no topic id."""
    source = shutil.copytree(SAMPLES / "compaction" / "broker-1", tmp_path / "logs" / "disk-1")
    logs = move_by_hand("compact-0", Path(source))
    (logs / "disk-1-moved" / "compact-0" / "partition.metadata").unlink()
    expected = audit_in_process([str(logs)], tmp_path / "expected")
    found = audit_here(spark, SparkRequest((str(logs),), output=str(tmp_path / "store"), as_of_ms=AS_OF_MS))
    assert any("'start-stray'" in row for row in expected["findings"])
    assert found["findings"] == expected["findings"]


def test_a_topic_that_no_partition_has_is_a_usage_error(spark: SparkSession) -> None:
    broker = SAMPLES / "transactions-v2" / "broker-1"
    with pytest.raises(UsageError, match=r"no topic 'comitted'; did you mean committed\?"):
        planned(spark, SparkRequest((str(broker),), topics=("comitted",)))
    assert len(planned(spark, SparkRequest((str(broker),), topics=("committed",))).sizes) == 1
