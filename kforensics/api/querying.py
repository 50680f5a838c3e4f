"""SQL over logs or over an evidence store: the Python function of the command ``query``."""

from __future__ import annotations

import os
from typing import Unpack

import pyarrow as pa

from kforensics.analyses.settings import Evaluation
from kforensics.analyses.topics import files_of_partitions, selection_of
from kforensics.api.arguments import Paths, path_names, with_checked_arguments
from kforensics.api.partition_questions import investigation_of, raise_any
from kforensics.api.query_tables import ABSENT_FROM_LOGS, LogTables, store_tables
from kforensics.api.views.table_view import TableView, view_of
from kforensics.errors import InputError, UsageError
from kforensics.parsers.files.discover import find_files
from kforensics.report_html.store_reader import open_store
from kforensics.sql.result_rows import result_table
from kforensics.sql.session import Session

__all__ = ["query"]


@with_checked_arguments
def query(
    sql: str,
    *,
    store: str | os.PathLike[str] | None = None,
    logs: Paths | None = None,
    **evaluation: Unpack[Evaluation],
) -> TableView:
    """Return the result of SQL over the tables of an evidence store, or over logs: the table ``result``.

    Logs are read while the query runs, once for each time that it names a table, and only the columns that it uses.

    Args:
        sql: a statement in the dialect of DuckDB. It can read no file and write none.
        store: the folder or URI that ``kforensics audit --output`` has written.
        logs: log directories, partition folders, files, archives, globs or URIs, instead of a store.
        evaluation: ``topic``, ``partition``, ``as_of`` and more, for logs; see :class:`Evaluation`.

    Raises:
        InputError: an input cannot be read.
        MissingExtraError: DuckDB is not installed.
        UsageError: the SQL is wrong or has no result, or it is not exactly one of a store and logs.

    Examples:
        >>> sql = (
        ...     "SELECT producer_id, sum(count) AS records FROM batches WHERE NOT is_control GROUP BY ALL ORDER BY ALL"
        ... )
        >>> kforensics.query(sql, logs="sample_logs/transactions-v2/broker-1", topic="hanging").to_pylist()
        [{'producer_id': 11, 'records': Decimal('2')}, {'producer_id': 12, 'records': Decimal('4')}]
    """
    if (store is None) == (logs is None):
        raise UsageError("a query is over a store or over logs; give one of them")
    errors: list[InputError] = []
    tables, absent = {}, {}
    if store is not None:
        if evaluation:
            raise UsageError(f"a store is evaluated already; leave out {', '.join(evaluation)}, or query the logs")
        tables = store_tables(open_store(os.fspath(store)))
    elif logs is not None:
        tables, absent = _log_tables(logs, evaluation, errors).sources(), ABSENT_FROM_LOGS
    with Session(tables, absent) as session:
        result = session.run(sql)
        if result is None:
            raise UsageError("the SQL has no result; end it with a SELECT")
        rows = pa.Table.from_batches(result.batches(), result.schema)
    raise_any(logs or (), errors)
    return view_of(result_table(result.schema), rows)


def _log_tables(logs: Paths, evaluation: Evaluation, errors: list[InputError]) -> LogTables:
    names, unlisted = path_names(logs), list[str]()
    files, _ = find_files(names, unlisted.append)
    if unlisted:
        raise InputError(", ".join(names), "; ".join(unlisted))
    selected = files_of_partitions(files, *selection_of(evaluation.get("topic"), evaluation.get("partition")))
    return LogTables(selected, lambda: investigation_of(names, evaluation), errors.append)
