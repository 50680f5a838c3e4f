"""All families of findings on what stands in several partitions of a topic."""

from __future__ import annotations

from types import ModuleType

from kforensics.forensics.checks.topics import duplicates_across_partitions

__all__ = ["TOPIC_FAMILIES"]

TOPIC_FAMILIES: tuple[ModuleType, ...] = (duplicates_across_partitions,)
