"""The kernels that write columns of batches or of records; see ``column_buffers`` for the output."""

from __future__ import annotations

from kforensics.parsers.format.control_records import CONTROL_TYPES
from kforensics.parsers.format.rows import CODEC_MASK
from kforensics.parsers.kernels.batch_checks import HEADER_FIELD, HEADER_SIZE, valid_batch_size
from kforensics.parsers.kernels.batch_payload import batch_payload
from kforensics.parsers.kernels.column_buffers import (
    BATCH_LAYOUT,
    COLUMN_SLOT,
    COPY_HEADERS,
    COPY_KEYS,
    COPY_VALUES,
    COUNTERS,
    MAX_DATA_BYTES,
    MAX_HEADERS,
    MAX_ROWS,
    NO_CODE,
    RECORD_LAYOUT,
    SAVED,
    SOFT_BYTES,
    SOFT_ROWS,
)
from kforensics.parsers.kernels.compiler import compiled, inlined
from kforensics.parsers.kernels.decoded_fields import (
    KEY_SIZE,
    KEY_TYPE,
    MARKER_EPOCH,
    MARKER_SIZE,
    MARKER_TYPES,
    get_field,
    set_batch_fields,
    set_record_fields,
)
from kforensics.parsers.kernels.intrinsics import (
    big16,
    big32,
    copy,
    get_slot,
    load64,
    set_slot,
    store8,
    store16,
    store32,
    store64,
)
from kforensics.parsers.kernels.legacy_entries import (
    has_legacy_magic,
    set_batch_fields_of_entry,
    set_message_fields,
    signed_attributes,
    unwrap,
    valid_entry_size,
)
from kforensics.parsers.kernels.put_text import is_ascii
from kforensics.parsers.kernels.record_filter import is_batch_selected, is_record_selected
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

KNOWN_TYPES = len(CONTROL_TYPES)
# In place of a control type: the control record is left to pure Python.
UNUSUAL = -2
# Longer keys and values are copied by the C library.
SHORT = 128


@inlined
def _copy_bytes(target: int, source: int, length: int) -> None:
    """Copy bytes, possibly together with a few bytes after them."""
    if length > SHORT:
        copy(target, source, length)
        return
    done = 0
    while done < length:
        first, second = load64(source + done), load64(source + done + 8)
        store64(target + done, first)
        store64(target + done + 8, second)
        done += 16


@inlined
def parse_control(fields: int) -> tuple[int, int, int]:
    """Return the control type (or NO_CODE, or UNUSUAL), whether there is a coordinator epoch, and the epoch."""
    if get_field(fields, FIELD.key_size) < KEY_SIZE:
        return NO_CODE, 0, 0
    key_address, value_address = get_field(fields, FIELD.key_address), get_field(fields, FIELD.value_address)
    control_type = big16(key_address + KEY_TYPE)
    # Key and value both begin with a version.
    if control_type < 0 or control_type >= KNOWN_TYPES or big16(key_address) < 0:
        return UNUSUAL, 0, 0
    if control_type >= MARKER_TYPES or get_field(fields, FIELD.value_size) < MARKER_SIZE:
        return control_type, 0, 0
    if big16(value_address) < 0:
        return UNUSUAL, 0, 0
    return control_type, 1, big32(value_address + MARKER_EPOCH)


@inlined
def _add(request: int, counter: int, number: int) -> int:
    """Add to a counter and return its new value."""
    total = get_slot(request, counter) + number
    set_slot(request, counter, total)
    return total


@inlined
def _put_bytes(  # noqa: PLR0913, PLR0917  # kernels have no objects to pass around
    request: int, counter: int, nulls: int, data: int, address: int, size: int
) -> int:
    """Append a key or value to a data column and return its end in the column."""
    end = get_slot(request, counter)
    if size < 0:
        _add(request, nulls, 1)
        return end
    _copy_bytes(data + end, address, size)
    return _add(request, counter, size)


@compiled
def _put_headers(request: int, columns: int, address: int, count: int) -> bool:
    """Append the headers of a record; return False to leave the batch to pure Python."""
    if get_slot(request, COLUMN_SLOT.headers) + count > MAX_HEADERS:
        return False
    for _ in range(count):
        # No end is needed: the headers were checked together with the record.
        key_address, key_size, value_address, value_size, address = parse_header(address, address + (1 << 40))
        # Keys that are not ASCII are rare. Pure Python replaces invalid UTF-8 in them.
        if not is_ascii(key_address, key_size):
            return False
        # No header key is null.
        key_counter, keys = COLUMN_SLOT.header_key_bytes, columns + RECORD_LAYOUT.header_keys
        key_end = _put_bytes(request, key_counter, COLUMN_SLOT.null_keys, keys, key_address, key_size)
        value_counter, nulls = COLUMN_SLOT.header_value_bytes, COLUMN_SLOT.null_header_values
        values = columns + RECORD_LAYOUT.header_values
        value_end = _put_bytes(request, value_counter, nulls, values, value_address, value_size)
        has_value = 1 if value_size >= 0 else 0
        store8(columns + RECORD_LAYOUT.header_has_value + get_slot(request, COLUMN_SLOT.headers), has_value)
        headers = _add(request, COLUMN_SLOT.headers, 1)
        store32(columns + RECORD_LAYOUT.header_key_ends + 4 * headers, key_end)
        store32(columns + RECORD_LAYOUT.header_value_ends + 4 * headers, value_end)
    return True


