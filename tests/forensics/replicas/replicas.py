"""Replicas to compare: forged ones, and those of the lab brokers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from kforensics.forensics.audit.copies import compare_copies
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.replicas.comparison import Comparison
from kforensics.forensics.replicas.replica import all_copies_of, replica_groups
from kforensics.parsers.files.discover import FoundFile, discover
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import Segments, forge
from tests.forensics.partition_states import HOUR, SAMPLES, partitions_under

__all__ = ["GROUPS", "REPLICATION", "RULES", "brief", "compare", "compared_group", "forged", "groups_under"]

REPLICATION = SAMPLES / "replication"
RULES = Rules(NOW + HOUR // 2)


def forged(folder: Path, *replicas: tuple[Segments, dict[str, Any]]) -> None:
    """Write log directories of brokers 1, 2, … with one replica each; options as in ``forge``."""
    for number, (segments, options) in enumerate(replicas, 1):
        forge(folder / f"broker-{number}", segments, node_id=number, **options)


def compare(folder: Path) -> Comparison:
    """Return the comparison of all copies under a folder, in the order of their folders."""
    return compare_copies(partitions_under(folder), RULES)


def brief(findings: list[Finding]) -> list[tuple[str, Severity, int | None, int | None]]:
    """Return the code, severity, first and last offset of each finding."""
    return [(row.code.name, row.severity, row.first_offset, row.last_offset) for row in findings]


def groups_under(folder: Path) -> list[tuple[Partition, ...]]:
    """Return the partitions under a folder with several copies, including copies set aside."""
    files = (row for row in discover([str(folder)]) if isinstance(row, FoundFile))
    return replica_groups(all_copies_of(files))


# Replicas of three real brokers, by topic and partition.
GROUPS = {group[-1].name: group for group in groups_under(REPLICATION)}


@cache
def compared_group(name: str) -> Comparison:
    """Return the comparison of the replicas of a partition of the three lab brokers."""
    return compare_copies(GROUPS[name], RULES)
