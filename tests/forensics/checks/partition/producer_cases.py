"""What the families about producers and transactions find in forged logs, and in what real brokers wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from kforensics.forensics.checks.partition import marker_batches, producer_epochs
from kforensics.forensics.core.findings import Finding
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import Case
from tests.forensics.cases import SAMPLES, case_of
from tests.forensics.events import NOW
from tests.forensics.forge import Segments, forge

__all__ = [
    "DAY",
    "FORGOTTEN",
    "LATER",
    "SOON",
    "codes_of",
    "forged_case",
    "found",
    "only",
    "sample_case",
    "sample_id",
    "truth_of",
]

DAY = 86_400_000
# When a forged log is judged: while its transactions may still go on, and when they may not.
SOON, LATER = NOW + 60_000, NOW + DAY
NOTERS = (producer_epochs.NOTER, marker_batches.NOTER)
# Samples as they were read once; what is noted of a log does not depend on the time it is judged.
EXAMINED: dict[str, Case] = {}
# Its broker lost its snapshots while it was stopped, and no longer knows of the transaction that is open in the log.
FORGOTTEN = "state-lost-after-stop/broker-1/open-0"


def forged_case(folder: Path, segments: Segments, *, as_of_ms: int = SOON, rules: Any = None, **options: Any) -> Case:
    """Return the case of a forged log.

    Args:
        folder: the log directory.
        segments: batches, as ``forge`` takes them.
        as_of_ms: when it is judged.
        rules: limits by name that differ from the usual ones.
        options: of ``forge``.
    """
    forge(folder, segments, **options)
    case = case_of(folder, as_of_ms=as_of_ms, noters=NOTERS)
    return replace(case, rules=replace(case.rules, **(rules or {})))


def found(family: ModuleType, folder: Path, segments: Segments, **options: Any) -> list[Finding]:
    """Return what a family finds in a forged log; the options are those of ``forged_case``."""
    return list(family.findings(forged_case(folder, segments, **options)))


def codes_of(findings: list[Finding]) -> list[str]:
    """Return the codes of findings, sorted."""
    return sorted(finding.code.name for finding in findings)


def only(findings: list[Finding], code: str) -> Finding:
    """Return the one finding with a code."""
    (finding,) = (finding for finding in findings if finding.code.name == code)
    return finding


def sample_id(partition: Partition) -> str:
    """Return the folder of a partition as it is named below the samples."""
    return Path(partition.folder).relative_to(SAMPLES).as_posix()


@cache
def _truth(scenario: str) -> dict[str, Any]:
    path = SAMPLES / scenario / "truth.json"
    said: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return said


def truth_of(partition: Partition) -> dict[str, Any]:
    """Return what its live broker said of a sample, nothing if it was not asked."""
    topics = _truth(sample_id(partition).split("/")[0]).get("topics", {})
    said: dict[str, Any] = topics.get(partition.place.topic, {}).get(str(partition.place.partition), {})
    return said


def sample_case(partition: Partition, *, later_ms: int = 0) -> Case:
    """Return the case of a sample as of the time when its broker was asked, or of its newest record if it was not.

    Args:
        partition: the sample.
        later_ms: for how much longer it lay there before it is judged.
    """
    name = sample_id(partition)
    if name not in EXAMINED:
        EXAMINED[name] = examine(partition, Rules(0), NOTERS)
    case = EXAMINED[name]
    taken = _truth(name.split("/")[0]).get("taken")
    as_of_ms = int(datetime.fromisoformat(taken).timestamp() * 1000) if taken else case.log.newest_timestamp
    return replace(case, rules=Rules(as_of_ms + later_ms))
