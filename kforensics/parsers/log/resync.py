"""Finds where a batch may begin after damage, by its magic byte and by header fields that must be consistent.

Candidates are confirmed by the checksum of their batch (``batches``), which leaves one false match in four billion.

A batch may also begin inside the batch before it, because that one is torn: its missing end may equal the first bytes
of the next batch. A record without headers ends in a zero, and offsets begin with zeros. Then the checksum of the torn
batch is valid, and the next one seems to lack its start.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from kforensics.parsers.files.source import BUFFER_BYTES, Window
from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.layouts import BATCH_HEADER, LEGACY_HEADER_V0, LEGACY_HEADER_V1
from kforensics.parsers.format.rows import CODEC_MASK, CODECS, LOG_APPEND_TIME_BIT, Batch, Damage
from kforensics.parsers.log.batch_headers import LENGTH_END, LENGTH_FIELD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HEADER, V0, V1 = fixed_layout(BATCH_HEADER), fixed_layout(LEGACY_HEADER_V0), fixed_layout(LEGACY_HEADER_V1)
ATTRIBUTES_IN_USE = 0x7F
# Bytes searched at a time. In hostile bytes every position can be a candidate, which costs a header of memory each.
SEARCH_CHUNK = 1 << 18
LENGTH_BYTES = range(HEADER.offsets["length"], LENGTH_END)

# After this many zeros, ask the file system whether they are a sparse range and where that ends.
ZEROS_BEFORE_SEEK = 1 << 22
ZEROS = bytes(BUFFER_BYTES)


def zeros_end(window: Window, position: int) -> int:
    """Return the first position at or after ``position`` whose byte is not zero, the window's end if there is none."""
    while position < window.end:
        start = position
        for chunk in window.chunks(start, window.end):
            # Comparing is two hundred times faster than stripping.
            if chunk != ZEROS[: len(chunk)]:
                return position + len(chunk) - len(chunk.lstrip(b"\0"))
            position += len(chunk)
            if position - start >= ZEROS_BEFORE_SEEK:
                break
        if position == start:
            break
        position = min(max(position, window.source.next_data(position)), window.end)
    return window.end


class Candidates:
    """Finds positions that may begin a batch, chunk by chunk; checksums are not computed.

    The last chunk is cached, so that bytes with many damaged ranges are searched only once.
    """

    def __init__(self, window: Window) -> None:
        self._window = window
        self._start, self._positions = -1, list[int]()

    def between(self, position: int, end: int | None = None) -> Iterator[int]:
        """Yield the candidates from ``position`` up to but not including ``end``, in order."""
        start = position - position % SEARCH_CHUNK
        while start < self._window.end and (end is None or start < end):
            positions = self._in_chunk(start)
            for index in range(bisect_left(positions, position), len(positions)):
                if end is not None and positions[index] >= end:
                    return
                yield positions[index]
            start = self._next_chunk(start + SEARCH_CHUNK)

    def _next_chunk(self, start: int) -> int:
        """Return the next chunk to search. Skip sparse ranges, except for zeros that may begin a header."""
        data = self._window.source.next_data(start) if start < self._window.end else start
        nearest = data - HEADER.size
        return max(start, nearest - nearest % SEARCH_CHUNK)

    def _in_chunk(self, start: int) -> list[int]:
        if start != self._start:
            # Chunks overlap by a header, so that none is split.
            data = self._window.read(start, SEARCH_CHUNK + HEADER.size)
            candidates = _candidates(data, self._window.end - start) if len(data) >= V0.size else []
            self._start = start
            self._positions = [start + candidate for candidate in candidates if candidate < SEARCH_CHUNK]
        return self._positions


def _candidates(data: bytes, room: int) -> list[int]:
    """Return the candidates in a chunk.

    Args:
        data: the bytes of the chunk.
        room: bytes from the start of the chunk to the end of the log; a batch must fit.
    """
    import numpy as np  # needed for damaged files only

    buffer = np.frombuffer(data, np.uint8)
    return sorted([*_batches(buffer, room), *_legacy(buffer, room, 0), *_legacy(buffer, room, 1)])


def _batches(buffer: NDArray[np.uint8], room: int) -> list[int]:
    """Return the positions of possible batches of format 2."""
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
    positions: list[int] = starts[keep].tolist()
    return positions


