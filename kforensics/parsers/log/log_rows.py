"""Rows of the tables ``batches``, ``records`` and ``damage`` out of a log, in the column order of those tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from kforensics.parsers.files.source import Source
from kforensics.parsers.format.codecs import DEFAULT_BUDGET, EOF, over_budget
from kforensics.parsers.format.control import control_of
from kforensics.parsers.format.rows import Batch, Damage, Failure, Record
from kforensics.parsers.log.batches import batch_bytes
from kforensics.parsers.log.legacy import Message, legacy_messages, legacy_records
from kforensics.parsers.log.records import HEADER_SIZE, decode_records, open_payload

__all__ = ["Place", "batch_row", "damage_row", "failure_damage", "messages_of", "record_row", "records_of"]

Row = tuple[Any, ...]


class Place(NamedTuple):
    """Where a file stands: the columns every table begins with. None is what cannot be told."""

    broker_id: int | None
    log_dir: str | None
    topic: str | None
    partition: int | None


def records_of(source: Source, batch: Batch, budget: int = DEFAULT_BUDGET) -> Iterator[Record | Damage]:
    """Yield the records of a batch; what of it cannot be read comes last, as damage inside the batch."""
    data = _bytes_within(source, batch, budget)
    rows = iter([data]) if isinstance(data, Failure) else _rows(batch, data, budget)
    for row in rows:
        yield failure_damage(batch, row) if isinstance(row, Failure) else row


def messages_of(source: Source, batch: Batch, budget: int = DEFAULT_BUDGET) -> Iterator[Message | Damage]:
    """Yield the messages of an entry of format 0 or 1; what of it cannot be read comes last, as damage inside it."""
    data = _bytes_within(source, batch, budget)
    if not isinstance(data, Failure) and len(data) < batch.size:
        data = over_budget(budget)
    rows = iter([data]) if isinstance(data, Failure) else legacy_messages(batch, data, budget)
    for row in rows:
        yield failure_damage(batch, row) if isinstance(row, Failure) else row


def _bytes_within(source: Source, batch: Batch, budget: int) -> bytes | Failure:
    """Return the bytes of a batch, of one that is larger than the budget no more than that."""
    most = HEADER_SIZE + budget + 1
    data = batch_bytes(source, batch, most)
    if len(data) < min(batch.size, most):
        return Failure("shrunk", EOF, "the file has become shorter while it was read")
    return data


def _rows(batch: Batch, data: bytes, budget: int) -> Iterator[Record | Failure]:
    """Read the records of a batch, of which no more bytes were taken than the budget allows."""
    cut = len(data) < batch.size
    if batch.is_legacy:
        return iter([over_budget(budget)]) if cut else legacy_records(batch, data, budget)
    payload = open_payload(batch, data, budget)
    if cut:
        payload = replace(payload, stream=replace(payload.stream, failure=over_budget(budget)))
    return decode_records(batch, payload)


def failure_damage(batch: Batch, failure: Failure) -> Damage:
    """Return the damage of records that could not be read."""
    end = batch.position + batch.size
    return Damage(batch.position, end, failure.reason, failure.detail, inside_batch=batch.position)


def batch_row(place: Place, source: Source, batch: Batch, budget: int = DEFAULT_BUDGET) -> Row:
    """Return a batch as a row of ``batches``.

    The control type, and the first offset and count of a compressed entry of format 0 or 1, are read from its records;
    the count is None where not all of them can be read.
    """
    base_offset, count, control_type, coordinator_epoch = batch.base_offset, batch.count, None, None
    if batch.is_control:
        first = next(records_of(source, batch, budget), None)
        control_type, coordinator_epoch = control_of(first) if isinstance(first, Record) else (None, None)
    elif batch.count is None:
        base_offset, count = _extent(records_of(source, batch, budget))
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


def _extent(rows: Iterator[Record | Damage]) -> tuple[int | None, int | None]:
    """Return the offset of the first record and the number of records, None where that cannot be told."""
    first, count = None, 0
    for row in rows:
        if isinstance(row, Damage):
            return first, None
        first = row.offset if first is None else first
        count += 1
    return first, count


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
