"""Checks of the replicas of one partition."""

from __future__ import annotations

from typing import Any

from kforensics.forensics.checks.check import Check
from kforensics.forensics.checks.replicas import cleaned_records, divergence, ends, log_directories, transaction_state
from kforensics.forensics.core.findings import Finding

__all__ = ["FOLDER_CHECKS", "REPLICA_CHECKS"]

REPLICA_CHECKS: tuple[Check[Any, Any], ...] = (
    divergence.CHECK,
    ends.CHECK,
    transaction_state.CHECK,
    cleaned_records.CHECK,
)
# Of two folders of one partition on one broker.
FOLDER_CHECKS: tuple[Check[log_directories.Pair, Finding], ...] = (log_directories.CHECK,)
