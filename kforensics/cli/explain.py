"""The command ``kforensics explain``: what happened to one offset, producer or transactional id."""

# No postponed annotations, see ``command``.

from typing import TYPE_CHECKING, Annotated

import typer

from kforensics.cli.command import SELECTION, Command, epilog, with_shared_options
from kforensics.cli.redact_options import Redact, RedactKeyFile, RedactNames, redaction_of

if TYPE_CHECKING:
    from kforensics.cli.partition_options import PartitionOptions

app = typer.Typer(add_completion=False)


@app.command(
    cls=Command,
    epilog=epilog(
        "explain --offset 1200 orders-0",
        "explain --offset 1200:1300 orders-0",
        "explain --topic orders --partition 0 --offset 1200 /var/lib/kafka/data",
        "explain --producer-id 12 /var/lib/kafka/data",
        "explain --transactional-id payments-1 /var/lib/kafka/data",
        "explain --group billing /var/lib/kafka/data",
        "explain --redact --offset 1200 orders-0",
    ),
)
@with_shared_options(refused=("min_severity", "codes", "since"))
def explain(  # long: one parameter per option
    options: "PartitionOptions",
    *,
    offset: Annotated[
        str | None,
        typer.Option(
            metavar="A:B",
            help="Explain this offset, or those from A to before B, with one line for each run. A:, :B and A work too.",
            rich_help_panel=SELECTION,
        ),
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
    group: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Explain this consumer group, as groups --group does.", rich_help_panel=SELECTION
        ),
    ] = None,
    at: Annotated[
        int | None,
        typer.Option(min=0, metavar="OFFSET", help="With --offset: at this high watermark.", rich_help_panel=SELECTION),
    ] = None,
    redact: Redact = False,
    redact_names: RedactNames = False,
    redact_key_file: RedactKeyFile = None,
) -> None:
    """Explain one offset, one producer, one transactional id or one consumer group, with the evidence."""
    redaction = redaction_of(redact_key_file, is_wanted=redact, hides_names=redact_names)
    if group is not None:
        from kforensics.cli.groups import show_groups
        from kforensics.errors import UsageError

        if any(other is not None for other in (offset, producer_id, transactional_id, at)):
            raise UsageError(
                "say what to explain: --group alone, or one of --offset, --producer-id, --transactional-id"
            )
        if redaction is not None:
            raise UsageError("--redact is not for --group; redact an audit instead, which has the groups too")
        options.refuse("this command shows no such", "min_severity", "codes", "since")
        raise typer.Exit(show_groups(options, group))
    from kforensics.analyses.explain import Subject, explain_subject, findings_on, story_rows, story_severities
    from kforensics.analyses.filters import offset_range
    from kforensics.api.explanation import RedactedStories, story_lines
    from kforensics.cli.asking import DocumentFindings
    from kforensics.cli.partition_options import ExitStatus
    from kforensics.cli.writing import write_results

    offsets = offset_range(offset)
    is_one = offset is not None and ":" not in offset
    subject = Subject(
        offsets.first if offsets is not None and is_one else None,
        producer_id,
        transactional_id,
        at,
        tuple(options.topic or ()),
        numbers=options.numbers(),
        offsets=None if is_one else offsets,
    )
    options.refuse("this command shows no such", "min_severity", "codes", "since")
    to_format, severity = options.format(), options.severity()
    investigation = options.investigation(all_topics=True)  # only the coordinator's log has transactional ids
    status = ExitStatus(investigation.unreadable)
    with options.stage("partitions read, evaluated and written"), options.watched(investigation) as watched:
        stories = status.watch(explain_subject(watched, subject, status.add_unreadable), story_severities)
        brokers = options.brokers() if redaction is None else redaction.addresses(options.brokers())
        beside = DocumentFindings(investigation, brokers, findings_on(investigation, subject)).tables
        text, rows = story_lines, story_rows
        if redaction is not None:
            redacted = RedactedStories.of(investigation, redaction, subject.table)
            text, rows, beside = redacted.lines, redacted.rows, redacted.beside(beside)
        write_results(stories, to_format, options, text=text, table=subject.table, rows=rows, beside=beside)
    raise typer.Exit(status.code(severity))
