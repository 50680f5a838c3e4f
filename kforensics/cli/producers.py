"""The command ``kforensics producers``: the state of every producer, rebuilt from the log."""

# No postponed annotations, see ``command``.

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from kforensics.cli.command import (
    SELECTION,
    Alone,
    AsOf,
    Command,
    FailOn,
    FormatOption,
    Output,
    Paths,
    Quiet,
    ServerProperties,
    Settings,
    Topic,
    epilog,
)

if TYPE_CHECKING:
    from kforensics.analyses.producers import ProducersAnswer

app = typer.Typer(add_completion=False)


@app.command(
    cls=Command,
    epilog=epilog("producers orders-0", "producers --at 1200 --format csv --output /tmp/producers.csv orders-0"),
)
def producers(
    paths: Paths = None,
    *,
    at: Annotated[
        int | None,
        typer.Option(min=0, metavar="OFFSET", help="After all batches below this offset.", rich_help_panel=SELECTION),
    ] = None,
    topic: Topic = None,
    output_format: FormatOption = "text",
    output: Output = None,
    as_of: AsOf = None,
    alone: Alone = False,
    settings: Settings = None,
    server_properties: ServerProperties = None,
    fail_on: FailOn = "error",
    quiet: Quiet = False,
) -> None:
    """Rebuild the state of every producer as the broker does, and compare it with the producer snapshot."""
    from kforensics.analyses.producers import ProducersQuestion
    from kforensics.cli.asking import ask
    from kforensics.cli.common_options import CommonOptions

    options = CommonOptions(
        paths,
        topic,
        as_of,
        output_format,
        output,
        fail_on,
        quiet,
        alone=alone,
        settings=settings,
        server_properties=server_properties,
    )
    raise typer.Exit(ask(options, ProducersQuestion(at), _answer_lines))


def _answer_lines(answer: "ProducersAnswer") -> Iterator[str]:
    from kforensics.render.partition_text import producer_lines

    return producer_lines(answer.state, answer.rows, answer.context.producer_names(answer.state))
