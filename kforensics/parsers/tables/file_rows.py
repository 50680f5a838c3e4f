"""Any file of a log directory as rows of its table: what kind it is decides which."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import Source
from kforensics.parsers.format.codecs import DEFAULT_BUDGET
from kforensics.parsers.format.rows import Batch, Damage
from kforensics.parsers.log.log_rows import Place, batch_row, damage_row, record_row, records_of
from kforensics.parsers.log.selection import Selection, selected_batches

__all__ = ["LOG_KINDS", "Reading", "damage_rows", "file_rows", "place_of", "table_of"]

Row = tuple[Any, ...]
Report = Callable[[Damage], None]
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
class Reading:
    """How to read a file.

    Attributes:
        records: give the records of a log rather than its batches.
        selection: which batches and records.
        budget: most bytes to decompress per batch.
        start: position in a log to begin at.
        stop: position in a log to end at, None for its end.
        columns: names of the columns that are wanted, none for all; rows have all of them in any case.
    """

    records: bool = False
    selection: Selection = field(default_factory=Selection)
    budget: int = DEFAULT_BUDGET
    start: int = 0
    stop: int | None = None
    columns: frozenset[str] = frozenset()

    def wants(self, column: str) -> bool:
        """Whether a column is wanted."""
        return not self.columns or column in self.columns


def table_of(kind: str, *, records: bool = False) -> str | None:
    """Return the name of the table that a kind of file fills, None if it has no rows."""
    if kind in LOG_KINDS:
        return "records" if records else "batches"
    return TABLE_OF_KIND.get(kind)


def place_of(found: FoundFile) -> Place:
    """Return the columns that every row of a file begins with."""
    return Place(found.broker_id, found.log_dir, found.topic, found.partition)


def file_rows(found: FoundFile, source: Source, reading: Reading, report: Report) -> Iterator[Row]:
    """Yield the rows of a file's table.

    Args:
        found: the file.
        source: its bytes.
        reading: what to read.
        report: told of all damage, in the order of the bytes.
    """
    if found.kind in LOG_KINDS:
        yield from _log_rows(found, source, reading, report)
        return
    if table := TABLE_OF_KIND.get(found.kind):
        from kforensics.parsers.tables.state_rows import (
            state_rows,  # a dump of logs alone must not load twelve more formats
        )

        for row in state_rows(found, place_of(found), source, table):
            if isinstance(row, Damage):
                report(row)
            else:
                yield row


def _log_rows(found: FoundFile, source: Source, reading: Reading, report: Report) -> Iterator[Row]:
    place = place_of(found)
    for row in selected_batches(source, reading.selection, reading.start, reading.stop):
        if isinstance(row, Damage):
            report(row)
        elif reading.records:
            yield from _record_rows(place, source, row, reading, report)
        else:
            yield batch_row(place, source, row, reading.budget)


def _record_rows(place: Place, source: Source, batch: Batch, reading: Reading, report: Report) -> Iterator[Row]:
    for row in records_of(source, batch, reading.budget):
        if isinstance(row, Damage):
            report(row)
        elif reading.selection.keeps_record(row):
            yield record_row(place, source.path, batch, row)


def damage_rows(found: FoundFile, damage: list[Damage]) -> Iterator[Row]:
    """Yield damage as rows of the table ``damage``."""
    return (damage_row(place_of(found), found.path, row) for row in damage)
