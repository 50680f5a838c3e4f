"""Lists the checks for duplicates in one partition, by batch sequences and by record contents."""

from __future__ import annotations

from kforensics.forensics.checks.check import Check
from kforensics.forensics.checks.partition import duplicate_records, producer_sequences
from kforensics.forensics.core.findings import Finding
from kforensics.forensics.partition.partition_state import PartitionState

DUPLICATE_CHECKS: tuple[Check[PartitionState, Finding], ...] = (producer_sequences.CHECK, duplicate_records.CHECK)
