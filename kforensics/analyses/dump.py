"""Dumps files: as Kafka's tool prints them, as similar lines that do not stop at damage, or as rows of tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, cast

from kforensics.analyses.filters import Isolation
from kforensics.analyses.read_files import (
    Convert,
    FilesReader,
    Part,
    Read,
    drain,
    isolation_filter_of,
    kind_to_read,
    open_files,
    served_files,
)
from kforensics.errors import InputError, UsageError
from kforensics.kafka_dump.tool_options import ToolOptions
from kforensics.parsers.files.discover import FoundFile, Notify, find_files
from kforensics.parsers.format.decompression import DEFAULT_BUDGET
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.kernels.policy import MAX_DECOMPRESSED_BYTES, kernels_for
from kforensics.parsers.log.selection import Selection
from kforensics.parsers.tables.file_rows import LOG_KINDS, ReadOptions, RowLimit, damage_rows, table_name_of
from kforensics.render.formats import LINE_FORMATS, ONE_TABLE, BytesFormat, Format, LineStyle
from kforensics.render.streams import TextSink, progress_meter

if TYPE_CHECKING:
    from kforensics.forensics.sidecar.isolation import IsolationFilter
    from kforensics.parsers.files.source import Source
    from kforensics.parsers.kernels.policy import KernelLoader
    from kforensics.parsers.kernels.templates import PayloadStyles
    from kforensics.parsers.tables.schemas import Table
    from kforensics.render.payloads import Redactor
    from kforensics.render.writers import LineParts

# Formats that can write several tables, including the damage.
WITH_DAMAGE = (Format.JSON, Format.NDJSON, Format.TABLE)
# Reasons of damage that does not prevent reading.
SUSPECT = ("crc", "magic")
# The reason of records that a copy lacks on purpose.
LEFT_OUT = "left-out"
# Reasons of damage that a crash, or a copy of a running broker, leaves at the end of a file. It is no error by itself.
TAILS = ("truncated", "zero-tail", "ragged", "shrunk")


@dataclass(frozen=True, slots=True)
class DumpRequest:
    """What to dump, and how.

    Attributes:
        paths: files, folders, globs and URIs.
        tool: the options of Kafka's own tool.
        style: the release whose tool to imitate, None for the default style.
        formatter: the formatter of kafka-console-consumer that prints the records, None for the lines of the dump tool.
        output_format: text, or a format of rows.
        table: ``batches`` or ``records`` of logs, ``damage`` of all files, None for each file's own table.
        selection: which batches and records.
        topics: only files of topics with these names or globs, without those that begin with ``!``; all if it is empty.
        numbers: only files of partitions with these numbers; all if it is empty.
        isolation: which of them by the outcome of their transactions.
        aborted: only the records of aborted transactions.
        limit: maximum number of rows, or of record lines, or of batch lines if no records are printed.
        key_format: how to show keys, None for the default of the output format.
        value_format: how to show values, None for the default of the output format.
        redact: replaces keys, values and header values.
        budget: maximum number of bytes to decompress per batch.
        progress: whether to show progress, None for only on a terminal.
        quiet: do not report damage.
    """

    paths: tuple[str, ...]
    tool: ToolOptions = field(default_factory=ToolOptions)
    style: str | None = None
    formatter: str | None = None
    output_format: Format = Format.TEXT
    table: str | None = None
    selection: Selection = field(default_factory=Selection)
    topics: tuple[str, ...] = ()
    numbers: tuple[range, ...] = ()
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    aborted: bool = False
    limit: int | None = None
    key_format: BytesFormat | None = None
    value_format: BytesFormat | None = None
    redact: Redactor | None = None
    budget: int = DEFAULT_BUDGET
    progress: bool | None = None
    quiet: bool = False

    @property
    def takes_columns(self) -> bool:
        """Whether the output can be made of the columns of files."""
        return not self.tool.topic_decoder


@dataclass(slots=True)
class DumpOutcome:
    """What went wrong in a dump.

    Attributes:
        warn: takes a sentence for each input that cannot be read.
        unreadable: inputs that cannot be read.
        damaged: ranges of damage, except torn and unused tails.
        tails: torn and unused tails.
        quiet: count damage, but do not report it.
        without_records: whether records were left out of the copy.
    """

    warn: Notify = field(compare=False)
    unreadable: int = 0
    damaged: int = 0
    tails: int = 0
    quiet: bool = False
    without_records: bool = False

    def add_damage(self, path: str, damage: Damage, notify: Notify) -> None:
        """Count and report a range of damage."""
        if damage.reason == LEFT_OUT:
            self._add_left_out(path, damage, notify)
            return
        if not self.quiet:
            notify(damage_sentence(path, damage))
        if damage.reason in TAILS and damage.next_good_position is None and damage.inside_batch is None:
            self.tails += 1
        else:
            self.damaged += 1

    def _add_left_out(self, path: str, damage: Damage, notify: Notify) -> None:
        """Report records that were left out of a copy on purpose, once: they are no damage."""
        if not (self.quiet or self.without_records):
            notify(f"{path}: {damage.detail}; so it is for every batch of data partitions")
        self.without_records = True

    def add_undecoded(self, path: str, offset: int, why: object, notify: Notify, *, ends: bool) -> None:
        """Count and report a record that a formatter cannot print, and whether that ends the output."""
        if not self.quiet:
            end = "; kafka-console-consumer ends here" if ends else ""
            notify(f"{path}: the record at offset {offset} cannot be printed: {why}{end}")
        self.damaged += 1

    def add_unreadable(self, error: InputError) -> None:
        """Count and report an input that cannot be read."""
        self.warn(str(error))
        self.unreadable += 1


def imitate(request: DumpRequest, out: IO[bytes], err: IO[bytes]) -> int:
    """Print what Kafka's tool prints, and return its exit code."""
    from kforensics.kafka_dump.styles import STYLES
    from kforensics.kafka_dump.tool_run import run_tool  # only --style needs it

    text, errors = TextSink(out), TextSink(err)
    style = STYLES[request.style or "4.3"]
    directory = os.getcwd()  # noqa: PTH109  # Java's user.dir, as text
    # The tool prints nothing of its own, so the compilation of kernels is not reported.
    budget = request.budget
    code = run_tool(request.tool, style, text.write, errors.write, directory, budget=budget, kernels=kernels_for)
    text.flush()
    errors.flush()
    return code


