"""Reads ``meta.properties``: the cluster, node and directory ids of a log directory.

Rules: ``java.util.Properties`` and ``org.apache.kafka.metadata.properties.MetaProperties``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kforensics.parsers.files.source import Source
from kforensics.parsers.files.text_lines import parse_int, read_small_file, shrunk_damage
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.format.text_encoding import is_uuid_text

__all__ = ["MetaProperties", "Property", "meta_properties", "read_meta_properties", "read_properties"]

# A logical line: a natural line that ends in an odd number of backslashes continues on the next one.
LOGICAL = re.compile(rb"((?:\\(?:\r\n|.)|[^\\\r\n])*)(\r\n|\r|\n|\Z|\\\Z)", re.DOTALL)
BLANKS = " \t\f"
KEY = re.compile(r"((?:\\.|[^\\ \t\f=:])*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|\r\n[ \t\f]*|[\r\n][ \t\f]*|.)", re.DOTALL)
LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
HIGHEST_VERSION = 1
UUIDS = ("directory.id",)


@dataclass(frozen=True, slots=True)
class Property:
    """A property of the file. A comment or an empty line is a property named ``#``."""

    position: int
    size: int
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The properties that Kafka defines; None for one that is absent or unreadable."""

    version: int
    node_id: int | None
    cluster_id: str | None
    directory_id: str | None

    @property
    def has_zookeeper(self) -> bool:
        """Whether the broker kept its metadata in ZooKeeper: with KRaft the version is 1."""
        return self.version == 0


def read_meta_properties(source: Source) -> Iterator[Property | Damage]:
    """Yield the properties of the file in order, and damage for invalid ones."""
    for row in read_properties(source):
        fault = _fault(row.name, row.value) if isinstance(row, Property) else None
        yield Damage(row.position, row.position + row.size, *fault) if isinstance(row, Property) and fault else row


def read_properties(source: Source) -> Iterator[Property | Damage]:
    """Yield the properties of any file of properties in order, and damage if it cannot be read."""
    data = read_small_file(source)
    if isinstance(data, Damage):
        yield data
        return
    start = 0
    while start < len(data):
        match = LOGICAL.match(data, start)
        end = match.end() if match else len(data)
        # Java always reads the file as ISO-8859-1.
        text = (match[1] if match else data[start:]).decode("latin-1").lstrip(BLANKS)
        yield _property(start, end, text)
        start = end
    yield from shrunk_damage(source, data)


def meta_properties(rows: Iterable[Property | Damage]) -> MetaProperties:
    """Return the values of the rows. If a name is repeated, its last value counts, as in Java."""
    values = {row.name: row.value for row in rows if isinstance(row, Property)}
    version = parse_int(values.get("version", "0").strip()) or 0
    # Version 0 calls the node a broker. Accept either name in both versions.
    names = ("broker.id", "node.id") if version == 0 else ("node.id", "broker.id")
    node_id = next((parse_int(values[name]) for name in names if name in values), None)
    return MetaProperties(version, node_id, values.get("cluster.id"), values.get("directory.id"))


def _property(start: int, end: int, text: str) -> Property:
    if not text or text[0] in "#!":
        return Property(start, end - start, "#", text[1:])
    match = KEY.match(text)
    split = match.end() if match else 0
    name, value = _unescape(match[1] if match else text), _unescape(text[split:])
    return Property(start, end - start, name, value)


def _unescape(text: str) -> str:
    return ESCAPE.sub(lambda match: _unescaped(match[1]), text)


def _unescaped(escape: str) -> str:
    if escape[0] == "u" and len(escape) > 1:
        return chr(int(escape[1:], 16))
    return "" if escape[0] in "\r\n" else LETTERS.get(escape, escape)


def _fault(name: str, value: str) -> tuple[str, str] | None:
    """Return reason and detail of an invalid value, None if it is valid."""
    if name == "version":
        number = parse_int(value.strip())
        if number is None:
            return "malformed", f"Invalid meta.properties version string '{value}'"
        if not 0 <= number <= HIGHEST_VERSION:
            return "version", f"Unknown meta.properties version number {number}"
    if name in ("node.id", "broker.id") and parse_int(value) is None:
        return "malformed", f"Unable to read {name} as a base-10 number."
    if name in UUIDS and not is_uuid_text(value):
        return "malformed", f"Unable to read {name} as a Uuid: {value}"
    return None
