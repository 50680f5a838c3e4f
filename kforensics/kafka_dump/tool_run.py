"""The imitation of a run of Kafka's dump tool: what it prints to both streams, and its exit code.

Rule: ``DumpLogSegments.main`` and ``dumpLog`` of each release. The summaries follow the last file; if an exception ends
the run, they are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kforensics.kafka_dump.decoders import (
    DEFAULT_CLASSES,
    Decoder,
    class_decoder,
    control_suffix,
    decoder,
    part_decoder,
)
from kforensics.kafka_dump.file_records import SegmentRange
from kforensics.kafka_dump.java import MAX_INT, JavaError, java_error, java_path, open_file
from kforensics.kafka_dump.log_lines import (
    BlockLines,
    RecordLines,
    TextPiece,
    batch_line,
    first_line,
    kernels_can_print,
)
from kforensics.kafka_dump.styles import DumpStyle
from kforensics.kafka_dump.summaries import Summaries
from kforensics.kafka_dump.tool_options import ToolOptions
from kforensics.parsers.files.source import Window, file_name
from kforensics.parsers.format.decompression import DEFAULT_BUDGET
from kforensics.parsers.format.rows import Batch, Damage, Failure
from kforensics.parsers.kernels.policy import KernelPolicy, no_kernels
from kforensics.parsers.log.legacy_format import legacy_messages

Write = Callable[[str], object]
NoteGap = Callable[[int, int], None]


def run_tool(  # noqa: PLR0913  # a process has two streams and a working directory
    options: ToolOptions,
    style: DumpStyle,
    out: Callable[[TextPiece], object],
    err: Write,
    directory: str,
    *,
    budget: int = DEFAULT_BUDGET,
    kernels: KernelPolicy = no_kernels,
) -> int:
    """Print what a release's tool prints for some files, and return its exit code.

    Args:
        options: the command line of the tool.
        style: the release to imitate.
        out: writes to standard output; text in a buffer is overwritten after the call.
        err: writes to standard error; stack frames are omitted.
        directory: the working directory, for the absolute paths in the summaries.
        budget: the most bytes to decompress per batch.
        kernels: decides by the size of a log whether to use kernels.
    """
    run = _Run(options, style, err, directory, budget, kernels)
    try:
        options.check(style)
        for path in options.files:
            for piece in run.text(java_path(path)):
                out(piece)
    except JavaError as error:
        for line in error.stderr_lines():
            err(line + "\n")
        return 1
    for line in run.summaries.lines(style):
        err(line + "\n")
    return 0


class _Run:
    """A run of the tool over several files."""

    def __init__(  # noqa: PLR0913, PLR0917  # the parameters of run_tool
        self, options: ToolOptions, style: DumpStyle, err: Write, directory: str, budget: int, kernels: KernelPolicy
    ) -> None:
        self.options, self.style, self.err, self.budget, self.kernels = options, style, err, budget, kernels
        self.summaries = Summaries(directory)

    def text(self, path: str) -> Iterator[TextPiece]:
        """Yield what is printed for a file.

        Raises:
            JavaError: the tool ends with an exception.
        """
        yield f"Dumping {path}\n"
        match self._suffix(file_name(path)):
            case ".log":
                yield from self._log(path)
            case ".checkpoint" if self.style.reads_checkpoints:
                yield from self._log(path)
            case suffix:
                yield from self._other(path, suffix)

    def _other(self, path: str, suffix: str) -> Iterator[str]:
        """Yield what is printed for a file that is not a log."""
        from kforensics.kafka_dump.index_lines import (  # not for logs
            imitated_index,
            imitated_time_index,
            imitated_transaction_index,
        )

        index = self.options.index_options(self.budget)
        match suffix:
            case ".index":
                yield from imitated_index(path, index, self.style, self.summaries)
            case ".timeindex":
                yield from imitated_time_index(path, index, self.style, self.summaries)
            case ".snapshot":
                yield from self._snapshot(path)
            case ".txnindex":
                yield from imitated_transaction_index(path, self.summaries)
            case _:
                self.err(f"Ignoring unknown file {path}\n")

    def _suffix(self, name: str) -> str:
        dot = name.rfind(".")
        if dot < 0 and not self.style.ignores_names_without_dot:
            text = f"begin -1, end {len(name)}, length {len(name)}"
            raise JavaError("java.lang.StringIndexOutOfBoundsException", text)
        return name[dot:] if dot >= 0 else ""

    def _snapshot(self, path: str) -> Iterator[str]:
        from kforensics.kafka_dump.snapshot_lines import imitated_snapshot  # not for logs

        for row in imitated_snapshot(path, self.style):
            if isinstance(row, Damage):
                self.err(row.detail + "\n")
            else:
                yield row

    def _log(self, path: str) -> Iterator[TextPiece]:
        decode, warnings = self._decoder()
        yield from (f"{line}\n" for line in warnings)
        lines = None
        if self.options.prints_records:
            name = self.style.name
            lines = RecordLines(
                self.style,
                decode if self.options.prints_contents else None,
                lambda key, value: control_suffix(key, value, name),
                self.options.skip_record_metadata,
                self.options.topic_decoder in self.style.json_decoders,
                self.options.decodes_text,
            )
        options = _LogOptions(lines, self.options.max_bytes, self.budget, self.kernels)
        yield from _log_text(path, options, self.style, lambda before, after: self.summaries.gap(path, before, after))

    def _decoder(self) -> tuple[Decoder, list[str]]:
        """Return the decoder of keys and values, and the lines that are printed when its classes are loaded."""
        kind = self.options.topic_decoder
        if kind:
            return decoder(kind, self.style.name), []
        default = DEFAULT_CLASSES[self.style.name]
        value = class_decoder(self.options.value_decoder_class or default, self.style.name)
        key = class_decoder(self.options.key_decoder_class or default, self.style.name)
        return part_decoder(key.decode, value.decode), [*value.warnings, *key.warnings]


@dataclass(frozen=True, slots=True)
class _LogOptions:
    """What to print of a log.

    Attributes:
        lines: the format of record lines; None for batch lines only.
        max_bytes: how many bytes of the log to read.
        budget: the most bytes to decompress per batch.
        kernels: decides by the size of the log whether to use kernels.
    """

    lines: RecordLines | None
    max_bytes: int
    budget: int
    kernels: KernelPolicy


def _log_text(path: str, options: _LogOptions, style: DumpStyle, note_gap: NoteGap) -> Iterator[TextPiece]:
    """Yield the text that a release's tool prints for a log after the line with its path.

    Args:
        path: the file.
        options: what to print.
        style: the release to imitate.
        note_gap: is called with each pair of neighboring offsets that are not consecutive.

    Raises:
        JavaError: the tool ends with an exception.
    """
    yield first_line(path, style) + "\n"
    with open_file(path) as source:
        records = SegmentRange(source, budget=options.budget, style=style)
        if "max-bytes" in style.options:
            records = records.slice(0, options.max_bytes)
        offsets, reader = _OffsetGaps(style, note_gap), _BatchReader(records)
        for row in _batches(reader, options, style):
            if isinstance(row, Batch):
                yield from batch_line(row, style)
                if options.lines:
                    yield from _record_lines(records, row, options.lines, offsets)
            else:
                offsets.add_block(row)
                yield row.text
        end = reader.position
    if records.size > end and options.max_bytes == MAX_INT:
        yield f"Found {records.size - end} invalid bytes at the end of {file_name(path)}\n"


class _BatchReader:
    """Kafka's reader as a reader in pure Python that kernels fall back to."""

    refused_sizes = 0

    def __init__(self, records: SegmentRange) -> None:
        self.records, self.position, self._window = records, records.start, Window(records.source)

    def step(self) -> Sequence[Batch]:
        batch = self.records.batch_at(self._window, self.position)
        self.position += batch.size if batch else 0
        return (batch,) if batch else ()


