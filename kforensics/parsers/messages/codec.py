"""The engine of the generated messages: bytes of one version and release become a plain dict in schema order.

A struct is compiled once into a list of closures, one for each field that the version has, and then run for every
record; schemas nest four deep at most, so the recursion is bounded by the tables and never by the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NoReturn, TypeAlias

from kforensics.parsers.format.java_utf8 import java_utf8
from kforensics.parsers.messages.reader import (
    FORENSIC_LIMITS,
    RUNTIME,
    UNSUPPORTED_VERSION,
    Limits,
    MessageError,
    Reader,
    limits_of,
)
from kforensics.parsers.messages.releases import NEWEST
from kforensics.parsers.messages.schema import UNSET, Field, Message, has_version, layout, version_range

UNKNOWN_TAGS: Final = "_unknown_tagged_fields"
_MAX_STRING: Final = 0x7FFF
_ZEROS: Final[dict[str, Any]] = {"bool": False, "float64": 0.0, "string": "", "bytes": b"", "uuid": "A" * 22}

_FIXED: Final[dict[str, Callable[[Reader], Any]]] = {
    "bool": Reader.boolean,
    "int8": Reader.int8,
    "int16": Reader.int16,
    "uint16": Reader.uint16,
    "int32": Reader.int32,
    "int64": Reader.int64,
    "float64": Reader.float64,
    "uuid": Reader.uuid,
}

Value: TypeAlias = Any
Read: TypeAlias = Callable[[Reader], Value]
Default: TypeAlias = Callable[[], Value]


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded message.

    Attributes:
        value: The fields in schema order. Tagged fields that were not in the bytes hold their defaults; tags that the
            schema does not know are under `UNKNOWN_TAGS`, as a list of number and bytes.
        consumed: How many bytes it took.
        message: The layout it was read with.
    """

    value: dict[str, Value]
    consumed: int
    message: Message


def decode(message: Message, version: int, data: bytes, release: str | None = None, start: int = 0) -> Decoded:
    """Decode a message at one version.

    Args:
        message: A table of this package.
        version: The version the bytes were written with. As in Kafka, one above the highest is read with the newest
            layout, which fails at the first nested struct.
        data: The bytes, with or without others around the message.
        release: Read as this release of Kafka reads, with its layout and its limits; None for the newest layout
            without a release's limits.
        start: Where in the data the message starts.

    Raises:
        MessageError: The bytes are not such a message.
    """
    limits = FORENSIC_LIMITS if release is None else limits_of(release)
    return _decode(layout(message, release or NEWEST), version, data, limits, start)


def decode_exact(message: Message, version: int, data: bytes, releases: tuple[str, ...], start: int = 0) -> Decoded:
    """Decode with the first of some releases' layouts that takes every byte.

    Some messages changed without a new version while they were in early access. A layout that leaves bytes over, or
    asks for more, is not the one the record was written with.

    Args:
        message: A table of this package.
        version: The version the bytes were written with.
        data: The bytes.
        releases: Releases to try, the likeliest first.
        start: Where in the data the message starts.

    Raises:
        MessageError: No layout takes every byte and the likeliest fails too; the error is the likeliest layout's.
    """
    layouts = distinct_layouts(message, releases)
    for candidate in layouts:
        decoded = _attempt(candidate, version, data, start)
        if decoded is not None and start + decoded.consumed == len(data):
            return decoded
    return _decode(layouts[0], version, data, FORENSIC_LIMITS, start)


def _attempt(known: Message, version: int, data: bytes, start: int) -> Decoded | None:
    try:
        return _decode(known, version, data, FORENSIC_LIMITS, start)
    except MessageError:
        return None


@lru_cache(maxsize=1024)
def distinct_layouts(message: Message, releases: tuple[str, ...]) -> tuple[Message, ...]:
    """The layouts of some releases that differ in their bytes or names, in order, and at least one."""
    found: dict[tuple[tuple[Field, ...], str | None], Message] = {}
    for release in releases:
        if message.known_to(release):
            known = layout(message, release)
            found.setdefault((known.fields, known.flexible), known)
    return tuple(found.values()) or (layout(message),)


def _decode(known: Message, version: int, data: bytes, limits: Limits, start: int) -> Decoded:
    reader = Reader(data, limits, start)
    value = _top(known, version)(reader)
    return Decoded(value, reader.position - start, known)


@lru_cache(maxsize=1024)
def _top(message: Message, version: int) -> Read:
    context = _Context(version, has_version(message.flexible, version), message.highest_version)
    return _struct(message.fields, context)


@dataclass(frozen=True, slots=True)
class _Context:
    version: int
    flexible: bool
    highest: int


