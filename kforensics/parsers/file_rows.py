"""Any file of a log directory as rows of its table: what kind it is decides which."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from kforensics.parsers.clean_shutdown import CleanShutdown, read_clean_shutdown
from kforensics.parsers.codecs import DEFAULT_BUDGET
from kforensics.parsers.discover import FoundFile
from kforensics.parsers.log_rows import Place, batch_row, damage_row, record_row, records_of
from kforensics.parsers.meta_properties import Property, read_meta_properties
from kforensics.parsers.offset_index import read_offset_index
from kforensics.parsers.partition_metadata import PartitionMetadata, read_partition_metadata
from kforensics.parsers.producer_snapshot import ProducerSnapshotEntry, read_producer_snapshot
from kforensics.parsers.quorum_state import QuorumState, read_quorum_state
from kforensics.parsers.remote_log_snapshot import (
    RemoteLogSnapshotEntry,
    RemoteLogSnapshotHeader,
    read_remote_log_snapshot,
)
from kforensics.parsers.rows import Batch, Damage
from kforensics.parsers.selection import Selection, selected_batches
from kforensics.parsers.source import Source, file_name
from kforensics.parsers.tables import TABLES
from kforensics.parsers.text_checkpoint import (
    LeaderEpochEntry,
    OffsetCheckpointEntry,
    RemoteOffsetEntry,
    read_leader_epochs,
    read_offset_checkpoint,
    read_remote_offsets,
)
from kforensics.parsers.time_index import read_time_index
from kforensics.parsers.transaction_index import read_transaction_index

__all__ = ["LOG_KINDS", "Reading", "damage_rows", "file_rows", "place_of", "table_of"]

Row = tuple[Any, ...]
Report = Callable[[Damage], None]
LOG_KINDS = ("log", "checkpoint")
REMOTE_LOG_METADATA = "__remote_log_metadata"
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
    """

    records: bool = False
    selection: Selection = field(default_factory=Selection)
    budget: int = DEFAULT_BUDGET
    start: int = 0
    stop: int | None = None


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
    for row in _state_rows(found, source):
        if isinstance(row, Damage):
            report(row)
        else:
            yield from _table_rows(found, row)


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


def _state_rows(found: FoundFile, source: Source) -> Iterator[object]:
    base_offset = found.base_offset or 0
    readers: dict[str, Callable[[], Iterator[object]]] = {
        "index": lambda: read_offset_index(source, base_offset),
        "timeindex": lambda: read_time_index(source, base_offset),
        "txnindex": lambda: read_transaction_index(source),
        "snapshot": lambda: read_producer_snapshot(source),
        "offset-checkpoint": lambda: read_offset_checkpoint(source),
        "remote-offsets": lambda: read_remote_offsets(source),
        "leader-epoch-checkpoint": lambda: read_leader_epochs(source),
        "meta-properties": lambda: read_meta_properties(source),
        "partition-metadata": lambda: read_partition_metadata(source),
        "quorum-state": lambda: read_quorum_state(source),
        "clean-shutdown": lambda: read_clean_shutdown(source),
        "remote-log-snapshot": lambda: read_remote_log_snapshot(source),
    }
    return readers[found.kind]() if found.kind in readers else iter(())


def _table_rows(found: FoundFile, row: object) -> Iterator[Row]:
    place, path, name = place_of(found), found.path, file_name(found.path)
    match row:
        case OffsetCheckpointEntry():
            yield (*place[:2], row.topic, row.partition, path, name, row.offset)
        case RemoteOffsetEntry():
            yield (*place[:2], REMOTE_LOG_METADATA, row.partition, path, name, row.offset)
        case Property() if row.name not in ("#", "!"):
            yield (*place, path, row.name, row.value)
        case RemoteLogSnapshotEntry():
            yield (*place, path, f"entry at {row.position}", _remote_log_entry(row.value))
        case PartitionMetadata() | QuorumState() | CleanShutdown() | RemoteLogSnapshotHeader():
            yield from ((*place, path, key, value) for key, value in _properties(row))
        case ProducerSnapshotEntry() | LeaderEpochEntry():
            yield (*place, path, *_columns(found, row))
        case _ if type(row).__name__.endswith("IndexEntry"):
            yield (*place, path, *_columns(found, row))
        case _:
            return  # headers of files have no row of their own


def _columns(found: FoundFile, row: object) -> Iterator[Any]:
    table = TABLES[TABLE_OF_KIND[found.kind]]
    for column in table.names[len(Place._fields) + 1 :]:
        yield found.base_offset if column == "snapshot_offset" else getattr(row, column)


def _remote_log_entry(value: bytes) -> str:
    """Return an entry as text: the record it holds, or why that cannot be read."""
    from kforensics.parsers.messages.records import decode_record  # few files need the tables of all messages
    from kforensics.parsers.messages.render import to_json

    found = decode_record(REMOTE_LOG_METADATA, None, value)
    if found.value is None or found.value_message is None:
        return f"{found.type_name or 'unknown'}: {found.error}"
    return f"{found.type_name} {to_json(found.value_message, found.value, found.version or 0)}"


def _properties(row: Any) -> Iterator[tuple[str, str | None]]:
    for column in fields(row):
        value = getattr(row, column.name)
        if column.name not in ("position", "size", "fields"):
            yield column.name, None if value is None else str(value)


def damage_rows(found: FoundFile, damage: list[Damage]) -> Iterator[Row]:
    """Yield damage as rows of the table ``damage``."""
    return (damage_row(place_of(found), found.path, row) for row in damage)
