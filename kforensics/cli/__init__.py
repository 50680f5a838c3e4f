"""The command line: arguments, one library call, one renderer."""

# No postponed annotations: typer would compile those of all options anew, at every start.

import atexit
import gc
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from kforensics import __version__
from kforensics.cli.judging import JUDGING
from kforensics.cli.options import epilog
from kforensics.cli.questions import QUESTIONS
from kforensics.cli.values import PlainCommand, PlainGroup
from kforensics.errors import EngineError, InputError, KforensicsError, UsageError

__all__ = ["app", "main"]

CLEAN, FINDINGS, USAGE, UNREADABLE, INTERRUPTED = 0, 1, 2, 3, 130
OPTIONAL_VALUE = ("--key-decoder-class", "--value-decoder-class")
DUMP_EXAMPLE = """
Examples:

  kforensics dump --print-data-log orders-0/00000000000000000000.log

  kforensics dump --format table --records --offset 100:200 orders-0

  kforensics dump --format csv --damage --output /tmp/damage.csv /var/lib/kafka

  kforensics dump --style 4.3 --files orders-0/00000000000000000000.index --verify-index-only

Exit code: 0 clean, 1 damage, 2 the command makes no sense as it stands, 3 something could not be read.
"""


class _DumpCommand(PlainCommand):
    """Takes a decoder class option without its class, as Kafka's tool does."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = []
        for word, following in zip(args, [*args, "--"][1:], strict=True):
            words.append(f"{word}=" if word in OPTIONAL_VALUE and following.startswith("-") else word)
        return super().parse_args(ctx, words)


app = typer.Typer(
    name="kforensics",
    cls=PlainGroup,
    help="Reads what Apache Kafka leaves on disk and says what happened.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:  # typer calls it with the option's value
    if wanted:
        typer.echo(f"kforensics {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version_wanted: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Reads what Apache Kafka leaves on disk and says what happened."""


KAFKA = "Options of Kafka's own tool"
FILTERS = "Filters; they choose batches and records, and leave other files out"
OUTPUT = "Output"
RUN = "How to run"


