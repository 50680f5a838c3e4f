"""The reference decoder of format 2: construct reads every field, crcmod computes the checksum. Slow but simple.

It defines the correct result. The faster decoders must return the same rows and fail at the same record with the same
reason, on intact and on damaged bytes.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

from construct import ConstructError

from kforensics.parsers.format.checksums import reference_crc32c
from kforensics.parsers.format.failures import (
    MOST_HEADERS,
    invalid_record,
    invalid_structure,
    premature_end,
    records_remaining,
    too_many_headers,
)
from kforensics.parsers.format.integers import int64, sequence_after
from kforensics.parsers.format.layouts import BATCH_HEADER, RECORD, RECORD_HEADER
from kforensics.parsers.format.rows import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    LOG_APPEND_TIME_BIT,
    Batch,
    Failure,
    Header,
    Record,
)
from kforensics.parsers.log.batch_headers import CRC_START, LENGTH_END
from kforensics.parsers.log.records import Payload

UNREADABLE = ("construct", "a field does not fit")


def reference_header(data: bytes, position: int) -> Batch:
    """Return the header of a format 2 batch, given all its bytes."""
    fields = BATCH_HEADER.parse(data)
    size = LENGTH_END + fields.length
    return Batch(
        position=position,
        size=size,
        base_offset=fields.base_offset,
        last_offset=int64(fields.base_offset + fields.last_offset_delta),
        count=fields.count,
        magic=fields.magic,
        partition_leader_epoch=fields.partition_leader_epoch,
        crc=fields.crc,
        crc_valid=fields.crc == reference_crc32c()(data[CRC_START:size]),
        attributes=fields.attributes,
        timestamp_type=LOG_APPEND_TIME if fields.attributes & LOG_APPEND_TIME_BIT else CREATE_TIME,
        base_timestamp=fields.base_timestamp,
        max_timestamp=fields.max_timestamp,
        producer_id=fields.producer_id,
        producer_epoch=fields.producer_epoch,
        base_sequence=fields.base_sequence,
        last_sequence=-1
        if fields.base_sequence == -1
        else sequence_after(fields.base_sequence, fields.last_offset_delta),
        last_offset_delta=fields.last_offset_delta,
    )


def reference_records(batch: Batch, payload: Payload) -> Iterator[Record | Failure]:
    """Yield the records of a format 2 batch; a failure, if there is one, comes last.

    Only the reason of a failure is exact; :mod:`kforensics.parsers.log.records` reproduces Kafka's messages.
    """
    stream = io.BytesIO(payload.stream.data)
    count = batch.count or 0
    if count and payload.stream.at_open and payload.stream.failure:
        yield payload.stream.failure
        return
    if count < 0:
        yield invalid_record("record-count", f"record count {count}")
        return
    for _ in range(count):
        row = _record(batch, payload, stream)
        yield row
        if isinstance(row, Failure):
            return
    if count and stream.read(1):
        yield records_remaining()
    elif count and payload.stream.failure:
        yield payload.stream.failure


def _record(batch: Batch, payload: Payload, stream: io.BytesIO) -> Record | Failure:
    body = _body(payload, stream)
    if isinstance(body, Failure):
        return body
    start = body.tell()
    try:
        fields = RECORD.parse_stream(body)
        if fields.header_count < 0:
            return invalid_record("record-headers", "negative header count")
        if fields.header_count > len(body.getbuffer()) - body.tell():
            return invalid_record("record-headers", "more headers than bytes")
        if fields.header_count > MOST_HEADERS:
            return too_many_headers(fields.header_count)
        headers = _headers(fields.header_count, body)
    except ConstructError:
        return invalid_structure(UNREADABLE)
    if headers is None:
        return invalid_record("record-headers", "a header without a key")
    length_field = io.BytesIO(body.getvalue()[start:])
    RECORD.length.parse_stream(length_field)
    if body.tell() - start - length_field.tell() != fields.length:
        return invalid_record("record-size", "length and content differ")
    if not payload.compressed:
        stream.seek(body.tell())
    return _row(batch, fields, headers)


def _body(payload: Payload, stream: io.BytesIO) -> io.BytesIO | Failure:
    """Return the stream of a record, positioned at its length field; a compressed record has a stream of its own."""
    start = stream.tell()
    try:
        length = RECORD.length.parse_stream(stream)
    except ConstructError as error:
        too_long = "longer" in str(error)
        if payload.compressed:
            if too_long:
                return invalid_structure(UNREADABLE)
            return payload.stream.failure or premature_end()
        return invalid_structure(UNREADABLE) if too_long else payload.stream.failure or premature_end()
    if payload.compressed and length < 0:
        return invalid_record("record-size", "negative length")
    left = len(stream.getbuffer()) - stream.tell()
    if length > left:
        return payload.stream.failure or invalid_record("record-size", "record is longer than its batch")
    end = stream.tell() + length
    stream.seek(start)
    if not payload.compressed:
        return stream
    return io.BytesIO(stream.read(end - start))


def _headers(count: int, body: io.BytesIO) -> tuple[Header, ...] | None:
    headers = []
    for _ in range(count):
        key = RECORD_HEADER.key.parse_stream(body)
        if key is None:
            return None
        headers.append((key, RECORD_HEADER.value.parse_stream(body)))
    return tuple(headers)


def _row(batch: Batch, fields: object, headers: tuple[Header, ...]) -> Record:
    key, value = fields.key, fields.value  # type: ignore[attr-defined]  # a construct Container
    base = -1 if batch.base_sequence is None else batch.base_sequence
    create_time = batch.timestamp_type != LOG_APPEND_TIME
    timestamp = int64((batch.base_timestamp or 0) + fields.timestamp_delta) if create_time else batch.max_timestamp  # type: ignore[attr-defined]  # a construct Container
    return Record(
        offset=int64((batch.base_offset or 0) + fields.offset_delta),  # type: ignore[attr-defined]  # a construct Container
        timestamp=timestamp,
        sequence=sequence_after(base, fields.offset_delta) if base >= 0 else -1,  # type: ignore[attr-defined]  # a construct Container
        key=key,
        value=value,
        headers=headers,
        key_size=-1 if key is None else len(key),
        value_size=-1 if value is None else len(value),
    )
