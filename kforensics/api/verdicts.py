"""The analyses as Python functions: each returns the table that the command of the same name writes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Unpack

from kforensics.analyses.audit import STORED, AuditRequest, Stages, audit_results, run_audit, without_secrets
from kforensics.analyses.duplicates import DuplicatesQuestion
from kforensics.analyses.explain import Subject, explain_subject
from kforensics.analyses.keys import KeysQuestion, evaluate_topic_keys
from kforensics.analyses.lso import LsoQuestion
from kforensics.analyses.partitions import Investigation, investigate
from kforensics.analyses.producers import ProducersQuestion
from kforensics.analyses.questions import Question
from kforensics.analyses.settings import Evaluation, parameters_of
from kforensics.analyses.transactions import TransactionsQuestion
from kforensics.api.explanation import Explanation
from kforensics.errors import InputError, UsageError
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.audit.topic_result import TopicKeyResult
from kforensics.forensics.core.tables import RESULTS
from kforensics.forensics.duplicates.partition_duplicates import DEFAULT_MEMORY
from kforensics.forensics.partition.splits import SPLIT_SIZE
from kforensics.parsers.tables.arrow import table_of_parts

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = [
    "Audit",
    "audit",
    "duplicates",
    "explain",
    "keys",
    "lso",
    "producers",
    "report",
    "scan",
    "transactions",
    "verify",
]

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def lso(paths: Paths, *, at: int | None = None, history: bool = False, **evaluation: Unpack[Evaluation]) -> pa.Table:
    """Return where the last stable offset of each partition is: the table ``lso``, or ``lso_history``.

    Args:
        paths: log directories, partition folders, files, globs or URIs.
        at: the high watermark; None for the end of the log.
        history: every value of the last stable offset as the high watermark advances.
        evaluation: ``as_of``, ``settings``, ``server_properties`` and ``alone``; see :class:`Evaluation`.

    Raises:
        InputError: an input cannot be read.
        UsageError: there is no log, or a setting is invalid.
    """
    return _answers(paths, LsoQuestion(at, history), evaluation)


def transactions(  # one parameter per filter of the command
    paths: Paths,
    *,
    states: Sequence[str] = (),
    producer_id: int | None = None,
    min_duration_ms: int | None = None,
    sort: str = "offset",
    **evaluation: Unpack[Evaluation],
) -> pa.Table:
    """Return the transactions of each partition: the table ``transactions``.

    Args:
        paths: log directories, partition folders, files, globs or URIs.
        states: only transactions that are ``open``, ``aborted`` or ``committed``.
        producer_id: only transactions of this producer.
        min_duration_ms: only transactions that lasted at least this long.
        sort: offset, marker, duration, records, bytes, begun or producer; within each partition.
        evaluation: ``as_of``, ``settings``, ``server_properties`` and ``alone``; see :class:`Evaluation`.

    Raises:
        InputError: an input cannot be read.
        UsageError: there is no log, or no such state or sort key.
    """
    return _answers(paths, TransactionsQuestion(tuple(states), producer_id, min_duration_ms, sort), evaluation)


def producers(paths: Paths, *, at: int | None = None, **evaluation: Unpack[Evaluation]) -> pa.Table:
    """Return the state of every producer as a broker rebuilds it: the table ``producers``.

    Args:
        paths: log directories, partition folders, files, globs or URIs.
        at: after all batches below this offset; None for the end of the log.
        evaluation: ``as_of``, ``settings``, ``server_properties`` and ``alone``; see :class:`Evaluation`.

    Raises:
        InputError: an input cannot be read.
        UsageError: there is no log, or a setting is invalid.
    """
    return _answers(paths, ProducersQuestion(at), evaluation)


def duplicates(  # one parameter per option of the command
    paths: Paths,
    *,
    levels: Sequence[str] = (),
    committed: bool = False,
    memory: int = DEFAULT_MEMORY,
    internal: bool = False,
    **evaluation: Unpack[Evaluation],
) -> pa.Table:
    """Return the records that were written twice: the table ``duplicates``, with a row for each run of records.

    The rows of duplicates inside a partition come first, then those across the partitions of a topic.

    Args:
        paths: log directories, partition folders, files, globs or URIs.
        levels: only pairs at the level ``sequence``, ``content-retry`` or ``content``.
        committed: only what a read_committed consumer receives twice.
        memory: bytes of memory before the search uses temporary files.
        internal: search internal topics, too.
        evaluation: ``as_of``, ``settings``, ``server_properties`` and ``alone``; see :class:`Evaluation`.

    Raises:
        InputError: an input cannot be read.
        UsageError: there is no log, or no such level.
    """
    return _answers(paths, DuplicatesQuestion(tuple(levels), committed, memory, internal), evaluation)


def explain(  # noqa: PLR0913  # one parameter per option of the command
    paths: Paths,
    *,
    offset: int | None = None,
    producer_id: int | None = None,
    transactional_id: str | None = None,
    topic: str | None = None,
    partition: int | None = None,
    at: int | None = None,
    **evaluation: Unpack[Evaluation],
) -> Explanation:
    """Explain one offset, one producer or one transactional id: as values, as text and as a table.

    Args:
        paths: log directories, partition folders, files, globs or URIs.
        offset: an offset of one partition.
        producer_id: a producer.
        transactional_id: a transactional id; the log of its coordinator must be under the paths.
        topic: only partitions of this topic; None for all.
        partition: only partitions with this number; None for all.
        at: the high watermark at which to evaluate an offset; None for the end of the log.
        evaluation: ``as_of``, ``settings``, ``server_properties`` and ``alone``; see :class:`Evaluation`.

    Raises:
        InputError: an input cannot be read.
        UsageError: there is no log, no partition has anything on the subject, or it is not exactly one subject.
    """
    subject = Subject(
        offset, producer_id, transactional_id, at, topics=() if topic is None else (topic,), partition=partition
    )
    errors: list[InputError] = []
    stories = tuple(explain_subject(_investigation(paths, evaluation), subject, errors.append))
    _raise_any(paths, errors)
    return Explanation(subject, stories)


def keys(
    paths: Paths,
    *,
    topics: Sequence[str] = (),
    partition_count: int | None = None,
    listed: str = "partitions",
    **evaluation: Unpack[Evaluation],
) -> pa.Table:
    """Return where the keys of topics are: the table ``key_partitions``, ``keys_apart`` or ``producer_batches``.

    Args:
        paths: log directories, partition folders, files, globs or URIs.
        topics: only these topics; if there are none, all topics except Kafka's internal ones.
        partition_count: how many partitions the topic has today; None for the number in the cluster metadata under the
            paths, or else the number of partitions there.
        listed: which rows: ``partitions``, ``keys`` or ``producers``.
        evaluation: ``as_of``, ``settings``, ``server_properties`` and ``alone``; see :class:`Evaluation`.

    Raises:
        InputError: an input cannot be read.
        UsageError: there is no log or no such topic, or it cannot have so few partitions.
    """
    question, errors = KeysQuestion(tuple(topics), partition_count, listed), list[InputError]()
    results = list(evaluate_topic_keys(_investigation(paths, evaluation), question, errors.append))
    topics_with_log = [result for result in results if isinstance(result, TopicKeyResult)]
    _raise_any(paths, errors)
    table = question.table
    return table_of_parts(table, [result.rows[table.name].record_batch() for result in topics_with_log])


def scan(paths: Paths, *, processes: int | None = None, **evaluation: Unpack[Evaluation]) -> pa.Table:
    """Return a summary of each partition, with its worst finding: the table ``partitions``.

    Args:
        paths: log directories, partition folders, files, globs or URIs.
        processes: number of processes; None for a number that suits the size.
        evaluation: ``as_of``, ``settings``, ``server_properties`` and ``alone``; see :class:`Evaluation`.

    Raises:
        InputError: an input cannot be read.
        UsageError: there is no log, or a setting is invalid.
    """
    return _evaluate(paths, "partitions", AuditRequest(processes=processes, copies=True), evaluation)


def verify(paths: Paths, *, processes: int | None = None, **evaluation: Unpack[Evaluation]) -> pa.Table:
    """Return where indexes, snapshots, transaction indexes and checkpoints disagree with the log: ``findings``.

    Args:
        paths: log directories, partition folders, files, globs or URIs.
        processes: number of processes; None for a number that suits the size.
        evaluation: ``as_of``, ``settings``, ``server_properties`` and ``alone``; see :class:`Evaluation`.

    Raises:
        InputError: an input cannot be read.
        UsageError: there is no log, or a setting is invalid.
    """
    return _evaluate(paths, "findings", AuditRequest(processes=processes, checks="evidence"), evaluation)


def audit(  # noqa: PLR0913  # one parameter per option of the command
    paths: Paths,
    *,
    output: str | os.PathLike[str] | None = None,
    processes: int | None = None,
    records: bool = False,
    checksums: bool = False,
    spark: SparkSession | None = None,
    split_size: int = SPLIT_SIZE,
    **evaluation: Unpack[Evaluation],
) -> Audit:
    """Run all checks on all partitions, and return the tables. The row of an unreadable partition has the reason.

    Args:
        paths: log directories, partition folders, files, globs or URIs.
        output: folder of an evidence store to write, None for none.
        processes: number of processes; None for a number that suits the size.
        records: decode every record too, check it and find duplicates.
        checksums: add the SHA-256 of every input to the manifest of the store.
        spark: a session to run the audit on; its workers must have access to the paths and the output.
        split_size: on Spark, approximate bytes of the splits in which large segments are read.
        evaluation: ``as_of``, ``settings``, ``server_properties`` and ``alone``; see :class:`Evaluation`.

    Raises:
        InputError: a path cannot be read.
        UsageError: there is no log, the store cannot be written, or an audit on Spark has no output.
        EngineError: Spark fails.
    """
    if spark is not None:
        options: dict[str, Any] = {"records": records, "checksums": checksums, "split_size": split_size}
        options |= parameters_of(**evaluation)
        return _audit_on_spark(spark, paths, output, options)
    investigation = _investigation(paths, evaluation)
    store = None if output is None else Path(output)
    command = without_secrets(sys.argv)
    request = AuditRequest(store, processes, records=records, copies=True, checksums=checksums, command=command)
    results = run_audit(investigation, request, _ignore, Stages())
    if store is None:
        return _audit_in_memory(results)
    for _ in results:
        pass  # the results are in the store, which may be larger than memory
    return _stored_audit(store)


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
    """
    from kforensics.report_html.report_page import write_report  # only a report needs Parquet

    path = Path(output)
    write_report(os.fspath(store), path, bootstrap_server)
    return path


