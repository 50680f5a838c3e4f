"""Parses times and durations as users write them."""

from __future__ import annotations

import re
import time as clock
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import TypeGuard

from kforensics.errors import UsageError

NOW = "now"
MINUTES_OF_DAY = 24 * 60
# The end of the year 9999, the last one of the calendar.
LAST_MS = 253_402_300_799_999
UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class Since:
    """When a period begins.

    Attributes:
        time_ms: in milliseconds since 1970, None if it is relative.
        duration_ms: how long before the time of evaluation.
    """

    time_ms: int | None = None
    duration_ms: int = 0

    def ms(self, as_of_ms: int) -> int:
        """Return it in milliseconds since 1970, given the time of evaluation."""
        return as_of_ms - self.duration_ms if self.time_ms is None else self.time_ms


def parse_time(text: str, zone: tzinfo = UTC) -> int | None:
    """Return a time in milliseconds since 1970, None if the text is no time.

    Args:
        text: milliseconds since 1970, or ISO 8601.
        zone: the time zone if the text names none.
    """
    if re.fullmatch("-?[0-9]+", text):
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    if time.tzinfo is None:
        time = time.replace(tzinfo=zone)
    return round(time.timestamp() * 1000)


def time_ms(text: str, option: str, zone: tzinfo = UTC) -> int:
    """Return a time in milliseconds since 1970.

    Args:
        text: milliseconds since 1970, or ISO 8601.
        option: the option that the text is the value of.
        zone: the time zone if the text names none.

    Raises:
        UsageError: the text is no time.
    """
    time = parse_time(text, zone)
    if not _is_in_calendar(time):
        raise UsageError(f"{option} {text!r} is not a time; write {option} 2026-11-01T10:00 or {option} 1700000000000")
    return time


def as_of_text_ms(text: str, option: str, zone: tzinfo = UTC) -> int:
    """Return a time of evaluation in milliseconds since 1970.

    Args:
        text: milliseconds since 1970, ISO 8601, or ``now``.
        option: the option that the text is the value of.
        zone: the time zone if the text names none.

    Raises:
        UsageError: the text is no time.
    """
    return clock.time_ns() // 1_000_000 if text.lower() == NOW else time_ms(text, option, zone)


def as_of_ms(as_of: datetime | str | int | None) -> int | None:
    """Return the time of evaluation that a caller gives in milliseconds since 1970, None for none.

    >>> as_of_ms(datetime(2026, 11, 21, 12, 15, tzinfo=UTC)) == as_of_ms("2026-11-21T12:15") == 1795263300000
    True

    Args:
        as_of: a datetime with a time zone, text as the option ``--as-of`` takes it, or milliseconds.

    Raises:
        UsageError: it is no time, or a datetime without a time zone.
    """
    from kforensics.analyses.values import whole_number  # commands give text

    if isinstance(as_of, str):
        return as_of_text_ms(as_of, "as_of")
    if as_of is None:
        return None
    if isinstance(as_of, datetime) and as_of == as_of:  # noqa: PLR0124  # NaT of pandas is not equal to itself
        if as_of.tzinfo is None:
            raise UsageError(f"as_of={as_of} has no time zone; write as_of.replace(tzinfo=UTC) if it is in UTC")
        return round(as_of.timestamp() * 1000)
    with suppress(UsageError):
        if _is_in_calendar(number := whole_number(as_of, "as_of")):
            return number
    raise UsageError(f"as_of={as_of!r} is not a time; give a datetime, text in ISO 8601 or milliseconds as an int")


def _is_in_calendar(time: int | None) -> TypeGuard[int]:
    """Return whether there is a time, and it is one that the difference of two times has room for."""
    return time is not None and -LAST_MS <= time <= LAST_MS


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


def since_time(text: str, zone: tzinfo = UTC) -> Since:
    """Return when a period begins.

    Args:
        text: a duration before the time of evaluation, with a unit, or a time.
        zone: the time zone if the text names none.

    Raises:
        UsageError: the text is neither.
    """
    if re.fullmatch(r"[0-9]+(ms|s|m|h|d)", text):
        return Since(duration_ms=duration_ms(text, "--since"))
    time = parse_time(text, zone)
    if not _is_in_calendar(time):
        raise UsageError(f"--since {text!r} is neither a duration nor a time; write --since 2h or 2026-11-01T10:00")
    return Since(time)


def time_zone(name: str) -> tzinfo:
    """Return a time zone by its name or its distance from UTC.

    Raises:
        UsageError: there is no such zone.
    """
    if match := re.fullmatch(r"([+-])([0-9]{2}):?([0-9]{2})", name):
        minutes = int(match[2]) * 60 + int(match[3])
        if minutes < MINUTES_OF_DAY:
            return timezone(timedelta(minutes=minutes if match[1] == "+" else -minutes))
    from zoneinfo import ZoneInfo, available_timezones

    from kforensics.analyses.topics import similar

    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        hint = similar(name, available_timezones()) or "write --tz Europe/Berlin or --tz +02:00"
        raise UsageError(f"no time zone {name!r}; {hint}") from None
