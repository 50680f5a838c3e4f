"""All families of findings on the keys of a topic."""

from __future__ import annotations

from types import ModuleType

from kforensics.forensics.checks.keys import key_placement, keys_in_two_partitions, partition_growth

__all__ = ["KEY_FAMILIES"]

KEY_FAMILIES: tuple[ModuleType, ...] = (key_placement, keys_in_two_partitions, partition_growth)
