"""The command ``kforensics report``: an evidence store as one HTML page."""

# No postponed annotations, see ``command``.

from pathlib import Path
from typing import Annotated

import typer

from kforensics.cli.command import (
    OUTPUT,
    STANDARD_OUTPUT,
    BootstrapServer,
    Command,
    Config,
    FailOn,
    NoConfig,
    Progress,
    Quiet,
    epilog,
)
from kforensics.cli.messages import notify
from kforensics.cli.redact_options import Redact, RedactKeyFile, RedactNames, redaction_of
from kforensics.errors import UsageError

app = typer.Typer(add_completion=False)
NO_STORE = "there is no store to report on; name the folder that kforensics audit --output has written"
NO_FILE = "the report needs a file; name one with --output, such as report.html"


@app.command(
    cls=Command,
    epilog=epilog(
        "report /tmp/evidence --output /tmp/report.html",
        "report --redact --redact-names /tmp/evidence --output /tmp/for-support.html",
    ),
)
def report(
    store: Annotated[
        str | None, typer.Argument(metavar="STORE", help="The evidence store of an audit: a folder or a URI.")
    ] = None,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the report to this file; it appears when it is complete. - is standard output.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    redact: Redact = False,
    redact_names: RedactNames = False,
    redact_key_file: RedactKeyFile = None,
    bootstrap_server: BootstrapServer = None,
    fail_on: FailOn = "error",
    progress: Progress = None,
    quiet: Quiet = False,
    _config: Config = None,
    _no_config: NoConfig = False,
) -> None:
    """Write the report of an evidence store as one HTML file, which needs no network: findings, charts and tables."""
    from kforensics.cli.partition_options import ExitStatus, brokers_of, severity_of
    from kforensics.render.streams import progress_meter
    from kforensics.report_html.report_page import write_report

    if store is None or output is None:
        raise UsageError(NO_STORE if store is None else NO_FILE)
    severity = severity_of(fail_on)
    redaction = redaction_of(redact_key_file, is_wanted=redact, hides_names=redact_names)
    with progress_meter(0, show=False if quiet else progress, what="report") as meter:
        target = None if output == STANDARD_OUTPUT else output
        verdict = write_report(store, target, brokers_of(bootstrap_server), meter, redaction)
    if not quiet:
        notify(f"{verdict.sentence}; the report is in {output}" if target else verdict.sentence)
    raise typer.Exit(ExitStatus(0 if verdict.is_complete else 1, verdict.worst).code(severity))
