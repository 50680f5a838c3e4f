"""The command ``kforensics query``: SQL over an evidence store, or over logs."""

# No postponed annotations, see ``command``.

import atexit
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from kforensics.cli.command import SELECTION, Command, epilog, notify, with_shared_options
from kforensics.errors import UsageError

if TYPE_CHECKING:
    from kforensics.cli.partition_options import ExitStatus, PartitionOptions
    from kforensics.sql.scanned_table import Source
    from kforensics.sql.session import Session

app = typer.Typer(add_completion=False)


@app.command(
    cls=Command,
    epilog=epilog(
        'query /tmp/evidence "SELECT code, count(*) AS findings FROM findings GROUP BY code"',
        'query --logs /var/lib/kafka/data "SELECT topic, sum(size) AS bytes FROM batches GROUP BY topic"',
        "query /tmp/evidence",
        failure="DuckDB missing",
    ),
)
@with_shared_options(
    *("paths", "min_severity", "codes", "since", "show_all", "tz", "bootstrap_server", "fail_on", "progress")
)
def query(
    options: "PartitionOptions",
    *,
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="STORE SQL",
            help="The store that audit --output wrote, unless there is --logs, and what to ask. Without SQL: a prompt.",
        ),
    ] = None,
    logs: Annotated[
        list[str] | None,
        typer.Option(
            "--logs",
            metavar="PATH",
            help="Read these log directories, partition folders, archives or files instead of a store. Repeatable.",
            rich_help_panel=SELECTION,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Write at most N rows.", rich_help_panel=SELECTION),
    ] = None,
) -> None:
    """Answer SQL over an evidence store, or over logs, which are read while the query runs. Nothing is changed."""
    from kforensics.cli.partition_options import ExitStatus
    from kforensics.cli.query_results import write_result

    store, sql = _store_and_sql(paths or [], has_logs=bool(logs))
    options.format()  # before anything is read
    status = ExitStatus()
    with _session(options, store, logs or [], status) as session:
        if sql is None and sys.stdin.isatty():
            from kforensics.cli.query_prompt import Prompt  # most queries are given

            Prompt(session, options, limit).run()
        else:
            with options.stage("query evaluated and written"):
                write_result(session, sys.stdin.read() if sql is None else sql, options, limit)
    raise typer.Exit(status.code(None))


def _store_and_sql(words: list[str], *, has_logs: bool) -> tuple[str | None, str | None]:
    """Return the store, None for logs, and the SQL, None if it is to be read from standard input.

    Raises:
        UsageError: there is no store, or there are more words.
    """
    if len(words) > (1 if has_logs else 2):
        raise UsageError(f"what is {words[-1]!r}? Put all of the SQL in quotes, after the store or --logs PATH")
    if has_logs:
        return None, words[0] if words else None
    if not words:
        raise UsageError("there is nothing to query; name the folder that audit --output has written, or --logs PATH")
    return words[0], words[1] if len(words) > 1 else None


@contextmanager
def _session(
    options: "PartitionOptions", store: str | None, logs: list[str], status: "ExitStatus"
) -> Iterator["Session"]:
    # At the end DuckDB lists objects that are not freed, so they must not be frozen, even if its import is interrupted.
    atexit.unregister(gc.freeze)
    from kforensics.sql.session import Session  # first: it is an extra

    if store is None:
        tables, absent = _log_tables(options, logs, status)
    else:
        tables, absent = _store_tables(options, store)
    with Session(tables, absent) as session:
        yield session


def _store_tables(options: "PartitionOptions", store: str) -> tuple[dict[str, "Source"], dict[str, str]]:
    from kforensics.api.query_tables import store_tables
    from kforensics.render.output import check_output
    from kforensics.report_html.store_reader import open_store

    for name in ("topic", "partitions", "as_of", "alone", "settings", "server_properties"):
        if getattr(options, name):
            option = {"partitions": "--partition", "settings": "--set"}.get(name, f"--{name.replace('_', '-')}")
            raise UsageError(f"{option} is for --logs, and a store is evaluated already; say it in SQL, with WHERE")
    check_output(options.output, (store,))
    return store_tables(open_store(store)), {}


def _log_tables(
    options: "PartitionOptions", logs: list[str], status: "ExitStatus"
) -> tuple[dict[str, "Source"], dict[str, str]]:
    from dataclasses import replace

    from kforensics.analyses.find_files import find_files
    from kforensics.analyses.topics import files_of_partitions
    from kforensics.api.query_tables import ABSENT_FROM_LOGS, LogTables, once
    from kforensics.render.output import check_output

    check_output(options.output, logs)
    unlisted: list[str] = []
    files, status.unreadable = find_files(logs, unlisted.append)
    for sentence in unlisted:
        notify(sentence)
    selected = files_of_partitions(files, tuple(options.topic or ()), options.numbers())
    asked = replace(options, paths=logs, quiet=True, verbose=0)
    if options.verbose:
        notify(f"evidence: {len(selected)} files under the paths")
    return LogTables(selected, asked.investigation, once(status.add_unreadable)).sources(), dict(ABSENT_FROM_LOGS)
