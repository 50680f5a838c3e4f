"""A log as real brokers cleaned it, held against what it was a generation before: innocently different."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kforensics.forensics.audit.replica_result import findings_on
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.replicas.compare import compared
from kforensics.forensics.replicas.differences import Kind
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import walk
from tests.forensics.cases import SAMPLES, partitions_under
from tests.forensics.replicas.replicas import RULES

OLD = ".log.deleted"
# Records in batches that differ: of the live generation, and of the one before.
GENERATIONS = {
    "compaction/broker-1/old-generation-kept-0": (10, 43),
    "compaction-3.9/broker-1/old-generation-kept-0": (10, 43),
    "crash-while-cleaning/broker-1/cleaning-0": (0, 9),
    "crash-while-swapping/broker-1/cleaning-0": (9, 69),
}


def generation_before(partition: Path, broker: Path) -> None:
    """Write a log directory with the segments that the cleaner has marked for deletion, and those behind them."""
    folder = broker / partition.name
    folder.mkdir(parents=True)
    end = 0
    for log in sorted(
        [*partition.glob(f"*{OLD}"), *partition.glob("*.log")], key=lambda path: (path.name[:20], -len(path.name))
    ):
        if int(log.name[:20]) >= end:
            shutil.copy(log, folder / f"{log.name[:20]}.log")
            with open_source(log) as source:
                end = max((batch.last_offset + 1 for batch in walk(source) if isinstance(batch, Batch)), default=end)
    (broker / "meta.properties").write_text("version=1\nnode.id=2\n")


def _base_offset(log: Path) -> int:
    return int(log.name.partition(".")[0])


@pytest.mark.parametrize("name", GENERATIONS)
def test_another_progress_of_cleaning_is_innocent(tmp_path: Path, name: str) -> None:
    partition = SAMPLES / name
    generation_before(partition, tmp_path / "broker-2")
    comparison = compared([*partitions_under(partition), *partitions_under(tmp_path)], RULES)
    (found,) = comparison.differences
    assert found.kind is Kind.CLEANED
    assert tuple(side.records for side in found.sides) == GENERATIONS[name]
    assert [one.code.name for one in findings_on(comparison) if one.severity >= Severity.WARNING] == []
