"""Formats times, durations, sizes, counts and shares for people, in one form for each."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from kforensics.forensics.core.record_types import NO_TIME

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
DURATION_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (MINUTE_MS, "min"), (SECOND_MS, "s"))
# The limit of datetime.timedelta. A longer duration comes from a corrupt timestamp, whose digits are the evidence.
LONGEST_DURATION_MS = 999_999_999 * 86_400_000
SIZE_UNITS = ("bytes", "KB", "MB", "GB", "TB", "PB")
KILO = 1_000
UNKNOWN_TIMES = (NO_TIME, -1)


def format_time(timestamp_ms: int) -> str:
    """Return a timestamp as a UTC time, to the second; one beyond the calendar as milliseconds.

    >>> format_time(1_700_000_000_123), format_time(1 << 62)
    ('2023-11-14 22:13:20 UTC', '4611686018427387904 ms')
    """
    if timestamp_ms in UNKNOWN_TIMES:
        return "an unknown time"
    second = _utc_second(timestamp_ms // SECOND_MS)
    return f"{timestamp_ms} ms" if second is None else f"{second} UTC"


def format_time_ms(timestamp_ms: int) -> str:
    """Return a timestamp as a UTC time, to the millisecond; one beyond the calendar as milliseconds.

    >>> format_time_ms(1_700_000_000_123)
    '2023-11-14 22:13:20.123 UTC'
    """
    if timestamp_ms in UNKNOWN_TIMES:
        return "an unknown time"
    second = _utc_second(timestamp_ms // SECOND_MS)
    return f"{timestamp_ms} ms" if second is None else f"{second}.{timestamp_ms % SECOND_MS:03} UTC"


# Neighboring records of a log often have the same second.
@lru_cache(maxsize=1 << 12)
def _utc_second(seconds: int) -> str | None:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return None


def format_duration(milliseconds: int) -> str:
    """Return a duration in its two largest units.

    >>> format_duration(12_500_000), format_duration(1_500), format_duration(40)
    ('3 h 28 min', '1.5 s', '40 ms')
    """
    if milliseconds < 0:
        return f"-{format_duration(-milliseconds)}"
    if milliseconds < SECOND_MS or milliseconds > LONGEST_DURATION_MS:
        return f"{milliseconds} ms"
    if milliseconds < MINUTE_MS:
        return f"{milliseconds / SECOND_MS:.3g} s"
    index = next(index for index, (length, _) in enumerate(DURATION_UNITS) if milliseconds >= length)
    parts = []
    for length, unit in DURATION_UNITS[index : index + 2]:
        count, milliseconds = divmod(milliseconds, length)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts)


def format_size(size: int) -> str:
    """Return a number of bytes in the largest fitting unit.

    >>> format_size(999), format_size(1_234_567)
    ('999 bytes', '1.2 MB')
    """
    value, index = float(size), 0
    while value >= KILO and index < len(SIZE_UNITS) - 1:
        value, index = value / KILO, index + 1
    return f"{size} bytes" if index == 0 else f"{value:.1f} {SIZE_UNITS[index]}"


def format_count(count: int, singular: str, plural: str | None = None) -> str:
    """Return a count with its noun.

    >>> format_count(1, "record"), format_count(2_000, "record"), format_count(2, "batch", "batches")
    ('1 record', '2,000 records', '2 batches')

    Args:
        count: how many there are.
        singular: noun for exactly one.
        plural: noun for other counts; by default the singular with an s.
    """
    noun = singular if count == 1 else plural or f"{singular}s"
    return f"{count:,} {noun}"


def format_offsets(first: int, last: int) -> str:
    """Return a range of offsets.

    >>> format_offsets(5, 5), format_offsets(5, 9)
    ('offset 5', 'offsets 5 to 9')
    """
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def format_share(share: float) -> str:
    """Return a share as a percentage.

    >>> format_share(0.125)
    '12.5 %'
    """
    return f"{share:.1%}".replace("%", " %")