@app.command(cls=_DumpCommand, epilog=DUMP_EXAMPLE)
def dump(  # long: one parameter per option of Kafka's tool and of ours
    context: typer.Context,
    paths: Annotated[list[str] | None, typer.Argument(metavar="PATH", help="Files, folders, globs or URIs.")] = None,
    *,
    files: Annotated[str, typer.Option(metavar="A,B", help="Files, split at commas.", rich_help_panel=KAFKA)] = "",
    print_data_log: Annotated[
        bool, typer.Option("--print-data-log", help="Print keys and payloads.", rich_help_panel=KAFKA)
    ] = False,
    deep_iteration: Annotated[
        bool, typer.Option("--deep-iteration", help="Print record lines.", rich_help_panel=KAFKA)
    ] = False,
    skip_record_metadata: Annotated[
        bool,
        typer.Option("--skip-record-metadata", help="Print only key and payload of records.", rich_help_panel=KAFKA),
    ] = False,
    verify_index_only: Annotated[
        bool,
        typer.Option(
            "--verify-index-only", help="Check indexes without printing their entries.", rich_help_panel=KAFKA
        ),
    ] = False,
    index_sanity_check: Annotated[
        bool,
        typer.Option(
            "--index-sanity-check", help="Only the check that a broker makes at start.", rich_help_panel=KAFKA
        ),
    ] = False,
    max_message_size: Annotated[
        int, typer.Option(help="Bytes to read at each indexed position.", rich_help_panel=KAFKA)
    ] = 5242880,
    max_bytes: Annotated[
        int, typer.Option(help="Read only the first so many bytes of a log.", rich_help_panel=KAFKA)
    ] = 2147483647,
    key_decoder_class: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS",
            help="Decoder class of keys: org.apache.kafka.tools.api. and String-, Long-, IntegerDecoder.",
            rich_help_panel=KAFKA,
        ),
    ] = None,
    value_decoder_class: Annotated[
        str | None, typer.Option(metavar="CLASS", help="Decoder class of values.", rich_help_panel=KAFKA)
    ] = None,
    offsets_decoder: Annotated[
        bool, typer.Option("--offsets-decoder", help="Decode __consumer_offsets.", rich_help_panel=KAFKA)
    ] = False,
    transaction_log_decoder: Annotated[
        bool, typer.Option("--transaction-log-decoder", help="Decode __transaction_state.", rich_help_panel=KAFKA)
    ] = False,
    cluster_metadata_decoder: Annotated[
        bool, typer.Option("--cluster-metadata-decoder", help="Decode __cluster_metadata.", rich_help_panel=KAFKA)
    ] = False,
    remote_log_metadata_decoder: Annotated[
        bool, typer.Option("--remote-log-metadata-decoder", help="Decode __remote_log_metadata.", rich_help_panel=KAFKA)
    ] = False,
    share_group_state_decoder: Annotated[
        bool, typer.Option("--share-group-state-decoder", help="Decode __share_group_state.", rich_help_panel=KAFKA)
    ] = False,
    style: Annotated[
        str | None,
        typer.Option(
            metavar="RELEASE",
            help="Imitate a release's tool to the byte: 4.3, 4.2, 3.9, 2.8, 2.7.",
            rich_help_panel=KAFKA,
        ),
    ] = None,
    output_format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="text, or rows as table, json, ndjson, csv, parquet or arrow.",
            rich_help_panel=OUTPUT,
        ),
    ] = "text",
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write to this file, which appears whole or not at all.", rich_help_panel=OUTPUT
        ),
    ] = None,
    batches: Annotated[
        bool, typer.Option("--batches", help="A row per batch, and no other table.", rich_help_panel=OUTPUT)
    ] = False,
    records: Annotated[
        bool, typer.Option("--records", help="A row per record, and no other table.", rich_help_panel=OUTPUT)
    ] = False,
    damage: Annotated[
        bool,
        typer.Option("--damage", help="A row per range of bytes that could not be decoded.", rich_help_panel=OUTPUT),
    ] = False,
    key_format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT", help="Show keys as utf8, hex, base64, int, long or json.", rich_help_panel=OUTPUT
        ),
    ] = None,
    value_format: Annotated[
        str | None, typer.Option(metavar="FORMAT", help="Show values so; the same formats.", rich_help_panel=OUTPUT)
    ] = None,
    redact: Annotated[
        bool,
        typer.Option(
            "--redact", help="Replace keys, values and header values by a keyed hash.", rich_help_panel=OUTPUT
        ),
    ] = False,
    redact_key_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the hash's secret; without it one is drawn for this run.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    offset: Annotated[
        str | None,
        typer.Option(
            metavar="A:B", help="Offsets from A to before B; A:, :B and A alone too.", rich_help_panel=FILTERS
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(metavar="A:B", help="Times from A to before B, in ms or ISO 8601 (UTC).", rich_help_panel=FILTERS),
    ] = None,
    producer_id: Annotated[int | None, typer.Option(help="Producer id.", rich_help_panel=FILTERS)] = None,
    producer_epoch: Annotated[int | None, typer.Option(help="Producer epoch.", rich_help_panel=FILTERS)] = None,
    leader_epoch: Annotated[int | None, typer.Option(help="Partition leader epoch.", rich_help_panel=FILTERS)] = None,
    transactional: Annotated[
        bool | None, typer.Option(help="Transactional batches only, or no such.", rich_help_panel=FILTERS)
    ] = None,
    control: Annotated[
        bool | None, typer.Option(help="Control batches only, or no such.", rich_help_panel=FILTERS)
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="Records in whose key, as text, this is found.", rich_help_panel=FILTERS),
    ] = None,
    isolation: Annotated[
        str,
        typer.Option(
            metavar="LEVEL",
            help="read_committed: what such a consumer receives, by the markers in the log.",
            rich_help_panel=FILTERS,
        ),
    ] = "read_uncommitted",
    aborted: Annotated[
        bool, typer.Option("--aborted", help="Records of aborted transactions only.", rich_help_panel=FILTERS)
    ] = False,
    limit: Annotated[
        int | None, typer.Option(min=0, help="Stop after so many rows of a table, or lines.", rich_help_panel=OUTPUT)
    ] = None,
    fail_on: Annotated[
        str,
        typer.Option(
            metavar="SEVERITY",
            help="Exit with 1 from this on: error; warning, for torn and unused tails too; never.",
            rich_help_panel=RUN,
        ),
    ] = "error",
    max_decompressed_bytes: Annotated[
        int, typer.Option(min=1, help="Most bytes to decompress per batch.", rich_help_panel=RUN)
    ] = 134217728,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Say nothing of damage on standard error.", rich_help_panel=RUN)
    ] = False,
    progress: Annotated[
        bool | None, typer.Option(help="Show progress; by default where a person looks.", rich_help_panel=RUN)
    ] = None,
) -> None:
    """Print what is in files of a broker's disk: the lines of Kafka's own tool, or rows.

    Goes on where Kafka's tool stops, and says on standard error which bytes could not be read and why.
    """
    from kforensics.cli.dump_command import run_dump  # --help must not load what a dump needs

    gc.enable()  # a dump may be long, and main() has switched it off for the start
    raise typer.Exit(_until_closed(lambda: run_dump(context.params)))


for _command, _examples in (QUESTIONS | JUDGING).items():
    app.command(cls=PlainCommand, epilog=epilog(*_examples))(_command)


def _until_closed(run: Callable[[], int]) -> int:
    """Run a command and return its exit code; if whoever reads the output has seen enough, that is no failure."""
    try:
        code = run()
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_the_rest()
        return CLEAN
    return code


def _discard_the_rest() -> None:
    """Keep the interpreter from flushing, as it ends, into a stream that takes no more."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
            continue
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def main() -> None:
    """Run the command line; every error is a sentence and an exit code."""
    # What is loaded stays until the end. To look through it for garbage, on the way and once more at the very end,
    # takes a fifth of the time of a small dump.
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
    from kforensics.parsers.format.printable import printable  # only errors need it

    _discard_the_rest()
    typer.echo(f"kforensics: {printable(str(error))}", err=True)
    sys.exit(code)
