"""The kernel that hashes key, value and headers of data records, as :mod:`.columns.content_hash` defines it."""

from __future__ import annotations

from typing import Any, NamedTuple

from kforensics.parsers.format.rows import CODEC_MASK, CONTROL_BIT, LOG_APPEND_TIME_BIT
from kforensics.parsers.kernels.compiler import compiled, inlined
from kforensics.parsers.kernels.hash_buffers import (
    BATCH_ROWS,
    BUDGET,
    COLUMNS,
    FIRST_MULTIPLIER,
    FIRST_SHIFT,
    IN_COLUMNS,
    LAST_SHIFT,
    ROOM,
    ROWS,
    SECOND_MULTIPLIER,
    SECOND_SHIFT,
    SOFT_ROWS,
    STEP,
)
from kforensics.parsers.kernels.headers import AT, FORMAT, SIZE, look
from kforensics.parsers.kernels.machine import big16, big32, big64, load64, shift_right, store64
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
)
from kforensics.parsers.kernels.slots import answer, slot
from kforensics.parsers.kernels.wrapping_integers import plus, times

__all__ = ["record_hashes"]


class _Places(NamedTuple):
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


IN: Any = _Places(**IN_COLUMNS)


@inlined
def _mixed(word: int) -> int:
    word = times(word ^ shift_right(word, FIRST_SHIFT), FIRST_MULTIPLIER)
    word = times(word ^ shift_right(word, SECOND_SHIFT), SECOND_MULTIPLIER)
    return word ^ shift_right(word, LAST_SHIFT)


@inlined
def _with_word(low: int, high: int, place: int, word: int) -> tuple[int, int, int]:
    """Return both sums with one more word in them, and the place behind it."""
    place = plus(place, STEP)
    mixed = _mixed(word ^ place)
    return plus(low, mixed), plus(high, times(mixed, place | 1)), place


@inlined
def _with_part(low: int, high: int, place: int, at: int, size: int) -> tuple[int, int, int]:
    """Return both sums with a key or value in them: its size (-1 for null), then its bytes, the last word padded."""
    low, high, place = _with_word(low, high, place, size)
    left = size
    while left >= 8:
        low, high, place = _with_word(low, high, place, load64(at))
        at += 8
        left -= 8
    if left > 0:
        low, high, place = _with_word(low, high, place, load64(at) & ((1 << (8 * left)) - 1))
    return low, high, place


@compiled
def _with_headers(low: int, high: int, place: int, at: int, count: int) -> tuple[int, int, int]:
    for _ in range(count):
        # They were looked through when the record was: they end where they should.
        key_at, key_size, value_at, value_size, at = header(at, at + (1 << 40))
        low, high, place = _with_part(low, high, place, key_at, key_size)
        low, high, place = _with_part(low, high, place, value_at, value_size)
    return low, high, place


@inlined
def _put_record(columns: int, row: int, fields: tuple[int, int, int, int, int, int, int, int, int]) -> None:
    _, _, key_at, key_size, value_at, value_size, headers_at, header_count, _ = fields
    low, high, place = _with_part(0, 0, 0, key_at, key_size)
    low, high, place = _with_part(low, high, place, value_at, value_size)
    if header_count > 0:
        low, high, place = _with_headers(low, high, place, headers_at, header_count)
    low = _mixed(plus(low, place))
    store64(columns + IN.low + 8 * row, low)
    store64(columns + IN.high + 8 * row, _mixed(plus(high, low)))
    emptiness = 0
    if value_size <= 0:
        emptiness = 2 if key_size <= 0 else 1
    store64(columns + IN.emptiness + 8 * row, emptiness)
    store64(columns + IN.is_keyless + 8 * row, 1 if key_size < 0 else 0)


@inlined
def _put_batch(columns: int, row: int, at: int, position: int) -> None:
    store64(columns + IN.position + 8 * row, position)
    store64(columns + IN.records + 8 * row, big32(at + AT.count))
    store64(columns + IN.base_offset + 8 * row, big64(at + AT.base_offset))
    store64(columns + IN.producer_id + 8 * row, big64(at + AT.producer_id))
    store64(columns + IN.producer_epoch + 8 * row, big16(at + AT.producer_epoch))
    store64(columns + IN.base_sequence + 8 * row, big32(at + AT.base_sequence))
    store64(columns + IN.attributes + 8 * row, big16(at + AT.attributes))
    store64(columns + IN.magic + 8 * row, FORMAT)
    store64(columns + IN.last_offset + 8 * row, plus(big64(at + AT.base_offset), big32(at + AT.last_offset_delta)))
    store64(columns + IN.max_timestamp + 8 * row, big64(at + AT.max_timestamp))
    store64(columns + IN.is_whole + 8 * row, 1)


@compiled
def _put_records(request: int, at: int, size: int, position: int) -> int:
    """Put the records of a batch; return DONE, FULL, OUTSIDE or REFUSED."""
    columns, row = slot(request, COLUMNS), slot(request, ROWS)
    count, attributes, budget = big32(at + AT.count), big16(at + AT.attributes), slot(request, BUDGET)
    if count == 0 or attributes & CONTROL_BIT:
        return DONE
    if count > ROOM - row:
        return FULL
    body, end = records_at(request, at, size, attributes & CODEC_MASK)
    if body == UNREADABLE:
        return OUTSIDE
    if max(size - SIZE, end - body) > budget:
        return REFUSED
    base_offset, append_time = big64(at + AT.base_offset), attributes & LOG_APPEND_TIME_BIT
    timestamp, factor = (big64(at + AT.max_timestamp), 0) if append_time else (big64(at + AT.base_timestamp), 1)
    for _ in range(count):
        fields = record(body, end)
        body = fields[8]
        if body == UNREADABLE:
            return REFUSED
        store64(columns + IN.offset + 8 * row, plus(base_offset, fields[1]))
        store64(columns + IN.timestamp + 8 * row, plus(timestamp, times(factor, fields[0])))
        _put_record(columns, row, fields)
        row += 1
    if body != end:
        return REFUSED
    _put_batch(columns, slot(request, BATCH_ROWS), at, position)
    answer(request, ROWS, row)
    answer(request, BATCH_ROWS, slot(request, BATCH_ROWS) + 1)
    return DONE


def record_hashes(request: int) -> int:
    """Hash the data records of batches, as far as nobody could doubt them and there is room."""
    data = slot(request, DATA)
    at, end = data + slot(request, START), data + slot(request, END)
    position, status = slot(request, POSITION) - data, DONE
    if slot(request, BATCHES) == 0:
        answer(request, ROWS, 0)
        answer(request, BATCH_ROWS, 0)
    while at < end:
        if slot(request, ROWS) >= SOFT_ROWS:
            status = FULL
            break
        size = look(at, end, slot(request, REFUSED_SIZES))
        if size < 0:
            status = -size
            break
        status = _put_records(request, at, size, position + at)
        if status != DONE:
            break
        at += size
        answer(request, BATCHES, slot(request, BATCHES) + 1)
    answer(request, STOP, at - data)
    answer(request, STATUS, status)
    return 0
