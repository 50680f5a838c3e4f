"""The kernels that find where batches end, without verifying their checksums, and where records end."""

from __future__ import annotations

from kforensics.parsers.kernels.batch_checks import complete_batch_size, declared_batch_size
from kforensics.parsers.kernels.intrinsics import get_slot, set_slot
from kforensics.parsers.kernels.legacy_entries import complete_entry_size
from kforensics.parsers.kernels.record_parser import NO_ADDRESS, parse_int
from kforensics.parsers.kernels.request import DONE, SLOT


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
