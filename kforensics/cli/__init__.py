"""The command line. Each command is a function in a module of its own, which is imported when the command is run."""

# No postponed annotations, see ``command``.

import atexit
import gc
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.main import get_command

from kforensics.cli.command import FINDINGS, INTERRUPTED, UNREADABLE, USAGE, CommandGroup, discard_output
from kforensics.errors import EngineError, InputError, KforensicsError, UsageError

__all__ = ["app", "main"]

# In the order of the help. Each is a module of this package.
COMMANDS = (
    "dump",
    "lso",
    "transactions",
    "producers",
    "duplicates",
    "explain",
    "keys",
    "scan",
    "verify",
    "audit",
    "report",
)


class _LazyCommands(Mapping[str, Any]):
    """The commands by name; each module is imported when its command is looked up."""

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        return get_command(import_module(f"{__name__}.{name}").app)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _LazyGroup(CommandGroup):
    """The root of the command line."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _LazyCommands()  # type: ignore[assignment]  # typer only reads it


app = typer.Typer(
    name="kforensics",
    cls=_LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_given: bool) -> None:  # typer calls it with the value of the option
    if is_given:
        from kforensics.version import __version__

        typer.echo(f"kforensics {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Analyze the log directories of Apache Kafka brokers."""


def main() -> None:
    """Run the command line. An error is one sentence on standard error, and an exit code."""
    # Modules stay until the end. To search them for garbage while they are imported, and again at the very end, takes a
    # fifth of the time of a small dump.
    gc.disable()
    atexit.register(gc.freeze)
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except UsageError as error:
        _fail(error, USAGE)
    except (InputError, EngineError) as error:
        _fail(error, UNREADABLE)
    except KforensicsError as error:
        _fail(error, FINDINGS)
    finally:
        gc.enable()


def _fail(error: KforensicsError, code: int) -> None:
    from kforensics.parsers.format.text_encoding import printable  # only errors need it

    discard_output()
    typer.echo(f"kforensics: {printable(str(error))}", err=True)
    sys.exit(code)
