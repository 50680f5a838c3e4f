"""Decodes the records of a format 2 batch, with every check and every error message of Kafka's reader.

Rules: ``org.apache.kafka.common.record.DefaultRecord`` and the iterators of ``DefaultRecordBatch``. The checksum is
ignored: the records of a batch with a wrong checksum are read as far as their structure is intact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kforensics.parsers.format.decompression import DEFAULT_BUDGET, Decompressed, decompress
from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.failures import (
    ILLEGAL_ARGUMENT,
    MOST_HEADERS,
    REFERENCE_SIZE,
    UNDERFLOW,
    Stopped,
    codec_failure,
    invalid_record,
    invalid_structure,
    new_limit,
    out_of_memory,
    premature_end,
    records_remaining,
    too_many_headers,
)
from kforensics.parsers.format.integers import VarintError, int64, read_varint, read_varlong, sequence_after
from kforensics.parsers.format.layouts import BATCH_HEADER
from kforensics.parsers.format.rows import LOG_APPEND_TIME, Batch, Failure, Header, Record
from kforensics.parsers.log.batch_headers import CRC_START

HEADER = fixed_layout(BATCH_HEADER)
HEADER_SIZE = HEADER.size
STORED_CRC = slice(HEADER.offsets["crc"], CRC_START)
# A copy without records has a mark instead: a zero byte, which no records of any codec begin with, and the checksum.
NO_RECORDS = b"\0"
MARK_SIZE = len(NO_RECORDS) + HEADER.reader("crc").size
LEFT_OUT = Failure("left-out", "", "the records were left out of this copy by 'kforensics collect --metadata-only'")
CHECKING_END = "Error checking for remaining bytes after reading batch"
IN_STREAM = "Failed to decompress record stream"


@dataclass(frozen=True, slots=True)
class Payload:
    """The records section of a batch, decompressed as far as possible."""

    stream: Decompressed
    compressed: bool


def are_left_out(batch: Batch, data: bytes) -> bool:
    """Return whether the records of a batch were left out.

    Args:
        batch: its header.
        data: its bytes, from the first on; the last ones may be missing.
    """
    if batch.is_legacy or not batch.count or data[HEADER_SIZE : HEADER_SIZE + len(NO_RECORDS)] != NO_RECORDS:
        return False
    # Zeros may also be what a disk lost. One checksum in four billion is zero; its batch is not recognized.
    mark = data[HEADER_SIZE + len(NO_RECORDS) : HEADER_SIZE + MARK_SIZE]
    if not mark.strip(b"\0") or data[HEADER_SIZE + MARK_SIZE :].strip(b"\0"):
        return False
    return batch.crc_valid or mark == data[STORED_CRC]


def open_payload(batch: Batch, data: bytes, budget: int = DEFAULT_BUDGET) -> Payload:
    """Return the decompressed records section of a format 2 batch.

    Args:
        batch: its header.
        data: all bytes of the batch, including the header.
        budget: maximum number of bytes to decompress.
    """
    stream = decompress(batch.codec, data[HEADER_SIZE:], HEADER_SIZE, batch.magic, budget)
    return Payload(stream, compressed=batch.codec != 0)


def decode_records(
    batch: Batch, payload: Payload, *, strict: bool = False, counts_headers: bool = True
) -> Iterator[Record | Failure]:
    """Yield the records of a format 2 batch; a failure, if there is one, comes last.

    Args:
        batch: the header.
        payload: result of :func:`open_payload`.
        strict: omit a readable record on which Kafka's iterator fails.
        counts_headers: refuse a header count larger than the remaining bytes before reading, as Kafka does since 2.8.
    """
    reader = _Reader(batch, payload, strict=strict, counts_headers=counts_headers)
    try:
        yield from reader.records()
    except Stopped as stop:
        yield stop.failure


class _Reader:
    """Reads the records of one batch."""

    def __init__(self, batch: Batch, payload: Payload, *, strict: bool, counts_headers: bool) -> None:
        self.batch, self.payload, self.strict, self.counts_headers = batch, payload, strict, counts_headers

    def records(self) -> Iterator[Record]:
        count = self.batch.count or 0
        if count == 0:
            return
        stream = self.payload.stream
        if stream.at_open and stream.failure:
            raise Stopped(stream.failure if stream.failure.reason == "codec" else codec_failure(stream.failure, "open"))
        if count < 0:
            text = f"Found invalid record count {count} in magic v{self.batch.magic} batch"
            raise Stopped(invalid_record("record-count", text))
        if self.strict and self.payload.compressed and (failure := out_of_memory(count, REFERENCE_SIZE)):
            raise Stopped(failure)
        read = self._compressed if self.payload.compressed else self._plain
        position = 0
        for left in range(count - 1, -1, -1):
            record, position = read(stream.data, position)
            problem = None if left else _problem_at_end(self.payload, position)
            if problem is None or not self.strict:
                yield record
            if problem is not None:
                raise Stopped(problem)

    def _plain(self, data: bytes, position: int) -> tuple[Record, int]:
        stream_failure = self.payload.stream.failure
        try:
            length, position = read_varint(data, position)
        except IndexError:
            raise Stopped(stream_failure or premature_end()) from None
        except VarintError as error:
            raise Stopped(Failure("record-structure", ILLEGAL_ARGUMENT, str(error))) from None
        left = len(data) - position
        if length > left:
            message = (
                f"Invalid record size: expected {length} bytes in record payload, "
                f"but instead the buffer has only {left} remaining bytes."
            )
            raise Stopped(stream_failure or invalid_record("record-size", message))
        return self._body(data, position, length)

    def _compressed(self, data: bytes, position: int) -> tuple[Record, int]:
        try:
            length, position = read_varint(data, position)
        except IndexError:
            if self.payload.stream.failure:
                raise Stopped(codec_failure(self.payload.stream.failure, IN_STREAM)) from None
            raise Stopped(premature_end(_varint_at_end(data[position:]))) from None
        except VarintError as error:
            raise Stopped(premature_end(str(error), "record-structure")) from None
        if length < 0:
            raise Stopped(premature_end(f"capacity < 0: ({length} < 0)", "record-size"))
        if self.strict and (failure := out_of_memory(length)):
            raise Stopped(failure)
        body = data[position : position + length]
        if len(body) < length:
            raise Stopped(_cut_body(self.payload, length))
        record, _ = self._body(body, 0, length)
        return record, position + length

    def _body(self, data: bytes, start: int, length: int) -> tuple[Record, int]:
        try:
            timestamp_delta, position = read_varlong(data, start + 1)
            offset_delta, position = read_varint(data, position)
            key, key_size, position = _read_sized(data, position)
            value, value_size, position = _read_sized(data, position)
            header_count, position = read_varint(data, position)
            headers: tuple[Header, ...] = ()
            if header_count:
                headers, position = _read_headers(data, position, header_count, counted=self.counts_headers)
        except IndexError:
            raise Stopped(invalid_structure(UNDERFLOW)) from None
        except VarintError as error:
            raise Stopped(invalid_structure((ILLEGAL_ARGUMENT, str(error)))) from None
        if position - start != length:
            message = (
                f"Invalid record size: expected to read {length} bytes in record payload, "
                f"but instead read {position - start}"
            )
            raise Stopped(invalid_record("record-size", message))
        batch = self.batch
        timestamp = batch.max_timestamp
        if batch.timestamp_type != LOG_APPEND_TIME:
            timestamp = int64((batch.base_timestamp or 0) + timestamp_delta)
        base_sequence = -1 if batch.base_sequence is None else batch.base_sequence
        sequence = sequence_after(base_sequence, offset_delta) if base_sequence >= 0 else -1
        offset = int64((batch.base_offset or 0) + offset_delta)
        return Record(offset, timestamp, sequence, key, value, headers, key_size, value_size), position


def _problem_at_end(payload: Payload, position: int) -> Failure | None:
    if position < len(payload.stream.data):
        return records_remaining()
    return codec_failure(payload.stream.failure, CHECKING_END) if payload.stream.failure else None


def _varint_at_end(rest: bytes) -> str:
    """Return Kafka's message for a stream that ends inside a varint.

    Kafka reads the end of the stream as -1, a byte with its continuation bit set.
    """
    try:
        read_varint(rest + b"\xff" * 5, 0)
    except VarintError as error:
        return str(error)
    return ""


def _cut_body(payload: Payload, length: int) -> Failure:
    if payload.stream.failure:
        return codec_failure(payload.stream.failure, IN_STREAM)
    message = f"Invalid record size: expected {length} bytes in record payload, but the record payload reached EOF."
    return invalid_record("record-size", message)


def _read_sized(data: bytes, position: int) -> tuple[bytes | None, int, int]:
    """Return length-prefixed bytes, the size that Kafka prints (-1 for null), and the position after them."""
    length, position = read_varint(data, position)
    if length < 0:
        return None, -1, position
    end = position + length
    if end > len(data):
        raise Stopped(invalid_structure(new_limit(length, len(data) - position)))
    return data[position:end], length, end


def _read_headers(data: bytes, position: int, count: int, *, counted: bool) -> tuple[tuple[Header, ...], int]:
    if count < 0:
        raise Stopped(invalid_record("record-headers", f"Found invalid number of record headers {count}"))
    if counted and count > len(data) - position:
        message = f"Found invalid number of record headers. {count} is larger than the remaining size of the buffer"
        raise Stopped(invalid_record("record-headers", message))
    if counted and count > MOST_HEADERS:
        raise Stopped(too_many_headers(count))
    if not counted and (failure := out_of_memory(count, REFERENCE_SIZE)):
        raise Stopped(failure)
    headers = []
    for _ in range(count):
        length, _ = read_varint(data, position)
        if length < 0:
            raise Stopped(invalid_record("record-headers", f"Invalid negative header key size {length}"))
        key, _, position = _read_sized(data, position)
        value, _, position = _read_sized(data, position)
        headers.append((key or b"", value))
    return tuple(headers), position
