"""Walks a ``.log``: every byte ends up in a ``Batch`` or a ``Damage`` row, whatever the file holds.

Kafka's own reader stops at the first thing it does not like. This one says what it could not read, looks for the next
header that checks out, and goes on. A batch whose checksum fails is still a batch where its header makes sense and
another one (or the end) follows where it says; ``crc_valid`` tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kforensics.parsers.checksums import crc32c
from kforensics.parsers.derived import fixed
from kforensics.parsers.headers import CRC_START, LENGTH_END, batch_header, legacy_header, prefix
from kforensics.parsers.layouts import BATCH_HEADER, ENTRY_PREFIX, LEGACY_HEADER_V1
from kforensics.parsers.legacy import LENGTH_FIELD, MIN_SIZE
from kforensics.parsers.resync import next_candidates, zeros_end
from kforensics.parsers.rows import CODECS, Batch, Damage
from kforensics.parsers.source import Source
from kforensics.parsers.window import CHUNK, Window

__all__ = ["batch_bytes", "walk"]

HEADER, PREFIX = fixed(BATCH_HEADER), fixed(ENTRY_PREFIX)
# Kafka asks for one byte more than the prefix before it looks at one.
SMALLEST = PREFIX.size + 1
V1_MIN_SIZE = fixed(LEGACY_HEADER_V1).size + 2 * LENGTH_FIELD - LENGTH_END
NEWEST_MAGIC = 2
# Confirming candidates may read this many times the damaged range: hostile bytes must not cost hours.
RESYNC_READS = 16
RESYNC_FLOOR = 64 << 20


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why there is no batch at a position, and how long it would have been."""

    reason: str
    detail: str
    size: int = 0


def walk(source: Source, start: int = 0, end: int | None = None) -> Iterator[Batch | Damage]:
    """Yield the batches of a log and the ranges that hold none, in order, without gap or overlap.

    Behind a batch may come damage inside it (``inside_batch``): a checksum that fails, a strange magic byte.

    Args:
        source: the log.
        start: position of a batch.
        end: byte behind the last one to look at, None for all.
    """
    window = Window(source, end)
    stop, position = window.end, start
    while position < window.end:
        found = _batch_at(window, position)
        if isinstance(found, Batch):
            position += found.size
            yield found
            yield from _doubts(found)
            continue
        damage = _damage(window, position, found)
        if damage.end <= position:
            break
        position = damage.end
        yield damage
    if position < stop:
        yield Damage(position, stop, "shrunk", "the file has become shorter while it was read")


def _doubts(batch: Batch) -> Iterator[Damage]:
    """Yield what is wrong with a batch that was read all the same."""
    start, end = batch.position, batch.position + batch.size
    if not batch.crc_valid:
        detail = f"the stored checksum {batch.crc} is not that of the bytes; the batch is shown as it is"
        yield Damage(start, end, "crc", detail, inside_batch=start)
    if batch.magic > NEWEST_MAGIC:
        at = start + PREFIX.offsets["magic"]
        detail = f"the magic byte is {batch.magic}, which the checksum does not cover; read as format {NEWEST_MAGIC}"
        yield Damage(at, at + 1, "magic", detail, inside_batch=start)


def batch_bytes(source: Source, batch: Batch) -> bytes:
    """Return all bytes of a batch, its header included."""
    return source.read(batch.position, batch.size)


def _batch_at(window: Window, position: int) -> Batch | _Refusal:
    left = window.end - position
    head = window.read(position, HEADER.size)
    if len(head) < SMALLEST:
        return _Refusal("truncated", f"{left} bytes are too few for a batch header")
    _, length, magic = prefix(head)
    refusal = _refused(length, magic, left)
    if refusal:
        return refusal
    size = LENGTH_END + length
    if magic < 2:
        batch = legacy_header(window.read(position, size), position)
    else:
        batch = batch_header(head, position, crc_of_rest=_crc(window, position + CRC_START, position + size))
    if batch.crc_valid or (_plausible(batch) and _continues(window, position + size)):
        return batch
    return _Refusal("crc", f"the checksum of the batch is wrong (stored {batch.crc}) and no batch follows it", size)


