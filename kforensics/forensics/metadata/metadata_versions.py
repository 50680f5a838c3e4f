"""The levels of ``metadata.version``, and the release of a broker that registered with one.

Source: ``MetadataVersion`` of 3.3.2 to 4.4.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

__all__ = [
    "KNOWN",
    "METADATA_VERSION",
    "Levels",
    "Release",
    "level_name",
    "registered_level",
    "registered_release",
    "release_name",
]

Release: TypeAlias = tuple[int, int]

METADATA_VERSION = "metadata.version"
# By level, from 1 on.
NAMES = (
    *("3.0-IV1", "3.1-IV0", "3.2-IV0", "3.3-IV0", "3.3-IV1", "3.3-IV2", "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1"),
    *("3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0"),
    *("3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0"),
    *("4.4-IV0", "4.4-IV1", "4.4-IV2", "4.5-IV0"),
)


class Levels(NamedTuple):
    """The levels of ``metadata.version`` that a release knows.

    Attributes:
        lowest: the lowest one.
        finished: the highest one that it supports; a controller accepts no higher one.
        highest: the highest one that a broker reads: some were still being developed.
    """

    lowest: int
    finished: int
    highest: int


KNOWN: dict[Release, Levels] = {
    (3, 9): Levels(1, 21, 23),
    (4, 0): Levels(7, 25, 26),
    (4, 1): Levels(7, 27, 29),
    (4, 2): Levels(7, 29, 30),
    (4, 3): Levels(7, 30, 31),
    (4, 4): Levels(7, 33, 34),
}


def level_name(level: int) -> str | None:
    """Return the name of a level of ``metadata.version``, such as ``4.4-IV2``; None if it is unknown."""
    return NAMES[level - 1] if 0 < level <= len(NAMES) else None


def release_name(release: Release) -> str:
    """Return a release as Kafka writes it, such as ``4.4``."""
    return ".".join(map(str, release))


def registered_level(registration: Mapping[str, Any]) -> int:
    """Return the newest level that a broker registered with: the newest that its release has finished; 0 if unknown.

    Args:
        registration: the fields of a ``RegisterBrokerRecord``.
    """
    levels = [one["maxSupportedVersion"] for one in registration["features"] if one["name"] == METADATA_VERSION]
    return max(levels, default=0)


def registered_release(registration: Mapping[str, Any]) -> Release | None:
    """Return the release of the broker that registered, None if it is unknown.

    Args:
        registration: the fields of a ``RegisterBrokerRecord``.
    """
    name = level_name(registered_level(registration))
    if name is None:
        return None
    major, minor = name.partition("-")[0].split(".")
    return int(major), int(minor)
