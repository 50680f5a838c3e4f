"""The command ``kforensics plot``: a chart of a partition or of a log directory as a picture."""

# No postponed annotations, see ``command``.

from pathlib import Path
from typing import Annotated

import typer

from kforensics.cli.command import OUTPUT, AsOf, Command, Config, NoConfig, Partitions, Progress, Quiet, Topic, epilog
from kforensics.cli.messages import FINDINGS, notify
from kforensics.errors import UsageError

app = typer.Typer(add_completion=False)

NAMES = (
    "lso, lso-time, transactions, transactions-time, atomicity, costs, sequences, batch-sizes, batching, "
    "compression, damage, timeline"
)


@app.command(
    cls=Command,
    epilog=epilog(
        "plot lso --output /tmp/lso.svg /var/lib/kafka/data/orders-0",
        "plot transactions-time --topic orders --partition 3 --output /tmp/orders.html /var/lib/kafka/data",
        failure="no data",
    ),
)
def plot(  # long: one parameter per option
    chart: Annotated[str | None, typer.Argument(metavar="CHART", help=f"One of {NAMES}.")] = None,
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", help="Log directories, partition folders, files, archives, globs or URIs."),
    ] = None,
    *,
    topic: Topic = None,
    partition: Partitions = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The file: .svg, .png, or .html, which needs no network.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    as_of: AsOf = None,
    progress: Progress = None,
    quiet: Quiet = False,
    _config: Config = None,
    _no_config: NoConfig = False,
) -> None:
    """Draw a chart of the last stable offset, transactions, sequences, batches, damage or the cluster as a picture."""
    from inspect import unwrap

    from kforensics.analyses.times import as_of_text_ms
    from kforensics.analyses.topics import partition_numbers
    from kforensics.api import drawing
    from kforensics.plots.image import check_suffix, image
    from kforensics.render.output import check_output, open_output
    from kforensics.render.streams import progress_meter, watching

    drawing.check_chart(chart)
    if chart is None or not paths:
        raise UsageError("there is nothing to draw; name log directories, partition folders or files after the chart")
    if output is None:
        raise UsageError(f"the chart needs a file; name one with --output, such as {chart}.svg")
    check_suffix(output)
    for number in partition or ():
        partition_numbers(number)  # which names the option if it is none
    check_output(output, paths)
    as_of_ms = None if as_of is None else as_of_text_ms(as_of, "--as-of")
    with progress_meter(0, show=False if quiet else progress, what="plot") as meter, watching(meter):
        # The errors of the checked function name its parameters.
        drawn = unwrap(drawing.plot)(chart, paths, topic=topic, partition=partition, as_of=as_of_ms)
    with open_output(output) as out:
        out.write(image(drawn, output))
    spec = drawn.to_dict()
    if not quiet:
        notify(f"{spec['title']['text']}; the chart is in {output}")
    if not any(spec["datasets"].values()):
        raise typer.Exit(FINDINGS)
