"""Turns what people type into ranges and filters."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from kforensics.analyses.read_files import Isolation
from kforensics.errors import UsageError
from kforensics.parsers.log.selection import Range

__all__ = ["duration_ms", "is_for_spark", "isolation_level", "moment_ms", "offset_range", "pattern", "time_range"]

UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def offset_range(text: str | None) -> Range | None:
    """Return the offsets that ``A:B`` names, B not included; either may be left out. ``A`` alone is one offset.

    Raises:
        UsageError: the text is no such range.
    """
    if text is None:
        return None
    if re.fullmatch("[0-9]+", text):
        return Range(int(text), int(text) + 1)
    return _range(text, _number, "--offset", "100:200, 100:, :200 or 100")


def time_range(text: str | None) -> Range | None:
    """Return the times in ms that ``A:B`` names, B not included; either may be left out.

    A time is a number of ms since 1970 or ISO 8601; without a zone it is UTC. As ISO times hold colons themselves,
    every colon is tried as the one in the middle.

    Raises:
        UsageError: the text is no such range.
    """
    hint = "1700000000000:, 2026-11-01T10:00:2026-11-01T11:00 or :2026-11-02"
    return None if text is None else _range(text, _time, "--time", hint)


def pattern(text: str | None) -> re.Pattern[str] | None:
    """Return a compiled pattern.

    Raises:
        UsageError: the text is no regular expression.
    """
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(f"--key {text!r} is no regular expression: {error}") from error


def isolation_level(word: str, *, aborted: bool = False) -> Isolation:
    """Return the isolation that a word names.

    Args:
        word: Kafka's word, in letters of either case.
        aborted: whether records of aborted transactions are asked for.

    Raises:
        UsageError: there is no such isolation, or it hides what is asked for.
    """
    try:
        isolation = Isolation(word.lower())
    except ValueError:
        raise UsageError(f"--isolation {word!r} is none of {', '.join(Isolation)}") from None
    if aborted and isolation is Isolation.READ_COMMITTED:
        raise UsageError(f"--aborted shows what --isolation {isolation} hides; leave one of them out")
    return isolation


def moment_ms(text: str, option: str) -> int:
    """Return the time in ms that a text names: ms since 1970, or ISO 8601, which without a zone is UTC.

    Raises:
        UsageError: the text is no time.
    """
    found = _time(text)
    if found is None:
        raise UsageError(f"{option} {text!r} is no time; write {option} 2026-11-01T10:00 or {option} 1700000000000")
    return found


def duration_ms(text: str, option: str) -> int:
    """Return the ms that a text such as ``15m`` names; a number alone is in ms.

    Raises:
        UsageError: the text is no duration.
    """
    match = re.fullmatch(r"([0-9]+)(ms|s|m|h|d)?", text)
    if match is None:
        raise UsageError(f"{option} {text!r} is no duration; write {option} 90s, {option} 15m or {option} 2h")
    return int(match[1]) * UNITS[match[2] or "ms"]


def _range(text: str, read: Callable[[str], int | None], option: str, hint: str) -> Range:
    for match in re.finditer(":", text):
        left, right = text[: match.start()], text[match.end() :]
        first, end = read(left), read(right)
        if (left and first is None) or (right and end is None) or not (left or right):
            continue
        if first is None or end is None or first <= end:
            return Range(first, end)
    raise UsageError(f"{option} {text!r} is no range; write {option} {hint}")


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch("[0-9]+", text) else None


def _time(text: str) -> int | None:
    if re.fullmatch("-?[0-9]+", text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def is_for_spark(engine: str | None, given: Sequence[str]) -> bool:
    """Tell whether Spark shall do the work.

    Args:
        engine: ``process`` or ``spark``; None for Spark only where ``spark-submit`` has started this program.
        given: parameters that were given and mean something for Spark alone.

    Raises:
        UsageError: there is no such engine, or it does not know what was given.
    """
    if engine not in (None, "process", "spark"):
        raise UsageError(f"--engine {engine!r} is none of process, spark")
    wanted = engine == "spark" or (engine is None and "PYSPARK_GATEWAY_PORT" in os.environ)
    if given and not wanted:
        raise UsageError(f"--{given[0].replace('_', '-')} is for --engine spark; add that, or leave it out")
    return wanted
