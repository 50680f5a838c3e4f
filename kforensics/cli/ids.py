"""The command ``kforensics ids``: the transactional ids, the life of one of them, and the partitions of a name."""

# No postponed annotations, see ``command``.

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated

import typer

from kforensics.cli.command import SELECTION, Command, epilog, with_shared_options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kforensics.analyses.ids import IdsRequest
    from kforensics.cli.partition_options import PartitionOptions
    from kforensics.forensics.coordinators.cluster_rows import IdList
    from kforensics.forensics.coordinators.partition_of import NamePartition
    from kforensics.forensics.coordinators.transactions.id_events import TransactionalIdHistory

app = typer.Typer(add_completion=False)


@app.command(
    cls=Command,
    epilog=epilog(
        "ids /var/lib/kafka/data",
        "ids payments-1 /var/lib/kafka/data",
        "ids --where payments-1 /var/lib/kafka/data",
        failure="never",
    ),
)
@with_shared_options("topic", "partitions", "min_severity", "codes", "since")
def ids(
    options: "PartitionOptions",
    *,
    transactional_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="The life of this id, event by event. Or type the id before the paths.",
            rich_help_panel=SELECTION,
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The partitions that this transactional id or group belongs to, and by which count.",
            rich_help_panel=SELECTION,
        ),
    ] = None,
) -> None:
    """List the transactional ids with their states, or show the life of one of them."""
    from kforensics.analyses.ids import IdsRequest, answer_ids, why_unknown_id
    from kforensics.cli.name_argument import name_before_paths
    from kforensics.cli.partition_options import ExitStatus

    if transactional_id is None and where is None:
        transactional_id, options = name_before_paths(options, why_unknown_id)
    request, severity = IdsRequest(transactional_id, where), options.severity()
    investigation = options.investigation(all_topics=True)
    status = ExitStatus(investigation.unreadable)
    with options.stage("partitions read and written"), options.watched(investigation) as watched:
        _write(answer_ids(watched, request, status.add_unreadable), request, options)
    raise typer.Exit(status.code(severity))


def _write(
    answers: "Iterable[IdList | TransactionalIdHistory | NamePartition]",
    request: "IdsRequest",
    options: "PartitionOptions",
) -> None:
    from itertools import chain

    from kforensics.cli.writing import write_results
    from kforensics.render.ids_text import id_answer_lines

    to_format, rows = options.format(), attrgetter("rows")
    if to_format == "text":
        text = partial(id_answer_lines, screen=options.screen())
        write_results(answers, to_format, options, text=text, table=request.table, rows=rows)
    else:
        parts = chain.from_iterable(map(rows, answers))
        write_results(parts, to_format, options, text=str, table=request.table, rows=lambda part: part)
