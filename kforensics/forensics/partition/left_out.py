"""Recognizes partitions whose records were left out when they were copied, so that no check takes them for empty."""

from __future__ import annotations

from itertools import islice

from kforensics.errors import InputError
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.files.discover import open_found
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import batch_bytes, walk
from kforensics.parsers.log.records import LEFT_OUT, are_left_out

__all__ = ["require_records", "with_records_left_out"]

# Rows of a segment that are read until a data batch is found; markers and damage come before it.
MOST_ROWS = 1_000


def with_records_left_out(partition: Partition) -> str | None:
    """Return the first log of a partition whose records were left out, None if its first data batch has records.

    Raises:
        InputError: a log cannot be read.
    """
    for segment in partition.segments:
        with open_found(segment) as source:
            for row in islice(walk(source), MOST_ROWS):
                if isinstance(row, Batch) and row.count and not row.is_control:
                    return segment.path if are_left_out(row, batch_bytes(source, row)) else None
    return None


def require_records(partition: Partition) -> None:
    """Refuse a partition whose records were left out.

    Raises:
        InputError: its records were left out, or a log cannot be read.
    """
    if path := with_records_left_out(partition):
        raise InputError(path, LEFT_OUT.detail)
