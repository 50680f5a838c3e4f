"""All families of findings."""

from __future__ import annotations

from types import ModuleType

from kforensics.forensics.checks.partition import (
    checkpoints,
    damage,
    duplicate_records,
    expired_producers,
    last_stable_offset,
    leader_epochs,
    marker_batches,
    markers,
    offset_indexes,
    open_transactions,
    producer_epochs,
    producer_sequences,
    read_committed,
    record_contents,
    segments,
    snapshot_files,
    snapshots,
    structure,
    time_indexes,
    timestamps,
    transaction_indexes,
    transactions,
)

__all__ = ["FAMILIES", "GROUPS"]

# Who holds the last stable offset.
HOLDERS: tuple[ModuleType, ...] = (open_transactions, last_stable_offset)
# What producers and coordinators wrote.
WRITTEN: tuple[ModuleType, ...] = (
    transactions,
    markers,
    marker_batches,
    producer_epochs,
    producer_sequences,
    expired_producers,
)
# Whether the log is whole, and the files beside it agree with it.
EVIDENCE: tuple[ModuleType, ...] = (
    damage,
    structure,
    segments,
    offset_indexes,
    time_indexes,
    transaction_indexes,
    read_committed,
    snapshots,
    snapshot_files,
    leader_epochs,
    checkpoints,
    timestamps,
)
# What is there twice, by the batches and by the records.
TWICE: tuple[ModuleType, ...] = (producer_sequences, duplicate_records)
# What needs every record decoded.
DECODED: tuple[ModuleType, ...] = (record_contents, duplicate_records)
FAMILIES = (*HOLDERS, *WRITTEN, *EVIDENCE, *DECODED)
# By what a command looks for.
GROUPS = {"all": FAMILIES, "evidence": EVIDENCE, "holders": HOLDERS, "duplicates": TWICE}
