"""How Kafka's generated messages are described: the types of the tables in this package.

A table says once what every release knew of a message. What one release knew, its *layout*, is taken out of the table
by `layout`. The words are those of Kafka's schema files (`common/message/*.json`, `common/metadata/*.json`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from kforensics.parsers.messages.releases import NEWEST, in_releases

ALWAYS: Final = "0+"
_UNBOUNDED: Final = 1 << 30


class Unset:
    """The type of a default that the schema does not state."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset()


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message or of a struct inside one.

    Attributes:
        name: Kafka's JSON name.
        type: A primitive (`int32`, `string`, ...), the name of a struct, or either behind `[]` for an array.
        versions: The message versions that have the field, as `3+` or `1` or `0-2`.
        nullable: The message versions in which it may be null, or None for never.
        tag: The number of the field in the tagged section, or None where it stands in line.
        default: What an absent field means; `UNSET` is the zero of the type.
        fields: The fields of the struct that `type` names.
        since: First release whose schema has the field, where that is not the first of the message.
        until: Last release whose schema has the field, where that is not the newest.
        common: The struct is a common one of the schema. Kafka's code checks the version of other nested structs only.
        zero_copy: Kafka reads these bytes as a slice, which fails with another text when they are cut off.
    """

    name: str
    type: str
    versions: str = ALWAYS
    nullable: str | None = None
    tag: int | None = None
    default: Any = UNSET
    fields: tuple[Field, ...] = ()
    since: str | None = None
    until: str | None = None
    zero_copy: bool = False
    common: bool = False

    @property
    def is_array(self) -> bool:
        """Whether the field holds a list."""
        return self.type.startswith("[]")

    @property
    def element_type(self) -> str:
        """The type of the field, or of its elements if it is an array."""
        return self.type.removeprefix("[]")


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A generated message: a record key, a record value, or a structure embedded in one.

    Messages are compared by identity, which makes them cheap keys of the caches of compiled readers.

    Attributes:
        name: Kafka's name.
        id: The record type, or None for a message without one.
        fields: In schema order.
        flexible: The versions in the flexible encoding, or None for none.
        highest: Highest version by the release that brought it, the first entry being the first release of all.
        until: Last release that knows the message, or None.
        rigid_until: Last release that encoded it without compact lengths and tags, whatever `flexible` says: the
            preview of KRaft in 2.8 did.
    """

    name: str
    id: int | None
    fields: tuple[Field, ...]
    flexible: str | None = ALWAYS
    highest: tuple[tuple[str, int], ...] = (("4.1", 0),)
    until: str | None = None
    rigid_until: str | None = None

    @property
    def highest_version(self) -> int:
        """The highest version this table knows."""
        return self.highest[-1][1]

    def known_to(self, release: str) -> bool:
        """Whether a release knows the message at all."""
        return in_releases(release, self.highest[0][0], self.until)


@lru_cache(maxsize=256)
def version_range(versions: str | None) -> tuple[int, int]:
    """The lowest and highest version of a range as the schemas write it; an empty range for None.

    >>> version_range("3+")[0], version_range("1"), version_range("0-2"), version_range(None)
    (3, (1, 1), (0, 2), (1, 0))
    """
    if versions is None:
        return (1, 0)
    parts = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", versions)
    if parts is None:
        raise ValueError(f"not a version range: {versions!r}")
    low = int(parts[1])
    return low, _UNBOUNDED if parts[2] else int(parts[3] or low)


def has_version(versions: str | None, version: int) -> bool:
    """Whether a version is in a range.

    Kafka's generated code never asks whether a version is below 0, so neither does `0+` here.
    """
    if versions == ALWAYS:
        return True
    low, high = version_range(versions)
    return low <= version <= high


def _fields_of(fields: tuple[Field, ...], release: str) -> tuple[Field, ...]:
    known = (field for field in fields if in_releases(release, field.since, field.until))
    return tuple(replace(field, fields=_fields_of(field.fields, release), since=None, until=None) for field in known)


@lru_cache(maxsize=2048)
def layout(message: Message, release: str = NEWEST) -> Message:
    """The message as one release knew it.

    Args:
        message: A table of this package.
        release: `major.minor`, a third number is ignored.

    Returns:
        The same message with the fields and the highest version of that release, of the last that knew it if this
        one does not.
    """
    if not message.known_to(release):
        release = message.until or NEWEST
    highest = tuple(entry for entry in message.highest if in_releases(release, entry[0], None)) or message.highest[:1]
    rigid = message.rigid_until is not None and in_releases(release, None, message.rigid_until)
    return replace(
        message,
        fields=_fields_of(message.fields, release),
        flexible=None if rigid else message.flexible,
        highest=highest[-1:],
        rigid_until=None,
    )
