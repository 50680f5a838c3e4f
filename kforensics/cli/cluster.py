"""The command ``kforensics cluster``: what a KRaft cluster was at an offset or a time, without a controller."""

# No postponed annotations, see ``command``.

from dataclasses import replace
from datetime import UTC
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from kforensics.cli.command import SELECTION, Command, epilog, with_shared_options

if TYPE_CHECKING:
    from kforensics.analyses.cluster import ClusterAnswer
    from kforensics.cli.partition_options import PartitionOptions
    from kforensics.render.ranked_text import RankedText

app = typer.Typer(add_completion=False)


@app.command(
    cls=Command,
    epilog=epilog(
        "cluster /var/lib/kafka/data",
        "cluster --at 2026-11-01T10:00 --topic orders /var/lib/kafka/data",
        "cluster --diff 1200..1300 /var/lib/kafka/data",
        "cluster --history orders-0 /var/lib/kafka/data",
    ),
)
@with_shared_options(refused=("since",))
def cluster(  # long: one parameter per option
    options: "PartitionOptions",
    *,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="OFFSET|TIME",
            help="As it was before this offset of the metadata log, or at this time. Default: the end of the log.",
            rich_help_panel=SELECTION,
        ),
    ] = None,
    diff: Annotated[
        str | None,
        typer.Option(
            metavar="A..B",
            help="What changed between two offsets or times, or between the copies in two of the paths.",
            rich_help_panel=SELECTION,
        ),
    ] = None,
    history: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC-PARTITION",
            help="The leaders, in-sync replicas and reassignments of this partition.",
            rich_help_panel=SELECTION,
        ),
    ] = None,
    broker: Annotated[
        int | None,
        typer.Option(min=0, metavar="ID", help="Only this broker or controller.", rich_help_panel=SELECTION),
    ] = None,
) -> None:
    """Show what a KRaft cluster was: brokers, topics, partitions, settings, rebuilt from its metadata log."""
    from kforensics.analyses.cluster import ClusterQuestion
    from kforensics.cli.asking import ask
    from kforensics.render.ranked_text import RankedText

    selected = tuple(options.topic or ()), options.numbers()
    question = ClusterQuestion(at, diff, history, broker, *selected, zone=options.zone() or UTC)
    # The metadata log knows topics whose folders are not under the paths.
    everywhere = replace(options, topic=None, partitions=None)
    add = partial(_add, brokers=options.brokers())
    raise typer.Exit(ask(everywhere, question, RankedText(options.screen(), "no metadata"), add))


def _add(text: "RankedText", answer: "ClusterAnswer", brokers: str | None) -> None:
    from kforensics.render.cluster_text import change_lines, history_lines, image_lines, log_dir_lines
    from kforensics.render.partition_text import finding_details

    if answer.replay is None:
        lines = log_dir_lines(answer.name, answer.entities, text)
    elif answer.before is not None:
        lines = change_lines(answer.name, answer.before, answer.replay, answer.changes, text)
    elif answer.partition is not None:
        lines = history_lines(answer.partition, answer.replay, answer.steps, text)
    else:
        lines = image_lines(answer.name, answer.replay, answer.selection, text)
    text.add((answer.name,), chain(lines, finding_details(answer.place, answer.findings, brokers)))
