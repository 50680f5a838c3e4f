"""Lists the checks for transactions that block the last stable offset; ``lso`` loads only these."""

from __future__ import annotations

from kforensics.forensics.checks.check import Check
from kforensics.forensics.checks.partition import last_stable_offset, open_transactions
from kforensics.forensics.core.findings import Finding
from kforensics.forensics.partition.partition_state import PartitionState

BLOCKING_CHECKS: tuple[Check[PartitionState, Finding], ...] = (open_transactions.CHECK, last_stable_offset.CHECK)
