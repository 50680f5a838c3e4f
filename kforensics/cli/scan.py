"""The command ``kforensics scan``: a summary of every partition, worst first."""

# No postponed annotations, see ``command``.

import typer

from kforensics.cli.command import (
    Alone,
    AsOf,
    Command,
    FailOn,
    FormatOption,
    Output,
    Paths,
    Processes,
    Progress,
    Quiet,
    ServerProperties,
    Settings,
    Topic,
    epilog,
)

app = typer.Typer(add_completion=False)


@app.command(
    cls=Command,
    epilog=epilog("scan /var/lib/kafka/data", "scan --format csv --output /tmp/partitions.csv /mnt/evidence"),
)
def scan(
    paths: Paths = None,
    *,
    topic: Topic = None,
    output_format: FormatOption = "text",
    output: Output = None,
    as_of: AsOf = None,
    alone: Alone = False,
    settings: Settings = None,
    server_properties: ServerProperties = None,
    fail_on: FailOn = "error",
    processes: Processes = None,
    progress: Progress = None,
    quiet: Quiet = False,
) -> None:
    """Summarize each partition: what it contains, what it costs and its worst finding, the worst partitions first."""
    from kforensics.analyses.audit import AuditRequest
    from kforensics.cli.common_options import CommonOptions
    from kforensics.cli.evaluating import evaluate
    from kforensics.render.audit_report import partition_summaries

    options = CommonOptions(
        paths,
        topic,
        as_of,
        output_format,
        output,
        fail_on,
        quiet,
        alone=alone,
        settings=settings,
        server_properties=server_properties,
    )
    request = AuditRequest(processes=processes, copies=True)
    raise typer.Exit(evaluate(options, request, "partitions", partition_summaries, progress=progress))
