"""Messages of one version by the thousand: each field a numpy column, and no object for a message.

The steps follow from the table of a message, as those of :mod:`.codec` do. They take what is plainly a message of its
version, to the last byte. All else does not *fit*; what that is, the codec knows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kforensics.parsers.format.byte_slices import Pieces, numbers_at
from kforensics.parsers.messages.codec import default_of, distinct_layouts
from kforensics.parsers.messages.internal_records import LAYOUT_RELEASES
from kforensics.parsers.messages.schema import Field, Message, has_version

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["ReadColumns", "read_columns"]

Numbers: TypeAlias = "npt.NDArray[Any]"
Column: TypeAlias = "Numbers | Pieces"
Step: TypeAlias = Callable[["_Cursor"], Column]

_WIDTHS = {"int8": 1, "int16": 2, "int32": 4, "int64": 8}
_UUID = 16
_LONGEST_STRING = 0x7FFF
# The fifth byte of a varint wants Java's care, and so many bytes no message has.
_VARINT_SHIFTS = (7, 14, 21)
# Elements of structs that are gone through; longer lists are left to the codec.
_MOST_ELEMENTS = 256


@dataclass(frozen=True, slots=True)
class ReadColumns:
    """Messages as columns.

    Attributes:
        fits: which rows hold such a message. What the columns hold in other rows means nothing.
        columns: fields by their names: integers as numbers; strings as the pieces of bytes they are encoded in, arrays
            with what tells their length; a uuid as a piece, null where it was not written.
    """

    fits: Numbers
    columns: dict[str, Column]

    def numbers(self, name: str, absent: int) -> Numbers:
        """Return a field of integers, ``absent`` in each row if the version has no such field."""
        found = self.columns.get(name)
        return found if isinstance(found, np.ndarray) else np.full(len(self.fits), absent, "i8")

    def pieces(self, name: str) -> Pieces:
        """Return a field that is no integer, null in each row if the version has no such field."""
        found = self.columns.get(name)
        none = np.zeros(len(self.fits), "i8")
        return found if isinstance(found, Pieces) else Pieces(none.view("u1"), none, none - 1)


def read_columns(message: Message, version: int, values: Pieces, start: int = 0) -> ReadColumns:
    """Return messages of one version, read with the layout of the newest release that knows them.

    Args:
        message: a table of this package.
        version: the version, one of those the table knows.
        values: the bytes, of which none is null; they may be shorter than ``start``.
        start: bytes in front of the message.

    Raises:
        TypeError: the message has a field that is not read in columns.
    """
    ends = values.starts + values.sizes
    cursor = _Cursor(values.data, values.starts.copy(), ends)
    cursor.advance(start)
    columns = {name: step(cursor) for name, step in _steps(message, version)}
    _read_tags(cursor, message, version, columns)
    return ReadColumns(cursor.fits & (cursor.at == ends), columns)


class _Cursor:
    """Places in the bytes of many messages.

    Attributes:
        data: the bytes.
        at: where the next field of each message begins.
        end: where each message ends.
        fits: which of them are right so far.
    """

    def __init__(self, data: Numbers, at: Numbers, end: Numbers) -> None:
        self.data, self.at, self.end = data, at, end
        self.fits = np.ones(len(at), "?")

    def advance(self, sizes: Numbers | int) -> None:
        """Go on; who would go beyond the end does not fit, and stays there."""
        self.at += sizes
        beyond = self.at > self.end
        if beyond.any():
            self.fits &= ~beyond
            np.minimum(self.at, self.end, out=self.at)

    def some(self, which: Numbers) -> _Cursor:
        """Return a cursor over some of the messages, by their indexes."""
        return _Cursor(self.data, self.at[which], self.end[which])

    def take_back(self, which: Numbers, some: _Cursor) -> None:
        """Take the places of a cursor over some of the messages."""
        self.at[which] = some.at
        self.fits[which] &= some.fits

    def number(self, width: int) -> Numbers:
        """Read signed integers."""
        found = numbers_at(self.data, self.at, f">i{width}").astype("i8")
        self.advance(width)
        return found

    def unsigned_varint(self) -> Numbers:
        """Read unsigned varints of up to four bytes."""
        byte = self.data[self.at].astype("i8")
        self.advance(1)
        found, more = byte & 0x7F, np.flatnonzero(byte >= 0x80)
        for shift in _VARINT_SHIFTS:
            if not len(more):
                return found
            rest = self.some(more)
            byte = rest.data[rest.at].astype("i8")
            rest.advance(1)
            self.take_back(more, rest)
            found[more] |= (byte & 0x7F) << shift
            more = more[byte >= 0x80]
        self.fits[more] = False
        return found

    def length(self, compact: bool, width: int) -> Numbers:
        """Read lengths; negative ones mean null."""
        return self.unsigned_varint() - 1 if compact else self.number(width)

    def sized(self, sizes: Numbers, nullable: bool) -> Numbers:
        """Return sizes, -1 for null where that may be, else 0; where it may not, the message does not fit."""
        if not nullable:
            self.fits &= sizes >= 0
        return np.maximum(sizes, -1 if nullable else 0)

    def piece(self, sizes: Numbers) -> Pieces:
        """Read pieces of bytes."""
        starts = self.at.copy()
        self.advance(np.maximum(sizes, 0))
        return Pieces(self.data, starts, sizes)


@lru_cache(maxsize=64)
def _steps(message: Message, version: int) -> tuple[tuple[str, Step], ...]:
    """Return what reads the fields that stand in line."""
    known = _layout(message)
    return _in_line(known.fields, version, has_version(known.flexible, version))


def _layout(message: Message) -> Message:
    return distinct_layouts(message, LAYOUT_RELEASES)[0]


def _in_line(fields: tuple[Field, ...], version: int, flexible: bool) -> tuple[tuple[str, Step], ...]:
    present = [field for field in fields if has_version(field.versions, version)]
    return tuple((field.name, _step(field, version, flexible)) for field in present if field.tag is None)


def _step(field: Field, version: int, flexible: bool) -> Step:
    nullable = has_version(field.nullable, version) if field.nullable else False
    if field.is_array:
        return _array(field, version, flexible, nullable)
    if field.type in _WIDTHS:
        width = _WIDTHS[field.type]
        return lambda cursor: cursor.number(width)
    if field.type == "string":
        return _string(flexible, nullable)
    raise TypeError(f"{field.name} of type {field.type} is not read in columns")


def _string(flexible: bool, nullable: bool) -> Step:
    def read(cursor: _Cursor) -> Pieces:
        sizes = cursor.sized(cursor.length(flexible, 2), nullable)
        cursor.fits &= sizes <= _LONGEST_STRING
        return cursor.piece(sizes)

    return read


def _array(field: Field, version: int, flexible: bool, nullable: bool) -> Step:
    """Return what reads an array as one piece."""
    width = _WIDTHS.get(field.element_type)
    if width is None and not field.fields:
        raise TypeError(f"{field.name} of type {field.type} is not read in columns")
    element = _in_line(field.fields, version, flexible)
    if any(inner.tag is not None for inner in field.fields):
        raise TypeError(f"{field.name} has tagged fields, which are not read in columns")

    def read(cursor: _Cursor) -> Pieces:
        starts = cursor.at.copy()
        counts = cursor.sized(cursor.length(flexible, 4), nullable)
        if width is None:
            _pass_structs(cursor, counts, element, flexible)
        else:
            cursor.advance(width * np.maximum(counts, 0))
        return Pieces(cursor.data, starts, np.where(counts < 0, -1, cursor.at - starts))

    return read


def _pass_structs(cursor: _Cursor, counts: Numbers, element: tuple[tuple[str, Step], ...], flexible: bool) -> None:
    """Go over as many structs in each message as were counted."""
    cursor.fits &= counts <= _MOST_ELEMENTS
    which = np.flatnonzero(cursor.fits & (counts > 0))
    passed = 0
    while len(which):
        some = cursor.some(which)
        for _, step in element:
            step(some)
        if flexible:
            some.fits &= some.unsigned_varint() == 0
        cursor.take_back(which, some)
        passed += 1
        which = which[some.fits & (counts[which] > passed)]


def _read_tags(cursor: _Cursor, message: Message, version: int, columns: dict[str, Column]) -> None:
    """Read the tagged section, if the version has one; whoever has a tag that the version does not know does not fit.

    Kafka does not compare a known tag with its size. Where the two do not agree the codec has its say.
    """
    known = _layout(message)
    if not has_version(known.flexible, version):
        return
    tagged = [field for field in known.fields if field.tag is not None and has_version(field.versions, version)]
    columns.update((field.name, _absent(field, cursor)) for field in tagged)
    counts = cursor.unsigned_varint()
    cursor.fits &= counts <= len(tagged)
    which, passed = np.flatnonzero(cursor.fits & (counts > 0)), 0
    while len(which):
        some = cursor.some(which)
        _read_tag(some, which, tagged, columns)
        cursor.take_back(which, some)
        passed += 1
        which = which[some.fits & (counts[which] > passed)]


def _absent(field: Field, cursor: _Cursor) -> Column:
    if field.type == "uuid":
        return Pieces(cursor.data, cursor.at.copy(), np.full(len(cursor.at), -1, "i8"))
    if field.type not in _WIDTHS:
        raise TypeError(f"{field.name} of type {field.type} is not read in columns")
    return np.full(len(cursor.at), default_of(field)(), "i8")


def _read_tag(some: _Cursor, which: Numbers, tagged: list[Field], columns: dict[str, Column]) -> None:
    """Read the next tag of some messages."""
    tags, sizes = some.unsigned_varint(), some.unsigned_varint()
    known = np.zeros(len(which), "?")
    for field in tagged:
        width = _WIDTHS.get(field.type, _UUID)
        mine = np.flatnonzero(some.fits & (tags == field.tag) & (sizes == width))
        known[mine] = True
        few, column = some.some(mine), columns[field.name]
        if isinstance(column, Pieces):
            column.starts[which[mine]], column.sizes[which[mine]] = few.at, width
            few.advance(width)
        else:
            column[which[mine]] = few.number(width)
        some.take_back(mine, few)
    some.fits &= known
