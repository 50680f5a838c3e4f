"""Groups the findings of an audit by cause into incidents: the table ``incidents``.

An :class:`IncidentSummary` takes the results of partitions in any order and merges with others, so that any engine can
combine what its tasks have seen. Memory grows with the number of causes and of the partitions they are in, not with the
number of findings. ``incident_kinds`` states what is one incident.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from operator import itemgetter
from typing import Any

from kforensics.forensics.audit.incident_kinds import (
    CASCADES,
    KIND_RANKS,
    KINDS,
    IncidentKey,
    PlacedEvidence,
    key_of,
    kind_of,
    same_batch,
)
from kforensics.forensics.audit.incident_links import Edges, failovers, links, outages
from kforensics.forensics.audit.incident_parts import (
    IDENTITY,
    MAX_EXAMPLES,
    NO_EFFECT,
    Effect,
    Incident,
    earliest,
    first_values,
)
from kforensics.forensics.audit.incident_text import epochs_of, incident_text, listed, partition_list
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.coordinators.coordinator_records import TRANSACTION_STATE
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.formatting import UNKNOWN_TIMES
from kforensics.forensics.core.reporting import APPENDED, EVENT_TIMES, WRITTEN
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.core.tables import RESULTS
from kforensics.forensics.partition.partition_files import partition_sort_key
from kforensics.forensics.partition.partition_rows import remedy_text
from kforensics.parsers.log.log_rows import Place

__all__ = ["IncidentSummary"]

ID_BYTES = 5
CODE_RANKS = {code: rank for rank, code in enumerate(dict.fromkeys(code for kind in KINDS for code in kind.codes))}
# Kinds whose findings are of one incident if they are about the same batch of a producer.
SAME_BATCH_KINDS = ("stuck-transaction", "split-transaction", "late-writes")
REPEATED = ("seq-duplicate-batch", "content-duplicate-retry")
# Columns with the parts of an effect, in their order.
EFFECTS = ("hidden_records", "lost_records", "repeated_records")
LOST_RANGES = ("unclean-election-loss", "segment-missing", "offset-gap", "batch-crc-mismatch", "batch-length-invalid")
# What a cleaner or retention has removed is info, and not lost.
CLEANED_RANGES = ("segment-missing", "offset-gap")


@dataclass(slots=True)
class IncidentSummary:
    """The incidents of some results; merging is associative and commutative.

    Attributes:
        clusters: name of the cluster by log directory; those that are missing belong to one without a name.
        as_of_ms: time of evaluation.
        incidents: the incidents by key.
        edges: pairs of keys of the same incident.
    """

    clusters: Mapping[str | None, str]
    as_of_ms: int
    incidents: dict[IncidentKey, Incident] = field(default_factory=dict)
    edges: Edges = field(default_factory=set)

    def __reduce__(self) -> tuple[Any, ...]:
        edges, incidents = sorted(self.edges, key=repr), sorted(self.incidents.items(), key=lambda item: repr(item[0]))
        return _summary, (self.clusters, self.as_of_ms, incidents, edges)

    def add(self, result: PartitionResult) -> None:
        """Add the findings of one partition, or of several partitions together."""
        placed = [
            PlacedEvidence(self._cluster(result.place, finding), result.place, result.folder, finding)
            for finding in result.findings
        ]
        keys = _keys(placed)
        parts: dict[IncidentKey, Incident] = {}
        for index, (evidence, key) in enumerate(zip(placed, keys, strict=True)):
            self._add(parts.setdefault(key, Incident()), evidence, index, result)
            self.edges.update((key, other) for other in links(evidence, key))
        self.edges |= _same_batches(placed, keys)
        for key, part in parts.items():
            self.incidents.setdefault(key, Incident()).merge(part)

    def merge(self, other: IncidentSummary) -> None:
        """Add the incidents of other results."""
        for key, incident in other.incidents.items():
            self.incidents.setdefault(key, Incident()).merge(incident)
        self.edges |= other.edges

    def rows(self) -> Rows:
        """Return the table of incidents, worst first; within a severity, those that affect consumers come first.

        Incidents that are alike in this have the order of their worst findings: by code, log directory and partition.
        """
        ordered = sorted(((_row(keys, whole), whole) for keys, whole in self._joined()), key=_order)
        joined = [row for row, _ in ordered]
        table = RESULTS["incidents"]
        return Rows(table, len(joined), {name: [row[name] for row in joined] for name in table.names})

    def _cluster(self, place: Place, finding: Finding) -> str:
        log_dir = PlacedEvidence("", place, "", finding).log_dir
        return self.clusters.get(log_dir, self.clusters.get(f"{log_dir}/", ""))

    def _add(self, part: Incident, placed: PlacedEvidence, index: int, result: PartitionResult) -> None:
        """Add a finding to the incident of its key in its partition."""
        finding, evidence = placed.finding, placed.finding.evidence
        part.severity = max(part.severity, finding.severity)
        part.since = earliest(part.since, *_times(finding, self.as_of_ms))
        part.appended = earliest(part.appended, evidence.get(APPENDED))
        part.written = earliest(part.written, evidence.get(WRITTEN))
        part.codes[finding.code.name] += finding.occurrences
        topic, number = placed.topic_partition
        known = part.partitions.setdefault(topic, {})
        effect = _effect(finding, result)
        hidden, lost, repeated = known.get(number, NO_EFFECT)
        known[number] = max(hidden, effect[0]), lost + effect[1], repeated + effect[2]
        if placed.place.broker_id is not None:
            part.brokers.add(placed.place.broker_id)
        if isinstance(name := evidence.get("transactional_id"), str) and name not in part.transactional_ids:
            part.transactional_ids = first_values(part.transactional_ids | {name})
        if finding.producer_id is not None:
            part.add_producer(finding.producer_id, finding.producer_epoch)
        if groups := set(_groups(evidence)) - part.groups:
            part.groups = first_values(part.groups | groups)
        rank = (
            -finding.severity,
            CODE_RANKS[finding.code.name],
            finding.first_offset is None,
            partition_sort_key(placed.place, placed.folder),
            index,
        )
        if len(part.examples) < MAX_EXAMPLES or rank < part.examples[-1][0]:
            part.examples = sorted([*part.examples, (rank, placed)], key=itemgetter(0))[:MAX_EXAMPLES]

    def _joined(self) -> Iterator[tuple[list[IncidentKey], Incident]]:
        """Yield the incidents, those that evidence links as one, each with its keys; the first key decides its kind."""
        roots = _roots(self.incidents, self.edges | failovers(self.incidents) | outages(self.edges))
        members: dict[IncidentKey, list[IncidentKey]] = {}
        for key in self.incidents:
            members.setdefault(roots[key], []).append(key)
        for keys in members.values():
            keys.sort(key=lambda key: (KIND_RANKS[key[0]], repr(key)))
            whole = Incident()
            for key in keys:
                whole.merge(self.incidents[key])
            yield keys, whole


def _order(joined: tuple[Mapping[str, Any], Incident]) -> tuple[Any, ...]:
    """Return the sort key of a row and its incident; the name of an incident depends on where the files lie."""
    row, incident = joined
    affects_consumers = any(row[name] is not None for name in EFFECTS)
    worst = -Severity[row["severity"].upper()], not affects_consumers, -row["partition_count"]
    return *worst, incident.examples[0][0], row["incident"]


def _summary(
    clusters: Mapping[str | None, str],
    as_of_ms: int,
    incidents: list[tuple[IncidentKey, Incident]],
    edges: list[tuple[IncidentKey, IncidentKey]],
) -> IncidentSummary:
    return IncidentSummary(clusters, as_of_ms, dict(incidents), {*edges})


def _keys(placed: Sequence[PlacedEvidence]) -> list[IncidentKey]:
    """Return the keys of the findings of a result: of what they follow from, or their own."""
    first: dict[object, int] = {}
    for index, evidence in enumerate(placed):
        finding = evidence.finding
        code, producer_id = finding.code.name, finding.producer_id
        for known in ((code,), (code, producer_id), (code, producer_id, finding.first_offset)):
            first.setdefault(known, index)
        kind = kind_of(finding).name
        for common in {cascade.common for cascade in CASCADES if kind in cascade.kinds}:
            first.setdefault((kind, common, common(finding)), index)
    causes = [_cause(index, evidence.finding, first) for index, evidence in enumerate(placed)]
    return [key_of(placed[_origin(index, causes)]) for index in range(len(placed))]


def _cause(index: int, finding: Finding, first: Mapping[object, int]) -> int | None:
    """Return the index of the finding that a finding follows from, None if there is none.

    Args:
        index: the index of the finding.
        finding: the finding.
        first: index of the first finding by what it has in common with its effects.
    """
    code, producer_id = finding.cause, finding.producer_id
    wanted: list[object] = []
    if code is not None:
        wanted += [(code, producer_id, finding.first_offset), (code, producer_id), (code, None)]
        wanted += [(code,)] if producer_id is None else []
    for cascade in CASCADES:
        if finding.code.name in cascade.effects and (common := cascade.common(finding)) is not None:
            wanted += [(kind, cascade.common, common) for kind in cascade.kinds]
    causes = (first[known] for known in wanted if known in first)
    return next((cause for cause in causes if cause != index), None)


def _origin(index: int, causes: Sequence[int | None]) -> int:
    """Return the index of the finding at the beginning of a chain of causes."""
    seen = {index}
    while (cause := causes[index]) is not None and cause not in seen:
        seen.add(cause)
        index = cause
    return index


def _same_batches(placed: Sequence[PlacedEvidence], keys: Sequence[IncidentKey]) -> Edges:
    """Return pairs of the keys of findings of a partition about the same batches of a producer."""
    batches: dict[object, IncidentKey] = {}
    edges: Edges = set()
    for evidence, key in zip(placed, keys, strict=True):
        common = same_batch(evidence.finding)
        if common is not None and key[0] in SAME_BATCH_KINDS:
            edges.add((batches.setdefault(common, key), key))
    return {(first, second) for first, second in edges if first != second}


def _roots(keys: Iterable[IncidentKey], edges: Edges) -> dict[IncidentKey, IncidentKey]:
    """Return for each key the representative of all keys that edges join with it."""
    parents: dict[IncidentKey, IncidentKey] = {}

    def root(key: IncidentKey) -> IncidentKey:
        while (parent := parents.setdefault(key, key)) != key:
            parents[key] = parents[parent]
            key = parents[key]
        return key

    for first, second in edges:
        parents[root(first)] = root(second)
    return {key: root(key) for key in keys}


def _times(finding: Finding, as_of_ms: int) -> Iterator[int]:
    """Yield the times that a finding states: when what it reports began, or the last sign of it before."""
    evidence = finding.evidence
    began, *others = EVENT_TIMES
    if isinstance(evidence.get(began), int):  # its coordinator knows better than the timestamps of records
        yield evidence[began]
        return
    for name in others:
        if isinstance(evidence.get(name), int):
            yield evidence[name]
    for name in ("silent_ms", "lasts_ms"):
        if isinstance(evidence.get(name), int):
            yield evidence.get("evaluated_ms", as_of_ms) - evidence[name]
    since = evidence.get("since_ms") if finding.code.name == "lso-stuck" else None
    if isinstance(since, int) and since not in UNKNOWN_TIMES:
        yield since


def _effect(finding: Finding, result: PartitionResult) -> Effect:
    """Return how many records a finding shows as hidden, lost or unreadable, and repeated."""
    code, evidence = finding.code.name, finding.evidence
    if code == "lso-stuck":
        hidden = evidence["log_end_offset"] - evidence["last_stable_offset"]
        return (hidden if result.stable is None else result.stable.hidden_records), 0, 0
    if code in REPEATED:
        return 0, 0, int(evidence.get("records", 0))
    if code == "replica-divergence" and "truncates_to" in evidence:
        return 0, int(evidence["records"]) - int(evidence["written_again"]), 0
    is_lost = code in LOST_RANGES and (code not in CLEANED_RANGES or finding.severity > Severity.INFO)
    if is_lost and finding.first_offset is not None and finding.last_offset is not None:
        return 0, max(finding.last_offset - finding.first_offset + 1, 0), 0
    return NO_EFFECT


def _groups(evidence: Mapping[str, Any]) -> Iterator[str]:
    if "group" in evidence:
        yield str(evidence["group"])
    yield from map(str, evidence.get("groups", ()))


def _example(placed: PlacedEvidence) -> dict[str, Any]:
    """Return what an incident keeps of a finding; it is found in the table ``findings`` by the same columns."""
    finding, place = placed.finding, placed.place
    return {
        "code": finding.code.name,
        "severity": str(finding.severity),
        "broker_id": place.broker_id,
        "log_dir": place.log_dir,
        "topic": place.topic,
        "partition": place.partition,
        "first_offset": finding.first_offset,
        "last_offset": finding.last_offset,
        "producer_id": finding.producer_id,
        "path": finding.path,
        "position": finding.position,
        "message": finding.message,
        "remedy": remedy_text(place, finding),
        "log_dirs": _log_dirs(placed),
        "two_phase_commit": finding.evidence.get("two_phase_commit", False),
        "folder": placed.folder,
        "copies": f"{finding.evidence.get('first_offset')}:{(finding.last_offset or 0) + 1}",
    }


def _log_dirs(placed: PlacedEvidence) -> list[str]:
    """Return the log directories with what a finding is about: of a comparison, those of the replicas."""
    if placed.place.log_dir is not None:
        return [placed.place.log_dir]
    evidence = placed.finding.evidence
    folders = [evidence.get("replica"), evidence.get("other"), *evidence.get("others", ())[:2]]
    return [folder.rpartition("/")[0] or "." for folder in folders if isinstance(folder, str)]


def _row(keys: Sequence[IncidentKey], incident: Incident) -> dict[str, Any]:
    """Return the values of the columns of ``incidents``."""
    kind = KINDS[KIND_RANKS[keys[0][0]]]
    examples = [_example(placed) for _, placed in incident.examples]
    if incident.producers or incident.transactional_ids:
        affected = {name: numbers for name, numbers in incident.partitions.items() if name != TRANSACTION_STATE}
        # The coordinator's log shows what happens to a transaction, but it is not what its consumers read.
        incident.partitions = affected or incident.partitions
    effects = [effect for numbers in incident.partitions.values() for effect in numbers.values()]
    counts = {name: sum(column) or None for name, column in zip(EFFECTS, zip(*effects, strict=True), strict=True)}
    shared = {name: _shared(example[name] for example in examples) for name in ("broker_id", "log_dir")}
    topics = list(incident.partitions)
    numbers = list(incident.partitions[topics[0]]) if len(topics) == 1 else []
    values = {
        **shared,
        "topic": topics[0] if len(topics) == 1 and examples[0]["topic"] is not None else None,
        "partition": numbers[0] if len(numbers) == 1 and numbers[0] >= 0 else None,
        "incident": blake2b(repr(keys[0]).encode(errors="backslashreplace"), digest_size=ID_BYTES).hexdigest(),
        "kind": kind.name,
        "severity": str(incident.severity),
        "since": incident.appended if incident.since is None else incident.since,
        "first_timestamp": incident.written,
        **counts,
        "partition_count": len(effects),
        "partitions": partition_list(incident.partitions),
        "brokers": listed(incident.brokers),
        "transactional_ids": listed(incident.transactional_ids),
        "producer_ids": listed(incident.producers),
        "producer_epochs": epochs_of(incident.producers),
        "groups": listed(incident.groups),
        "findings": incident.codes.total(),
        "codes": json.dumps(dict(sorted(incident.codes.items()))),
        "evidence": json.dumps([{name: example[name] for name in IDENTITY} for example in examples]),
    }
    losing = sum(lost > 0 for _, lost, _ in effects)
    return values | incident_text(kind, {**values, "losing_partitions": losing}, examples)


def _shared(values: Iterable[Any]) -> Any:
    different = set(values)
    return different.pop() if len(different) == 1 else None