def _refused(length: int, magic: int, left: int) -> _Refusal | None:
    least = MIN_SIZE if magic == 0 else V1_MIN_SIZE if magic == 1 else HEADER.size - LENGTH_END
    size = LENGTH_END + length
    if length < MIN_SIZE:
        return _Refusal("length", f"Found record size {length} smaller than minimum record overhead ({MIN_SIZE})")
    if magic < 0:
        return _Refusal("magic", f"{magic} is no message format", size if size <= left else 0)
    if length < least:
        return _Refusal(
            "length", f"a batch of format {magic} cannot have a length of {length}", size if size <= left else 0
        )
    if size > left:
        return _Refusal("truncated", f"the batch has {size} bytes, of which {left} are there")
    return None


def _crc(window: Window, start: int, end: int) -> int:
    if end - start <= CHUNK:
        return crc32c(window.read(start, end - start))
    checksum = 0
    for piece in window.chunks(start, end):
        checksum = crc32c(piece, checksum)
    return checksum


def _plausible(batch: Batch) -> bool:
    """Whether the fields of a header make sense together, where its checksum does not vouch for them."""
    if batch.last_offset < 0 or batch.codec >= len(CODECS):
        return False
    if batch.is_legacy:
        return True
    delta, count = batch.last_offset_delta or 0, batch.count or 0
    return batch.magic == 2 and (batch.base_offset or 0) >= 0 and delta >= 0 and 0 <= count <= delta + 1


def _continues(window: Window, position: int) -> bool:
    """Whether a batch, what is left of one, zeros or the end of the file stand at a position."""
    head = window.read(position, HEADER.size)
    if len(head) < SMALLEST:
        return not head.strip(b"\0") or (len(head) >= LENGTH_END and prefix(head.ljust(SMALLEST, b"\0"))[1] >= MIN_SIZE)
    base_offset, length, magic = prefix(head)
    if not head[:SMALLEST].strip(b"\0"):
        return True
    if base_offset < 0 or length < MIN_SIZE or magic not in (0, 1, 2):
        return False
    if magic < 2 or len(head) < HEADER.size:
        return True
    return _plausible(batch_header(head, position, crc_of_rest=0))


def _damage(window: Window, position: int, refusal: _Refusal) -> Damage:
    zeros = zeros_end(window, position)
    if zeros == window.end:
        return Damage(
            position, window.end, "zero-tail", f"{window.end - position} zero bytes up to the end of the file"
        )
    good = _next_good(window, position, refusal, zeros)
    reason, detail = refusal.reason, refusal.detail
    if zeros - position > HEADER.size:
        reason, detail = "zeros", f"{zeros - position} zero bytes where a batch should begin"
    if good is None:
        return Damage(position, window.end, reason, detail)
    if reason == "truncated":
        reason, detail = "length", f"{detail}; another batch begins inside it"
    return Damage(position, good, reason, detail, next_good_position=good)


def _next_good(window: Window, position: int, refusal: _Refusal, zeros: int) -> int | None:
    if refusal.size and _confirmed(window, position + refusal.size, window.end):
        return position + refusal.size
    # A header may begin with zeros of its own, up to the magic byte.
    start = max(position + 1, zeros - PREFIX.size)
    budget = RESYNC_FLOOR
    for candidate, size in next_candidates(window, start):
        if size > budget + RESYNC_READS * (candidate - position):
            continue
        if _confirmed(window, candidate, window.end):
            return candidate
        budget -= size
    return None


def _confirmed(window: Window, position: int, end: int) -> bool:
    """Whether a batch with a valid checksum stands at a position."""
    head = window.read(position, HEADER.size)
    if len(head) < SMALLEST:
        return False
    _, length, magic = prefix(head)
    if magic not in (0, 1, 2) or _refused(length, magic, end - position):
        return False
    size = LENGTH_END + length
    if magic < 2:
        return legacy_header(window.read(position, size), position).crc_valid
    return batch_header(head, position, crc_of_rest=_crc(window, position + CRC_START, position + size)).crc_valid
