"""Audits all partitions under paths: all checks of each, then the checks across partitions, into an evidence store."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from kforensics.analyses.partitions import Investigation, ignore
from kforensics.analyses.pool import Advance, copy_results, partition_results
from kforensics.analyses.without_records import refuse_without_records
from kforensics.forensics.audit.audit_scope import AuditScope
from kforensics.forensics.audit.cluster_membership import PartitionMembership
from kforensics.forensics.audit.copies import copies_among, copies_of
from kforensics.forensics.audit.cross_partition_duplicates import SearchedReplicas, evaluate_topic_duplicates
from kforensics.forensics.audit.deferred_verdicts import ClusterInput, resolve_deferred
from kforensics.forensics.audit.incidents import IncidentSummary
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.audit.setting_rows import setting_rows
from kforensics.forensics.audit.shared_verdicts import shared_verdicts, with_shared_verdict
from kforensics.forensics.audit.topic_result import evaluate_topics
from kforensics.forensics.core.tables import RESULTS
from kforensics.forensics.partition.chunk_bytes import CHUNK_FORMAT
from kforensics.forensics.partition.splits import SPLIT_SIZE
from kforensics.forensics.partition.stored_chunks import CHUNK_SUMMARIES, SummaryUse
from kforensics.parsers.files.discover import FoundFile, Notify
from kforensics.parsers.files.source import open_source
from kforensics.parsers.log.log_rows import Place
from kforensics.parsers.tables.schemas import TABLES, Table
from kforensics.version import __version__

if TYPE_CHECKING:
    from kforensics.render.redaction import Redaction

# Answers to a question that an audit does not ask.
NOT_STORED = ("cluster_changes", "partition_history")
AUDITED: dict[str, Table] = {name: table for name, table in RESULTS.items() if name not in NOT_STORED}
# The tables of a store: the input files, the damage in them, and the results.
STORED: dict[str, Table] = {name: TABLES[name] for name in ("files", "damage")} | AUDITED
# The default of Spark's spark.redaction.regex, and names of environment variables, up to the equals sign.
SECRET = re.compile(r"(.*?(?:secret|password|token|access[._]?key)[^=]*=).+", re.IGNORECASE | re.DOTALL)
HASH_CHUNK = 1 << 20
NO_PLACE = Place(None, None, None, None)
Results: TypeAlias = Generator[PartitionResult, None, None]


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """What to audit, and how.

    Attributes:
        output: folder of the evidence store, None for no store.
        processes: how many processes to use; None for this process with several threads or, if there is much to read
            or there are very many partitions, one process per processor.
        checks: which checks, a key of ``partition_checks.CHECK_GROUPS``.
        records: whether to decode records, check them, search them for duplicates, and evaluate keys.
        copies: whether to compare the copies of each partition.
        checksums: whether the manifest gets the SHA-256 of every input.
        command: the command line, for the manifest.
        split_size: approximate bytes of the splits in which processes read large segments.
        previous: the store of an earlier audit, a path or a URI: what is unchanged since is not read again.
        redaction: redacts the results and the store, None if nothing does.
    """

    output: Path | None = None
    processes: int | None = None
    checks: str = "all"
    records: bool = False
    copies: bool = False
    checksums: bool = False
    command: tuple[str, ...] = ()
    split_size: int = SPLIT_SIZE
    previous: str | None = None
    redaction: Redaction | None = None


@dataclass(slots=True)
class Stages:
    """How long the stages of an audit took.

    Attributes:
        seconds: the time of each stage, by its name.
    """

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time that a block takes to a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


# With this many bytes to read, or this many partitions, more processes are worth the time that they take to start. The
# first partitions of a small cluster are evaluated before a pool would have begun.
POOL_THRESHOLD, POOL_PARTITIONS = 1 << 32, 1500


def audit_size(investigation: Investigation, request: AuditRequest) -> int:
    """Return how many bytes :func:`audit_results` reads."""
    partitions = investigation.partitions
    neighbors = investigation.neighbors if request.checks == "all" else ()
    copies = copies_of(partitions, investigation.clusters) if request.copies else ()
    return sum(item.size for item in (*partitions, *neighbors, *copies))


def audit_results(
    investigation: Investigation, request: AuditRequest, advance: Advance, summaries: SummaryUse | None = None
) -> Results:
    """Yield the results of the partitions, in their order, then those of checks across partitions.

    Replicas are compared, and topics evaluated, first: the verdict of each partition includes what that found.

    Partitions that belong to a cluster with coordinators have their final results at the end. Until then they yield
    rows that do not count as a partition. Neighbors are evaluated for what they show about the partitions; they have
    no results of their own.

    Args:
        investigation: the partitions.
        request: what to audit, and how.
        advance: takes the number of bytes that were read since the last call.
        summaries: where the summaries of unchanged logs come from, and whether they are kept; None for neither.

    Raises:
        UsageError: records are to be read, and were left out of the copy.
    """
    partitions, rules = investigation.partitions, investigation.known_rules
    if request.records:
        refuse_without_records(partitions, "--records")
    across: list[PartitionResult] = []
    if request.copies:
        copies = copies_among(partitions, investigation.clusters, investigation.neighbors)
        across += copy_results(copies, rules, advance, processes=_processes(investigation, request))
    if request.records:
        across += evaluate_topics(partitions, investigation.clusters, rules, workers=None)
        across += evaluate_topic_duplicates(partitions, investigation.clusters, rules, workers=None)
    verdicts = shared_verdicts(across)
    results = _partitions(investigation, request, advance, summaries)
    yield from (with_shared_verdict(result, verdicts) for result in results)
    yield from across
    if request.checks == "all":
        yield PartitionResult(NO_PLACE, "", 0, {"settings": setting_rows(rules)}, is_counted=False)


def _partitions(
    investigation: Investigation, request: AuditRequest, advance: Advance, summaries: SummaryUse | None
) -> Results:
    """Yield the results of the partitions, and those that their clusters resolve."""
    partitions, rules = investigation.partitions, investigation.known_rules
    clusters = investigation.clusters if request.checks == "all" else None
    replicas = SearchedReplicas.of(map(PartitionMembership.of, partitions), investigation.clusters)
    scope = AuditScope(rules, request.checks, records=request.records, clusters=clusters, replicas=replicas)
    keeping = replace(scope, summaries=summaries)
    processes = _processes(investigation, request)
    cluster_inputs: list[ClusterInput] = []
    if clusters:
        alone = replace(scope, records=False)
        for result in partition_results(investigation.neighbors, alone, advance, processes=processes):
            cluster_inputs += [replace(result.cluster_input, is_neighbor=True)] if result.cluster_input else []
    for result in partition_results(partitions, keeping, advance, processes=processes, split_size=request.split_size):
        if result.cluster_input:
            cluster_inputs.append(result.cluster_input)
        yield replace(result, cluster_input=None)
    yield from resolve_deferred(cluster_inputs, rules)


def _processes(investigation: Investigation, request: AuditRequest) -> int | None:
    """Return how many processes to use: as requested, or one per processor if there is much to do."""
    if request.processes is not None:
        return request.processes
    is_large = len(investigation.partitions) >= POOL_PARTITIONS or audit_size(investigation, request) >= POOL_THRESHOLD
    return len(os.sched_getaffinity(0)) if is_large else None


def run_audit(
    investigation: Investigation, request: AuditRequest, advance: Advance, stages: Stages, note: Notify = ignore
) -> Results:
    """Yield the results of :func:`audit_results`, and write them into the evidence store if one is requested.

    The store appears after the last result.

    Args:
        investigation: the partitions.
        request: what to audit, and how.
        advance: takes the number of bytes that were read since the last call.
        stages: takes the times.
        note: takes a sentence if everything is read although there is a store of an earlier audit.

    Raises:
        UsageError: the store cannot be written, or that of the earlier audit is of another cluster, or none.
        InputError: the store of the earlier audit cannot be read.
    """
    summaries = _summary_use(investigation, request, note)
    every = _with_incidents(investigation, audit_results(investigation, request, advance, summaries))
    if request.redaction is not None:
        from kforensics.analyses.known_names import learn_names  # few audits are redacted

        every = _redacted(every, learn_names(request.redaction, investigation))
    if request.output is None:
        yield from every
        return
    from kforensics.render.evidence_store import EvidenceStore  # without a store there is no need for Parquet

    with EvidenceStore(request.output) as store:
        start = time.perf_counter()
        store.add_values(STORED["files"], _file_rows(investigation, request))
        read_bytes = unread = 0
        for result in every:
            stages.seconds["examine"] = time.perf_counter() - start
            with stages.stage("write"):
                for rows in result.rows.values():
                    store.add(rows)
                store.add_values(STORED["damage"], result.damage)
            read_bytes += _read_bytes(result)
            unread += result.is_counted and result.why is not None
            yield replace(result, rows={name: rows for name, rows in result.rows.items() if name in STORED})
        with stages.stage("checksums"):
            inputs = [_input(file, with_checksum=request.checksums) for file in investigation.files]
        tables = {**STORED, CHUNK_SUMMARIES.name: CHUNK_SUMMARIES}
        more = {"unread": unread, "read_bytes": read_bytes, **_summaries_in_manifest(investigation, summaries)}
        manifest = _manifest(investigation, request, inputs, stages) | more
        store.finish(tables, manifest if request.redaction is None else request.redaction.manifest(manifest))


def _redacted(results: Results, redaction: Redaction) -> Results:
    """Yield results redacted."""
    with closing(results):
        yield from map(redaction.result, results)


def _file_rows(investigation: Investigation, request: AuditRequest) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the table ``files``."""
    rows: Iterable[tuple[Any, ...]] = map(attrgetter(*STORED["files"].names), investigation.files)
    if request.redaction is not None:
        rows = (request.redaction.row(STORED["files"], row) for row in rows)
    yield from rows


