"""The command ``kforensics verify``: indexes, snapshots and checkpoints against the log."""

# No postponed annotations, see ``command``.

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import typer

from kforensics.cli.command import Command, Processes, epilog, with_shared_options

if TYPE_CHECKING:
    from kforensics.cli.partition_options import PartitionOptions
    from kforensics.forensics.audit.partition_result import PartitionResult
    from kforensics.render.screen import Screen

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

    request = AuditRequest(processes=processes, checks="evidence")
    raise typer.Exit(evaluate(options, request, "findings", partial(_text, bootstrap_server=options.brokers())))


def _text(results: "list[PartitionResult]", screen: "Screen", *, bootstrap_server: str | None) -> Iterator[bytes]:
    """Yield the findings by partition, worst first, and how many partitions have none."""
    from kforensics.render.partition_text import finding_lines, partition_label
    from kforensics.render.ranked_text import RankedText

    with closing(RankedText(screen, "indexes, snapshots and checkpoints agree with the log")) as text:
        for result in results:
            name = partition_label(result.place, result.folder)
            if result.why is not None:
                text.add((-9,), [f"not read: {result.why}"])
            elif result.findings:
                lines = finding_lines(result.place, result.folder, result.findings, bootstrap_server)
                text.add((-(result.worst or 0),), lines)
            else:
                text.add_quiet([f"{name}: indexes, snapshots and checkpoints agree with the log"])
        yield from text.parts()
