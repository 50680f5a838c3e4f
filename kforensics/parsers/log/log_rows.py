"""Reads the records of a batch, and builds rows of the tables ``batches``, ``records`` and ``damage``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kforensics.parsers.files.source import Source
from kforensics.parsers.format.decompression import DEFAULT_BUDGET, EOF, over_budget
from kforensics.parsers.format.rows import Batch, Damage, Failure, Record
from kforensics.parsers.log.batch_headers import HEADER
from kforensics.parsers.log.batches import batch_bytes

if TYPE_CHECKING:
    from kforensics.parsers.log.legacy_format import LegacyMessage

Row = tuple[Any, ...]


class Place(NamedTuple):
    """Location of a file, the first columns of every table; an unknown value is None."""

    broker_id: int | None
    log_dir: str | None
    topic: str | None
    partition: int | None


def read_records(source: Source, batch: Batch, budget: int = DEFAULT_BUDGET) -> Iterator[Record | Damage]:
    """Yield the records of a batch; if some cannot be read, damage inside the batch comes last."""
    data = _bytes_within(source, batch, budget)
    rows = iter([data]) if isinstance(data, Failure) else _rows(batch, data, budget)
    for row in rows:
        yield failure_damage(batch, row) if isinstance(row, Failure) else row


def read_legacy_messages(
    source: Source, batch: Batch, budget: int = DEFAULT_BUDGET
) -> Iterator[LegacyMessage | Damage]:
    """Yield the messages of an entry of format 0 or 1; if some cannot be read, damage inside it comes last."""
    from kforensics.parsers.log.legacy_format import legacy_messages  # few logs are of formats 0 and 1

    data = _bytes_within(source, batch, budget)
    if not isinstance(data, Failure) and len(data) < batch.size:
        data = over_budget(budget)
    rows = iter([data]) if isinstance(data, Failure) else legacy_messages(batch, data, budget)
    for row in rows:
        yield failure_damage(batch, row) if isinstance(row, Failure) else row


def _bytes_within(source: Source, batch: Batch, budget: int) -> bytes | Failure:
    """Return the bytes of a batch, limited to little more than the budget."""
    most = HEADER.size + budget + 1
    data = batch_bytes(source, batch, most)
    if len(data) < min(batch.size, most):
        return Failure("shrunk", EOF, "the file shrank while it was being read")
    return data


def _rows(batch: Batch, data: bytes, budget: int) -> Iterator[Record | Failure]:
    """Yield the records of a batch whose bytes may be limited to the budget."""
    is_cut = len(data) < batch.size
    if batch.is_legacy:
        from kforensics.parsers.log.legacy_format import legacy_records  # few logs are of formats 0 and 1

        return iter([over_budget(budget)]) if is_cut else legacy_records(batch, data, budget)
    # Batch rows do not need them.
    from kforensics.parsers.log.records import LEFT_OUT, are_left_out, decode_records, open_payload

    if are_left_out(batch, data):
        return iter([LEFT_OUT])
    payload = open_payload(batch, data, budget)
    if is_cut:
        payload = replace(payload, stream=replace(payload.stream, failure=over_budget(budget)))
    return decode_records(batch, payload)


def failure_damage(batch: Batch, failure: Failure) -> Damage:
    """Return the damage row for records that could not be read."""
    end = batch.position + batch.size
    return Damage(batch.position, end, failure.reason, failure.detail, inside_batch=batch.position)


def batch_row(place: Place, source: Source, batch: Batch, budget: int = DEFAULT_BUDGET) -> Row:
    """Return a batch as a row of ``batches``.

    The control type, and the base offset and count of a compressed entry of format 0 or 1, are read from the records.
    The count is None if some records cannot be read.
    """
    base_offset, count, control_type, coordinator_epoch = batch.base_offset, batch.count, None, None
    if batch.is_control:
        first = next(read_records(source, batch, budget), None)
        control_type, coordinator_epoch = _control(first) if isinstance(first, Record) else (None, None)
    elif batch.count is None:
        base_offset, count = _extent(read_records(source, batch, budget))
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


def _control(record: Record) -> tuple[str | None, int | None]:
    from kforensics.parsers.format.control_records import control_fields  # few batches are control batches

    return control_fields(record)


def _extent(rows: Iterator[Record | Damage]) -> tuple[int | None, int | None]:
    """Return the offset of the first record and the number of records, None where unknown."""
    first, count = None, 0
    for row in rows:
        if isinstance(row, Damage):
            return first, None
        first = row.offset if first is None else first
        count += 1
    return first, count


def record_row(place: Place, path: str, batch: Batch, record: Record) -> Row:
    """Return a record as a row of ``records``."""
    control = _control(record) if batch.is_control else (None, None)
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
