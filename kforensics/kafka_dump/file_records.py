"""A segment as Kafka's own reader sees it: stops where that stops, takes what that takes, fails with its words.

Rule: ``org.apache.kafka.common.record.FileRecords`` and ``FileLogInputStream``. For reading that goes on behind damage
see :mod:`kforensics.parsers.log.batches`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from kforensics.errors import InputError, InputForbiddenError, InputMissingError
from kforensics.kafka_dump.java import JavaError
from kforensics.kafka_dump.old_readers import counts_headers, old_words, whole_windows
from kforensics.kafka_dump.styles import Style
from kforensics.parsers.files.source import LocalSource, Source
from kforensics.parsers.files.window import Window
from kforensics.parsers.format.codecs import DEFAULT_BUDGET, SNAPPY
from kforensics.parsers.format.derived import fixed
from kforensics.parsers.format.failures import CORRUPT_RECORD, ILLEGAL_ARGUMENT, INDEX_OUT_OF_BOUNDS, KAFKA
from kforensics.parsers.format.layouts import BATCH_HEADER, ENTRY_PREFIX
from kforensics.parsers.format.rows import Batch, Failure, Record
from kforensics.parsers.log.batches import checked_header
from kforensics.parsers.log.headers import LENGTH_END, prefix
from kforensics.parsers.log.legacy import MIN_SIZE, legacy_records
from kforensics.parsers.log.records import Payload, decode_records, open_payload

__all__ = ["FileRecords", "java_error", "java_path", "opened"]

INT_MAX = 0x7FFFFFFF
HEADER_SIZE = fixed(BATCH_HEADER).size
FIRST_BATCH_MAGIC = 2
PREFIX_SIZE = fixed(ENTRY_PREFIX).size


def java_path(path: str) -> str:
    """Return a path as ``java.io.File`` shows it: no doubled and no trailing slash."""
    shown = re.sub("/+", "/", path)
    return shown if shown == "/" else shown.rstrip("/")


def opened(path: str) -> LocalSource:
    """Open a file.

    Raises:
        JavaError: as ``FileChannel.open`` does.
    """
    try:
        return LocalSource(path)
    except InputMissingError as error:
        raise JavaError("java.nio.file.NoSuchFileException", java_path(path)) from error
    except InputForbiddenError as error:
        raise JavaError("java.nio.file.AccessDeniedException", java_path(path)) from error
    except InputError as error:
        raise JavaError("java.io.IOException", error.why) from error


def java_error(failure: Failure) -> JavaError:
    """Return the exception Kafka's reader raises for a failure."""
    cause: JavaError | None = None
    for name, message in reversed(failure.causes):
        cause = JavaError(name, message, cause)
    return JavaError(failure.exception, failure.message, cause)


