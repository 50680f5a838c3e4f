"""The command ``kforensics forecast``: what the next start of a broker will do to its log directories."""

# No postponed annotations, see ``command``.

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from kforensics.cli.command import EXECUTION, Command, epilog, with_shared_options

if TYPE_CHECKING:
    from kforensics.cli.partition_options import ExitStatus, PartitionOptions

app = typer.Typer(add_completion=False)
# There is nothing to select by, and no time of evaluation: it is about the files as they are.
LEFT_OUT = (
    *("topic", "partitions", "min_severity", "codes", "since", "as_of", "alone", "settings"),
    *("server_properties", "bootstrap_server"),
)


@app.command(cls=Command, epilog=epilog("forecast /var/lib/kafka/data", "forecast --format json /data/1 /data/2"))
@with_shared_options(*LEFT_OUT)
def forecast(
    options: "PartitionOptions",
    *,
    release: Annotated[
        str | None,
        typer.Option(
            metavar="RELEASE",
            help="The release that will be started, such as 4.4.0. Default: the one the broker ran last.",
            rich_help_panel=EXECUTION,
        ),
    ] = None,
    elect: Annotated[
        bool,
        typer.Option(
            "--elect",
            help="Show what each replica would cost as leader, of partitions with several replicas under the paths.",
            rich_help_panel=EXECUTION,
        ),
    ] = False,
) -> None:
    """Show what the next start of a broker will do to its log directories: refuse, cut, forget, or nothing."""
    from kforensics.cli.partition_options import ExitStatus
    from kforensics.errors import UsageError
    from kforensics.render.output import check_output
    from kforensics.render.streams import progress_meter, watching

    paths, severity, status = tuple(options.paths or ()), options.severity(), ExitStatus()
    options.format()  # before anything is read
    if not paths:
        raise UsageError("there is no input; name log directories, as in /var/lib/kafka/data")
    check_output(options.output, paths)
    options.report_evidence(f"log directories under {', '.join(paths)}")
    with (
        progress_meter(0, show=options.shows_progress, what=options.command_name) as meter,
        watching(meter),
        options.stage("log directories read, forecast and written"),
    ):
        (_elect if elect else _start)(options, paths, release, status)
    raise typer.Exit(status.code(severity))


def _start(options: "PartitionOptions", paths: tuple[str, ...], release: str | None, status: "ExitStatus") -> None:
    from kforensics.analyses.forecast import forecast_brokers, known_release
    from kforensics.cli.writing import write_results
    from kforensics.forensics.forecast.forecast_rows import FORECAST, forecast_rows, worst_severity_of
    from kforensics.render.forecast_text import forecast_lines

    forecasts = list(status.watch(forecast_brokers(paths, known_release(release)), worst_severity_of))
    text = partial(forecast_lines, screen=options.screen())
    write_results(forecasts, options.format(), options, text=text, table=FORECAST, rows=forecast_rows)


def _elect(options: "PartitionOptions", paths: tuple[str, ...], release: str | None, status: "ExitStatus") -> None:
    from kforensics.analyses.forecast import forecast_elections
    from kforensics.cli.writing import write_results
    from kforensics.errors import UsageError
    from kforensics.forensics.forecast.elections import ELECTIONS, candidate_rows
    from kforensics.render.forecast_text import candidate_lines

    if release is not None:
        raise UsageError("--elect is about elections, not about a start; leave --release out")
    replicas = list(forecast_elections(paths, status.add_unlisted))
    write_results(replicas, options.format(), options, text=candidate_lines, table=ELECTIONS, rows=candidate_rows)
