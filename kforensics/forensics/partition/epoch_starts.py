"""Where the leader epochs of a partition begin, by its batches and its ``leader-epoch-checkpoint``."""

from __future__ import annotations

from typing import TypeAlias

from kforensics.forensics.partition.partition_files import checkpointed_epochs
from kforensics.forensics.partition.partition_state import PartitionState

__all__ = ["EpochStarts", "epoch_starts"]

# Leader epochs with their start offsets, ascending.
EpochStarts: TypeAlias = tuple[tuple[int, int], ...]


def epoch_starts(state: PartitionState) -> EpochStarts:
    """Return the leader epochs of a partition with their start offsets.

    The checkpoint may have more epochs than the batches: a broker adds its epoch when it is elected, before it writes.
    """
    starts = dict(checkpointed_epochs(state.partition))
    runs = state.log.epochs
    for epoch, first in zip(runs["leader_epoch"].tolist(), runs["first_offset"].tolist(), strict=True):
        starts[epoch] = min(first, starts.get(epoch, first))
    return tuple(sorted(starts.items()))
