"""The kernel that hashes key, value and headers of data records.

:mod:`kforensics.parsers.columns.content_hash` defines the hash.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kforensics.parsers.format.rows import CODEC_MASK, CONTROL_BIT, LOG_APPEND_TIME_BIT
from kforensics.parsers.kernels.batch_checks import FORMAT, HEADER_FIELD, HEADER_SIZE, valid_batch_size
from kforensics.parsers.kernels.batch_payload import batch_payload
from kforensics.parsers.kernels.column_buffers import MAX_ROWS, SOFT_ROWS
from kforensics.parsers.kernels.compiler import compiled, inlined
from kforensics.parsers.kernels.decoded_fields import get_field
from kforensics.parsers.kernels.hash_buffers import (
    COLUMN_OFFSETS,
    FIRST_MULTIPLIER,
    FIRST_SHIFT,
    HASH_SLOT,
    LAST_SHIFT,
    SECOND_MULTIPLIER,
    SECOND_SHIFT,
    STEP,
)
from kforensics.parsers.kernels.intrinsics import (
    big16,
    big32,
    big64,
    get_slot,
    load64,
    set_slot,
    shift_right,
    store64,
    wrapping_add,
    wrapping_multiply,
)
from kforensics.parsers.kernels.legacy_entries import (
    has_legacy_magic,
    set_entry_fields,
    set_message_fields,
    signed_attributes,
    unwrap,
    valid_entry_size,
)
from kforensics.parsers.kernels.record_parser import NO_ADDRESS, parse_header, parse_record
from kforensics.parsers.kernels.request import (
    DECLINED,
    DONE,
    FIELD,
    FIRST_FIELD_SLOT,
    NEEDS_HOST_CODEC,
    OUTPUT_FULL,
    SLOT,
)


class _ColumnOffsets(NamedTuple):
    """Offsets of the columns, as constants that the compiler reads by name."""

    offset: int
    timestamp: int
    low: int
    high: int
    emptiness: int
    is_keyless: int
    position: int
    records: int
    base_offset: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    attributes: int
    magic: int
    last_offset: int
    max_timestamp: int
    is_whole: int


HASH_LAYOUT: Any = _ColumnOffsets(**COLUMN_OFFSETS)


@inlined
def _mix(word: int) -> int:
    word = wrapping_multiply(word ^ shift_right(word, FIRST_SHIFT), FIRST_MULTIPLIER)
    word = wrapping_multiply(word ^ shift_right(word, SECOND_SHIFT), SECOND_MULTIPLIER)
    return word ^ shift_right(word, LAST_SHIFT)


@inlined
def _add_word(low: int, high: int, place: int, word: int) -> tuple[int, int, int]:
    """Return both sums with one more word in them, and the place of that word."""
    place = wrapping_add(place, STEP)
    mixed = _mix(word ^ place)
    return wrapping_add(low, mixed), wrapping_add(high, wrapping_multiply(mixed, place | 1)), place


@inlined
def _add_bytes(low: int, high: int, place: int, address: int, size: int) -> tuple[int, int, int]:
    """Return both sums with a key or value in them: its size (-1 for null) and its bytes, the last word zero-padded."""
    low, high, place = _add_word(low, high, place, size)
    left = size
    while left >= 8:
        low, high, place = _add_word(low, high, place, load64(address))
        address += 8
        left -= 8
    if left > 0:
        low, high, place = _add_word(low, high, place, load64(address) & ((1 << (8 * left)) - 1))
    return low, high, place


@compiled
def _add_headers(low: int, high: int, place: int, address: int, count: int) -> tuple[int, int, int]:
    for _ in range(count):
        # No end is needed: the headers were checked together with the record.
        key_address, key_size, value_address, value_size, address = parse_header(address, address + (1 << 40))
        low, high, place = _add_bytes(low, high, place, key_address, key_size)
        low, high, place = _add_bytes(low, high, place, value_address, value_size)
    return low, high, place


@inlined
def _put_contents(  # noqa: PLR0913, PLR0917  # kernels have no objects to pass around
    columns: int,
    row: int,
    key_address: int,
    key_size: int,
    value_address: int,
    value_size: int,
    headers_address: int,
    header_count: int,
) -> None:
    """Write the columns that follow from the contents of a record; a size of -1 is null."""
    low, high, place = _add_bytes(0, 0, 0, key_address, key_size)
    low, high, place = _add_bytes(low, high, place, value_address, value_size)
    if header_count > 0:
        low, high, place = _add_headers(low, high, place, headers_address, header_count)
    low = _mix(wrapping_add(low, place))
    store64(columns + HASH_LAYOUT.low + 8 * row, low)
    store64(columns + HASH_LAYOUT.high + 8 * row, _mix(wrapping_add(high, low)))
    emptiness = 0
    if value_size <= 0:
        emptiness = 2 if key_size <= 0 else 1
    store64(columns + HASH_LAYOUT.emptiness + 8 * row, emptiness)
    store64(columns + HASH_LAYOUT.is_keyless + 8 * row, 1 if key_size < 0 else 0)


@inlined
def _put_batch(columns: int, row: int, address: int, position: int) -> None:
    base_offset = big64(address + HEADER_FIELD.base_offset)
    last_offset = wrapping_add(base_offset, big32(address + HEADER_FIELD.last_offset_delta))
    store64(columns + HASH_LAYOUT.position + 8 * row, position)
    store64(columns + HASH_LAYOUT.records + 8 * row, big32(address + HEADER_FIELD.count))
    store64(columns + HASH_LAYOUT.base_offset + 8 * row, base_offset)
    store64(columns + HASH_LAYOUT.producer_id + 8 * row, big64(address + HEADER_FIELD.producer_id))
    store64(columns + HASH_LAYOUT.producer_epoch + 8 * row, big16(address + HEADER_FIELD.producer_epoch))
    store64(columns + HASH_LAYOUT.base_sequence + 8 * row, big32(address + HEADER_FIELD.base_sequence))
    store64(columns + HASH_LAYOUT.attributes + 8 * row, big16(address + HEADER_FIELD.attributes))
    store64(columns + HASH_LAYOUT.magic + 8 * row, FORMAT)
    store64(columns + HASH_LAYOUT.last_offset + 8 * row, last_offset)
    store64(columns + HASH_LAYOUT.max_timestamp + 8 * row, big64(address + HEADER_FIELD.max_timestamp))
    store64(columns + HASH_LAYOUT.is_whole + 8 * row, 1)


@compiled
def _put_records(request: int, address: int, size: int, position: int) -> int:
    """Append the records of a batch; return DONE, OUTPUT_FULL, NEEDS_HOST_CODEC or DECLINED."""
    columns, row = get_slot(request, HASH_SLOT.output), get_slot(request, HASH_SLOT.rows)
    count, attributes = big32(address + HEADER_FIELD.count), big16(address + HEADER_FIELD.attributes)
    if count == 0 or attributes & CONTROL_BIT:
        return DONE
    if count > MAX_ROWS - row:
        return OUTPUT_FULL
    body, end = batch_payload(request, address, size, attributes & CODEC_MASK)
    if body == NO_ADDRESS:
        return NEEDS_HOST_CODEC
    if max(size - HEADER_SIZE, end - body) > get_slot(request, HASH_SLOT.budget):
        return DECLINED
    base_offset, is_append_time = big64(address + HEADER_FIELD.base_offset), attributes & LOG_APPEND_TIME_BIT
    timestamp, factor = (
        (big64(address + HEADER_FIELD.max_timestamp), 0)
        if is_append_time
        else (big64(address + HEADER_FIELD.base_timestamp), 1)
    )
    for _ in range(count):
        parsed = parse_record(body, end)
        timestamp_delta, offset_delta, key_address, key_size, value_address, value_size, headers, header_count, body = (
            parsed
        )
        if body == NO_ADDRESS:
            return DECLINED
        store64(columns + HASH_LAYOUT.offset + 8 * row, wrapping_add(base_offset, offset_delta))
        store64(
            columns + HASH_LAYOUT.timestamp + 8 * row,
            wrapping_add(timestamp, wrapping_multiply(factor, timestamp_delta)),
        )
        _put_contents(columns, row, key_address, key_size, value_address, value_size, headers, header_count)
        row += 1
    if body != end:
        return DECLINED
    _put_batch(columns, get_slot(request, HASH_SLOT.batch_rows), address, position)
    set_slot(request, HASH_SLOT.rows, row)
    set_slot(request, HASH_SLOT.batch_rows, get_slot(request, HASH_SLOT.batch_rows) + 1)
    return DONE


@inlined
def _put_message(columns: int, row: int, fields: int) -> None:
    """Append a message of format 0 or 1. Any negative size means null there, and the hash knows -1 only."""
    store64(columns + HASH_LAYOUT.offset + 8 * row, get_field(fields, FIELD.offset))
    store64(columns + HASH_LAYOUT.timestamp + 8 * row, get_field(fields, FIELD.timestamp))
    key_size, value_size = max(-1, get_field(fields, FIELD.key_size)), max(-1, get_field(fields, FIELD.value_size))
    key_address, value_address = get_field(fields, FIELD.key_address), get_field(fields, FIELD.value_address)
    _put_contents(columns, row, key_address, key_size, value_address, value_size, 0, 0)


@inlined
def _put_entry(request: int, address: int, records: int, base_offset: int) -> None:
    """Append an entry of format 0 or 1, which has no producer."""
    fields, columns = request + 8 * FIRST_FIELD_SLOT, get_slot(request, HASH_SLOT.output)
    row = get_slot(request, HASH_SLOT.batch_rows)
    store64(columns + HASH_LAYOUT.position + 8 * row, get_field(fields, FIELD.position))
    store64(columns + HASH_LAYOUT.records + 8 * row, records)
    store64(columns + HASH_LAYOUT.base_offset + 8 * row, base_offset)
    store64(columns + HASH_LAYOUT.producer_id + 8 * row, -1)
    store64(columns + HASH_LAYOUT.producer_epoch + 8 * row, -1)
    store64(columns + HASH_LAYOUT.base_sequence + 8 * row, -1)
    store64(columns + HASH_LAYOUT.attributes + 8 * row, signed_attributes(address))
    store64(columns + HASH_LAYOUT.magic + 8 * row, get_field(fields, FIELD.magic))
    store64(columns + HASH_LAYOUT.last_offset + 8 * row, get_field(fields, FIELD.last_offset))
    store64(columns + HASH_LAYOUT.max_timestamp + 8 * row, get_field(fields, FIELD.max_timestamp))
    store64(columns + HASH_LAYOUT.is_whole + 8 * row, 1)
    set_slot(request, HASH_SLOT.batch_rows, row + 1)


@compiled
def _put_messages(request: int, address: int, size: int, position: int) -> int:
    """Append the messages of an entry of format 0 or 1; return DONE, OUTPUT_FULL, NEEDS_HOST_CODEC or DECLINED."""
    fields, columns = request + 8 * FIRST_FIELD_SLOT, get_slot(request, HASH_SLOT.output)
    message, end, base = address, address + size, 0
    set_entry_fields(fields, address, size, position)
    if get_field(fields, FIELD.codec):
        status, message, end, base = unwrap(request, fields, address, end)
        if status != DONE:
            return status
    if max(size, end - message) > get_slot(request, HASH_SLOT.budget):
        return DECLINED
    first_row = row = get_slot(request, HASH_SLOT.rows)
    first_offset = -1
    while message < end:
        if row == MAX_ROWS:
            return OUTPUT_FULL
        message = set_message_fields(fields, message, end, base)
        offset = get_field(fields, FIELD.offset)
        if message == NO_ADDRESS or offset < 0:
            return DECLINED
        first_offset = offset if row == first_row else first_offset
        _put_message(columns, row, fields)
        row += 1
    _put_entry(request, address, row - first_row, first_offset)
    set_slot(request, HASH_SLOT.rows, row)
    return DONE


def record_hashes(request: int) -> int:
    """Hash the data records of batches that pass every check, as long as there is room."""
    data = get_slot(request, SLOT.data)
    address, end = data + get_slot(request, SLOT.start), data + get_slot(request, SLOT.end)
    position, status = get_slot(request, SLOT.position) - data, DONE
    if get_slot(request, SLOT.batches) == 0:
        set_slot(request, HASH_SLOT.rows, 0)
        set_slot(request, HASH_SLOT.batch_rows, 0)
    while address < end:
        if get_slot(request, HASH_SLOT.rows) >= SOFT_ROWS:
            status = OUTPUT_FULL
            break
        is_legacy, refused_sizes = has_legacy_magic(address), get_slot(request, SLOT.refused_sizes)
        if is_legacy:
            size = valid_entry_size(address, end, refused_sizes)
        else:
            size = valid_batch_size(address, end, refused_sizes)
        if size < 0:
            status = -size
            break
        if is_legacy:
            status = _put_messages(request, address, size, position + address)
        else:
            status = _put_records(request, address, size, position + address)
        if status != DONE:
            break
        address += size
        set_slot(request, SLOT.batches, get_slot(request, SLOT.batches) + 1)
    set_slot(request, SLOT.stop, address - data)
    set_slot(request, SLOT.status, status)
    return 0
