"""The command ``kforensics verify``: indexes, snapshots and checkpoints against the log."""

# No postponed annotations, see ``command``.

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import typer

from kforensics.cli.command import (
    Alone,
    AsOf,
    BootstrapServer,
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

if TYPE_CHECKING:
    from kforensics.forensics.audit.partition_result import PartitionResult

app = typer.Typer(add_completion=False)


@app.command(cls=Command, epilog=epilog("verify /var/lib/kafka/data", "verify --fail-on warning orders-0"))
def verify(
    paths: Paths = None,
    *,
    topic: Topic = None,
    output_format: FormatOption = "text",
    output: Output = None,
    as_of: AsOf = None,
    alone: Alone = False,
    settings: Settings = None,
    server_properties: ServerProperties = None,
    bootstrap_server: BootstrapServer = None,
    fail_on: FailOn = "error",
    processes: Processes = None,
    progress: Progress = None,
    quiet: Quiet = False,
) -> None:
    """Compare indexes, producer snapshots, transaction indexes and checkpoints with the log."""
    from kforensics.analyses.audit import AuditRequest
    from kforensics.cli.common_options import CommonOptions
    from kforensics.cli.evaluating import evaluate

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
        bootstrap_server=bootstrap_server,
    )
    request = AuditRequest(processes=processes, checks="evidence")
    raise typer.Exit(
        evaluate(options, request, "findings", partial(_lines, bootstrap_server=options.brokers()), progress=progress)
    )


def _lines(results: "list[PartitionResult]", *, bootstrap_server: str | None) -> Iterator[str]:
    """Yield the findings by partition, and how many partitions have none."""
    from kforensics.forensics.core.formatting import format_count
    from kforensics.render.partition_text import finding_lines

    without_findings = 0
    for result in results:
        if result.why is not None:
            yield f"not read: {result.why}"
        elif result.findings:
            yield from finding_lines(result.place, result.folder, result.findings, bootstrap_server)
        else:
            without_findings += 1
    partitions = format_count(without_findings, "partition")
    yield f"{partitions} of {len(results)}: indexes, snapshots and checkpoints agree with the log"
