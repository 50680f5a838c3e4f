"""The command ``kforensics explain``: what happened to one offset, producer or transactional id."""

# No postponed annotations, see ``command``.

from typing import TYPE_CHECKING, Annotated

import typer

from kforensics.cli.command import SELECTION, Command, epilog, with_shared_options

if TYPE_CHECKING:
    from kforensics.cli.common_options import CommonOptions

app = typer.Typer(add_completion=False)


@app.command(
    cls=Command,
    epilog=epilog(
        "explain --offset 1200 orders-0",
        "explain --topic orders --partition 0 --offset 1200 /var/lib/kafka/data",
        "explain --producer-id 12 /var/lib/kafka/data",
        "explain --transactional-id payments-1 /var/lib/kafka/data",
    ),
)
@with_shared_options()
def explain(  # long: one parameter per option
    options: "CommonOptions",
    *,
    offset: Annotated[
        int | None, typer.Option(min=0, metavar="OFFSET", help="Explain this offset.", rich_help_panel=SELECTION)
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option(metavar="ID", help="Explain this producer.", rich_help_panel=SELECTION)
    ] = None,
    transactional_id: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Explain this transactional id. Needs the log of its coordinator.",
            rich_help_panel=SELECTION,
        ),
    ] = None,
    at: Annotated[
        int | None,
        typer.Option(min=0, metavar="OFFSET", help="With --offset: at this high watermark.", rich_help_panel=SELECTION),
    ] = None,
) -> None:
    """Explain one offset, one producer or one transactional id, with the evidence."""
    from kforensics.analyses.explain import Subject, explain_subject, story_rows, story_severities
    from kforensics.api.explanation import story_lines
    from kforensics.cli.common_options import ExitStatus
    from kforensics.cli.writing import write_results

    subject = Subject(offset, producer_id, transactional_id, at, tuple(options.topic or ()), numbers=options.numbers())
    options.refuse("this command shows no such", "min_severity", "codes", "since")
    to_format, severity = options.format(), options.severity()
    investigation = options.investigation(all_topics=True)  # only the coordinator's log has transactional ids
    status = ExitStatus(investigation.unreadable)
    stories = explain_subject(investigation, subject, status.add_unreadable)
    watched = status.watch(stories, story_severities)
    write_results(watched, to_format, options, text=story_lines, table=subject.table, rows=story_rows)
    raise typer.Exit(status.code(severity))
