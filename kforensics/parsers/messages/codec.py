"""Decoding of generated messages: the bytes of one version become a dict in schema order.

A struct is compiled once into a list of closures, one for each field of the version, which then run for every record.
The schemas nest at most four deep, so the depth of the recursion does not depend on the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NoReturn, TypeAlias

from kforensics.parsers.format.text_encoding import java_utf8
from kforensics.parsers.messages.reader import (
    FORENSIC_LIMITS,
    RUNTIME,
    UNSUPPORTED_VERSION,
    Limits,
    MessageError,
    MessageReader,
    limits_of,
)
from kforensics.parsers.messages.releases import NEWEST
from kforensics.parsers.messages.schema import UNSET, Field, MessageSchema, has_version, layout, version_range

UNKNOWN_TAGS: Final = "_unknown_tagged_fields"
_MAX_STRING: Final = 0x7FFF
_ZEROS: Final[dict[str, Any]] = {"bool": False, "float64": 0.0, "string": "", "bytes": b"", "uuid": "A" * 22}

_FIXED: Final[dict[str, Callable[[MessageReader], Any]]] = {
    "bool": MessageReader.boolean,
    "int8": MessageReader.int8,
    "int16": MessageReader.int16,
    "uint16": MessageReader.uint16,
    "int32": MessageReader.int32,
    "int64": MessageReader.int64,
    "float64": MessageReader.float64,
    "uuid": MessageReader.uuid,
}

Read: TypeAlias = Callable[[MessageReader], Any]
MakeDefault: TypeAlias = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded message.

    Attributes:
        value: The fields in schema order. Tagged fields that were not written have their defaults. Tags that are not
            in the schema are under `UNKNOWN_TAGS`, as a list of pairs of the tag and its bytes.
        consumed: The number of bytes that were read.
        message: The layout that was used.
    """

    value: dict[str, Any]
    consumed: int
    message: MessageSchema


def decode(message: MessageSchema, version: int, data: bytes, release: str | None = None, start: int = 0) -> Decoded:
    """Decode a message of one version.

    Args:
        message: A schema of this package.
        version: The version of the message. As in Kafka, a version above the highest one is read with the newest
            layout, which fails at the first nested struct.
        data: Bytes that contain the message.
        release: The release whose layout and limits are used; None for the newest layout without limits.
        start: The index of the first byte of the message.

    Raises:
        MessageError: The bytes are not such a message.
    """
    limits = FORENSIC_LIMITS if release is None else limits_of(release)
    return _decode(layout(message, release or NEWEST), version, data, limits, start)


def decode_exact(
    message: MessageSchema, version: int, data: bytes, releases: tuple[str, ...], start: int = 0
) -> Decoded:
    """Decode a message with the layout that explains all its bytes.

    Some messages changed without a new version while they were in early access. A layout that leaves bytes unread, or
    needs more bytes, is not the one the message was written with. Of the layouts that consume all bytes, the first
    that knows every tagged field is taken, since a misread field easily passes for an unknown tag.

    Args:
        message: A schema of this package.
        version: The version of the message.
        data: Bytes that end with the message.
        releases: The releases whose layouts are tried, the most likely one first.
        start: The index of the first byte of the message.

    Returns:
        The decoded message. If no layout consumes all bytes, the result of the first layout.

    Raises:
        MessageError: No layout consumes all bytes, and the first one fails.
    """
    layouts = distinct_layouts(message, releases)
    with_unknown_tags: Decoded | None = None
    for candidate in layouts:
        decoded = _try_layout(candidate, version, data, start)
        if decoded is None or start + decoded.consumed != len(data):
            continue
        if not _has_unknown_tags(decoded.value):
            return decoded
        with_unknown_tags = with_unknown_tags or decoded
    return with_unknown_tags or _decode(layouts[0], version, data, FORENSIC_LIMITS, start)


def _has_unknown_tags(value: object) -> bool:
    if isinstance(value, dict):
        return UNKNOWN_TAGS in value or any(map(_has_unknown_tags, value.values()))
    return isinstance(value, list) and any(map(_has_unknown_tags, value))


def _try_layout(known: MessageSchema, version: int, data: bytes, start: int) -> Decoded | None:
    try:
        return _decode(known, version, data, FORENSIC_LIMITS, start)
    except MessageError:
        return None


@lru_cache(maxsize=1024)
def distinct_layouts(message: MessageSchema, releases: tuple[str, ...]) -> tuple[MessageSchema, ...]:
    """Return the layouts of some releases in order, without those that equal an earlier one; at least one layout."""
    layouts: dict[tuple[tuple[Field, ...], str | None], MessageSchema] = {}
    for release in releases:
        if message.known_to(release):
            known = layout(message, release)
            layouts.setdefault((known.fields, known.flexible), known)
    return tuple(layouts.values()) or (layout(message),)


