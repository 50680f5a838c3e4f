"""Merges the summaries of two adjacent chunks into one.

A summary with very many producers is kept in *blocks*: summaries of the same chunk, each of some of its producers, in
ascending order of producer id. Blocks are merged one after the other, and their memory is freed along the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from kforensics.forensics.core.record_arrays import concat_rows, copy_rows, free_unused, own_rows, put_rows, take_rows
from kforensics.forensics.replay.chunk_boundary import ChunkBoundary, resolve_anomalies
from kforensics.forensics.replay.replay_rows import ReplayRows, joined_rows
from kforensics.forensics.replay.summary import (
    PRODUCER_SUMMARY,
    ProducerSummaryArray,
    ReplaySummary,
    UnresolvedArray,
    sorted_unresolved,
)
from kforensics.parsers.format.array_types import IntArray

__all__ = ["BLOCK_SIZE", "STEP_SIZE", "aligned_blocks", "consume_blocks", "join_blocks", "merge", "merge_blocks"]

# Approximate number of producers in a block. Its records take more than the C library ever keeps in its heap (32 MiB),
# so they are returned to the operating system as soon as they are freed.
BLOCK_SIZE = 1 << 17
# Producers to merge at once, which limits the memory that a merge needs beyond its input and output.
STEP_SIZE = 1 << 15
# The fields that contain offset gaps, and the flags that show whether they are present.
OFFSET_GAP_FIELDS = (
    ("first_batch", "has_data"),
    ("last_data", "has_data"),
    ("first_marker", "has_marker"),
    ("last_marker", "has_marker"),
    ("leading_marker", "starts_with_marker"),
)


def merge(left: ReplaySummary, right: ReplaySummary) -> tuple[ReplaySummary, ReplayRows]:
    """Return the summary of two adjacent chunks, and the rows that become certain.

    Merging is associative, rows included; ``ReplaySummary.empty()`` is its neutral element.

    Args:
        left: the summary of a chunk.
        right: the summary of the next chunk.
    """
    if left.is_empty or right.is_empty:
        return (right if left.is_empty else left), ReplayRows.of()
    shift = left.offset_gaps + _gap_between(left, right)
    producers, unresolved, rows = _merge_producers(left, right, shift)
    summary = ReplaySummary(
        producers=producers,
        unresolved=unresolved,
        first_offset=left.first_offset if left.last_offset is not None else right.first_offset,
        last_offset=left.last_offset if right.last_offset is None else right.last_offset,
        batches=left.batches + right.batches,
        offset_gaps=shift + right.offset_gaps,
        sequences=left.sequences and right.sequences,
    )
    return summary, rows


def merge_blocks(
    left: list[ReplaySummary], right: list[ReplaySummary], size: int = BLOCK_SIZE
) -> tuple[list[ReplaySummary], ReplayRows]:
    """Return the merged blocks of two adjacent chunks, and the rows that ``merge`` would return; empties both lists.

    Args:
        left: blocks of a chunk, at least one.
        right: blocks of the next chunk, at least one.
        size: approximate number of producers in a new block; none has more than twice as many.
    """
    if len(left) == len(right) == 1 and len(left[0].producers) + len(right[0].producers) <= size:
        block, certain = merge(left.pop(), right.pop())
        return [block], certain
    rows: list[ReplayRows] = []
    pairs = aligned_blocks(consume_blocks(left, size), consume_blocks(right, size))
    blocks = list(_resized(_merge_pairs(pairs, rows), size))
    if len(blocks) > 1:
        free_unused()
    return blocks, joined_rows(rows)


def join_blocks(blocks: list[ReplaySummary]) -> ReplaySummary:
    """Return blocks as one summary, and empty the list."""
    if len(blocks) == 1:
        return blocks.pop()
    producers = np.empty(sum(len(block.producers) for block in blocks), PRODUCER_SUMMARY)
    whole, unresolved, count = blocks[0], [block.unresolved for block in blocks], 0
    for block in consume_blocks(blocks, BLOCK_SIZE):
        put_rows(producers, slice(count, count + len(block.producers)), block.producers)
        count += len(block.producers)
    return replace(whole, producers=producers, unresolved=concat_rows(unresolved))


def consume_blocks(blocks: list[ReplaySummary], size: int) -> Iterator[ReplaySummary]:
    """Yield blocks, each removed from the list first; blocks of more than twice the size are split."""
    blocks.reverse()
    while blocks:
        rest = blocks.pop()
        while len(rest.producers) > 2 * size:
            block, rest = rest.split(size)
            yield block
        yield rest


def aligned_blocks(
    left: Iterator[ReplaySummary], right: Iterator[ReplaySummary]
) -> Iterator[tuple[ReplaySummary, ReplaySummary]]:
    """Yield the blocks of two adjacent chunks in pairs, split so that both cover the same range of producer ids.

    Args:
        left: blocks of a chunk, at least one; a block may be without producers only if it is the only one.
        right: blocks of the next chunk, with the same restriction.
    """
    left_rest, right_rest = next(left), next(right)
    while len(left_rest.producers) and len(right_rest.producers):
        last = min(block.producers["producer_id"][-1] for block in (left_rest, right_rest))
        left_block, left_rest = _split_after(left_rest, last)
        right_block, right_rest = _split_after(right_rest, last)
        yield left_block, right_block
        left_rest = left_rest if len(left_rest.producers) else next(left, left_rest)
        right_rest = right_rest if len(right_rest.producers) else next(right, right_rest)
    yield left_rest, right_rest
    yield from ((block, right_rest) for block in left)
    yield from ((left_rest, block) for block in right)


def _split_after(block: ReplaySummary, producer_id: int) -> tuple[ReplaySummary, ReplaySummary]:
    return block.split(int(np.searchsorted(block.producers["producer_id"], producer_id, "right")))


def _merge_pairs(
    pairs: Iterable[tuple[ReplaySummary, ReplaySummary]], rows: list[ReplayRows]
) -> Iterator[ReplaySummary]:
    for left, right in pairs:
        summary, certain = merge(left, right)
        rows.append(certain)
        yield summary


def _resized(pieces: Iterable[ReplaySummary], size: int) -> Iterator[ReplaySummary]:
    """Yield blocks made of consecutive pieces; small pieces are joined."""
    pending: list[ReplaySummary] = []
    count = 0
    for piece in pieces:
        if count and count + len(piece.producers) > size:
            yield from _join_pieces(pending, size)
            count = 0
        if len(piece.producers) or not pending:
            pending.append(piece)
            count += len(piece.producers)
    yield from _join_pieces(pending, size)


def _join_pieces(pieces: list[ReplaySummary], size: int) -> Iterator[ReplaySummary]:
    """Yield adjacent pieces as blocks that keep no larger array in memory."""
    for block in consume_blocks([join_blocks(pieces)], size):
        yield replace(block, producers=own_rows(block.producers), unresolved=own_rows(block.unresolved))


def _gap_between(left: ReplaySummary, right: ReplaySummary) -> int:
    if left.last_offset is None or right.first_offset is None:
        return 0
    return max(0, right.first_offset - left.last_offset - 1)


def _merge_producers(
    left: ReplaySummary, right: ReplaySummary, shift: int
) -> tuple[ProducerSummaryArray, UnresolvedArray, ReplayRows]:
    """Return the merged producers, what stays unresolved, and the rows that become certain."""
    if not len(right.producers):
        return left.producers, left.unresolved, ReplayRows.of()
    if not len(left.producers):
        producers = copy_rows(right.producers) if shift else right.producers
        return _shifted(producers, shift), right.unresolved, ReplayRows.of()
    left_ids, right_ids = (np.ascontiguousarray(side.producers["producer_id"]) for side in (left, right))
    index = np.searchsorted(left_ids, right_ids)
    in_both = left_ids[np.minimum(index, len(left_ids) - 1)] == right_ids
    shared, new = np.flatnonzero(in_both), np.flatnonzero(~in_both)
    producers = np.empty(len(left_ids) + len(new), PRODUCER_SUMMARY)
    # Where each producer of the left chunk goes.
    target = np.arange(len(left_ids)) + np.searchsorted(right_ids[new], left_ids)
    put_rows(producers, target, left.producers)
    for step in _steps(new):
        put_rows(producers, index[step] + np.searchsorted(new, step), _shifted(take_rows(right.producers, step), shift))
    certain, still_unresolved = resolve_anomalies(left.producers, right)
    rows, unresolved = [ReplayRows.of(anomalies=certain)], [left.unresolved, still_unresolved]
    sequences = left.sequences and right.sequences
    for step in _steps(shared):
        shifted = _shifted(take_rows(right.producers, step), shift)
        boundary = ChunkBoundary(take_rows(left.producers, index[step]), shifted, sequences=sequences)
        certain, still_unresolved = boundary.anomalies()
        put_rows(producers, target[index[step]], boundary.merged())
        rows += [boundary.closed(), ReplayRows.of(anomalies=certain)]
        unresolved.append(still_unresolved)
    return producers, sorted_unresolved(concat_rows(unresolved)), joined_rows(rows)


def _steps(indexes: IntArray) -> Iterator[IntArray]:
    for first in range(0, len(indexes), STEP_SIZE):
        yield indexes[first : first + STEP_SIZE]


def _shifted(producers: ProducerSummaryArray, shift: int) -> ProducerSummaryArray:
    """Add a number to all offset gaps of producers, in place, and return them."""
    if shift:
        for name, present in OFFSET_GAP_FIELDS:
            producers[name]["offset_gaps"] += shift * producers[present]
    return producers