def _batches(reader: _BatchReader, options: _LogOptions, style: DumpStyle) -> Iterator[Batch | BlockLines]:
    """Yield batches, or the lines of many batches where kernels can print them."""
    records = reader.records
    kernels = options.kernels(records.size) if kernels_can_print(options.lines, options.budget) else None
    if kernels is None:
        while batches := reader.step():
            yield from batches
        return
    from kforensics.kafka_dump.line_task import lines_with_fallback  # not for small logs

    end = records.start + records.size
    yield from lines_with_fallback(reader, kernels, records.source, end, style, options.lines)


class _OffsetGaps:
    """Finds gaps between record offsets, with the quirks of each release."""

    def __init__(self, style: DumpStyle, note_gap: NoteGap) -> None:
        self._note_gap, self._starts_at_minus_one, self._last = note_gap, style.first_gap_from_minus_one, -1

    def add(self, offset: int) -> None:
        is_first = self._last == -1 and not self._starts_at_minus_one
        if not is_first and offset != self._last + 1:
            self._note_gap(self._last, offset)
        self._last = offset

    def add_block(self, lines: BlockLines) -> None:
        """Add the record offsets of a block."""
        if lines.first_offset < 0:
            return
        self.add(lines.first_offset)
        for before, after in lines.gaps:
            self._note_gap(before, after)
        self._last = lines.last_offset


def _record_lines(records: SegmentRange, batch: Batch, lines: RecordLines, offsets: _OffsetGaps) -> Iterator[str]:
    if not batch.is_legacy:
        for record in records.records(batch):
            offsets.add(record.offset)
            yield from lines.record(batch, record)
        return
    base_offset: int | None = None
    for message in legacy_messages(batch, records.data(batch), records.budget, strict=True):
        if isinstance(message, Failure):
            raise java_error(message)
        base_offset = message.offset if base_offset is None else base_offset
        offsets.add(message.offset)
        yield from lines.message(batch, message, base_offset)
