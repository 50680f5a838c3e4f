"""The command ``kforensics transactions``: the transactions of partitions, with outcome and duration."""

# No postponed annotations, see ``command``.

from typing import TYPE_CHECKING, Annotated

import typer

from kforensics.cli.command import OUTPUT, SELECTION, Command, epilog, with_shared_options

if TYPE_CHECKING:
    from kforensics.analyses.transactions import TransactionsAnswer, TransactionsQuestion
    from kforensics.cli.partition_options import PartitionOptions
    from kforensics.render.ranked_text import RankedText

app = typer.Typer(add_completion=False)


@app.command(
    cls=Command,
    epilog=epilog(
        "transactions --state open /var/lib/kafka/data",
        "transactions --min-duration 15m --sort duration orders-0",
        "transactions --cost /var/lib/kafka/data",
    ),
)
@with_shared_options()
def transactions(  # long: one parameter per option
    options: "PartitionOptions",
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATE", help="Only open, aborted, committed or forgotten. Repeatable.", rich_help_panel=SELECTION
        ),
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
    cost: Annotated[
        bool,
        typer.Option(
            "--cost", help="What they cost: time by number of partitions, and markers.", rich_help_panel=OUTPUT
        ),
    ] = False,
) -> None:
    """List transactions: their outcome, producer, offsets and duration; or sum up what they cost."""
    from kforensics.analyses.times import duration_ms
    from kforensics.analyses.transactions import TransactionsQuestion
    from kforensics.cli.asking import ask
    from kforensics.render.ranked_text import RankedText

    min_duration_ms = None if min_duration is None else duration_ms(min_duration, "--min-duration")
    question = TransactionsQuestion(tuple(state or ()), producer_id, min_duration_ms, sort, options.since_time())
    if cost:
        raise typer.Exit(_costs(options, question))
    raise typer.Exit(ask(options, question, RankedText(options.screen(), "no transactions"), _add))


def _costs(options: "PartitionOptions", listed: "TransactionsQuestion") -> int:
    from functools import partial

    from kforensics.analyses.transactions import CostsRequest, answer_costs, refuse_filters
    from kforensics.cli.partition_options import ExitStatus
    from kforensics.cli.writing import write_results
    from kforensics.forensics.core.cluster_tables import TRANSACTION_COSTS
    from kforensics.render.ids_text import cost_lines

    refuse_filters(listed)
    options.refuse("this command shows none", "min_severity", "codes")
    request = CostsRequest(tuple(options.topic or ()), options.numbers())
    to_format, severity = options.format(), options.severity()
    investigation = options.investigation(all_topics=True)  # coordinators know when transactions began and ended
    status = ExitStatus(investigation.unreadable)
    with options.stage("partitions read and written"), options.watched(investigation) as watched:
        answers = answer_costs(watched, request, status.add_unreadable)
        text = partial(cost_lines, screen=options.screen())
        write_results(answers, to_format, options, text=text, table=TRANSACTION_COSTS, rows=lambda rows: rows)
    return status.code(severity)


def _add(text: "RankedText", answer: "TransactionsAnswer") -> None:
    from kforensics.forensics.checks.partition.missing_logs import MissingLog
    from kforensics.forensics.partition.lagging_replica import lagging_since
    from kforensics.render.partition_text import FAULTY, NO_LOG, NOT_FAULTY, add_missing_log, transaction_lines

    if not answer.state.partition.has_log:
        add_missing_log(text, NO_LOG, MissingLog.of(answer.state, "transactions"))
        return
    state, names = answer.state, answer.context.producer_names(answer.state) if answer.count else {}
    begins = answer.context.later_begins(state) if answer.count else {}
    lagging = lagging_since(answer.context.with_settings(state)) if len(state.open_transactions) else None
    lines = transaction_lines(
        state,
        answer.rows,
        answer.count,
        names,
        still_open=answer.still_open,
        shown=text,
        begins=begins,
        lagging_since=lagging,
    )
    if not answer.count:
        text.add_quiet(lines)
    else:
        oldest = min((time or 0 for (time,) in answer.still_open.only("first_timestamp")), default=None)
        rank = NOT_FAULTY if oldest is None else FAULTY, oldest or 0
        text.add_partition(rank, lines, state.partition.place, state.partition.folder)
