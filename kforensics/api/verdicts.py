"""The library twins of the commands that judge: each returns the table that its command writes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kforensics.analyses.audit import STORED, AuditRequest, Stages, audited, judged, without_secrets
from kforensics.analyses.explain import Explanation, Subject, explained
from kforensics.analyses.keys import KeysQuestion, judged_topics
from kforensics.analyses.partitions import Investigation, investigate
from kforensics.analyses.questions import (
    DuplicatesQuestion,
    LsoQuestion,
    ProducersQuestion,
    Question,
    TransactionsQuestion,
)
from kforensics.errors import InputError, UsageError
from kforensics.forensics.audit.partition_result import Judgement
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.forensics.core.tables import RESULTS
from kforensics.forensics.duplicates.partition_duplicates import MEMORY
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


def lso(paths: Paths, *, at: int | None = None, history: bool = False, as_of_ms: int | None = None) -> pa.Table:
    """Return where the last stable offset of each partition is: the table ``lso``, or ``lso_history``.

    Args:
        paths: log directories, partition folders, files, globs or URIs.
        at: for which high watermark; None for the end of the log.
        history: every step of it instead.
        as_of_ms: time of evaluation in ms; None for the newest modification time among the files.

    Raises:
        InputError: something cannot be read.
        UsageError: there is no log.
    """
    return _asked(paths, LsoQuestion(at, history), as_of_ms)


def transactions(  # noqa: PLR0913  # one parameter per filter of the command
    paths: Paths,
    *,
    states: Sequence[str] = (),
    producer_id: int | None = None,
    min_duration_ms: int | None = None,
    sort: str = "offset",
    as_of_ms: int | None = None,
) -> pa.Table:
    """Return the transactions of each partition: the table ``transactions``.

    Args:
        paths: log directories, partition folders, files, globs or URIs.
        states: only those that are ``open``, ``aborted`` or ``committed``.
        producer_id: only those of this producer.
        min_duration_ms: only those that lasted at least so long.
        sort: offset, marker, duration, records, bytes, begun or producer; within each partition.
        as_of_ms: time of evaluation in ms; None for the newest modification time among the files.

    Raises:
        InputError: something cannot be read.
        UsageError: there is no log, or no such state or key.
    """
    return _asked(paths, TransactionsQuestion(tuple(states), producer_id, min_duration_ms, sort), as_of_ms)


def producers(paths: Paths, *, at: int | None = None, as_of_ms: int | None = None) -> pa.Table:
    """Return what a broker knows of every producer: the table ``producers``.

    Args:
        paths: log directories, partition folders, files, globs or URIs.
        at: after all batches below this offset; None for the end of the log.
        as_of_ms: time of evaluation in ms; None for the newest modification time among the files.

    Raises:
        InputError: something cannot be read.
        UsageError: there is no log.
    """
    return _asked(paths, ProducersQuestion(at), as_of_ms)


def duplicates(
    paths: Paths,
    *,
    levels: Sequence[str] = (),
    committed: bool = False,
    memory: int = MEMORY,
    as_of_ms: int | None = None,
) -> pa.Table:
    """Return what was written twice: the table ``duplicates``, a row for each run of records.

    Rows on one partition come first, then those on what stands in several partitions of a topic.

    Args:
        paths: log directories, partition folders, files, globs or URIs.
        levels: only pairs at the level ``sequence``, ``content-retry`` or ``content``.
        committed: only what a read_committed consumer gets twice.
        memory: bytes that the search may hold before it goes to temporary files.
        as_of_ms: time of evaluation in ms; None for the newest modification time among the files.

    Raises:
        InputError: something cannot be read.
        UsageError: there is no log, or no such level.
    """
    return _asked(paths, DuplicatesQuestion(tuple(levels), committed, memory), as_of_ms)


def explain(  # noqa: PLR0913  # one parameter per option of the command
    paths: Paths,
    *,
    offset: int | None = None,
    producer_id: int | None = None,
    transactional_id: str | None = None,
    topic: str | None = None,
    partition: int | None = None,
    at: int | None = None,
    as_of_ms: int | None = None,
) -> Explanation:
    """Return the story of one offset, one producer or one transactional id, as values, as text and as a table.

    Args:
        paths: log directories, partition folders, files, globs or URIs.
        offset: an offset of one partition.
        producer_id: a producer.
        transactional_id: a transactional id; its coordinator's log must be under the paths.
        topic: only partitions of this topic; None for all.
        partition: only partitions of this number; None for all.
        at: for which high watermark an offset is judged; None for the end of the log.
        as_of_ms: time of evaluation in ms; None for the newest modification time among the files.

    Raises:
        InputError: something cannot be read.
        UsageError: there is no log, or nothing under the paths can tell, or it is not one thing that is asked about.
    """
    topics, unread = () if topic is None else (topic,), list[str]()
    subject = Subject(offset, producer_id, transactional_id, at, topics, partition)
    told = tuple(explained(_investigation(paths, as_of_ms), subject, unread.append))
    if unread:
        raise InputError(", ".join(_names(paths)), "; ".join(unread))
    return Explanation(subject, told)


def keys(
    paths: Paths,
    *,
    topics: Sequence[str] = (),
    partition_count: int | None = None,
    listed: str = "partitions",
    as_of_ms: int | None = None,
) -> pa.Table:
    """Return where the keys of topics lie: the table ``key_partitions``, ``keys_apart`` or ``producer_batches``.

    Args:
        paths: log directories, partition folders, files, globs or URIs.
        topics: only these; all but those of brokers themselves if none is named.
        partition_count: how many partitions the topic has today; None for what the cluster's metadata under the paths
            says, or the partitions themselves.
        listed: which rows: ``partitions``, ``keys`` or ``producers``.
        as_of_ms: time of evaluation in ms; None for the newest modification time among the files.

    Raises:
        InputError: something cannot be read.
        UsageError: there is no log or no such topic, or it cannot have so many partitions.
    """
    question, unread = KeysQuestion(tuple(topics), partition_count, listed), list[str]()
    judged = list(judged_topics(_investigation(paths, as_of_ms), question, unread.append))
    if unread:
        raise InputError(", ".join(_names(paths)), "; ".join(unread))
    return table_of_parts(question.table, [one.rows[question.table.name].record_batch() for one in judged])


def scan(paths: Paths, *, processes: int | None = None, as_of_ms: int | None = None) -> pa.Table:
    """Return a row for each partition, with its worst finding and what it costs: the table ``partitions``.

    Args:
        paths: log directories, partition folders, files, globs or URIs.
        processes: how many to use; None for as many as suit the size.
        as_of_ms: time of evaluation in ms; None for the newest modification time among the files.

    Raises:
        InputError: a path cannot be looked into.
        UsageError: there is no log.
    """
    return _judged(paths, "all", "partitions", processes, as_of_ms)


def verify(paths: Paths, *, processes: int | None = None, as_of_ms: int | None = None) -> pa.Table:
    """Return where indexes, snapshots, transaction indexes and checkpoints disagree with the log: ``findings``.

    Args:
        paths: log directories, partition folders, files, globs or URIs.
        processes: how many to use; None for as many as suit the size.
        as_of_ms: time of evaluation in ms; None for the newest modification time among the files.

    Raises:
        InputError: something cannot be read.
        UsageError: there is no log.
    """
    return _judged(paths, "evidence", "findings", processes, as_of_ms)


def audit(  # noqa: PLR0913  # one parameter per option of the command
    paths: Paths,
    *,
    output: str | os.PathLike[str] | None = None,
    processes: int | None = None,
    records: bool = False,
    checksums: bool = False,
    as_of_ms: int | None = None,
    spark: SparkSession | None = None,
    split_size: int = SPLIT_SIZE,
) -> Audit:
    """Judge everything under some paths and return all tables; a partition that cannot be read has a row that says so.

    Args:
        paths: log directories, partition folders, files, globs or URIs.
        output: folder of an evidence store to write, None for none.
        processes: how many to use; None for as many as suit the size.
        records: decode every record too, check it and search for what is there twice.
        checksums: put the SHA-256 of every input into the manifest of the store.
        as_of_ms: time of evaluation in ms; None for the newest modification time among the files.
        spark: let this session do the work; its workers must see the paths and the output.
        split_size: on Spark, bytes of the pieces in which large segments are read, about.

    Raises:
        InputError: a path cannot be looked into.
        UsageError: there is no log, the store cannot be written, or Spark was given no output.
        EngineError: Spark breaks off.
    """
    if spark is not None:
        asked = {"records": records, "checksums": checksums, "as_of_ms": as_of_ms, "split_size": split_size}
        return _on_spark(spark, paths, output, asked)
    found = _investigation(paths, as_of_ms)
    store = None if output is None else Path(output)
    request = AuditRequest(
        store,
        processes,
        records=records,
        copies=True,
        checksums=checksums,
        command=without_secrets(sys.argv),
    )
    if store is None:
        return Audit({name: _table(name, rows) for name, rows in _all_rows(found, request).items()})
    for _ in audited(found, request, _nothing, Stages()):
        pass  # all that is said is in the store, which may have more than memory
    return _stored(store)


def report(store: str | os.PathLike[str], output: str | os.PathLike[str]) -> Path:
    """Make one HTML file of an evidence store, and return its path; it needs no network and nothing beside it.

    Args:
        store: folder of the store, a path or a URI.
        output: the file; it appears whole or not at all, and takes the place of one that is there.

    Raises:
        InputError: the store cannot be read.
        UsageError: the folder is no store, or the file cannot be written.
    """
    from kforensics.report_html.report import write_report  # who reports nothing does without Parquet

    path = Path(output)
    write_report(os.fspath(store), path)
    return path


class Audit:
    """The tables of an audit.

    Attributes:
        tables: by name, as an evidence store has them, files and damage excepted. Where there is a store, each is read
            from it when it is asked for.
    """

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self.tables = tables

    @property
    def findings(self) -> pa.Table:
        """A row per finding."""
        return self.tables["findings"]

    @property
    def partitions(self) -> pa.Table:
        """A row per partition."""
        return self.tables["partitions"]


def _on_spark(
    spark: SparkSession, paths: Paths, output: str | os.PathLike[str] | None, asked: Mapping[str, Any]
) -> Audit:
    # Who does without Spark does without this.
    from kforensics.spark.audit.run import SparkRequest, audited_on_spark, planned

    if output is None:
        raise UsageError("on Spark an audit leaves its tables in an evidence store; name a folder for output")
    store = os.fspath(output)
    request = SparkRequest(_names(paths), output=store, command=without_secrets(sys.argv), **asked)
    plan = planned(spark, request)
    if plan.unreadable:
        unread = "; ".join(f"cannot read {one.path}: {one.why}" for one in plan.named)
        raise InputError(", ".join(request.paths), unread)
    audited_on_spark(spark, plan, request)
    return _stored(store)


def _stored(store: str | Path) -> Audit:
    from kforensics.render.stored_tables import StoredTables  # who writes no store does without it

    return Audit(StoredTables(str(store), [*RESULTS]))


def _all_rows(found: Investigation, request: AuditRequest) -> dict[str, list[pa.RecordBatch]]:
    batches: dict[str, list[pa.RecordBatch]] = {name: [] for name in RESULTS}
    for judgement in audited(found, request, _nothing, Stages()):
        for name, rows in judgement.rows.items():
            batches[name] += rows.record_batches()
    return batches


def _asked(paths: Paths, question: Question, as_of_ms: int | None) -> pa.Table:
    return _table(question.table, _answers(_investigation(paths, as_of_ms), question))


def _answers(found: Investigation, question: Question) -> Iterator[pa.RecordBatch]:
    noted: list[Any] = []
    for examined in found.examined(question.noters):
        if examined.case is None:
            raise InputError(examined.partition.folder, examined.why or "")
        yield from question.answer(examined.case).rows.record_batches()
        noted.append(question.note(examined.case))
    for answer in question.together(noted, found.clusters):
        yield from answer.rows.record_batches()


def _judged(paths: Paths, families: str, table: str, processes: int | None, as_of_ms: int | None) -> pa.Table:
    request = AuditRequest(None, processes, families)
    found = judged(_investigation(paths, as_of_ms), request, _nothing)
    return _table(table, (batch for one in found if one.is_counted for batch in _rows_of(one, table).record_batches()))


def _rows_of(judgement: Judgement, table: str) -> Rows | RowStream:
    if table not in judgement.rows:
        raise InputError(judgement.folder, judgement.why or "")
    return judgement.rows[table]


def _table(name: str, batches: Iterable[pa.RecordBatch]) -> pa.Table:
    return table_of_parts(STORED[name], batches)


def _investigation(paths: Paths, as_of_ms: int | None) -> Investigation:
    names = _names(paths)
    unreadable: list[str] = []
    found = investigate(names, as_of_ms, unreadable.append, _unheard)
    if found.unreadable:
        raise InputError(", ".join(names), "; ".join(unreadable))
    return found


def _names(paths: Paths) -> tuple[str, ...]:
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    return tuple(os.fspath(name) for name in given)


def _unheard(_sentence: str) -> None:
    """Who calls the library knows whether a time was given."""


def _nothing(_size: int) -> None:
    """Show no progress."""
