"""Parses times and durations as users write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from kforensics.errors import UsageError

UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_time(text: str) -> int | None:
    """Return a time in milliseconds since 1970, None if the text is no time.

    Args:
        text: milliseconds since 1970, or ISO 8601, which is UTC if it names no zone.
    """
    if re.fullmatch("-?[0-9]+", text):
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return round(time.timestamp() * 1000)


def time_ms(text: str, option: str) -> int:
    """Return a time in milliseconds since 1970.

    Args:
        text: milliseconds since 1970, or ISO 8601, which is UTC if it names no zone.
        option: the option that the text is the value of.

    Raises:
        UsageError: the text is no time.
    """
    time = parse_time(text)
    if time is None:
        raise UsageError(f"{option} {text!r} is not a time; write {option} 2026-11-01T10:00 or {option} 1700000000000")
    return time


def duration_ms(text: str, option: str) -> int:
    """Return a duration in milliseconds.

    Args:
        text: a number and a unit, such as ``15m``; a number alone is in milliseconds.
        option: the option that the text is the value of.

    Raises:
        UsageError: the text is no duration.
    """
    match = re.fullmatch(r"([0-9]+)(ms|s|m|h|d)?", text)
    if match is None:
        raise UsageError(f"{option} {text!r} is not a duration; write {option} 90s, {option} 15m or {option} 2h")
    return int(match[1]) * UNIT_MS[match[2] or "ms"]
