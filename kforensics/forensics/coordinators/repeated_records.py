"""Reads the records of a coordinator's log without those that a segment repeats.

A follower that fails while it appends may leave a segment that begins with what the one before it has:
:mod:`kforensics.forensics.partition.superseded_segments`. Both are in the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kforensics.parsers.columns.record_columns import RecordColumns, record_chunks
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import open_source
from kforensics.parsers.kernels.policy import KernelPolicy

__all__ = ["records_read_once"]


def records_read_once(
    segments: Sequence[FoundFile], log_end_offset: int, kernels: KernelPolicy, chunk_rows: int
) -> Iterator[tuple[int, RecordColumns]]:
    """Yield the records of a log in chunks, each with the number of its segment, without those that are repeated.

    A broker that loads the log of a coordinator goes on after the last offset that it has read, and so skips what a
    later segment repeats. Rule: ``TransactionStateManager.loadTransactionMetadata``,
    ``GroupMetadataManager.doLoadGroupsAndOffsets``, ``CoordinatorLoaderImpl.doLoad``.

    Args:
        segments: the segments, sorted by base offset.
        log_end_offset: offset after the last batch of the log.
        kernels: chooses the compiled kernels if they pay off for so many bytes.
        chunk_rows: approximate number of records per chunk.

    Raises:
        InputError: a segment cannot be read.
    """
    reached = -1
    for number, segment in enumerate(segments):
        last = -1
        with open_source(segment.path) as source:
            for records in record_chunks(source, kernels(source.size), chunk_rows):
                offsets = records.rows["offset"]
                # No checksum covers the base offset of a batch. A wrong one that is too large must not hide the later
                # segments, so what counts is the last record of a segment that is not beyond the log end.
                in_log = offsets[offsets < log_end_offset]
                last = int(in_log[-1]) if len(in_log) else last
                is_new = offsets > reached
                if is_new.all():
                    yield number, records
                elif is_new.any():
                    parts = records.rows[is_new], records.keys.take(is_new), records.values.take(is_new)
                    yield number, RecordColumns(*parts)
        reached = max(reached, last)
