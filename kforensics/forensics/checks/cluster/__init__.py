"""Checks of transactions and consumer groups across the partitions of a cluster."""

from __future__ import annotations

from typing import Any

from kforensics.forensics.checks.check import Check
from kforensics.forensics.checks.cluster import (
    atomicity,
    coverage,
    decided_markers,
    group_offsets,
    group_resets,
    hanging,
    state_records,
    state_transitions,
    transactional_ids,
    unclean_elections,
    unfinished,
)

__all__ = ["CLUSTER_CHECKS"]

CLUSTER_CHECKS: tuple[Check[Any, Any], ...] = (
    state_transitions.CHECK,
    state_records.CHECK,
    unfinished.CHECK,
    transactional_ids.CHECK,
    atomicity.CHECK,
    decided_markers.CHECK,
    hanging.CHECK,
    coverage.CHECK,
    group_offsets.CHECK,
    group_resets.CHECK,
    unclean_elections.CHECK,
)
