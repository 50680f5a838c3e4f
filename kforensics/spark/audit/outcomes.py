"""What tasks of an audit on Spark write into the staged store, and what they report to the driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import attrgetter

from kforensics.analyses.audit import STORED, sha256_of
from kforensics.forensics.audit.incidents import IncidentSummary
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.audit.shared_verdicts import (
    SharedVerdict,
    merge_verdicts,
    shared_verdicts,
    with_shared_verdict,
)
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.tables.schemas import Table, parse_columns
from kforensics.render.audit_report import AuditReport
from kforensics.render.staged_store import StorePart, TaskWriter
from kforensics.spark.audit.serialization import deserialize, serialize

__all__ = ["CHECKSUMS", "Outcome", "ResultSink"]

CHECKSUMS = Table(
    "checksums",
    "input",
    parse_columns("""
path string file as given
sha256 string SHA-256 of its bytes; null if it can no longer be read
"""),
)


@dataclass(slots=True)
class Outcome:
    """The combined results of tasks.

    Attributes:
        report: the report.
        parts: the parts of the evidence store that they have written.
        verdicts: verdicts of checks across partitions by the folders of these.
        places: log directory, topic and partition number of each partition with a result.
    """

    report: AuditReport
    incidents: IncidentSummary
    parts: list[StorePart] = field(default_factory=list)
    verdicts: dict[str, SharedVerdict] = field(default_factory=dict)
    places: Counter[tuple[str | None, str | None, int | None]] = field(default_factory=Counter)

    def with_other(self, other: Outcome) -> Outcome:
        """Return this outcome with another one added."""
        self.report.merge(other.report)
        self.incidents.merge(other.incidents)
        self.parts += other.parts
        merge_verdicts(self.verdicts, other.verdicts)
        self.places.update(other.places)
        return self


@dataclass(frozen=True, slots=True)
class ResultSink:
    """Writes the results of each task to files of its own, and keeps the data that the report needs."""

    staging: str | None
    as_of_ms: int
    checksums: bool
    clusters: Mapping[str | None, str]
    verdicts: Mapping[str, SharedVerdict] = field(default_factory=dict)

    def _outcome(self) -> Outcome:
        return Outcome(AuditReport(self.as_of_ms), IncidentSummary({}, self.as_of_ms))

    def informed(self, shared: bytes) -> ResultSink:
        """Return the sink that knows what checks across partitions found."""
        return replace(self, verdicts=deserialize(shared).verdicts)

    def evaluated(self, task: str, results: Iterable[PartitionResult]) -> bytes:
        """Write the results of a task, and return its outcome."""
        outcome = self._outcome()
        incidents = IncidentSummary(self.clusters, self.as_of_ms)
        parts = None if self.staging is None else TaskWriter(self.staging, task)
        for evaluated in results:
            result = with_shared_verdict(evaluated, self.verdicts)
            merge_verdicts(outcome.verdicts, shared_verdicts([result]))
            outcome.report.add(result)
            incidents.add(result)
            if result.is_counted:
                outcome.places[result.place.log_dir, result.place.topic, result.place.partition] += 1
            if parts:
                for rows in result.rows.values():
                    parts.add(rows)
                parts.add_values(STORED["damage"], result.damage)
        outcome.parts += parts.finish() if parts else ()
        outcome.incidents.merge(incidents)
        return serialize(outcome)

    def listed(self, task: str, files: Iterable[FoundFile]) -> bytes:
        """Write the rows of the files that a task has listed, and return its outcome."""
        outcome = self._outcome()
        if self.staging is None:
            return serialize(outcome)
        parts = TaskWriter(self.staging, task)
        for file in files:
            parts.add_values(STORED["files"], [attrgetter(*STORED["files"].names)(file)])
            if self.checksums:
                parts.add_values(CHECKSUMS, [(file.path, sha256_of(file.path))])
        outcome.parts += parts.finish()
        return serialize(outcome)

    def merged(self, outcomes: Iterable[bytes]) -> bytes:
        """Return the outcomes of several tasks as one."""
        # In an order of their own: a task that runs again must send on the same bytes, however outcomes arrive.
        ordered = map(deserialize, sorted(outcomes))
        return serialize(reduce(Outcome.with_other, ordered, self._outcome()))
