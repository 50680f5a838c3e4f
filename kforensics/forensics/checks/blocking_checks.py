"""Lists the checks for what blocks or hides the last stable offset; ``lso`` loads only these."""

from __future__ import annotations

from kforensics.forensics.checks.check import Check
from kforensics.forensics.checks.partition import last_stable_offset, missing_logs, open_transactions
from kforensics.forensics.core.findings import Finding
from kforensics.forensics.partition.partition_state import PartitionState

BLOCKING_CHECKS: tuple[Check[PartitionState, Finding], ...] = (
    missing_logs.CHECK,
    open_transactions.CHECK,
    last_stable_offset.CHECK,
)
