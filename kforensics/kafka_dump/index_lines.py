"""The lines of the three indexes: ``.index`` and ``.timeindex``, compared with their log, and ``.txnindex``.

Rule: ``DumpLogSegments.dumpIndex``, ``dumpTimeIndex`` and ``dumpTxnIndex``, ``OffsetIndex.sanityCheck``,
``TimeIndex.sanityCheck`` and ``TransactionIndex`` of each release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from kforensics.errors import InputError, InputForbiddenError, InputMissingError
from kforensics.kafka_dump.compared_files import (
    BatchSearch,
    ForwardLog,
    LogEnd,
    base_offset,
    is_partially_compacted,
    open_forward_log,
    open_index,
    open_log,
    sibling_path,
)
from kforensics.kafka_dump.java import JavaError, java_path
from kforensics.kafka_dump.styles import PLAIN_STYLE, DumpStyle
from kforensics.kafka_dump.summaries import Summaries
from kforensics.kafka_dump.tool_options import IndexOptions
from kforensics.parsers.files.log_names import base_offset_of
from kforensics.parsers.files.source import LocalSource, Source, open_source
from kforensics.parsers.format.failures import KAFKA
from kforensics.parsers.format.integers import int64
from kforensics.parsers.format.rows import Batch, Damage
from kforensics.parsers.state.entries import raw_entries
from kforensics.parsers.state.indexes import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    TRANSACTION_ENTRY,
    OffsetIndexEntry,
    OffsetLookup,
    TimeIndexEntry,
    TransactionIndexEntry,
    ragged_index,
    ragged_time_index,
    read_offset_index,
    read_time_index,
    read_transaction_index,
)

if TYPE_CHECKING:
    from kforensics.kafka_dump.file_records import SegmentRange

UNKNOWN_OFFSET = UNKNOWN_TIMESTAMP = -1
CURRENT_TRANSACTION_VERSION = 0
# Up to 4.3 the tool takes the first of the two version bytes, with its sign, for the version of an entry.
FIRST_BYTE_SHIFT = 8


def imitated_index(path: str, options: IndexOptions, style: DumpStyle, summaries: Summaries) -> Iterator[str]:
    """Yield the lines that a release's tool prints for an offset index.

    Args:
        path: the ``.index``.
        options: the options for indexes.
        style: the release.
        summaries: collects mismatches.

    Raises:
        JavaError: the tool ends with an exception.
    """
    from kforensics.kafka_dump.file_records import SegmentRange  # the plain style reads the log otherwise

    shown, base = java_path(path), base_offset(path)
    with open_log(path, summaries) as log, open_index(path, shown) as index:
        records = SegmentRange(log, budget=options.budget, style=style)
        if style.says_empty_index and index.size < OFFSET_ENTRY.size:
            yield f"{shown} is empty.\n"
        elif options.sanity_only:
            _check_offset_index(index, base, style, summaries.absolute(path))
            yield f"{shown} passed sanity check.\n"
        else:
            for offset, position in _offset_entries(index, base):
                log_offset = _last_offset_at(records, position, options.max_message_size)
                if log_offset != offset:
                    summaries.mismatch(path, offset, log_offset)
                if not options.verify_only:
                    yield _offset_line(offset, position)


def imitated_time_index(path: str, options: IndexOptions, style: DumpStyle, summaries: Summaries) -> Iterator[str]:
    """Yield the lines that a release's tool prints for a time index.

    Args:
        path: the ``.timeindex``.
        options: the options for indexes.
        style: the release.
        summaries: collects mismatches and missing offsets.

    Raises:
        JavaError: the tool ends with an exception.
    """
    from kforensics.kafka_dump.file_records import SegmentRange  # the plain style reads the log otherwise

    shown, base = java_path(path), base_offset(path)
    index_path = sibling_path(path, ".index")
    with (
        open_log(path, summaries) as log,
        open_index(index_path, summaries.absolute(index_path)) as index,
        open_index(path, shown) as time_index,
    ):
        records = SegmentRange(log, budget=options.budget, style=style)
        if options.sanity_only:
            _check_time_index(time_index, base, style, summaries.absolute(path))
            yield f"{shown} passed sanity check.\n"
            return
        comparison = _TimeIndexComparison(path, records, OffsetLookup(index, base), style, summaries)
        for entry in _time_entries(time_index, base):
            comparison.check(entry)
            if not options.verify_only:
                yield _time_line(entry)


def imitated_transaction_index(path: str, summaries: Summaries) -> Iterator[str]:
    """Yield the lines that the tool prints for a transaction index, which are the same in all releases.

    Raises:
        JavaError: the tool ends with an exception.
    """
    base_offset(path)  # the tool parses the number but does not use it
    try:
        source = LocalSource(path)
    except InputMissingError:
        return
    except InputForbiddenError as error:
        raise JavaError("java.nio.file.AccessDeniedException", java_path(path)) from error
    except InputError as error:
        # The tool opens the file for writing, which fails for a directory.
        raise JavaError("java.nio.file.FileSystemException", f"{java_path(path)}: Is a directory") from error
    with source:
        _check_transaction_versions(source, summaries.absolute(path))
        for fields in raw_entries(source, TRANSACTION_ENTRY):
            entry = TransactionIndexEntry(0, *fields)
            yield _transaction_line(entry, entry.version >> FIRST_BYTE_SHIFT)


def plain_index(path: str, options: IndexOptions, summaries: Summaries) -> Iterator[str | Damage]:
    """Yield the lines of an offset index and its damage, and compare it with the log if the log can be read.

    Args:
        path: the ``.index``, a path or URI.
        options: the options for indexes.
        summaries: collects mismatches.

    Raises:
        InputError: the index cannot be read.
    """
    with open_source(path) as index, open_forward_log(path, summaries) as log:
        base = base_offset_of(path) or 0
        if options.sanity_only:
            check = partial(_check_offset_index, index, base, PLAIN_STYLE, summaries.absolute(path))
            yield _plain_sanity(check, java_path(path), index.size)
            return
        for row in read_offset_index(index, base):
            if isinstance(row, Damage):
                yield row
                continue
            if log is not None:
                _compare_offset_entry(path, row, log, summaries)
            if not options.verify_only:
                yield _offset_line(row.offset, row.log_position)


def plain_time_index(path: str, options: IndexOptions, summaries: Summaries) -> Iterator[str | Damage]:
    """Yield the lines of a time index and its damage, and compare it with the log if the log can be read.

    Args:
        path: the ``.timeindex``, a path or URI.
        options: the options for indexes.
        summaries: collects mismatches and missing offsets.

    Raises:
        InputError: the index cannot be read.
    """
    with open_source(path) as index, open_forward_log(path, summaries) as log:
        base = base_offset_of(path) or 0
        if options.sanity_only:
            check = partial(_check_time_index, index, base, PLAIN_STYLE, summaries.absolute(path))
            yield _plain_sanity(check, java_path(path), index.size)
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
                _compare_time_entry(path, row, log, summaries)
            previous = row
            if not options.verify_only:
                yield _time_line(row)


def plain_transaction_index(path: str) -> Iterator[str | Damage]:
    """Yield the lines of a transaction index and its damage.

    Raises:
        InputError: the index cannot be read.
    """
    with open_source(path) as source:
        for row in read_transaction_index(source):
            yield row if isinstance(row, Damage) else _transaction_line(row, row.version)


def _offset_line(offset: int, position: int) -> str:
    return f"offset: {offset} position: {position}\n"


def _time_line(entry: TimeIndexEntry) -> str:
    return f"timestamp: {entry.timestamp} offset: {entry.offset}\n"


def _transaction_line(entry: TransactionIndexEntry, version: int) -> str:
    return (
        f"version: {version} producerId: {entry.producer_id} firstOffset: {entry.first_offset}"
        f" lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}\n"
    )


def _offset_entries(index: Source, base: int) -> Iterator[tuple[int, int]]:
    """Yield offsets and positions up to the first entry that looks preallocated; the first entry is always taken."""
    for number, (relative_offset, position) in enumerate(raw_entries(index, OFFSET_ENTRY)):
        if number and relative_offset == 0:
            return
        yield int64(base + relative_offset), position


def _time_entries(index: Source, base: int) -> Iterator[TimeIndexEntry]:
    """Yield the entries up to the first that looks preallocated; the first entry is always taken."""
    for number, (timestamp, relative_offset) in enumerate(raw_entries(index, TIME_ENTRY)):
        if number and relative_offset == 0:
            return
        yield TimeIndexEntry(number * TIME_ENTRY.size, timestamp, int64(base + relative_offset), relative_offset)


def _last_offset_at(records: SegmentRange, position: int, size: int) -> int:
    batch = next(records.slice(position, size).batches(), None)
    if batch is None:
        raise JavaError("java.util.NoSuchElementException")
    return batch.last_offset


class _TimeIndexComparison:
    """Looks up the entries of a time index in the log, as the tool does."""

    def __init__(
        self, path: str, records: SegmentRange, lookup: OffsetLookup, style: DumpStyle, summaries: Summaries
    ) -> None:
        self._path, self._records, self._lookup, self._summaries = path, records, lookup, summaries
        self._search = BatchSearch(records)
        self._end = LogEnd(records) if style.reads_log_to_end else None
        self._previous = UNKNOWN_TIMESTAMP

    def check(self, entry: TimeIndexEntry) -> None:
        """Add what is wrong with an entry to the summaries.

        Raises:
            JavaError: the log cannot be read at the position of the entry.
        """
        position = self._lookup.position(entry.offset)
        if self._end:
            self._end.check(position)
        batch = self._search.find(position, entry.offset)
        if batch is None or batch.last_offset != entry.offset:
            self._summaries.not_found(self._path, entry.offset, UNKNOWN_OFFSET if batch is None else batch.last_offset)
        else:
            timestamp = max(UNKNOWN_TIMESTAMP, self._records.max_record_timestamp(batch))
            if timestamp != entry.timestamp:
                self._summaries.timestamp_mismatch(self._path, entry.timestamp, timestamp)
            if self._previous >= entry.timestamp:
                self._summaries.out_of_order(self._path, entry.timestamp, self._previous)
        self._previous = entry.timestamp


def _check_offset_index(index: Source, base: int, style: DumpStyle, path: str) -> None:
    lookup = OffsetLookup(index, base)
    if lookup.entries and (last := lookup.entry(lookup.entries - 1)[0]) < base:
        shown, end = (f"({path})", ".") if style.old_reader else (path, "")
        message = (
            f"Corrupt index found, index file {shown} has non-zero size but the last offset is {last} which is less "
            f"than the base offset {base}{end}"
        )
        raise JavaError(style.corrupt_index, message)
    if index.size % OFFSET_ENTRY.size:
        raise JavaError(style.corrupt_index, ragged_index(path, index.size) + ("." if style.old_reader else ""))


def _check_time_index(index: Source, base: int, style: DumpStyle, path: str) -> None:
    entries = index.size // TIME_ENTRY.size
    if entries:
        first_timestamp, _ = TIME_ENTRY.unpack_from(index.read(0, TIME_ENTRY.size))
        timestamp, relative_offset = TIME_ENTRY.unpack_from(
            index.read((entries - 1) * TIME_ENTRY.size, TIME_ENTRY.size)
        )
        start = f"Corrupt time index found, time index file ({path}) has non-zero size but the last"
        if timestamp < first_timestamp:
            message = f"{start} timestamp is {timestamp} which is less than the first timestamp {first_timestamp}"
            raise JavaError(style.corrupt_index, message)
        if (offset := int64(base + relative_offset)) < base:
            message = f"{start} offset is {offset} which is less than the first offset {base}"
            raise JavaError(style.corrupt_index, message)
    if index.size % TIME_ENTRY.size:
        raise JavaError(style.corrupt_index, ragged_time_index(path, index.size) + ("." if style.old_reader else ""))


def _check_transaction_versions(source: Source, path: str) -> None:
    """Fail for an entry of a later version. The tool reads all entries before it prints the first."""
    for version, *_ in raw_entries(source, TRANSACTION_ENTRY):
        if version >> FIRST_BYTE_SHIFT > CURRENT_TRANSACTION_VERSION:
            message = (
                f"Unexpected aborted transaction version {version >> FIRST_BYTE_SHIFT} in transaction index {path}, "
                f"current version is {CURRENT_TRANSACTION_VERSION}"
            )
            raise JavaError(KAFKA, message)


def _plain_sanity(check: Callable[[], None], shown: str, size: int) -> str | Damage:
    """Return the result of a sanity check as a line or as damage.

    Args:
        check: the check.
        shown: the path of the index.
        size: the size of the index.
    """
    try:
        check()
    except JavaError as error:
        return Damage(0, size, "malformed", error.message or error.class_name)
    return f"{shown} passed sanity check.\n"


def _compare_offset_entry(path: str, entry: OffsetIndexEntry, log: ForwardLog, summaries: Summaries) -> None:
    """Add an entry to the summaries if no release would have written it.

    The offset must be the first of the batch at the position (up to 1.1), or the last of that batch or of a later one.
    The cleaner up to 3.9.0 writes the last record that it kept, which may be inside a partially compacted batch.
    """
    batch = log.at(entry.log_position)
    # The first offset of a wrapper message is not known without decompressing it.
    if batch is not None and (entry.offset == batch.base_offset or _may_wrap(batch, entry.offset)):
        return
    later = None if batch is None else log.reaching(entry.offset)
    if log.exhausted or (later is not None and _may_name(later, entry.offset)):
        return
    summaries.mismatch(path, entry.offset, UNKNOWN_OFFSET if batch is None else batch.last_offset)


def _may_wrap(batch: Batch, offset: int) -> bool:
    return batch.base_offset is None and offset <= batch.last_offset


def _may_name(batch: Batch, offset: int) -> bool:
    inside = batch.base_offset is None or batch.base_offset <= offset
    return batch.last_offset == offset or (inside and is_partially_compacted(batch))


def _compare_time_entry(path: str, entry: TimeIndexEntry, log: ForwardLog, summaries: Summaries) -> None:
    """Add an entry to the summaries if no release would have written it, whatever compaction has removed since."""
    batch = log.reaching(entry.offset)
    if log.exhausted:
        return
    if batch is None or (batch.base_offset is not None and batch.base_offset > entry.offset):
        summaries.not_found(path, entry.offset, UNKNOWN_OFFSET if batch is None else batch.last_offset)
        return
    # 0.10.2 indexed the timestamps of messages that it then stored without timestamps.
    if batch.magic == 0 or batch.max_timestamp == entry.timestamp:
        return
    if batch.max_timestamp > entry.timestamp or not is_partially_compacted(batch):
        summaries.timestamp_mismatch(path, entry.timestamp, batch.max_timestamp)
