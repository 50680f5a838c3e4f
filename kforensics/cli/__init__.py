"""The command line: its main function, signals, exit codes and defaults of a configuration file.

Each command is a function in a module of its own, which is imported when the command is run.
"""

# No postponed annotations, see ``command``.

import atexit
import gc
import os
import signal
import sys
import threading
from _thread import interrupt_main
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.main import get_command

from kforensics.cli.command import CONFIG_IN_FOLDER, FOUND_CONFIG, WITH_DEFAULTS, CommandGroup
from kforensics.cli.messages import (
    CLEAN,
    ERRORS_ARE_JSON,
    INTERRUPTED,
    LOG_FORMAT,
    discard_output,
    exit_code_of,
    format_among,
    notify_error,
    set_error_format,
)
from kforensics.errors import KforensicsError, OutputClosedError, UsageError

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


SECONDS_UNTIL_REPEATED = 0.05  # a finalizer has ended by then

ABOUT_COMPLETION = ("-h", "--help", "--install-completion", "--show-completion")
# What typer raises if the command line is wrong: an error of click, or of the copy of it in newer releases.
WRONG_ARGUMENTS: Any = typer.BadParameter.__base__
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

    def make_context(self, *given: Any, **settings: Any) -> Any:
        """Return the context of the command line."""
        with _arguments_refused():
            return super().make_context(*given, **settings)

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        with _arguments_refused():
            return super().invoke(ctx)


@contextmanager
def _arguments_refused() -> Iterator[None]:
    """Raise our own error for arguments that typer refuses if errors are JSON; otherwise typer shows its own.

    Raises:
        UsageError: typer refuses them.
    """
    try:
        yield
    except WRONG_ARGUMENTS as error:
        if not ERRORS_ARE_JSON[-1]:
            raise
        raise UsageError(error.format_message()) from error


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
    set_error_format(format_among(sys.argv))
    os.environ.pop("KFORENSICS_UNPACKED", None)  # of the archives of another command, which may have started this one
    try:
        with _ended_by_signals():
            app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OutputClosedError:
        discard_output()
        sys.exit(CLEAN)
    except KforensicsError as error:
        _fail(error)
    except OSError as error:  # of a file that is not evidence, or of standard output when it shows help
        where = error.filename or "standard output or a temporary file"
        _fail(UsageError(f"cannot write {where}: {error.strerror or error}; make room, or choose another place"))
    finally:
        gc.enable()


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """End the block as Ctrl-C does if a signal arrives that ends a process, and exit with its code.

    A signal that is ignored, as SIGHUP after nohup, stays ignored. Python only prints an exception that is raised in a
    finalizer or in the callback of a weak reference, and goes on. Each import runs such callbacks. KeyboardInterrupt is
    raised again after them.
    """
    received: list[int] = []
    repeated: list[threading.Timer] = []

    def end(number: int, _frame: object) -> None:
        received.append(number)
        if number == received[0]:  # systemd sends two, and the second must not interrupt what the first has begun
            raise KeyboardInterrupt

    def repeat(unraisable: "sys.UnraisableHookArgs", /) -> None:
        if isinstance(unraisable.exc_value, KeyboardInterrupt):
            again = threading.Timer(SECONDS_UNTIL_REPEATED, interrupt_main, received[:1] or [signal.SIGINT])
            again.daemon = True
            again.start()
            repeated.append(again)
        else:
            report(unraisable)

    report, sys.unraisablehook = sys.unraisablehook, repeat
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
        sys.unraisablehook = report
        for timer in repeated:
            timer.cancel()
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


def _fail(error: KforensicsError) -> None:
    discard_output()
    code = exit_code_of(error)
    notify_error(error, code, "kforensics: ")
    sys.exit(code)
