"""The command line. Each command is a function in a module of its own, which is imported when the command is run."""

# No postponed annotations, see ``command``.

import atexit
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.main import get_command

from kforensics.cli.command import (
    CLEAN,
    CONFIG_IN_FOLDER,
    FINDINGS,
    FOUND_CONFIG,
    INTERRUPTED,
    LOG_FORMAT,
    UNREADABLE,
    USAGE,
    WITH_DEFAULTS,
    CommandGroup,
    discard_output,
    notify,
)
from kforensics.errors import EngineError, InputError, KforensicsError, OutputClosedError, UsageError

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
    "cluster",
    "ids",
    "groups",
    "settings",
    "scan",
    "verify",
    "forecast",
    "mirror",
    "audit",
    "query",
    "report",
    "plot",
    "collect",
)


ABOUT_COMPLETION = ("-h", "--help", "--install-completion", "--show-completion")
# They end a command as Ctrl-C does; a shell reports 128 and their number.
ENDING = (signal.SIGTERM, signal.SIGHUP)


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


def _is_about_completion() -> bool:
    """Return whether a shell asks how to complete a command line, or the user may ask for it or read about it.

    To find out which shell it is takes another process, and as long as a small dump.
    """
    return "_KFORENSICS_COMPLETE" in os.environ or sys.argv[1:2] in ([], *([word] for word in ABOUT_COMPLETION))


app = typer.Typer(
    name="kforensics",
    cls=_LazyGroup,
    no_args_is_help=True,
    add_completion=_is_about_completion(),
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_given: bool) -> None:  # typer calls it with the value of the option
    if is_given:
        from kforensics.version import __version__

        typer.echo(f"kforensics {__version__}")
        raise typer.Exit


def _found_config() -> str | None:
    """Return the configuration file that counts if the command line names none, None if there is none."""
    if named := os.environ.get("KFORENSICS_CONFIG"):
        return named
    base = os.environ.get("XDG_CONFIG_HOME") or f"{os.environ.get('HOME', '')}/.config"
    return next(filter(os.path.isfile, (CONFIG_IN_FOLDER, f"{base}/kforensics/{CONFIG_IN_FOLDER}")), None)


def _with_defaults(ctx: typer.Context, path: str, given: set[str]) -> AbstractContextManager[None]:
    from kforensics.cli.config_file import with_defaults  # most machines have no such file

    return with_defaults(ctx, path, given)


@app.callback()
def _root(
    ctx: typer.Context,
    _version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Analyze the log directories of Apache Kafka brokers."""
    ctx.meta[FOUND_CONFIG], ctx.meta[WITH_DEFAULTS] = _found_config(), _with_defaults


def main() -> None:
    """Run the command line. An error is one sentence on standard error, and an exit code."""
    # Modules stay until the end. To search them for garbage while they are imported, and again at the very end, takes a
    # fifth of the time of a small dump.
    gc.disable()
    atexit.register(gc.freeze)
    _reopen_closed_streams()
    LOG_FORMAT[:] = ["text"]
    os.environ.pop("KFORENSICS_UNPACKED", None)  # of the archives of another command, which may have started this one
    try:
        with _ended_by_signals():
            app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OutputClosedError:
        discard_output()
        sys.exit(CLEAN)
    except UsageError as error:
        _fail(error, USAGE)
    except (InputError, EngineError) as error:
        _fail(error, UNREADABLE)
    except KforensicsError as error:
        _fail(error, FINDINGS)
    except OSError as error:  # of a file that is not evidence, or of standard output when it shows help
        where = error.filename or "standard output or a temporary file"
        _fail(UsageError(f"cannot write {where}: {error.strerror or error}; make room, or choose another place"), USAGE)
    finally:
        gc.enable()


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """End the block as Ctrl-C does if a signal arrives that ends a process, and exit with its code.

    A signal that is ignored, as SIGHUP after nohup, stays ignored.
    """
    received: list[int] = []

    def end(number: int, _frame: object) -> None:
        received.append(number)
        if number == received[0]:  # systemd sends two, and the second must not interrupt what the first has begun
            raise KeyboardInterrupt

    is_main = threading.current_thread() is threading.main_thread()
    handled = [number for number in ENDING if is_main and signal.getsignal(number) is signal.SIG_DFL]
    for number in handled:
        signal.signal(number, end)
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if received:
            sys.exit(128 + received[0])
        raise
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


def _reopen_closed_streams() -> None:
    """Open the null device for standard streams that are closed, or a file that is opened later takes their number.

    ``sys.__stdout__`` stays None, so results for standard output are refused.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8", errors="backslashreplace"))


def _fail(error: KforensicsError, code: int) -> None:
    discard_output()
    if _wants_json(sys.argv):
        import json  # most errors are sentences

        from kforensics.render.formats import OUTPUT_SCHEMA

        kind = {USAGE: "usage", UNREADABLE: "unreadable"}.get(code, "other")
        document = {"schema": OUTPUT_SCHEMA, "error": {"kind": kind, "message": str(error), "exit_code": code}}
        with suppress(OSError):
            sys.stderr.write(f"{json.dumps(document)}\n")
    else:
        notify(f"kforensics: {error}")
    sys.exit(code)


def _wants_json(arguments: list[str]) -> bool:
    """Return whether results are JSON, as far as arguments show that may be wrong."""
    following = zip(arguments, [*arguments, ""][1:], strict=False)
    given = [value for name, value in following if name == "--format"]
    given += [name.removeprefix("--format=") for name in arguments if name.startswith("--format=")]
    return bool(given) and given[-1].lower() in ("json", "ndjson")
