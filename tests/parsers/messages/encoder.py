"""An encoder of generated messages for tests, and random values to encode."""

from __future__ import annotations

import base64
import random
import struct
from typing import Any

from kforensics.parsers.messages.codec import UNKNOWN_TAGS, default_of
from kforensics.parsers.messages.releases import NEWEST
from kforensics.parsers.messages.schema import Field, MessageSchema, has_version, layout

_SIZES = {"int8": 1, "int16": 2, "uint16": 2, "int32": 4, "int64": 8}
_TEXTS = (
    "",
    "a",
    "topic-1",
    "consumer",
    "grüße",
    "日本\U0001f600",
    'quo"te\\',
    "\x00\x1f\n\t",
    "x" * 40,
    "/\x7f\u2028",
)


def unsigned_varint(number: int) -> bytes:
    """Return an unsigned number as a varint."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def encode(message: MessageSchema, version: int, value: dict[str, Any], release: str = NEWEST) -> bytes:
    """Return the bytes of a message of one version."""
    known = layout(message, release)
    return _struct(known.fields, version, value, flexible=has_version(known.flexible, version))


def _struct(fields: tuple[Field, ...], version: int, value: dict[str, Any], *, flexible: bool) -> bytes:
    present = [field for field in fields if has_version(field.versions, version)]
    out = b"".join(_value(field, version, value[field.name], flexible) for field in present if field.tag is None)
    if not flexible:
        return out
    tags = {
        field.tag: _value(field, version, value[field.name], flexible)
        for field in present
        if field.tag is not None and value[field.name] != default_of(field)()
    }
    tags.update(value.get(UNKNOWN_TAGS, ()))
    section = b"".join(unsigned_varint(tag) + unsigned_varint(len(tags[tag])) + tags[tag] for tag in sorted(tags))
    return out + unsigned_varint(len(tags)) + section


def _length(count: int, flexible: bool, width: int = 4) -> bytes:
    return unsigned_varint(count + 1) if flexible else count.to_bytes(width, "big", signed=True)


def _value(field: Field, version: int, value: Any, flexible: bool) -> bytes:
    if field.is_array:
        if value is None:
            return _length(-1, flexible)
        return _length(len(value), flexible) + b"".join(_element(field, version, item, flexible) for item in value)
    if field.fields and has_version(field.nullable, version):
        if value is None:
            return b"\x00" if field.tag is not None else b"\xff"
        return b"\x01" + _element(field, version, value, flexible)
    return _element(field, version, value, flexible)


def _element(field: Field, version: int, value: Any, flexible: bool) -> bytes:
    kind = field.element_type
    if field.fields:
        return _struct(field.fields, version, value, flexible=flexible)
    if kind in ("string", "bytes"):
        raw = value.encode() if isinstance(value, str) else value
        width = 2 if kind == "string" else 4
        return _length(-1, flexible, width) if raw is None else _length(len(raw), flexible, width) + bytes(raw)
    if kind == "uuid":
        return base64.urlsafe_b64decode(value + "==")
    if kind == "float64":
        return struct.pack(">d", value)
    return bytes([value]) if kind == "bool" else value.to_bytes(_SIZES[kind], "big", signed=kind[0] == "i")


def random_value(message: MessageSchema, version: int, rng: random.Random, release: str = NEWEST) -> dict[str, Any]:
    """Return a random value of a message of one version, sometimes with unknown tags."""
    known = layout(message, release)
    return _random_struct(known.fields, version, rng, flexible=has_version(known.flexible, version))


def _random_struct(fields: tuple[Field, ...], version: int, rng: random.Random, *, flexible: bool) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for field in fields:
        if has_version(field.versions, version):
            is_default = field.tag is not None and rng.random() < 0.4
            value[field.name] = default_of(field)() if is_default else _random(field, version, rng, flexible)
    if flexible and rng.random() < 0.08:
        value[UNKNOWN_TAGS] = [(rng.randrange(90, 9000), rng.randbytes(rng.randrange(5)))]
    return value


def _random(field: Field, version: int, rng: random.Random, flexible: bool) -> Any:
    if has_version(field.nullable, version) and rng.random() < 0.25:
        return None
    if field.is_array:
        return [_random_element(field, version, rng, flexible) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    return _random_element(field, version, rng, flexible)


def _random_element(field: Field, version: int, rng: random.Random, flexible: bool) -> Any:
    if field.fields:
        return _random_struct(field.fields, version, rng, flexible=flexible)
    kind = field.element_type
    if kind == "string":
        return rng.choice(_TEXTS)
    if kind == "bytes":
        return rng.randbytes(rng.randrange(12))
    if kind == "uuid":
        return base64.urlsafe_b64encode(rng.randbytes(16)).decode()[:22]
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "float64":
        return rng.choice(
            (0.0, -0.0, 1.0, 1e7, 1048576.0, 9.999e-4, rng.uniform(-1e6, 1e6), float("nan"), float("-inf"))
        )
    return _random_integer(kind, rng)


def _random_integer(kind: str, rng: random.Random) -> int:
    bits = 8 * _SIZES[kind]
    low = 0 if kind[0] == "u" else -(1 << bits - 1)
    high = low + (1 << bits) - 1
    return rng.choice((0, 1, low, high, max(low, -1), rng.randint(low, high), rng.randrange(8)))
