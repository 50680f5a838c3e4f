"""Rows of the tables ``batches``, ``records`` and ``damage`` out of a log, in the column order of those tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kforensics.parsers.batches import batch_bytes
from kforensics.parsers.codecs import DEFAULT_BUDGET
from kforensics.parsers.control import control_of
from kforensics.parsers.legacy import legacy_records
from kforensics.parsers.records import decode_records, open_payload
from kforensics.parsers.rows import Batch, Damage, Failure, Record
from kforensics.parsers.source import Source

__all__ = ["Place", "batch_row", "damage_row", "record_row", "records_of"]

Row = tuple[Any, ...]


class Place(NamedTuple):
    """Where a file stands: the columns every table begins with. None is what cannot be told."""

    broker_id: int | None
    log_dir: str | None
    topic: str | None
    partition: int | None


def records_of(source: Source, batch: Batch, budget: int = DEFAULT_BUDGET) -> Iterator[Record | Damage]:
    """Yield the records of a batch; what of it cannot be read comes last, as damage inside the batch."""
    data = batch_bytes(source, batch)
    if batch.is_legacy:
        rows = legacy_records(batch, data, budget)
    else:
        rows = decode_records(batch, open_payload(batch, data, budget))
    for row in rows:
        yield failure_damage(batch, row) if isinstance(row, Failure) else row


def failure_damage(batch: Batch, failure: Failure) -> Damage:
    """Return the damage of records that could not be read."""
    end = batch.position + batch.size
    return Damage(batch.position, end, failure.reason, failure.detail, inside_batch=batch.position)


def batch_row(place: Place, source: Source, batch: Batch) -> Row:
    """Return a batch as a row of ``batches``.

    The control type, and the first offset and count of a compressed entry of format 0 or 1, are read from its records.
    """
    base_offset, count, control_type, coordinator_epoch = batch.base_offset, batch.count, None, None
    if batch.is_control:
        first = next(records_of(source, batch), None)
        control_type, coordinator_epoch = control_of(first) if isinstance(first, Record) else (None, None)
    elif batch.count is None:
        offsets = [row.offset for row in records_of(source, batch) if isinstance(row, Record)]
        base_offset, count = (offsets[0], len(offsets)) if offsets else (None, 0)
    return (
        *place,
        source.path,
        batch.position,
        batch.size,
        base_offset,
        batch.last_offset,
        count,
        batch.magic,
        batch.partition_leader_epoch,
        batch.crc,
        batch.crc_valid,
        batch.attributes,
        batch.compression_type,
        batch.timestamp_type,
        batch.is_transactional,
        batch.is_control,
        batch.delete_horizon_ms,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.last_sequence,
        control_type,
        coordinator_epoch,
    )


def record_row(place: Place, path: str, batch: Batch, record: Record) -> Row:
    """Return a record as a row of ``records``."""
    control = control_of(record) if batch.is_control else (None, None)
    return (
        *place,
        path,
        batch.position,
        record.offset,
        record.timestamp,
        batch.timestamp_type,
        record.sequence,
        record.key,
        record.value,
        record.headers,
        record.key_size,
        record.value_size,
        *control,
    )


def damage_row(place: Place, path: str, damage: Damage) -> Row:
    """Return damage as a row of ``damage``."""
    return (
        *place,
        path,
        damage.start,
        damage.end,
        damage.reason,
        damage.detail,
        damage.next_good_position,
        damage.inside_batch,
    )
