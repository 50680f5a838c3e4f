"""A dump in plain style: the lines of the newest tool without its bugs, of every kind of file, past every damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kforensics.errors import UsageError
from kforensics.kafka_dump.java import JavaError
from kforensics.kafka_dump.log_dump import first_line
from kforensics.kafka_dump.log_lines import BlockLines, RecordLines, batch_line, kernels_print
from kforensics.kafka_dump.options import ToolOptions
from kforensics.kafka_dump.styles import PLAIN
from kforensics.kafka_dump.summaries import Summaries
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import Source
from kforensics.parsers.format.failures import Stopped
from kforensics.parsers.format.printable import printable
from kforensics.parsers.format.rows import Batch, Damage
from kforensics.parsers.kernels.policy import Choice, no_kernels
from kforensics.parsers.log.batches import Walk
from kforensics.parsers.log.log_rows import failure_damage, messages_of, records_of
from kforensics.parsers.log.selection import Selection, is_cut, selected_batches
from kforensics.parsers.tables.file_rows import LOG_KINDS, Reading, file_rows, table_of

if TYPE_CHECKING:
    from kforensics.kafka_dump.decoders import Decoder

__all__ = ["PlainRun"]

Text = Callable[[bytes], str]
Piece = str | memoryview | Damage
EVERYTHING = Selection()


class PlainRun:
    """Prints files one after the other.

    Args:
        options: the options of Kafka's tool.
        selection: which batches and records.
        budget: most bytes to decompress per batch.
        texts: what makes text of keys and values, None for the decoders of the options.
        limit: most record lines, or batch lines where no records are printed.
        directory: the working directory, for the absolute paths of the summaries.
        kernels: gives the kernels, if they are wanted for a log of some size.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # what a dump may be asked for
        self,
        options: ToolOptions,
        selection: Selection,
        budget: int,
        texts: tuple[Text, Text] | None = None,
        limit: int | None = None,
        directory: str = "",
        kernels: Choice = no_kernels,
    ) -> None:
        self._options, self._selection, self._budget, self._left = options, selection, budget, limit
        self._summaries, self._kernels = Summaries(directory), kernels
        self._last: int | None = None
        self._lines = self._record_lines(texts) if options.prints_records or texts else None

    @property
    def finished(self) -> bool:
        """Whether the limit is reached."""
        return self._left is not None and self._left <= 0

    def text(self, found: FoundFile, source: Source, start: int = 0) -> Iterator[Piece]:
        """Yield the text of a file and, where it stands, the damage; text as bytes changes with the next piece."""
        yield f"Dumping {printable(source.path)}\n"
        if found.kind in LOG_KINDS:
            yield from self._log(source, start)
        else:
            yield from self._other(found, source)

    def _other(self, found: FoundFile, source: Source) -> Iterator[str | Damage]:
        """Yield the text of a file that is no log; only such a file pays for their formats."""
        from kforensics.kafka_dump.index_lines import plain_index
        from kforensics.kafka_dump.snapshot_lines import plain_snapshot
        from kforensics.kafka_dump.time_index_lines import plain_time_index
        from kforensics.kafka_dump.transaction_index_lines import plain_transaction_index

        index = self._options.index_options(self._budget)
        match found.kind:
            case "index":
                yield from plain_index(found.path, index, self._summaries)
            case "timeindex":
                yield from plain_time_index(found.path, index, self._summaries)
            case "snapshot":
                yield from plain_snapshot(found.path)
            case "txnindex":
                yield from plain_transaction_index(found.path)
            case kind if table_of(kind):
                yield from self._state(found, source)
            case kind:
                yield f"({kind}: {source.size} bytes that hold nothing to decode)\n"

    def summary(self) -> list[str]:
        """Return what is to be said behind the last file: mismatches of indexes and gaps between offsets."""
        return self._summaries.lines(None)

    def _record_lines(self, texts: tuple[Text, Text] | None) -> RecordLines:
        from kforensics.kafka_dump.decoders import control_suffix  # batch lines do without

        contents = self._options.prints_contents or texts is not None
        decode = _text_decoder(*texts) if texts else _option_decoder(self._options)
        as_text = texts is None and self._options.decodes_text
        skips = self._options.skip_record_metadata
        return RecordLines(PLAIN, decode if contents else None, control_suffix, skips, as_text=as_text)

    def _log(self, source: Source, start: int) -> Iterator[Piece]:
        try:
            yield first_line(source.path, PLAIN) + "\n"
        except JavaError:
            yield ""  # a log under another name has no first line
        self._last = None
        for row in self._batches(source, start):
            if isinstance(row, Damage):
                yield row
            elif not isinstance(row, Batch):
                self._note_block(source.path, row)
                yield row.text
            elif self._lines:
                yield from self._headed(_batch_text(row), self._records(self._lines, source, row))
            else:
                yield _batch_text(row)
                self._count()
            if self.finished:
                return

    def _batches(self, source: Source, start: int) -> Iterator[Batch | Damage | BlockLines]:
        """Yield the wanted batches and the damage, or the lines of many batches where kernels can write them."""
        end = self._options.log_end
        everything = self._selection == EVERYTHING and self._left is None
        taken = everything and kernels_print(self._lines, self._budget)
        kernels = self._kernels(source.size - start) if taken else None
        if kernels is None:
            yield from selected_batches(source, self._selection, start, end)
            return
        from kforensics.kafka_dump.line_task import line_turns  # a small log must not pay for it

        for row in line_turns(Walk(source, start, end), kernels, source, end, PLAIN, self._lines):
            if not isinstance(row, Damage) or not is_cut(row, source, end):
                yield row

    def _note_block(self, path: str, lines: BlockLines) -> None:
        if lines.first_offset < 0:
            return
        self._note_gap(path, lines.first_offset)
        for before, behind in lines.gaps:
            self._summaries.gap(path, before, behind)
        self._last = lines.last_offset

    def _note_gap(self, path: str, offset: int) -> None:
        """Keep two neighbouring offsets that are not consecutive for the summary; a filter makes gaps of its own."""
        if self._selection == EVERYTHING and self._last is not None and offset != self._last + 1:
            self._summaries.gap(path, self._last, offset)
        self._last = offset

    def _headed(self, head: str, pieces: Iterator[str | Damage]) -> Iterator[str | Damage]:
        """Yield a batch line and its records; with a filter that looks into records, not without a record."""
        if not self._selection.picks_records:
            yield head
            head = ""
        for piece in pieces:
            if head and isinstance(piece, str):
                yield head
                head = ""
            yield piece

    def _count(self) -> None:
        if self._left is not None:
            self._left -= 1

    def _records(self, lines: RecordLines, source: Source, batch: Batch) -> Iterator[str | Damage]:
        pieces = (self._legacy if batch.is_legacy else self._modern)(lines, source, batch)
        for piece in pieces:
            yield piece
            if isinstance(piece, str):
                self._count()
            if self.finished:
                return

    def _modern(self, lines: RecordLines, source: Source, batch: Batch) -> Iterator[str | Damage]:
        for row in records_of(source, batch, self._budget):
            if isinstance(row, Damage):
                yield row
            elif self._selection.keeps_record(row):
                self._note_gap(source.path, row.offset)
                yield "".join(lines.record(batch, row))

    def _legacy(self, lines: RecordLines, source: Source, batch: Batch) -> Iterator[str | Damage]:
        for message in messages_of(source, batch, self._budget):
            if isinstance(message, Damage):
                yield message
                continue
            text: list[str] = []
            try:
                if self._selection != EVERYTHING and not self._selection.keeps_record(message.record()):
                    continue
                self._note_gap(source.path, message.offset)
                text.extend(lines.message(batch, message, batch.last_offset))
            except Stopped as error:
                yield failure_damage(batch, error.failure)
            except JavaError as error:
                # The line ends where a field does not fit.
                yield "".join(text) + "\n"
                start, end = batch.position, batch.position + batch.size
                yield Damage(start, end, "record-structure", error.message or error.class_name, None, start)
            else:
                yield "".join(text)

    def _state(self, found: FoundFile, source: Source) -> Iterator[str | Damage]:
        from kforensics.parsers.tables.schemas import PLACE, TABLES  # lines of logs have no columns

        table = TABLES[table_of(found.kind) or ""]
        names = table.names[len(PLACE) + 1 :]
        damage: list[Damage] = []
        for row in file_rows(found, source, Reading(), damage.append):
            yield from damage
            damage.clear()
            yield " ".join(f"{name}: {value}" for name, value in zip(names, row[len(PLACE) + 1 :], strict=True)) + "\n"
        yield from damage


def _batch_text(batch: Batch) -> str:
    """Return a batch line; a codec number that means nothing is printed as the number."""
    if batch.compression_type is not None:
        return "".join(batch_line(batch, PLAIN))
    return "".join(batch_line(batch, PLAIN, codec=str(batch.codec)))


def _text_decoder(key_text: Text, value_text: Text) -> Decoder:
    from kforensics.kafka_dump.decoders.plain import pair  # as in _record_lines

    return pair(key_text, value_text)


def _option_decoder(options: ToolOptions) -> Decoder:
    from kforensics.kafka_dump.decoders import DEFAULT_CLASSES, class_decoder, decoder, plain  # as in _record_lines

    if options.topic_decoder:
        return decoder(options.topic_decoder)
    default = DEFAULT_CLASSES["4.3"]
    try:
        value = class_decoder(options.value_decoder_class or default)
        key = class_decoder(options.key_decoder_class or default)
    except JavaError as error:
        known = "org.apache.kafka.tools.api.{String,Long,Integer,Default}Decoder"
        raise UsageError(f"{error.cause or error}: such a decoder cannot be loaded; there are {known}") from error
    return plain.pair(key.decode, value.decode)