def _legacy(buffer: NDArray[np.uint8], room: int, magic: int) -> list[int]:
    """Return the positions of possible entries of format 0 or 1; key and value must fill the entry exactly."""
    import numpy as np  # needed for damaged files only

    layout = (V0, V1)[magic]
    starts = _with_magic(buffer, magic, layout.size + LENGTH_FIELD)
    rows = _rows(buffer, starts, layout.size).view(layout.dtype).ravel()
    size = rows["size"].astype("i8") + LENGTH_END
    keep = (size >= layout.size + 2 * LENGTH_FIELD) & (starts + size <= room) & (rows["offset"] >= 0)
    allowed = CODEC_MASK | (LOG_APPEND_TIME_BIT if magic else 0)
    keep &= (rows["attributes"] & ~allowed) == 0
    starts, size = starts[keep], size[keep]
    key = np.maximum(_lengths(buffer, starts + layout.size), 0)
    value_field = starts + layout.size + LENGTH_FIELD + key
    # The length of the value may be outside this chunk; the checksum decides about such a candidate.
    inside = (value_field + LENGTH_FIELD <= len(buffer)) & (key < size)
    value = np.maximum(_lengths(buffer, np.where(inside, value_field, 0)), 0)
    exact = layout.size + 2 * LENGTH_FIELD + key + value == size
    keep = (key < size) & (exact | ~inside)
    positions: list[int] = starts[keep].tolist()
    return positions


def _with_magic(buffer: NDArray[np.uint8], magic: int, needed: int) -> NDArray[np.int64]:
    """Return the positions with the magic byte, a length other than zero, and at least ``needed`` bytes."""
    import numpy as np  # needed for damaged files only

    magic_offset, count = HEADER.offsets["magic"], max(0, len(buffer) - needed + 1)
    # No length is zero. This alone excludes zeros in sparse ranges and in numbers, which look like magic 0.
    length = np.bitwise_or.reduce([buffer[byte : byte + count] for byte in LENGTH_BYTES])
    return np.flatnonzero((buffer[magic_offset : magic_offset + count] == magic) & (length != 0)).astype(np.int64)


def _rows(buffer: NDArray[np.uint8], starts: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    import numpy as np  # needed for damaged files only

    if len(buffer) < width:
        return np.empty((0, width), np.uint8)
    return np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(buffer, width)[starts])


def _lengths(buffer: NDArray[np.uint8], positions: NDArray[np.int64]) -> NDArray[np.int64]:
    return _rows(buffer, positions, LENGTH_FIELD).view(">i4").ravel().astype("i8")


MAGIC = HEADER.offsets["magic"]
# How far back to look for the start of the torn batch: first as far as most batches reach.
REACHES = (1 << 16, 1 << 22)

ValidBatch: TypeAlias = Callable[[int], "Batch | None"]


def overlapping_batch(
    window: Window, candidates: Callable[[], Candidates], valid_batch: ValidBatch, start: int, position: int
) -> tuple[Damage, Batch] | None:
    """Return the damage of the torn batch that ends at a position and the batch that begins inside it.

    Args:
        window: the log.
        candidates: returns what finds possible batches.
        valid_batch: returns the batch at a position if its checksum is valid.
        start: position of the first batch to consider.
        position: where one batch ends and no other one begins.
    """
    if position <= start:
        return None
    following = _begun_before(window, valid_batch, start, position)
    if following is None:
        return None
    for reach in REACHES:
        for candidate in reversed(list(candidates().between(max(start, position - reach), following.position))):
            torn = valid_batch(candidate)
            if torn is not None and torn.position + torn.size == position:
                return _overlap_damage(torn, following), following
    return None


def _begun_before(window: Window, valid_batch: ValidBatch, start: int, position: int) -> Batch | None:
    """Return the valid batch whose header contains a position; its start is among the bytes before."""
    first = max(start, position - HEADER.size + 1)
    head = window.peek(first, position - first + MAGIC + 1)
    if not head[position - first :].strip(b"\0") and len(head) > position - first:
        return None  # zeros follow, as in a preallocated file
    for begin in range(position - 1, first - 1, -1):
        magic = head[begin - first + MAGIC : begin - first + MAGIC + 1]
        batch = valid_batch(begin) if magic in (b"\0", b"\1", b"\2") else None
        if batch is not None and batch.position + batch.size > position:
            return batch
    return None


def _overlap_damage(torn: Batch, following: Batch) -> Damage:
    """Return the damage of a torn batch, which concerns the bytes that it shares with the next batch."""
    end = torn.position + torn.size
    there = following.position - torn.position
    detail = (
        f"the batch has {torn.size} bytes, of which {there} are there; the missing ones equal the first bytes of the"
        " next batch"
    )
    return Damage(following.position, end, "truncated", detail, following.position, torn.position)
