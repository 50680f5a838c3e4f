"""The commands that judge whole log directories: arguments, one call, one renderer."""

# No postponed annotations, see ``cli``.

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from kforensics.cli.options import (
    OUTPUT,
    RUN,
    AsOf,
    FailOn,
    FormatOption,
    Output,
    Paths,
    Processes,
    Progress,
    Quiet,
    Topic,
)

__all__ = ["JUDGING"]


def scan(
    context: typer.Context,
    paths: Paths = None,
    *,
    topic: Topic = None,
    output_format: FormatOption = "text",
    output: Output = None,
    as_of: AsOf = None,
    fail_on: FailOn = "error",
    processes: Processes = None,
    progress: Progress = None,
    quiet: Quiet = False,
) -> None:
    """Say what lies here and whether it is well: a card for each partition, the worst first."""
    from kforensics.cli.audit_command import run_scan  # --help must not load what judging needs

    raise typer.Exit(run_scan(context.params))


def verify(
    context: typer.Context,
    paths: Paths = None,
    *,
    topic: Topic = None,
    output_format: FormatOption = "text",
    output: Output = None,
    as_of: AsOf = None,
    fail_on: FailOn = "error",
    processes: Processes = None,
    progress: Progress = None,
    quiet: Quiet = False,
) -> None:
    """Compare indexes, snapshots, transaction indexes and checkpoints with the log they belong to."""
    from kforensics.cli.audit_command import run_verify  # as above

    raise typer.Exit(run_verify(context.params))


def audit(  # long: one parameter per option
    context: typer.Context,
    paths: Paths = None,
    *,
    output: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Write the evidence store there: Parquet and a manifest, all of it or nothing.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    records: Annotated[
        bool,
        typer.Option(
            "--records",
            help="Decode every record too: what cannot be read, what is there twice.",
            rich_help_panel=RUN,
        ),
    ] = False,
    checksums: Annotated[
        bool,
        typer.Option("--checksums", help="Put the SHA-256 of every input into the manifest.", rich_help_panel=OUTPUT),
    ] = False,
    topic: Topic = None,
    output_format: FormatOption = "text",
    as_of: AsOf = None,
    fail_on: FailOn = "error",
    processes: Processes = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="ENGINE",
            help="process or spark; by default Spark where spark-submit starts it.",
            rich_help_panel=RUN,
        ),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Spark's master; by default as Spark is configured, or local[*].", rich_help_panel=RUN
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A property of Spark; may be repeated.", rich_help_panel=RUN),
    ] = None,
    split_size: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="MB", help="On Spark, read large segments in pieces of about this.", rich_help_panel=RUN
        ),
    ] = None,
    progress: Progress = None,
    quiet: Quiet = False,
) -> None:
    """Judge everything under some paths, keep the evidence, and report the worst first, with what to do."""
    from kforensics.analyses.filters import is_for_spark  # as above

    if is_for_spark(engine, [name for name in ("master", "conf", "split_size") if context.params[name] is not None]):
        from kforensics.cli.spark_command import run_spark_audit

        raise typer.Exit(run_spark_audit(context.params))
    from kforensics.cli.audit_command import run_audit

    raise typer.Exit(run_audit(context.params))


def report(
    context: typer.Context,
    store: Annotated[
        str | None, typer.Argument(metavar="STORE", help="The evidence store of an audit: a folder or a URI.")
    ] = None,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the report to this file, which appears whole or not at all.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    fail_on: FailOn = "error",
    quiet: Quiet = False,
) -> None:
    """Make one HTML file of an evidence store: verdict, findings, charts, tables and provenance; no network needed."""
    from kforensics.cli.report_command import run_report  # as above

    raise typer.Exit(run_report(context.params))


JUDGING: dict[Callable[..., None], tuple[str, ...]] = {
    scan: ("scan /var/lib/kafka/data", "scan --format csv --output /tmp/cards.csv /mnt/evidence"),
    verify: ("verify /var/lib/kafka/data", "verify --fail-on warning orders-0"),
    audit: (
        "audit /var/lib/kafka/data",
        "audit --output /tmp/evidence --as-of 2026-11-21T03:00 /mnt/broker-1/data",
        "audit --engine spark --master spark://host:7077 --output s3://bucket/evidence s3://bucket/brokers",
    ),
    report: ("report /tmp/evidence --output /tmp/report.html",),
}
