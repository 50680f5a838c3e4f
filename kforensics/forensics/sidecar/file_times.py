"""What the times of files show: what a running broker may have changed during the copy, and how late it was."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from kforensics.forensics.core.broker_settings import CLEANUP_POLICY, RETENTION_BYTES, RETENTION_MS
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.partition.kept_times import kept_until
from kforensics.forensics.partition.partition_files import LOG_START
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.superseded_segments import first_checkpointed_epoch
from kforensics.parsers.files.log_names import ALWAYS_COMPACTED
from kforensics.parsers.format.array_types import IntArray

__all__ = ["lag_of_follower", "may_be_live", "moved_start", "time_of_copy", "vanished_indexes"]


# How long a broker takes at most from collecting the offsets for a checkpoint to writing it.
CHECKPOINTING_MS = 2_000


def may_be_live(state: PartitionState, segment: int) -> bool:
    """Return whether the broker may have written to a segment while it was copied."""
    return segment == len(state.partition.segments) - 1 and not state.partition.log_dir.clean_shutdown


def time_of_copy(state: PartitionState) -> int:
    """Return when the files were copied at the latest: a copy is as old as they are, however late it is evaluated."""
    taken = state.partition.taken_ms
    taken = state.rules.as_of_ms if taken is None else min(taken, state.rules.as_of_ms)
    if kept_until(state) == NO_TIME:  # the files are of the time of a later copy
        taken = min(taken, state.log.newest_timestamp)
    return taken


def lag_of_follower(state: PartitionState, offsets: IntArray) -> IntArray:
    """Return how much later than its newest timestamp, in ms, the segment of each offset was written for the last time.

    Brokers append at once what they get from producers, so a broker that was later had to catch up with its leader. A
    copy without the times of files shows nothing.

    Args:
        state: the partition.
        offsets: offsets in its log.
    """
    segments = state.log.segments
    if kept_until(state) == NO_TIME or not len(segments):
        return np.zeros(len(offsets), "i8")
    written = np.array([state.partition.segments[number].mtime_ms or 0 for number in segments["segment"]], "i8")
    written = np.minimum.accumulate(written[::-1])[::-1]  # none is written to after a later one
    newest = segments["max_timestamp"]
    lags = np.where(newest < 0, 0, np.maximum(written - newest, 0))  # message format 0 has no timestamps
    lag: IntArray = lags[np.maximum(segments["first_offset"].searchsorted(offsets, "right") - 1, 0)]
    return lag


def moved_start(state: PartitionState) -> int:
    """Return the log start offset of a running broker by its leader epochs, 0 if they do not show it.

    A broker has the first leader epoch begin at the log start offset as soon as that moves, which its checkpoint shows
    up to a minute later. A cleaner drops the index entries below it, not the records. After a crash the log start
    offset may have gone back. A broker that has lost the leader epochs rebuilds them from a part of the log. Then the
    checkpoint of log start offsets shows no moved one, although it was written after them. Rule:
    ``LeaderEpochFileCache.truncateFromStart``, ``LogManager.checkpointLogStartOffsets``,
    ``UnifiedLog.collectAbortedTransactions``.
    """
    if state.partition.log_dir.clean_shutdown or _is_start_written_after_epochs(state):
        return 0
    return first_checkpointed_epoch(state.partition)


def _is_start_written_after_epochs(state: PartitionState) -> bool:
    """Return whether the log start offsets were checkpointed after the leader epochs, in a copy with file times."""
    epochs, log_dir = state.partition.leader_epochs, state.partition.log_dir
    if LOG_START not in log_dir.checkpoints or epochs is None or epochs.mtime_ms is None:
        return False
    # The offsets are collected shortly before the file is written, and archives keep whole seconds.
    is_later = log_dir.written.get(LOG_START, NO_TIME) > epochs.mtime_ms + CHECKPOINTING_MS
    return is_later and kept_until(state) != NO_TIME


def vanished_indexes(state: PartitionState) -> range:
    """Return the numbers of the segments whose index may have been renamed between their copy and its own.

    A running broker deletes segments from the start of the log and renames their files one by one, and they may be
    copied in another order. So these are all up to the last one that lacks another index, which brokers always keep.
    The first segments count, too, as long as none has an index, if files beside them show that segments were being
    deleted, or if retention was to delete them. The active segment is not deleted.
    """
    partition = state.partition
    if partition.log_dir.clean_shutdown:
        return range(0)
    closed = list(enumerate(segment.base_offset or 0 for segment in partition.segments[:-1]))
    first_with_index = (number for number, base in closed if base in partition.transaction_indexes)
    without_index = next(first_with_index, len(closed))
    was_deleting = len(closed) if state.was_deleting_files else _segments_to_delete(state)
    kept = partition.indexes.keys() & partition.time_indexes.keys()
    after_incomplete = (number + 1 for number, base in closed if base not in kept)
    return range(max([min(without_index, was_deleting), *after_incomplete]))


def _segments_to_delete(state: PartitionState) -> int:
    """Return how many of the first segments retention was to delete when they were copied.

    A follower deletes them when it learns that its leader has. Rule: ``UnifiedLog.deleteRetentionMsBreachedSegments``
    and ``deleteRetentionSizeBreachedSegments``.
    """
    policies = state.rules.of_topic(CLEANUP_POLICY).value.split(",")
    if "delete" not in policies or state.partition.place.topic in ALWAYS_COMPACTED:
        return 0
    return max(_segments_too_old(state), _segments_beyond_size(state))


def _segments_too_old(state: PartitionState) -> int:
    limit, taken = state.rules.of_topic(RETENTION_MS).number, time_of_copy(state)
    if limit < 0:
        return 0
    segments = state.log.segments[state.log.segments["max_timestamp"] >= 0]
    newest = dict(zip(segments["segment"].tolist(), segments["max_timestamp"].tolist(), strict=True))
    closed = range(len(state.partition.segments) - 1)
    kept = (number for number in closed if taken - newest.get(number, taken) <= limit)
    return next(kept, len(closed))


def _segments_beyond_size(state: PartitionState) -> int:
    limit, sizes = state.rules.of_topic(RETENTION_BYTES).number, [segment.size for segment in state.partition.segments]
    most = sum(sizes) - limit
    return 0 if limit < 0 else sum(1 for deleted in accumulate(sizes[:-1]) if deleted <= most)
