"""Decoding of many messages of one version into numpy columns, one per field, without an object per message.

The steps are derived from the schema of the message, as those of :mod:`.codec` are. They read only well-formed messages
of the version, which end with their last byte. A message that they cannot read does not *fit* and is left to the codec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kforensics.parsers.format.byte_slices import ByteSlices, joined_bytes, values_at, with_slices
from kforensics.parsers.format.text_encoding import java_utf8
from kforensics.parsers.messages.codec import default_of, distinct_layouts
from kforensics.parsers.messages.internal_records import LAYOUT_RELEASES
from kforensics.parsers.messages.registry import record_type
from kforensics.parsers.messages.schema import Field, MessageSchema, has_version

if TYPE_CHECKING:
    from kforensics.parsers.format.array_types import BoolArray, IntArray

_FieldColumn: TypeAlias = "IntArray | ByteSlices"
_ReadField: TypeAlias = Callable[["_Cursor"], _FieldColumn]

_WIDTHS = {"bool": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8}
_UUID_SIZE = 16
# The sizes of the elements of arrays that are read as their bytes.
ELEMENT_SIZES = _WIDTHS | {"uuid": _UUID_SIZE}
# Bytes of the record type before a key.
_TYPE_SIZE = 2
# The record type of a key that is too short for one. Types have 16 bits.
NO_TYPE = 1 << 16
_MAX_ASCII = 0x7F
_MAX_STRING_SIZE = 0x7FFF
# Shifts of the second to the fourth byte of a varint. A fifth byte overflows an int in Java; the codec handles that.
_VARINT_SHIFTS = (7, 14, 21)
# Arrays of more structs than this are left to the codec.
_MAX_ELEMENTS = 256


@dataclass(frozen=True, slots=True)
class ReadColumns:
    """Messages as columns.

    Attributes:
        fits: A mask of the rows that were read. The other rows of the columns have no meaning.
        columns: The fields by name: integers as numbers, strings as their encoded bytes, arrays as their bytes with
            the length, and a UUID as its bytes. A tagged array or UUID is null if it was not written.
    """

    fits: BoolArray
    columns: dict[str, _FieldColumn]

    def numbers(self, name: str, absent: int) -> IntArray:
        """Return an integer field; ``absent`` in every row if the version does not have the field."""
        column = self.columns.get(name)
        return column if isinstance(column, np.ndarray) else np.full(len(self.fits), absent, "i8")

    def slices(self, name: str) -> ByteSlices:
        """Return a field that is not an integer; null in every row if the version does not have the field."""
        column = self.columns.get(name)
        zeros = np.zeros(len(self.fits), "i8")
        return column if isinstance(column, ByteSlices) else ByteSlices(zeros.view("u1"), zeros, zeros - 1)


def read_columns(message: MessageSchema, version: int, values: ByteSlices, start: int = 0) -> ReadColumns:
    """Return messages of one version as columns, read with the layout of the newest release that knows the message.

    Args:
        message: A schema of this package.
        version: The version of the messages, which the schema must know.
        values: The bytes of the messages. None may be null; they may be shorter than ``start``.
        start: The number of bytes before each message.

    Raises:
        TypeError: The message has a field that cannot be read in columns.
    """
    ends = values.starts + values.sizes
    cursor = _Cursor(values.data, values.starts.copy(), ends)
    cursor.advance(start)
    columns = {name: read_field(cursor) for name, read_field in _message_fields(message, version)}
    _read_tagged_section(cursor, message, version, columns)
    return ReadColumns(cursor.fits & (cursor.positions == ends), columns)


def read_keys(topic: str, type_ids: Iterable[int], keys: ByteSlices) -> tuple[IntArray, ReadColumns]:
    """Return the record type of each key, NO_TYPE if it has none, and the fields of the keys of some types.

    Only keys with the exact layout of their type fit.

    Args:
        topic: A topic of a coordinator.
        type_ids: The record types to read.
        keys: Keys of any type, none of them null.
    """
    types, fits = np.full(len(keys), NO_TYPE, "i4"), np.zeros(len(keys), "?")
    has_type = np.flatnonzero(keys.sizes >= _TYPE_SIZE)
    types[has_type] = keys.take(has_type).numbers(">i2")
    columns: dict[str, _FieldColumn] = {}
    for type_id in type_ids:
        rows, kind = np.flatnonzero(types == type_id), record_type(topic, type_id)
        if kind is not None and len(rows):
            of_type = read_columns(kind.key, 0, keys.take(rows), _TYPE_SIZE)
            fits[rows] = of_type.fits
            for name, column in of_type.columns.items():
                _put_rows(columns, name, rows, column, len(keys))
    return types, ReadColumns(fits, columns)


def _put_rows(columns: dict[str, _FieldColumn], name: str, rows: IntArray, values: _FieldColumn, count: int) -> None:
    """Set some rows of a column."""
    if isinstance(values, ByteSlices):
        column = columns.setdefault(name, ByteSlices(values.data, np.zeros(count, "i8"), np.full(count, -1, "i8")))
        if isinstance(column, ByteSlices):
            column.starts[rows], column.sizes[rows] = values.starts, values.sizes
        return
    numbers = columns.setdefault(name, np.zeros(count, "i8"))
    if isinstance(numbers, np.ndarray):
        numbers[rows] = values


def java_texts(slices: ByteSlices) -> ByteSlices:
    """Return encoded texts as Java decodes them, in valid UTF-8: bytes that are not valid are replaced.

    Args:
        slices: The texts; none of them is null.
    """
    data, bounds = joined_bytes(slices)
    if not len(data) or data.max() <= _MAX_ASCII:
        return slices
    others = np.concatenate([[0], np.cumsum(data > _MAX_ASCII)])[bounds]
    changed = {}
    for row in np.flatnonzero(others[1:] > others[:-1]).tolist():
        encoded = data[bounds[row] : bounds[row + 1]].tobytes()
        if (text := java_utf8(encoded).encode()) != encoded:
            changed[row] = text
    return with_slices(slices, list(changed), list(changed.values()))


def texts_of(slices: ByteSlices) -> list[str]:
    """Return texts in valid UTF-8, none of them null, as Python values."""
    joined, bounds = joined_bytes(slices)
    data = joined.tobytes()
    if data.isascii():
        text = data.decode()
        return [text[begin:end] for begin, end in pairwise(bounds.tolist())]
    return [data[begin:end].decode() for begin, end in pairwise(bounds.tolist())]


class _Cursor:
    """A position in each of many messages.

    Attributes:
        data: The bytes.
        positions: The index of the next byte of each message.
        ends: The end of each message.
        fits: A mask of the messages that are well-formed so far.
    """

    def __init__(self, data: IntArray, positions: IntArray, ends: IntArray) -> None:
        self.data, self.positions, self.ends = data, positions, ends
        self.fits = np.ones(len(positions), "?")

    def advance(self, sizes: IntArray | int) -> None:
        """Advance the positions. A message whose position would pass its end does not fit; its position is its end."""
        self.positions += sizes
        beyond = self.positions > self.ends
        if beyond.any():
            self.fits &= ~beyond
            np.minimum(self.positions, self.ends, out=self.positions)

    def subset(self, rows: IntArray) -> _Cursor:
        """Return a cursor over the messages with these row numbers."""
        return _Cursor(self.data, self.positions[rows], self.ends[rows])

    def update(self, rows: IntArray, subset: _Cursor) -> None:
        """Take over the positions of a cursor over the messages with these row numbers."""
        self.positions[rows] = subset.positions
        self.fits[rows] &= subset.fits

    def number(self, width: int) -> IntArray:
        """Read signed integers."""
        numbers = values_at(self.data, self.positions, f">i{width}").astype("i8")
        self.advance(width)
        return numbers

    def unsigned_varint(self) -> IntArray:
        """Read unsigned varints of up to four bytes."""
        byte = self.data[self.positions].astype("i8")
        self.advance(1)
        numbers, rows = byte & 0x7F, np.flatnonzero(byte >= 0x80)
        for shift in _VARINT_SHIFTS:
            if not len(rows):
                return numbers
            continued = self.subset(rows)
            byte = continued.data[continued.positions].astype("i8")
            continued.advance(1)
            self.update(rows, continued)
            numbers[rows] |= (byte & 0x7F) << shift
            rows = rows[byte >= 0x80]
        self.fits[rows] = False
        return numbers

    def length(self, compact: bool, width: int) -> IntArray:
        """Read lengths; negative ones mean null."""
        return self.unsigned_varint() - 1 if compact else self.number(width)

    def checked_sizes(self, sizes: IntArray, nullable: bool) -> IntArray:
        """Return sizes with -1 for null; if the field is not nullable, a message with null does not fit."""
        if not nullable:
            self.fits &= sizes >= 0
        return np.maximum(sizes, -1 if nullable else 0)

    def slices(self, sizes: IntArray) -> ByteSlices:
        """Read bytes of these sizes."""
        starts = self.positions.copy()
        self.advance(np.maximum(sizes, 0))
        return ByteSlices(self.data, starts, sizes)


@lru_cache(maxsize=64)
def _message_fields(message: MessageSchema, version: int) -> tuple[tuple[str, _ReadField], ...]:
    """Return the names of the untagged fields and the functions that read them."""
    known = _layout(message)
    return _untagged_fields(known.fields, version, has_version(known.flexible, version))


def _layout(message: MessageSchema) -> MessageSchema:
    return distinct_layouts(message, LAYOUT_RELEASES)[0]


def _untagged_fields(fields: tuple[Field, ...], version: int, flexible: bool) -> tuple[tuple[str, _ReadField], ...]:
    present = [field for field in fields if has_version(field.versions, version)]
    return tuple((field.name, _field(field, version, flexible)) for field in present if field.tag is None)


def _field(field: Field, version: int, flexible: bool) -> _ReadField:
    nullable = has_version(field.nullable, version) if field.nullable else False
    if field.is_array:
        return _array(field, version, flexible, nullable)
    if field.type in _WIDTHS:
        width = _WIDTHS[field.type]
        return lambda cursor: cursor.number(width)
    if field.type == "string":
        return _string(flexible, nullable)
    if field.type == "uuid":
        return lambda cursor: cursor.slices(np.full(len(cursor.positions), _UUID_SIZE, "i8"))
    raise TypeError(f"{field.name} of type {field.type} is not read in columns")


def _string(flexible: bool, nullable: bool) -> _ReadField:
    def read(cursor: _Cursor) -> ByteSlices:
        sizes = cursor.checked_sizes(cursor.length(flexible, 2), nullable)
        cursor.fits &= sizes <= _MAX_STRING_SIZE
        return cursor.slices(sizes)

    return read


def _array(field: Field, version: int, flexible: bool, nullable: bool) -> _ReadField:
    """Return a function that reads an array as its bytes."""
    width = ELEMENT_SIZES.get(field.element_type)
    if width is None and not field.fields:
        raise TypeError(f"{field.name} of type {field.type} is not read in columns")
    element = _untagged_fields(field.fields, version, flexible)
    if any(inner.tag is not None for inner in field.fields):
        raise TypeError(f"{field.name} has tagged fields, which are not read in columns")

    def read(cursor: _Cursor) -> ByteSlices:
        starts = cursor.positions.copy()
        counts = cursor.checked_sizes(cursor.length(flexible, 4), nullable)
        if width is None:
            _skip_structs(cursor, counts, element, flexible)
        else:
            cursor.advance(width * np.maximum(counts, 0))
        return ByteSlices(cursor.data, starts, np.where(counts < 0, -1, cursor.positions - starts))

    return read


def _skip_structs(
    cursor: _Cursor, counts: IntArray, element: tuple[tuple[str, _ReadField], ...], flexible: bool
) -> None:
    """Advance each message by its number of structs."""
    cursor.fits &= counts <= _MAX_ELEMENTS
    rows = np.flatnonzero(cursor.fits & (counts > 0))
    skipped = 0
    while len(rows):
        remaining = cursor.subset(rows)
        for _, read_field in element:
            read_field(remaining)
        if flexible:
            remaining.fits &= remaining.unsigned_varint() == 0
        cursor.update(rows, remaining)
        skipped += 1
        rows = rows[remaining.fits & (counts[rows] > skipped)]


def _read_tagged_section(
    cursor: _Cursor, message: MessageSchema, version: int, columns: dict[str, _FieldColumn]
) -> None:
    """Read the tagged section, if the version has one. A message with an unknown tag does not fit.

    Kafka ignores the size of a known tag. A message with a wrong size does not fit either and is left to the codec.
    """
    known = _layout(message)
    if not has_version(known.flexible, version):
        return
    tagged = [field for field in known.fields if field.tag is not None and has_version(field.versions, version)]
    columns.update((field.name, _absent(field, cursor)) for field in tagged)
    counts = cursor.unsigned_varint()
    cursor.fits &= counts <= len(tagged)
    rows, tags_read = np.flatnonzero(cursor.fits & (counts > 0)), 0
    while len(rows):
        remaining = cursor.subset(rows)
        _read_tag(remaining, rows, tagged, columns)
        cursor.update(rows, remaining)
        tags_read += 1
        rows = rows[remaining.fits & (counts[rows] > tags_read)]


def _absent(field: Field, cursor: _Cursor) -> _FieldColumn:
    """Return the column of a tagged field with its default in every row."""
    if field.type == "uuid" or (field.is_array and field.element_type in ELEMENT_SIZES):
        return ByteSlices(cursor.data, cursor.positions.copy(), np.full(len(cursor.positions), -1, "i8"))
    if field.type not in _WIDTHS:
        raise TypeError(f"{field.name} of type {field.type} is not read in columns")
    return np.full(len(cursor.positions), default_of(field)(), "i8")


def _read_tag(remaining: _Cursor, rows: IntArray, tagged: list[Field], columns: dict[str, _FieldColumn]) -> None:
    """Read the next tag of each message into the columns.

    Args:
        remaining: A cursor over the messages that have another tag.
        rows: Their row numbers in the columns.
        tagged: The tagged fields of the version.
        columns: The columns by field name.
    """
    tags, sizes = remaining.unsigned_varint(), remaining.unsigned_varint()
    known = np.zeros(len(rows), "?")
    for field in tagged:
        width = _WIDTHS.get(field.type, _UUID_SIZE)
        with_field = np.flatnonzero(remaining.fits & (tags == field.tag) & (field.is_array | (sizes == width)))
        known[with_field] = True
        cursor, column = remaining.subset(with_field), columns[field.name]
        if isinstance(column, ByteSlices):
            column.starts[rows[with_field]], column.sizes[rows[with_field]] = cursor.positions, sizes[with_field]
            cursor.advance(sizes[with_field])
        else:
            column[rows[with_field]] = cursor.number(width)
        remaining.update(with_field, cursor)
    remaining.fits &= known