@inlined
def _put_control(request: int, codes: int, epochs: int, has_epoch: int, fields: int) -> bool:
    """Write the control columns of the current record; return False to leave the batch to pure Python."""
    control_type, is_epoch_known, epoch = NO_CODE, 0, 0
    if get_field(fields, FIELD.is_control):
        control_type, is_epoch_known, epoch = parse_control(fields)
        _add(request, COLUMN_SLOT.control_rows, 1)
        _add(request, COLUMN_SLOT.epoch_rows, is_epoch_known)
    store32(codes, control_type)
    store32(epochs, epoch)
    store8(has_epoch, is_epoch_known)
    return control_type != UNUSUAL


@inlined
def _put_record(request: int, columns: int, fields: int, row: int) -> bool:
    """Write the columns of the current record; return False to leave the batch to pure Python."""
    key_size, value_size = get_field(fields, FIELD.key_size), get_field(fields, FIELD.value_size)
    store64(columns + RECORD_LAYOUT.batch_position + 8 * row, get_field(fields, FIELD.position))
    store64(columns + RECORD_LAYOUT.offset + 8 * row, get_field(fields, FIELD.offset))
    store64(columns + RECORD_LAYOUT.timestamp + 8 * row, get_field(fields, FIELD.timestamp))
    store32(columns + RECORD_LAYOUT.timestamp_type + 4 * row, get_field(fields, FIELD.timestamp_type))
    store32(columns + RECORD_LAYOUT.sequence + 4 * row, get_field(fields, FIELD.sequence))
    store32(columns + RECORD_LAYOUT.key_size + 4 * row, key_size)
    store32(columns + RECORD_LAYOUT.value_size + 4 * row, value_size)
    copied = get_slot(request, COLUMN_SLOT.copied_fields)
    if copied & COPY_KEYS:
        counter, nulls, keys = COLUMN_SLOT.key_bytes, COLUMN_SLOT.null_keys, columns + RECORD_LAYOUT.keys
        key_end = _put_bytes(request, counter, nulls, keys, get_field(fields, FIELD.key_address), key_size)
        store32(columns + RECORD_LAYOUT.key_ends + 4 * row + 4, key_end)
    if copied & COPY_VALUES:
        counter, nulls, values = COLUMN_SLOT.value_bytes, COLUMN_SLOT.null_values, columns + RECORD_LAYOUT.values
        value_end = _put_bytes(request, counter, nulls, values, get_field(fields, FIELD.value_address), value_size)
        store32(columns + RECORD_LAYOUT.value_ends + 4 * row + 4, value_end)
    if copied & COPY_HEADERS:
        count = get_field(fields, FIELD.header_count)
        if count and not _put_headers(request, columns, get_field(fields, FIELD.headers_address), count):
            return False
        store32(columns + RECORD_LAYOUT.header_ends + 4 * row + 4, get_slot(request, COLUMN_SLOT.headers))
    codes = columns + RECORD_LAYOUT.control_type + 4 * row
    epochs = columns + RECORD_LAYOUT.coordinator_epoch + 4 * row
    return _put_control(request, codes, epochs, columns + RECORD_LAYOUT.has_epoch + row, fields)


@compiled
def _put_records(request: int, address: int, size: int, position: int) -> int:
    """Append the records of a batch; return DONE, OUTPUT_FULL, NEEDS_HOST_CODEC or DECLINED."""
    fields, columns = request + 8 * FIRST_FIELD_SLOT, get_slot(request, COLUMN_SLOT.output)
    row, count = get_slot(request, COLUMN_SLOT.rows), big32(address + HEADER_FIELD.count)
    if count == 0:
        return DONE
    if count > MAX_ROWS - row:
        return OUTPUT_FULL
    body, end = batch_payload(request, address, size, big16(address + HEADER_FIELD.attributes) & CODEC_MASK)
    if body == NO_ADDRESS:
        return NEEDS_HOST_CODEC
    if max(size - HEADER_SIZE, end - body) > get_slot(request, COLUMN_SLOT.budget):
        return DECLINED
    if _add(request, COLUMN_SLOT.record_bytes, end - body) > MAX_DATA_BYTES:
        return OUTPUT_FULL
    set_batch_fields(fields, address, position)
    for _ in range(count):
        parsed = parse_record(body, end)
        body = parsed[8]
        if body == NO_ADDRESS:
            return DECLINED
        set_record_fields(fields, parsed)
        if not is_record_selected(request, fields):
            continue
        if not _put_record(request, columns, fields, row):
            return DECLINED
        row += 1
    set_slot(request, COLUMN_SLOT.rows, row)
    return DONE if body == end else DECLINED


