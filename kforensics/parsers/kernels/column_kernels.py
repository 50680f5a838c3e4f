"""The kernels that make columns: of the batches of a block, or of all their records; see ``column_places``."""

from __future__ import annotations

from kforensics.parsers.format.control import CONTROL_TYPES
from kforensics.parsers.format.rows import CODEC_MASK
from kforensics.parsers.kernels.column_buffers import (
    BUDGET,
    COLUMNS,
    CONTROLS,
    COPY_HEADERS,
    COPY_KEYS,
    COPY_VALUES,
    DATA_ROOM,
    EPOCHS,
    HEADER_KEY_BYTES,
    HEADER_VALUE_BYTES,
    HEADERS,
    HEADERS_ROOM,
    HORIZONS,
    IN_BATCHES,
    IN_RECORDS,
    KEY_BYTES,
    NO_CODE,
    NULL_HEADER_VALUES,
    NULL_KEYS,
    NULL_VALUES,
    PAYLOADS,
    ROOM,
    ROWS,
    SAVED,
    SOFT_BYTES,
    SOFT_ROWS,
    TAKEN,
    VALUE_BYTES,
)
from kforensics.parsers.kernels.compiler import compiled, inlined
from kforensics.parsers.kernels.headers import AT, SIZE, look
from kforensics.parsers.kernels.machine import (
    big16,
    big32,
    copy,
    load8,
    load64,
    store8,
    store16,
    store32,
    store64,
)
from kforensics.parsers.kernels.payload import records_at
from kforensics.parsers.kernels.record_fields import UNREADABLE, header, record
from kforensics.parsers.kernels.request import (
    BATCHES,
    DATA,
    DONE,
    END,
    FULL,
    OUTSIDE,
    POSITION,
    REFUSED,
    REFUSED_SIZES,
    START,
    STATUS,
    STOP,
    VALUE,
    VALUES,
)
from kforensics.parsers.kernels.slots import answer, slot
from kforensics.parsers.kernels.template_values import (
    KEY_SIZE,
    KEY_TYPE,
    MARKER_EPOCH,
    MARKER_SIZE,
    MARKER_TYPES,
    put_batch,
    put_record,
    value,
)

__all__ = ["batch_columns", "record_columns"]

KNOWN_TYPES = len(CONTROL_TYPES)
# What a control record says, where a kernel had better not read it.
STRANGE = -2
# Longer ones are left to the copying of the C library.
SHORT = 128
# Everything a block has so far, where a kernel begins anew.
COUNTERS = (
    *(ROWS, NULL_KEYS, NULL_VALUES, CONTROLS, EPOCHS, HORIZONS, HEADERS, NULL_HEADER_VALUES),
    *(KEY_BYTES, VALUE_BYTES, HEADER_KEY_BYTES, HEADER_VALUE_BYTES, TAKEN),
)


@inlined
def _put(target: int, source: int, length: int) -> None:
    """Copy bytes, and some of those behind them."""
    if length > SHORT:
        copy(target, source, length)
        return
    done = 0
    while done < length:
        first, second = load64(source + done), load64(source + done + 8)
        store64(target + done, first)
        store64(target + done + 8, second)
        done += 16


@compiled
def _is_ascii(at: int, size: int) -> bool:
    every = 0
    for index in range(size):
        every |= load8(at + index)
    return every < 0x80


@inlined
def _control(values: int) -> tuple[int, int, int]:
    """Return the control type (or NO_CODE, or STRANGE), whether there is a coordinator epoch, and which."""
    if value(values, VALUE.key_size) < KEY_SIZE:
        return NO_CODE, 0, 0
    key_at, value_at = value(values, VALUE.key_at), value(values, VALUE.value_at)
    kind = big16(key_at + KEY_TYPE)
    # Both begin with a version.
    if kind < 0 or kind >= KNOWN_TYPES or big16(key_at) < 0:
        return STRANGE, 0, 0
    if kind >= MARKER_TYPES or value(values, VALUE.value_size) < MARKER_SIZE:
        return kind, 0, 0
    if big16(value_at) < 0:
        return STRANGE, 0, 0
    return kind, 1, big32(value_at + MARKER_EPOCH)