def selected_files(
    request: DumpRequest, isolation_filter: IsolationFilter | None, notify: Notify, outcome: DumpOutcome
) -> list[FoundFile]:
    """Return the files to dump: with filters, which select batches and records, only logs."""
    files, outcome.unreadable = find_files(request.paths, outcome.warn)
    if not files and not outcome.unreadable:
        outcome.warn(f"there is no file under {', '.join(request.paths)}")
        outcome.unreadable += 1
    if request.topics or request.numbers:
        from kforensics.analyses.topics import files_of_partitions  # few dumps select by them

        files = files_of_partitions(files, request.topics, request.numbers)
    if request.selection == Selection() and isolation_filter is None:
        return files
    logs = [file for file in files if file.kind in (*LOG_KINDS, "unknown")]
    if files and not logs:
        raise UsageError("filters select batches and records, and none of these files has any; leave out the filters")
    return served_files(logs, request.paths, notify) if isolation_filter else logs


def dump_text(request: DumpRequest, out: IO[bytes], notify: Notify, warn: Notify) -> DumpOutcome:
    """Print files as Kafka's tool does, but continue after damage, and report the damage of each file.

    Args:
        request: what to dump.
        out: standard output.
        notify: takes sentences for standard error.
        warn: takes a sentence for each input that cannot be read.
    """
    from kforensics.kafka_dump.plain_run import PlainRun  # rows do not need it

    outcome, sink = DumpOutcome(warn, quiet=request.quiet), TextSink(out)
    isolation_filter = isolation_filter_of(request.isolation, notify, aborted=request.aborted)
    files = selected_files(request, isolation_filter, notify, outcome)
    directory = os.getcwd()  # noqa: PTH109  # Java's user.dir, as text
    kernels = partial(kernels_for, notify=None if request.quiet else notify)
    selection = isolation_filter.applied_to(request.selection) if isolation_filter else request.selection
    shown = request.tool, selection, request.budget, _decoders(request), request.limit
    run = PlainRun(*shown, directory, kernels, _payload_styles(request))
    with progress_meter(sum(file.size for file in files), show=request.progress, what="dump") as meter:
        opened = open_files(files, selection, outcome.add_unreadable, meter, isolation_filter, named=request.paths)
        for file, source, start in opened:
            if run.finished:
                break
            try:
                _write_text(run.text(file, source, start), sink, partial(outcome.add_damage, file.path, notify=notify))
            except InputError as error:
                outcome.add_unreadable(error)
    sink.flush()
    for line in run.summary():
        notify(line)
    return outcome


