"""The command ``kforensics transactions``: the transactions of partitions, with outcome and duration."""

# No postponed annotations, see ``command``.

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from kforensics.cli.command import OUTPUT, SELECTION, Command, epilog, with_shared_options

if TYPE_CHECKING:
    from kforensics.analyses.transactions import TransactionsAnswer
    from kforensics.cli.common_options import CommonOptions

app = typer.Typer(add_completion=False)


@app.command(
    cls=Command,
    epilog=epilog(
        "transactions --state open /var/lib/kafka/data",
        "transactions --min-duration 15m --sort duration orders-0",
    ),
)
@with_shared_options()
def transactions(  # long: one parameter per option
    options: "CommonOptions",
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="Only open, aborted or committed. Repeatable.", rich_help_panel=SELECTION),
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option(metavar="ID", help="Only this producer.", rich_help_panel=SELECTION)
    ] = None,
    min_duration: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Only those that lasted at least 90s, 15m, 2h, …", rich_help_panel=SELECTION
        ),
    ] = None,
    sort: Annotated[
        str,
        typer.Option(
            metavar="KEY",
            help="Sort by offset, marker, duration, records, bytes, begun or producer.",
            rich_help_panel=OUTPUT,
        ),
    ] = "offset",
) -> None:
    """List transactions: their outcome, producer, offsets and duration."""
    from kforensics.analyses.times import duration_ms
    from kforensics.analyses.transactions import TransactionsQuestion
    from kforensics.cli.asking import ask

    min_duration_ms = None if min_duration is None else duration_ms(min_duration, "--min-duration")
    question = TransactionsQuestion(tuple(state or ()), producer_id, min_duration_ms, sort)
    raise typer.Exit(ask(options, question, _answer_lines))


def _answer_lines(answer: "TransactionsAnswer") -> Iterator[str]:
    from kforensics.render.partition_text import transaction_lines

    names = answer.context.producer_names(answer.state)
    return transaction_lines(answer.state, answer.rows, answer.count, names)
