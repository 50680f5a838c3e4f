"""The command ``kforensics audit``: all checks over log directories, with a report and an evidence store."""

# No postponed annotations, see ``command``.

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from kforensics.cli.command import EXECUTION, OUTPUT, STANDARD_OUTPUT, Command, Processes, epilog, with_shared_options
from kforensics.cli.redact_options import Redact, RedactKeyFile, RedactNames, redaction_of, without_key_file
from kforensics.errors import UsageError

if TYPE_CHECKING:
    from kforensics.cli.partition_options import PartitionOptions

app = typer.Typer(add_completion=False)


@app.command(
    cls=Command,
    epilog=epilog(
        "audit /var/lib/kafka/data",
        "audit --output /tmp/evidence --as-of 2026-11-21T03:00 /mnt/broker-1/data",
        "audit --previous /evidence/monday --output /evidence/tuesday /var/lib/kafka/data",
        "audit --config /evidence/case.toml /var/lib/kafka/data",
        "audit --redact --redact-names --output /tmp/for-support /var/lib/kafka/data",
        "audit --engine spark --master spark://host:7077 --output s3://bucket/evidence s3://bucket/brokers",
    ),
)
@with_shared_options("output")
def audit(  # long: one parameter per option
    options: "PartitionOptions",
    *,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Write the evidence store to this folder; it appears when it is complete.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    records: Annotated[
        bool,
        typer.Option(
            "--records", help="Decode every record too: check it and find duplicates.", rich_help_panel=EXECUTION
        ),
    ] = False,
    previous: Annotated[
        str | None,
        typer.Option(
            metavar="STORE",
            help="The store of an earlier audit of the same logs: read only what is new since.",
            rich_help_panel=EXECUTION,
        ),
    ] = None,
    checksums: Annotated[
        bool,
        typer.Option("--checksums", help="Add the SHA-256 of every input to the manifest.", rich_help_panel=OUTPUT),
    ] = False,
    table: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The table in a format that has room for one, such as csv. Default: incidents.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    redact: Redact = False,
    redact_names: RedactNames = False,
    redact_key_file: RedactKeyFile = None,
    processes: Processes = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="ENGINE",
            help="process or spark. Default: spark under spark-submit, otherwise process.",
            rich_help_panel=EXECUTION,
        ),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The Spark master. Default: from Spark's configuration, or local[*].",
            rich_help_panel=EXECUTION,
        ),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A Spark property. Repeatable.", rich_help_panel=EXECUTION),
    ] = None,
    split_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="MB",
            help="On Spark, read large segments in splits of about this size.",
            rich_help_panel=EXECUTION,
        ),
    ] = None,
    resume: Annotated[
        bool | None,
        typer.Option(
            "--resume/--no-resume",
            help="On Spark, go on from the same audit with this --output that ended early. Default: yes.",
            show_default=False,
            rich_help_panel=EXECUTION,
        ),
    ] = None,
) -> None:
    """Run all checks on all partitions, keep the evidence, and report the incidents, worst first, with remedies."""
    from kforensics.analyses.audit import AuditRequest, without_secrets
    from kforensics.cli.audit_locally import audit_locally, store_folder
    from kforensics.render.incident_lines import IncidentView

    if output == str(STANDARD_OUTPUT):
        raise UsageError("an evidence store is a folder, which standard output is not; name one with --output")
    spark_options = {"--master": master, "--conf": conf, "--split-size": split_size, "--resume": resume}
    redaction = redaction_of(redact_key_file, is_wanted=redact, hides_names=redact_names)
    command = without_secrets(without_key_file(sys.argv[1:]))
    words = tuple(without_secrets(group) for group in options.repeated)  # standard output is not for secrets
    view = IncidentView(replace(options.screen(), command=words), options.verbose > 0)
    if _is_on_spark(engine, [name for name, value in spark_options.items() if value is not None]):
        from kforensics.cli.audit_on_spark import SparkOptions, audit_on_spark, spark_request

        if table is not None:
            raise UsageError("--table is for --engine process; on Spark the tables go to the folder in --output")
        if redaction is not None:
            raise UsageError(
                "--redact is for --engine process; on Spark nothing is redacted, so redact the report of the store"
            )
        if processes is not None:
            raise UsageError("--processes is for --engine process; on Spark, use --master and --conf instead")
        request = spark_request(options, output, split_size, records=records, checksums=checksums, command=command)
        request = replace(request, resume=resume is not False, previous=previous)
        spark = SparkOptions(master, tuple(conf or ()))
        raise typer.Exit(audit_on_spark(options, request, spark, view))
    audit_request = AuditRequest(
        store_folder(output),
        processes,
        records=records,
        copies=True,
        checksums=checksums,
        command=command,
        previous=previous,
        redaction=redaction,
    )
    raise typer.Exit(audit_locally(options, audit_request, view, table))


def _is_on_spark(engine: str | None, spark_options: list[str]) -> bool:
    """Return whether to audit on Spark.

    Args:
        engine: ``process`` or ``spark``; None for Spark only under ``spark-submit``.
        spark_options: the given options that are for Spark only.

    Raises:
        UsageError: there is no such engine, or it does not have a given option.
    """
    if engine not in (None, "process", "spark"):
        raise UsageError(f"--engine {engine!r} is not one of process, spark")
    is_on_spark = engine == "spark" or (engine is None and "PYSPARK_GATEWAY_PORT" in os.environ)
    if spark_options and not is_on_spark:
        raise UsageError(f"{spark_options[0]} is for --engine spark; add --engine spark, or leave it out")
    return is_on_spark
