"""Reads sample and forged partitions for checks, as the program does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from kforensics.forensics.core.findings import Finding
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.log_summary import Collector
from kforensics.forensics.partition.partition_files import partitions_of
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.files.discover import FoundFile, discover
from lab.places import SAMPLES
from tests.forensics.batch_notation import NOW

# Not written by brokers: damaged on purpose, or without log directories.
MADE = ("damaged", "every-record", "golden")
HOUR_MS = 3_600_000
RULES = Rules(as_of_ms=NOW + HOUR_MS)


class CheckModule(Protocol):
    """A module with a check."""

    def findings(self, state: PartitionState) -> Iterator[Finding]:
        """Yield what is found."""


HEALTHY_SCENARIOS = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir() and path.name not in MADE)


def collectors(check_modules: Iterable[CheckModule]) -> list[Collector]:
    """Return the collectors of the modules that have one."""
    return [check_module.COLLECTOR for check_module in check_modules if hasattr(check_module, "COLLECTOR")]


def state_under(log_dir: Path, check_modules: Iterable[CheckModule], rules: Rules = RULES) -> PartitionState:
    """Return the only partition in a folder, read for some checks."""
    (partition,) = partitions_of(row for row in discover([str(log_dir)]) if isinstance(row, FoundFile))
    return examine(partition, rules, collectors(check_modules))


def found_in(log_dir: Path, check_modules: Sequence[CheckModule], rules: Rules = RULES) -> list[Finding]:
    """Return the findings of the first check in the only partition in a folder; the others only observe."""
    return list(check_modules[0].findings(state_under(log_dir, check_modules, rules)))


def findings_in_sample(scenario: str, check_modules: Sequence[CheckModule]) -> dict[str, list[Finding]]:
    """Return the findings of the first check in the partitions of a scenario, by folder; there is at least one."""
    files = [row for row in discover([str(SAMPLES / scenario)]) if isinstance(row, FoundFile)]
    rules = Rules(as_of_ms=max(row.mtime_ms for row in files if row.mtime_ms is not None))
    results: dict[str, list[Finding]] = {}
    for partition in partitions_of(files):
        folder = str(Path(partition.folder).relative_to(SAMPLES))
        results[folder] = list(check_modules[0].findings(examine(partition, rules, collectors(check_modules))))
    assert results
    return {folder: findings for folder, findings in results.items() if findings}


def code_names(findings: Iterable[Finding]) -> list[str]:
    """Return the codes of findings."""
    return [finding.code.name for finding in findings]
