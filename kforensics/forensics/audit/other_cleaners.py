"""Finds replicas that another broker's cleaner has compacted, and their own broker's has not.

Rule: ``LogCleanerManager.updateCheckpoints`` lists a partition on the broker that has cleaned it; no follower does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from kforensics.forensics.audit.cluster_membership import Clusters, PartitionMembership
from kforensics.forensics.core.past_cleanings import OtherCleaner
from kforensics.parsers.files.log_names import ALWAYS_COMPACTED

__all__ = ["other_cleaners"]


def other_cleaners(
    members: Iterable[PartitionMembership], clusters: Clusters
) -> Mapping[tuple[str | None, str | None, int | None], OtherCleaner]:
    """Return how far another cleaner has compacted a partition, by log directory, topic and partition number.

    Only those are included whose own cleaner checkpoint does not list them, and of topics that brokers do not always
    compact.

    Args:
        members: all partitions.
        clusters: their clusters.
    """
    replicas: dict[tuple[object, ...], list[PartitionMembership]] = defaultdict(list)
    for member in members:
        if member.has_log and member.topic is not None and member.topic not in ALWAYS_COMPACTED:
            key = clusters.name_of_member(member), member.topic_id or member.topic, member.partition
            replicas[key].append(member)
    cleaners: dict[tuple[str | None, str | None, int | None], OtherCleaner] = {}
    for of_partition in replicas.values():
        cleaned = ((one.cleaned_to, one) for one in of_partition if one.cleaned_to is not None)
        if furthest := max(cleaned, key=lambda pair: pair[0], default=None):
            cleaner = OtherCleaner(furthest[0], furthest[1].broker_id)
            others = (one for one in of_partition if one.cleaned_to is None)
            cleaners |= {(one.log_dir, one.topic, one.partition): cleaner for one in others}
    return cleaners
