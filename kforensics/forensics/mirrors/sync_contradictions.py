"""Compares what MirrorMaker 2 recorded about offsets with where the records really are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kforensics.forensics.mirrors.mirror_ranges import MirrorRange, RangeKind
from kforensics.forensics.mirrors.offset_syncs import OffsetSync
from kforensics.forensics.mirrors.record_matching import NO_OFFSET, MatchedLogs

__all__ = ["sync_contradictions"]


def sync_contradictions(logs: MatchedLogs, syncs: Sequence[OffsetSync]) -> Iterator[MirrorRange]:
    """Yield the offset syncs that name another record than the one that is there.

    A sync is left alone if its record is no longer in the source or in the mirror, or if the source has several records
    of the same content.

    Args:
        logs: the partition and its mirror, record by record.
        syncs: the syncs of the partition.
    """
    by_offset = sorted(syncs, key=lambda sync: sync.offset)
    wanted = np.array([sync.offset for sync in by_offset], "i8")
    for rows in logs.copies:
        at = np.searchsorted(rows["offset"], wanted)
        inside = np.flatnonzero(at < len(rows))
        for number in inside[rows["offset"][at[inside]] == wanted[inside]].tolist():
            row, sync = rows[at[number]], by_offset[number]
            original = int(row["original"])
            is_known = bool(row["is_certain"]) or (original == NO_OFFSET and _is_available(logs, sync.upstream_offset))
            if original != sync.upstream_offset and is_known:
                where = "no record of the source" if original == NO_OFFSET else f"offset {original} of the source"
                yield _contradiction(sync, f"offset {sync.offset} of the mirror is {where}")
    end = logs.mirror.log_end_offset
    for sync in by_offset:
        if sync.offset >= end:
            yield _contradiction(sync, f"the mirror ends at offset {end}")


def _is_available(logs: MatchedLogs, offset: int) -> bool:
    source = logs.source
    return max(source.log_start_offset, source.first_uncompacted_offset) <= offset < source.log_end_offset


def _contradiction(sync: OffsetSync, fact: str) -> MirrorRange:
    offsets = (sync.upstream_offset, sync.upstream_offset)
    detail = f"the sync at offset {sync.at} says {sync.upstream_offset} is {sync.offset} in the mirror, but {fact}"
    return MirrorRange(RangeKind.SYNC_CONTRADICTION, *offsets, 1, sync.offset, sync.offset, detail=detail)
