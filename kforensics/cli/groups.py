"""The command ``kforensics groups``: the consumer and share groups, and the history of one of them."""

# No postponed annotations, see ``command``.

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated

import typer

from kforensics.cli.command import SELECTION, Command, epilog, with_shared_options

if TYPE_CHECKING:
    from kforensics.cli.partition_options import PartitionOptions

app = typer.Typer(add_completion=False)


@app.command(
    cls=Command,
    epilog=epilog(
        "groups /var/lib/kafka/data",
        "groups --topic orders /var/lib/kafka/data",
        "groups billing /var/lib/kafka/data",
        failure="never",
    ),
)
@with_shared_options("min_severity", "codes", "since")
def groups(
    options: "PartitionOptions",
    *,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The history of this group: members, commits, and why it read again. Or type it before the paths.",
            rich_help_panel=SELECTION,
        ),
    ] = None,
) -> None:
    """List the groups with their states and lags, or show the history of one of them."""
    from kforensics.analyses.groups import why_unknown_group
    from kforensics.cli.name_argument import name_before_paths

    if group is None:
        group, options = name_before_paths(options, why_unknown_group)
    raise typer.Exit(show_groups(options, group))


def show_groups(options: "PartitionOptions", group: str | None) -> int:
    """Write the groups, or the history of one of them, and return the exit code.

    Raises:
        UsageError: the options do not go together, or there is no log of a group coordinator, or no such group.
    """
    from dataclasses import replace
    from itertools import chain

    from kforensics.analyses.groups import GroupsRequest, answer_groups
    from kforensics.cli.partition_options import ExitStatus
    from kforensics.cli.writing import write_results
    from kforensics.render.groups_text import group_answer_lines

    request = GroupsRequest(group, tuple(options.topic or ()), options.numbers())
    to_format, severity = options.format(), options.severity()
    # Topics select what groups have committed; their logs need not be among the files.
    investigation = replace(options, topic=None).investigation(all_topics=True)
    status = ExitStatus(investigation.unreadable)
    with options.stage("partitions read and written"), options.watched(investigation) as watched:
        answers = answer_groups(watched, request, status.add_unreadable)
        text = partial(group_answer_lines, screen=options.screen())
        rows = attrgetter("rows")
        if to_format == "text":
            write_results(answers, to_format, options, text=text, table=request.table, rows=rows)
        else:
            parts = chain.from_iterable(map(rows, answers))
            write_results(parts, to_format, options, text=str, table=request.table, rows=lambda part: part)
    return status.code(severity)