class Audit:
    """The tables of an audit.

    Attributes:
        tables: the tables of an evidence store by name, without ``files`` and ``damage``. If there is a store, a table
            is read from it when it is looked up.
    """

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self.tables = tables

    @property
    def findings(self) -> pa.Table:
        """A row per finding."""
        return self.tables["findings"]

    @property
    def incidents(self) -> pa.Table:
        """A row per incident, worst first: the findings of one cause, with its impact and one remedy."""
        return self.tables["incidents"]

    @property
    def partitions(self) -> pa.Table:
        """A row per partition."""
        return self.tables["partitions"]


def _audit_on_spark(
    spark: SparkSession, paths: Paths, output: str | os.PathLike[str] | None, options: Mapping[str, Any]
) -> Audit:
    from kforensics.spark.audit.run import SparkRequest, audited_on_spark, planned  # pyspark may not be installed

    if output is None:
        raise UsageError("on Spark an audit writes its tables to an evidence store; name a folder as output")
    request = SparkRequest(_names(paths), output=os.fspath(output), command=without_secrets(sys.argv), **options)
    plan = planned(spark, request)
    if plan.unreadable:
        plan.close()
        reasons = "; ".join(f"cannot read {path.path}: {path.why}" for path in plan.named)
        raise InputError(", ".join(request.paths), reasons)
    audited_on_spark(spark, plan, request)
    return _stored_audit(os.fspath(output))


