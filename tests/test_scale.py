"""The input of the scale run is as documented: logs without faults, and splits that continue each other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kforensics
from benchmarks.scale import data, usage
from benchmarks.scale.synthetic import SCOPE, Made, summary_rows
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.parsers.format.layouts import OFFSET_INDEX_ENTRY
from kforensics.spark.audit.serialization import values
from kforensics.spark.audit.split_merging import large_results, run_of

# The generator writes no indexes, which is worth an info.
WITHOUT_INDEXES = "info"


@pytest.mark.parametrize("transactions", [1, 99, 1000])
def test_a_partition_of_transactions_is_clean(tmp_path: Path, transactions: int) -> None:
    data.write_transactions(tmp_path / "made-0", 3, transactions)
    (partition,) = kforensics.scan(tmp_path).to_pylist()
    assert partition["verdict"] == WITHOUT_INDEXES
    assert (partition["segments"], partition["committed"]) == (3, 3 * transactions)


def test_a_large_partition_is_clean_and_can_be_cut(tmp_path: Path) -> None:
    data.write_plain(tmp_path / "made-0", 2, 1)
    (partition,) = kforensics.scan(tmp_path).to_pylist()
    assert partition["verdict"] == "clean"
    first = min((tmp_path / "made-0").glob("*.index"))
    assert first.stat().st_size // OFFSET_INDEX_ENTRY.sizeof() == partition["batches"] // 2 - 1 > 50


def test_small_partitions_are_links_to_one_clean_file(tmp_path: Path) -> None:
    data.tiny_partitions(tmp_path, 3)
    assert kforensics.scan(tmp_path)["verdict"].to_pylist() == [WITHOUT_INDEXES] * 3
    assert len({path.stat().st_ino for path in tmp_path.rglob("*.log")}) == 1


@pytest.mark.parametrize("segments", [1, 2, 17])
@pytest.mark.parametrize("width", [0, 4], ids=["at-once", "in-runs"])
def test_made_splits_follow_from_one_another(segments: int, width: int) -> None:
    """Each transaction begins in one split and is committed in the next, but for the first markers."""
    made = Made(1, segments, 1 << 20, producers=7)
    (result,) = _results(made, width)
    assert result.why is None
    assert sum(map(len, result.rows["transactions"].parts())) == 7 * (segments - 1)
    assert result.log_end_offset == 14 * segments - 7
    codes = [(finding.code.name, finding.first_offset) for finding in result.findings]
    assert codes == [("marker-empty", offset) for offset in range(7)]


def _results(made: Made, width: int) -> list[PartitionResult]:
    runs = run_of(values(summary_rows([(0, 0, 0, 0, width)], made)), SCOPE)
    return list(large_results(((address.partition, value) for address, value in runs), SCOPE))


def test_the_processor_time_of_children_counts_once_they_have_ended() -> None:
    before = usage.cpu_seconds()
    subprocess.run([sys.executable, "-c", "while __import__('time').process_time() < 0.5: pass"], check=True)
    assert 0.4 < usage.cpu_seconds() - before < 5
    assert usage.cpu_seconds(of_jvm=True) <= usage.cpu_seconds()
    assert 1 << 20 < usage.peak_bytes() < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
