"""The summaries that the dump tool prints after the last file: index mismatches, missing offsets and offset gaps.

Rule: ``DumpLogSegments.main`` and ``TimeIndexDumpErrors``. The tool keeps the files in hash tables, so the order of
several files is the iteration order of Scala's or Java's tables.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

from kforensics.kafka_dump.java import hash_map_order, java_path, scala_map_order
from kforensics.kafka_dump.styles import PLAIN_STYLE, DumpStyle
from kforensics.parsers.files.input_paths import is_uri

Pair = tuple[int, int]


class _Pairs:
    """Pairs of numbers by file, in the order in which they were added.

    Args:
        puts_each_pair: whether Scala puts the list of a file into the table for every pair, or only for the first one.
    """

    def __init__(self, *, puts_each_pair: bool) -> None:
        self._puts_each_pair = puts_each_pair
        self._pairs: dict[str, array[int]] = {}
        # The files of the pairs, each at most twice in a row: a third call with the same key does not change a table.
        self._calls: list[str] = []

    def add(self, path: str, first: int, second: int) -> None:
        if self._calls[-2:] != [path, path]:
            self._calls.append(path)
        self._pairs.setdefault(path, array("q")).extend((first, second))

    def paths(self, style: DumpStyle) -> Iterable[str]:
        if not style.name:
            return self._pairs
        if style.java_maps:
            return hash_map_order(self._calls)
        return scala_map_order(self._calls if self._puts_each_pair else self._pairs)

    def pairs(self, path: str) -> list[Pair]:
        numbers = self._pairs[path]
        return list(zip(numbers[::2], numbers[1::2], strict=True))


class Summaries:
    """Collects what is printed on standard error after the last file of a run.

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
        """Return a path as ``File.getAbsolutePath`` does, which keeps ``.`` and ``..``; a URI is returned unchanged."""
        if is_uri(path):
            return path
        shown = java_path(path)
        return shown if shown.startswith("/") else f"{self.directory.rstrip('/')}/{shown}"

    def mismatch(self, path: str, index_offset: int, log_offset: int) -> None:
        """Add an ``.index`` entry whose offset differs from the one in the log."""
        self._mismatches.add(self.absolute(path), index_offset, log_offset)

    def timestamp_mismatch(self, path: str, index_timestamp: int, log_timestamp: int) -> None:
        """Add a ``.timeindex`` entry whose timestamp differs from the one in the log."""
        self._timestamps.add(self.absolute(path), index_timestamp, log_timestamp)

    def out_of_order(self, path: str, timestamp: int, previous: int) -> None:
        """Add a ``.timeindex`` entry that is not later than the previous one."""
        self._out_of_order.add(self.absolute(path), timestamp, previous)

    def not_found(self, path: str, index_offset: int, log_offset: int) -> None:
        """Add a ``.timeindex`` entry whose offset is not in the log; ``log_offset`` is the next one there, or -1."""
        self._not_found.add(self.absolute(path), index_offset, log_offset)

    def gap(self, path: str, first: int, second: int) -> None:
        """Add two neighboring record offsets that are not consecutive."""
        self._gaps.add(self.absolute(path), first, second)

    def note(self, text: str) -> None:
        """Add a sentence that no Kafka release prints."""
        self._notes.append(text)

    def lines(self, style: DumpStyle | None) -> list[str]:
        """Return the lines a release prints; without a style, files and pairs are in the order they were added."""
        return list(self._lines(style or PLAIN_STYLE))

    def _lines(self, style: DumpStyle) -> Iterator[str]:
        for path in self._mismatches.paths(style):
            yield f"Mismatches in :{path}"
            pairs = _ordered(self._mismatches.pairs(path), style, descending=True)
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
            pairs = _ordered(self._gaps.pairs(path), style, descending=False)
            yield from (f"  {first} is followed by {second}" for first, second in pairs)
        yield from self._notes


def _ordered(pairs: list[Pair], style: DumpStyle, *, descending: bool) -> list[Pair]:
    if style.newest_pair_first:
        return pairs[::-1]
    if not style.name:
        return pairs
    # Java collects the pairs in a sorted map, which keeps the last of several pairs with the same first number.
    return sorted(dict(pairs).items(), reverse=descending)