def _summary_use(investigation: Investigation, request: AuditRequest, note: Notify) -> SummaryUse | None:
    """Return where the summaries of unchanged logs come from, and whether they are kept; None for neither."""
    if request.previous is None:
        return SummaryUse(keeps=True) if request.output else None
    from kforensics.render.previous_store import previous_store  # only a store needs Parquet

    ids = cluster_ids(PartitionMembership.of(partition) for partition in investigation.partitions)
    previous = previous_store(request.previous, ids, note)
    return SummaryUse(previous, keeps=request.output is not None)


def cluster_ids(members: Iterable[PartitionMembership]) -> list[str]:
    """Return the ids of the clusters of partitions, as far as they are known."""
    return sorted({member.cluster_id for member in members if member.cluster_id is not None})


def _read_bytes(result: PartitionResult) -> int:
    """Return how many bytes of a partition's segments were read for its verdict."""
    is_read = CHUNK_SUMMARIES.name in result.rows
    return result.size - result.saved_bytes if is_read else 0


def _summaries_in_manifest(investigation: Investigation, summaries: SummaryUse | None) -> dict[str, Any]:
    members = map(PartitionMembership.of, investigation.partitions)
    return {"clusters": cluster_ids(members), **summaries_in_manifest(summaries)}


def summaries_in_manifest(summaries: SummaryUse | None) -> dict[str, Any]:
    """Return what the manifest says about summaries: their format, and the store that some of them are from."""
    previous = summaries.previous.folder if summaries and summaries.previous else None
    return {"summaries": CHUNK_FORMAT, "previous": previous}


