"""The command ``kforensics producers``: the state of every producer, rebuilt from the log."""

# No postponed annotations, see ``command``.

from typing import TYPE_CHECKING, Annotated

import typer

from kforensics.cli.command import SELECTION, Command, epilog, with_shared_options

if TYPE_CHECKING:
    from kforensics.analyses.producers import ProducersAnswer
    from kforensics.cli.partition_options import PartitionOptions
    from kforensics.render.ranked_text import RankedText

app = typer.Typer(add_completion=False)


@app.command(
    cls=Command,
    epilog=epilog("producers orders-0", "producers --at 1200 --format csv --output /tmp/producers.csv orders-0"),
)
@with_shared_options()
def producers(
    options: "PartitionOptions",
    *,
    at: Annotated[
        int | None,
        typer.Option(min=0, metavar="OFFSET", help="After all batches below this offset.", rich_help_panel=SELECTION),
    ] = None,
) -> None:
    """Rebuild the state of every producer as the broker does, and compare it with the producer snapshot."""
    from kforensics.analyses.producers import ProducersQuestion
    from kforensics.cli.asking import ask
    from kforensics.render.ranked_text import RankedText

    raise typer.Exit(
        ask(options, ProducersQuestion(at, options.since_time()), RankedText(options.screen(), "no producers"), _add)
    )


def _add(text: "RankedText", answer: "ProducersAnswer") -> None:
    from kforensics.forensics.checks.partition.missing_logs import MissingLog
    from kforensics.render.partition_text import FAULTY, NO_LOG, NOT_FAULTY, add_missing_log, producer_lines

    if not answer.state.partition.has_log:
        add_missing_log(text, NO_LOG, MissingLog.of(answer.state, "producers"))
        return
    state, rows = answer.state, answer.rows
    names = answer.context.producer_names(state) if len(rows) else {}
    lines = producer_lines(state, rows, names, shown=text)
    if not len(rows):
        text.add_quiet(lines)
        return
    differs = any(in_snapshot is False for (in_snapshot,) in rows.only("in_snapshot"))
    is_open = any(first >= 0 for (first,) in rows.only("current_txn_first_offset"))
    rank = FAULTY if differs or is_open else NOT_FAULTY, not differs
    text.add_partition(rank, lines, state.partition.place, state.partition.folder)
