"""Replicas to compare: forged ones, and those of the lab's brokers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.replicas.compare import compared
from kforensics.forensics.replicas.comparison import Comparison
from kforensics.forensics.replicas.replica import all_copies_of, replica_groups
from kforensics.parsers.files.discover import FoundFile, discover
from tests.forensics.cases import HOUR, SAMPLES, partitions_under
from tests.forensics.events import NOW
from tests.forensics.forge import Segments, forge

__all__ = ["GROUPS", "REPLICATION", "RULES", "compare", "compared_group", "forged", "groups_under", "told"]

REPLICATION = SAMPLES / "replication"
RULES = Rules(NOW + HOUR // 2)


def forged(folder: Path, *replicas: tuple[Segments, dict[str, Any]]) -> None:
    """Write log directories of brokers 1, 2, … with a replica each; options as ``forge`` takes them."""
    for number, (segments, options) in enumerate(replicas, 1):
        forge(folder / f"broker-{number}", segments, node_id=number, **options)


def compare(folder: Path) -> Comparison:
    """Return the comparison of all copies under a folder, in the order of their folders."""
    return compared(partitions_under(folder), RULES)


def told(found: list[Finding]) -> list[tuple[str, Severity, int | None, int | None]]:
    """Return codes, severities, first and last offsets."""
    return [(one.code.name, one.severity, one.first_offset, one.last_offset) for one in found]


def groups_under(folder: Path) -> list[tuple[Partition, ...]]:
    """Return the partitions under a folder that there are several copies of, those set aside included."""
    found = (row for row in discover([str(folder)]) if isinstance(row, FoundFile))
    return replica_groups(all_copies_of(found))


# What three real brokers left, by topic and partition.
GROUPS = {group[-1].name: group for group in groups_under(REPLICATION)}


@cache
def compared_group(name: str) -> Comparison:
    """Return the comparison of the replicas of a partition of the lab's three brokers."""
    return compared(GROUPS[name], RULES)
