"""The kernel that writes a line of text for each batch and each of its records, as templates define them."""

from __future__ import annotations

from kforensics.parsers.kernels.batch_checks import HEADER_FIELD, valid_batch_size
from kforensics.parsers.kernels.batch_payload import batch_payload
from kforensics.parsers.kernels.column_kernels import UNUSUAL, parse_control, set_first_record_fields
from kforensics.parsers.kernels.compiler import compiled, inlined
from kforensics.parsers.kernels.decoded_fields import (
    get_field,
    set_batch_fields,
    set_field,
    set_marker_fields,
    set_record_fields,
)
from kforensics.parsers.kernels.intrinsics import big16, get_slot, load8, load64, set_slot, store8, store64
from kforensics.parsers.kernels.legacy_entries import (
    has_legacy_magic,
    set_batch_fields_of_entry,
    set_message_crc,
    set_message_fields,
    signed_attributes,
    unwrap,
    valid_entry_size,
)
from kforensics.parsers.kernels.payload_text import put_headers, put_payload, put_time
from kforensics.parsers.kernels.put_text import put_literal, put_number, put_text
from kforensics.parsers.kernels.record_filter import count_row, has_all_rows, is_batch_selected, is_record_selected
from kforensics.parsers.kernels.record_parser import NO_ADDRESS, parse_header, parse_record
from kforensics.parsers.kernels.redaction import begin_redaction
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
    PUT_HEADERS,
    PUT_LABEL,
    PUT_NUMBER,
    PUT_PAYLOAD,
    PUT_TIME,
    PUT_UTF8,
    SKIP_UNLESS,
)

# A byte that is not valid UTF-8 becomes three, and a header key is followed by a comma; JSON writes some bytes as six
# characters, and names, quotes and a hash of 32 digits for each header.
EXPANSION, HEADER_EXPANSION = 6, 96
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
def _put_line(request: int, operations: int, out: int) -> int:  # noqa: C901  # one branch per kind of operation
    """Write the line that a template defines; return the address after it."""
    fields, operation = request + 8 * FIRST_FIELD_SLOT, operations + 8
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
        elif kind == PUT_PAYLOAD:
            size = get_field(fields, index + 1)
            out = put_payload(request, out, get_field(fields, index), size, load64(operation + 32))
        elif kind == PUT_HEADERS:
            count = get_field(fields, index + 1)
            out = put_headers(request, out, get_field(fields, index), count, load64(operation + 32))
        elif kind == PUT_TIME:
            out = put_time(out, get_field(fields, index))
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
    if last < 0 or offset == last + 1 or get_slot(request, SLOT.gaps_capacity) == 0:
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


@inlined
def _set_control_fields(request: int, fields: int, is_control: int) -> bool:
    """Set the control fields from the current record; return False to leave the batch to pure Python."""
    if not get_slot(request, SLOT.writes_rows):
        return not is_control or set_marker_fields(fields)
    control_type, has_epoch, epoch = parse_control(fields) if is_control else (-1, 0, 0)
    set_field(fields, FIELD.control_label, control_type + 1)
    set_field(fields, FIELD.has_epoch, has_epoch)
    set_field(fields, FIELD.coordinator_epoch, epoch)
    return control_type != UNUSUAL


@compiled
def _put_records(request: int, address: int, size: int, out: int) -> tuple[int, int]:  # noqa: C901  # one per status
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
        if out + EXPANSION * (record_end - address) + HEADER_EXPANSION * parsed[7] > out_end:
            return OUTPUT_FULL, out
        offset = set_record_fields(fields, parsed)
        if offset < 0 or not _set_control_fields(request, fields, is_control):
            return DECLINED, out
        address = record_end
        if not is_record_selected(request, fields):
            continue
        gaps = _put_gap(request, gaps, last, offset)
        if gaps < 0:
            return OUTPUT_FULL, out
        first = offset if first < 0 else first
        last = offset
        out = _put_line(request, operations, out)
        if count_row(request):
            break
    if address != end and not has_all_rows(request):
        return DECLINED, out
    _set_offsets(request, gaps, first, last, count)
    return DONE, out


@compiled
def _put_messages(request: int, address: int, size: int, out: int) -> tuple[int, int]:  # noqa: C901  # one per status
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
        address, count = message_end, count + 1
        if not is_record_selected(request, fields):
            continue
        gaps = _put_gap(request, gaps, last, offset)
        if gaps < 0:
            return OUTPUT_FULL, out
        first = offset if first < 0 else first
        last = offset
        out = _put_line(request, operations, out)
        if count_row(request):
            break
    _set_offsets(request, gaps, first, last, count)
    return DONE, out


