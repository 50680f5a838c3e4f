"""Decides whether a log was compacted on another broker before it was fetched.

A replica fetches the leader's log, compacted or not, and its own cleaner checkpoint does not record that.
What a cleaner has removed stays removed when the cleanup policy of the topic changes. Rule: ``LogCleanerManager``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kforensics.forensics.core.observations import Observed, sum_observations
from kforensics.parsers.files.log_names import ALWAYS_COMPACTED

if TYPE_CHECKING:
    from kforensics.forensics.partition.partition_state import PartitionState

__all__ = ["compacted_elsewhere", "compaction_of_topic", "partly_compacted"]


def compacted_elsewhere(state: PartitionState, last_offset: int) -> str | None:
    """Return the evidence that the log was compacted on another broker, as half a sentence; None if there is none.

    Args:
        state: the partition.
        last_offset: the last offset that this has to explain.
    """
    return compaction_of_topic(state, last_offset) or partly_compacted(state)


def compaction_of_topic(state: PartitionState, last_offset: int) -> str | None:
    """Return how it is known that brokers compacted the partition, as half a sentence; None if it is not known.

    Args:
        state: the partition.
        last_offset: the last offset that this has to explain.
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
    return None if past is None else past.phrase


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
