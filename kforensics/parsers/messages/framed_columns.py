"""Decoding of many records of a topic whose values begin with a frame, such as ``__cluster_metadata``, by columns.

The records of a type and a version are read together, and become the values that :mod:`.internal_records` decodes one
by one. What does not fit, and types with fields that cannot be read in columns, are decoded one by one here, too.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from kforensics.parsers.format.byte_slices import ByteSlices, joined_bytes
from kforensics.parsers.messages.codec import default_of, distinct_layouts
from kforensics.parsers.messages.internal_records import LAYOUT_RELEASES, decode_record
from kforensics.parsers.messages.message_columns import ELEMENT_SIZES, java_texts, read_columns, texts_of
from kforensics.parsers.messages.reader import MessageError, MessageReader
from kforensics.parsers.messages.registry import framed_message
from kforensics.parsers.messages.schema import Field, MessageSchema, has_version

__all__ = ["FramedRecord", "framed_records"]

# Frame version, record type and version; each is a varint of one byte in every record that Kafka writes.
FRAME_VERSION, FRAME_SIZE, ONE_BYTE = 1, 3, 0x80
# Fewer records of a type are decoded one by one in less time.
MIN_ROWS = 16
# Distinct arrays and ids that are remembered.
REMEMBERED = 1 << 16


class FramedRecord(NamedTuple):
    """A decoded record.

    Attributes:
        type_name: Kafka's name of its type; None if the type is unknown.
        value: its fields; None if they could not be read. Equal lists may be one object.
        error: what is wrong with it; None if nothing is.
        version: the version of its value; None if it could not be read.
    """

    type_name: str | None
    value: dict[str, Any] | None
    error: str | None = None
    version: int | None = None


def framed_records(topic: str, values: ByteSlices) -> list[FramedRecord]:
    """Return the decoded records of a topic, in their order.

    Args:
        topic: name of the topic.
        values: the values of the records.
    """
    records: list[FramedRecord | None] = [None] * len(values)
    for schema, version, rows in _groups(topic, values):
        for row, value in zip(rows.tolist(), _read(schema, version, values.take(rows)), strict=True):
            if value is not None:
                records[row] = FramedRecord(schema.name, value, version=version)
    return [_decoded(topic, values.get(row)) if one is None else one for row, one in enumerate(records)]


def _decoded(topic: str, value: bytes | None) -> FramedRecord:
    decoded = decode_record(topic, None, value)
    return FramedRecord(decoded.type_name, decoded.value, decoded.error, decoded.version)


def _groups(topic: str, values: ByteSlices) -> Iterator[tuple[MessageSchema, int, Any]]:
    """Yield the schema, the version and the row numbers of records that may be read together."""
    frame, number, version = (values.numbers("u1", skip).astype("i8") for skip in range(FRAME_SIZE))
    fits = (values.sizes >= FRAME_SIZE) & (frame == FRAME_VERSION) & (number < ONE_BYTE) & (version < ONE_BYTE)
    kinds = np.where(fits, number * ONE_BYTE + version, -1)
    for kind in np.unique(kinds[fits]).tolist():
        rows = np.flatnonzero(kinds == kind)
        schema = framed_message(topic, kind // ONE_BYTE, LAYOUT_RELEASES[0])
        if schema is not None and len(rows) >= MIN_ROWS and _is_flexible(schema, kind % ONE_BYTE):
            yield schema, kind % ONE_BYTE, rows


def _is_flexible(schema: MessageSchema, version: int) -> bool:
    known = distinct_layouts(schema, LAYOUT_RELEASES)[0]
    return version <= schema.highest_version and has_version(known.flexible, version)


def _read(schema: MessageSchema, version: int, values: ByteSlices) -> list[dict[str, Any] | None]:
    """Return the values of records of one type and version; None for those that must be decoded one by one."""
    try:
        read = read_columns(schema, version, values, FRAME_SIZE)
    except TypeError:  # a field of a type that is not read in columns
        return [None] * len(values)
    known = distinct_layouts(schema, LAYOUT_RELEASES)[0]
    fields = [field for field in known.fields if has_version(field.versions, version)]
    if any(field.fields or (field.element_type == "bool" and field.is_array) for field in fields):
        return [None] * len(values)
    fits = np.flatnonzero(read.fits)
    names = [field.name for field in fields]
    columns = [_column(field, version, read.columns[field.name], fits) for field in fields]
    unreadable = any(UNREADABLE in column for column in columns)
    result: list[dict[str, Any] | None] = [None] * len(values)
    for row, one in zip(fits.tolist(), zip(*columns, strict=True) if columns else [()] * len(fits), strict=True):
        if not (unreadable and UNREADABLE in one):
            result[row] = dict(zip(names, one, strict=True))
    return result


# In place of an array whose bytes have another length than it states.
UNREADABLE = object()


def _column(field: Field, version: int, column: Any, rows: Any) -> list[Any]:
    if isinstance(column, np.ndarray):
        numbers: list[Any] = column[rows].tolist()
        return [number != 0 for number in numbers] if field.type == "bool" else numbers
    slices = column.take(rows)
    if field.type == "string":
        present = np.flatnonzero(slices.sizes >= 0)
        texts: list[Any] = [None] * len(rows)
        for row, text in zip(present.tolist(), texts_of(java_texts(slices.take(present))), strict=True):
            texts[row] = text
        return texts
    # A tagged field that was not written is null; one that was has at least its length.
    absent, default = field.tag is not None, default_of(field)()
    if absent and (slices.sizes < 0).all():
        return [default] * len(rows)
    joined, bounds = joined_bytes(ByteSlices(slices.data, slices.starts, np.maximum(slices.sizes, 0)))
    data = joined.tobytes()
    convert: Callable[[bytes], Any] = _uuid
    if field.is_array:
        nullable = field.nullable is not None and has_version(field.nullable, version)
        convert = partial(_array, element=field.element_type, nullable=nullable)
    spans = pairwise(bounds.tolist())
    return [default if absent and begin == end else convert(data[begin:end]) for begin, end in spans]


@lru_cache(maxsize=REMEMBERED)
def _uuid(data: bytes) -> str:
    return base64.urlsafe_b64encode(data)[:22].decode("ascii")


@lru_cache(maxsize=REMEMBERED)
def _array(data: bytes, element: str, nullable: bool) -> Any:
    """Return the elements of an array in the flexible encoding; UNREADABLE if its bytes are not its elements."""
    try:
        reader = MessageReader(data)
        count = reader.length(compact=True)
        if count * ELEMENT_SIZES[element] != reader.remaining:
            return None if nullable and count < 0 and not reader.remaining else UNREADABLE
        if element == "uuid":
            return [reader.uuid() for _ in range(count)]
        read = {"int8": reader.int8, "int16": reader.int16, "int32": reader.int32}.get(element, reader.int64)
        return [read() for _ in range(count)]
    except MessageError:
        return UNREADABLE
