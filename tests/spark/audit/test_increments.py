"""An audit on Spark reads only what is new since an earlier one, of any engine, and equals a full audit in process."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kforensics.errors import UsageError
from kforensics.spark.audit.run import SparkRequest
from tests.forensics.growing_logs import ROUNDS, GrowingCluster, bytes_kept, contents
from tests.spark.audits import audit_here, read_bytes, stored
from tests.test_audit_increments import AS_OF, audited

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPLITS: dict[str, Any] = {"split_size": 4096, "whole": 0, "few": 0}
# After which rounds a test of every day audits: there was a cleaning before the first of them, then a truncation and a
# deletion.
FEW_ROUNDS = (2, 5)


@pytest.mark.parametrize(
    "rounds", [FEW_ROUNDS, pytest.param((*range(1, ROUNDS + 1),), marks=pytest.mark.thorough)], ids=len
)
def test_rounds_equal_full_audits_and_read_what_is_new(
    spark: SparkSession, tmp_path: Path, rounds: tuple[int, ...]
) -> None:
    cluster = GrowingCluster(tmp_path / "data")
    previous = tmp_path / "0"
    audited(cluster.folder, previous)
    for last, number in pairwise((0, *rounds)):
        before, store = contents(cluster.folder), tmp_path / str(number)
        for day in range(last + 1, number + 1):
            cluster.change(day)
        after = contents(cluster.folder)
        options = SPLITS if number % 2 else {}
        paths = (str(cluster.folder),)
        wanted = SparkRequest(paths, output=str(store), as_of_ms=AS_OF, previous=str(previous), **options)
        found = audit_here(spark, wanted)
        audited(cluster.folder, tmp_path / f"full-{number}")
        assert found == stored(tmp_path / f"full-{number}"), number
        old, kept = sum(map(len, before.values())), bytes_kept(before, after)
        new = sum(map(len, after.values())) - kept
        assert read_bytes(store) - new <= 0.05 * old, number
        previous = store


def test_a_store_of_another_cluster_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    cluster = GrowingCluster(tmp_path / "data")
    audited(cluster.folder, tmp_path / "old")
    meta = cluster.folder / "meta.properties"
    meta.write_text(meta.read_text("utf-8").replace("cluster.id=", "cluster.id=other"), "utf-8")
    wanted = SparkRequest((str(cluster.folder),), output=str(tmp_path / "new"), previous=str(tmp_path / "old"))
    with pytest.raises(UsageError, match=r"is an audit of cluster .* name a store of the same cluster"):
        audit_here(spark, wanted)
    assert not (tmp_path / "new").exists()