def _struct(fields: tuple[Field, ...], context: _Context) -> Read:
    """A reader of the fields of a struct and of its tagged section."""
    steps: list[tuple[str, Read]] = []
    tags: dict[int, tuple[str, Read | None]] = {}
    for field in fields:
        present = has_version(field.versions, context.version)
        if field.tag is not None and context.flexible:
            tags[field.tag] = (field.name, _field(field, context) if present else None)
        if present:
            # A tagged field keeps its place in the order; the section, which comes later, fills it in.
            steps.append((field.name, _field(field, context) if field.tag is None else _absent(field)))

    def read(reader: Reader) -> dict[str, Value]:
        value = {name: step(reader) for name, step in steps}
        if context.flexible:
            _tagged_section(reader, value, tags, context.version)
        return value

    return read


def _tagged_section(
    reader: Reader, value: dict[str, Value], tags: dict[int, tuple[str, Read | None]], version: int
) -> None:
    for _ in range(reader.tag_count()):
        tag = reader.unsigned_varint()
        size = reader.unsigned_varint()
        if tag not in tags:
            value.setdefault(UNKNOWN_TAGS, []).append((tag, reader.raw(size)))
            continue
        # Kafka does not compare a known tag with its size, so a wrong size does no harm.
        name, read = tags[tag]
        if read is None:
            raise MessageError(RUNTIME, f"Tag {tag} is not valid for version {version}")
        value[name] = read(reader)


def _absent(field: Field) -> Read:
    make = default_of(field)
    return lambda _: make()


def default_of(field: Field) -> Default:
    """What a field holds that was not written: a maker, because arrays and structs must not be shared."""
    if field.default is not UNSET:
        return lambda: field.default
    if field.is_array:
        return list
    if field.fields:
        makers = [(inner.name, default_of(inner)) for inner in field.fields]
        return lambda: {name: make() for name, make in makers}
    zero = _ZEROS.get(field.type, 0)
    return lambda: zero


def _field(field: Field, context: _Context) -> Read:
    nullable = has_version(field.nullable, context.version) if field.nullable else False
    if field.is_array:
        return _array(field, context, nullable)
    if field.fields:
        return _nested(field, context, nullable)
    return _primitive(field, field.name, context, nullable)


def _nested(field: Field, context: _Context, nullable: bool) -> Read:
    read = _element_struct(field, context)
    if not nullable:
        return read
    # A null struct is marked by a varint in the tagged section, by a signed byte in line.
    if field.tag is not None:
        return lambda reader: None if reader.unsigned_varint() <= 0 else read(reader)
    return lambda reader: None if reader.int8() < 0 else read(reader)


def _element_struct(field: Field, context: _Context) -> Read:
    """A reader of a nested struct, which refuses versions it does not know, unlike messages and common structs."""
    highest = min(context.highest, version_range(field.versions)[1])
    if context.version > highest and not field.common:
        text = f"Can't read version {context.version} of {field.element_type}"

        def refuse(_: Reader) -> Value:
            raise MessageError(UNSUPPORTED_VERSION, text)

        return refuse
    return _struct(field.fields, context)


def _array(field: Field, context: _Context, nullable: bool) -> Read:
    if field.fields:
        element = _element_struct(field, context)
    else:
        element = _primitive(field, f"{field.name} element", context, nullable=False)
    flexible = context.flexible

    def read(reader: Reader) -> list[Value] | None:
        count = reader.length(flexible)
        if count < 0:
            if nullable:
                return None
            _refuse_null(field.name)
        reader.check_collection(count)
        return [element(reader) for _ in range(count)]

    return read


def _refuse_null(name: str) -> NoReturn:
    raise MessageError(RUNTIME, f"non-nullable field {name} was serialized as null")


def _primitive(field: Field, name: str, context: _Context, nullable: bool) -> Read:
    kind = field.element_type
    if kind == "string":
        return _string(name, context.flexible, nullable)
    if kind == "bytes":
        return _bytes(field, name, context.flexible, nullable)
    return _FIXED[kind]


def _string(name: str, flexible: bool, nullable: bool) -> Read:
    def read(reader: Reader) -> str | None:
        length = reader.length(flexible, width=2)
        if length < 0:
            if nullable:
                return None
            _refuse_null(name)
        if length > _MAX_STRING:
            raise MessageError(RUNTIME, f"string field {name} had invalid length {length}")
        return java_utf8(reader.raw(length))

    return read


def _bytes(field: Field, name: str, flexible: bool, nullable: bool) -> Read:
    def read(reader: Reader) -> bytes | None:
        length = reader.length(flexible)
        if length < 0:
            if nullable:
                return None
            _refuse_null(name)
        return reader.cut(length) if field.zero_copy else reader.raw(length)

    return read
