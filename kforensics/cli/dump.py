"""The command ``kforensics dump``: any file of a broker as lines of kafka-dump-log or as rows."""

# No postponed annotations, see ``command``.

import gc
from pathlib import Path
from typing import Annotated, Any

import typer

from kforensics.cli.command import (
    EXECUTION,
    OUTPUT,
    Command,
    Config,
    FormatOption,
    LogFormat,
    NoConfig,
    Output,
    Partitions,
    Progress,
    Topic,
    epilog,
)
from kforensics.cli.messages import set_log_format

# The panels of the help.
KAFKA = "Options of kafka-dump-log"
FILTERS = "Filters (select batches and records; other files are left out)"
OPTIONAL_VALUE = ("--key-decoder-class", "--value-decoder-class")

app = typer.Typer(add_completion=False)


class _DumpCommand(Command):
    """Accepts a decoder class option without a class, as Kafka's tool does."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments."""
        following = [*args, "--"][1:]
        with_values = [
            f"{argument}=" if argument in OPTIONAL_VALUE and after.startswith("-") else argument
            for argument, after in zip(args, following, strict=True)
        ]
        return super().parse_args(ctx, with_values)


@app.command(
    cls=_DumpCommand,
    epilog=epilog(
        "dump --print-data-log orders-0/00000000000000000000.log",
        "dump --format table --records --offset 100:200 orders-0",
        "dump --format csv --damage --output /tmp/damage.csv /var/lib/kafka",
        "dump --formatter transaction-log --style 3.9 __transaction_state-0",
        "dump --style 4.3 --files orders-0/00000000000000000000.index --verify-index-only",
        failure="damage",
    ),
)
def dump(  # long: one parameter per option
    paths: Annotated[list[str] | None, typer.Argument(metavar="PATH", help="Files, folders, globs or URIs.")] = None,
    *,
    files: Annotated[str, typer.Option(metavar="A,B", help="Files, separated by commas.", rich_help_panel=KAFKA)] = "",
    print_data_log: Annotated[
        bool, typer.Option("--print-data-log", help="Print keys and payloads.", rich_help_panel=KAFKA)
    ] = False,
    deep_iteration: Annotated[
        bool, typer.Option("--deep-iteration", help="Print records.", rich_help_panel=KAFKA)
    ] = False,
    skip_record_metadata: Annotated[
        bool,
        typer.Option(
            "--skip-record-metadata", help="Print only the keys and payloads of records.", rich_help_panel=KAFKA
        ),
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
            "--index-sanity-check", help="Run only the index check of a broker at startup.", rich_help_panel=KAFKA
        ),
    ] = False,
    max_message_size: Annotated[
        int, typer.Option(metavar="BYTES", help="Bytes to read at each indexed position.", rich_help_panel=KAFKA)
    ] = 5242880,
    max_bytes: Annotated[
        int, typer.Option(metavar="BYTES", help="Read only this many bytes of a log.", rich_help_panel=KAFKA)
    ] = 2147483647,
    key_decoder_class: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS",
            help="Decoder class of keys: StringDecoder, LongDecoder or IntegerDecoder of org.apache.kafka.tools.api.",
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
            help="Imitate the tool of a release, byte for byte: 4.3, 4.2, 3.9, 2.8 or 2.7.",
            rich_help_panel=KAFKA,
        ),
    ] = None,
    formatter: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Print records as kafka-console-consumer does with its formatter: transaction-log, offsets, "
            "group-metadata, checkpoint, heartbeat or offset-sync, with --style 4.3, 3.9 or 2.8 byte for byte; or "
            "connect, those of Kafka Connect without secrets.",
            rich_help_panel=KAFKA,
        ),
    ] = None,
    output_format: FormatOption = "text",
    output: Output = None,
    batches: Annotated[
        bool, typer.Option("--batches", help="Write only the table of batches.", rich_help_panel=OUTPUT)
    ] = False,
    records: Annotated[
        bool, typer.Option("--records", help="Write only the table of records.", rich_help_panel=OUTPUT)
    ] = False,
    damage: Annotated[
        bool,
        typer.Option(
            "--damage",
            help="Write only the bytes that could not be decoded, with their offsets.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    key_format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT", help="Show keys as utf8, hex, base64, int, long or json.", rich_help_panel=OUTPUT
        ),
    ] = None,
    value_format: Annotated[
        str | None, typer.Option(metavar="FORMAT", help="Show values in one of these formats.", rich_help_panel=OUTPUT)
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
            metavar="FILE", help="File with the secret of the hash. Default: a random secret.", rich_help_panel=OUTPUT
        ),
    ] = None,
    topic: Topic = None,
    partition: Partitions = None,
    offset: Annotated[
        str | None,
        typer.Option(
            metavar="A:B", help="Offsets from A to before B. A:, :B and A alone work too.", rich_help_panel=FILTERS
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(metavar="A:B", help="Times from A to before B, in ms or ISO 8601 (UTC).", rich_help_panel=FILTERS),
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option(metavar="ID", help="Only this producer.", rich_help_panel=FILTERS)
    ] = None,
    producer_epoch: Annotated[
        int | None, typer.Option(metavar="EPOCH", help="Only this producer epoch.", rich_help_panel=FILTERS)
    ] = None,
    leader_epoch: Annotated[
        int | None, typer.Option(metavar="EPOCH", help="Only this partition leader epoch.", rich_help_panel=FILTERS)
    ] = None,
    transactional: Annotated[
        bool | None, typer.Option(help="Only (or no) transactional batches.", rich_help_panel=FILTERS)
    ] = None,
    control: Annotated[bool | None, typer.Option(help="Only (or no) control batches.", rich_help_panel=FILTERS)] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="Only records whose key, as text, matches.", rich_help_panel=FILTERS),
    ] = None,
    isolation: Annotated[
        str,
        typer.Option(
            metavar="LEVEL",
            help="read_committed for what such a consumer receives, by the markers in the log.",
            rich_help_panel=FILTERS,
        ),
    ] = "read_uncommitted",
    aborted: Annotated[
        bool, typer.Option("--aborted", help="Only records of aborted transactions.", rich_help_panel=FILTERS)
    ] = False,
    limit: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Stop after this many rows or lines.", rich_help_panel=OUTPUT)
    ] = None,
    fail_on: Annotated[
        str,
        typer.Option(
            metavar="SEVERITY",
            help="Exit 1 on: error; warning, which includes torn and unused tails; or never.",
            rich_help_panel=EXECUTION,
        ),
    ] = "error",
    max_decompressed_bytes: Annotated[
        int,
        typer.Option(
            min=1, metavar="BYTES", help="Maximum number of bytes to decompress per batch.", rich_help_panel=EXECUTION
        ),
    ] = 134217728,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Do not report damage on standard error.", rich_help_panel=EXECUTION)
    ] = False,
    progress: Progress = None,
    log_format: LogFormat = "text",
    _config: Config = None,
    _no_config: NoConfig = False,
) -> None:
    """Print the contents of files: as the lines of Kafka's own tool, or as rows.

    It continues where Kafka's tool stops, and reports on standard error which bytes could not be read and why.
    """
    from kforensics.analyses.dump import DumpRequest
    from kforensics.analyses.filters import isolation_level, offset_range, pattern, time_range
    from kforensics.cli.dump_run import (
        DumpFailOn,
        choice,
        dump_paths,
        dump_table,
        partition_ranges,
        payload_format,
        redactor,
        run_dump,
    )
    from kforensics.kafka_dump.tool_options import ToolOptions
    from kforensics.parsers.log.selection import Selection
    from kforensics.render.formats import Format

    set_log_format(log_format)
    fail_on_damage = choice(DumpFailOn, fail_on, "--fail-on")
    to_format = choice(Format, output_format, "--format")
    tool = ToolOptions(
        files=dump_paths(files, paths),
        print_data_log=print_data_log,
        deep_iteration=deep_iteration,
        skip_record_metadata=skip_record_metadata,
        verify_index_only=verify_index_only,
        index_sanity_check=index_sanity_check,
        max_message_size=max_message_size,
        max_bytes=max_bytes,
        key_decoder_class=key_decoder_class,
        value_decoder_class=value_decoder_class,
        offsets_decoder=offsets_decoder,
        transaction_log_decoder=transaction_log_decoder,
        cluster_metadata_decoder=cluster_metadata_decoder,
        remote_log_metadata_decoder=remote_log_metadata_decoder,
        share_group_state_decoder=share_group_state_decoder,
    )
    request = DumpRequest(
        paths=tool.files,
        tool=tool,
        style=style,
        formatter=formatter,
        output_format=to_format,
        table=dump_table(to_format, tool, batches=batches, records=records, damage=damage),
        selection=Selection(
            offsets=offset_range(offset),
            times=time_range(time),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            leader_epoch=leader_epoch,
            transactional=transactional,
            control=control,
            key=pattern(key),
        ),
        topics=tuple(topic or ()),
        numbers=partition_ranges(partition),
        isolation=isolation_level(isolation, aborted=aborted),
        aborted=aborted,
        limit=limit,
        key_format=payload_format(key_format, "--key-format"),
        value_format=payload_format(value_format, "--value-format"),
        redact=redactor(redact_key_file, is_wanted=redact),
        budget=max_decompressed_bytes,
        progress=False if quiet else progress,
        quiet=quiet,
    )
    gc.enable()  # a dump may be long, and main() has disabled it for the start
    raise typer.Exit(run_dump(request, output, fail_on_damage))
