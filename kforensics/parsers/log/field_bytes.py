"""The bytes of a batch, field by field: which stand where, and what they hold.

Names, order and sentences are those of the layouts; positions are where each field was found as it was read, so that
nothing here knows a width but that of the length fields of formats 0 and 1.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from construct import ConstructError

from kforensics.parsers.format.codecs import DEFAULT_BUDGET
from kforensics.parsers.format.derived import fixed
from kforensics.parsers.format.layouts import BATCH_HEADER, LEGACY_HEADER_V0, LEGACY_HEADER_V1, RECORD, RECORD_HEADER
from kforensics.parsers.format.rows import Batch, Failure
from kforensics.parsers.log.legacy import LENGTH_FIELD, Message, legacy_messages, outer_message
from kforensics.parsers.log.records import HEADER_SIZE, open_payload

__all__ = ["FieldBytes", "FieldGroup", "TakenApart", "fields_of", "taken_apart"]

# Headers of one record that are shown; who wants more reads the table.
MOST_SHOWN = 100
LEGACY_SIZED = (("key", "i32 length and that many bytes; -1 for null"), ("value", "the same"))


@dataclass(frozen=True, slots=True)
class FieldBytes:
    """A field as it stands in its bytes.

    Attributes:
        name: name of the field in its layout.
        position: of its first byte, in the file or in what came out of the codec.
        data: its bytes.
        value: what they hold; None for null, or where they could not be read.
        doc: sentence of the layout.
        error: why it could not be read, None if it could.
    """

    name: str
    position: int
    data: bytes
    value: Any
    doc: str
    error: str | None = None

    @property
    def end(self) -> int:
        """Position of the byte behind it."""
        return self.position + len(self.data)


@dataclass(frozen=True, slots=True)
class FieldGroup:
    """Fields that belong together: a header, or a record.

    Attributes:
        title: what it is.
        fields: in the order of their bytes.
        unpacked: whether positions count in what came out of the codec, and not in the file.
    """

    title: str
    fields: tuple[FieldBytes, ...]
    unpacked: bool = False


@dataclass(frozen=True, slots=True)
class TakenApart:
    """A batch, taken apart.

    Attributes:
        groups: the header, what is compressed as one field, and the records.
        unpacked: what came out of the codec; empty if nothing is compressed.
        failure: why not all records could be taken apart, None if they could.
        left_out: records that were not asked for, as far as the header counts them.
    """

    groups: tuple[FieldGroup, ...]
    unpacked: bytes = b""
    failure: str | None = None
    left_out: int = 0


def fields_of(layout: Any, data: bytes, at: int = 0, origin: int = 0) -> Iterator[FieldBytes]:
    """Yield the fields of a layout; one that cannot be read has all bytes that are left, and is the last.

    Args:
        layout: a construct ``Struct``.
        data: bytes that hold it.
        at: where in them it begins.
        origin: position of the first byte of ``data``.
    """
    stream = io.BytesIO(data)
    stream.seek(at)
    for field in layout.subcons:
        start = stream.tell()
        try:
            value = field.parse_stream(stream)
        except ConstructError:
            error = "these bytes do not hold the field"
            yield FieldBytes(field.name, origin + start, data[start:], None, field.docs, error)
            return
        yield FieldBytes(field.name, origin + start, data[start : stream.tell()], value, field.docs)


def taken_apart(batch: Batch, data: bytes, records: int, budget: int = DEFAULT_BUDGET) -> TakenApart:
    """Return the fields of a batch of any format.

    Args:
        batch: its header.
        data: its bytes.
        records: how many of its records to take apart at most.
        budget: most bytes to decompress.
    """
    apart = _legacy if batch.is_legacy else _current
    return apart(batch, data, records, budget)


def _current(batch: Batch, data: bytes, most: int, budget: int) -> TakenApart:
    origin = batch.position
    groups = [FieldGroup("batch header", tuple(fields_of(BATCH_HEADER, data[:HEADER_SIZE], origin=origin)))]
    payload = open_payload(batch, data, budget)
    stream = payload.stream.data
    if payload.compressed:
        packed = FieldBytes("records", origin + HEADER_SIZE, data[HEADER_SIZE:], None, "compressed records")
        groups.append(FieldGroup("compressed records", (packed,)))
    wanted = min(batch.count or 0, most)
    found = [*_records(stream, 0 if payload.compressed else origin + HEADER_SIZE, wanted)]
    groups += (FieldGroup(f"record {index}", fields, payload.compressed) for index, fields in enumerate(found))
    failure = payload.stream.failure.detail if payload.stream.failure else _error_in(groups)
    if len(found) < wanted and not failure:
        failure = f"the header counts {batch.count} records, and {len(found)} are there"
    unpacked = stream if payload.compressed else b""
    return TakenApart(tuple(groups), unpacked, failure, max((batch.count or 0) - most, 0))


def _records(stream: bytes, origin: int, most: int) -> Iterator[tuple[FieldBytes, ...]]:
    """Yield the fields of records up to the first that cannot be read to its end."""
    at = 0
    if not stream:
        return
    for _ in range(most):
        fields = tuple(_record(stream, at, origin))
        yield fields
        length = fields[0]
        if fields[-1].error or length.value < 0:
            return
        at = length.end + length.value - origin
        if at >= len(stream):
            return


def _record(stream: bytes, at: int, origin: int) -> Iterator[FieldBytes]:
    last = None
    for last in fields_of(RECORD, stream, at, origin):
        yield last
    if last is None or last.error:
        return
    for index in range(min(last.value, MOST_SHOWN)):
        for field in fields_of(RECORD_HEADER, stream, last.end - origin, origin):
            last = replace(field, name=f"header {index} {field.name}")
            yield last
            if last.error:
                return


def _legacy(batch: Batch, data: bytes, most: int, budget: int) -> TakenApart:
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
    return TakenApart(tuple(groups), bytes(inner), _error_in(groups) or failure, left_out)


def _message(message: Message, origin: int) -> Iterator[FieldBytes]:
    layout = LEGACY_HEADER_V0 if message.magic == 0 else LEGACY_HEADER_V1
    last = None
    for last in fields_of(layout, message.data[: fixed(layout).size], origin=origin):
        yield last
    if last is None or last.error:
        return
    at = last.end - origin
    for name, doc in LEGACY_SIZED:
        size = int.from_bytes(message.data[at : at + LENGTH_FIELD], signed=True)
        end = at + LENGTH_FIELD + max(size, 0)
        if end > len(message.data) or len(message.data) - at < LENGTH_FIELD:
            yield FieldBytes(name, origin + at, message.data[at:], None, doc, "these bytes do not hold the field")
            return
        value = None if size < 0 else message.data[at + LENGTH_FIELD : end]
        yield FieldBytes(name, origin + at, message.data[at:end], value, doc)
        at = end


def _error_in(groups: list[FieldGroup]) -> str | None:
    """Return what is wrong with the last field, if something is."""
    last = groups[-1]
    field = last.fields[-1] if last.fields else None
    return f"{last.title}, {field.name}: {field.error}" if field and field.error else None
