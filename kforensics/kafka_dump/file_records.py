"""A segment as Kafka's own reader sees it: the reader stops at the same byte and fails with the same exception.

Rule: ``org.apache.kafka.common.record.FileRecords`` and ``FileLogInputStream``. How earlier releases report a failure
was observed in runs of the released tools on damaged files; see ``sample_logs/golden``. For a reader that continues
after damage see :mod:`kforensics.parsers.log.batches`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from kforensics.kafka_dump.java import MAX_INT, JavaError, java_error, java_path
from kforensics.kafka_dump.styles import DumpStyle
from kforensics.parsers.files.source import Source, Window
from kforensics.parsers.format.decompression import DEFAULT_BUDGET, SNAPPY
from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.failures import (
    CORRUPT_RECORD,
    ILLEGAL_ARGUMENT,
    INDEX_OUT_OF_BOUNDS,
    KAFKA,
    premature_end,
    records_remaining,
)
from kforensics.parsers.format.layouts import BATCH_HEADER, ENTRY_PREFIX
from kforensics.parsers.format.rows import Batch, Failure, Record
from kforensics.parsers.log.batch_headers import LENGTH_END, MIN_SIZE, prefix
from kforensics.parsers.log.batches import checked_header
from kforensics.parsers.log.legacy_format import legacy_records
from kforensics.parsers.log.records import IN_STREAM, Payload, decode_records, open_payload

BATCH_HEADER_SIZE = fixed_layout(BATCH_HEADER).size
FIRST_BATCH_MAGIC = 2
PREFIX_SIZE = fixed_layout(ENTRY_PREFIX).size

EOF = "java.io.EOFException"
SNAPPY_ERROR = "org.xerial.snappy.SnappyError"
# Releases since 3.x read records from chunks of this many decompressed bytes. A chunk that fails gives no records.
SNAPPY_CHUNK = 2048
NULL_RECORD = 'Cannot invoke "org.apache.kafka.common.record.Record.offset()" because "record" is null'
OLD_ZSTD_MESSAGES = {
    "Truncated source": "Read error or truncated source",
    "Data corruption detected": "Decompression error: Corrupted block detected",
}


class SegmentRange:
    """A range of a segment.

    Args:
        source: the ``.log``; messages show its path unchanged.
        start: the position of the first byte.
        end: the position after the last byte.
        budget: the most bytes to decompress per batch.
        style: the release whose reader is imitated; None for the newest.

    Raises:
        JavaError: the file is too large for Kafka.
    """

    def __init__(
        self,
        source: Source,
        start: int = 0,
        end: int = MAX_INT,
        budget: int = DEFAULT_BUDGET,
        style: DumpStyle | None = None,
    ) -> None:
        if source.size > MAX_INT:
            message = (
                f"The size of segment {java_path(source.path)} ({source.size}) is larger than the maximum allowed "
                f"segment size of {MAX_INT}"
            )
            raise JavaError(KAFKA, message)
        self.source, self.start, self.end, self.budget, self.style = source, start, end, budget, style
        self.size = max(0, min(source.size, end) - start)

    def __str__(self) -> str:
        return f"FileRecords(size={self.size}, file={java_path(self.source.path)}, start={self.start}, end={self.end})"

    def slice(self, position: int, size: int) -> SegmentRange:
        """Return a part of this range.

        Raises:
            JavaError: the part does not begin inside this range, or its size is negative.
        """
        if position < 0:
            raise JavaError(ILLEGAL_ARGUMENT, f"Invalid position: {position} in read from {self}")
        if position > self.size - self.start:
            raise JavaError(ILLEGAL_ARGUMENT, f"Slice from position {position} exceeds end position of {self}")
        if size < 0:
            raise JavaError(ILLEGAL_ARGUMENT, f"Invalid size: {size} in read from {self}")
        start = self.start + position
        return SegmentRange(self.source, start, min(start + size, self.start + self.size), self.budget, self.style)

    def batches(self) -> Iterator[Batch]:
        """Yield the batches up to the first incomplete one.

        Raises:
            JavaError: the length of a batch is too small, or a header cannot be read.
        """
        yield from self.batches_from(self.start)

    def batches_from(self, position: int) -> Iterator[Batch]:
        """Yield the batches from a position in the file; raises what :meth:`batches` raises."""
        window = Window(self.source)
        while batch := self.batch_at(window, position):
            yield batch
            position += batch.size

    def batch_at(self, window: Window, position: int) -> Batch | None:
        """Return the batch at a position in the file, or None if it is incomplete; raises what :meth:`batches` does."""
        end = self.start + self.size
        if position >= end - PREFIX_SIZE:
            return None
        head = window.read(position, BATCH_HEADER_SIZE)
        _, length, magic = prefix(head)
        if length < MIN_SIZE:
            message = (
                f"Found record size {length} smaller than minimum record overhead ({MIN_SIZE}) "
                f"in file {java_path(self.source.path)}."
            )
            raise JavaError(CORRUPT_RECORD, message)
        if position > end - LENGTH_END - length:
            return None
        if len(head) < BATCH_HEADER_SIZE and magic >= FIRST_BATCH_MAGIC:
            raise self._short_header(position, len(head))
        return checked_header(window, position, head, LENGTH_END + length)

    def records(self, batch: Batch) -> Iterator[Record]:
        """Yield the records of a batch as Kafka's iterator does: all records of a compressed batch, or none.

        Raises:
            JavaError: that iterator fails.
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
        """Return the largest record timestamp of a batch, or -1 without records; raises what :meth:`records` raises."""
        return max((record.timestamp for record in self.records(batch)), default=-1)

    def data(self, batch: Batch) -> bytes:
        """Return all bytes of a batch."""
        return self.source.read(batch.position, batch.size)

    def _reader(self, batch: Batch) -> Callable[[], Iterator[Record | Failure]]:
        """Return a function that yields the records of a batch; the bytes are read once, however often it is called."""
        data = self.data(batch)
        if batch.is_legacy:
            return partial(legacy_records, batch, data, self.budget, strict=True)
        if len(data) < BATCH_HEADER_SIZE:
            return lambda: iter([Failure("length", INDEX_OUT_OF_BOUNDS, None)])
        return partial(self._batch_rows, batch, open_payload(batch, data, self.budget))

    def _batch_rows(self, batch: Batch, payload: Payload) -> Iterator[Record | Failure]:
        is_old = self.style is not None and self.style.old_reader
        if batch.codec == SNAPPY and not is_old:
            payload = _without_failing_chunk(payload)
        # 2.7 does not compare the header count with the remaining bytes before it reads the headers.
        counts_headers = self.style is None or self.style.name != "2.7"
        count = 0
        for row in decode_records(batch, payload, strict=True, counts_headers=counts_headers):
            if not isinstance(row, Failure):
                count += 1
                yield row
            else:
                yield _old_failure(row, is_last=count + 1 == batch.count) if is_old else row

    def _short_header(self, position: int, size: int) -> JavaError:
        cause = (
            "Failed to read `record batch header` from file channel `sun.nio.ch.FileChannelImpl@0`. "
            f"Expected to read {BATCH_HEADER_SIZE} bytes, but reached end of file after reading {size} bytes. "
            f"Started read from position {position}."
        )
        message = f"Failed to load record batch at position {position} from {self}"
        return JavaError(KAFKA, message, JavaError(EOF, cause))


