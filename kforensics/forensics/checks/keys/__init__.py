"""Checks of the keys of a topic: their partitions, and growth of the topic."""

from __future__ import annotations

from typing import Any

from kforensics.forensics.checks.check import Check
from kforensics.forensics.checks.keys import key_placement, keys_in_two_partitions, partition_growth

__all__ = ["KEY_CHECKS"]

KEY_CHECKS: tuple[Check[Any, Any], ...] = (
    key_placement.CHECK,
    keys_in_two_partitions.CHECK,
    partition_growth.CHECK,
)
