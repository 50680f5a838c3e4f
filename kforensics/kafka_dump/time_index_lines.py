"""The lines of a ``.timeindex``, compared with the ``.log`` by way of the ``.index`` beside it.

Rule: ``DumpLogSegments.dumpTimeIndex`` and ``TimeIndex.sanityCheck`` of each release.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kforensics.kafka_dump.compared_files import (
    BatchSearch,
    IndexOptions,
    LogEnd,
    base_offset,
    log_beside,
    open_index,
    open_log,
    plain_sanity,
    sibling,
)
from kforensics.kafka_dump.file_records import FileRecords, java_path
from kforensics.kafka_dump.forward_log import ForwardLog, is_thinned
from kforensics.kafka_dump.java import JavaError
from kforensics.kafka_dump.styles import PLAIN, Style
from kforensics.kafka_dump.summaries import Summaries
from kforensics.parsers.files.log_names import base_offset_of
from kforensics.parsers.files.source import Source, open_source
from kforensics.parsers.format.integers import int64
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.entries import raw_entries
from kforensics.parsers.state.offset_index import OffsetLookup
from kforensics.parsers.state.time_index import ENTRY, TimeIndexEntry, ragged_time_index, read_time_index

__all__ = ["imitated_time_index", "plain_time_index"]

NO_TIMESTAMP = -1


def imitated_time_index(path: str, options: IndexOptions, style: Style, summaries: Summaries) -> Iterator[str]:
    """Yield the text of a release's tool, line by line.

    Args:
        path: the ``.timeindex``.
        options: what to do with it.
        style: the release.
        summaries: takes mismatches and lost offsets.

    Raises:
        JavaError: where the tool ends with an exception.
    """
    shown, base = java_path(path), base_offset(path)
    index_path = sibling(path, ".index")
    with (
        open_log(path, summaries) as log,
        open_index(index_path, summaries.absolute(index_path)) as index,
        open_index(path, shown) as time_index,
    ):
        records = FileRecords(log, budget=options.budget, style=style)
        if options.sanity_only:
            _check_sanity(time_index, base, style, summaries.absolute(path))
            yield f"{shown} passed sanity check.\n"
            return
        compare = _Comparison(path, records, OffsetLookup(index, base), style, summaries)
        for entry in _entries(time_index, base):
            compare.entry(entry)
            if not options.verify_only:
                yield _line(entry)


def _line(entry: TimeIndexEntry) -> str:
    return f"timestamp: {entry.timestamp} offset: {entry.offset}\n"


def _entries(index: Source, base: int) -> Iterator[TimeIndexEntry]:
    """Yield the entries up to the first that looks like space set aside; a first one is believed."""
    for number, (timestamp, relative_offset) in enumerate(raw_entries(index, ENTRY)):
        if number and relative_offset == 0:
            return
        yield TimeIndexEntry(number * ENTRY.size, timestamp, int64(base + relative_offset), relative_offset)


class _Comparison:
    """Looks up one entry after the other in the log, as the tool does."""

    def __init__(
        self, path: str, records: FileRecords, lookup: OffsetLookup, style: Style, summaries: Summaries
    ) -> None:
        self._path, self._records, self._lookup, self._summaries = path, records, lookup, summaries
        self._search = BatchSearch(records)
        self._end = LogEnd(records) if style.reads_log_to_end else None
        self._previous = NO_TIMESTAMP

    def entry(self, entry: TimeIndexEntry) -> None:
        """Note what is wrong with an entry.

        Raises:
            JavaError: the log cannot be read where the entry leads.
        """
        position = self._lookup.position(entry.offset)
        if self._end:
            self._end.check(position)
        batch = self._search.find(position, entry.offset)
        if batch is None or batch.last_offset != entry.offset:
            self._summaries.not_found(self._path, entry.offset, -1 if batch is None else batch.last_offset)
        else:
            timestamp = max(NO_TIMESTAMP, self._records.max_record_timestamp(batch))
            if timestamp != entry.timestamp:
                self._summaries.timestamp_mismatch(self._path, entry.timestamp, timestamp)
            if self._previous >= entry.timestamp:
                self._summaries.out_of_order(self._path, entry.timestamp, self._previous)
        self._previous = entry.timestamp


def _check_sanity(index: Source, base: int, style: Style, path: str) -> None:
    entries = index.size // ENTRY.size
    if entries:
        first_timestamp, _ = ENTRY.unpack_from(index.read(0, ENTRY.size))
        timestamp, relative_offset = ENTRY.unpack_from(index.read((entries - 1) * ENTRY.size, ENTRY.size))
        found = f"Corrupt time index found, time index file ({path}) has non-zero size but the last"
        if timestamp < first_timestamp:
            message = f"{found} timestamp is {timestamp} which is less than the first timestamp {first_timestamp}"
            raise JavaError(style.corrupt_index, message)
        if (offset := int64(base + relative_offset)) < base:
            message = f"{found} offset is {offset} which is less than the first offset {base}"
            raise JavaError(style.corrupt_index, message)
    if index.size % ENTRY.size:
        raise JavaError(style.corrupt_index, ragged_time_index(path, index.size) + ("." if style.old_reader else ""))


def plain_time_index(path: str, options: IndexOptions, summaries: Summaries) -> Iterator[str | Damage]:
    """Yield the entries of a time index as text, and what holds none; compare them with the log where it can be read.

    Args:
        path: the ``.timeindex``, a path or URI.
        options: what to do with it.
        summaries: takes mismatches and lost offsets.

    Raises:
        InputError: the index cannot be read.
    """
    with open_source(path) as index, log_beside(path, summaries) as log:
        base = base_offset_of(path) or 0
        if options.sanity_only:
            check = partial(_check_sanity, index, base, PLAIN, summaries.absolute(path))
            yield plain_sanity(check, java_path(path), index.size)
            return
        previous: TimeIndexEntry | None = None
        for row in read_time_index(index, base):
            if isinstance(row, Damage):
                yield row
                continue
            if previous is not None and previous.timestamp >= row.timestamp:
                summaries.out_of_order(path, row.timestamp, previous.timestamp)
            if log is not None:
                if previous is not None and previous.offset > row.offset:
                    log.restart()
                _compare(path, row, log, summaries)
            previous = row
            if not options.verify_only:
                yield _line(row)


def _compare(path: str, entry: TimeIndexEntry, log: ForwardLog, summaries: Summaries) -> None:
    """Note an entry that no release would have written, whatever compaction did to the log since."""
    batch = log.reaching(entry.offset)
    if log.exhausted:
        return
    if batch is None or (batch.base_offset is not None and batch.base_offset > entry.offset):
        summaries.not_found(path, entry.offset, -1 if batch is None else batch.last_offset)
        return
    # 0.10.2 indexed the timestamps of messages that it then stored without.
    if batch.magic == 0 or batch.max_timestamp == entry.timestamp:
        return
    if batch.max_timestamp > entry.timestamp or not is_thinned(batch):
        summaries.timestamp_mismatch(path, entry.timestamp, batch.max_timestamp)
