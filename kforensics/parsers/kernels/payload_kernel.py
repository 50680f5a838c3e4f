"""The kernel that writes a column of keys or values as text, in one of their formats."""

from __future__ import annotations

from kforensics.parsers.kernels.intrinsics import get_slot, load8, load32, store32
from kforensics.parsers.kernels.payload_text import put_payload
from kforensics.parsers.kernels.redaction import begin_redaction
from kforensics.parsers.kernels.request import DONE, SLOT
from kforensics.parsers.kernels.templates import PAYLOAD_SLOT


def payload_texts(request: int) -> int:
    """Write all payloads as text, one after the other; there is room for them."""
    data, starts = get_slot(request, SLOT.data), get_slot(request, PAYLOAD_SLOT.starts)
    validity, style = get_slot(request, PAYLOAD_SLOT.validity), get_slot(request, PAYLOAD_SLOT.style)
    begin, out_starts = get_slot(request, SLOT.out), get_slot(request, PAYLOAD_SLOT.out_starts)
    begin_redaction(request)
    out = begin
    store32(out_starts, 0)
    for index in range(get_slot(request, PAYLOAD_SLOT.payloads)):
        if validity == 0 or load8(validity + index):
            start = load32(starts + 4 * index)
            out = put_payload(request, out, data + start, load32(starts + 4 * index + 4) - start, style)
        store32(out_starts + 4 * index + 4, out - begin)
    return DONE