def _write_text(rows: Iterator[str | memoryview | Damage], sink: TextSink, on_damage: Callable[[Damage], None]) -> None:
    for row in rows:
        if isinstance(row, Damage):
            sink.flush()  # on a terminal, the report of damage follows the lines before it
            on_damage(row)
        else:
            sink.write(row)


def _decoders(request: DumpRequest) -> tuple[Callable[[bytes], str], Callable[[bytes], str]] | None:
    """Return the functions that show keys and values, None for the decoders of Kafka's tool."""
    if not (request.key_format or request.value_format or request.redact):
        return None
    from kforensics.render.payloads import text_converter  # the decoders of Kafka's tool do not need it

    formats = (request.key_format or BytesFormat.UTF8, request.value_format or BytesFormat.UTF8)
    key, value = (text_converter(bytes_format, request.redact) for bytes_format in formats)
    return key, value


def _payload_styles(request: DumpRequest) -> PayloadStyles | None:
    """Return how kernels show keys and values as :func:`_decoders` does, None if they need not or cannot."""
    formats = (request.key_format or BytesFormat.UTF8, request.value_format or BytesFormat.UTF8)
    if not (request.key_format or request.value_format or request.redact) or (
        BytesFormat.JSON in formats and not request.redact
    ):
        return None
    from kforensics.parsers.kernels.templates import AS_REDACTED, PayloadStyles
    from kforensics.render.payloads import PAYLOAD_FORMATS

    if request.redact:
        return PayloadStyles(AS_REDACTED, AS_REDACTED, request.redact.memory)
    key, value = (PAYLOAD_FORMATS[bytes_format] for bytes_format in formats)
    return PayloadStyles(key, value)


def dump_rows(request: DumpRequest, out: IO[bytes], notify: Notify, warn: Notify) -> DumpOutcome:
    """Write files as rows of tables. The arguments are those of :func:`dump_text`."""
    from kforensics.parsers.tables.schemas import TABLES  # text does not need it
    from kforensics.render.writers import ColumnWriter, LineWriter, open_writer

    outcome = DumpOutcome(warn, quiet=request.quiet)
    isolation_filter = isolation_filter_of(request.isolation, notify, aborted=request.aborted)
    by_table = files_by_table(request, selected_files(request, isolation_filter, notify, outcome))
    writer = open_writer(request.output_format, out)
    damaged: list[tuple[FoundFile, Damage]] = []

    def on_damage(file: FoundFile, damage: Damage) -> None:
        damaged.append((file, damage))
        outcome.add_damage(file.path, damage, notify)

    records = request.table in ("records", "damage")
    options = ReadOptions(records, request.selection, request.budget, stop=request.tool.log_end)
    kernels = partial(kernels_for, notify=None if request.quiet else notify)
    with progress_meter(
        sum(file.size for files in by_table.values() for file in files), show=request.progress, what="dump"
    ) as meter:
        for name, files in by_table.items():
            limit = RowLimit(None if request.table == "damage" else request.limit)
            reader = FilesReader(
                options, on_damage, outcome.add_unreadable, meter, isolation_filter, request.paths, limit
            )
            table, convert = _output_table(request, name)
            if request.table == "damage":
                drain(reader.parts(files, convert, kernels))
            elif isinstance(writer, ColumnWriter) and request.takes_columns:
                writer.write_parts(table, map(_column_converter(convert), reader.parts(files, convert, kernels)))
            elif isinstance(writer, LineWriter) and (read := _line_reader(request, table, limit)):
                writer.write_lines(table, cast("LineParts", reader.parts(files, convert, kernels, read)))
            else:
                writer.write(table, map(convert, islice(reader.rows(files), request.limit)))
    if request.table == "damage" or (damaged and request.output_format in WITH_DAMAGE):
        rows = (row for file, damage in damaged for row in damage_rows(file, [damage]))
        writer.write(TABLES["damage"], islice(rows, request.limit))
    writer.close()
    return outcome


