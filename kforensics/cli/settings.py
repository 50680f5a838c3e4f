"""The command ``kforensics settings``: the settings in force, where they come from, and what they mean."""

# No postponed annotations, see ``command``.

from functools import partial
from typing import TYPE_CHECKING

import typer

from kforensics.cli.command import Command, epilog, with_shared_options

if TYPE_CHECKING:
    from kforensics.cli.partition_options import PartitionOptions

app = typer.Typer(add_completion=False)


@app.command(
    cls=Command,
    epilog=epilog(
        "settings /var/lib/kafka/data",
        "settings --server-properties /etc/kafka/server.properties --topic orders /var/lib/kafka/data",
        failure="never",
    ),
)
@with_shared_options(refused=("min_severity", "codes", "since", "partitions"))
def settings(options: "PartitionOptions") -> None:
    """Show the settings in force: their values, where these come from, and what they mean for the verdicts."""
    from kforensics.analyses.settings import settings_in_force
    from kforensics.cli.partition_options import ExitStatus
    from kforensics.cli.writing import write_results
    from kforensics.render.ids_text import setting_lines
    from kforensics.render.streams import progress_meter, watching

    options.refuse("this command shows no such", "min_severity", "codes", "since")
    options.refuse("settings are for brokers and topics", "partitions")
    to_format, severity = options.format(), options.severity()
    investigation = options.investigation(all_topics=True)  # the metadata topic and snapshots show settings
    with (
        options.stage("settings read and written"),
        progress_meter(0, show=options.shows_progress, what=options.command_name) as meter,
        watching(meter),
    ):
        rows = settings_in_force(investigation, tuple(options.topic or ()))
        text = partial(setting_lines, screen=options.screen(), topics_first=bool(options.topic))
        write_results([rows], to_format, options, text=text, table=rows.table, rows=lambda found: found)
    raise typer.Exit(ExitStatus(investigation.unreadable).code(severity))
