"""What the command line is built from: declarations of shared options, parsing, help, and exit codes.

typer converts every value with pydantic, strings and defaults too. The import of pydantic, and a validator for each
option, take longer than a small dump takes altogether. Therefore a command first reads its values itself. If one of
them is not plain, such as a negative number or a file that cannot be read, typer parses the command line as usual.
"""

# No postponed annotations: typer and this module need the objects.

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from kforensics.cli.messages import discard_output, notify, set_error_format, set_log_format

# The panels of the help, and the options that several commands share.
SELECTION, OUTPUT, EXECUTION = "Selection", "Output", "Execution"

Paths = Annotated[
    list[str] | None,
    typer.Argument(metavar="PATH", help="Log directories, partition folders, archives, files, globs, URIs or -."),
]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="text, or rows as table, json, ndjson, csv, csv-safe, parquet or arrow.",
        rich_help_panel=OUTPUT,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write to this file; it appears when it is complete. Default, and -: standard output.",
        rich_help_panel=OUTPUT,
    ),
]
# What users of other commands name standard output; a file of that name needs its whole path.
STANDARD_OUTPUT = Path("-")
ShowAll = Annotated[
    bool,
    typer.Option(
        "--all",
        help="In text, also the partitions with nothing to show, and every entry of each list.",
        rich_help_panel=OUTPUT,
    ),
]
Color = Annotated[
    str,
    typer.Option(
        metavar="WHEN",
        help="Colors in text: auto (on a terminal, without NO_COLOR), always or never.",
        rich_help_panel=OUTPUT,
    ),
]
Topic = Annotated[
    list[str] | None,
    typer.Option(
        metavar="GLOB", help="Only topics that match; '!GLOB' excludes. Repeatable.", rich_help_panel=SELECTION
    ),
]
Partitions = Annotated[
    list[str] | None,
    typer.Option(
        "--partition",
        metavar="N",
        help="Only partitions with this number, or in a range such as 0-9. Repeatable.",
        rich_help_panel=SELECTION,
    ),
]
Codes = Annotated[
    list[str] | None,
    typer.Option(
        "--code",
        metavar="CODE",
        help="Only findings with this code, and partitions with such. Repeatable.",
        rich_help_panel=SELECTION,
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Only what happened since this time, or in the last 90s, 15m, 2h, … before the time of evaluation.",
        rich_help_panel=SELECTION,
    ),
]
AsOf = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Evaluate as of this time, now, in ms or ISO 8601. Default: that of the newest file of a log directory.",
        rich_help_panel=EXECUTION,
    ),
]
Alone = Annotated[
    bool,
    typer.Option(
        "--alone",
        help="Ignore logs of coordinators and of the metadata that are around the paths or in other topics.",
        rich_help_panel=EXECUTION,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A setting of the brokers, such as transaction.max.timeout.ms=3600000. Repeatable.",
        rich_help_panel=EXECUTION,
    ),
]
BootstrapServer = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="The brokers that commands in remedies name. Default: KFORENSICS_BOOTSTRAP, or the shell's $BOOTSTRAP.",
        rich_help_panel=OUTPUT,
    ),
]
FailOn = Annotated[
    str,
    typer.Option(
        metavar="SEVERITY",
        help="Exit 1 at this severity or above: info, warning, error, critical or never.",
        rich_help_panel=EXECUTION,
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Write only errors to standard error.", rich_help_panel=EXECUTION)
]
Verbose = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        help="Write to standard error what is used as evidence, -vv also how long stages take; audit shows findings.",
        rich_help_panel=EXECUTION,
    ),
]
LogFormat = Annotated[
    str,
    typer.Option(
        metavar="FORMAT",
        help="Sentences on standard error as text, or as json: one object a line.",
        rich_help_panel=EXECUTION,
    ),
]
Config = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help="Take defaults from this file.", rich_help_panel=EXECUTION),
]
NoConfig = Annotated[bool, typer.Option("--no-config", help="Ignore every kforensics.toml.", rich_help_panel=EXECUTION)]
Progress = Annotated[
    bool | None, typer.Option(help="Show progress. Default: only on a terminal.", rich_help_panel=EXECUTION)
]
Processes = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Number of processes. Default: depends on the size.", rich_help_panel=EXECUTION
    ),
]


