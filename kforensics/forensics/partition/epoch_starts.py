"""Where the leader epochs of a partition begin, by its batches and its ``leader-epoch-checkpoint``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kforensics.errors import InputError
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.text_checkpoint import LeaderEpochEntry, read_leader_epochs

if TYPE_CHECKING:
    from kforensics.forensics.core.election import DatedEpochs, Election
    from kforensics.forensics.partition.partition_files import Partition
    from kforensics.forensics.partition.partition_state import PartitionState

__all__ = [
    "EpochStarts",
    "UncleanStart",
    "checkpointed_epochs",
    "continued_at",
    "dated_epochs",
    "epoch_starts",
    "epochs_in",
    "unclean_start",
]

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


class UncleanStart(NamedTuple):
    """Where a leader continued a log that was not in sync when it was elected.

    Attributes:
        election: its election.
        offset: the first offset that it wrote: what an earlier leader had from there on is lost.
    """

    election: Election
    offset: int


def continued_at(starts: EpochStarts, election: Election) -> int | None:
    """Return the first offset that was written since an election, None if the log has nothing from since then."""
    return min((start for epoch, start in starts if epoch >= election.leader_epoch), default=None)


def unclean_start(state: PartitionState, offset: int) -> UncleanStart | None:
    """Return the unclean election whose leader wrote at an offset, or would have written there last.

    Args:
        state: the partition, with the rules that follow from all settings.
        offset: an offset; at or after the end of the log the last unclean election counts.
    """
    dated = dated_epochs(state)
    if dated is None or not dated.unclean:
        return None
    starts = epoch_starts(state)
    begun = [UncleanStart(one, at) for one in dated.unclean if (at := continued_at(starts, one)) is not None]
    last = max((one for one in begun if one.offset <= offset), key=lambda one: one.election.leader_epoch, default=None)
    if last is None or offset >= state.log_end_offset:
        return last
    return last if last.offset == max(start for _, start in starts if start <= offset) else None


def dated_epochs(state: PartitionState) -> DatedEpochs | None:
    """Return when the leader epochs of a partition began, as far as the metadata of its cluster shows it."""
    place = state.partition.place
    return state.rules.epochs_of(place.log_dir, state.partition.topic_id, place.partition)


def checkpointed_epochs(partition: Partition) -> Mapping[int, int]:
    """Return start offsets by leader epoch; empty without a checkpoint, and if a broker would reject it."""
    checkpoint = partition.leader_epochs
    return {} if checkpoint is None else epochs_in(checkpoint.path)


def epochs_in(path: str) -> Mapping[int, int]:
    """Return start offsets by leader epoch from a checkpoint; empty if it is missing or a broker would reject it."""
    try:
        with open_source(path) as source:
            rows = list(read_leader_epochs(source))
    except InputError:
        return {}  # the check of leader epochs reports it
    entries = [row for row in rows if isinstance(row, LeaderEpochEntry)]
    is_rejected = any(isinstance(row, Damage) for row in rows)
    if is_rejected or any(min(row.leader_epoch, row.start_offset) < 0 for row in entries):
        return {}
    return {row.leader_epoch: row.start_offset for row in entries}
