"""The kernel that writes a line of text for each batch and each of its records, as templates define them."""

from __future__ import annotations

import numpy as np

from kforensics.parsers.kernels.batch_checks import valid_batch_size
from kforensics.parsers.kernels.batch_payload import batch_payload
from kforensics.parsers.kernels.compiler import compiled, inlined, int64
from kforensics.parsers.kernels.decoded_fields import (
    get_field,
    set_batch_fields,
    set_field,
    set_marker_fields,
    set_record_fields,
)
from kforensics.parsers.kernels.intrinsics import (
    bit_length,
    get_slot,
    load8,
    load64,
    set_slot,
    store8,
    store16,
    store64,
    trailing_zeros,
)
from kforensics.parsers.kernels.legacy_entries import (
    has_legacy_magic,
    set_entry_fields,
    set_message_crc,
    set_message_fields,
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
from kforensics.parsers.kernels.templates import (
    LABEL_SIZE,
    OPERATION_SIZE,
    PUT_HEADER_KEYS,
    PUT_LABEL,
    PUT_NUMBER,
    PUT_UTF8,
    SKIP_UNLESS,
)

PAIRS = np.frombuffer(b"".join(b"%02d" % number for number in range(100)), "<u2").copy()
POWERS = np.array([10**digits for digits in range(19)], np.int64)
# The only number whose absolute value does not fit into an int64.
INT64_MIN = -(1 << 63)
INT64_MIN_DIGITS = np.frombuffer(b"9223372036854775808", np.uint8).copy()
# 1233 / 4096 is slightly more than the decimal logarithm of 2.
LOG_NUMERATOR, LOG_SHIFT = 1233, 12
MINUS, ZERO = ord("-"), ord("0")
HIGH_BITS = int.from_bytes(b"\x80" * 8, signed=True)
# The range of a continuation byte.
CONTINUATION_MIN, CONTINUATION_END = 0x80, 0xC0


@inlined
def put_literal(out: int, text: int, length: int) -> int:
    """Write text that is known to be valid; return the address after it."""
    done = 0
    while done < length:
        store64(out + done, load64(text + done))
        done += 8
    return out + length


@compiled
def _put_int64_min(out: int) -> int:
    for digit in INT64_MIN_DIGITS:
        store8(out, int64(digit))
        out += 1
    return out


@inlined
def put_number(out: int, number: int) -> int:
    """Write a number in decimal digits; return the address after it."""
    if number < 0:
        store8(out, MINUS)
        out += 1
        if number == INT64_MIN:
            return _put_int64_min(out)
        number = -number
    if number < 10:
        store8(out, ZERO + number)
        return out + 1
    digits = bit_length(number) * LOG_NUMERATOR >> LOG_SHIFT
    if number >= POWERS[digits]:
        digits += 1
    address = out + digits
    left = np.uint64(number)
    while left >= np.uint64(100):
        rest = left // np.uint64(100)
        address -= 2
        store16(address, int64(PAIRS[left - rest * np.uint64(100)]))
        left = rest
    if left >= np.uint64(10):
        store16(address - 2, int64(PAIRS[left]))
    else:
        store8(address - 1, ZERO + int64(left))
    return out + digits


@inlined
def _is_in_range(address: int, end: int, low: int, high: int) -> bool:
    if address >= end:
        return False
    byte = load8(address)
    return low <= byte < high


@compiled
def _multi_byte_character(address: int, end: int) -> tuple[bool, int]:
    """Return whether a valid character of several bytes begins here, and the bytes of the character or replacement.

    Like Java and Python, this replaces the longest prefix of a valid character with one U+FFFD. As in Java, an encoded
    surrogate is one replacement.
    """
    lead = load8(address)
    if 0xC2 <= lead < 0xE0:
        return (True, 2) if _is_in_range(address + 1, end, CONTINUATION_MIN, CONTINUATION_END) else (False, 1)
    if lead < 0xE0 or lead > 0xF4:
        return False, 1
    low, high = CONTINUATION_MIN, CONTINUATION_END
    if lead == 0xE0:
        low = 0xA0
    elif lead == 0xF0:
        low = 0x90
    elif lead == 0xF4:
        high = 0x90
    if not _is_in_range(address + 1, end, low, high):
        return False, 1
    if not _is_in_range(address + 2, end, CONTINUATION_MIN, CONTINUATION_END):
        return False, 2
    if lead < 0xF0:
        return lead != 0xED or load8(address + 1) < 0xA0, 3
    return (True, 4) if _is_in_range(address + 3, end, CONTINUATION_MIN, CONTINUATION_END) else (False, 3)


@compiled
def _put_characters(out: int, address: int, end: int) -> int:
    while address < end:
        word = load64(address)
        high = word & HIGH_BITS
        store64(out, word)
        ascii_length = min(end - address, trailing_zeros(high) >> 3 if high else 8)
        address += ascii_length
        out += ascii_length
        if ascii_length < 8 and address < end:
            is_valid, length = _multi_byte_character(address, end)
            if is_valid:
                for index in range(length):
                    store8(out + index, load8(address + index))
                out += length
            else:
                store8(out, 0xEF)
                store8(out + 1, 0xBF)
                store8(out + 2, 0xBD)
                out += 3
            address += length
    return out


@inlined
def put_text(out: int, address: int, size: int) -> int:
    """Write bytes as UTF-8 and replace invalid ones like Java; return the address after the text."""
    end = address + size
    while end - address >= 32:
        first, second = load64(address), load64(address + 8)
        third, fourth = load64(address + 16), load64(address + 24)
        if (first | second | third | fourth) & HIGH_BITS:
            return _put_characters(out, address, end)
        store64(out, first)
        store64(out + 8, second)
        store64(out + 16, third)
        store64(out + 24, fourth)
        address += 32
        out += 32
    while address < end:
        word = load64(address)
        left = end - address
        if word & HIGH_BITS and trailing_zeros(word & HIGH_BITS) < 8 * left:
            return _put_characters(out, address, end)
        store64(out, word)
        if left <= 8:
            return out + left
        address += 8
        out += 8
    return out


# A byte that is not valid UTF-8 becomes three, and a header key is followed by a comma.
EXPANSION = 4
COMMA = ord(",")


@compiled
def _put_header_keys(out: int, address: int, count: int) -> int:
    # No end is needed: the headers were checked together with the record.
    for index in range(count):
        key_address, key_size, _, _, address = parse_header(address, address + (1 << 40))
        if index:
            store8(out, COMMA)
            out += 1
        out = put_text(out, key_address, key_size)
    return out


@compiled
def _put_line(operations: int, fields: int, out: int) -> int:
    """Write the line that a template defines; return the address after it."""
    operation = operations + 8
    end = operation + OPERATION_SIZE * load64(operations)
    while operation < end:
        kind, index = load64(operation), load64(operation + 8)
        text, length = load64(operation + 16), load64(operation + 24)
        out = put_literal(out, text, length)
        if kind == PUT_NUMBER:
            out = put_number(out, get_field(fields, index))
        elif kind == PUT_LABEL:
            label = load64(operation + 32) + LABEL_SIZE * get_field(fields, index)
            out = put_literal(out, label + 1, load8(label))
        elif kind == PUT_UTF8:
            size = get_field(fields, index + 1)
            if size > 0:
                out = put_text(out, get_field(fields, index), size)
        elif kind == PUT_HEADER_KEYS:
            if get_field(fields, index + 1):
                out = _put_header_keys(out, get_field(fields, index), get_field(fields, index + 1))
        elif kind == SKIP_UNLESS and get_field(fields, index) == 0:
            operation += OPERATION_SIZE * load64(operation + 32)
        operation += OPERATION_SIZE
    return out


@inlined
def _last_line_start(request: int, margin: int) -> int:
    """Return the last address at which a line may begin."""
    return get_slot(request, SLOT.out) + get_slot(request, SLOT.out_size) - get_slot(request, margin)


@inlined
def _put_gap(request: int, gaps: int, last: int, offset: int) -> int:
    """Append a pair of offsets that are not consecutive; return the number of pairs, or -1 if there is no room."""
    if last < 0 or offset == last + 1:
        return gaps
    if gaps >= get_slot(request, SLOT.gaps_capacity):
        return -1
    store64(get_slot(request, SLOT.gaps) + 16 * gaps, last)
    store64(get_slot(request, SLOT.gaps) + 16 * gaps + 8, offset)
    return gaps + 1


@inlined
def _set_offsets(request: int, gaps: int, first: int, last: int, count: int) -> None:
    """Answer with the offsets of all records so far, once every record of a batch is written."""
    set_slot(request, SLOT.gap_count, gaps)
    set_slot(request, SLOT.first_offset, first)
    set_slot(request, SLOT.last_offset, last)
    set_slot(request, SLOT.records, get_slot(request, SLOT.records) + count)


@compiled
def _put_records(request: int, address: int, size: int, out: int) -> tuple[int, int]:
    """Write the lines of a batch's records; return a status and the address after them."""
    fields = request + 8 * FIRST_FIELD_SLOT
    is_control, count = get_field(fields, FIELD.is_control), get_field(fields, FIELD.record_count)
    if count == 0:
        return DONE, out
    address, end = batch_payload(request, address, size, get_field(fields, FIELD.codec))
    operations = get_slot(request, SLOT.control_ops if is_control else SLOT.record_ops)
    out_end = _last_line_start(request, SLOT.record_margin)
    gaps, last = get_slot(request, SLOT.gap_count), get_slot(request, SLOT.last_offset)
    first = get_slot(request, SLOT.first_offset)
    if address == NO_ADDRESS:
        return NEEDS_HOST_CODEC, out
    for _ in range(count):
        parsed = parse_record(address, end)
        record_end = parsed[8]
        if record_end == NO_ADDRESS:
            return DECLINED, out
        if out + EXPANSION * (record_end - address) > out_end:
            return OUTPUT_FULL, out
        offset = set_record_fields(fields, parsed)
        if offset < 0 or (is_control and not set_marker_fields(fields)):
            return DECLINED, out
        gaps = _put_gap(request, gaps, last, offset)
        if gaps < 0:
            return OUTPUT_FULL, out
        first = offset if first < 0 else first
        last, address = offset, record_end
        out = _put_line(operations, fields, out)
    if address != end:
        return DECLINED, out
    _set_offsets(request, gaps, first, last, count)
    return DONE, out


@compiled
def _put_messages(request: int, address: int, size: int, out: int) -> tuple[int, int]:
    """Write the lines of an entry's messages; return a status and the address after them."""
    fields, count = request + 8 * FIRST_FIELD_SLOT, 0
    end, base, is_wrapper = address + size, 0, get_field(fields, FIELD.codec) != 0
    if is_wrapper:
        status, address, end, base = unwrap(request, fields, address, end)
        if status != DONE:
            return status, out
    operations, out_end = get_slot(request, SLOT.message_ops), _last_line_start(request, SLOT.record_margin)
    gaps, last = get_slot(request, SLOT.gap_count), get_slot(request, SLOT.last_offset)
    first = get_slot(request, SLOT.first_offset)
    while address < end:
        message_end = set_message_fields(fields, address, end, base)
        offset = get_field(fields, FIELD.offset)
        if message_end == NO_ADDRESS or offset < 0:
            return DECLINED, out
        if out + EXPANSION * (message_end - address) > out_end:
            return OUTPUT_FULL, out
        if is_wrapper:
            set_message_crc(fields, address, message_end)
        if count == 0:
            set_field(fields, FIELD.base_offset, offset)
        gaps = _put_gap(request, gaps, last, offset)
        if gaps < 0:
            return OUTPUT_FULL, out
        first = offset if first < 0 else first
        last, address, count = offset, message_end, count + 1
        out = _put_line(operations, fields, out)
    _set_offsets(request, gaps, first, last, count)
    return DONE, out


@inlined
def _put_batch(request: int, address: int, size: int, out: int, position: int) -> tuple[int, int]:
    """Write the lines of a batch and, if requested, of its records; return like :func:`_put_records`."""
    fields = request + 8 * FIRST_FIELD_SLOT
    set_batch_fields(fields, address, position)
    out = _put_line(get_slot(request, SLOT.batch_ops), fields, out)
    return _put_records(request, address, size, out) if get_slot(request, SLOT.record_ops) else (DONE, out)


@inlined
def _put_entry(request: int, address: int, size: int, out: int, position: int) -> tuple[int, int]:
    """Write the lines of a format 0 or 1 entry and, if requested, of its messages."""
    fields = request + 8 * FIRST_FIELD_SLOT
    set_entry_fields(fields, address, size, position)
    out = _put_line(get_slot(request, SLOT.entry_ops), fields, out)
    return _put_messages(request, address, size, out) if get_slot(request, SLOT.message_ops) else (DONE, out)


def lines(request: int) -> int:
    """Write the lines of batches that pass every check, as long as there is room; see :mod:`.request`."""
    data, out = get_slot(request, SLOT.data), get_slot(request, SLOT.out) + get_slot(request, SLOT.written)
    address, end = data + get_slot(request, SLOT.start), data + get_slot(request, SLOT.end)
    position, refused_sizes = get_slot(request, SLOT.position) - data, get_slot(request, SLOT.refused_sizes)
    out_end, status = _last_line_start(request, SLOT.batch_margin), DONE
    takes_legacy = get_slot(request, SLOT.entry_ops) != 0
    while address < end:
        is_legacy = takes_legacy and has_legacy_magic(address)
        if is_legacy:
            size = valid_entry_size(address, end, refused_sizes)
        else:
            size = valid_batch_size(address, end, refused_sizes)
        if size < 0 or out > out_end:
            status = -size if size < 0 else OUTPUT_FULL
            break
        if is_legacy:
            status, lines_end = _put_entry(request, address, size, out, position + address)
        else:
            status, lines_end = _put_batch(request, address, size, out, position + address)
        if status != DONE:
            break
        out = lines_end
        address += size
        set_slot(request, SLOT.batches, get_slot(request, SLOT.batches) + 1)
    set_slot(request, SLOT.stop, address - data)
    set_slot(request, SLOT.status, status)
    set_slot(request, SLOT.written, out - get_slot(request, SLOT.out))
    return 0
