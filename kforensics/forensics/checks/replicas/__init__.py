"""Checks of the replicas of one partition."""

from __future__ import annotations

from typing import Any

from kforensics.forensics.checks.check import Check
from kforensics.forensics.checks.replicas import cleaned_records, divergence, ends, transaction_state

__all__ = ["REPLICA_CHECKS"]

REPLICA_CHECKS: tuple[Check[Any, Any], ...] = (
    divergence.CHECK,
    ends.CHECK,
    transaction_state.CHECK,
    cleaned_records.CHECK,
)
