"""The command ``kforensics collect``: a copy of log directories, of a broker that may be running."""

# No postponed annotations, see ``command``.

from pathlib import Path
from typing import Annotated

import typer

from kforensics.cli.command import OUTPUT, STANDARD_OUTPUT, Command, Config, NoConfig, Progress, Quiet, epilog
from kforensics.cli.messages import CLEAN, UNREADABLE, notify, notify_unreadable
from kforensics.errors import UsageError

app = typer.Typer(add_completion=False)


@app.command(
    cls=Command,
    epilog=epilog(
        "collect /var/lib/kafka/data --output /tmp/case.tar.zst",
        "collect /data/1 /data/2 --output /mnt/usb/broker-1",
        "collect /data/1 --metadata-only --output for-support.tar.zst",
        failure="never",
    ),
)
def collect(  # long: one parameter per option
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="DIR", help="Log directories, folders of them, or globs.")
    ] = None,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="A .tar.zst, .tar.gz or .tar, which appears when it is complete, or a folder.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    metadata_only: Annotated[
        bool,
        typer.Option(
            "--metadata-only",
            help="Leave out the records of data partitions, but not their batch headers and markers.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    progress: Progress = None,
    quiet: Quiet = False,
    _config: Config = None,
    _no_config: NoConfig = False,
) -> None:
    """Copy log directories, also of a running broker, so that an audit of the copy is true, with checksums."""
    from kforensics.analyses.collect import collect_files
    from kforensics.parsers.files.log_capture import find_log_files
    from kforensics.render.streams import progress_meter

    if output is None:
        raise UsageError("the copy needs a place; name one with --output, such as case.tar.zst")
    if output == STANDARD_OUTPUT:
        raise UsageError("a copy cannot go to standard output; name an archive or a folder with --output")
    files = find_log_files(paths or ())
    with progress_meter(files.size, show=False if quiet else progress, what="collect") as meter:
        advance = meter.advance if meter else lambda _: None
        collection = collect_files(files, str(output), advance, metadata_only=metadata_only)
    for path in collection.unreadable:
        notify_unreadable(f"cannot copy {path.path}: {path.why}")
    if not quiet:
        notify(collection.sentence)
    raise typer.Exit(UNREADABLE if collection.unreadable else CLEAN)
