"""The kernel that writes lines: of each batch, and of each of its records, as templates say."""

from __future__ import annotations

from kforensics.parsers.kernels.compiler import compiled, inlined
from kforensics.parsers.kernels.headers import look
from kforensics.parsers.kernels.legacy import is_old, look_at_entry, put_entry, put_message, put_message_crc, unwrapped
from kforensics.parsers.kernels.machine import load8, load64, store8, store64
from kforensics.parsers.kernels.payload import records_at
from kforensics.parsers.kernels.record_fields import UNREADABLE, header, record
from kforensics.parsers.kernels.request import (
    BATCH_MARGIN,
    BATCH_OPS,
    BATCHES,
    CONTROL_OPS,
    DATA,
    DONE,
    END,
    ENTRY_OPS,
    FIRST_OFFSET,
    FULL,
    GAPS,
    GAPS_FOUND,
    GAPS_ROOM,
    LAST_OFFSET,
    MESSAGE_OPS,
    OUT,
    OUT_SIZE,
    OUTSIDE,
    POSITION,
    RECORD_MARGIN,
    RECORD_OPS,
    RECORDS,
    REFUSED,
    REFUSED_SIZES,
    START,
    STATUS,
    STOP,
    VALUE,
    VALUES,
    WRITTEN,
)
from kforensics.parsers.kernels.slots import answer, slot
from kforensics.parsers.kernels.template_values import put, put_batch, put_marker, put_record, value
from kforensics.parsers.kernels.templates import (
    HEADER_NAMES,
    NUMBER,
    OP_SIZE,
    SKIP_UNLESS,
    UTF8,
    WORD,
    WORD_SIZE,
)
from kforensics.parsers.kernels.text import put_literal, put_number, put_text

__all__ = ["lines"]

# A byte that is no UTF-8 becomes three, and a name in a list has a comma.
EXPANSION = 4
COMMA = ord(",")


@compiled
def _put_header_names(out: int, at: int, count: int) -> int:
    # The headers were looked through when the record was: they end where they should.
    for index in range(count):
        key_at, key_size, _, _, at = header(at, at + (1 << 40))
        if index:
            store8(out, COMMA)
            out += 1
        out = put_text(out, key_at, key_size)
    return out


@compiled
def _put_line(operations: int, values: int, out: int) -> int:
    """Write what a template says; return the address behind it."""
    operation = operations + 8
    end = operation + OP_SIZE * load64(operations)
    while operation < end:
        kind, index = load64(operation), load64(operation + 8)
        text, length = load64(operation + 16), load64(operation + 24)
        out = put_literal(out, text, length)
        if kind == NUMBER:
            out = put_number(out, value(values, index))
        elif kind == WORD:
            word = load64(operation + 32) + WORD_SIZE * value(values, index)
            out = put_literal(out, word + 1, load8(word))
        elif kind == UTF8:
            size = value(values, index + 1)
            if size > 0:
                out = put_text(out, value(values, index), size)
        elif kind == HEADER_NAMES:
            if value(values, index + 1):
                out = _put_header_names(out, value(values, index), value(values, index + 1))
        elif kind == SKIP_UNLESS and value(values, index) == 0:
            operation += OP_SIZE * load64(operation + 32)
        operation += OP_SIZE
    return out


@inlined
def _room_end(request: int, margin: int) -> int:
    """Return the address that no line may begin behind."""
    return slot(request, OUT) + slot(request, OUT_SIZE) - slot(request, margin)


@inlined
def _note_gap(request: int, gaps: int, last: int, offset: int) -> int:
    """Note a pair of offsets that are not consecutive; return how many pairs there are, or -1 without room."""
    if last < 0 or offset == last + 1:
        return gaps
    if gaps >= slot(request, GAPS_ROOM):
        return -1
    store64(slot(request, GAPS) + 16 * gaps, last)
    store64(slot(request, GAPS) + 16 * gaps + 8, offset)
    return gaps + 1


@inlined
def _keep_offsets(request: int, gaps: int, first: int, last: int, count: int) -> None:
    """Answer with the offsets of the records of a batch, all of which are written, and of those before."""
    answer(request, GAPS_FOUND, gaps)
    answer(request, FIRST_OFFSET, first)
    answer(request, LAST_OFFSET, last)
    answer(request, RECORDS, slot(request, RECORDS) + count)


