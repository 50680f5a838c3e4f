"""Decides whether a log was compacted on another broker before it was fetched.

A replica fetches the leader's log, compacted or not, and its own cleaner checkpoint does not record that.
What a cleaner has removed stays removed when the cleanup policy of the topic changes. Rule: ``LogCleanerManager``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kforensics.forensics.core.observations import Observed, observations_of, sum_observations
from kforensics.parsers.files.log_names import ALWAYS_COMPACTED

if TYPE_CHECKING:
    from kforensics.forensics.partition.partition_state import PartitionState

__all__ = ["compacted_elsewhere", "compaction_of_topic", "partly_compacted", "written_by"]


def compacted_elsewhere(state: PartitionState, last_offset: int, written_ms: int | None = None) -> str | None:
    """Return the evidence that the log was compacted on another broker, as half a sentence; None if there is none.

    Args:
        state: the partition.
        last_offset: the last offset that this has to explain.
        written_ms: when the batch with that offset, or the one after it, was written, in ms; :func:`written_by` if it
            is not given.
    """
    return compaction_of_topic(state, last_offset, written_ms) or partly_compacted(state)


def compaction_of_topic(state: PartitionState, last_offset: int, written_ms: int | None = None) -> str | None:
    """Return how it is known that brokers compacted the partition, as half a sentence; None if it is not known.

    A policy that the topic had for a time explains nothing that was written later.

    Args:
        state: the partition.
        last_offset: the last offset that this has to explain.
        written_ms: as for :func:`compacted_elsewhere`.
    """
    place, rules = state.partition.place, state.rules
    if place.topic in ALWAYS_COMPACTED:
        return "the topic is compacted"
    policy = rules.compaction
    if policy is not None:
        return f"cleanup.policy is {policy.value} ({policy.source})"
    if state.first_dirty_offset is not None:
        return "the cleaner checkpoint lists the partition"
    other = rules.other_cleaner(place.log_dir, place.topic, place.partition)
    if other is not None and last_offset < other.offset:
        return other.phrase
    topic_id = state.partition.topic_id
    past = None if topic_id is None else rules.past_compaction.get(topic_id)
    if past is None:
        return None
    written = written_by(state, last_offset) if written_ms is None else _known(written_ms)
    return past.phrase if past.may_explain(written, rules.clock_skew_ms) else None


def written_by(state: PartitionState, last_offset: int) -> int | None:
    """Return when the batch after missing offsets was written, or a time before; None if no time is known.

    Without such a batch that is the newest time of the segment before. Producers set timestamps, and not always in
    order: it is no newer than the times of the segment itself.

    Args:
        state: the partition.
        last_offset: the last of the missing offsets, or another offset.
    """
    offset_gaps = observations_of(state.log.observations, Observed.OFFSET_GAP)
    after = offset_gaps["timestamp"][offset_gaps["first_offset"] == last_offset + 1]
    if len(after):
        return _known(int(after[0]))
    segments = state.log.segments
    index = int(np.searchsorted(segments["first_offset"], last_offset + 1, "right")) - 1
    return _known(int(segments["max_timestamp"][index - 1 : index + 1].min())) if index > 0 else None


def _known(timestamp: int) -> int | None:
    return timestamp if timestamp >= 0 else None


def partly_compacted(state: PartitionState) -> str | None:
    """Return how the log shows that it was compacted, as half a sentence; None if it does not."""
    partially_compacted = sum_observations(state.log.observations, Observed.SEQ_COUNT_MISMATCH)
    missing = state.log.offset_gaps
    if state.log.batches:  # the cleaner also leaves empty segments at the start
        missing += max(0, int(state.log.first.base_offset[0]) - state.partition.first_offset)
    if missing and partially_compacted and partially_compacted.amount < 0:
        batches = partially_compacted.that("holds", "hold")
        return f"{missing} offsets are missing, and {batches} fewer records than offsets"
    return None
