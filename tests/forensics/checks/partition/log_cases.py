"""Partitions of the samples and forged ones, read for a family of checks as the program reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from kforensics.forensics.core.findings import Finding
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.log_summary import Noter
from kforensics.forensics.partition.partition_files import partitions_of
from kforensics.forensics.partition.partition_state import Case
from kforensics.parsers.files.discover import FoundFile, discover
from lab.places import SAMPLES
from tests.forensics.events import NOW

# Not from brokers: they were made to be damaged, or hold no log directories.
MADE = ("damaged", "every-record", "golden")
HOUR_MS = 3_600_000
RULES = Rules(as_of_ms=NOW + HOUR_MS)


class Family(Protocol):
    """A module of findings."""

    def findings(self, case: Case) -> Iterator[Finding]:
        """Yield what is found."""


INNOCENT = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir() and path.name not in MADE)


def noters(families: Iterable[Family]) -> list[Noter]:
    """Return what families want to note; some note nothing."""
    return [family.NOTER for family in families if hasattr(family, "NOTER")]


def case_of(log_dir: Path, families: Iterable[Family], rules: Rules = RULES) -> Case:
    """Return the only partition below a folder, read for some families."""
    (partition,) = partitions_of(row for row in discover([str(log_dir)]) if isinstance(row, FoundFile))
    return examine(partition, rules, noters(families))


def found_in(log_dir: Path, families: Sequence[Family], rules: Rules = RULES) -> list[Finding]:
    """Return what the first family finds in the only partition below a folder, where the others note things too."""
    return list(families[0].findings(case_of(log_dir, families, rules)))


def found_in_sample(scenario: str, families: Sequence[Family]) -> dict[str, list[Finding]]:
    """Return what the first family finds in the partitions of real brokers, by folder; at least one is looked at."""
    files = [row for row in discover([str(SAMPLES / scenario)]) if isinstance(row, FoundFile)]
    rules = Rules(as_of_ms=max(row.mtime_ms for row in files if row.mtime_ms is not None))
    found: dict[str, list[Finding]] = {}
    for partition in partitions_of(files):
        folder = str(Path(partition.folder).relative_to(SAMPLES))
        found[folder] = list(families[0].findings(examine(partition, rules, noters(families))))
    assert found
    return {folder: findings for folder, findings in found.items() if findings}


def names(findings: Iterable[Finding]) -> list[str]:
    """Return the codes of findings."""
    return [finding.code.name for finding in findings]
