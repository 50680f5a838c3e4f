"""Times and sizes as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

__all__ = ["amount", "duration", "moment", "size_text"]

SECOND_MS = 1_000
UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (SECOND_MS, "s"))
SIZES = ("bytes", "KB", "MB", "GB", "TB", "PB")
KILO = 1_000


def moment(timestamp_ms: int) -> str:
    """Return a time in UTC, to the second; a number that is none as it is.

    >>> moment(1_700_000_000_123)
    '2023-11-14 22:13:20'
    """
    return _second(timestamp_ms // SECOND_MS) or str(timestamp_ms)


# Neighbours in a log are of the same second more often than not.
@lru_cache(maxsize=1 << 12)
def _second(seconds: int) -> str | None:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return None


def duration(milliseconds: int) -> str:
    """Return how long something took, in its two largest units.

    >>> duration(93_784_000), duration(1_500), duration(40)
    ('1 d 2 h', '1.5 s', '40 ms')
    """
    if milliseconds < 0:
        return f"-{duration(-milliseconds)}"
    if milliseconds < SECOND_MS:
        return f"{milliseconds} ms"
    if milliseconds < 60 * SECOND_MS:
        return f"{milliseconds / SECOND_MS:.3g} s"
    index = next(index for index, (length, _) in enumerate(UNITS) if milliseconds >= length)
    words = []
    for length, unit in UNITS[index : index + 2]:
        count, milliseconds = divmod(milliseconds, length)
        if count:
            words.append(f"{count} {unit}")
    return " ".join(words)


def size_text(size: int) -> str:
    """Return bytes in the unit that suits them.

    >>> size_text(999), size_text(1_234_567)
    ('999 bytes', '1.2 MB')
    """
    value, index = float(size), 0
    while value >= KILO and index < len(SIZES) - 1:
        value, index = value / KILO, index + 1
    return f"{size} bytes" if index == 0 else f"{value:.1f} {SIZES[index]}"


def amount(count: int, what: str) -> str:
    """Return a number of things, with an s where there is not exactly one.

    >>> amount(1, "record"), amount(2, "record")
    ('1 record', '2 records')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"
