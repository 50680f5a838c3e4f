"""A dump in plain style: the lines of the newest tool without its bugs, for every kind of file, past all damage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kforensics.errors import UsageError
from kforensics.kafka_dump.java import JavaError
from kforensics.kafka_dump.log_lines import (
    BlockLines,
    RecordLines,
    TextPiece,
    batch_line,
    first_line,
    kernels_can_print,
)
from kforensics.kafka_dump.styles import PLAIN_STYLE
from kforensics.kafka_dump.summaries import Summaries
from kforensics.kafka_dump.tool_options import ToolOptions
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import Source
from kforensics.parsers.format.failures import Stopped
from kforensics.parsers.format.rows import Batch, Damage
from kforensics.parsers.format.text_encoding import printable
from kforensics.parsers.kernels.policy import KernelPolicy, no_kernels
from kforensics.parsers.log.batches import LogWalk
from kforensics.parsers.log.log_rows import failure_damage, read_legacy_messages, read_records
from kforensics.parsers.log.selection import Selection, is_cut_at_stop, selected_batches
from kforensics.parsers.tables.file_rows import LOG_KINDS, ReadOptions, file_rows, table_name_of

if TYPE_CHECKING:
    from kforensics.kafka_dump.decoders import Decoder, TextDecoder
    from kforensics.parsers.kernels.templates import PayloadStyles

EVERYTHING = Selection()


class PlainRun:
    """Prints files one after the other.

    Args:
        options: the options of Kafka's tool.
        selection: the batches and records to print.
        budget: the most bytes to decompress per batch.
        text_decoders: the decoders of keys and values; None for those of the options.
        limit: the most record lines to print, or batch lines if records are not printed.
        directory: the working directory, for the absolute paths in the summaries.
        kernels: decides by the size of a log whether to use kernels.
        payloads: how kernels show keys and values as the decoders do; None if they cannot.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # the parameters of a dump
        self,
        options: ToolOptions,
        selection: Selection,
        budget: int,
        text_decoders: tuple[TextDecoder, TextDecoder] | None = None,
        limit: int | None = None,
        directory: str = "",
        kernels: KernelPolicy = no_kernels,
        payloads: PayloadStyles | None = None,
    ) -> None:
        self._options, self._selection, self._budget, self._left = options, selection, budget, limit
        self._summaries, self._kernels = Summaries(directory), kernels
        self._last_offset: int | None = None
        self._lines = self._record_lines(text_decoders, payloads) if options.prints_records or text_decoders else None

    @property
    def finished(self) -> bool:
        """Whether the limit is reached."""
        return self._left is not None and self._left <= 0

    def text(self, file: FoundFile, source: Source, start: int = 0) -> Iterator[TextPiece | Damage]:
        """Yield the text of a file, and its damage in between; text in a buffer is overwritten by the next piece."""
        yield f"Dumping {printable(source.path)}\n"
        if file.kind in LOG_KINDS:
            yield from self._log(source, start)
        else:
            yield from self._other(file, source)

    def _other(self, file: FoundFile, source: Source) -> Iterator[str | Damage]:
        """Yield the text and the damage of a file that is not a log."""
        from kforensics.kafka_dump.index_lines import plain_index, plain_time_index, plain_transaction_index  # not logs
        from kforensics.kafka_dump.snapshot_lines import plain_snapshot

        index = self._options.index_options(self._budget)
        match file.kind:
            case "index":
                yield from plain_index(file.path, index, self._summaries)
            case "timeindex":
                yield from plain_time_index(file.path, index, self._summaries)
            case "snapshot":
                yield from plain_snapshot(file.path)
            case "txnindex":
                yield from plain_transaction_index(file.path)
            case kind if table_name_of(kind):
                yield from self._state(file, source)
            case kind:
                yield f"({kind}: {source.size} bytes that hold nothing to decode)\n"

    def summary(self) -> list[str]:
        """Return the lines to print after the last file: index mismatches and offset gaps."""
        return self._summaries.lines(None)

    def _record_lines(
        self, text_decoders: tuple[TextDecoder, TextDecoder] | None, payloads: PayloadStyles | None
    ) -> RecordLines:
        from kforensics.kafka_dump.decoders import control_suffix, part_decoder  # not for batch lines

        prints_contents = self._options.prints_contents or text_decoders is not None
        decode = part_decoder(*text_decoders) if text_decoders else _option_decoder(self._options)
        as_text = text_decoders is None and self._options.decodes_text
        skips_metadata = self._options.skip_record_metadata
        decode_contents = decode if prints_contents else None
        return RecordLines(
            PLAIN_STYLE, decode_contents, control_suffix, skips_metadata, as_text=as_text, payloads=payloads
        )

    def _log(self, source: Source, start: int) -> Iterator[TextPiece | Damage]:
        try:
            yield first_line(source.path, PLAIN_STYLE) + "\n"
        except JavaError:
            yield ""  # a log under another name has no first line
        self._last_offset = None
        for row in self._batches(source, start):
            if isinstance(row, Damage):
                yield row
            elif not isinstance(row, Batch):
                self._note_block_gaps(source.path, row)
                yield row.text
                self._count_lines(row.rows)
            elif self._lines:
                yield from self._with_batch_line(_batch_text(row), self._records(self._lines, source, row))
            else:
                yield _batch_text(row)
                self._count_lines(1)
            if self.finished:
                return

    def _batches(self, source: Source, start: int) -> Iterator[Batch | Damage | BlockLines]:
        """Yield the selected batches and the damage, or the lines of many batches where kernels can print them."""
        end = self._options.log_end
        may_use_kernels = kernels_can_print(self._lines, self._budget)
        kernels = self._kernels(source.size - start) if may_use_kernels else None
        if kernels is None:
            yield from selected_batches(source, self._selection, start, end)
            return
        from kforensics.kafka_dump.line_task import lines_with_fallback  # not for small logs

        reader, rules = LogWalk(source, start, end), (self._selection, lambda: self._left)
        for row in lines_with_fallback(reader, kernels, source, end, PLAIN_STYLE, self._lines, *rules):
            if not isinstance(row, Damage) or not is_cut_at_stop(row, source, end):
                yield row

    def _note_block_gaps(self, path: str, lines: BlockLines) -> None:
        if lines.first_offset < 0:
            return
        self._note_gap(path, lines.first_offset)
        for before, after in lines.gaps:
            self._summaries.gap(path, before, after)
        self._last_offset = lines.last_offset

    def _note_gap(self, path: str, offset: int) -> None:
        """Add two neighboring offsets to the summary if they are not consecutive, unless a filter makes gaps."""
        if self._selection == EVERYTHING and self._last_offset is not None and offset != self._last_offset + 1:
            self._summaries.gap(path, self._last_offset, offset)
        self._last_offset = offset

    def _with_batch_line(self, batch_text: str, pieces: Iterator[str | Damage]) -> Iterator[str | Damage]:
        """Yield a batch line and the lines of its records; if a filter drops all records, drop the batch line too."""
        if not self._selection.picks_records:
            yield batch_text
            batch_text = ""
        for piece in pieces:
            if batch_text and isinstance(piece, str):
                yield batch_text
                batch_text = ""
            yield piece

    def _count_lines(self, count: int) -> None:
        if self._left is not None:
            self._left -= count

    def _records(self, lines: RecordLines, source: Source, batch: Batch) -> Iterator[str | Damage]:
        pieces = (self._legacy_lines if batch.is_legacy else self._current_lines)(lines, source, batch)
        for piece in pieces:
            yield piece
            if isinstance(piece, str):
                self._count_lines(1)
            if self.finished:
                return

    def _current_lines(self, lines: RecordLines, source: Source, batch: Batch) -> Iterator[str | Damage]:
        for row in read_records(source, batch, self._budget):
            if isinstance(row, Damage):
                yield row
            elif self._selection.keeps_record(row):
                self._note_gap(source.path, row.offset)
                yield "".join(lines.record(batch, row))

    def _legacy_lines(self, lines: RecordLines, source: Source, batch: Batch) -> Iterator[str | Damage]:
        for message in read_legacy_messages(source, batch, self._budget):
            if isinstance(message, Damage):
                yield message
                continue
            pieces: list[str] = []
            try:
                if self._selection != EVERYTHING and not self._selection.keeps_record(message.record()):
                    continue
                self._note_gap(source.path, message.offset)
                pieces.extend(lines.message(batch, message, batch.last_offset))
            except Stopped as error:
                yield failure_damage(batch, error.failure)
            except JavaError as error:
                # The line ends before the first field that does not fit.
                yield "".join(pieces) + "\n"
                start, end = batch.position, batch.position + batch.size
                yield Damage(start, end, "record-structure", error.message or error.class_name, None, start)
            else:
                yield "".join(pieces)

    def _state(self, file: FoundFile, source: Source) -> Iterator[str | Damage]:
        from kforensics.parsers.tables.schemas import PLACE, TABLES  # logs do not need the columns

        table = TABLES[table_name_of(file.kind) or ""]
        names = table.names[len(PLACE) + 1 :]
        damage: list[Damage] = []
        for row in file_rows(file, source, ReadOptions(), damage.append):
            yield from damage
            damage.clear()
            yield " ".join(f"{name}: {value}" for name, value in zip(names, row[len(PLACE) + 1 :], strict=True)) + "\n"
        yield from damage


def _batch_text(batch: Batch) -> str:
    """Return a batch line; an unknown codec is printed as its number."""
    if batch.compression_type is not None:
        return "".join(batch_line(batch, PLAIN_STYLE))
    return "".join(batch_line(batch, PLAIN_STYLE, codec=str(batch.codec)))


def _option_decoder(options: ToolOptions) -> Decoder:
    from kforensics.kafka_dump.decoders import DEFAULT_CLASSES, class_decoder, decoder, part_decoder  # not for batches

    if options.topic_decoder:
        return decoder(options.topic_decoder)
    default = DEFAULT_CLASSES["4.3"]
    try:
        value = class_decoder(options.value_decoder_class or default)
        key = class_decoder(options.key_decoder_class or default)
    except JavaError as error:
        known = "org.apache.kafka.tools.api.{String,Long,Integer,Default}Decoder"
        raise UsageError(f"{error.cause or error}: such a decoder cannot be loaded; there are {known}") from error
    return part_decoder(key.decode, value.decode)