def _column_converter(convert: Convert) -> Callable[[Part], Any]:
    """Return a function that converts the columns of record batches as rows are converted."""
    from kforensics.render.payloads import RowConverter

    def converted(part: Part) -> Any:
        return part if isinstance(part, Iterator) or not isinstance(convert, RowConverter) else convert.columns(part)

    return converted


def _line_reader(request: DumpRequest, table: Table, limit: RowLimit) -> Read | None:
    """Return what has kernels write the rows of logs as text, None if only rows will do."""
    key, value = _payload_formats(request)
    if request.redact:  # a redacted payload is text
        key = value = BytesFormat.UTF8
    if request.tool.topic_decoder or key is None or value is None or BytesFormat.JSON in (key, value):
        return None
    if request.output_format not in LINE_FORMATS or request.budget < MAX_DECOMPRESSED_BYTES:
        return None
    style = LineStyle(request.output_format, table, key, value, request.redact)

    def read(
        file: FoundFile, source: Source, options: ReadOptions, report: Callable[[Damage], None], kernels: KernelLoader
    ) -> Iterator[Part]:
        from kforensics.render.row_lines import read_row_lines  # small logs do not need it

        return read_row_lines(file, source, options, report, kernels, style, limit)

    return read


def _output_table(request: DumpRequest, name: str) -> tuple[Table, Convert]:
    """Return the output table, and the function that makes its rows: decoded, formatted or redacted."""
    from kforensics.kafka_dump.topic_rows import topic_converter  # text does not need it
    from kforensics.parsers.tables.schemas import TABLES
    from kforensics.render.payloads import row_converter

    decoded = None if request.redact else topic_converter(name, request.tool.topic_decoder)
    if decoded:
        return decoded.table, decoded
    converter = row_converter(TABLES[name], *_payload_formats(request), request.redact)
    return converter.table, converter


def files_by_table(request: DumpRequest, files: list[FoundFile]) -> dict[str, list[FoundFile]]:
    """Return the files by their table, without those that have no table or another than the requested one."""
    by_table: dict[str, list[FoundFile]] = {}
    for file in files:
        name = table_name_of(kind_to_read(file), records=request.table in ("records", "damage"))
        if name and request.table in (None, name, "damage"):
            by_table.setdefault(name, []).append(file)
    if len(by_table) > 1 and request.output_format in ONE_TABLE and request.table is None:
        raise UsageError(
            f"these files have several tables ({', '.join(by_table)}), and {request.output_format} has room for one; "
            "add --batches or --records, or name files of one kind"
        )
    # If no file has the requested table, the output is the table without rows.
    return by_table or {"batches" if request.table in (None, "damage") else request.table: []}


def _payload_formats(request: DumpRequest) -> tuple[BytesFormat | None, BytesFormat | None]:
    """Return the formats of keys and values; by default, binary output formats keep the bytes."""
    default = None if request.output_format in (Format.PARQUET, Format.ARROW) else BytesFormat.UTF8
    return request.key_format or default, request.value_format or default


def damage_sentence(path: str, damage: Damage) -> str:
    """Return the sentence that reports a range of damage."""
    where = f"bytes {damage.start:#x} to {damage.end:#x} ({damage.end - damage.start} bytes)"
    batch = f" of the batch at {damage.inside_batch:#x}" if damage.inside_batch is not None else ""
    verdict = "are suspect" if batch and damage.reason in SUSPECT else "could not be read"
    if batch and damage.reason == "truncated":
        verdict = "belong to the next one"
    if damage.reason == "zero-tail":
        verdict = "are all zero"
    resume = f"; reading resumes at {damage.next_good_position:#x}" if damage.next_good_position is not None else ""
    return f"{path}: {where}{batch} {verdict}, {damage.reason}: {damage.detail}{resume}"
