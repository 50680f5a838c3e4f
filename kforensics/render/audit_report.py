"""The text report of an audit: the verdict, the incidents, worst first, and how many partitions have no finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import chain
from typing import Any

from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.formatting import format_count, format_size, format_time
from kforensics.forensics.partition.partition_files import partition_sort_key
from kforensics.parsers.format.text_encoding import printable
from kforensics.parsers.log.log_rows import Place
from kforensics.render.incident_lines import IncidentView, incident_lines
from kforensics.render.partition_names import partition_label
from kforensics.render.screen import Line, Screen

# Partitions that could not be read and are named.
MAX_UNREAD_NAMED = 1000


@dataclass(frozen=True, slots=True)
class UnreadPartition:
    """A partition that could not be read.

    Attributes:
        place: the partition.
        folder: folder of its files.
        why: the error.
    """

    place: Place
    folder: str
    why: str


@dataclass(slots=True)
class AuditReport:
    """Collects partition results in any order; keeps the counts, and the incidents once they are known.

    Attributes:
        as_of_ms: time of evaluation.
        partitions: number of partitions.
        size: bytes of their logs.
        unread_count: number of partitions that could not be read.
        unread: the first of them.
        unreadable_paths: number of paths and folders that could not be listed.
        partitions_by_severity: number of readable partitions by their worst severity; None means no finding.
        findings_by_code: number of findings by severity and code.
        incident_count: number of incidents.
        incidents: rows of the table ``incidents``, worst first; empty until they are added.
        names_clean: whether to keep the names of partitions without any finding.
        clean: names of partitions without any finding, if they are kept.
        selection: the options that select the findings that it is about, empty if it is about all.
    """

    as_of_ms: int
    partitions: int = 0
    size: int = 0
    unread_count: int = 0
    unread: list[UnreadPartition] = field(default_factory=list)
    unreadable_paths: int = 0
    partitions_by_severity: Counter[Severity | None] = field(default_factory=Counter)
    findings_by_code: Counter[tuple[Severity, str]] = field(default_factory=Counter)
    incident_count: int = 0
    incidents: list[dict[str, Any]] = field(default_factory=list)
    names_clean: bool = False
    clean: list[tuple[Place, str]] = field(default_factory=list)
    selection: str = ""

    def add(self, result: PartitionResult) -> None:
        """Add the result of one partition, or of several partitions together."""
        for finding in result.findings:
            self.findings_by_code[finding.severity, finding.code.name] += finding.occurrences
        if incidents := result.rows.get("incidents"):
            self.incidents = [dict(zip(incidents.table.names, row, strict=True)) for row in incidents]
            self.incident_count = len(self.incidents)
        if not result.is_counted:
            return
        self.partitions += 1
        self.size += result.size
        if result.why is not None:
            self.unread_count += 1
            self._keep([UnreadPartition(result.place, result.folder, result.why)])
            return
        self.partitions_by_severity[result.worst] += 1
        if self.names_clean and result.worst is None:
            self.clean.append((result.place, result.folder))

    def merge(self, other: AuditReport) -> None:
        """Add everything that another report has collected."""
        self.partitions += other.partitions
        self.size += other.size
        self.unread_count += other.unread_count
        self.unreadable_paths += other.unreadable_paths
        self.clean += other.clean
        self.partitions_by_severity.update(other.partitions_by_severity)
        self.findings_by_code.update(other.findings_by_code)
        self._keep(other.unread)

    def _keep(self, unread: Iterable[UnreadPartition]) -> None:
        """Keep the first partitions that could not be read."""
        self.unread = nsmallest(
            MAX_UNREAD_NAMED,
            [*self.unread, *unread],
            key=lambda partition: partition_sort_key(partition.place, partition.folder),
        )

    @property
    def worst(self) -> Severity | None:
        """The worst severity of any finding, and of the incidents that they are of; None if there are no findings."""
        incidents = (Severity[row["severity"].upper()] for row in self.incidents[:1])
        return max(chain((severity for severity, _ in self.findings_by_code), incidents), default=None)

    def lines(self, bootstrap_server: str | None = None, view: IncidentView | None = None) -> Iterator[str]:
        """Yield the lines of the report.

        Args:
            bootstrap_server: addresses of brokers for the commands in remedies, None if they are unknown.
            view: where the lines are shown, and how much of the incidents; None for the default. Their times are in the
                zone of its screen.
        """
        view = view or IncidentView()
        yield from self._verdict_lines(view.screen)
        if self.partitions > self.unread_count:
            yield from incident_lines(self.incidents, view, bootstrap_server)
            yield from self._clean_lines(view)

    def _clean_lines(self, view: IncidentView) -> Iterator[str]:
        if not (count := self.partitions_by_severity[None]):
            return
        yield ""
        what = f"no finding with {self.selection}" if self.selection else "nothing found"
        yield f"{format_count(count, 'partition')}: {what}{':' if self.clean and view.screen.shows_all else ''}"
        if view.screen.shows_all:
            ordered = sorted(self.clean, key=lambda partition: partition_sort_key(*partition))
            yield from (f"  {partition_label(place, folder)}" for place, folder in ordered)

    def _verdict_lines(self, screen: Screen) -> Iterator[str]:
        extent = f"{format_count(self.partitions, 'partition')}, {format_size(self.size)} of log"
        if self.partitions == self.unread_count:
            yield Line(f"NOTHING COULD BE READ: {extent}", Severity.CRITICAL)
        else:
            as_of = screen.in_zone(format_time(self.as_of_ms))
            verdict = f"{self._verdict()}{self._incident_count()}: {extent}, evaluated as of {as_of}"
            yield Line(verdict, "" if self.worst is None else self.worst)
            yield f"partitions by worst finding: {', '.join(self._severity_counts())}"
        for partition in self.unread:
            yield f"  not read: {partition_label(partition.place, partition.folder)}: {printable(partition.why)}"
        if self.unread_count > len(self.unread):
            yield f"  … and {self.unread_count - len(self.unread):,} more"

    def _verdict(self) -> str:
        nothing = f"NOTHING WITH {self.selection}" if self.selection else "CLEAN"
        verdict = nothing if self.worst is None else str(self.worst).upper()
        is_complete = not self.unread_count and not self.unreadable_paths
        return verdict if is_complete else f"{verdict}, AND NOT ALL COULD BE READ"

    def _incident_count(self) -> str:
        of = f" with {self.selection}" if self.selection else ""
        return f", {format_count(self.incident_count, 'incident')}{of}" if self.incident_count else ""

    def _severity_counts(self) -> list[str]:
        counts = [(self.partitions_by_severity[severity], str(severity)) for severity in sorted(Severity, reverse=True)]
        none = "without these findings" if self.selection else "clean"
        counts += [(self.partitions_by_severity[None], none), (self.unread_count, "unread")]
        return [f"{count:,} {verdict}" for count, verdict in counts if count]
