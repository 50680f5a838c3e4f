"""Lists all checks: of partitions, clusters, replicas, keys, and topics."""

from __future__ import annotations

from typing import Any

from kforensics.forensics.checks.check import Check
from kforensics.forensics.checks.cluster import CLUSTER_CHECKS
from kforensics.forensics.checks.keys import KEY_CHECKS
from kforensics.forensics.checks.partition_checks import PARTITION_CHECKS
from kforensics.forensics.checks.replicas import FOLDER_CHECKS, REPLICA_CHECKS
from kforensics.forensics.checks.topics import TOPIC_CHECKS

ALL_CHECKS: tuple[Check[Any, Any], ...] = (
    *PARTITION_CHECKS,
    *CLUSTER_CHECKS,
    *REPLICA_CHECKS,
    *FOLDER_CHECKS,
    *KEY_CHECKS,
    *TOPIC_CHECKS,
)
