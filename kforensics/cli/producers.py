"""The command ``kforensics producers``: the state of every producer, rebuilt from the log."""

# No postponed annotations, see ``command``.

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from kforensics.cli.command import SELECTION, Command, epilog, with_shared_options

if TYPE_CHECKING:
    from kforensics.analyses.producers import ProducersAnswer
    from kforensics.cli.common_options import CommonOptions

app = typer.Typer(add_completion=False)


@app.command(
    cls=Command,
    epilog=epilog("producers orders-0", "producers --at 1200 --format csv --output /tmp/producers.csv orders-0"),
)
@with_shared_options()
def producers(
    options: "CommonOptions",
    *,
    at: Annotated[
        int | None,
        typer.Option(min=0, metavar="OFFSET", help="After all batches below this offset.", rich_help_panel=SELECTION),
    ] = None,
) -> None:
    """Rebuild the state of every producer as the broker does, and compare it with the producer snapshot."""
    from kforensics.analyses.producers import ProducersQuestion
    from kforensics.cli.asking import ask

    raise typer.Exit(ask(options, ProducersQuestion(at), _answer_lines))


def _answer_lines(answer: "ProducersAnswer") -> Iterator[str]:
    from kforensics.render.partition_text import producer_lines

    return producer_lines(answer.state, answer.rows, answer.context.producer_names(answer.state))