def _decode(known: MessageSchema, version: int, data: bytes, limits: Limits, start: int) -> Decoded:
    reader = MessageReader(data, limits, start)
    value = _top(known, version)(reader)
    return Decoded(value, reader.position - start, known)


@lru_cache(maxsize=1024)
def _top(message: MessageSchema, version: int) -> Read:
    context = _Context(version, has_version(message.flexible, version), message.highest_version)
    return _struct(message.fields, context)


@dataclass(frozen=True, slots=True)
class _Context:
    version: int
    flexible: bool
    highest: int


def _struct(fields: tuple[Field, ...], context: _Context) -> Read:
    """Return a function that reads the fields of a struct and its tagged section."""
    steps: list[tuple[str, Read]] = []
    tags: dict[int, tuple[str, Read | None]] = {}
    for field in fields:
        present = has_version(field.versions, context.version)
        if field.tag is not None and context.flexible:
            tags[field.tag] = (field.name, _field(field, context) if present else None)
        if present:
            # A tagged field keeps its position in schema order; the tagged section overwrites its default.
            steps.append((field.name, _field(field, context) if field.tag is None else _absent(field)))

    def read(reader: MessageReader) -> dict[str, Any]:
        value = {name: step(reader) for name, step in steps}
        if context.flexible:
            _tagged_section(reader, value, tags, context.version)
        return value

    return read


def _tagged_section(
    reader: MessageReader, value: dict[str, Any], tags: dict[int, tuple[str, Read | None]], version: int
) -> None:
    for _ in range(reader.tag_count()):
        tag = reader.unsigned_varint()
        size = reader.unsigned_varint()
        if tag not in tags:
            value.setdefault(UNKNOWN_TAGS, []).append((tag, reader.raw(size)))
            continue
        # Kafka ignores the size of a known tag.
        name, read = tags[tag]
        if read is None:
            raise MessageError(RUNTIME, f"Tag {tag} is not valid for version {version}")
        value[name] = read(reader)


def _absent(field: Field) -> Read:
    make = default_of(field)
    return lambda _: make()


def default_of(field: Field) -> MakeDefault:
    """Return a function that makes the value of a field that was not written; records must not share such values."""
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
    # A null struct is marked by a varint in the tagged section, and by a signed byte elsewhere.
    if field.tag is not None:
        return lambda reader: None if reader.unsigned_varint() <= 0 else read(reader)
    return lambda reader: None if reader.int8() < 0 else read(reader)


def _element_struct(field: Field, context: _Context) -> Read:
    """Return a function that reads a nested struct.

    Unlike messages and common structs, nested structs reject versions above their highest one.
    """
    highest = min(context.highest, version_range(field.versions)[1])
    if context.version > highest and not field.common:
        text = f"Can't read version {context.version} of {field.element_type}"

        def reject(_: MessageReader) -> Any:
            raise MessageError(UNSUPPORTED_VERSION, text)

        return reject
    return _struct(field.fields, context)


def _array(field: Field, context: _Context, nullable: bool) -> Read:
    if field.fields:
        element = _element_struct(field, context)
    else:
        element = _primitive(field, f"{field.name} element", context, nullable=False)
    flexible = context.flexible

    def read(reader: MessageReader) -> list[Any] | None:
        count = reader.length(flexible)
        if count < 0:
            if nullable:
                return None
            _reject_null(field.name)
        reader.check_collection(count)
        return [element(reader) for _ in range(count)]

    return read


def _reject_null(name: str) -> NoReturn:
    raise MessageError(RUNTIME, f"non-nullable field {name} was serialized as null")


def _primitive(field: Field, name: str, context: _Context, nullable: bool) -> Read:
    kind = field.element_type
    if kind == "string":
        return _string(name, context.flexible, nullable)
    if kind == "bytes":
        return _bytes(field, name, context.flexible, nullable)
    return _FIXED[kind]


def _string(name: str, flexible: bool, nullable: bool) -> Read:
    def read(reader: MessageReader) -> str | None:
        length = reader.length(flexible, width=2)
        if length < 0:
            if nullable:
                return None
            _reject_null(name)
        if length > _MAX_STRING:
            raise MessageError(RUNTIME, f"string field {name} had invalid length {length}")
        return java_utf8(reader.raw(length))

    return read


def _bytes(field: Field, name: str, flexible: bool, nullable: bool) -> Read:
    def read(reader: MessageReader) -> bytes | None:
        length = reader.length(flexible)
        if length < 0:
            if nullable:
                return None
            _reject_null(name)
        return reader.slice(length) if field.zero_copy else reader.raw(length)

    return read
