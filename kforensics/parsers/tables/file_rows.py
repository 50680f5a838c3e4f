"""Any file of a log directory as rows of its table; the kind of the file selects the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeVar

from kforensics.parsers.files.discover import UNKNOWN, FoundFile
from kforensics.parsers.files.source import Source
from kforensics.parsers.format.decompression import DEFAULT_BUDGET
from kforensics.parsers.format.rows import Batch, Damage
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import Place, batch_row, damage_row, read_records, record_row
from kforensics.parsers.log.selection import Selection, selected_batches

__all__ = [
    "LOG_KINDS",
    "ReadOptions",
    "RowLimit",
    "damage_rows",
    "detect_log",
    "file_rows",
    "place_of",
    "record_rows",
    "table_name_of",
]

Row = tuple[Any, ...]
T = TypeVar("T")
LOG_KINDS = ("log", "checkpoint")
TABLE_OF_KIND = {
    "index": "index_entries",
    "timeindex": "time_index_entries",
    "txnindex": "transaction_index_entries",
    "snapshot": "producer_snapshots",
    "offset-checkpoint": "checkpoints",
    "remote-offsets": "checkpoints",
    "leader-epoch-checkpoint": "leader_epochs",
    "meta-properties": "properties",
    "partition-metadata": "properties",
    "quorum-state": "properties",
    "clean-shutdown": "properties",
    "remote-log-snapshot": "properties",
}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read a file.

    Attributes:
        records: whether to yield the records of a log instead of its batches.
        selection: filter for batches and records.
        budget: maximum number of bytes to decompress per batch.
        start: position in a log to begin at.
        stop: position in a log to end at, None for its end.
        columns: names of the required columns, empty for all. Rows have all columns in any case.
    """

    records: bool = False
    selection: Selection = field(default_factory=Selection)
    budget: int = DEFAULT_BUDGET
    start: int = 0
    stop: int | None = None
    columns: frozenset[str] = frozenset()

    def wants(self, column: str) -> bool:
        """Return whether a column is required."""
        return not self.columns or column in self.columns


@dataclass(slots=True)
class RowLimit:
    """How many rows of a table are to be written.

    Attributes:
        left: the most rows from now on; None for no limit.
    """

    left: int | None = None

    @property
    def is_reached(self) -> bool:
        """Whether there are to be no more rows."""
        return self.left is not None and self.left <= 0

    def take(self, count: int) -> None:
        """Count rows."""
        if self.left is not None:
            self.left -= count

    def applied_to(self, rows: Iterable[T]) -> Iterator[T]:
        """Yield rows up to the limit, and read no further."""
        for row in rows if not self.is_reached else ():
            self.take(1)
            yield row
            if self.is_reached:
                return


def detect_log(file: FoundFile, source: Source) -> FoundFile:
    """Return a file of unknown kind as a log if a batch with a valid checksum is anywhere in it.

    Args:
        file: the file.
        source: its bytes.
    """
    if file.kind != UNKNOWN:
        return file
    has_batch = any(isinstance(row, Batch) and row.crc_valid for row in walk(source))
    return replace(file, kind="log") if has_batch else file


def table_name_of(kind: str, *, records: bool = False) -> str | None:
    """Return the name of the table for a kind of file, None if the kind has no rows."""
    if kind in LOG_KINDS:
        return "records" if records else "batches"
    return TABLE_OF_KIND.get(kind)


def place_of(file: FoundFile) -> Place:
    """Return the columns with which every row of a file begins."""
    return Place(file.broker_id, file.log_dir, file.topic, file.partition)


def file_rows(file: FoundFile, source: Source, options: ReadOptions, report: Callable[[Damage], None]) -> Iterator[Row]:
    """Yield the rows of a file's table.

    Args:
        file: the file.
        source: its bytes.
        options: what to read.
        report: called with all damage, in byte order.
    """
    if file.kind in LOG_KINDS:
        yield from _log_rows(file, source, options, report)
        return
    if table := TABLE_OF_KIND.get(file.kind):
        from kforensics.parsers.tables.state_rows import (
            state_rows,  # a dump that reads only logs does not load twelve more formats
        )

        for row in state_rows(file, place_of(file), source, table):
            if isinstance(row, Damage):
                report(row)
            else:
                yield row


def _log_rows(file: FoundFile, source: Source, options: ReadOptions, report: Callable[[Damage], None]) -> Iterator[Row]:
    place = place_of(file)
    for row in selected_batches(source, options.selection, options.start, options.stop):
        if isinstance(row, Damage):
            report(row)
        elif options.records:
            yield from record_rows(place, source, row, options, report)
        else:
            yield batch_row(place, source, row, options.budget)


def record_rows(  # noqa: PLR0913, PLR0917  # a batch, and how to read it
    place: Place,
    source: Source,
    batch: Batch,
    options: ReadOptions,
    report: Callable[[Damage], None],
    first: int = 0,
) -> Iterator[Row]:
    """Yield the selected records of a batch as rows, from the one of a number on, and report the damage after it."""
    for row in islice(read_records(source, batch, options.budget), first, None):
        if isinstance(row, Damage):
            report(row)
        elif options.selection.keeps_record(row):
            yield record_row(place, source.path, batch, row)


def damage_rows(file: FoundFile, damage: list[Damage]) -> Iterator[Row]:
    """Yield damage as rows of the table ``damage``."""
    return (damage_row(place_of(file), file.path, row) for row in damage)