def _with_incidents(investigation: Investigation, results: Results) -> Results:
    """Yield results, then the incidents of their findings."""
    incidents = no_incidents(investigation)
    with closing(results):
        for result in results:
            incidents.add(result)
            yield result
    yield _incident_result(incidents)


def incidents_of(investigation: Investigation, results: Iterable[PartitionResult]) -> PartitionResult:
    """Return the incidents of some results, as a result that no partition has."""
    incidents = no_incidents(investigation)
    for result in results:
        incidents.add(result)
    return _incident_result(incidents)


def no_incidents(investigation: Investigation) -> IncidentSummary:
    """Return a summary of incidents to which results are added."""
    clusters, partitions = investigation.clusters, investigation.partitions
    names = {partition.place.log_dir: clusters.name_of(partition) for partition in partitions}
    return IncidentSummary(names, investigation.rules.as_of_ms)


def _incident_result(incidents: IncidentSummary) -> PartitionResult:
    return PartitionResult(NO_PLACE, "", 0, {"incidents": incidents.rows()}, is_counted=False)


def _manifest(
    investigation: Investigation, request: AuditRequest, inputs: list[dict[str, Any]], stages: Stages
) -> dict[str, Any]:
    return {
        "schema": "kforensics-store/1",
        "version": __version__,
        "command": list(request.command),
        "as_of_ms": investigation.rules.as_of_ms,
        "options": {
            "processes": request.processes,
            "records": request.records,
            "checksums": request.checksums,
        },
        "partitions": len(investigation.partitions),
        "unreadable": investigation.unreadable,
        "inputs": inputs,
        "seconds": {name: round(seconds, 3) for name, seconds in stages.seconds.items()},
    }


def _input(file: FoundFile, *, with_checksum: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"path": file.path, "size": file.size, "mtime_ms": file.mtime_ms}
    if with_checksum:
        entry["sha256"] = sha256_of(file.path)
    return entry


def sha256_of(path: str) -> str | None:
    """Return the SHA-256 of a file, None if it can no longer be read."""
    digest = hashlib.sha256()
    try:
        with open_source(path) as source:
            for position in range(0, source.size, HASH_CHUNK):
                digest.update(source.read(position, HASH_CHUNK))
    except OSError:
        return None
    return digest.hexdigest()


def without_secrets(arguments: Iterable[str]) -> tuple[str, ...]:
    """Return the arguments of a command for the manifest, without secrets: Spark properties may be passwords."""
    return tuple(f"{match[1]}…" if (match := SECRET.fullmatch(argument)) else argument for argument in arguments)
