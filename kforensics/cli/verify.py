"""The command ``kforensics verify``: indexes, snapshots and checkpoints against the log."""

# No postponed annotations, see ``command``.

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import typer

from kforensics.cli.command import Command, Processes, epilog, with_shared_options

if TYPE_CHECKING:
    from kforensics.cli.common_options import CommonOptions
    from kforensics.forensics.audit.partition_result import PartitionResult

app = typer.Typer(add_completion=False)


@app.command(cls=Command, epilog=epilog("verify /var/lib/kafka/data", "verify --fail-on warning orders-0"))
@with_shared_options()
def verify(
    options: "CommonOptions",
    *,
    processes: Processes = None,
) -> None:
    """Compare indexes, producer snapshots, transaction indexes and checkpoints with the log."""
    from kforensics.analyses.audit import AuditRequest
    from kforensics.cli.evaluating import evaluate

    request = AuditRequest(processes=processes, checks="evidence")
    raise typer.Exit(
        evaluate(
            options, request, "findings", partial(_lines, bootstrap_server=options.brokers()), progress=options.progress
        )
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
