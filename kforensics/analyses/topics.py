"""Refuses topics that no partition has, and names similar ones."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from kforensics.errors import UsageError
from kforensics.forensics.core.formatting import format_count

# How many topics are named.
SIMILAR, NAMED = 3, 10


def check_topics(topics: Iterable[str], known: Iterable[str | None], suggested: Iterable[str] = ()) -> None:
    """Check that topics exist.

    Args:
        topics: the topics that the user wants.
        known: the topics of the partitions.
        suggested: more topics to suggest.

    Raises:
        UsageError: no partition has one of the topics.
    """
    there = {topic for topic in known if topic is not None}
    for topic in topics:
        if topic not in there:
            raise UsageError(f"no topic {topic!r}; {_hint(topic, sorted(there | set(suggested)))}")


def _hint(topic: str, known: list[str]) -> str:
    by_lower = {name.lower(): name for name in known if name != topic}
    similar = [by_lower[name] for name in get_close_matches(topic.lower(), by_lower, SIMILAR)]
    if similar:
        return f"did you mean {' or '.join(similar)}?"
    if not known:
        return "no partition under the paths has a topic"
    named, more = ", ".join(known[:NAMED]), len(known) - NAMED
    return f"there are {named}, and {format_count(more, 'other')}" if more > 0 else f"there are {named}"