# Every integer with so many digits fits 64 bits.
MAX_DIGITS = 18
# What a plain value may not be.
NOT_PLAIN = object()
# The file in the working directory; and what a context keeps: a file that is found, parameters that are given.
CONFIG_IN_FOLDER, FOUND_CONFIG, GIVEN_PARAMETERS = "kforensics.toml", "kforensics.config", "kforensics.given"
WITH_DEFAULTS = "kforensics.with_defaults"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOptions:
    """The options of every command on partitions, as the user gives them; each is stated here and nowhere else."""

    paths: Paths = None
    topic: Topic = None
    partitions: Partitions = None
    min_severity: Annotated[
        str | None,
        typer.Option(
            "--severity",
            metavar="SEVERITY",
            help="Only findings at this severity or above, and partitions with such.",
            rich_help_panel=SELECTION,
        ),
    ] = None
    codes: Codes = None
    since: Since = None
    output_format: FormatOption = "text"
    output: Output = None
    show_all: ShowAll = False
    wide: Annotated[
        bool, typer.Option("--wide", help="In text, all columns of tables, however wide.", rich_help_panel=OUTPUT)
    ] = False
    color: Color = "auto"
    tz: Annotated[
        str | None,
        typer.Option(
            "--tz",
            metavar="ZONE",
            help="Time zone of times in text, such as Europe/Berlin or +02:00. Default: UTC.",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    as_of: AsOf = None
    alone: Alone = False
    settings: Settings = None
    server_properties: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Take settings from a broker's server.properties.", rich_help_panel=EXECUTION
        ),
    ] = None
    bootstrap_server: BootstrapServer = None
    fail_on: FailOn = "error"
    progress: Progress = None
    quiet: Quiet = False
    verbose: Verbose = 0
    log_format: LogFormat = "text"
    config: Config = None
    no_config: NoConfig = False


