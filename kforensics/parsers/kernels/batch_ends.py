"""The kernel that finds where batches end, without verifying their checksums."""

from __future__ import annotations

from kforensics.parsers.kernels.batch_checks import complete_batch_size, declared_batch_size
from kforensics.parsers.kernels.intrinsics import get_slot, set_slot
from kforensics.parsers.kernels.legacy_entries import complete_entry_size
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
