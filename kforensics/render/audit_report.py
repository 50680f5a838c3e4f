"""The text report of an audit: verdict, worst findings, partitions with a stuck LSO, and findings by code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from operator import attrgetter
from typing import Any

from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.formatting import format_count, format_duration, format_share, format_size, format_time
from kforensics.forensics.partition.partition_files import partition_sort_key
from kforensics.forensics.partition.partition_rows import remedy_text
from kforensics.parsers.format.text_encoding import printable
from kforensics.parsers.log.log_rows import Place
from kforensics.render.partition_text import partition_label

# Findings that the report shows, and how many of them for one code and partition. The store has all of them.
MAX_FINDINGS, MAX_FINDINGS_ALIKE = 20, 3
MAX_BLOCKED = 10
# Partitions that could not be read and are named.
MAX_UNREAD_NAMED = 1000


@dataclass(frozen=True, slots=True)
class _ReportedFinding:
    """A finding that the report may show."""

    place: Place
    folder: str
    finding: Finding
    index: int

    @property
    def rank(self) -> tuple[Any, ...]:
        """Worst first, then by partition: the order in which results arrive does not matter."""
        return -self.finding.severity, partition_sort_key(self.place, self.folder), self.index


@dataclass(frozen=True, slots=True)
class _BlockedPartition:
    """A partition whose last stable offset is blocked by a transaction."""

    place: Place
    folder: str
    last_stable_offset: int
    log_end_offset: int
    transaction: Any
    idle_ms: int | None
    hidden_records: int

    @property
    def rank(self) -> tuple[Any, ...]:
        """Longest idle first."""
        return (
            -(self.idle_ms or 0),
            int(self.transaction["last_timestamp"]),
            partition_sort_key(self.place, self.folder),
        )


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
    """Collects partition results in any order; keeps the counts and only the worst findings.

    Attributes:
        as_of_ms: time of evaluation.
        partitions: number of partitions.
        size: bytes of their logs.
        unread_count: number of partitions that could not be read.
        unread: the first of them.
        unreadable_paths: number of paths and folders that could not be listed.
        partitions_by_severity: number of readable partitions by their worst severity; None means no finding.
        findings_by_code: number of findings by severity and code.
    """

    as_of_ms: int
    partitions: int = 0
    size: int = 0
    unread_count: int = 0
    unread: list[UnreadPartition] = field(default_factory=list)
    unreadable_paths: int = 0
    partitions_by_severity: Counter[Severity | None] = field(default_factory=Counter)
    findings_by_code: Counter[tuple[Severity, str]] = field(default_factory=Counter)
    _findings: list[_ReportedFinding] = field(default_factory=list)
    _blocked: list[_BlockedPartition] = field(default_factory=list)
    _log_dirs: set[str | None] = field(default_factory=set)

    def add(self, result: PartitionResult) -> None:
        """Add the result of one partition, or of several partitions together."""
        for finding in result.findings:
            self.findings_by_code[finding.severity, finding.code.name] += finding.occurrences
        self._keep(findings=_reported_findings(result))
        if not result.is_counted:
            return
        self.partitions += 1
        self.size += result.size
        self._log_dirs.add(result.place.log_dir)
        if result.why is not None:
            self.unread_count += 1
            self._keep(unread=[UnreadPartition(result.place, result.folder, result.why)])
            return
        self.partitions_by_severity[result.worst] += 1
        self._keep(blocked=_blocked_partition(result))

    def merge(self, other: AuditReport) -> None:
        """Add everything that another report has collected."""
        self.partitions += other.partitions
        self.size += other.size
        self.unread_count += other.unread_count
        self.unreadable_paths += other.unreadable_paths
        self._log_dirs |= other._log_dirs
        self.partitions_by_severity.update(other.partitions_by_severity)
        self.findings_by_code.update(other.findings_by_code)
        self._keep(other.unread, other._findings, other._blocked)

    def _keep(
        self,
        unread: Iterable[UnreadPartition] = (),
        findings: Iterable[_ReportedFinding] = (),
        blocked: Iterable[_BlockedPartition] = (),
    ) -> None:
        """Keep the first entries of each list."""
        self.unread = nsmallest(
            MAX_UNREAD_NAMED,
            [*self.unread, *unread],
            key=lambda partition: partition_sort_key(partition.place, partition.folder),
        )
        self._findings = nsmallest(MAX_FINDINGS, [*self._findings, *findings], key=attrgetter("rank"))
        self._blocked = nsmallest(MAX_BLOCKED, [*self._blocked, *blocked], key=attrgetter("rank"))

    @property
    def worst(self) -> Severity | None:
        """The worst severity of any finding; None if there are no findings."""
        return max((severity for severity, _ in self.findings_by_code), default=None)

    def lines(self, bootstrap_server: str | None = None) -> Iterator[str]:
        """Yield the lines of the report.

        Args:
            bootstrap_server: addresses of brokers for the commands in remedies, None if they are unknown.
        """
        yield from self._verdict_lines()
        yield from self._finding_lines(bootstrap_server)
        yield from self._blocked_lines()
        yield from self._code_lines()

    def _verdict_lines(self) -> Iterator[str]:
        extent = f"{format_count(self.partitions, 'partition')}, {format_size(self.size)} of log"
        if self.partitions == self.unread_count:
            yield f"NOTHING COULD BE READ: {extent}"
        else:
            yield f"{self._verdict()}: {extent}, evaluated as of {format_time(self.as_of_ms)}"
            yield f"partitions by worst finding: {', '.join(self._severity_counts())}"
        for partition in self.unread:
            yield f"  not read: {partition_label(partition.place, partition.folder)}: {printable(partition.why)}"
        if self.unread_count > len(self.unread):
            yield f"  … and {self.unread_count - len(self.unread):,} more"

    def _verdict(self) -> str:
        verdict = "CLEAN" if self.worst is None else str(self.worst).upper()
        is_complete = not self.unread_count and not self.unreadable_paths
        return verdict if is_complete else f"{verdict}, AND NOT ALL COULD BE READ"

    def _severity_counts(self) -> list[str]:
        counts = [(self.partitions_by_severity[severity], str(severity)) for severity in sorted(Severity, reverse=True)]
        counts += [(self.partitions_by_severity[None], "clean"), (self.unread_count, "unread")]
        return [f"{count:,} {verdict}" for count, verdict in counts if count]

    def _finding_lines(self, bootstrap_server: str | None) -> Iterator[str]:
        if not self._findings:
            return
        yield ""
        yield "Findings, worst first"
        for reported in self._findings:
            yield from _finding_text(
                self._name(reported.place, reported.folder), reported.place, reported.finding, bootstrap_server
            )
        count = sum(count for (severity, _), count in self.findings_by_code.items() if severity >= Severity.WARNING)
        if count > len(self._findings):
            yield f"  … and {format_count(count - len(self._findings), 'more finding')}"

    def _blocked_lines(self) -> Iterator[str]:
        if not self._blocked:
            return
        yield ""
        yield "Partitions with a stuck LSO, longest idle first"
        for blocked in self._blocked:
            yield from _blocked_text(self._name(blocked.place, blocked.folder), blocked)

    def _name(self, place: Place, folder: str) -> str:
        """Return the name of a partition, with its folder if there are several log directories."""
        name = partition_label(place, folder)
        is_ambiguous = len(self._log_dirs) > 1 and place.topic is not None and folder
        return f"{name}, {printable(folder)}" if is_ambiguous else name

    def _code_lines(self) -> Iterator[str]:
        if not self.findings_by_code:
            return
        yield ""
        yield "All findings by code"
        worst_first = sorted(self.findings_by_code.items(), key=lambda item: (-item[0][0], item[0][1]))
        for (severity, code), count in worst_first:
            yield f"  {severity!s:<8}  {code:<36}  {count:>9,}"


def _reported_findings(result: PartitionResult) -> Iterator[_ReportedFinding]:
    """Yield findings of at least severity warning, a few for each code."""
    counts: Counter[str] = Counter()
    for index, finding in enumerate(result.findings):
        counts[finding.code.name] += 1
        if finding.severity >= Severity.WARNING and counts[finding.code.name] <= MAX_FINDINGS_ALIKE:
            yield _ReportedFinding(result.place, result.folder, finding, index)


def _blocked_partition(result: PartitionResult) -> Iterator[_BlockedPartition]:
    """Yield the partition if a transaction blocks its last stable offset."""
    stable, end = result.stable, result.log_end_offset
    if stable is not None and stable.blocking_transaction is not None and end is not None:
        yield _BlockedPartition(
            result.place,
            result.folder,
            stable.last_stable_offset,
            end,
            stable.blocking_transaction,
            stable.idle_ms,
            stable.hidden_records,
        )


def _finding_text(name: str, place: Place, finding: Finding, bootstrap_server: str | None) -> Iterator[str]:
    yield f"  {str(finding.severity).upper():<8}  {finding.code.name} in {name}"
    yield f"            {printable(finding.message)}"
    if advice := remedy_text(place, finding, bootstrap_server):
        yield f"            do: {printable(advice)}"


def _blocked_text(name: str, blocked: _BlockedPartition) -> Iterator[str]:
    transaction = blocked.transaction
    hidden = format_count(blocked.hidden_records, "record")
    yield f"  {name}: LSO stuck at {blocked.last_stable_offset} (log end {blocked.log_end_offset}, {hidden} hidden)"
    yield (
        f"    open transaction of producer {transaction['producer_id']}, epoch {transaction['producer_epoch']},"
        f" first offset {transaction['first_offset']}; last write {format_time(int(transaction['last_timestamp']))},"
        f" idle for {'an unknown time' if blocked.idle_ms is None else format_duration(blocked.idle_ms)}"
    )


def partition_summaries(results: Sequence[PartitionResult]) -> Iterator[str]:
    """Yield a few lines for each partition, worst first."""
    for result in sorted(results, key=_summary_rank):
        yield from _summary(result)


def _summary_rank(result: PartitionResult) -> int:
    if result.why is not None:
        return -len(Severity) - 1
    return 0 if result.worst is None else -result.worst - 1


def _summary(result: PartitionResult) -> Iterator[str]:
    name = partition_label(result.place, result.folder)
    if result.why is not None:
        yield f"UNREAD    {name}: {printable(result.why)}"
        return
    (values,) = result.rows["partitions"]
    row = dict(zip(result.rows["partitions"].table.names, values, strict=True))
    yield f"{row['verdict'].upper():<8}  {name}"
    yield f"          {_log_summary(row)}"
    if row["producers"]:
        yield f"          {_transaction_summary(row)}"
    codes = Counter[str]()
    for finding in result.findings:
        codes[finding.code.name] += finding.occurrences
    if codes:
        yield f"          {', '.join(f'{code} {count}' if count > 1 else code for code, count in codes.items())}"
    if result.replica_worst is not None:
        yield f"          {result.replica_worst} in the comparison with other replicas: see kforensics audit"


def _log_summary(row: dict[str, Any]) -> str:
    if row["log_end_offset"] is None:
        return "LSO unknown, the log is missing"
    batches = format_count(row["batches"], "batch", "batches")
    return (
        f"{format_size(row['bytes'])} in {format_count(row['segments'], 'segment')},"
        f" {format_count(row['records'], 'record')} in {batches},"
        f" offsets {row['first_offset'] if row['first_offset'] is not None else '-'} to {row['log_end_offset']},"
        f" LSO {row['last_stable_offset']}"
    )


def _transaction_summary(row: dict[str, Any]) -> str:
    parts = [format_count(row["producers"], "producer")]
    parts += [f"{row[outcome]:,} {outcome}" for outcome in ("committed", "aborted") if row[outcome]]
    parts += [f"{row['open_transactions']:,} open"] if row["open_transactions"] else []
    if row["control_batches"]:
        of_records, of_bytes = format_share(row["control_records_share"]), format_share(row["control_bytes_share"])
        parts.append(f"markers are {of_records} of records and {of_bytes} of bytes")
    return ", ".join(parts)
