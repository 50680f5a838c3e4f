"""Breaks a batch down into fields: position, bytes, value and description of each.

Names, order and descriptions come from the layouts, and positions from reading the fields one after another. The only
width repeated here is that of the length fields of formats 0 and 1.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from construct import ConstructError

from kforensics.parsers.format.decompression import DEFAULT_BUDGET
from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.layouts import BATCH_HEADER, LEGACY_HEADER_V0, LEGACY_HEADER_V1, RECORD, RECORD_HEADER
from kforensics.parsers.format.rows import Batch, Failure
from kforensics.parsers.log.batch_headers import LENGTH_FIELD
from kforensics.parsers.log.legacy_format import LegacyMessage, legacy_messages, outer_message
from kforensics.parsers.log.records import HEADER_SIZE, open_payload

INCOMPLETE = "the bytes do not contain a whole field"
# Headers shown per record; the table ``records`` has all of them.
MOST_SHOWN = 100
LEGACY_SIZED = (("key", "i32 length and that many bytes; -1 for null"), ("value", "the same"))


@dataclass(frozen=True, slots=True)
class FieldBytes:
    """A field and its bytes.

    Attributes:
        name: name of the field in its layout.
        position: position of its first byte, in the file or in the decompressed data.
        data: its bytes.
        value: its value; None for null or an unreadable field.
        doc: description from the layout.
        error: why the field could not be read, None if it could.
    """

    name: str
    position: int
    data: bytes
    value: Any
    doc: str
    error: str | None = None

    @property
    def end(self) -> int:
        """Position after its last byte."""
        return self.position + len(self.data)


@dataclass(frozen=True, slots=True)
class FieldGroup:
    """The fields of a header or a record.

    Attributes:
        title: name of the group.
        fields: its fields, in byte order.
        unpacked: whether positions refer to the decompressed data instead of the file.
    """

    title: str
    fields: tuple[FieldBytes, ...]
    unpacked: bool = False


@dataclass(frozen=True, slots=True)
class BatchBreakdown:
    """The fields of a batch.

    Attributes:
        groups: the header, the compressed data as a single field, and the records.
        unpacked: the decompressed data; empty if the batch is not compressed.
        failure: why not all requested records could be read, None if they could.
        left_out: number of records beyond the requested ones, according to the header.
    """

    groups: tuple[FieldGroup, ...]
    unpacked: bytes = b""
    failure: str | None = None
    left_out: int = 0


def layout_fields(layout: Any, data: bytes, begin: int = 0, origin: int = 0) -> Iterator[FieldBytes]:
    """Yield the fields of a layout. A field that cannot be read has all remaining bytes and is the last one.

    Args:
        layout: a construct ``Struct``.
        data: bytes that contain it.
        begin: where in ``data`` it begins.
        origin: position of the first byte of ``data``.
    """
    stream = io.BytesIO(data)
    stream.seek(begin)
    for field in layout.subcons:
        start = stream.tell()
        try:
            value = field.parse_stream(stream)
        except ConstructError:
            yield FieldBytes(field.name, origin + start, data[start:], None, field.docs, INCOMPLETE)
            return
        yield FieldBytes(field.name, origin + start, data[start : stream.tell()], value, field.docs)


def batch_breakdown(batch: Batch, data: bytes, records: int, budget: int = DEFAULT_BUDGET) -> BatchBreakdown:
    """Return the fields of a batch of any format.

    Args:
        batch: its header.
        data: its bytes.
        records: maximum number of records to include.
        budget: maximum number of bytes to decompress.
    """
    breakdown = _legacy if batch.is_legacy else _current
    return breakdown(batch, data, records, budget)


def _current(batch: Batch, data: bytes, most: int, budget: int) -> BatchBreakdown:
    origin = batch.position
    groups = [FieldGroup("batch header", tuple(layout_fields(BATCH_HEADER, data[:HEADER_SIZE], origin=origin)))]
    payload = open_payload(batch, data, budget)
    stream = payload.stream.data
    if payload.compressed:
        compressed = FieldBytes("records", origin + HEADER_SIZE, data[HEADER_SIZE:], None, "compressed records")
        groups.append(FieldGroup("compressed records", (compressed,)))
    wanted = min(batch.count or 0, most)
    records = [*_records(stream, 0 if payload.compressed else origin + HEADER_SIZE, wanted)]
    groups += (FieldGroup(f"record {index}", fields, payload.compressed) for index, fields in enumerate(records))
    failure = payload.stream.failure.detail if payload.stream.failure else _error_in(groups)
    if len(records) < wanted and not failure:
        failure = f"the header counts {batch.count} records, but there are {len(records)}"
    unpacked = stream if payload.compressed else b""
    return BatchBreakdown(tuple(groups), unpacked, failure, max((batch.count or 0) - most, 0))


def _records(stream: bytes, origin: int, most: int) -> Iterator[tuple[FieldBytes, ...]]:
    """Yield the fields of each record, up to the first record that cannot be read completely."""
    begin = 0
    if not stream:
        return
    for _ in range(most):
        fields = tuple(_record(stream, begin, origin))
        yield fields
        length = fields[0]
        if fields[-1].error or length.value < 0:
            return
        begin = length.end + length.value - origin
        if begin >= len(stream):
            return


def _record(stream: bytes, begin: int, origin: int) -> Iterator[FieldBytes]:
    last = None
    for last in layout_fields(RECORD, stream, begin, origin):
        yield last
    if last is None or last.error:
        return
    for index in range(min(last.value, MOST_SHOWN)):
        for field in layout_fields(RECORD_HEADER, stream, last.end - origin, origin):
            last = replace(field, name=f"header {index} {field.name}")
            yield last
            if last.error:
                return


def _legacy(batch: Batch, data: bytes, most: int, budget: int) -> BatchBreakdown:
    groups = [FieldGroup("message", tuple(_message(outer_message(batch, data), batch.position)))]
    failure, left_out, inner = None, 0, bytearray()
    if batch.codec:
        for index, row in enumerate(legacy_messages(batch, data, budget)):
            if isinstance(row, Failure):
                failure = row.detail
            elif index < most:
                groups.append(FieldGroup(f"inner message {index}", tuple(_message(row, len(inner))), unpacked=True))
                inner += row.data
            else:
                left_out += 1
                inner += row.data
    return BatchBreakdown(tuple(groups), bytes(inner), _error_in(groups) or failure, left_out)


def _message(message: LegacyMessage, origin: int) -> Iterator[FieldBytes]:
    layout = LEGACY_HEADER_V0 if message.magic == 0 else LEGACY_HEADER_V1
    last = None
    for last in layout_fields(layout, message.data[: fixed_layout(layout).size], origin=origin):
        yield last
    if last is None or last.error:
        return
    begin = last.end - origin
    for name, doc in LEGACY_SIZED:
        size = int.from_bytes(message.data[begin : begin + LENGTH_FIELD], signed=True)
        end = begin + LENGTH_FIELD + max(size, 0)
        if end > len(message.data) or len(message.data) - begin < LENGTH_FIELD:
            yield FieldBytes(name, origin + begin, message.data[begin:], None, doc, INCOMPLETE)
            return
        value = None if size < 0 else message.data[begin + LENGTH_FIELD : end]
        yield FieldBytes(name, origin + begin, message.data[begin:end], value, doc)
        begin = end


def _error_in(groups: list[FieldGroup]) -> str | None:
    """Return the error of the last field, None if it has none."""
    last = groups[-1]
    field = last.fields[-1] if last.fields else None
    return f"{last.title}, {field.name}: {field.error}" if field and field.error else None
