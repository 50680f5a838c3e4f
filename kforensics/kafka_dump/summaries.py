"""What the dump tool keeps to itself until the last file is done: mismatches, lost offsets and gaps.

Rule: ``DumpLogSegments.main`` and ``TimeIndexDumpErrors``. The tool keeps its files in hash tables, so several files
come in an order of their own, another one in Scala than in Java.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

from kforensics.kafka_dump.file_records import java_path
from kforensics.kafka_dump.java import scala_map_order, string_hash
from kforensics.kafka_dump.styles import PLAIN, Style
from kforensics.parsers.files.source import is_uri

__all__ = ["Summaries"]

Pair = tuple[int, int]
INITIAL_TABLE, LOAD_FACTOR = 16, 0.75


class _Pairs:
    """Pairs of numbers by file, in the order in which they were found.

    Args:
        puts_each_pair: Scala puts its list into the table of files for every pair, not for the first of a file only.
    """

    def __init__(self, *, puts_each_pair: bool) -> None:
        self._puts_each_pair = puts_each_pair
        self._pairs: dict[str, array[int]] = {}
        # The files of the pairs in order. A third one in a row finds the table as the second left it.
        self._calls: list[str] = []

    def add(self, path: str, first: int, second: int) -> None:
        if self._calls[-2:] != [path, path]:
            self._calls.append(path)
        self._pairs.setdefault(path, array("q")).extend((first, second))

    def paths(self, style: Style) -> Iterable[str]:
        if not style.name:
            return self._pairs
        if style.java_maps:
            return _compute_if_absent_order(self._calls)
        return scala_map_order(self._calls if self._puts_each_pair else self._pairs)

    def pairs(self, path: str) -> list[Pair]:
        numbers = self._pairs[path]
        return list(zip(numbers[::2], numbers[1::2], strict=True))


def _compute_if_absent_order(keys: Iterable[str]) -> list[str]:
    """Return strings in the order of a ``java.util.HashMap`` that was given them by ``computeIfAbsent``.

    Unlike ``put`` that method makes the table grow before it looks a key up, and sets new keys before those of their
    bucket.
    """
    length, found = INITIAL_TABLE, dict[str, int]()
    for key in keys:
        if len(found) > length * LOAD_FACTOR:
            length *= 2
        found.setdefault(key, len(found))
    return sorted(found, key=lambda key: (_spread(string_hash(key)) & (length - 1), -found[key]))


def _spread(value: int) -> int:
    return value ^ ((value & 0xFFFFFFFF) >> 16)


class Summaries:
    """Collects over all files of a run what is printed on standard error at its end.

    Args:
        directory: the working directory, for absolute paths.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._mismatches = _Pairs(puts_each_pair=True)
        self._timestamps = _Pairs(puts_each_pair=False)
        self._out_of_order = _Pairs(puts_each_pair=False)
        self._not_found = _Pairs(puts_each_pair=False)
        self._gaps = _Pairs(puts_each_pair=True)
        self._notes: list[str] = []

    def absolute(self, path: str) -> str:
        """Return a path as ``File.getAbsolutePath`` does, which leaves ``.`` and ``..`` alone; a URI as it is."""
        if is_uri(path):
            return path
        shown = java_path(path)
        return shown if shown.startswith("/") else f"{self.directory.rstrip('/')}/{shown}"

    def mismatch(self, path: str, index_offset: int, log_offset: int) -> None:
        """Note an ``.index`` entry that names another offset than the log has."""
        self._mismatches.add(self.absolute(path), index_offset, log_offset)

    def timestamp_mismatch(self, path: str, index_timestamp: int, log_timestamp: int) -> None:
        """Note a ``.timeindex`` entry with another timestamp than the log has."""
        self._timestamps.add(self.absolute(path), index_timestamp, log_timestamp)

    def out_of_order(self, path: str, timestamp: int, previous: int) -> None:
        """Note a ``.timeindex`` entry that is not later than the one before it."""
        self._out_of_order.add(self.absolute(path), timestamp, previous)

    def not_found(self, path: str, index_offset: int, log_offset: int) -> None:
        """Note a ``.timeindex`` entry whose offset the log does not have; ``log_offset`` is the next one, or -1."""
        self._not_found.add(self.absolute(path), index_offset, log_offset)

    def gap(self, path: str, first: int, second: int) -> None:
        """Note a pair of neighbouring record offsets of a log that are not consecutive."""
        self._gaps.add(self.absolute(path), first, second)

    def note(self, text: str) -> None:
        """Note a sentence of our own; no release has any."""
        self._notes.append(text)

    def lines(self, style: Style | None) -> list[str]:
        """Return what a release prints of all this; without a style, files and pairs in the order they were found."""
        return list(self._lines(style or PLAIN))

    def _lines(self, style: Style) -> Iterator[str]:
        for path in self._mismatches.paths(style):
            yield f"Mismatches in :{path}"
            pairs = _ordered(self._mismatches.pairs(path), style, falling=True)
            yield from (f"  Index offset: {first}, log offset: {second}" for first, second in pairs)
        for path in self._timestamps.paths(style):
            yield f"Found timestamp mismatch in :{path}"
            for first, second in self._timestamps.pairs(path):
                yield f"  Index timestamp: {first}, log timestamp: {second}"
        for path in self._out_of_order.paths(style):
            yield f"Found out of order timestamp in :{path}"
            for first, second in self._out_of_order.pairs(path):
                yield f"  Index timestamp: {first}, Previously indexed timestamp: {second}"
        for path in self._not_found.paths(style):
            where = f":{path}" if style.names_file_of_lost_offsets else "the log."
            yield f"The following indexed offsets are not found in {where}"
            for first, second in self._not_found.pairs(path):
                yield f"Indexed offset: {first}, found log offset: {second}"
        for path in self._gaps.paths(style):
            yield f"Non-consecutive offsets in {path}"
            pairs = _ordered(self._gaps.pairs(path), style, falling=False)
            yield from (f"  {first} is followed by {second}" for first, second in pairs)
        yield from self._notes


def _ordered(pairs: list[Pair], style: Style, *, falling: bool) -> list[Pair]:
    if style.newest_pair_first:
        return pairs[::-1]
    if not style.name:
        return pairs
    # A sorted map: of several pairs with the same first number it keeps the last.
    return sorted(dict(pairs).items(), reverse=falling)
