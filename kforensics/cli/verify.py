"""The command ``kforensics verify``: indexes, snapshots and checkpoints against the log."""

# No postponed annotations, see ``command``.

from functools import partial
from typing import TYPE_CHECKING

import typer

from kforensics.cli.command import Command, Processes, epilog, with_shared_options

if TYPE_CHECKING:
    from kforensics.cli.partition_options import PartitionOptions

app = typer.Typer(add_completion=False)


@app.command(cls=Command, epilog=epilog("verify /var/lib/kafka/data", "verify --fail-on warning orders-0"))
@with_shared_options()
def verify(
    options: "PartitionOptions",
    *,
    processes: Processes = None,
) -> None:
    """Compare indexes, producer snapshots, transaction indexes and checkpoints with the log."""
    from kforensics.analyses.audit import AuditRequest
    from kforensics.cli.evaluating import evaluate
    from kforensics.render.scan_text import partition_findings

    request = AuditRequest(processes=processes, checks="evidence")
    text = partial(partition_findings, bootstrap_server=options.brokers())
    raise typer.Exit(evaluate(options, request, "findings", text))
