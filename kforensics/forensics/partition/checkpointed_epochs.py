"""Reads the ``leader-epoch-checkpoint`` of a partition as a broker does."""

from __future__ import annotations

from collections.abc import Mapping

from kforensics.errors import InputError
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.text_checkpoint import LeaderEpochEntry, read_leader_epochs

__all__ = ["checkpointed_epochs"]


def checkpointed_epochs(partition: Partition) -> Mapping[int, int]:
    """Return start offsets by leader epoch; empty without a checkpoint, and if a broker would reject it."""
    checkpoint = partition.leader_epochs
    if checkpoint is None:
        return {}
    try:
        with open_source(checkpoint.path) as source:
            rows = list(read_leader_epochs(source))
    except InputError:
        return {}  # the check of leader epochs reports it
    entries = [row for row in rows if isinstance(row, LeaderEpochEntry)]
    is_rejected = any(isinstance(row, Damage) for row in rows)
    if is_rejected or any(min(row.leader_epoch, row.start_offset) < 0 for row in entries):
        return {}
    return {row.leader_epoch: row.start_offset for row in entries}
