"""The command ``kforensics scan``: a summary of every partition, worst first."""

# No postponed annotations, see ``command``.

from typing import TYPE_CHECKING

import typer

from kforensics.cli.command import Command, Processes, epilog, with_shared_options

if TYPE_CHECKING:
    from kforensics.cli.partition_options import PartitionOptions

app = typer.Typer(add_completion=False)


@app.command(
    cls=Command,
    epilog=epilog("scan /var/lib/kafka/data", "scan --format csv --output /tmp/partitions.csv /mnt/evidence"),
)
@with_shared_options()
def scan(
    options: "PartitionOptions",
    *,
    processes: Processes = None,
) -> None:
    """Summarize each partition: what it contains, what it costs and its worst finding, the worst partitions first."""
    from kforensics.analyses.audit import AuditRequest
    from kforensics.cli.evaluating import evaluate
    from kforensics.render.scan_text import partition_summaries

    request = AuditRequest(processes=processes, copies=True)
    raise typer.Exit(evaluate(options, request, "partitions", partition_summaries))
