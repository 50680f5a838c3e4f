"""Options that several commands share, and what stands below the help of each."""

# No postponed annotations, see ``cli``.

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "FILTERS",
    "OUTPUT",
    "RUN",
    "AsOf",
    "FailOn",
    "FormatOption",
    "Output",
    "Paths",
    "Processes",
    "Progress",
    "Quiet",
    "Topic",
    "epilog",
]

OUTPUT, RUN, FILTERS = "Output", "How to run", "Which"

Paths = Annotated[
    list[str] | None, typer.Argument(metavar="PATH", help="Log directories, partition folders, files, globs or URIs.")
]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="text, or rows as table, json, ndjson, csv, parquet or arrow.",
        rich_help_panel=OUTPUT,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write to this file, which appears whole or not at all.", rich_help_panel=OUTPUT),
]
Topic = Annotated[
    list[str] | None, typer.Option(metavar="TOPIC", help="Only this topic; may be repeated.", rich_help_panel=FILTERS)
]
AsOf = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Judge as of this time, in ms or ISO 8601 (UTC); by default the newest modification time of the files.",
        rich_help_panel=RUN,
    ),
]
FailOn = Annotated[
    str,
    typer.Option(
        metavar="SEVERITY",
        help="Exit with 1 from this on: info, warning, error, critical or never.",
        rich_help_panel=RUN,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Say nothing but errors on standard error.", rich_help_panel=RUN)]
Progress = Annotated[
    bool | None, typer.Option(help="Show progress; by default where a person looks.", rich_help_panel=RUN)
]
Processes = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Use so many processes; by default by size.", rich_help_panel=RUN),
]
EXIT_CODES = "Exit code: 0 clean, 1 findings, 2 the command makes no sense as it stands, 3 something could not be read."


def epilog(*examples: str) -> str:
    """Return the examples of a command and what its exit codes mean."""
    lines = "\n\n".join(f"  kforensics {example}" for example in examples)
    return f"\nExamples:\n\n{lines}\n\n{EXIT_CODES}\n"