@compiled
def _put_messages(request: int, address: int, size: int, position: int) -> int:
    """Append the messages of an entry of format 0 or 1; return like :func:`_put_records`."""
    fields, columns = request + 8 * FIRST_FIELD_SLOT, get_slot(request, COLUMN_SLOT.output)
    message, end, base = address, address + size, 0
    set_batch_fields_of_entry(fields, address, size, position)
    if get_field(fields, FIELD.codec):
        status, message, end, base = unwrap(request, fields, address, end)
        if status != DONE:
            return status
    if max(size, end - message) > get_slot(request, COLUMN_SLOT.budget):
        return DECLINED
    if _add(request, COLUMN_SLOT.record_bytes, end - message) > MAX_DATA_BYTES:
        return OUTPUT_FULL
    row = get_slot(request, COLUMN_SLOT.rows)
    while message < end:
        if row == MAX_ROWS:
            return OUTPUT_FULL
        message = set_message_fields(fields, message, end, base)
        if message == NO_ADDRESS or get_field(fields, FIELD.offset) < 0:
            return DECLINED
        if not is_record_selected(request, fields):
            continue
        if not _put_record(request, columns, fields, row):
            return DECLINED
        row += 1
    set_slot(request, COLUMN_SLOT.rows, row)
    return DONE


@compiled
def _put_all_records(request: int, address: int, size: int, position: int, is_legacy: bool) -> int:
    """Append the records of a batch, or restore the counters if not all of them can be appended."""
    for counter in COUNTERS:
        set_slot(request, counter + SAVED, get_slot(request, counter))
    if is_legacy:
        status = _put_messages(request, address, size, position)
    else:
        status = _put_records(request, address, size, position)
    if status != DONE:
        for counter in COUNTERS:
            set_slot(request, counter, get_slot(request, counter + SAVED))
    return status


@inlined
def _begin(request: int) -> None:
    """Empty the columns, unless a kernel has been called for this block before."""
    if get_slot(request, SLOT.batches) == 0:
        for counter in COUNTERS:
            set_slot(request, counter, 0)


@compiled
def set_first_record_fields(fields: int, address: int, size: int, budget: int) -> bool:
    """Set the fields of a batch's first record; return False to leave the batch to pure Python."""
    if big16(address + HEADER_FIELD.attributes) & CODEC_MASK or size - HEADER_SIZE > budget:
        return False
    if get_field(fields, FIELD.record_count) == 0:
        store64(fields + 8 * FIELD.key_size, -1)
        return True
    parsed = parse_record(address + HEADER_SIZE, address + size)
    set_record_fields(fields, parsed)
    return parsed[8] != NO_ADDRESS


@inlined
def _put_numbers(columns: int, fields: int, row: int) -> None:
    store64(columns + BATCH_LAYOUT.position + 8 * row, get_field(fields, FIELD.position))
    store32(columns + BATCH_LAYOUT.size + 4 * row, get_field(fields, FIELD.size))
    store64(columns + BATCH_LAYOUT.base_offset + 8 * row, get_field(fields, FIELD.base_offset))
    store64(columns + BATCH_LAYOUT.last_offset + 8 * row, get_field(fields, FIELD.last_offset))
    store32(columns + BATCH_LAYOUT.count + 4 * row, get_field(fields, FIELD.record_count))
    leader_epoch = get_field(fields, FIELD.partition_leader_epoch)
    store32(columns + BATCH_LAYOUT.partition_leader_epoch + 4 * row, leader_epoch)
    store64(columns + BATCH_LAYOUT.crc + 8 * row, get_field(fields, FIELD.crc))
    store32(columns + BATCH_LAYOUT.compression_type + 4 * row, get_field(fields, FIELD.codec))
    store32(columns + BATCH_LAYOUT.timestamp_type + 4 * row, get_field(fields, FIELD.timestamp_type))
    store8(columns + BATCH_LAYOUT.is_transactional + row, get_field(fields, FIELD.is_transactional))
    store8(columns + BATCH_LAYOUT.is_control + row, get_field(fields, FIELD.is_control))
    store8(columns + BATCH_LAYOUT.has_delete_horizon + row, get_field(fields, FIELD.has_delete_horizon))
    store64(columns + BATCH_LAYOUT.base_timestamp + 8 * row, get_field(fields, FIELD.base_timestamp))
    store64(columns + BATCH_LAYOUT.max_timestamp + 8 * row, get_field(fields, FIELD.max_timestamp))
    store64(columns + BATCH_LAYOUT.producer_id + 8 * row, get_field(fields, FIELD.producer_id))
    store16(columns + BATCH_LAYOUT.producer_epoch + 2 * row, get_field(fields, FIELD.producer_epoch))
    store32(columns + BATCH_LAYOUT.base_sequence + 4 * row, get_field(fields, FIELD.base_sequence))
    store32(columns + BATCH_LAYOUT.last_sequence + 4 * row, get_field(fields, FIELD.last_sequence))
    store8(columns + BATCH_LAYOUT.magic + row, get_field(fields, FIELD.magic))


