"""The kernels that find where batches and records end, and decode headers; they do not verify checksums."""

from __future__ import annotations

from kforensics.parsers.kernels.batch_checks import complete_batch_size, declared_batch_size
from kforensics.parsers.kernels.compiler import inlined
from kforensics.parsers.kernels.decoded_fields import get_field, set_batch_fields, set_field
from kforensics.parsers.kernels.intrinsics import get_slot, set_slot, store64
from kforensics.parsers.kernels.legacy_entries import complete_entry_size, set_batch_fields_of_entry
from kforensics.parsers.kernels.record_parser import NO_ADDRESS, parse_int
from kforensics.parsers.kernels.request import DONE, FIELD, FIRST_FIELD_SLOT, HEADER_COLUMN, NOT_THERE, SLOT

HEADER_COUNT = len(HEADER_COLUMN)


def whole_batches(request: int) -> int:
    """Find the end of the complete batches of any format.

    Answer with that end and with the declared size of the incomplete batch after it.
    """
    data = get_slot(request, SLOT.data)
    address, end = data + get_slot(request, SLOT.start), data + get_slot(request, SLOT.end)
    status = DONE
    while address < end:
        size = complete_batch_size(address, end)
        if size < 0:
            size = complete_entry_size(address, end, size)
        if size < 0:
            status = -size
            break
        address += size
    set_slot(request, SLOT.stop, address - data)
    set_slot(request, SLOT.status, status)
    set_slot(request, SLOT.needed_size, declared_batch_size(address, end))
    return 0


@inlined
def _put_header(row: int, fields: int) -> None:
    store64(row + 8 * HEADER_COLUMN.base_offset, get_field(fields, FIELD.base_offset))
    store64(row + 8 * HEADER_COLUMN.last_offset, get_field(fields, FIELD.last_offset))
    store64(row + 8 * HEADER_COLUMN.record_count, get_field(fields, FIELD.record_count))
    store64(row + 8 * HEADER_COLUMN.max_timestamp, get_field(fields, FIELD.max_timestamp))
    store64(row + 8 * HEADER_COLUMN.producer_id, get_field(fields, FIELD.producer_id))
    store64(row + 8 * HEADER_COLUMN.producer_epoch, get_field(fields, FIELD.producer_epoch))
    store64(row + 8 * HEADER_COLUMN.partition_leader_epoch, get_field(fields, FIELD.partition_leader_epoch))
    store64(row + 8 * HEADER_COLUMN.is_transactional, get_field(fields, FIELD.is_transactional))
    store64(row + 8 * HEADER_COLUMN.is_control, get_field(fields, FIELD.is_control))


def batch_headers(request: int) -> int:
    """Write the headers of complete batches of any format to the rows that the slot ``headers`` names."""
    data, fields = get_slot(request, SLOT.data), request + 8 * FIRST_FIELD_SLOT
    address, end = data + get_slot(request, SLOT.start), data + get_slot(request, SLOT.end)
    row = get_slot(request, SLOT.headers)
    while address < end:
        size = complete_batch_size(address, end)
        if size >= 0:
            set_batch_fields(fields, address, 0)
        else:
            size = complete_entry_size(address, end, size)
            if size < 0:
                break
            set_batch_fields_of_entry(fields, address, size, 0)
            set_field(fields, FIELD.producer_id, NOT_THERE)
            set_field(fields, FIELD.producer_epoch, NOT_THERE)
            set_field(fields, FIELD.partition_leader_epoch, NOT_THERE)
            if get_field(fields, FIELD.codec):
                set_field(fields, FIELD.base_offset, NOT_THERE)
        _put_header(row, fields)
        row += 8 * HEADER_COUNT
        address += size
    set_slot(request, SLOT.number, (row - get_slot(request, SLOT.headers)) // (8 * HEADER_COUNT))
    return 0


def whole_records(request: int) -> int:
    """Find the end of the complete records of a batch, at most as many as the slot ``records`` says.

    Answer with that end and with the number of records before it. Only their lengths are looked at.
    """
    data, most = get_slot(request, SLOT.data), get_slot(request, SLOT.records)
    address, end = data + get_slot(request, SLOT.start), data + get_slot(request, SLOT.end)
    count = 0
    while count < most:
        length, body = parse_int(address, end)
        if body == NO_ADDRESS or length < 0 or length > end - body:
            break
        address = body + length
        count += 1
    set_slot(request, SLOT.stop, address - data)
    set_slot(request, SLOT.records, count)
    return 0