@compiled
def _put_records(request: int, at: int, size: int, out: int) -> tuple[int, int]:
    """Write the lines of a batch's records; return a status and the address behind them."""
    values, control = request + 8 * VALUES, value(request + 8 * VALUES, VALUE.is_control)
    count = value(values, VALUE.record_count)
    if count == 0:
        return DONE, out
    at, end = records_at(request, at, size, value(values, VALUE.codec))
    operations = slot(request, CONTROL_OPS if control else RECORD_OPS)
    out_end = _room_end(request, RECORD_MARGIN)
    gaps, last, first = slot(request, GAPS_FOUND), slot(request, LAST_OFFSET), slot(request, FIRST_OFFSET)
    if at == UNREADABLE:
        return OUTSIDE, out
    for _ in range(count):
        fields = record(at, end)
        behind = fields[8]
        if behind == UNREADABLE:
            return REFUSED, out
        if out + EXPANSION * (behind - at) > out_end:
            return FULL, out
        offset = put_record(values, fields)
        if offset < 0 or (control and not put_marker(values)):
            return REFUSED, out
        gaps = _note_gap(request, gaps, last, offset)
        if gaps < 0:
            return FULL, out
        first = offset if first < 0 else first
        last, at = offset, behind
        out = _put_line(operations, values, out)
    if at != end:
        return REFUSED, out
    _keep_offsets(request, gaps, first, last, count)
    return DONE, out


@compiled
def _put_messages(request: int, at: int, size: int, out: int) -> tuple[int, int]:
    """Write the lines of an entry's messages; return a status and the address behind them."""
    values, count = request + 8 * VALUES, 0
    end, base, is_wrapper = at + size, 0, value(values, VALUE.codec) != 0
    if is_wrapper:
        status, at, end, base = unwrapped(request, values, at, end)
        if status != DONE:
            return status, out
    operations, out_end = slot(request, MESSAGE_OPS), _room_end(request, RECORD_MARGIN)
    gaps, last, first = slot(request, GAPS_FOUND), slot(request, LAST_OFFSET), slot(request, FIRST_OFFSET)
    while at < end:
        behind = put_message(values, at, end, base)
        offset = value(values, VALUE.offset)
        if behind == UNREADABLE or offset < 0:
            return REFUSED, out
        if out + EXPANSION * (behind - at) > out_end:
            return FULL, out
        if is_wrapper:
            put_message_crc(values, at, behind)
        if count == 0:
            put(values, VALUE.base_offset, offset)
        gaps = _note_gap(request, gaps, last, offset)
        if gaps < 0:
            return FULL, out
        first = offset if first < 0 else first
        last, at, count = offset, behind, count + 1
        out = _put_line(operations, values, out)
    _keep_offsets(request, gaps, first, last, count)
    return DONE, out


@inlined
def _put_whole_batch(request: int, at: int, size: int, out: int, position: int) -> tuple[int, int]:
    """Write the lines of a batch and of its records, if they are wanted; return as :func:`_put_records`."""
    values = request + 8 * VALUES
    put_batch(values, at, position)
    out = _put_line(slot(request, BATCH_OPS), values, out)
    return _put_records(request, at, size, out) if slot(request, RECORD_OPS) else (DONE, out)


@inlined
def _put_whole_entry(request: int, at: int, size: int, out: int, position: int) -> tuple[int, int]:
    """Do for an entry of format 0 or 1 what :func:`_put_whole_batch` does for a batch."""
    values = request + 8 * VALUES
    put_entry(values, at, size, position)
    out = _put_line(slot(request, ENTRY_OPS), values, out)
    return _put_messages(request, at, size, out) if slot(request, MESSAGE_OPS) else (DONE, out)


def lines(request: int) -> int:
    """Write the lines of batches as far as they are beyond doubt and there is room; see :mod:`.request`."""
    data, out = slot(request, DATA), slot(request, OUT) + slot(request, WRITTEN)
    at, end = data + slot(request, START), data + slot(request, END)
    position, refused = slot(request, POSITION) - data, slot(request, REFUSED_SIZES)
    out_end, status = _room_end(request, BATCH_MARGIN), DONE
    takes_old = slot(request, ENTRY_OPS) != 0
    while at < end:
        old = takes_old and is_old(at)
        size = look_at_entry(at, end, refused) if old else look(at, end, refused)
        if size < 0 or out > out_end:
            status = -size if size < 0 else FULL
            break
        if old:
            status, behind = _put_whole_entry(request, at, size, out, position + at)
        else:
            status, behind = _put_whole_batch(request, at, size, out, position + at)
        if status != DONE:
            break
        out = behind
        at += size
        answer(request, BATCHES, slot(request, BATCHES) + 1)
    answer(request, STOP, at - data)
    answer(request, STATUS, status)
    answer(request, WRITTEN, out - slot(request, OUT))
    return 0
