"""The command ``kforensics query``: SQL over an evidence store, or over logs."""

# No postponed annotations, see ``command``.

import atexit
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from kforensics.cli.command import SELECTION, Command, epilog, with_shared_options
from kforensics.cli.messages import notify, notify_unreadable
from kforensics.cli.redact_options import Redact, RedactKeyFile, RedactNames, redaction_of
from kforensics.errors import UsageError

if TYPE_CHECKING:
    from kforensics.cli.partition_options import ExitStatus, PartitionOptions
    from kforensics.render.redaction import Redaction
    from kforensics.render.streams import ProgressMeter
    from kforensics.sql.scanned_table import Source
    from kforensics.sql.session import Session

app = typer.Typer(add_completion=False)


@app.command(
    cls=Command,
    epilog=epilog(
        'query /tmp/evidence "SELECT code, count(*) AS findings FROM findings GROUP BY code"',
        'query --logs /var/lib/kafka/data "SELECT topic, sum(size) AS bytes FROM batches GROUP BY topic"',
        "query /tmp/evidence",
        'query --redact --logs /var/lib/kafka/data "SELECT offset, key FROM records LIMIT 10"',
        failure="DuckDB missing",
    ),
)
@with_shared_options(*("paths", "min_severity", "codes", "since", "show_all", "tz", "bootstrap_server", "fail_on"))
def query(  # long: one parameter per option
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
    redact: Redact = False,
    redact_names: RedactNames = False,
    redact_key_file: RedactKeyFile = None,
) -> None:
    """Answer SQL over an evidence store, or over logs, which are read while the query runs. Nothing is changed."""
    from kforensics.cli.partition_options import ExitStatus
    from kforensics.cli.query_results import write_result

    store, sql = _store_and_sql(paths or [], has_logs=bool(logs))
    options.format()  # before anything is read
    redaction = redaction_of(redact_key_file, is_wanted=redact, hides_names=redact_names)
    status = ExitStatus()
    with _session(options, store, sql, logs or [], status, redaction) as session:
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
def _session(  # noqa: PLR0917  # what the command has
    options: "PartitionOptions",
    store: str | None,
    sql: str | None,
    logs: list[str],
    status: "ExitStatus",
    redaction: "Redaction | None",
) -> Iterator["Session"]:
    # At the end DuckDB lists objects that are not freed, so they must not be frozen. An import that is interrupted may
    # abort the process.
    atexit.unregister(gc.freeze)
    from kforensics.render.output import deferred_signals
    from kforensics.render.streams import progress_meter

    with deferred_signals():
        from kforensics.sql.session import Session  # before anything is read: it is an extra

    # A prompt is at work only while it answers, and a bar would stand where the next statement is typed.
    is_shown = False if sql is None and sys.stdin.isatty() else options.shows_progress
    with progress_meter(0, show=is_shown, what=options.command_name) as meter:
        if store is None:
            tables, absent = _log_tables(options, logs, status, meter, redaction)
        else:
            tables, absent = _store_tables(options, store, meter, redaction)
        with Session(tables, absent) as session:
            yield session


def _store_tables(
    options: "PartitionOptions", store: str, meter: "ProgressMeter | None", redaction: "Redaction | None"
) -> tuple[dict[str, "Source"], dict[str, str]]:
    from kforensics.api.query_tables import redacted_tables, store_tables
    from kforensics.render.output import check_output
    from kforensics.report_html.store_reader import open_store, redacted_store

    for name in ("topic", "partitions", "as_of", "alone", "settings", "server_properties"):
        if getattr(options, name):
            option = {"partitions": "--partition", "settings": "--set"}.get(name, f"--{name.replace('_', '-')}")
            raise UsageError(f"{option} is for --logs, and a store is evaluated already; say it in SQL, with WHERE")
    check_output(options.output, (store,))
    reader = open_store(store, meter)
    if redaction is None:
        return store_tables(reader), {}
    return redacted_tables(store_tables(redacted_store(reader, redaction)), redaction), {}


def _log_tables(
    options: "PartitionOptions",
    logs: list[str],
    status: "ExitStatus",
    meter: "ProgressMeter | None",
    redaction: "Redaction | None",
) -> tuple[dict[str, "Source"], dict[str, str]]:
    from dataclasses import replace

    from kforensics.analyses.topics import files_of_partitions
    from kforensics.api.query_tables import ABSENT_FROM_LOGS, LogTables, once
    from kforensics.parsers.files.discover import find_files
    from kforensics.render.output import check_output

    check_output(options.output, logs)
    unlisted: list[str] = []
    files, status.unreadable = find_files(logs, unlisted.append)
    for sentence in unlisted:
        notify_unreadable(sentence)
    selected = files_of_partitions(files, tuple(options.topic or ()), options.numbers())
    asked = replace(options, paths=logs, quiet=True, verbose=0)
    if options.verbose:
        notify(f"evidence: {len(selected)} files under the paths")
    log_tables = LogTables(selected, asked.investigation, once(status.add_unreadable), meter)
    absent = dict(ABSENT_FROM_LOGS)
    if redaction is None:
        return log_tables.sources(), absent
    from kforensics.analyses.known_names import learn_names, learn_topics  # few queries are redacted
    from kforensics.api.query_tables import redacted_tables

    learn_topics(redaction, files)
    with suppress(UsageError):  # there may be files without any log
        learn_names(redaction, asked.investigation(all_topics=True))
    return redacted_tables(log_tables.sources(), redaction), absent
