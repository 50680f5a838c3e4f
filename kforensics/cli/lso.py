"""The command ``kforensics lso``: where the last stable offset is and which transaction blocks it."""

# No postponed annotations, see ``command``.

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from kforensics.cli.command import SELECTION, Command, epilog, with_shared_options

if TYPE_CHECKING:
    from kforensics.analyses.lso import LsoAnswer
    from kforensics.cli.common_options import CommonOptions

app = typer.Typer(add_completion=False)


@app.command(
    cls=Command,
    epilog=epilog("lso /var/lib/kafka/data", "lso --history orders-0", "lso --at 1200 orders-0"),
)
@with_shared_options()
def lso(  # long: one parameter per option
    options: "CommonOptions",
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

    lines = partial(_answer_lines, bootstrap_server=options.brokers())
    raise typer.Exit(ask(options, LsoQuestion(at, history), lines))


def _answer_lines(answer: "LsoAnswer", *, bootstrap_server: str | None = None) -> Iterator[str]:
    from kforensics.render.partition_text import history_lines, lso_lines

    if answer.stable is None:
        return history_lines(answer.state, answer.rows)
    return lso_lines(answer.state, answer.stable, answer.findings, answer.transactional_id, bootstrap_server)
