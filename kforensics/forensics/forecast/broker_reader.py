"""Reads the batches of a segment as a broker does, which stops where the reader of evidence goes on.

Rules: ``FileLogInputStream.nextBatch``, ``LogSegment.readNextOffset`` and ``LogSegment.recover``. A rest that is too
short for the batch that it begins is the end of the log. A length that no batch can have is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from kforensics.errors import KforensicsError
from kforensics.forensics.forecast.index_limits import IndexLimits, RebuiltIndexes
from kforensics.parsers.files.source import Window, open_source
from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.layouts import BATCH_HEADER
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batch_headers import LENGTH_END, MIN_SIZE, batch_header, legacy_header, prefix
from kforensics.parsers.log.batches import MIN_HEAD, checked_header
from kforensics.parsers.state.indexes import OffsetLookup

__all__ = [
    "CorruptLogError",
    "ReadBatch",
    "Recovered",
    "WrongSegmentError",
    "batches_from",
    "is_valid",
    "last_batch",
    "last_readable_batch",
    "next_offset",
    "recover",
]

HEADER = fixed_layout(BATCH_HEADER)
CORRUPT = "org.apache.kafka.common.errors.CorruptRecordException"


class CorruptLogError(KforensicsError):
    """A broker cannot read on at a position of a log.

    Attributes:
        path: the log.
        position: the position.
    """

    def __init__(self, path: str, position: int, why: str) -> None:
        super().__init__(path, position, why)
        self.path, self.position, self.why = path, position, why

    def __str__(self) -> str:
        return f"{self.path} at position {self.position}: {self.why}"


class WrongSegmentError(CorruptLogError):
    """A log has offsets below that in its name, which a broker cannot recover."""


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """A batch as a broker sees it, without its checksum.

    Attributes:
        header: its fields.
        next_offset: the offset after its last record.
    """

    header: Batch

    @property
    def next_offset(self) -> int:
        """The offset after its last record."""
        return self.header.last_offset + 1

    @property
    def end(self) -> int:
        """The position after it."""
        return self.header.position + self.header.size


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a recovery keeps of a segment.

    Attributes:
        end: size of what is kept.
        next_offset: offset after the last batch that is kept.
        lost_bytes: bytes after them that are cut off.
    """

    end: int
    next_offset: int
    lost_bytes: int


def batches_from(window: Window, position: int, path: str) -> Iterator[ReadBatch]:
    """Yield the batches from a position on.

    Raises:
        CorruptLogError: the length of a batch is too small.
    """
    while position < window.end - MIN_HEAD + 1:
        head = window.read(position, HEADER.size)
        _, length, magic = prefix(head)
        if length < MIN_SIZE:
            why = f"Found record size {length} smaller than minimum record overhead ({MIN_SIZE})"
            raise CorruptLogError(path, position, why)
        if position + LENGTH_END + length > window.end:
            return
        decode = legacy_header if 0 <= magic < 2 else batch_header
        batch = ReadBatch(decode(head.ljust(HEADER.size, b"\0"), position, crc_of_rest=0))
        yield batch
        position += LENGTH_END + length


def next_offset(log: str, index: str | None, base_offset: int) -> int:
    """Return the offset after the last batch of a segment, as a broker finds it with the last entry of its index.

    If the batch of that entry is not whole, the broker finds nothing, and takes the segment for empty.

    Args:
        log: path of the ``.log``.
        index: path of the ``.index``, None without one.
        base_offset: base offset of the segment.

    Raises:
        CorruptLogError: the broker cannot read the log.
        InputError: a file cannot be read.
    """
    last = last_batch(log, index, base_offset)
    return base_offset if last is None else last.next_offset


def last_batch(log: str, index: str | None, base_offset: int) -> ReadBatch | None:
    """Return the batch at which a broker finds the end of a segment, None if it takes the segment for empty.

    Arguments and errors are those of :func:`next_offset`.
    """
    target, position = _last_entry(index, base_offset)
    last: ReadBatch | None = None
    with open_source(log) as source:
        for batch in batches_from(Window(source), position, log):
            if last is not None or batch.header.last_offset >= target:
                last = batch
    return last


def last_readable_batch(log: str) -> ReadBatch | None:
    """Return the last batch before the first place at which a segment cannot be read, None if there is none."""
    last: ReadBatch | None = None
    with open_source(log) as source, suppress(CorruptLogError):
        for batch in batches_from(Window(source), 0, log):
            last = batch
    return last


def _last_entry(index: str | None, base_offset: int) -> tuple[int, int]:
    """Return offset and position of the last entry of an index, as a broker looks it up."""
    if index is None:
        return base_offset, 0
    with open_source(index) as source:
        lookup = OffsetLookup(source, base_offset)
        if not lookup.entries:
            return base_offset, 0
        offset = lookup.entry(lookup.entries - 1)[0]
        return offset, max(lookup.position(offset), 0)


def recover(log: str, base_offset: int, limits: IndexLimits) -> Recovered:
    """Return what a recovery keeps of a segment: the batches before the first that is not valid.

    Args:
        log: path of the ``.log``.
        base_offset: base offset of the segment.
        limits: settings of the topic for its indexes.

    Raises:
        LoadRefusedError: the indexes become too large.
        WrongSegmentError: the broker cannot recover it.
        InputError: the log cannot be read.
    """
    end, following = 0, base_offset
    indexes = RebuiltIndexes(log, limits)
    with open_source(log) as source:
        window = Window(source)
        try:
            for batch in batches_from(window, 0, log):
                if not is_valid(window, batch.header):
                    break
                if batch.header.last_offset < base_offset:
                    raise WrongSegmentError(log, batch.header.position, "an offset is below that in the file name")
                indexes.add(batch.header)
                end, following = batch.end, batch.next_offset
        except WrongSegmentError:
            raise
        except CorruptLogError as error:
            # The rest is cut off.
            end = min(end, error.position)
        return Recovered(end, following, window.end - end)


def is_valid(window: Window, header: Batch) -> bool:
    """Return whether the checksum of a batch is that of its bytes."""
    if header.magic >= 2 and header.size < HEADER.size:
        return False
    head = window.read(header.position, HEADER.size)
    return checked_header(window, header.position, head, header.size).crc_valid