class FileRecords:
    """A range of a segment.

    Args:
        source: the ``.log``; its path is shown in messages as given.
        start: first byte of the range.
        end: byte behind the last one.
        budget: most bytes to decompress per batch.
        style: the release whose reader it is, None for today's.

    Raises:
        JavaError: the file is larger than Kafka opens.
    """

    def __init__(
        self,
        source: Source,
        start: int = 0,
        end: int = INT_MAX,
        budget: int = DEFAULT_BUDGET,
        style: Style | None = None,
    ) -> None:
        if source.size > INT_MAX:
            message = (
                f"The size of segment {java_path(source.path)} ({source.size}) is larger than the maximum allowed "
                f"segment size of {INT_MAX}"
            )
            raise JavaError(KAFKA, message)
        self.source, self.start, self.end, self.budget, self.style = source, start, end, budget, style
        self.size = max(0, min(source.size, end) - start)

    def __str__(self) -> str:
        return f"FileRecords(size={self.size}, file={java_path(self.source.path)}, start={self.start}, end={self.end})"

    def slice(self, position: int, size: int) -> FileRecords:
        """Return a range of this range.

        Raises:
            JavaError: the range does not begin inside this one, or its size is negative.
        """
        if position < 0:
            raise JavaError(ILLEGAL_ARGUMENT, f"Invalid position: {position} in read from {self}")
        if position > self.size - self.start:
            raise JavaError(ILLEGAL_ARGUMENT, f"Slice from position {position} exceeds end position of {self}")
        if size < 0:
            raise JavaError(ILLEGAL_ARGUMENT, f"Invalid size: {size} in read from {self}")
        start = self.start + position
        return FileRecords(self.source, start, min(start + size, self.start + self.size), self.budget, self.style)

    def batches(self) -> Iterator[Batch]:
        """Yield the batches up to the first that is not whole.

        Raises:
            JavaError: a length is too small, or a header cannot be read.
        """
        yield from self.batches_from(self.start)

    def batches_from(self, position: int) -> Iterator[Batch]:
        """Yield the batches from a position of the file on; raises as :meth:`batches`."""
        window = Window(self.source)
        while batch := self.batch_at(window, position):
            yield batch
            position += batch.size

    def batch_at(self, window: Window, position: int) -> Batch | None:
        """Return the batch at a position of the file, None if there is no whole one; raises as :meth:`batches`."""
        end = self.start + self.size
        if position >= end - PREFIX_SIZE:
            return None
        head = window.read(position, HEADER_SIZE)
        _, length, magic = prefix(head)
        if length < MIN_SIZE:
            message = (
                f"Found record size {length} smaller than minimum record overhead ({MIN_SIZE}) "
                f"in file {java_path(self.source.path)}."
            )
            raise JavaError(CORRUPT_RECORD, message)
        if position > end - LENGTH_END - length:
            return None
        if len(head) < HEADER_SIZE and magic >= FIRST_BATCH_MAGIC:
            raise self._short_header(position, len(head))
        return checked_header(window, position, head, LENGTH_END + length)

    def records(self, batch: Batch) -> Iterator[Record]:
        """Yield the records of a batch as Kafka's iterator does: of a compressed batch all or none.

        Raises:
            JavaError: where that iterator fails.
        """
        read = self._reader(batch)
        if batch.codec:
            failure = next((row for row in read() if isinstance(row, Failure)), None)
            if failure and failure.reason != "nested-compression":
                raise java_error(failure)
        for row in read():
            if isinstance(row, Failure):
                raise java_error(row)
            yield row

    def max_record_timestamp(self, batch: Batch) -> int:
        """Return the largest timestamp of the batch's records, -1 if it has none; raises as :meth:`records`."""
        return max((record.timestamp for record in self.records(batch)), default=-1)

    def data(self, batch: Batch) -> bytes:
        """Return all bytes of a batch."""
        return self.source.read(batch.position, batch.size)

    def _reader(self, batch: Batch) -> Callable[[], Iterator[Record | Failure]]:
        """Return what reads the records of a batch, as often as it is called, from bytes that are read once."""
        data = self.data(batch)
        if batch.is_legacy:
            return partial(legacy_records, batch, data, self.budget, strict=True)
        if len(data) < HEADER_SIZE:
            return lambda: iter([Failure("length", INDEX_OUT_OF_BOUNDS, None)])
        return partial(self._batch_rows, batch, open_payload(batch, data, self.budget))

    def _batch_rows(self, batch: Batch, payload: Payload) -> Iterator[Record | Failure]:
        old = self.style is not None and self.style.old_reader
        if batch.codec == SNAPPY and not old:
            payload = whole_windows(payload)
        read = 0
        for row in decode_records(batch, payload, strict=True, counts_headers=counts_headers(self.style)):
            if not isinstance(row, Failure):
                read += 1
                yield row
            else:
                yield old_words(row, last=read + 1 == batch.count) if old else row

    def _short_header(self, position: int, got: int) -> JavaError:
        reached = (
            "Failed to read `record batch header` from file channel `sun.nio.ch.FileChannelImpl@0`. "
            f"Expected to read {HEADER_SIZE} bytes, but reached end of file after reading {got} bytes. "
            f"Started read from position {position}."
        )
        message = f"Failed to load record batch at position {position} from {self}"
        return JavaError(KAFKA, message, JavaError("java.io.EOFException", reached))
