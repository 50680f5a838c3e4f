"""All families of findings."""

from __future__ import annotations

from types import ModuleType

from kforensics.forensics.checks import (
    checkpoints,
    damage,
    duplicates,
    epochs,
    expired_producers,
    last_stable_offset,
    leader_epochs,
    marker_batches,
    markers,
    offset_index,
    open_transactions,
    records,
    segments,
    sequences,
    snapshot_files,
    snapshots,
    structure,
    time_index,
    timestamps,
    transaction_index,
    transactions,
    visibility,
)

__all__ = ["FAMILIES", "GROUPS"]

# Who holds the last stable offset.
HOLDERS: tuple[ModuleType, ...] = (open_transactions, last_stable_offset)
# What producers and coordinators wrote.
WRITTEN: tuple[ModuleType, ...] = (transactions, markers, marker_batches, epochs, sequences, expired_producers)
# Whether the log is whole, and the files beside it agree with it.
EVIDENCE: tuple[ModuleType, ...] = (
    damage,
    structure,
    segments,
    offset_index,
    time_index,
    transaction_index,
    visibility,
    snapshots,
    snapshot_files,
    leader_epochs,
    checkpoints,
    timestamps,
)
# What is there twice, by the batches and by the records.
TWICE: tuple[ModuleType, ...] = (sequences, duplicates)
# What needs every record decoded.
DECODED: tuple[ModuleType, ...] = (records, duplicates)
FAMILIES = (*HOLDERS, *WRITTEN, *EVIDENCE, *DECODED)
# By what a command looks for.
GROUPS = {"all": FAMILIES, "evidence": EVIDENCE, "holders": HOLDERS, "duplicates": TWICE}
