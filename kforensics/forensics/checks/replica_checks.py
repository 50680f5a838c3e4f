"""All families of findings on replicas."""

from __future__ import annotations

from types import ModuleType

from kforensics.forensics.checks.replicas import cleaned_records, divergence, ends, transaction_state

__all__ = ["REPLICA_FAMILIES"]

REPLICA_FAMILIES: tuple[ModuleType, ...] = (divergence, ends, transaction_state, cleaned_records)
