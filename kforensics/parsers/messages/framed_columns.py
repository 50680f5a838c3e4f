"""Decoding of many records of a topic whose values begin with a frame, such as ``__cluster_metadata``, by columns.

The records of a type and a version are read together, and become the values that :mod:`.internal_records` decodes one
by one. What does not fit, and types with fields that cannot be read in columns, are left to it.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import pairwise, repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kforensics.parsers.format.array_types import IntArray
from kforensics.parsers.format.byte_slices import ByteSlices, joined_bytes
from kforensics.parsers.messages.codec import default_of, distinct_layouts
from kforensics.parsers.messages.internal_records import LAYOUT_RELEASES
from kforensics.parsers.messages.message_columns import ELEMENT_SIZES, java_texts, read_columns, texts_of
from kforensics.parsers.messages.reader import MessageError, MessageReader
from kforensics.parsers.messages.registry import framed_message
from kforensics.parsers.messages.schema import Field, MessageSchema, has_version

__all__ = ["FramedRecords", "framed_records"]

# Frame version, record type and version; each is a varint of one byte in every record that Kafka writes.
FRAME_VERSION, FRAME_SIZE, ONE_BYTE = 1, 3, 0x80
# Fewer records of a type are decoded one by one in less time.
MIN_ROWS = 16
# Distinct arrays and ids that are remembered.
REMEMBERED = 1 << 16
UUID_BYTES = f"V{ELEMENT_SIZES['uuid']}"

Value: TypeAlias = dict[str, Any]


class FramedRecords(NamedTuple):
    """Records in their order; those that must be decoded one by one are None in each list.

    Attributes:
        type_names: Kafka's names of their types.
        values: their fields; None if the type was not asked for. Equal lists may be one object.
        versions: the versions of their values.
    """

    type_names: list[str | None]
    values: list[Value | None]
    versions: list[int | None]


def framed_records(topic: str, values: ByteSlices, kinds: Collection[str] | None = None) -> FramedRecords:
    """Return the records of a topic that can be read in columns.

    Args:
        topic: name of the topic.
        values: the values of the records.
        kinds: Kafka's names of the types whose fields are needed, None for all.
    """
    count = len(values)
    records = FramedRecords([None] * count, [None] * count, [None] * count)
    for schema, version, rows in _groups(topic, values):
        if kinds is not None and schema.name not in kinds:
            for row in rows.tolist():
                records.type_names[row], records.versions[row] = schema.name, version
            continue
        for row, value in zip(rows.tolist(), _read(schema, version, values.take(rows)), strict=True):
            if value is not None:
                records.type_names[row], records.values[row], records.versions[row] = schema.name, value, version
    return records


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


def _read(schema: MessageSchema, version: int, values: ByteSlices) -> list[Value | None]:
    """Return the values of records of one type and version; None for those that must be decoded one by one."""
    result: list[Value | None] = [None] * len(values)
    try:
        read = read_columns(schema, version, values, FRAME_SIZE)
    except TypeError:  # a field of a type that is not read in columns
        return result
    known = distinct_layouts(schema, LAYOUT_RELEASES)[0]
    fields = [field for field in known.fields if has_version(field.versions, version)]
    if any(field.fields or (field.element_type == "bool" and field.is_array) for field in fields):
        return result
    fits, unreadable = np.flatnonzero(read.fits), set()
    # Most fields of most records have their defaults.
    defaults = {field.name: default_of(field)() for field in fields}
    structs = [defaults.copy() for _ in range(len(fits))]
    for field in fields:
        name = field.name
        rows, contents = _contents(field, version, read.columns[name], fits)
        for row, content in zip(rows.tolist(), contents, strict=True):
            structs[row][name] = content
            if content is UNREADABLE:
                unreadable.add(row)
    for row, (place, value) in enumerate(zip(fits.tolist(), structs, strict=True)):
        result[place] = None if row in unreadable else value
    return result


# In place of an array whose bytes have another length than it states.
UNREADABLE = object()


def _contents(field: Field, version: int, column: Any, fits: IntArray) -> tuple[IntArray, list[Any]]:
    """Return in which of the rows that fit a field may differ from its default, and what it is there."""
    if isinstance(column, np.ndarray):
        column = column[fits]
        rows = np.flatnonzero(column != default_of(field)())
        numbers: list[Any] = column[rows].tolist()
        return rows, [number != 0 for number in numbers] if field.type == "bool" else numbers
    slices = column.take(fits)
    if field.type == "string":
        texts: list[Any] = [None] * len(slices)
        present = np.flatnonzero(slices.sizes >= 0)
        for row, text in zip(present.tolist(), texts_of(java_texts(slices.take(present))), strict=True):
            texts[row] = text
        return np.arange(len(slices)), texts
    # A tagged field that was not written is null; one that was has at least its length.
    rows = np.arange(len(slices)) if field.tag is None else np.flatnonzero(slices.sizes >= 0)
    slices = slices.take(rows)
    if not field.is_array:
        return rows, list(map(_uuid, slices.numbers(UUID_BYTES).tolist()))
    joined, bounds = joined_bytes(ByteSlices(slices.data, slices.starts, np.maximum(slices.sizes, 0)))
    data = joined.tobytes()
    nullable = field.nullable is not None and has_version(field.nullable, version)
    arrays = (data[begin:end] for begin, end in pairwise(bounds.tolist()))
    return rows, list(map(_array, arrays, repeat(field.element_type), repeat(nullable)))


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
