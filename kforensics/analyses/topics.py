"""Selects topics and partitions, and refuses names of nothing: topics, codes and ids. It suggests similar ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from kforensics.errors import UnknownNameError, UsageError
from kforensics.forensics.core.formatting import format_count

if TYPE_CHECKING:
    from kforensics.parsers.files.discover import FoundFile

NO_PARTITION = "no partition is left by --topic and --partition; give others"
# How many topics are named.
SIMILAR, NAMED = 3, 10
NOT = "!"


def is_selected(topic: str | None, patterns: Sequence[str]) -> bool:
    """Return whether a topic is among those that the user wants.

    >>> [is_selected(topic, ["pay*", "!pay-test"]) for topic in ("payments", "pay-test", "orders")]
    [True, False, False]

    Args:
        topic: the topic, None if it is unknown.
        patterns: names or globs; one that begins with ``!`` excludes. All topics if it is empty.
    """
    wanted = [pattern for pattern in patterns if not pattern.startswith(NOT)]
    unwanted = [pattern.removeprefix(NOT) for pattern in patterns if pattern.startswith(NOT)]
    if topic is None:
        return not wanted
    is_wanted = not wanted or any(fnmatchcase(topic, pattern) for pattern in wanted)
    return is_wanted and not any(fnmatchcase(topic, pattern) for pattern in unwanted)


def is_numbered(partition: int | None, numbers: Sequence[range]) -> bool:
    """Return whether the number of a partition is in one of some ranges; any number is if there are none."""
    return not numbers or any(partition in each for each in numbers)


def files_of_partitions(files: list[FoundFile], topics: Sequence[str], numbers: Sequence[range]) -> list[FoundFile]:
    """Return those of some files that belong to partitions that the user wants.

    Args:
        files: the files.
        topics: names or globs, as for :func:`is_selected`.
        numbers: ranges of the numbers of partitions; all if it is empty.

    Raises:
        UsageError: there is no such topic, or no file is left.
    """
    if not (topics or numbers) or not files:
        return files
    of_partitions = [file for file in files if file.topic is not None]
    check_topics(topics, (file.topic for file in of_partitions))
    of_topics = (file for file in of_partitions if is_selected(file.topic, topics))
    selected = [file for file in of_topics if is_numbered(file.partition, numbers)]
    if not selected:
        raise UsageError(NO_PARTITION)
    return selected


def partition_numbers(text: str, option: str = "--partition") -> range:
    """Return the numbers of partitions that a user wants.

    Args:
        text: a number, or a range of both ends, such as ``0-9``.
        option: the option that it is the value of.

    Raises:
        UsageError: it is neither.
    """
    first, _, last = text.partition("-")
    if not (first.isdecimal() and (not last or last.isdecimal()) and text.isascii()) or text.endswith("-"):
        raise UsageError(f"{option} {text!r} is not a number or a range; write {option} 3 or {option} 0-9")
    return range(int(first), int(last or first) + 1)


def selection_of(
    topic: str | Iterable[str] | None, partition: int | str | Iterable[int | str] | None
) -> tuple[tuple[str, ...], tuple[range, ...]]:
    """Return the topics and the ranges of partitions that the caller of a function wants.

    Args:
        topic: a name or glob, or several; None for all topics.
        partition: a number, or a range such as ``"0-9"``, or several; None for all partitions.

    Raises:
        UsageError: what is given for a partition is neither a number nor a range.
    """
    numbers = (partition_numbers(str(each), "partition") for each in _listed(partition))
    return tuple(map(str, _listed(topic))), tuple(numbers)


def _listed(given: str | int | Iterable[str | int] | None) -> tuple[str | int, ...]:
    """Return what a caller gives alone or several of, in a list, a set or an array, as a tuple."""
    if given is None:
        return ()
    return tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)


def similar(name: str, known: Iterable[str]) -> str:
    """Return a question that suggests names like a name, ``""`` if there are none."""
    by_lower = {other.lower(): other for other in known if other != name}
    close = [by_lower[other] for other in get_close_matches(name.lower(), by_lower, SIMILAR)]
    return f"did you mean {' or '.join(close)}?" if close else ""


def check_name(name: str, known: Iterable[str], what: str) -> None:
    """Check that a table or a column exists.

    Raises:
        UnknownNameError: it does not; the message names similar ones, or all.
    """
    if name not in (names := [*dict.fromkeys(known)]):
        raise UnknownNameError(f"there is no {what} {name!r}; {similar(str(name), names) or _all(names)}")


def _all(names: Sequence[str]) -> str:
    return f"there are {', '.join(names)}" if names else "there are none"


def check_topics(topics: Iterable[str], known: Iterable[str | None], suggested: Iterable[str] = ()) -> None:
    """Check that topics exist.

    Args:
        topics: names or globs of topics that the user wants, or does not want if they begin with ``!``.
        known: the topics of the partitions.
        suggested: more topics to suggest.

    Raises:
        UsageError: no partition has one of the topics.
    """
    there = {topic for topic in known if topic is not None}
    for pattern in topics:
        topic = pattern.removeprefix(NOT)
        if not any(fnmatchcase(name, topic) for name in there):
            raise UsageError(f"no topic {topic!r}; {_hint(topic, sorted(there | set(suggested)))}")


def _hint(topic: str, known: list[str]) -> str:
    name, _, number = topic.rpartition("-")
    if name in known and number.isdecimal() and number.isascii():  # the folder of a partition, as in "orders-0"
        return f"did you mean --topic {name} --partition {int(number)}?"
    if question := similar(topic, known):
        return question
    if not known:
        return "no partition under the paths has a topic"
    named, more = ", ".join(known[:NAMED]), len(known) - NAMED
    return f"there are {named}, and {format_count(more, 'other')}" if more > 0 else f"there are {named}"
