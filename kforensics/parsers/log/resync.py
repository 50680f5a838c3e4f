"""Where good data goes on behind damage: the next header that checks out, its checksum included.

Rules 2.8 of the format notes: candidates are found by the magic byte and by fields that must make sense, then confirmed
by checksum, which leaves one false find in four billion.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kforensics.parsers.files.window import CHUNK, Window
from kforensics.parsers.format.derived import fixed
from kforensics.parsers.format.layouts import BATCH_HEADER, LEGACY_HEADER_V0, LEGACY_HEADER_V1
from kforensics.parsers.format.rows import CODEC_MASK, CODECS, LOG_APPEND_TIME_BIT
from kforensics.parsers.log.headers import CRC_START, LEGACY_CRC_START, LENGTH_END
from kforensics.parsers.log.legacy import LENGTH_FIELD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Candidates", "zeros_end"]

HEADER, V0, V1 = fixed(BATCH_HEADER), fixed(LEGACY_HEADER_V0), fixed(LEGACY_HEADER_V1)
ATTRIBUTES_IN_USE = 0x7F
# Hostile bytes make a candidate of every position, and each costs a header of memory.
PIECE = 1 << 18
LENGTH_BYTES = range(HEADER.offsets["length"], LENGTH_END)


# So many zeros are read before the file system is asked for the end of the hole they may be.
PATIENCE = 1 << 22
ZEROS = bytes(CHUNK)


def zeros_end(window: Window, position: int) -> int:
    """Return the first position from ``position`` on whose byte is not zero, the window's end if all are."""
    while position < window.end:
        start = position
        for piece in window.chunks(start, window.end):
            # Comparing is two hundred times faster than stripping.
            if piece != ZEROS[: len(piece)]:
                return position + len(piece) - len(piece.lstrip(b"\0"))
            position += len(piece)
            if position - start >= PATIENCE:
                break
        if position == start:
            break
        position = min(max(position, window.source.hole_end(position)), window.end)
    return window.end


class Candidates:
    """What may be a batch, found piece by piece; the checksum is not looked at.

    Remembers the last piece: bytes with damage at every turn are searched once and not once for each damage.
    """

    def __init__(self, window: Window) -> None:
        self._window = window
        self._start, self._found = -1, list[int]()

    def behind(self, position: int, end: int | None = None) -> Iterator[int]:
        """Yield the positions of candidates in order, from ``position`` on and below ``end``."""
        start = position - position % PIECE
        while start < self._window.end and (end is None or start < end):
            found = self._piece(start)
            for index in range(bisect_left(found, position), len(found)):
                if end is not None and found[index] >= end:
                    return
                yield found[index]
            start = self._skipped(start + PIECE)

    def _skipped(self, start: int) -> int:
        """Return where to look next: not in a hole of the file, but where a header may begin with its last zeros."""
        data = self._window.source.hole_end(start) if start < self._window.end else start
        near = data - HEADER.size
        return max(start, near - near % PIECE)

    def _piece(self, start: int) -> list[int]:
        if start != self._start:
            # Pieces overlap by a header, so that none is cut in two.
            data = self._window.read(start, PIECE + HEADER.size)
            found = _in_piece(data, self._window.end - start) if len(data) >= V0.size else []
            self._start, self._found = start, [start + at for at in found if at < PIECE]
        return self._found


def _in_piece(data: bytes, room: int) -> list[int]:
    import numpy as np  # only damage pays for it

    buffer = np.frombuffer(data, np.uint8)
    found = [*_batches(buffer, room), *_legacy(buffer, room, 0), *_legacy(buffer, room, 1)]
    return sorted(found)


def _batches(buffer: NDArray[np.uint8], room: int) -> list[int]:
    starts = _with_magic(buffer, 2, HEADER.size)
    rows = _rows(buffer, starts, HEADER.size).view(HEADER.dtype).ravel()
    size = rows["length"].astype("i8") + LENGTH_END
    keep = (size >= HEADER.size) & (starts + size <= room) & (rows["base_offset"] >= 0)
    keep &= (rows["attributes"] & ~ATTRIBUTES_IN_USE) == 0
    keep &= (rows["attributes"] & CODEC_MASK) < len(CODECS)
    keep &= (rows["last_offset_delta"] >= 0) & (rows["count"] >= 0)
    keep &= rows["count"].astype("i8") <= rows["last_offset_delta"].astype("i8") + 1
    for name in ("producer_id", "producer_epoch", "base_sequence"):
        keep &= rows[name] >= -1
    found: list[int] = starts[keep].tolist()
    return found


def _legacy(buffer: NDArray[np.uint8], room: int, magic: int) -> list[int]:
    """Find entries of format 0 or 1: key and value lengths must fill the announced size exactly."""
    import numpy as np  # as above

    layout = (V0, V1)[magic]
    starts = _with_magic(buffer, magic, layout.size + LENGTH_FIELD)
    rows = _rows(buffer, starts, layout.size).view(layout.dtype).ravel()
    size = rows["size"].astype("i8") + LENGTH_END
    keep = (size >= layout.size + 2 * LENGTH_FIELD) & (starts + size <= room) & (rows["offset"] >= 0)
    allowed = CODEC_MASK | (LOG_APPEND_TIME_BIT if magic else 0)
    keep &= (rows["attributes"] & ~allowed) == 0
    starts, size = starts[keep], size[keep]
    key = np.maximum(_lengths(buffer, starts + layout.size), 0)
    value_at = starts + layout.size + LENGTH_FIELD + key
    # The value's length may lie outside this piece: such a candidate is left to the checksum.
    inside = (value_at + LENGTH_FIELD <= len(buffer)) & (key < size)
    value = np.maximum(_lengths(buffer, np.where(inside, value_at, 0)), 0)
    exact = layout.size + 2 * LENGTH_FIELD + key + value == size
    keep = (key < size) & (exact | ~inside)
    found: list[int] = starts[keep].tolist()
    return found


def _with_magic(buffer: NDArray[np.uint8], magic: int, needed: int) -> NDArray[np.int64]:
    """Return the positions with the magic byte where it belongs, some length, and ``needed`` bytes in all."""
    import numpy as np  # as above

    at, count = HEADER.offsets["magic"], max(0, len(buffer) - needed + 1)
    # No length is zero: this alone clears the zeros of holes and numbers, which look like magic 0.
    length = np.bitwise_or.reduce([buffer[byte : byte + count] for byte in LENGTH_BYTES])
    return np.flatnonzero((buffer[at : at + count] == magic) & (length != 0)).astype(np.int64)


def _rows(buffer: NDArray[np.uint8], starts: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    import numpy as np  # as above

    if len(buffer) < width:
        return np.empty((0, width), np.uint8)
    return np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(buffer, width)[starts])


def _lengths(buffer: NDArray[np.uint8], at: NDArray[np.int64]) -> NDArray[np.int64]:
    return _rows(buffer, at, LENGTH_FIELD).view(">i4").ravel().astype("i8")


def crc_start(magic: int) -> int:
    """Return where in a batch the bytes under its checksum begin."""
    return LEGACY_CRC_START if magic < 2 else CRC_START
