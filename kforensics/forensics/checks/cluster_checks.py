"""All families of findings about a cluster."""

from __future__ import annotations

from types import ModuleType

from kforensics.forensics.checks.cluster import (
    atomicity,
    coverage,
    decided_markers,
    group_offsets,
    hanging,
    state_records,
    state_transitions,
    transactional_ids,
    unfinished,
)

__all__ = ["FAMILIES"]

# What coordinators wrote.
COORDINATORS: tuple[ModuleType, ...] = (state_transitions, state_records, unfinished, transactional_ids)
# What the partitions have of it.
JOINED: tuple[ModuleType, ...] = (atomicity, decided_markers, hanging, coverage)
# What groups have of it.
GROUP_OFFSETS: tuple[ModuleType, ...] = (group_offsets,)
FAMILIES = (*COORDINATORS, *JOINED, *GROUP_OFFSETS)
