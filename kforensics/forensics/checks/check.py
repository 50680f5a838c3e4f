"""Defines a check, runs checks on a partition, and orders their findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from kforensics.forensics.core.findings import Code, Finding
from kforensics.forensics.partition.log_summary import Collector
from kforensics.forensics.partition.partition_state import PartitionState

__all__ = ["Check", "collectors_of", "findings_of", "ranked"]

EvidenceT = TypeVar("EvidenceT")
FindingT_co = TypeVar("FindingT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Check(Generic[EvidenceT, FindingT_co]):
    """A check of one kind of evidence: a partition, a cluster, replicas, or the keys of a topic.

    Attributes:
        name: name of its module; the first line of the module's docstring says what the check looks for.
        codes: the codes of its findings, by name.
        findings: yields the findings for the evidence.
        collector: collects observations while batches are read; None if the check needs none.
        needs_log: whether it can judge only a partition that has a log.
    """

    name: str
    codes: Mapping[str, Code]
    findings: Callable[[EvidenceT], Iterator[FindingT_co]]
    collector: Collector | None = None
    needs_log: bool = True


def collectors_of(checks: Sequence[Check[PartitionState, Finding]]) -> tuple[Collector, ...]:
    """Return the collectors of checks, which collect observations while batches are read."""
    return tuple(check.collector for check in checks if check.collector is not None)


def findings_of(state: PartitionState, checks: Sequence[Check[PartitionState, Finding]]) -> tuple[Finding, ...]:
    """Return the findings of checks on a partition, the most severe first, then by offset."""
    possible = (check for check in checks if state.partition.has_log or not check.needs_log)
    return ranked(finding for check in possible for finding in check.findings(state))


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings on one partition, the most severe first, then by offset."""
    return tuple(sorted(findings, key=_rank))


def _rank(finding: Finding) -> tuple[int, int, str, int]:
    first, producer = finding.first_offset, finding.producer_id
    return -finding.severity, -1 if first is None else first, finding.code.name, -1 if producer is None else producer
