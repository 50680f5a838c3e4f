"""A ``.log`` or ``.checkpoint`` as text, as a release prints it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kforensics.kafka_dump.file_records import INT_MAX, FileRecords, java_error, opened
from kforensics.kafka_dump.java import JavaError
from kforensics.kafka_dump.log_lines import BlockLines, RecordLines, batch_line, kernels_print
from kforensics.kafka_dump.styles import Style
from kforensics.parsers.files.source import file_name
from kforensics.parsers.files.window import Window
from kforensics.parsers.format.codecs import DEFAULT_BUDGET
from kforensics.parsers.format.rows import Batch, Failure
from kforensics.parsers.kernels.policy import Choice, no_kernels
from kforensics.parsers.log.legacy import legacy_messages

__all__ = ["LogOptions", "first_line", "imitated_log"]

Gap = Callable[[int, int], None]
Text = str | memoryview
OFFSET_WIDTH, EPOCH_WIDTH = 20, 10
LONG_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What to print of a log.

    Attributes:
        lines: how to print records, None for batch lines only.
        max_bytes: look at the first so many bytes only.
        budget: most bytes to decompress per batch.
        kernels: gives the kernels, if they are wanted for a log of some size.
    """

    lines: RecordLines | None = None
    max_bytes: int = INT_MAX
    budget: int = DEFAULT_BUDGET
    kernels: Choice = no_kernels


def imitated_log(path: str, options: LogOptions, style: Style, gap: Gap) -> Iterator[Text]:
    """Yield the text of a release's tool, piece by piece.

    Args:
        path: the file.
        options: what to print.
        style: the release.
        gap: told of each pair of neighbouring offsets that are not consecutive.

    Raises:
        JavaError: where the tool ends with an exception.
    """
    yield first_line(path, style) + "\n"
    with opened(path) as source:
        records = FileRecords(source, budget=options.budget, style=style)
        if "max-bytes" in style.options:
            records = records.slice(0, options.max_bytes)
        last, batches = _LastOffset(style, gap), _Batches(records)
        for row in _in_turns(batches, options, style):
            if isinstance(row, Batch):
                yield from batch_line(row, style)
                if options.lines:
                    yield from _record_lines(records, row, options.lines, last)
            else:
                last.block(row)
                yield row.text
        read = batches.position
    if records.size > read and options.max_bytes == INT_MAX:
        yield f"Found {records.size - read} invalid bytes at the end of {file_name(path)}\n"


class _Batches:
    """Kafka's reader, step by step."""

    refused_sizes = 0

    def __init__(self, records: FileRecords) -> None:
        self.records, self.position, self._window = records, records.start, Window(records.source)

    def step(self) -> Sequence[Batch]:
        batch = self.records.batch_at(self._window, self.position)
        self.position += batch.size if batch else 0
        return (batch,) if batch else ()


def _in_turns(batches: _Batches, options: LogOptions, style: Style) -> Iterator[Batch | BlockLines]:
    """Yield batches, or the lines of many at once where kernels could write them."""
    records = batches.records
    kernels = options.kernels(records.size) if kernels_print(options.lines, options.budget) else None
    if kernels is None:
        while found := batches.step():
            yield from found
        return
    from kforensics.kafka_dump.line_task import line_turns  # a small log must not pay for it

    yield from line_turns(batches, kernels, records.source, records.start + records.size, style, options.lines)


def first_line(path: str, style: Style) -> str:
    """Return what the tool says of a file by its name alone.

    Raises:
        JavaError: the name is not of the form the tool expects.
    """
    name = file_name(path)
    if name.endswith(".log"):
        return f"{style.log_start}: {_parse_number(name.split('.')[0])}"
    if name == "bootstrap.checkpoint":
        return "KRaft bootstrap snapshot"
    offset = _parse_number(_substring(name, 0, OFFSET_WIDTH))
    epoch = _parse_number(_substring(name, OFFSET_WIDTH + 1, OFFSET_WIDTH + EPOCH_WIDTH + 1), INT_MAX)
    return f"Snapshot end offset: {offset}, epoch: {epoch}"


def _parse_number(text: str, most: int = LONG_MAX) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text) or not -most - 1 <= int(text) <= most:
        raise JavaError("java.lang.NumberFormatException", f'For input string: "{text}"')
    return int(text)


def _substring(text: str, start: int, end: int) -> str:
    if end > len(text):
        message = f"begin {start}, end {end}, length {len(text)}"
        raise JavaError("java.lang.StringIndexOutOfBoundsException", message)
    return text[start:end]


class _LastOffset:
    """Remembers the last record offset of a file and tells of gaps, with the quirks of each release."""

    def __init__(self, style: Style, gap: Gap) -> None:
        self._gap, self._quirk, self._last = gap, style.first_gap_from_minus_one, -1

    def next(self, offset: int) -> None:
        first = self._last == -1 and not self._quirk
        if not first and offset != self._last + 1:
            self._gap(self._last, offset)
        self._last = offset

    def block(self, lines: BlockLines) -> None:
        """Take the offsets of a block of records."""
        if lines.first_offset < 0:
            return
        self.next(lines.first_offset)
        for before, behind in lines.gaps:
            self._gap(before, behind)
        self._last = lines.last_offset


def _record_lines(records: FileRecords, batch: Batch, lines: RecordLines, last: _LastOffset) -> Iterator[str]:
    if not batch.is_legacy:
        for record in records.records(batch):
            last.next(record.offset)
            yield from lines.record(batch, record)
        return
    base_offset: int | None = None
    for message in legacy_messages(batch, records.data(batch), records.budget, strict=True):
        if isinstance(message, Failure):
            raise java_error(message)
        base_offset = message.offset if base_offset is None else base_offset
        last.next(message.offset)
        yield from lines.message(batch, message, base_offset)
