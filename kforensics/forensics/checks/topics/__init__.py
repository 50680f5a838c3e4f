"""Checks across the partitions of one topic."""

from __future__ import annotations

from typing import Any

from kforensics.forensics.checks.check import Check
from kforensics.forensics.checks.topics import duplicates_across_partitions

__all__ = ["TOPIC_CHECKS"]

TOPIC_CHECKS: tuple[Check[Any, Any], ...] = (duplicates_across_partitions.CHECK,)
