"""The lines of an ``.index``, compared with the ``.log`` beside it.

Rule: ``DumpLogSegments.dumpIndex`` and ``OffsetIndex.sanityCheck`` of each release.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kforensics.kafka_dump.compared_files import (
    IndexOptions,
    base_offset,
    log_beside,
    open_index,
    open_log,
    plain_sanity,
)
from kforensics.kafka_dump.file_records import FileRecords, java_path
from kforensics.kafka_dump.forward_log import ForwardLog, is_thinned
from kforensics.kafka_dump.java import JavaError
from kforensics.kafka_dump.styles import PLAIN, Style
from kforensics.kafka_dump.summaries import Summaries
from kforensics.parsers.files.log_names import base_offset_of
from kforensics.parsers.files.source import Source, open_source
from kforensics.parsers.format.integers import int64
from kforensics.parsers.format.rows import Batch, Damage
from kforensics.parsers.state.entries import raw_entries
from kforensics.parsers.state.offset_index import ENTRY, OffsetIndexEntry, OffsetLookup, ragged_index, read_offset_index

__all__ = ["imitated_index", "plain_index"]

UNKNOWN_OFFSET = -1


def imitated_index(path: str, options: IndexOptions, style: Style, summaries: Summaries) -> Iterator[str]:
    """Yield the text of a release's tool, line by line.

    Args:
        path: the ``.index``.
        options: what to do with it.
        style: the release.
        summaries: takes the mismatches.

    Raises:
        JavaError: where the tool ends with an exception.
    """
    shown, base = java_path(path), base_offset(path)
    with open_log(path, summaries) as log, open_index(path, shown) as index:
        records = FileRecords(log, budget=options.budget, style=style)
        if style.says_empty_index and index.size < ENTRY.size:
            yield f"{shown} is empty.\n"
        elif options.sanity_only:
            _check_sanity(index, base, style, summaries.absolute(path))
            yield f"{shown} passed sanity check.\n"
        else:
            for offset, position in _entries(index, base):
                found = _last_offset_at(records, position, options.max_message_size)
                if found != offset:
                    summaries.mismatch(path, offset, found)
                if not options.verify_only:
                    yield _line(offset, position)


def _line(offset: int, position: int) -> str:
    return f"offset: {offset} position: {position}\n"


def _entries(index: Source, base: int) -> Iterator[tuple[int, int]]:
    """Yield offsets and positions up to the first entry that looks like space set aside; a first one is believed."""
    for number, (relative_offset, position) in enumerate(raw_entries(index, ENTRY)):
        if number and relative_offset == 0:
            return
        yield int64(base + relative_offset), position


def _last_offset_at(records: FileRecords, position: int, size: int) -> int:
    batch = next(records.slice(position, size).batches(), None)
    if batch is None:
        raise JavaError("java.util.NoSuchElementException")
    return batch.last_offset


def _check_sanity(index: Source, base: int, style: Style, path: str) -> None:
    lookup = OffsetLookup(index, base)
    if lookup.entries and (last := lookup.entry(lookup.entries - 1)[0]) < base:
        named, end = (f"({path})", ".") if style.old_reader else (path, "")
        message = (
            f"Corrupt index found, index file {named} has non-zero size but the last offset is {last} which is less "
            f"than the base offset {base}{end}"
        )
        raise JavaError(style.corrupt_index, message)
    if index.size % ENTRY.size:
        raise JavaError(style.corrupt_index, ragged_index(path, index.size) + ("." if style.old_reader else ""))


def plain_index(path: str, options: IndexOptions, summaries: Summaries) -> Iterator[str | Damage]:
    """Yield the entries of an index as text, and what holds none; compare them with the log where it can be read.

    Args:
        path: the ``.index``, a path or URI.
        options: what to do with it.
        summaries: takes the mismatches.

    Raises:
        InputError: the index cannot be read.
    """
    with open_source(path) as index, log_beside(path, summaries) as log:
        base = base_offset_of(path) or 0
        if options.sanity_only:
            check = partial(_check_sanity, index, base, PLAIN, summaries.absolute(path))
            yield plain_sanity(check, java_path(path), index.size)
            return
        for row in read_offset_index(index, base):
            if isinstance(row, Damage):
                yield row
                continue
            if log is not None:
                _compare(path, row, log, summaries)
            if not options.verify_only:
                yield _line(row.offset, row.log_position)


def _compare(path: str, entry: OffsetIndexEntry, log: ForwardLog, summaries: Summaries) -> None:
    """Note an entry that no release would have written.

    Its offset is to be the first of the batch at its position (up to 1.1), or the last of it or of a later one; the
    cleaner up to 3.9.0 names the last record that it kept, so a thinned batch may be met in its middle.
    """
    batch = log.at(entry.log_position)
    # The first offset inside a wrapper of format 0 or 1 is not known without decompressing it.
    if batch is not None and (entry.offset == batch.base_offset or _may_wrap(batch, entry.offset)):
        return
    later = None if batch is None else log.reaching(entry.offset)
    if log.exhausted or (later is not None and _names(later, entry.offset)):
        return
    summaries.mismatch(path, entry.offset, UNKNOWN_OFFSET if batch is None else batch.last_offset)


def _may_wrap(batch: Batch, offset: int) -> bool:
    return batch.base_offset is None and offset <= batch.last_offset


def _names(batch: Batch, offset: int) -> bool:
    inside = batch.base_offset is None or batch.base_offset <= offset
    return batch.last_offset == offset or (inside and is_thinned(batch))
