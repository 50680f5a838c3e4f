"""State files of a log directory as rows of their tables: indexes, snapshots, checkpoints, properties."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.log_names import REMOTE_LOG_METADATA
from kforensics.parsers.files.meta_properties import Property, read_meta_properties
from kforensics.parsers.files.partition_metadata import PartitionMetadata, read_partition_metadata
from kforensics.parsers.files.source import Source, file_name
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.log.log_rows import Place
from kforensics.parsers.state.indexes import read_offset_index, read_time_index, read_transaction_index
from kforensics.parsers.state.producer_snapshot import ProducerSnapshotEntry, read_producer_snapshot
from kforensics.parsers.state.text_checkpoint import (
    LeaderEpochEntry,
    OffsetCheckpointEntry,
    RemoteOffsetEntry,
    read_leader_epochs,
    read_offset_checkpoint,
    read_remote_offsets,
)
from kforensics.parsers.tables.schemas import TABLES

Row = tuple[Any, ...]
JSON_KINDS = ("quorum-state", "clean-shutdown")


def state_rows(file: FoundFile, place: Place, source: Source, table: str) -> Iterator[Row | Damage]:
    """Yield the rows and the damage of a file other than a log, in byte order.

    Args:
        file: the file; a kind without a reader has no rows.
        place: the first columns of every row.
        source: its bytes.
        table: name of the table for its kind.
    """
    for row in _read(file, source):
        if isinstance(row, Damage):
            yield row
        else:
            yield from _table_rows(file, place, table, row)


def _read(file: FoundFile, source: Source) -> Iterator[object]:
    base_offset = file.base_offset or 0
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
    }
    return readers[file.kind]() if file.kind in readers else _read_rare(file, source)


def _read_rare(file: FoundFile, source: Source) -> Iterator[object]:
    """Yield the rows of files that few folders have; their readers are imported only here."""
    if file.kind in JSON_KINDS:
        from kforensics.parsers.state.json_state import read_clean_shutdown, read_quorum_state

        yield from (read_quorum_state if file.kind == "quorum-state" else read_clean_shutdown)(source)
    elif file.kind == "remote-log-snapshot":
        from kforensics.parsers.state.remote_log_snapshot import read_remote_log_snapshot

        yield from read_remote_log_snapshot(source)


def _table_rows(file: FoundFile, place: Place, table: str, row: object) -> Iterator[Row]:
    path, name = file.path, file_name(file.path)
    match row:
        case OffsetCheckpointEntry():
            yield (*place[:2], row.topic, row.partition, path, name, row.offset)
        case RemoteOffsetEntry():
            yield (*place[:2], REMOTE_LOG_METADATA, row.partition, path, name, row.offset)
        case Property() if row.name not in ("#", "!"):
            yield (*place, path, row.name, row.value)
        case PartitionMetadata():
            yield from ((*place, path, key, value) for key, value in _properties(row))
        case _ if file.kind in JSON_KINDS:
            yield from ((*place, path, key, value) for key, value in _properties(row))
        case _ if file.kind == "remote-log-snapshot":
            yield from ((*place, path, key, value) for key, value in _remote_log_properties(row))
        case ProducerSnapshotEntry() | LeaderEpochEntry():
            yield (*place, path, *_columns(file, table, row))
        case _ if type(row).__name__.endswith("IndexEntry"):
            yield (*place, path, *_columns(file, table, row))
        case _:
            return  # file headers are not rows


def _columns(file: FoundFile, table: str, row: object) -> Iterator[Any]:
    for column in TABLES[table].names[len(Place._fields) + 1 :]:
        yield file.base_offset if column == "snapshot_offset" else getattr(row, column)


def _remote_log_properties(row: object) -> Iterator[tuple[str, str | None]]:
    from kforensics.parsers.state.remote_log_snapshot import RemoteLogSnapshotEntry

    if isinstance(row, RemoteLogSnapshotEntry):
        yield f"entry at {row.position}", _remote_log_entry(row.value)
    else:
        yield from _properties(row)


def _remote_log_entry(value: bytes) -> str:
    """Return the record of an entry as text, or why it cannot be decoded."""
    from kforensics.parsers.messages.internal_records import (
        decode_record,  # loads all message schemas, which few files need
    )
    from kforensics.parsers.messages.json_render import to_json

    record = decode_record(REMOTE_LOG_METADATA, None, value)
    if record.value is None or record.value_message is None:
        return f"{record.type_name or 'unknown'}: {record.error}"
    return f"{record.type_name} {to_json(record.value_message, record.value, record.version or 0)}"


def _properties(row: Any) -> Iterator[tuple[str, str | None]]:
    for column in fields(row):
        value = getattr(row, column.name)
        if column.name not in ("position", "size", "fields"):
            yield column.name, None if value is None else str(value)