@inlined
def _add(request: int, counter: int, more: int) -> int:
    """Add to a counter; return what it is then."""
    sum_of_both = slot(request, counter) + more
    answer(request, counter, sum_of_both)
    return sum_of_both


@inlined
def _put_payload(  # noqa: PLR0913, PLR0917  # kernels have no objects to hand around
    request: int, counter: int, nulls: int, data: int, at: int, size: int
) -> int:
    """Put a key or value behind those before it; return where it ends."""
    end = slot(request, counter)
    if size < 0:
        _add(request, nulls, 1)
        return end
    _put(data + end, at, size)
    return _add(request, counter, size)


@compiled
def _put_headers(request: int, columns: int, at: int, count: int) -> bool:
    """Put the headers of a record; False if one of them is not for kernels."""
    if slot(request, HEADERS) + count > HEADERS_ROOM:
        return False
    for _ in range(count):
        # They were looked through when the record was: they end where they should.
        key_at, key_size, value_at, value_size, at = header(at, at + (1 << 40))
        # Names in other scripts are rare, and the rows of plain Python right.
        if not _is_ascii(key_at, key_size):
            return False
        key_end = _put_payload(request, HEADER_KEY_BYTES, NULL_KEYS, columns + IN_RECORDS.header_keys, key_at, key_size)
        values = columns + IN_RECORDS.header_values
        value_end = _put_payload(request, HEADER_VALUE_BYTES, NULL_HEADER_VALUES, values, value_at, value_size)
        store8(columns + IN_RECORDS.header_has_value + slot(request, HEADERS), 1 if value_size >= 0 else 0)
        headers = _add(request, HEADERS, 1)
        store32(columns + IN_RECORDS.header_key_ends + 4 * headers, key_end)
        store32(columns + IN_RECORDS.header_value_ends + 4 * headers, value_end)
    return True


@inlined
def _put_control(request: int, codes: int, epochs: int, has_epoch: int, values: int) -> bool:
    """Put what a control record says, or that this is none; False if it is not for kernels."""
    kind, known, epoch = NO_CODE, 0, 0
    if value(values, VALUE.is_control):
        kind, known, epoch = _control(values)
        _add(request, CONTROLS, 1)
        _add(request, EPOCHS, known)
    store32(codes, kind)
    store32(epochs, epoch)
    store8(has_epoch, known)
    return kind != STRANGE


@inlined
def _put_record(request: int, columns: int, values: int, row: int) -> bool:
    """Put the record that stands in the values; False if it is not for kernels."""
    key_size, value_size = value(values, VALUE.key_size), value(values, VALUE.value_size)
    store64(columns + IN_RECORDS.batch_position + 8 * row, value(values, VALUE.position))
    store64(columns + IN_RECORDS.offset + 8 * row, value(values, VALUE.offset))
    store64(columns + IN_RECORDS.timestamp + 8 * row, value(values, VALUE.timestamp))
    store32(columns + IN_RECORDS.timestamp_type + 4 * row, value(values, VALUE.timestamp_type))
    store32(columns + IN_RECORDS.sequence + 4 * row, value(values, VALUE.sequence))
    store32(columns + IN_RECORDS.key_size + 4 * row, key_size)
    store32(columns + IN_RECORDS.value_size + 4 * row, value_size)
    wanted = slot(request, PAYLOADS)
    if wanted & COPY_KEYS:
        keys, key_at = columns + IN_RECORDS.keys, value(values, VALUE.key_at)
        key_end = _put_payload(request, KEY_BYTES, NULL_KEYS, keys, key_at, key_size)
        store32(columns + IN_RECORDS.key_ends + 4 * row + 4, key_end)
    if wanted & COPY_VALUES:
        data, value_at = columns + IN_RECORDS.values, value(values, VALUE.value_at)
        value_end = _put_payload(request, VALUE_BYTES, NULL_VALUES, data, value_at, value_size)
        store32(columns + IN_RECORDS.value_ends + 4 * row + 4, value_end)
    if wanted & COPY_HEADERS:
        count = value(values, VALUE.header_count)
        if count and not _put_headers(request, columns, value(values, VALUE.headers_at), count):
            return False
        store32(columns + IN_RECORDS.header_ends + 4 * row + 4, slot(request, HEADERS))
    codes, epochs = columns + IN_RECORDS.control_type + 4 * row, columns + IN_RECORDS.coordinator_epoch + 4 * row
    return _put_control(request, codes, epochs, columns + IN_RECORDS.has_epoch + row, values)


