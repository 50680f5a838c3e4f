"""The command ``kforensics duplicates``: records that were written twice, as rows and as text."""

# No postponed annotations, see ``command``.

from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from kforensics.cli.command import EXECUTION, SELECTION, Command, epilog, with_shared_options

if TYPE_CHECKING:
    from kforensics.analyses.duplicates import DuplicatesAnswer
    from kforensics.cli.partition_options import PartitionOptions
    from kforensics.render.ranked_text import RankedText

app = typer.Typer(add_completion=False)


@app.command(
    cls=Command,
    epilog=epilog(
        "duplicates orders-0",
        "duplicates --committed --format csv --output /tmp/twice.csv /var/lib/kafka/data",
    ),
)
@with_shared_options(refused=("since",))
def duplicates(  # long: one parameter per option
    options: "PartitionOptions",
    *,
    level: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL",
            help="Only sequence, content-retry or content. Repeatable.",
            rich_help_panel=SELECTION,
        ),
    ] = None,
    committed: Annotated[
        bool,
        typer.Option(
            "--committed", help="Only what a read_committed consumer receives twice.", rich_help_panel=SELECTION
        ),
    ] = False,
    internal: Annotated[
        bool, typer.Option("--internal", help="Search internal topics, too.", rich_help_panel=SELECTION)
    ] = False,
    memory: Annotated[
        int,
        typer.Option(
            min=1, metavar="MB", help="Memory to use before temporary files are used.", rich_help_panel=EXECUTION
        ),
    ] = 256,
) -> None:
    """Find records that were written twice, by the sequences of batches and by key, value and headers."""
    from kforensics.analyses.duplicates import DuplicatesQuestion
    from kforensics.cli.asking import ask
    from kforensics.render.ranked_text import RankedText

    question = DuplicatesQuestion(tuple(level or ()), committed, memory << 20, internal)
    raise typer.Exit(ask(options, question, RankedText(options.screen(), "no duplicates within one partition"), _add))


def _add(text: "RankedText", answer: "DuplicatesAnswer") -> None:
    from kforensics.analyses.duplicates import PartitionDuplicates
    from kforensics.forensics.checks.partition.missing_logs import MissingLog
    from kforensics.render.partition_text import (
        FAULTY,
        NO_LOG,
        add_missing_log,
        cross_partition_duplicate_lines,
        duplicate_advice,
        duplicate_lines,
    )

    worst = -max((finding.severity for finding in answer.findings), default=0)
    if not isinstance(answer, PartitionDuplicates):
        place, folder = answer.copies.place, answer.copies.folder
        lines = cross_partition_duplicate_lines(place, folder, answer.rows, shown=text)
        text.add_partition((FAULTY, worst), lines, place, folder)
    elif not answer.state.partition.has_log:
        add_missing_log(text, NO_LOG, MissingLog.of(answer.state, "duplicates"))
    elif len(answer.duplicates):
        lines = chain(
            duplicate_lines(answer.state, answer.rows, shown=text),
            duplicate_advice(answer.state, answer.rows, answer.findings),
        )
        text.add_partition((FAULTY, worst), lines, answer.state.partition.place, answer.state.partition.folder)
    else:
        text.add_quiet(duplicate_lines(answer.state, answer.rows, shown=text))
