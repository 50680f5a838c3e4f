"""Lists the checks of one partition, and the groups of them that commands run."""

from __future__ import annotations

from kforensics.forensics.checks.check import Check
from kforensics.forensics.checks.duplicate_checks import DUPLICATE_CHECKS
from kforensics.forensics.checks.partition import (
    checkpoints,
    cluster_ids,
    damage,
    duplicate_records,
    expired_producers,
    leader_epochs,
    marker_batches,
    markers,
    metadata_snapshots,
    missing_logs,
    offset_indexes,
    out_of_sync,
    producer_epochs,
    producer_sequences,
    read_committed,
    record_contents,
    segments,
    snapshot_files,
    snapshots,
    start_effects,
    stray_files,
    stray_folders,
    structure,
    time_indexes,
    timestamps,
    transaction_indexes,
    transactions,
)
from kforensics.forensics.checks.partition.last_stable_offset import BLOCKING_CHECKS
from kforensics.forensics.core.findings import Finding
from kforensics.forensics.partition.partition_state import PartitionState

__all__ = ["CHECK_GROUPS", "PARTITION_CHECKS"]

# Check what producers and coordinators wrote.
WRITTEN: tuple[Check[PartitionState, Finding], ...] = (
    transactions.CHECK,
    markers.CHECK,
    marker_batches.CHECK,
    producer_epochs.CHECK,
    producer_sequences.CHECK,
    expired_producers.CHECK,
)
# Check that the log is intact, and that indexes, snapshots and checkpoints agree with it.
FILES: tuple[Check[PartitionState, Finding], ...] = (
    damage.CHECK,
    structure.CHECK,
    segments.CHECK,
    offset_indexes.CHECK,
    time_indexes.CHECK,
    transaction_indexes.CHECK,
    read_committed.CHECK,
    snapshots.CHECK,
    snapshot_files.CHECK,
    leader_epochs.CHECK,
    checkpoints.CHECK,
    stray_files.CHECK,
    stray_folders.CHECK,
    timestamps.CHECK,
    metadata_snapshots.CHECK,
    start_effects.CHECK,
    cluster_ids.CHECK,
)
# Need every record decoded.
DECODED: tuple[Check[PartitionState, Finding], ...] = (
    record_contents.CHECK,
    duplicate_records.CHECK,
)
PARTITION_CHECKS = (*BLOCKING_CHECKS, *WRITTEN, *FILES, *DECODED, out_of_sync.CHECK)
# By the name that a command uses.
CHECK_GROUPS = {
    "all": PARTITION_CHECKS,
    "evidence": (missing_logs.CHECK, *FILES),
    "blocking": BLOCKING_CHECKS,
    "duplicates": DUPLICATE_CHECKS,
}