@compiled
def _put_records(request: int, at: int, size: int, position: int) -> int:
    """Put the records of a batch; return DONE, FULL, OUTSIDE or REFUSED."""
    values, columns, row = request + 8 * VALUES, slot(request, COLUMNS), slot(request, ROWS)
    count, budget = big32(at + AT.count), slot(request, BUDGET)
    if count == 0:
        return DONE
    if count > ROOM - row:
        return FULL
    body, end = records_at(request, at, size, big16(at + AT.attributes) & CODEC_MASK)
    if body == UNREADABLE:
        return OUTSIDE
    if max(size - SIZE, end - body) > budget:
        return REFUSED
    if _add(request, TAKEN, end - body) > DATA_ROOM:
        return FULL
    put_batch(values, at, position)
    for _ in range(count):
        fields = record(body, end)
        body = fields[8]
        if body == UNREADABLE:
            return REFUSED
        put_record(values, fields)
        if not _put_record(request, columns, values, row):
            return REFUSED
        row += 1
    answer(request, ROWS, row)
    return DONE if body == end else REFUSED


@compiled
def _whole_or_nothing(request: int, at: int, size: int, position: int) -> int:
    """Put the records of a batch, or take back what was counted of them."""
    for counter in COUNTERS:
        answer(request, counter + SAVED, slot(request, counter))
    status = _put_records(request, at, size, position)
    if status != DONE:
        for counter in COUNTERS:
            answer(request, counter, slot(request, counter + SAVED))
    return status


@inlined
def _begin(request: int) -> None:
    """Begin with empty columns, unless a kernel was here before."""
    if slot(request, BATCHES) == 0:
        for counter in COUNTERS:
            answer(request, counter, 0)


@compiled
def _put_first_record(values: int, at: int, size: int, budget: int) -> bool:
    """Put the values of the first record of a batch; False if that is not for kernels."""
    if big16(at + AT.attributes) & CODEC_MASK or size - SIZE > budget:
        return False
    if value(values, VALUE.record_count) == 0:
        store64(values + 8 * VALUE.key_size, -1)
        return True
    fields = record(at + SIZE, at + size)
    put_record(values, fields)
    return fields[8] != UNREADABLE


