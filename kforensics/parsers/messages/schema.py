"""The description of Kafka's generated messages: types for the schemas in this package, and the layout in one release.

A `MessageSchema` covers every release that knew the message. `layout` reduces it to what one release knew. The terms
are those of Kafka's schema files (`common/message/*.json`, `common/metadata/*.json`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from kforensics.parsers.messages.releases import NEWEST, in_releases

ALL_VERSIONS: Final = "0+"
_UNBOUNDED: Final = 1 << 30


class Unset:
    """The type of `UNSET`, the default of a field whose schema states none."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset()


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message, or of a struct inside a message.

    Attributes:
        name: The name in Kafka's JSON.
        type: A primitive type (`int32`, `string`, ...) or the name of a struct; with the prefix `[]`, an array of it.
        versions: The message versions that have the field, for example `3+`, `1` or `0-2`.
        nullable: The message versions in which the field may be null; None if it may never be.
        tag: The number of a tagged field; None for an ordinary field.
        default: The value of a field that was not written; `UNSET` means the zero value of the type.
        fields: The fields of the struct that `type` names.
        since: The first release whose schema has the field; None for the first release of the message.
        until: The last release whose schema has the field; None for the newest release.
        zero_copy: Whether Kafka reads the bytes as a slice. A truncated slice fails with another error.
        common: Whether the struct is a common struct of the schema. Kafka checks the version of other nested structs
            only.
    """

    name: str
    type: str
    versions: str = ALL_VERSIONS
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
        """Whether the field is an array."""
        return self.type.startswith("[]")

    @property
    def element_type(self) -> str:
        """The type of the field, or of the elements of an array."""
        return self.type.removeprefix("[]")


@dataclass(frozen=True, slots=True, eq=False)
class MessageSchema:
    """The schema of a generated message: of a record key, a record value, or a structure embedded in one.

    Schemas are compared by identity, which makes them cheap keys for the caches of compiled readers.

    Attributes:
        name: Kafka's name of the message.
        id: The record type; None for a message without one.
        fields: The fields in schema order.
        flexible: The message versions with the flexible encoding; None for none.
        highest: Pairs of a release and the highest message version since then. The first pair has the first release
            that knew the message.
        until: The last release that knows the message; None for the newest release.
        rigid_until: The last release that encoded the message without compact lengths and tags, whatever `flexible`
            says. The KRaft preview in 2.8 did so.
    """

    name: str
    id: int | None
    fields: tuple[Field, ...]
    flexible: str | None = ALL_VERSIONS
    highest: tuple[tuple[str, int], ...] = (("4.1", 0),)
    until: str | None = None
    rigid_until: str | None = None

    @property
    def highest_version(self) -> int:
        """The highest message version of this schema."""
        return self.highest[-1][1]

    def known_to(self, release: str) -> bool:
        """Return whether a release knows the message at all."""
        return in_releases(release, self.highest[0][0], self.until)


@lru_cache(maxsize=256)
def version_range(versions: str | None) -> tuple[int, int]:
    """Return the lowest and the highest version of a range in the notation of the schemas; for None, an empty range.

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
    """Return whether a version is in a range.

    Kafka's generated code never checks for versions below 0, so `0+` includes them here too.
    """
    if versions == ALL_VERSIONS:
        return True
    low, high = version_range(versions)
    return low <= version <= high


def _fields_of(fields: tuple[Field, ...], release: str) -> tuple[Field, ...]:
    known = (field for field in fields if in_releases(release, field.since, field.until))
    return tuple(replace(field, fields=_fields_of(field.fields, release), since=None, until=None) for field in known)


@lru_cache(maxsize=2048)
def layout(message: MessageSchema, release: str = NEWEST) -> MessageSchema:
    """Return a message schema as one release knew it.

    Args:
        message: A schema of this package.
        release: `major.minor`; a patch version is ignored.

    Returns:
        The schema with the fields and the highest version of that release. If the release does not know the message,
        those of the last release that did.
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
