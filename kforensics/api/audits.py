"""The audits as Python functions: of all partitions at once, in this process, in several or on Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from kforensics.analyses.audit import (
    AUDITED,
    STORED,
    AuditRequest,
    Stages,
    audit_results,
    audit_size,
    run_audit,
    without_secrets,
)
from kforensics.analyses.partitions import ignore
from kforensics.analyses.settings import Evaluation, parameters_of
from kforensics.analyses.topics import check_name
from kforensics.api.arguments import Paths, path_names, with_checked_arguments
from kforensics.api.partition_questions import investigation_of, streamed_rows
from kforensics.api.views.table_view import TableSource, TableView, view_of
from kforensics.errors import InputError, UsageError
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.core.formatting import format_count
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.forensics.partition.splits import SPLIT_SIZE
from kforensics.parsers.tables.arrow import table_of_parts
from kforensics.render.markup import Markup, element
from kforensics.render.streams import watcher

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["Audit", "audit", "report", "scan", "verify"]


@with_checked_arguments
def scan(paths: Paths, *, processes: int | None = None, **evaluation: Unpack[Evaluation]) -> TableView:
    """Return a summary of each partition, with its worst finding: the table ``partitions``.

    Args:
        paths: log directories, partition folders, files, archives, globs or URIs.
        processes: number of processes; None for a number that suits the size.
        evaluation: ``topic``, ``partition``, ``as_of`` and more; see :class:`Evaluation`.

    Raises:
        InputError: an input cannot be read.
        UsageError: there is no log, or a setting is invalid.

    Examples:
        >>> partitions = kforensics.scan("sample_logs/transactions-v2", topic="hanging*", as_of="2026-11-21T12:15")
        >>> partitions.select(["topic", "verdict", "log_end_offset"])
        partitions: 2 rows, one per partition
          topic             verdict   log_end_offset
          hanging           critical  9
          hanging-resolved  info      10
    """
    return _evaluate(paths, "partitions", AuditRequest(processes=processes, copies=True), evaluation)


@with_checked_arguments
def verify(paths: Paths, *, processes: int | None = None, **evaluation: Unpack[Evaluation]) -> TableView:
    """Return where indexes, snapshots, transaction indexes and checkpoints disagree with the log: ``findings``.

    Args:
        paths: log directories, partition folders, files, archives, globs or URIs.
        processes: number of processes; None for a number that suits the size.
        evaluation: ``topic``, ``partition``, ``as_of`` and more; see :class:`Evaluation`.

    Raises:
        InputError: an input cannot be read.
        UsageError: there is no log, or a setting is invalid.

    Examples:
        >>> findings = kforensics.verify("sample_logs/damaged/states/index-ragged-0")
        >>> findings.select(["code", "severity"])
        findings: 1 row, one per finding
          code           severity
          index-corrupt  warning
    """
    return _evaluate(paths, "findings", AuditRequest(processes=processes, checks="evidence"), evaluation)


@with_checked_arguments
def audit(  # noqa: PLR0913  # one parameter per option of the command
    paths: Paths,
    *,
    output: str | os.PathLike[str] | None = None,
    processes: int | None = None,
    records: bool = False,
    checksums: bool = False,
    spark: SparkSession | None = None,
    split_size: int = SPLIT_SIZE,
    previous: str | os.PathLike[str] | None = None,
    **evaluation: Unpack[Evaluation],
) -> Audit:
    """Run all checks on all partitions, and return the tables. The row of an unreadable partition has the reason.

    Args:
        paths: log directories, partition folders, files, archives, globs or URIs.
        output: folder of an evidence store to write, None for none.
        processes: number of processes; None for a number that suits the size.
        records: decode every record too, check it and find duplicates.
        checksums: add the SHA-256 of every input to the manifest of the store.
        spark: a session to run the audit on; its workers must have access to the paths and the output.
        split_size: on Spark, approximate bytes of the splits in which large segments are read.
        previous: store of an earlier audit of the same logs: what is unchanged since is not read again.
        evaluation: ``topic``, ``partition``, ``as_of`` and more; see :class:`Evaluation`.

    Raises:
        InputError: a path cannot be read.
        UsageError: there is no log, the store cannot be written, or an audit on Spark has no output.
        EngineError: Spark fails.

    Examples:
        >>> audit = kforensics.audit("sample_logs/transactions-v2", topic="hanging", as_of="2026-11-21T12:15")
        >>> audit.incidents.select(["kind", "severity", "since"])
        incidents: 1 row, one per incident: the findings of one cause
          kind               severity  since
          stuck-transaction  critical  2026-11-21 12:05:21.904 UTC
    """
    if spark is not None:
        options: dict[str, Any] = {"records": records, "checksums": checksums, "split_size": split_size}
        options |= {"previous": None if previous is None else os.fspath(previous), **parameters_of(**evaluation)}
        return _audit_on_spark(spark, paths, output, options)
    investigation = investigation_of(paths, evaluation)
    store = None if output is None else Path(output)
    request = AuditRequest(
        store,
        processes,
        records=records,
        copies=True,
        checksums=checksums,
        command=without_secrets(sys.argv),
        previous=None if previous is None else os.fspath(previous),
    )
    work = watcher().other_work(audit_size(investigation, request))
    results = run_audit(replace(investigation, progress=None), request, work.advance, Stages())
    if store is None:
        return _audit_in_memory(results)
    for _ in results:
        pass  # the results are in the store, which may be larger than memory
    return _stored_audit(store)


@with_checked_arguments
def report(
    store: str | os.PathLike[str], output: str | os.PathLike[str], *, bootstrap_server: str | None = None
) -> Path:
    """Write the report of an evidence store as one HTML file, which needs no other file and no network.

    Args:
        store: folder of the store, a path or a URI.
        output: the file; it appears when it is complete, and replaces an existing one.
        bootstrap_server: addresses of brokers for the commands in remedies, as HOST:PORT separated by commas. By
            default they have the shell variable ``BOOTSTRAP``.

    Returns:
        The path of the file.

    Raises:
        InputError: the store cannot be read.
        UsageError: the folder is not a store, or the file cannot be written.

    Examples:
        >>> from tempfile import mkdtemp
        >>> folder = mkdtemp()
        >>> audit = kforensics.audit("sample_logs/transactions-v2", topic="hanging", output=f"{folder}/store")
        >>> kforensics.report(f"{folder}/store", f"{folder}/report.html").name
        'report.html'
    """
    from kforensics.report_html.report_page import write_report  # only a report needs Parquet

    path = Path(output)
    write_report(os.fspath(store), path, bootstrap_server)
    return path


class Tables(Mapping[str, TableView]):
    """Tables by name; those of a store are read when their rows are needed.

    Args:
        tables: tables by name.
        streamed: the sources of tables that may be larger than memory.
    """

    def __init__(self, tables: Mapping[str, pa.Table], streamed: Mapping[str, TableSource]) -> None:
        self._tables, self._streamed = tables, streamed

    def __getitem__(self, name: str) -> TableView:
        """Return a table.

        Raises:
            UnknownNameError: there is no such table; it is a KeyError.
        """
        check_name(name, self._tables, "table")
        source = self._streamed.get(name) or TableSource.of_table(lambda: self._tables[name])
        return TableView(STORED[name], source)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._tables)

    def __len__(self) -> int:
        """Return the number of tables."""
        return len(self._tables)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what a copy in another process is made of: rows that are streamed may be in files of this one."""
        streamed = {name: self[name].to_arrow() for name in self._streamed}
        return Tables, ({**self._tables, **streamed} if streamed else self._tables, {})