def _stored_audit(store: str | Path) -> Audit:
    from kforensics.render.evidence_store import StoredTables  # only a store needs Parquet

    return Audit(StoredTables(str(store), [*RESULTS]))


def _audit_in_memory(results: Iterable[PartitionResult]) -> Audit:
    batches: dict[str, list[pa.RecordBatch]] = {name: [] for name in RESULTS}
    for result in results:
        for name, rows in result.rows.items():
            batches[name] += rows.record_batches()
    return Audit({name: table_of_parts(STORED[name], parts) for name, parts in batches.items()})


def _answers(paths: Paths, question: Question[Any], evaluation: Evaluation) -> pa.Table:
    answers = question.answers(_investigation(paths, evaluation), _raise)
    return table_of_parts(STORED[question.table], (batch for each in answers for batch in each.rows.record_batches()))


def _evaluate(paths: Paths, table: str, request: AuditRequest, evaluation: Evaluation) -> pa.Table:
    results = audit_results(_investigation(paths, evaluation), request, _ignore)
    parts = (_rows_of(result, table).record_batches() for result in results if result.is_counted)
    return table_of_parts(STORED[table], (batch for part in parts for batch in part))


def _rows_of(result: PartitionResult, table: str) -> Any:
    if table not in result.rows:
        raise InputError(result.folder, result.why or "")
    return result.rows[table]


def _investigation(paths: Paths, evaluation: Evaluation) -> Investigation:
    names = _names(paths)
    unreadable: list[str] = []
    investigation = investigate(names, warn=unreadable.append, note=_ignore, **parameters_of(**evaluation))
    if investigation.unreadable:
        raise InputError(", ".join(names), "; ".join(unreadable))
    return investigation


def _names(paths: Paths) -> tuple[str, ...]:
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    return tuple(os.fspath(name) for name in given)


def _raise(error: InputError) -> NoReturn:
    raise error


def _raise_any(paths: Paths, errors: Sequence[InputError]) -> None:
    if errors:
        raise InputError(", ".join(_names(paths)), "; ".join(map(str, errors)))


def _ignore(_: object) -> None:
    """Ignore progress, and sentences on the time of evaluation: a caller knows whether it gave one."""
