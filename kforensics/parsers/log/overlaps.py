"""Finds a batch that begins inside the batch before it, because that one is torn.

The missing end of a torn batch may equal the first bytes of the next batch: a record without headers ends in a zero,
and offsets begin with zeros. Then the checksum of the torn batch is valid, and the next one seems to lack its start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from kforensics.parsers.files.window import Window
from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.layouts import BATCH_HEADER
from kforensics.parsers.format.rows import Batch, Damage

if TYPE_CHECKING:
    from kforensics.parsers.log.resync import Candidates

__all__ = ["overlapping_batch"]

HEADER = fixed_layout(BATCH_HEADER)
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
