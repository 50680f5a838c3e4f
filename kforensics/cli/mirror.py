"""The command ``kforensics mirror``: what MirrorMaker made of the records, transactions and offsets of a topic."""

# No postponed annotations, see ``command``.

from typing import TYPE_CHECKING, Annotated

import typer

from kforensics.cli.command import SELECTION, Command, epilog, with_shared_options

if TYPE_CHECKING:
    from kforensics.cli.partition_options import PartitionOptions

app = typer.Typer(add_completion=False)
# It is about the records of two clusters, which need no time of evaluation and no settings.
LEFT_OUT = ("min_severity", "codes", "since", "as_of", "alone", "settings", "server_properties", "bootstrap_server")


@app.command(cls=Command, epilog=epilog("mirror /data/source /data/target", "mirror --topic orders source target"))
@with_shared_options(*LEFT_OUT)
def mirror(
    options: "PartitionOptions",
    *,
    mirror_topic: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The mirror of the topic. Default: ALIAS.TOPIC, otherwise TOPIC.",
            rich_help_panel=SELECTION,
        ),
    ] = None,
) -> None:
    """Compare topics with their mirrors in another cluster: missing and repeated records, parts of transactions."""
    from kforensics.analyses.mirror import MirrorRequest, compare_mirrors
    from kforensics.cli.partition_options import ExitStatus
    from kforensics.cli.writing import write_parts, write_results
    from kforensics.forensics.mirrors.mirror_rows import MIRROR, mirror_rows, severities_of_mirror
    from kforensics.render.formats import Format
    from kforensics.render.mirror_text import mirror_text
    from kforensics.render.output import check_output, open_output
    from kforensics.render.streams import progress_meter, watching

    request = MirrorRequest.of(options.paths or (), options.topic or (), options.numbers(), mirror_topic)
    to_format, severity = options.format(), options.severity()
    check_output(options.output, (request.source, request.target))
    options.report_evidence(f"the source {request.source} and the target {request.target}")
    status = ExitStatus()
    comparisons = status.watch(
        compare_mirrors(request, status.add_unlisted, status.add_unreadable), severities_of_mirror
    )
    with (
        progress_meter(0, show=options.shows_progress, what=options.command_name) as meter,
        watching(meter),
        options.stage("topics read, compared and written"),
    ):
        if to_format is Format.TEXT:
            with open_output(options.output) as out:
                write_parts(mirror_text(comparisons, options.screen()), out)
        else:
            write_results(comparisons, to_format, options, text=str, table=MIRROR, rows=mirror_rows)
    raise typer.Exit(status.code(severity))
