"""Parses filters: numbers, ranges of offsets and times, a pattern for keys, the isolation level."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum

from kforensics.errors import UsageError
from kforensics.parsers.log.selection import HalfOpenRange


class Isolation(StrEnum):
    """Which records a consumer receives: all of them, or no records of transactions that did not commit."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


def offsets_of(offset: int | str | range | None, name: str = "offset") -> HalfOpenRange | None:
    """Return the range of offsets that the caller of a function gives.

    Args:
        offset: a whole number, a range without a step, or text such as ``100:200``, without 200.
        name: the parameter that it is the value of.

    Raises:
        UsageError: it is none of them, or leaves offsets out.
    """
    if offset is None or isinstance(offset, str):
        return offset_range(offset)
    if not isinstance(offset, range):
        from kforensics.analyses.values import whole_number  # commands give text

        one = whole_number(offset, name, 0)
        return HalfOpenRange(one, one + 1)
    if offset.step != 1:
        raise UsageError(f"{offset} leaves offsets out; give a range without a step")
    return offset_range(f"{offset.start}:{offset.stop}")


def offset_range(text: str | None) -> HalfOpenRange | None:
    """Return the range of offsets ``A:B``, without B. Either side may be empty. ``A`` alone is one offset.

    Raises:
        UsageError: the text is no such range.
    """
    if text is None:
        return None
    if re.fullmatch("[0-9]+", text):
        return HalfOpenRange(int(text), int(text) + 1)
    return _range(text, _parse_offset, "--offset", "100:200, 100:, :200 or 100")


def time_range(text: str | None) -> HalfOpenRange | None:
    """Return the range of times ``A:B`` in milliseconds, without B. Either side may be empty.

    A time is milliseconds since 1970, or ISO 8601, which is UTC if it names no zone. ISO times contain colons, so every
    colon is tried as the one between the two times.

    Raises:
        UsageError: the text is no such range.
    """
    if text is None:
        return None
    from kforensics.analyses.times import parse_time  # few dumps select times

    examples = "1700000000000:, 2026-11-01T10:00:2026-11-01T11:00 or :2026-11-02"
    return _range(text, parse_time, "--time", examples)


def pattern(text: str | None) -> re.Pattern[str] | None:
    """Return the compiled pattern of ``--key``.

    Raises:
        UsageError: the text is no regular expression.
    """
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(f"--key {text!r} is not a regular expression: {error}") from error


def isolation_level(name: str, *, aborted: bool = False) -> Isolation:
    """Return the isolation level of a name.

    Args:
        name: Kafka's name of the level, in upper or lower case.
        aborted: whether the records of aborted transactions are selected.

    Raises:
        UsageError: there is no such level, or it hides the selected records.
    """
    try:
        isolation = Isolation(name.lower())
    except ValueError:
        raise UsageError(f"--isolation {name!r} is not one of {', '.join(Isolation)}") from None
    if aborted and isolation is Isolation.READ_COMMITTED:
        raise UsageError(f"--aborted shows the records that --isolation {isolation} hides; leave out one of the two")
    return isolation


def _range(text: str, parse: Callable[[str], int | None], option: str, examples: str) -> HalfOpenRange:
    for match in re.finditer(":", text):
        left, right = text[: match.start()], text[match.end() :]
        first, end = parse(left), parse(right)
        if (left and first is None) or (right and end is None) or not (left or right):
            continue
        if first is None or end is None or first <= end:
            return HalfOpenRange(first, end)
    raise UsageError(f"{option} {text!r} is not a range; write {option} {examples}")


def _parse_offset(text: str) -> int | None:
    return int(text) if re.fullmatch("[0-9]+", text) else None
