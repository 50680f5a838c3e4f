"""Every family of findings: on a partition alone, a cluster, copies of one partition, and the partitions of a topic."""

from __future__ import annotations

from types import ModuleType

from kforensics.forensics.checks import cluster_checks as of_clusters
from kforensics.forensics.checks import partition_checks
from kforensics.forensics.checks.key_checks import KEY_FAMILIES
from kforensics.forensics.checks.replica_checks import REPLICA_FAMILIES
from kforensics.forensics.checks.topic_checks import TOPIC_FAMILIES

__all__ = ["EVERY_FAMILY"]

EVERY_FAMILY: tuple[ModuleType, ...] = (
    *partition_checks.FAMILIES,
    *of_clusters.FAMILIES,
    *REPLICA_FAMILIES,
    *KEY_FAMILIES,
    *TOPIC_FAMILIES,
)