@compiled
def _put_batch(request: int, address: int, size: int, position: int, is_legacy: bool) -> int:
    """Append a batch; return DONE or DECLINED."""
    fields, columns = request + 8 * FIRST_FIELD_SLOT, get_slot(request, COLUMN_SLOT.output)
    row, budget = get_slot(request, COLUMN_SLOT.rows), get_slot(request, COLUMN_SLOT.budget)
    if is_legacy:
        set_batch_fields_of_entry(fields, address, size, position)
    else:
        set_batch_fields(fields, address, position)
    if get_field(fields, FIELD.is_control) and not set_first_record_fields(fields, address, size, budget):
        return DECLINED
    codes = columns + BATCH_LAYOUT.control_type + 4 * row
    epochs = columns + BATCH_LAYOUT.coordinator_epoch + 4 * row
    if not _put_control(request, codes, epochs, columns + BATCH_LAYOUT.has_epoch + row, fields):
        return DECLINED
    _put_numbers(columns, fields, row)
    attributes = signed_attributes(address) if is_legacy else big16(address + HEADER_FIELD.attributes)
    store16(columns + BATCH_LAYOUT.attributes + 2 * row, attributes)
    _add(request, COLUMN_SLOT.horizon_rows, get_field(fields, FIELD.has_delete_horizon))
    _add(request, COLUMN_SLOT.rows, 1)
    return DONE


@inlined
def _put_batches(request: int, wants_records: bool) -> None:  # wants_records is a constant to the compiler
    """Append batches that pass every check, or their records, as long as there is room."""
    data = get_slot(request, SLOT.data)
    address, end = data + get_slot(request, SLOT.start), data + get_slot(request, SLOT.end)
    position, status = get_slot(request, SLOT.position) - data, DONE
    takes_legacy = get_slot(request, COLUMN_SLOT.takes_legacy) != 0
    number = get_slot(request, SLOT.number)
    _begin(request)
    while address < end:
        is_full = get_slot(request, COLUMN_SLOT.rows) >= SOFT_ROWS
        if is_full or get_slot(request, COLUMN_SLOT.record_bytes) >= SOFT_BYTES:
            status = OUTPUT_FULL
            break
        is_legacy, refused_sizes = takes_legacy and has_legacy_magic(address), get_slot(request, SLOT.refused_sizes)
        if is_legacy:
            size = valid_entry_size(address, end, refused_sizes)
        else:
            size = valid_batch_size(address, end, refused_sizes)
        if size < 0:
            status = -size
            break
        if not is_batch_selected(request, number):
            status = DONE
        elif wants_records:
            status = _put_all_records(request, address, size, position + address, is_legacy)
        else:
            status = _put_batch(request, address, size, position + address, is_legacy)
        if status != DONE:
            break
        address += size
        number += 1
        set_slot(request, SLOT.batches, get_slot(request, SLOT.batches) + 1)
    set_slot(request, SLOT.number, number)
    set_slot(request, SLOT.stop, address - data)
    set_slot(request, SLOT.status, status)


def batch_columns(request: int) -> int:
    """Write columns of batches that pass every check, as long as there is room."""
    _put_batches(request, False)  # noqa: FBT003  # see there
    return 0


def record_columns(request: int) -> int:
    """Write columns of the records of batches that pass every check, as long as there is room."""
    columns = get_slot(request, COLUMN_SLOT.output)
    # The first row begins at 0.
    store32(columns + RECORD_LAYOUT.key_ends, 0)
    store32(columns + RECORD_LAYOUT.value_ends, 0)
    store32(columns + RECORD_LAYOUT.header_ends, 0)
    store32(columns + RECORD_LAYOUT.header_key_ends, 0)
    store32(columns + RECORD_LAYOUT.header_value_ends, 0)
    _put_batches(request, True)  # noqa: FBT003  # see there
    return 0
