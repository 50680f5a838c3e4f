"""The kernel that writes lines: of each batch, and of each of its records, as templates say."""

from __future__ import annotations

from kforensics.parsers.kernels.compiler import compiled, inlined
from kforensics.parsers.kernels.headers import look
from kforensics.parsers.kernels.machine import load8, load64, store8, store64
from kforensics.parsers.kernels.payload import records_at
from kforensics.parsers.kernels.records import UNREADABLE, header, record
from kforensics.parsers.kernels.request import (
    BATCH_MARGIN,
    BATCH_OPS,
    BATCHES,
    CONTROL_OPS,
    DATA,
    DONE,
    END,
    FIRST_OFFSET,
    FULL,
    GAPS,
    GAPS_FOUND,
    GAPS_ROOM,
    LAST_OFFSET,
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
from kforensics.parsers.kernels.values import put_batch, put_marker, put_record, value

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
def _note_gap(request: int, gaps: int, last: int, offset: int) -> int:
    """Note a pair of offsets that are not consecutive; return how many pairs there are, or -1 without room."""
    if last < 0 or offset == last + 1:
        return gaps
    if gaps >= slot(request, GAPS_ROOM):
        return -1
    store64(slot(request, GAPS) + 16 * gaps, last)
    store64(slot(request, GAPS) + 16 * gaps + 8, offset)
    return gaps + 1


@compiled
def _put_records(request: int, at: int, size: int, out: int) -> tuple[int, int]:
    """Write the lines of a batch's records; return a status and the address behind them."""
    values, control = request + 8 * VALUES, value(request + 8 * VALUES, VALUE.is_control)
    count = value(values, VALUE.record_count)
    if count == 0:
        return DONE, out
    at, end = records_at(request, at, size, value(values, VALUE.codec))
    operations = slot(request, CONTROL_OPS if control else RECORD_OPS)
    out_end = slot(request, OUT) + slot(request, OUT_SIZE) - slot(request, RECORD_MARGIN)
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
    answer(request, GAPS_FOUND, gaps)
    answer(request, FIRST_OFFSET, first)
    answer(request, LAST_OFFSET, last)
    answer(request, RECORDS, slot(request, RECORDS) + count)
    return DONE, out


def lines(request: int) -> int:
    """Write the lines of batches as far as they are beyond doubt and there is room; see :mod:`.request`."""
    data, out = slot(request, DATA), slot(request, OUT) + slot(request, WRITTEN)
    at, end = data + slot(request, START), data + slot(request, END)
    values, position = request + 8 * VALUES, slot(request, POSITION) - data
    out_end = slot(request, OUT) + slot(request, OUT_SIZE) - slot(request, BATCH_MARGIN)
    status = DONE
    while at < end:
        size = look(at, end, slot(request, REFUSED_SIZES))
        if size < 0 or out > out_end:
            status = -size if size < 0 else FULL
            break
        put_batch(values, at, position + at)
        behind = _put_line(slot(request, BATCH_OPS), values, out)
        if slot(request, RECORD_OPS):
            status, behind = _put_records(request, at, size, behind)
            if status != DONE:
                break
        out = behind
        at += size
        answer(request, BATCHES, slot(request, BATCHES) + 1)
    answer(request, STOP, at - data)
    answer(request, STATUS, status)
    answer(request, WRITTEN, out - slot(request, OUT))
    return 0