@inlined
def _put_numbers(columns: int, values: int, row: int) -> None:
    store64(columns + IN_BATCHES.position + 8 * row, value(values, VALUE.position))
    store32(columns + IN_BATCHES.size + 4 * row, value(values, VALUE.size))
    store64(columns + IN_BATCHES.base_offset + 8 * row, value(values, VALUE.base_offset))
    store64(columns + IN_BATCHES.last_offset + 8 * row, value(values, VALUE.last_offset))
    store32(columns + IN_BATCHES.count + 4 * row, value(values, VALUE.record_count))
    store32(columns + IN_BATCHES.partition_leader_epoch + 4 * row, value(values, VALUE.partition_leader_epoch))
    store64(columns + IN_BATCHES.crc + 8 * row, value(values, VALUE.crc))
    store32(columns + IN_BATCHES.compression_type + 4 * row, value(values, VALUE.codec))
    store32(columns + IN_BATCHES.timestamp_type + 4 * row, value(values, VALUE.timestamp_type))
    store8(columns + IN_BATCHES.is_transactional + row, value(values, VALUE.is_transactional))
    store8(columns + IN_BATCHES.is_control + row, value(values, VALUE.is_control))
    store8(columns + IN_BATCHES.has_delete_horizon + row, value(values, VALUE.has_delete_horizon))
    store64(columns + IN_BATCHES.base_timestamp + 8 * row, value(values, VALUE.base_timestamp))
    store64(columns + IN_BATCHES.max_timestamp + 8 * row, value(values, VALUE.max_timestamp))
    store64(columns + IN_BATCHES.producer_id + 8 * row, value(values, VALUE.producer_id))
    store16(columns + IN_BATCHES.producer_epoch + 2 * row, value(values, VALUE.producer_epoch))
    store32(columns + IN_BATCHES.base_sequence + 4 * row, value(values, VALUE.base_sequence))
    store32(columns + IN_BATCHES.last_sequence + 4 * row, value(values, VALUE.last_sequence))


@compiled
def _put_batch(request: int, at: int, size: int, position: int) -> int:
    """Put a batch; return DONE or REFUSED."""
    values, columns, row = request + 8 * VALUES, slot(request, COLUMNS), slot(request, ROWS)
    put_batch(values, at, position)
    if value(values, VALUE.is_control) and not _put_first_record(values, at, size, slot(request, BUDGET)):
        return REFUSED
    codes, epochs = columns + IN_BATCHES.control_type + 4 * row, columns + IN_BATCHES.coordinator_epoch + 4 * row
    if not _put_control(request, codes, epochs, columns + IN_BATCHES.has_epoch + row, values):
        return REFUSED
    _put_numbers(columns, values, row)
    store16(columns + IN_BATCHES.attributes + 2 * row, big16(at + AT.attributes))
    _add(request, HORIZONS, value(values, VALUE.has_delete_horizon))
    _add(request, ROWS, 1)
    return DONE


@inlined
def _put_all(request: int, wants_records: bool) -> None:  # a constant to the compiler
    """Put batches, or their records, as far as nobody could doubt them and there is room."""
    data = slot(request, DATA)
    at, end = data + slot(request, START), data + slot(request, END)
    position, status = slot(request, POSITION) - data, DONE
    _begin(request)
    while at < end:
        if slot(request, ROWS) >= SOFT_ROWS or slot(request, TAKEN) >= SOFT_BYTES:
            status = FULL
            break
        size = look(at, end, slot(request, REFUSED_SIZES))
        if size < 0:
            status = -size
            break
        if wants_records:
            status = _whole_or_nothing(request, at, size, position + at)
        else:
            status = _put_batch(request, at, size, position + at)
        if status != DONE:
            break
        at += size
        answer(request, BATCHES, slot(request, BATCHES) + 1)
    answer(request, STOP, at - data)
    answer(request, STATUS, status)


def batch_columns(request: int) -> int:
    """Make columns of batches, as far as nobody could doubt them and there is room."""
    _put_all(request, False)  # noqa: FBT003  # see there
    return 0


def record_columns(request: int) -> int:
    """Make columns of the records of batches, as far as nobody could doubt them and there is room."""
    columns = slot(request, COLUMNS)
    # Where the first row begins.
    store32(columns + IN_RECORDS.key_ends, 0)
    store32(columns + IN_RECORDS.value_ends, 0)
    store32(columns + IN_RECORDS.header_ends, 0)
    store32(columns + IN_RECORDS.header_key_ends, 0)
    store32(columns + IN_RECORDS.header_value_ends, 0)
    _put_all(request, True)  # noqa: FBT003  # see there
    return 0
