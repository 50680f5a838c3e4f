"""A ``.log`` or ``.checkpoint`` as text, as a release prints it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kforensics.dumplog.file_records import INT_MAX, FileRecords, java_error, opened
from kforensics.dumplog.java import JavaError
from kforensics.dumplog.log_lines import RecordLines, batch_line
from kforensics.dumplog.styles import Style
from kforensics.parsers.codecs import DEFAULT_BUDGET
from kforensics.parsers.legacy import legacy_messages
from kforensics.parsers.rows import Batch, Failure
from kforensics.parsers.source import file_name

__all__ = ["LogOptions", "first_line", "imitated_log"]

Gap = Callable[[int, int], None]
OFFSET_WIDTH, EPOCH_WIDTH = 20, 10
LONG_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What to print of a log.

    Attributes:
        lines: how to print records, None for batch lines only.
        max_bytes: look at the first so many bytes only.
        budget: most bytes to decompress per batch.
    """

    lines: RecordLines | None = None
    max_bytes: int = INT_MAX
    budget: int = DEFAULT_BUDGET


def imitated_log(path: str, options: LogOptions, style: Style, gap: Gap) -> Iterator[str]:
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
        read = 0
        last = _LastOffset(style, gap)
        for batch in records.batches():
            yield from batch_line(batch, style, read)
            if options.lines:
                yield from _record_lines(records, batch, options.lines, last)
            read += batch.size
    if records.size > read and options.max_bytes == INT_MAX:
        yield f"Found {records.size - read} invalid bytes at the end of {file_name(path)}\n"


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