def with_shared_options(
    *left_out: str, refused: Sequence[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command all shared options.

    The command is declared with ``options: PartitionOptions`` as its first parameter. typer sees the fields of
    :class:`SharedOptions` in its place, the paths first and the other fields last.

    Args:
        left_out: names of fields that the command declares itself or does not have.
        refused: names of fields that the command refuses with a sentence, so that its help leaves them out.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        shared = {field.name: field for field in fields(SharedOptions) if field.name not in left_out}
        _, *own = inspect.signature(command).parameters.values()
        first, *merged = (
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=_hidden(field.type) if name in refused else field.type,
            )
            for name, field in shared.items()
        )

        def decorated(**given: Any) -> None:
            # Help has no use for the class, whose module needs this one.
            partition_options = import_module("kforensics.cli.partition_options").PartitionOptions
            set_log_format(given.get("log_format", "text"))
            if given.get("verbose") and given.get("config"):
                notify(f"configuration: {given['config']}")
            repeatable = import_module("kforensics.cli.writing").repeatable
            repeated = repeatable(command.__name__, given, parameters)
            options = {name: given.pop(name) for name in shared if name in given}
            command(partition_options(**options, repeated=repeated), **given)

        decorated.__name__, decorated.__doc__ = command.__name__, command.__doc__
        parameters = sorted([first, *own, *merged], key=lambda each: each.name != "paths")  # a command may have its own
        decorated.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # as inspect documents
        decorated.__annotations__ = {each.name: each.annotation for each in parameters}
        return decorated

    return decorate


def _hidden(annotation: Any) -> Any:
    """Return the annotation of an option that help leaves out."""
    of_value, option = get_args(annotation)
    hidden = copy(option)
    hidden.hidden = True
    return Annotated[of_value, hidden]


class _PrintedHelp:
    """What prints its help in panels."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        from kforensics.cli.help import print_help  # rich is only needed for help

        try:
            print_help(self, ctx)
            sys.stdout.flush()
        except (BrokenPipeError, SystemExit):  # rich exits with 1
            discard_output()


class Command(_PrintedHelp, TyperCommand):
    """A command whose function declares each parameter as ``Annotated[type, typer.Option(…)]``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments into ``ctx.params``, and return those that are left over: none."""
        given, rest, _ = self.make_parser(ctx).parse_args(args=[*args])
        ctx.meta[GIVEN_PARAMETERS] = {name for name, value in given.items() if value is not None}
        values = _plain_values(getattr(self.callback, "__annotations__", {}), given)
        if rest or values is None:
            return super().parse_args(ctx, args)
        ctx.params.update(values)  # the function has the defaults of the other parameters
        return []

    def invoke(self, ctx: Any) -> Any:
        """Run the command, with the defaults of a configuration file if there is one."""
        params = {name.lstrip("_"): value for name, value in ctx.params.items()}
        path = None if params.get("no_config") else params.get("config") or ctx.meta.get(FOUND_CONFIG)
        if path is None:
            return self._run(ctx)
        with ctx.meta[WITH_DEFAULTS](ctx, path, ctx.meta[GIVEN_PARAMETERS]):
            set_error_format(ctx.params.get("output_format"))
            return self._run(ctx)

    def _run(self, ctx: Any) -> Any:
        """Run the command; what it would write to a file goes to standard output if that is named ``-``."""
        if ctx.params.get("output") == STANDARD_OUTPUT and self.callback.__annotations__["output"] == Output:
            ctx.params["output"] = None
        return super().invoke(ctx)


class CommandGroup(_PrintedHelp, TyperGroup):
    """A group of commands, whose own options are flags."""

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option ``--help``."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False  # typer does not convert it, as it would convert None
        return option


def epilog(*examples: str, failure: str = "findings") -> str:
    """Return the end of a command's help: examples, and what the exit codes mean."""
    lines = "\n".join(f"  kforensics {example}" for example in examples)
    return f"Examples:\n{lines}\n\nExit code: 0 clean, 1 {failure}, 2 usage error, 3 unreadable input."


def _plain_values(annotations: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the values of the parameters that are given, None if one of them is not plain."""
    values = {}
    for name, value in given.items():
        if value is None:
            continue
        if name not in annotations:
            return None  # --help
        kind, declared = get_args(annotations[name])
        values[name] = _plain_value(get_args(kind) or (kind,), declared, value)
    return None if NOT_PLAIN in values.values() else values


def _plain_value(kinds: tuple[Any, ...], declared: Any, value: Any) -> Any:
    """Return the value of a parameter, NOT_PLAIN if typer has to convert or refuse it.

    Args:
        kinds: the types of the parameter, such as int and None.
        declared: its ``typer.Option`` or ``typer.Argument``.
        value: a string, a list of strings or, for a flag, a bool.
    """
    if list[str] in kinds:
        return list(value) if isinstance(value, list | tuple) else NOT_PLAIN
    if getattr(declared, "count", False):
        return value if isinstance(value, int) else NOT_PLAIN
    if bool in kinds:
        return value if isinstance(value, bool) else NOT_PLAIN
    if not isinstance(value, str):
        return NOT_PLAIN
    if int in kinds:
        is_plain = value.isascii() and value.isdigit() and len(value) <= MAX_DIGITS and declared.max is None
        return int(value) if is_plain and int(value) >= (declared.min or 0) else NOT_PLAIN
    if Path in kinds:
        return Path(value) if os.access(value, os.R_OK) or not os.path.lexists(value) else NOT_PLAIN
    return value if str in kinds else NOT_PLAIN
