"""Columns of keys and values as text, written by a kernel."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np

from kforensics.parsers.kernels.request import SLACK, SLOT
from kforensics.parsers.kernels.templates import (
    AS_BASE64,
    AS_HEX,
    AS_INT,
    AS_LONG,
    AS_REDACTED,
    AS_UTF8,
    BARE,
    PAYLOAD_SLOT,
    PUT_WIDTH,
    WORK_SIZE,
    payload_style,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from kforensics.parsers.kernels.library import Kernels

__all__ = ["payload_texts"]

# A byte takes at most so many in a text, for UTF-8 as a replacement of what is none. The rest of a text is shorter than
# what is written at once.
WIDTHS = {AS_UTF8: 3, AS_HEX: 2, AS_BASE64: 2, AS_INT: 2, AS_LONG: 2, AS_REDACTED: 0}
MAX_SIZE = (1 << 31) - 1


def payload_texts(
    column: pa.Array,
    kind: pa.DataType,
    kernels: Kernels,
    payload_format: int,
    redaction: ctypes.Array[ctypes.c_char] | None = None,
) -> pa.Array | None:
    """Return keys or values as text; None if there are none, or too many for one array. Nulls stay null.

    Args:
        column: an array of ``binary``.
        kind: type of the result, ``binary`` or ``string``.
        kernels: the kernels.
        payload_format: a format of ``templates``, such as ``AS_HEX``.
        redaction: from ``templates.redaction_memory``, if payloads are redacted.
    """
    import pyarrow as pa  # needed for Arrow formats only

    from kforensics.parsers.kernels.library import Request

    count = len(column)
    if not count:
        return None
    starts = np.frombuffer(column.buffers()[1], "=i4")[column.offset : column.offset + count + 1]
    first, last = int(starts[0]), int(starts[-1])
    starts, size = starts - first, last - first
    capacity = WIDTHS[payload_format] * size + PUT_WIDTH * count
    if capacity > MAX_SIZE:
        return None
    data = np.zeros(size + SLACK, "u1")
    if size:
        data[:size] = np.frombuffer(column.buffers()[2], "u1")[first:last]
    validity = column.is_valid().to_numpy(zero_copy_only=False).astype("u1") if column.null_count else None
    texts, ends = np.empty(capacity + SLACK, "u1"), np.zeros(count + 1, "=i4")
    work = np.zeros(WORK_SIZE + SLACK, "u1")
    request = Request()
    request[SLOT.data], request[SLOT.out] = data.ctypes.data, texts.ctypes.data
    request[PAYLOAD_SLOT.payloads], request[PAYLOAD_SLOT.starts] = count, starts.ctypes.data
    request[PAYLOAD_SLOT.validity] = 0 if validity is None else validity.ctypes.data
    request[PAYLOAD_SLOT.style] = payload_style(payload_format, BARE)
    request[PAYLOAD_SLOT.out_starts] = ends.ctypes.data
    if redaction is not None:
        request[SLOT.redaction], request[SLOT.redaction_work] = ctypes.addressof(redaction), work.ctypes.data
    kernels.payload_texts(request.address)
    valid = None if validity is None else pa.py_buffer(np.packbits(validity, bitorder="little"))
    return pa.Array.from_buffers(
        kind, count, [valid, pa.py_buffer(ends), pa.py_buffer(texts[: ends[-1]])], column.null_count
    )
