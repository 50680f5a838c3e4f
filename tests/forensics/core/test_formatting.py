"""Times, durations, sizes, counts and shares as people read them."""

from __future__ import annotations

import pytest

from kforensics.forensics.core.formatting import (
    format_count,
    format_duration,
    format_share,
    format_size,
    format_time,
    format_time_ms,
)
from kforensics.forensics.core.record_types import NO_TIME

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (SECOND, "1 s"),
        (1_500, "1.5 s"),
        (59_000, "59 s"),
        (MINUTE, "1 min"),
        (38 * MINUTE + 37 * SECOND + 999, "38 min 37 s"),
        (3 * HOUR + 28 * MINUTE + 59 * SECOND, "3 h 28 min"),
        (DAY - 1, "23 h 59 min"),
        (DAY, "1 d"),
        (DAY + 59 * MINUTE, "1 d"),
        (DAY + 3 * HOUR, "1 d 3 h"),
        (-5 * MINUTE, "-5 min"),
        (2**63 - 1, "9223372036854775807 ms"),
        (-(2**63), "-9223372036854775808 ms"),
    ],
)
def test_durations_have_at_most_two_units(milliseconds: int, text: str) -> None:
    """A duration shows its two largest units; one that no clock measured stays in milliseconds."""
    assert format_duration(milliseconds) == text


@pytest.mark.parametrize(
    ("timestamp", "second", "millisecond"),
    [
        (0, "1970-01-01 00:00:00 UTC", "1970-01-01 00:00:00.000 UTC"),
        (1_795_262_721_042, "2026-11-21 12:05:21 UTC", "2026-11-21 12:05:21.042 UTC"),
        (-SECOND - 1, "1969-12-31 23:59:58 UTC", "1969-12-31 23:59:58.999 UTC"),
        (2**63 - 1, "9223372036854775807 ms", "9223372036854775807 ms"),
    ],
)
def test_times_are_in_utc(timestamp: int, second: str, millisecond: str) -> None:
    """Times are in UTC; timestamps beyond the calendar stay numbers."""
    assert (format_time(timestamp), format_time_ms(timestamp)) == (second, millisecond)


@pytest.mark.parametrize("timestamp", [NO_TIME, -1])
def test_an_unknown_time(timestamp: int) -> None:
    """Kafka's -1 and the replay's NO_TIME are no times."""
    assert (format_time(timestamp), format_time_ms(timestamp)) == ("an unknown time", "an unknown time")


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1_000, "1.0 KB"), (1_449_000, "1.4 MB"), (5 * 10**18, "5000.0 PB")],
)
def test_sizes_have_one_decimal(size: int, text: str) -> None:
    """Sizes use powers of 1,000 and end at petabytes."""
    assert format_size(size) == text


def test_counts_and_shares() -> None:
    """Counts are grouped and take a singular or plural noun; shares are percentages."""
    assert [format_count(count, "record") for count in (0, 1, 1_234)] == ["0 records", "1 record", "1,234 records"]
    assert format_count(1, "batch", "batches") == "1 batch"
    assert format_count(3, "batch", "batches") == "3 batches"
    assert [format_share(share) for share in (0, 0.0654, 1)] == ["0.0 %", "6.5 %", "100.0 %"]
