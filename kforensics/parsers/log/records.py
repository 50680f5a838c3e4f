"""The records of a format 2 batch, one by one, with every check of Kafka's reader and its words for what fails.

Rule: ``org.apache.kafka.common.record.DefaultRecord`` and the iterators of ``DefaultRecordBatch``. The checksum plays
no part here: the records of a batch whose checksum fails are read as far as their structure goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kforensics.parsers.format.codecs import DEFAULT_BUDGET, Decompressed, decompress
from kforensics.parsers.format.derived import fixed
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
from kforensics.parsers.format.integers import int32, int64
from kforensics.parsers.format.layouts import BATCH_HEADER
from kforensics.parsers.format.rows import LOG_APPEND_TIME, Batch, Failure, Header, Record
from kforensics.parsers.format.varint import VarintError, read_varint, read_varlong

__all__ = ["Payload", "decode_records", "open_payload", "sequence_after"]

HEADER_SIZE = fixed(BATCH_HEADER).size
INT32_MAX = 0x7FFFFFFF
CHECKING_END = "Error checking for remaining bytes after reading batch"
IN_STREAM = "Failed to decompress record stream"


@dataclass(frozen=True, slots=True)
class Payload:
    """The records section of a batch, decompressed as far as possible."""

    stream: Decompressed
    compressed: bool


def open_payload(batch: Batch, data: bytes, budget: int = DEFAULT_BUDGET) -> Payload:
    """Return what lies behind the header of a format 2 batch.

    Args:
        batch: its header.
        data: all bytes of the batch, the header included.
        budget: most bytes to decompress.
    """
    stream = decompress(batch.codec, data[HEADER_SIZE:], HEADER_SIZE, batch.magic, budget)
    return Payload(stream, compressed=batch.codec != 0)


def decode_records(
    batch: Batch, payload: Payload, *, strict: bool = False, counts_headers: bool = True
) -> Iterator[Record | Failure]:
    """Yield the records of a format 2 batch; a failure, if there is one, comes last.

    Args:
        batch: the header.
        payload: what :func:`open_payload` returned.
        strict: leave out the record on which Kafka's iterator fails although it could be read.
        counts_headers: refuse more headers than bytes before reading them, as Kafka does since 2.8.
    """
    reader = _Reader(batch, payload, strict=strict, counts_headers=counts_headers)
    try:
        yield from reader.records()
    except Stopped as stop:
        yield stop.failure


def sequence_after(base: int, delta: int) -> int:
    """Return ``base + delta`` as sequences count: from 2147483647 on to 0, all in 32-bit arithmetic.

    Rule: ``DefaultRecordBatch.incrementSequence``.
    """
    room = int32(INT32_MAX - delta)
    return int32(delta - int32(INT32_MAX - base) - 1) if base > room else int32(base + delta)


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
        cut = self.payload.stream.failure
        try:
            length, position = read_varint(data, position)
        except IndexError:
            raise Stopped(cut or premature_end()) from None
        except VarintError as error:
            raise Stopped(Failure("record-structure", ILLEGAL_ARGUMENT, str(error))) from None
        left = len(data) - position
        if length > left:
            message = (
                f"Invalid record size: expected {length} bytes in record payload, "
                f"but instead the buffer has only {left} remaining bytes."
            )
            raise Stopped(cut or invalid_record("record-size", message))
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
    """Return what Kafka says of a stream that ends inside a varint: it reads the end as -1, a byte that goes on."""
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
    """Return bytes behind their length, the size Kafka prints (-1 for null) and the position behind them."""
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
