"""Every family of findings: on a partition alone, a cluster, copies of one partition, and the partitions of a topic."""

from __future__ import annotations

from types import ModuleType

from kforensics.forensics import families
from kforensics.forensics.cluster import families as of_clusters
from kforensics.forensics.keys.families import KEY_FAMILIES
from kforensics.forensics.replicas.families import REPLICA_FAMILIES
from kforensics.forensics.twice.families import TOPIC_FAMILIES

__all__ = ["EVERY_FAMILY"]

EVERY_FAMILY: tuple[ModuleType, ...] = (
    *families.FAMILIES,
    *of_clusters.FAMILIES,
    *REPLICA_FAMILIES,
    *KEY_FAMILIES,
    *TOPIC_FAMILIES,
)
