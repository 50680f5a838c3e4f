"""The small files of a log directory as rows of their tables: indexes, snapshots, checkpoints, properties."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.meta_properties import Property, read_meta_properties
from kforensics.parsers.files.partition_metadata import PartitionMetadata, read_partition_metadata
from kforensics.parsers.files.source import Source, file_name
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.log.log_rows import Place
from kforensics.parsers.state.clean_shutdown import CleanShutdown, read_clean_shutdown
from kforensics.parsers.state.offset_index import read_offset_index
from kforensics.parsers.state.producer_snapshot import ProducerSnapshotEntry, read_producer_snapshot
from kforensics.parsers.state.quorum_state import QuorumState, read_quorum_state
from kforensics.parsers.state.remote_log_snapshot import (
    RemoteLogSnapshotEntry,
    RemoteLogSnapshotHeader,
    read_remote_log_snapshot,
)
from kforensics.parsers.state.text_checkpoint import (
    LeaderEpochEntry,
    OffsetCheckpointEntry,
    RemoteOffsetEntry,
    read_leader_epochs,
    read_offset_checkpoint,
    read_remote_offsets,
)
from kforensics.parsers.state.time_index import read_time_index
from kforensics.parsers.state.transaction_index import read_transaction_index
from kforensics.parsers.tables.schemas import TABLES

__all__ = ["state_rows"]

Row = tuple[Any, ...]
REMOTE_LOG_METADATA = "__remote_log_metadata"


def state_rows(found: FoundFile, place: Place, source: Source, table: str) -> Iterator[Row | Damage]:
    """Yield the rows of a file that is no log, and its damage where it stands.

    Args:
        found: the file; without a reader for its kind there are no rows.
        place: the columns that every row begins with.
        source: its bytes.
        table: name of the table its kind fills.
    """
    for row in _read(found, source):
        if isinstance(row, Damage):
            yield row
        else:
            yield from _table_rows(found, place, table, row)


def _read(found: FoundFile, source: Source) -> Iterator[object]:
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


def _table_rows(found: FoundFile, place: Place, table: str, row: object) -> Iterator[Row]:
    path, name = found.path, file_name(found.path)
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
            yield (*place, path, *_columns(found, table, row))
        case _ if type(row).__name__.endswith("IndexEntry"):
            yield (*place, path, *_columns(found, table, row))
        case _:
            return  # headers of files have no row of their own


def _columns(found: FoundFile, table: str, row: object) -> Iterator[Any]:
    for column in TABLES[table].names[len(Place._fields) + 1 :]:
        yield found.base_offset if column == "snapshot_offset" else getattr(row, column)


def _remote_log_entry(value: bytes) -> str:
    """Return an entry as text: the record it holds, or why that cannot be read."""
    from kforensics.parsers.messages.internal_records import decode_record  # few files need the tables of all messages
    from kforensics.parsers.messages.json_render import to_json

    found = decode_record(REMOTE_LOG_METADATA, None, value)
    if found.value is None or found.value_message is None:
        return f"{found.type_name or 'unknown'}: {found.error}"
    return f"{found.type_name} {to_json(found.value_message, found.value, found.version or 0)}"


def _properties(row: Any) -> Iterator[tuple[str, str | None]]:
    for column in fields(row):
        value = getattr(row, column.name)
        if column.name not in ("position", "size", "fields"):
            yield column.name, None if value is None else str(value)
