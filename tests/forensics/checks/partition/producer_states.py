"""Runs the checks of producers and transactions on forged logs and on samples."""

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
from kforensics.forensics.partition.partition_state import PartitionState
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import Segments, forge
from tests.forensics.partition_states import SAMPLES, state_under

__all__ = [
    "BACKDATED",
    "DAY",
    "LATER",
    "SOON",
    "codes_of",
    "forged_findings",
    "forged_state",
    "only",
    "sample_id",
    "sample_state",
    "truth_of",
]

DAY = 86_400_000
# Times of evaluation of a forged log: while its transactions may be ongoing, and when they may not.
SOON, LATER = NOW + 60_000, NOW + DAY
COLLECTORS = (producer_epochs.COLLECTOR, marker_batches.COLLECTOR)
# Samples, read once; the observations do not depend on the time of evaluation.
EXAMINED: dict[str, PartitionState] = {}
# Open transactions of Kafka Streams and MirrorMaker, whose records have the timestamps of what these read: orders of
# the day before. No newer marker lies before them, so only the coordinator shows that they are young.
BACKDATED = {
    f"exactly-once-clients/broker-1/{name}" for name in ("alerts-words-repartition-0", "shop.orders-0", "shop.orders-1")
}


def forged_state(
    folder: Path, segments: Segments, *, as_of_ms: int = SOON, rules: Any = None, **options: Any
) -> PartitionState:
    """Return the state of a forged log.

    Args:
        folder: the log directory.
        segments: batches, as ``forge`` takes them.
        as_of_ms: time of evaluation.
        rules: limits by name that differ from the defaults.
        options: of ``forge``.
    """
    forge(folder, segments, **options)
    state = state_under(folder, as_of_ms=as_of_ms, collectors=COLLECTORS)
    return replace(state, rules=replace(state.rules, **(rules or {})))


def forged_findings(check_module: ModuleType, folder: Path, segments: Segments, **options: Any) -> list[Finding]:
    """Return the findings of a check in a forged log; the options are those of ``forged_state``."""
    return list(check_module.findings(forged_state(folder, segments, **options)))


def codes_of(findings: list[Finding]) -> list[str]:
    """Return the codes of findings, sorted."""
    return sorted(finding.code.name for finding in findings)


def only(findings: list[Finding], code: str) -> Finding:
    """Return the one finding with a code."""
    (finding,) = (finding for finding in findings if finding.code.name == code)
    return finding


def sample_id(partition: Partition) -> str:
    """Return the folder of a partition, relative to the samples."""
    return Path(partition.folder).relative_to(SAMPLES).as_posix()


@cache
def _truth(scenario: str) -> dict[str, Any]:
    path = SAMPLES / scenario / "truth.json"
    expected: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return expected


def truth_of(partition: Partition) -> dict[str, Any]:
    """Return what the live broker reported about a sample, empty if it was not asked."""
    topics = _truth(sample_id(partition).split("/")[0]).get("topics", {})
    expected: dict[str, Any] = topics.get(partition.place.topic, {}).get(str(partition.place.partition), {})
    return expected


def sample_state(partition: Partition, *, later_ms: int = 0) -> PartitionState:
    """Return the state of a sample when its broker was asked, or at its newest record if it was not.

    Args:
        partition: the sample.
        later_ms: how much later to evaluate it.
    """
    name = sample_id(partition)
    if name not in EXAMINED:
        EXAMINED[name] = examine(partition, Rules(0), COLLECTORS)
    state = EXAMINED[name]
    taken = _truth(name.split("/")[0]).get("taken")
    as_of_ms = int(datetime.fromisoformat(taken).timestamp() * 1000) if taken else state.log.newest_timestamp
    return replace(state, rules=Rules(as_of_ms + later_ms))