def _without_failing_chunk(payload: Payload) -> Payload:
    """Return a snappy payload as readers since 3.x see it: without the chunk in which decompression fails."""
    stream = payload.stream
    if stream.failure is None or stream.at_open:
        return payload
    size = len(stream.data) // SNAPPY_CHUNK * SNAPPY_CHUNK
    return replace(payload, stream=replace(stream, data=stream.data[:size]))


def _old_failure(failure: Failure, *, is_last: bool) -> Failure:
    """Return a failure as 2.7 and 2.8 report it.

    Args:
        failure: a failure to read a record, as the newest release reports it.
        is_last: whether the record should be the last of its batch.
    """
    text = failure.message or ""
    if text.startswith("Invalid record size: expected") and "instead the buffer has only" in text:
        return _null_record(text, is_last=is_last)
    if text.endswith("the record payload reached EOF."):
        return premature_end()
    if text.startswith("Incorrect declared batch size, premature EOF") and failure.causes:
        without_cause = Failure(failure.reason, ILLEGAL_ARGUMENT, failure.causes[0][1])
        return premature_end() if failure.reason == "record-count" else without_cause
    if failure.exception == SNAPPY_ERROR:
        return Failure(failure.reason, "java.lang.NegativeArraySizeException", text.rpartition(" ")[2])
    if failure.exception == KAFKA and failure.causes:
        return _old_codec_failure(failure)
    return failure


def _null_record(text: str, *, is_last: bool) -> Failure:
    """Return the failure of a record that does not fit, for which the old readers return null.

    Null for the last record of a batch leads to the check for remaining bytes; any other null is dereferenced.
    """
    if is_last and not text.endswith("only 0 remaining bytes."):
        return records_remaining()
    return Failure("record-size", "java.lang.NullPointerException", NULL_RECORD)


def _old_codec_failure(failure: Failure) -> Failure:
    name, text = failure.causes[0]
    if name == EOF and failure.message == IN_STREAM:
        return premature_end()
    if name.endswith("ZstdIOException") and text:
        message = OLD_ZSTD_MESSAGES.get(text, f"Decompression error: {text}")
        return replace(failure, causes=(("java.io.IOException", message), *failure.causes[1:]))
    return failure
