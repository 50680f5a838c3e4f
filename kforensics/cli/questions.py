"""The commands that answer questions about partitions: arguments, one call, one renderer."""

# No postponed annotations, see ``cli``.

from collections.abc import Callable
from typing import Annotated

import typer

from kforensics.cli.options import FILTERS, OUTPUT, RUN, AsOf, FailOn, FormatOption, Output, Paths, Quiet, Topic

__all__ = ["QUESTIONS"]


def lso(  # one parameter per option, as in the others
    context: typer.Context,
    paths: Paths = None,
    *,
    at: Annotated[
        int | None, typer.Option(min=0, metavar="OFFSET", help="At this high watermark.", rich_help_panel=FILTERS)
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help="Every step, as the high watermark rises.", rich_help_panel=FILTERS)
    ] = False,
    topic: Topic = None,
    output_format: FormatOption = "text",
    output: Output = None,
    as_of: AsOf = None,
    fail_on: FailOn = "error",
    quiet: Quiet = False,
) -> None:
    """Say where the last stable offset is, who holds it back, since when, and what is hidden behind it."""
    from kforensics.analyses.questions import LsoQuestion  # --help must not load what a question needs
    from kforensics.cli.question_command import run_question

    raise typer.Exit(run_question(context.params, LsoQuestion(at, history)))


def transactions(
    context: typer.Context,
    paths: Paths = None,
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="open, aborted or committed; may be repeated.", rich_help_panel=FILTERS),
    ] = None,
    producer_id: Annotated[int | None, typer.Option(help="Of this producer.", rich_help_panel=FILTERS)] = None,
    min_duration: Annotated[
        str | None, typer.Option(metavar="TIME", help="That lasted at least 90s, 15m, 2h, …", rich_help_panel=FILTERS)
    ] = None,
    sort: Annotated[
        str,
        typer.Option(
            metavar="KEY", help="offset, marker, duration, records, bytes, begun or producer.", rich_help_panel=OUTPUT
        ),
    ] = "offset",
    topic: Topic = None,
    output_format: FormatOption = "text",
    output: Output = None,
    as_of: AsOf = None,
    fail_on: FailOn = "error",
    quiet: Quiet = False,
) -> None:
    """List transactions: open, aborted or committed, by whom, from where to where, and how long they lasted."""
    from kforensics.analyses.filters import duration_ms
    from kforensics.analyses.questions import TransactionsQuestion  # as above
    from kforensics.cli.question_command import run_question

    least = None if min_duration is None else duration_ms(min_duration, "--min-duration")
    question = TransactionsQuestion(tuple(state or ()), producer_id, least, sort)
    raise typer.Exit(run_question(context.params, question))


def producers(
    context: typer.Context,
    paths: Paths = None,
    *,
    at: Annotated[
        int | None,
        typer.Option(min=0, metavar="OFFSET", help="After all batches below this offset.", rich_help_panel=FILTERS),
    ] = None,
    topic: Topic = None,
    output_format: FormatOption = "text",
    output: Output = None,
    as_of: AsOf = None,
    fail_on: FailOn = "error",
    quiet: Quiet = False,
) -> None:
    """Rebuild what a broker knows of every producer, and say where a snapshot knows it otherwise."""
    from kforensics.analyses.questions import ProducersQuestion  # as above
    from kforensics.cli.question_command import run_question

    raise typer.Exit(run_question(context.params, ProducersQuestion(at)))


def duplicates(
    context: typer.Context,
    paths: Paths = None,
    *,
    level: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL", help="sequence, content-retry or content; may be repeated.", rich_help_panel=FILTERS
        ),
    ] = None,
    committed: Annotated[
        bool,
        typer.Option("--committed", help="Only what a read_committed consumer gets twice.", rich_help_panel=FILTERS),
    ] = False,
    memory: Annotated[
        int,
        typer.Option(min=1, metavar="MB", help="Use temporary files beyond so many megabytes.", rich_help_panel=RUN),
    ] = 256,
    topic: Topic = None,
    output_format: FormatOption = "text",
    output: Output = None,
    as_of: AsOf = None,
    fail_on: FailOn = "error",
    quiet: Quiet = False,
) -> None:
    """Find what was written twice: the same sequences, and the same key, value and headers."""
    from kforensics.analyses.questions import DuplicatesQuestion  # as above
    from kforensics.cli.question_command import run_question

    question = DuplicatesQuestion(tuple(level or ()), committed, memory << 20)
    raise typer.Exit(run_question(context.params, question))


def explain(
    context: typer.Context,
    paths: Paths = None,
    *,
    offset: Annotated[int | None, typer.Option(min=0, help="This offset.", rich_help_panel=FILTERS)] = None,
    producer_id: Annotated[int | None, typer.Option(help="This producer.", rich_help_panel=FILTERS)] = None,
    transactional_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="This transactional id; needs the log of its coordinator.", rich_help_panel=FILTERS
        ),
    ] = None,
    topic: Topic = None,
    partition: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only partitions of this number.", rich_help_panel=FILTERS)
    ] = None,
    at: Annotated[
        int | None,
        typer.Option(min=0, metavar="OFFSET", help="With --offset: at this high watermark.", rich_help_panel=FILTERS),
    ] = None,
    output_format: FormatOption = "text",
    output: Output = None,
    as_of: AsOf = None,
    fail_on: FailOn = "error",
    quiet: Quiet = False,
) -> None:
    """Tell the story of one offset, one producer or one transactional id, with the evidence."""
    from kforensics.cli.explain_command import run_explain  # as above

    raise typer.Exit(run_explain(context.params))


def keys(
    context: typer.Context,
    paths: Paths = None,
    *,
    partition_count: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Partitions of the topic today; by default as the cluster's metadata under the paths has it.",
            rich_help_panel=RUN,
        ),
    ] = None,
    listed: Annotated[
        str,
        typer.Option(
            "--list",
            metavar="WHAT",
            help="Rows of the other formats: partitions, keys (that lie in two of them) or producers.",
            rich_help_panel=OUTPUT,
        ),
    ] = "partitions",
    topic: Topic = None,
    output_format: FormatOption = "text",
    output: Output = None,
    as_of: AsOf = None,
    fail_on: FailOn = "error",
    quiet: Quiet = False,
) -> None:
    """Say which keys lie where their partitioner would not put them, in two partitions, or elsewhere since a growth."""
    from kforensics.cli.keys_command import run_keys  # as above

    raise typer.Exit(run_keys(context.params))


QUESTIONS: dict[Callable[..., None], tuple[str, ...]] = {
    lso: ("lso /var/lib/kafka/data", "lso --history orders-0", "lso --at 1200 orders-0"),
    transactions: (
        "transactions --state open /var/lib/kafka/data",
        "transactions --min-duration 15m --sort duration orders-0",
    ),
    producers: ("producers orders-0", "producers --at 1200 --format csv --output /tmp/producers.csv orders-0"),
    duplicates: (
        "duplicates orders-0",
        "duplicates --committed --format csv --output /tmp/twice.csv /var/lib/kafka/data",
    ),
    explain: (
        "explain --offset 1200 orders-0",
        "explain --topic orders --partition 0 --offset 1200 /var/lib/kafka/data",
        "explain --producer-id 12 /var/lib/kafka/data",
        "explain --transactional-id payments-1 /var/lib/kafka/data",
    ),
    keys: (
        "keys --topic orders /var/lib/kafka/data",
        "keys --topic orders --partition-count 12 --list keys --format csv --output /tmp/keys.csv orders-*",
    ),
}
