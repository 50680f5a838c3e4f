"""Two adjacent stretches of a log become one: what is compared at their seam, and what it makes certain.

A stretch with very many producers is told in *blocks*: summaries that agree on the stretch, each of some of its
producers, ascending by producer id. Blocks are merged one after the other, and those before are let go on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from kforensics.forensics.core.record_arrays import copied, free_unused, joined_records, owned, picked, placed
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.replay.chunk_boundary import Seam
from kforensics.forensics.replay.replay_rows import Rows, joined_rows
from kforensics.forensics.replay.resolution import settled
from kforensics.forensics.replay.summary_record import PRODUCER_SUMMARY, Summary, sorted_pending

__all__ = ["BLOCK", "STEP", "cells", "joined_blocks", "merge", "merge_blocks", "taken"]

# Producers of a block, about. Its records are more than what the C library ever keeps in its heap (32 MiB), so that
# they go back to the system as soon as nobody needs them.
BLOCK = 1 << 17
# So many producers at once: what a merge needs beside the two summaries and the new one stays small.
STEP = 1 << 15
# Which holes a record counts, and what says whether they are there.
HOLES = (
    ("first", "has_data"),
    ("last_data", "has_data"),
    ("first_marker", "has_marker"),
    ("last_marker", "has_marker"),
    ("lead", "starts_with_marker"),
)


def merge(left: Summary, right: Summary) -> tuple[Summary, Rows]:
    """Return the summary of two stretches of a log and the rows that it makes certain.

    It is associative, rows included, and ``Summary.empty()`` changes nothing.

    Args:
        left: of a stretch.
        right: of the stretch behind it.
    """
    if left.is_empty or right.is_empty:
        return (right if left.is_empty else left), Rows.of()
    shift = left.holes + _hole_between(left, right)
    producers, pending, rows = _merged(left, right, shift)
    summary = Summary(
        producers=producers,
        pending=pending,
        first_offset=left.first_offset if left.last_offset is not None else right.first_offset,
        last_offset=left.last_offset if right.last_offset is None else right.last_offset,
        batches=left.batches + right.batches,
        holes=shift + right.holes,
        sequences=left.sequences and right.sequences,
    )
    return summary, rows


def merge_blocks(left: list[Summary], right: list[Summary], size: int = BLOCK) -> tuple[list[Summary], Rows]:
    """Return the blocks of two stretches together and the rows that ``merge`` would return; both lists end empty.

    Args:
        left: blocks of a stretch, at least one.
        right: those of the stretch behind it.
        size: producers of a new block, about; none has more than twice as many.
    """
    if len(left) == len(right) == 1 and len(left[0].producers) + len(right[0].producers) <= size:
        block, certain = merge(left.pop(), right.pop())
        return [block], certain
    rows: list[Rows] = []
    cut = cells(taken(left, size), taken(right, size))
    blocks = list(_blocks(_merged_cells(cut, rows), size))
    if len(blocks) > 1:
        free_unused()
    return blocks, joined_rows(rows)


def joined_blocks(blocks: list[Summary]) -> Summary:
    """Return the one summary that blocks are together; the list ends empty."""
    if len(blocks) == 1:
        return blocks.pop()
    producers = np.empty(sum(len(block.producers) for block in blocks), PRODUCER_SUMMARY)
    whole, pending, count = blocks[0], [block.pending for block in blocks], 0
    for block in taken(blocks, BLOCK):
        placed(producers, slice(count, count + len(block.producers)), block.producers)
        count += len(block.producers)
    return replace(whole, producers=producers, pending=joined_records(pending))


def taken(blocks: list[Summary], size: int) -> Iterator[Summary]:
    """Yield blocks, and take each out of the list before; what is larger than twice the size is cut."""
    blocks.reverse()
    while blocks:
        rest = blocks.pop()
        while len(rest.producers) > 2 * size:
            block, rest = rest.cut(size)
            yield block
        yield rest


def cells(left: Iterator[Summary], right: Iterator[Summary]) -> Iterator[tuple[Summary, Summary]]:
    """Yield the blocks of two stretches, cut so that both of a pair are of the same range of producers.

    Args:
        left: blocks of a stretch, at least one; only a single one may know no producer.
        right: those of the stretch behind it.
    """
    one, other = next(left), next(right)
    while len(one.producers) and len(other.producers):
        last = min(block.producers["producer_id"][-1] for block in (one, other))
        (before, one), (behind, other) = _cut_behind(one, last), _cut_behind(other, last)
        yield before, behind
        one = one if len(one.producers) else next(left, one)
        other = other if len(other.producers) else next(right, other)
    yield one, other
    yield from ((block, other) for block in left)
    yield from ((one, block) for block in right)


def _cut_behind(block: Summary, producer_id: int) -> tuple[Summary, Summary]:
    return block.cut(int(np.searchsorted(block.producers["producer_id"], producer_id, "right")))


def _merged_cells(pairs: Iterable[tuple[Summary, Summary]], rows: list[Rows]) -> Iterator[Summary]:
    for before, behind in pairs:
        summary, certain = merge(before, behind)
        rows.append(certain)
        yield summary


def _blocks(pieces: Iterable[Summary], size: int) -> Iterator[Summary]:
    """Yield the blocks that pieces of a stretch make up: what is small joins its neighbours."""
    pile: list[Summary] = []
    count = 0
    for piece in pieces:
        if count and count + len(piece.producers) > size:
            yield from _whole(pile, size)
            count = 0
        if len(piece.producers) or not pile:
            pile.append(piece)
            count += len(piece.producers)
    yield from _whole(pile, size)


def _whole(pile: list[Summary], size: int) -> Iterator[Summary]:
    """Yield blocks of pieces that lie beside each other; none of them keeps what it was cut from in memory."""
    for block in taken([joined_blocks(pile)], size):
        yield replace(block, producers=owned(block.producers), pending=owned(block.pending))


def _hole_between(left: Summary, right: Summary) -> int:
    if left.last_offset is None or right.first_offset is None:
        return 0
    return max(0, right.first_offset - left.last_offset - 1)


def _merged(left: Summary, right: Summary, shift: int) -> tuple[Records, Records, Rows]:
    """Return the records of all producers, what is pending of them, and the rows that are certain."""
    if not len(right.producers):
        return left.producers, left.pending, Rows.of()
    if not len(left.producers):
        return _shifted(copied(right.producers) if shift else right.producers, shift), right.pending, Rows.of()
    ids, others = (np.ascontiguousarray(one.producers["producer_id"]) for one in (left, right))
    at = np.searchsorted(ids, others)
    known = ids[np.minimum(at, len(ids) - 1)] == others
    met, new = np.flatnonzero(known), np.flatnonzero(~known)
    producers = np.empty(len(ids) + len(new), PRODUCER_SUMMARY)
    home = np.arange(len(ids)) + np.searchsorted(others[new], ids)
    placed(producers, home, left.producers)
    for step in _steps(new):
        placed(producers, at[step] + np.searchsorted(new, step), _shifted(picked(right.producers, step), shift))
    certain, waiting = settled(left.producers, right)
    rows, pending = [Rows.of(anomalies=certain)], [left.pending, waiting]
    for step in _steps(met):
        behind = _shifted(picked(right.producers, step), shift)
        seam = Seam(picked(left.producers, at[step]), behind, sequences=left.sequences and right.sequences)
        certain, waiting = seam.anomalies()
        placed(producers, home[at[step]], seam.joined())
        rows += [seam.closed(), Rows.of(anomalies=certain)]
        pending.append(waiting)
    return producers, sorted_pending(joined_records(pending)), joined_rows(rows)


def _steps(indexes: Records) -> Iterator[Records]:
    for first in range(0, len(indexes), STEP):
        yield indexes[first : first + STEP]


def _shifted(producers: Records, shift: int) -> Records:
    """Return the records with holes counted from a beginning that is so many holes farther away; they are changed."""
    if shift:
        for name, present in HOLES:
            producers[name]["holes"] += shift * producers[present]
    return producers
