"""Kafka releases and their order."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

NEWEST: Final = "4.4"


@lru_cache(maxsize=256)
def release_key(release: str) -> tuple[int, ...]:
    """Return a release as a tuple of numbers, by which releases can be compared.

    >>> release_key("3.9") < release_key("3.10") < release_key("4.0.1")
    True
    """
    return tuple(int(part) for part in release.split("."))


def in_releases(release: str, since: str | None, until: str | None) -> bool:
    """Return whether a release is between two others, both included; the patch version is ignored."""
    key = release_key(release)[:2]
    return (since is None or release_key(since) <= key) and (until is None or key <= release_key(until))
