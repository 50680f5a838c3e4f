"""Refuses what needs records if they were left out of the copy."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from kforensics.errors import InputError, UsageError
from kforensics.forensics.partition.left_out import with_records_left_out
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.log.records import LEFT_OUT


def refuse_without_records(partitions: Iterable[Partition], need: str) -> None:
    """Refuse partitions whose records were left out, before anything is said of them.

    Args:
        partitions: those whose records are to be read.
        need: what needs them.

    Raises:
        UsageError: the records of a partition were left out.
    """
    for partition in partitions:
        path = None
        with suppress(InputError):  # reported when the log is read
            path = with_records_left_out(partition)
        if path is not None:
            raise UsageError(f"{path}: {LEFT_OUT.detail}; {need} needs them")
