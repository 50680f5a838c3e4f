"""The command ``kforensics lso``: where the last stable offset is and which transaction blocks it."""

# No postponed annotations, see ``command``.

from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from kforensics.cli.command import SELECTION, Command, epilog, with_shared_options

if TYPE_CHECKING:
    from kforensics.analyses.lso import LsoAnswer
    from kforensics.cli.partition_options import PartitionOptions
    from kforensics.render.lso_text import LsoText
    from kforensics.render.ranked_text import RankedText

app = typer.Typer(add_completion=False)


@app.command(
    cls=Command,
    epilog=epilog("lso /var/lib/kafka/data", "lso --history orders-0", "lso --at 1200 orders-0"),
)
@with_shared_options(refused=("since",))
def lso(  # long: one parameter per option
    options: "PartitionOptions",
    *,
    at: Annotated[
        int | None,
        typer.Option(min=0, metavar="OFFSET", help="At this high watermark.", rich_help_panel=SELECTION),
    ] = None,
    history: Annotated[
        bool,
        typer.Option("--history", help="Every value, as the high watermark advances.", rich_help_panel=SELECTION),
    ] = False,
) -> None:
    """Show where the last stable offset is, which transaction blocks it, since when, and which records it hides."""
    from kforensics.analyses.lso import LsoQuestion
    from kforensics.cli.asking import ask
    from kforensics.render.lso_text import LsoText
    from kforensics.render.ranked_text import RankedText

    question, screen = LsoQuestion(at, history), options.screen()
    if history:
        code = ask(options, question, RankedText(screen, "nothing ever blocked the LSO"), _add_history)
    else:
        code = ask(options, question, LsoText(screen, options.brokers()), _add)
    raise typer.Exit(code)


def _add(text: "LsoText", answer: "LsoAnswer") -> None:
    text.add(answer.state, answer.stable, answer.findings, answer.transactional_id, answer.cluster)


def _add_history(text: "RankedText", answer: "LsoAnswer") -> None:
    from kforensics.forensics.checks.partition.missing_logs import MissingLog
    from kforensics.render.lso_text import BLOCKED, NO_LOG, NOT_EXACT, alarm_lines, history_lines
    from kforensics.render.partition_text import add_missing_log

    if not answer.state.partition.has_log:
        add_missing_log(text, NO_LOG, MissingLog.of(answer.state, "LSO"))
    elif not len(answer.state.transaction_store):
        text.add_quiet(history_lines(answer.state, answer.rows))
    else:
        is_blocked = len(answer.state.open_transactions) > 0
        lines = chain(history_lines(answer.state, answer.rows), alarm_lines(answer.findings))
        text.add((BLOCKED if is_blocked else NOT_EXACT,), lines)
