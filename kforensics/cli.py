"""The command line: arguments, one library call, one renderer."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from kforensics import __version__
from kforensics.errors import InputError, KforensicsError, UsageError

__all__ = ["app", "main"]

CLEAN, FINDINGS, USAGE, UNREADABLE, INTERRUPTED = 0, 1, 2, 3, 130
OPTIONAL_VALUE = ("--key-decoder-class", "--value-decoder-class")
DUMP_EXAMPLE = """
Examples:

  kforensics dump --print-data-log t-0/00000000000000000000.log

  kforensics dump --format ndjson --records --offset 100:200 --value-format hex t-0

  kforensics dump --style 4.3 --files t-0/00000000000000000000.index --verify-index-only
"""

app = typer.Typer(
    name="kforensics",
    help="Reads what Apache Kafka leaves on disk and says what happened.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class _DumpCommand(TyperCommand):
    """Takes a decoder class option without its class, as Kafka's tool does."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = []
        for word, following in zip(args, [*args[1:], "--"], strict=True):
            words.append(f"{word}=" if word in OPTIONAL_VALUE and following.startswith("-") else word)
        return super().parse_args(ctx, words)


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
FILTERS = "Filters"
OUTPUT = "Output"


@app.command(cls=_DumpCommand, epilog=DUMP_EXAMPLE)
def dump(  # long: one parameter per option of Kafka's tool and of ours
    context: typer.Context,
    paths: Annotated[list[str] | None, typer.Argument(help="Files, folders, globs or URIs.")] = None,
    *,
    files: Annotated[str, typer.Option(help="Files, split at commas.", rich_help_panel=KAFKA)] = "",
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
        str | None, typer.Option(help="Decoder class of keys: String-, Long-, IntegerDecoder.", rich_help_panel=KAFKA)
    ] = None,
    value_decoder_class: Annotated[
        str | None, typer.Option(help="Decoder class of values.", rich_help_panel=KAFKA)
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
        typer.Option(help="Imitate a release's tool to the byte: 4.3, 4.2, 3.9, 2.8, 2.7.", rich_help_panel=KAFKA),
    ] = None,
    output_format: Annotated[
        str, typer.Option("--format", help="text, table, json, ndjson, csv, parquet or arrow.", rich_help_panel=OUTPUT)
    ] = "text",
    output: Annotated[
        Path | None, typer.Option(help="Write to this file, which appears whole or not at all.", rich_help_panel=OUTPUT)
    ] = None,
    batches: Annotated[
        bool, typer.Option("--batches", help="A row per batch; the default.", rich_help_panel=OUTPUT)
    ] = False,
    records: Annotated[bool, typer.Option("--records", help="A row per record.", rich_help_panel=OUTPUT)] = False,
    damage: Annotated[
        bool,
        typer.Option("--damage", help="A row per range of bytes that could not be decoded.", rich_help_panel=OUTPUT),
    ] = False,
    key_format: Annotated[
        str | None, typer.Option(help="Show keys as utf8, hex, base64, int, long or json.", rich_help_panel=OUTPUT)
    ] = None,
    value_format: Annotated[
        str | None, typer.Option(help="Show values as utf8, hex, base64, int, long or json.", rich_help_panel=OUTPUT)
    ] = None,
    redact: Annotated[
        bool,
        typer.Option(
            "--redact", help="Replace keys, values and header values by a keyed hash.", rich_help_panel=OUTPUT
        ),
    ] = False,
    redact_key_file: Annotated[
        Path | None,
        typer.Option(help="File with the hash's secret; without it one is drawn for this run.", rich_help_panel=OUTPUT),
    ] = None,
    offset: Annotated[str | None, typer.Option(help="Offsets A:B, B not included.", rich_help_panel=FILTERS)] = None,
    time: Annotated[
        str | None, typer.Option(help="Times A:B in ms or ISO 8601, B not included.", rich_help_panel=FILTERS)
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
        str | None, typer.Option(help="Records whose key, as text, this pattern is found in.", rich_help_panel=FILTERS)
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="Stop after so many rows.", rich_help_panel=FILTERS)] = None,
    max_decompressed_bytes: Annotated[int, typer.Option(min=1, help="Most bytes to decompress per batch.")] = 134217728,
    fail_on: Annotated[
        str, typer.Option(help="Exit with 1 at damage of this severity: warning, error or never.")
    ] = "error",
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing of damage on standard error.")] = False,
    progress: Annotated[bool | None, typer.Option(help="Show progress; by default where a person looks.")] = None,
) -> None:
    """Print what is in a file: Kafka's own dump to the byte, or rows; and go on where Kafka's tool stops."""
    from kforensics.dump_command import run_dump  # --help must not load what a dump needs

    raise typer.Exit(run_dump(context.params))


def main() -> None:
    """Run the command line; every error is a sentence and an exit code."""
    try:
        app()
    except BrokenPipeError:
        # Whoever read the output has seen enough; keep the interpreter from flushing into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(CLEAN)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except UsageError as error:
        _fail(error, USAGE)
    except InputError as error:
        _fail(error, UNREADABLE)
    except KforensicsError as error:
        _fail(error, FINDINGS)


def _fail(error: KforensicsError, code: int) -> None:
    typer.echo(f"kforensics: {error}", err=True)
    sys.exit(code)