class Audit:
    """The tables of an audit; it shows its incidents.

    Attributes:
        tables: the tables of an evidence store by name, without ``files`` and ``damage``. If there is a store, a table
            is read from it when its rows are needed.
    """

    def __init__(self, tables: Mapping[str, pa.Table], streamed: Mapping[str, TableSource] | None = None) -> None:
        self.tables = Tables(tables, streamed or {})

    @property
    def findings(self) -> TableView:
        """A row per finding."""
        return self.tables["findings"]

    @property
    def incidents(self) -> TableView:
        """A row per incident, worst first: the findings of one cause, with its impact and one remedy."""
        return self.tables["incidents"]

    @property
    def partitions(self) -> TableView:
        """A row per partition."""
        return self.tables["partitions"]

    def __repr__(self) -> str:
        return f"audit of {self._title}\n{self.incidents!r}"

    def _repr_html_(self) -> Markup:
        return element("div", element("p", f"audit of {self._title}"), self.incidents._repr_html_())

    @property
    def _title(self) -> str:
        partitions, findings = self.partitions.num_rows, self.findings.num_rows
        return f"{format_count(partitions, 'partition')}: {format_count(findings, 'finding')}"


def _audit_on_spark(
    spark: SparkSession, paths: Paths, output: str | os.PathLike[str] | None, options: Mapping[str, Any]
) -> Audit:
    from kforensics.spark.audit.listing import topic_names  # pyspark may not be installed
    from kforensics.spark.audit.run import SparkRequest, audited_on_spark, planned

    if output is None:
        raise UsageError("on Spark an audit writes its tables to an evidence store; name a folder as output")
    if options["numbers"]:
        raise UsageError("an audit on Spark is of whole topics; leave out partition")
    names = path_names(paths)
    options = {name: value for name, value in options.items() if name != "numbers"}
    options["topics"] = topic_names(names, options["topics"])
    request = SparkRequest(names, output=os.fspath(output), command=without_secrets(sys.argv), **options)
    plan = planned(spark, request)
    if plan.unreadable:
        plan.close()
        reasons = "; ".join(f"cannot read {path.path}: {path.why}" for path in plan.named)
        raise InputError(", ".join(request.paths), reasons)
    audited_on_spark(spark, plan, request)
    return _stored_audit(os.fspath(output))


def _stored_audit(store: str | Path) -> Audit:
    from kforensics.render.evidence_store import StoredTables  # only a store needs Parquet

    return Audit(StoredTables(str(store), [*AUDITED]))


def _audit_in_memory(results: Iterable[PartitionResult]) -> Audit:
    batches: dict[str, list[pa.RecordBatch]] = {name: [] for name in AUDITED}
    duplicates: list[Rows | RowStream] = []
    for result in results:
        for name, rows in result.rows.items():
            if name == "duplicates":
                duplicates.append(rows)
            else:
                batches[name] += rows.record_batches()
    tables = {name: table_of_parts(STORED[name], parts) for name, parts in batches.items()}
    return Audit(tables, {"duplicates": streamed_rows(STORED["duplicates"], duplicates)})


def _evaluate(paths: Paths, table: str, request: AuditRequest, evaluation: Evaluation) -> TableView:
    results = audit_results(investigation_of(paths, evaluation), request, ignore)
    parts = (_rows_of(result, table).record_batches() for result in results if result.is_counted)
    return view_of(STORED[table], table_of_parts(STORED[table], (batch for part in parts for batch in part)))


def _rows_of(result: PartitionResult, table: str) -> Any:
    if table not in result.rows:
        raise InputError(result.folder, result.why or "")
    return result.rows[table]
