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
from kforensics.parsers.kernels.record_parser import NO_ADDRESS, ParsedRecord, parse_header, parse_record
from kforensics.parsers.kernels.request import DECLINED, DONE, NEEDS_HOST_CODEC, OUTPUT_FULL, SLOT


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
def _put_record(columns: int, row: int, parsed: ParsedRecord) -> None:
    _, _, key_address, key_size, value_address, value_size, headers_address, header_count, _ = parsed
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
        body = parsed[8]
        if body == NO_ADDRESS:
            return DECLINED
        store64(columns + HASH_LAYOUT.offset + 8 * row, wrapping_add(base_offset, parsed[1]))
        store64(
            columns + HASH_LAYOUT.timestamp + 8 * row, wrapping_add(timestamp, wrapping_multiply(factor, parsed[0]))
        )
        _put_record(columns, row, parsed)
        row += 1
    if body != end:
        return DECLINED
    _put_batch(columns, get_slot(request, HASH_SLOT.batch_rows), address, position)
    set_slot(request, HASH_SLOT.rows, row)
    set_slot(request, HASH_SLOT.batch_rows, get_slot(request, HASH_SLOT.batch_rows) + 1)
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
        size = valid_batch_size(address, end, get_slot(request, SLOT.refused_sizes))
        if size < 0:
            status = -size
            break
        status = _put_records(request, address, size, position + address)
        if status != DONE:
            break
        address += size
        set_slot(request, SLOT.batches, get_slot(request, SLOT.batches) + 1)
    set_slot(request, SLOT.stop, address - data)
    set_slot(request, SLOT.status, status)
    return 0