@compiled
def _set_row_fields(request: int, fields: int, address: int, size: int) -> bool:
    """Set the fields that only rows of batches have; return False to leave the batch to pure Python."""
    set_field(fields, FIELD.attributes, big16(address + HEADER_FIELD.attributes))
    is_control = get_field(fields, FIELD.is_control)
    if is_control and not set_first_record_fields(fields, address, size, size):
        return False
    return _set_control_fields(request, fields, is_control)


@inlined
def _without_lone_line(request: int, out: int, lines: int, end: int) -> int:
    """Return where the text of a batch ends: if no record is selected, there is no line of the batch either."""
    return out if end == lines and get_slot(request, SLOT.selects_records) else end


@inlined
def _put_batch(request: int, address: int, size: int, out: int, position: int) -> tuple[int, int]:
    """Write the lines of a batch, of its records, or both, as requested; return like :func:`_put_records`."""
    fields, operations = request + 8 * FIRST_FIELD_SLOT, get_slot(request, SLOT.batch_ops)
    set_batch_fields(fields, address, position)
    lines = out
    if operations:
        if get_slot(request, SLOT.writes_rows) and not _set_row_fields(request, fields, address, size):
            return DECLINED, out
        lines = _put_line(request, operations, out)
        if get_slot(request, SLOT.record_ops) == 0:
            count_row(request)
            return DONE, lines
    status, end = _put_records(request, address, size, lines)
    return status, _without_lone_line(request, out, lines, end)


@compiled
def _set_entry_row_fields(request: int, fields: int, address: int, size: int) -> int:
    """Set the fields that only rows of entries have: what is inside a wrapper; return a status."""
    set_field(fields, FIELD.attributes, signed_attributes(address))
    if get_field(fields, FIELD.codec) == 0:
        return DONE
    status, message, end, base = unwrap(request, fields, address, address + size)
    count = 0
    while status == DONE and message < end:
        message = set_message_fields(fields, message, end, base)
        if message == NO_ADDRESS or get_field(fields, FIELD.offset) < 0:
            return DECLINED
        if count == 0:
            set_field(fields, FIELD.base_offset, get_field(fields, FIELD.offset))
        count += 1
    set_field(fields, FIELD.record_count, count)
    return status


@inlined
def _put_entry(request: int, address: int, size: int, out: int, position: int) -> tuple[int, int]:
    """Write the lines of a format 0 or 1 entry, of its messages, or both, as requested."""
    fields, operations = request + 8 * FIRST_FIELD_SLOT, get_slot(request, SLOT.entry_ops)
    set_batch_fields_of_entry(fields, address, size, position)
    lines = out
    if operations:
        if get_slot(request, SLOT.writes_rows):
            status = _set_entry_row_fields(request, fields, address, size)
            if status != DONE:
                return status, out
        lines = _put_line(request, operations, out)
        if get_slot(request, SLOT.message_ops) == 0:
            count_row(request)
            return DONE, lines
    elif not _set_control_fields(request, fields, 0):
        return DECLINED, out
    status, end = _put_messages(request, address, size, lines)
    return status, _without_lone_line(request, out, lines, end)


def lines(request: int) -> int:
    """Write the lines of batches that pass every check, as long as there is room; see :mod:`.request`."""
    data, out = get_slot(request, SLOT.data), get_slot(request, SLOT.out) + get_slot(request, SLOT.written)
    address, end = data + get_slot(request, SLOT.start), data + get_slot(request, SLOT.end)
    position, refused_sizes = get_slot(request, SLOT.position) - data, get_slot(request, SLOT.refused_sizes)
    out_end, status = _last_line_start(request, SLOT.batch_margin), DONE
    takes_legacy = get_slot(request, SLOT.entry_ops) != 0 or get_slot(request, SLOT.message_ops) != 0
    number = get_slot(request, SLOT.number)
    begin_redaction(request)
    while address < end and not has_all_rows(request):
        is_legacy = takes_legacy and has_legacy_magic(address)
        if is_legacy:
            size = valid_entry_size(address, end, refused_sizes)
        else:
            size = valid_batch_size(address, end, refused_sizes)
        if size < 0 or out > out_end:
            status = -size if size < 0 else OUTPUT_FULL
            break
        rows, lines_end = get_slot(request, SLOT.rows), out
        if not is_batch_selected(request, number):
            status = DONE
        elif is_legacy:
            status, lines_end = _put_entry(request, address, size, out, position + address)
        else:
            status, lines_end = _put_batch(request, address, size, out, position + address)
        if status != DONE:
            set_slot(request, SLOT.rows, rows)
            break
        out = lines_end
        address += size
        number += 1
        set_slot(request, SLOT.batches, get_slot(request, SLOT.batches) + 1)
    set_slot(request, SLOT.number, number)
    set_slot(request, SLOT.stop, address - data)
    set_slot(request, SLOT.status, status)
    set_slot(request, SLOT.written, out - get_slot(request, SLOT.out))
    return 0
