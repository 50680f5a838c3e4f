"""What is known of an incident from some results; parts of one incident merge in any order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from heapq import nsmallest
from operator import itemgetter
from typing import Any, TypeAlias

from kforensics.forensics.audit.incident_kinds import PlacedEvidence
from kforensics.forensics.core.findings import Severity

__all__ = ["IDENTITY", "MAX_EXAMPLES", "MAX_NAMED", "NO_EFFECT", "Effect", "Incident", "first_values"]

# What an incident lists of its ids, groups and brokers, and of its findings.
MAX_NAMED, MAX_EXAMPLES = 20, 20
# What an incident keeps of a finding, by which its row in the table of findings is found.
IDENTITY = (
    *("code", "severity", "broker_id", "log_dir", "topic", "partition", "first_offset", "last_offset", "producer_id"),
    *("path", "position", "message"),
)
# How many records are hidden, lost, and there twice.
Effect: TypeAlias = tuple[int, int, int]
NO_EFFECT: Effect = (0, 0, 0)


@dataclass(slots=True)
class Incident:
    """What is known of an incident, or of a part of it.

    Attributes:
        severity: the worst of its findings.
        since: earliest time that its findings state in ms, None if they state none.
        appended: earliest time in ms at which brokers wrote what its findings are about, None if it is not known.
        written: the same by the timestamps of records, which their producers set.
        codes: number of findings by code.
        partitions: records hidden, lost and repeated, by topic and partition; the most that any replica shows.
        brokers: ids of brokers, like the next three up to a limit.
        transactional_ids: transactional ids.
        producers: lowest and highest epoch by producer id; the epochs are None if unknown.
        groups: consumer groups.
        examples: the worst findings, each with its rank.
    """

    severity: Severity = Severity.INFO
    since: int | None = None
    appended: int | None = None
    written: int | None = None
    codes: Counter[str] = field(default_factory=Counter)
    partitions: dict[str, dict[int, Effect]] = field(default_factory=dict)
    brokers: set[int] = field(default_factory=set)
    transactional_ids: set[str] = field(default_factory=set)
    producers: dict[int, tuple[int | None, int | None]] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    examples: list[tuple[tuple[Any, ...], PlacedEvidence]] = field(default_factory=list)

    def __reduce__(self) -> tuple[Any, ...]:
        partitions = {topic: dict(sorted(self.partitions[topic].items())) for topic in sorted(self.partitions)}
        names = (sorted(values) for values in (self.brokers, self.transactional_ids, self.groups))
        codes, producers = dict(sorted(self.codes.items())), dict(sorted(self.producers.items()))
        return _incident, (
            self.severity,
            (self.since, self.appended, self.written),
            codes,
            partitions,
            producers,
            *names,
            self.examples,
        )

    def merge(self, other: Incident) -> None:
        """Add what is known of another part."""
        self.severity = max(self.severity, other.severity)
        self.since = earliest(self.since, other.since)
        self.appended = earliest(self.appended, other.appended)
        self.written = earliest(self.written, other.written)
        self.codes.update(other.codes)
        for topic, numbers in other.partitions.items():
            known = self.partitions.setdefault(topic, {})
            for number, effect in numbers.items():
                known[number] = tuple(map(max, known.get(number, NO_EFFECT), effect))  # type: ignore[assignment]  # three
        self.brokers = first_values(self.brokers | other.brokers)
        self.transactional_ids = first_values(self.transactional_ids | other.transactional_ids)
        self.groups = first_values(self.groups | other.groups)
        for producer_id, epochs in other.producers.items():
            self.add_producer(producer_id, *epochs)
        self.producers = {producer_id: self.producers[producer_id] for producer_id in first_values(set(self.producers))}
        self.examples = nsmallest(MAX_EXAMPLES, [*self.examples, *other.examples], key=itemgetter(0))

    def add_producer(self, producer_id: int, *epochs: int | None) -> None:
        """Add a producer with some of its epochs, None for an unknown one."""
        known = [epoch for epoch in (*self.producers.get(producer_id, ()), *epochs) if epoch is not None]
        self.producers[producer_id] = (min(known, default=None), max(known, default=None))


def _incident(  # noqa: PLR0913, PLR0917  # what pickle keeps of an incident
    severity: Severity,
    times: tuple[int | None, int | None, int | None],
    codes: dict[str, int],
    partitions: dict[str, dict[int, Effect]],
    producers: dict[int, tuple[int | None, int | None]],
    brokers: list[int],
    transactional_ids: list[str],
    groups: list[str],
    examples: list[tuple[tuple[Any, ...], PlacedEvidence]],
) -> Incident:
    """Return a pickled incident. Sets have another order in every process, and Spark compares the bytes of tasks."""
    names = ({*brokers}, {*transactional_ids}, producers, {*groups})
    since, appended, written = times
    return Incident(severity, since, appended, written, Counter(codes), partitions, *names, examples)


def earliest(*times: int | None) -> int | None:
    """Return the earliest of some times, None if none is known."""
    return min((time for time in times if time is not None), default=None)


def first_values(values: set[Any]) -> set[Any]:
    """Return the first values in order: the first of all are the first of the first of each part."""
    return values if len(values) <= MAX_NAMED else set(nsmallest(MAX_NAMED, values))
