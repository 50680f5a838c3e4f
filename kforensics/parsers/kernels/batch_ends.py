"""The kernel that finds where batches end, without looking at their checksums."""

from __future__ import annotations

from kforensics.parsers.kernels.headers import announced_size, next_size
from kforensics.parsers.kernels.legacy import entry_size
from kforensics.parsers.kernels.request import DATA, DONE, END, NEEDED, START, STATUS, STOP
from kforensics.parsers.kernels.slots import answer, slot

__all__ = ["whole_batches"]


def whole_batches(request: int) -> int:
    """Go over batches of any format that look whole; of one that is not, tell how many bytes it would have."""
    data = slot(request, DATA)
    at, end = data + slot(request, START), data + slot(request, END)
    status = DONE
    while at < end:
        size = next_size(at, end)
        if size < 0:
            size = entry_size(at, end, size)
        if size < 0:
            status = -size
            break
        at += size
    answer(request, STOP, at - data)
    answer(request, STATUS, status)
    answer(request, NEEDED, announced_size(at, end))
    return 0
