"""Where a log starts if its checkpoint and its leader epochs disagree.

DeleteRecords moves the log start offset and truncates the leader epochs there at once, but the log start is in a
checkpoint only a minute later, or after an orderly stop. A broker that is killed before takes the older entry, or 0,
when it starts, and does not move the leader epochs back. Rule: ``UnifiedLog.maybeIncrementLogStartOffset``,
``LogManager.checkpointLogStartOffsets``, ``LogManager.loadLog``.

Records on disk are served again then. In remote storage the broker looks a segment up by leader epoch, and has none for
offsets before the first one: it refuses to read them, and a consumer at the log start receives nothing. Rule:
``RemoteLogManager.fetchRemoteLogSegmentMetadata``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kforensics.forensics.core.commands import delete_records
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.partition.epoch_starts import checkpointed_epochs
from kforensics.forensics.partition.kept_times import kept_until
from kforensics.forensics.partition.partition_files import LOG_START
from kforensics.parsers.files.log_names import METADATA_TOPIC

if TYPE_CHECKING:
    from kforensics.forensics.metadata.remote_log import RemoteLog
    from kforensics.forensics.partition.partition_state import PartitionState
    from kforensics.parsers.log.log_rows import Place

__all__ = ["EarlierStart", "earlier_start", "forgotten_remote_start"]

# A checkpoint that is younger than the leader epochs by this was written with the log start of then.
WRITTEN_APART_MS = 1000


@dataclass(frozen=True, slots=True)
class EarlierStart:
    """A log start offset before the first leader epoch.

    Attributes:
        offset: where the log starts by the checkpoint: on a broker that starts on these files, too.
        first_epoch: where the leader epochs begin: up to there records were deleted.
        read_from: the first offset that the broker can read: on disk, or not before the leader epochs.
        is_remote: whether records from the offset on are in remote storage, so that it cannot read them.
        is_certain: whether the broker had this log start when its files were written. Otherwise it either had, or had
            moved it to the first leader epoch since the checkpoint was written.
    """

    offset: int
    first_epoch: int
    read_from: int
    is_remote: bool
    is_certain: bool

    @property
    def is_forgotten(self) -> bool:
        """Whether the broker has a log start that it cannot read."""
        return self.is_remote and self.is_certain

    @property
    def either(self) -> str | None:
        """Both log starts that the partition may have, None if it is certain."""
        return None if self.is_certain else f"{self.offset} or {self.first_epoch}"

    def deletion(self, place: Place) -> str:
        """Return how to move the log start to the first leader epoch again, tried on a broker.

        Args:
            place: the partition.
        """
        command = delete_records(place.topic, place.partition, self.first_epoch)
        return f"delete the records before offset {self.first_epoch} again: {command}"

    def remedy(self, place: Place) -> str:
        """Return what to do about a log start that the broker has forgotten.

        Args:
            place: the partition.
        """
        return f"To let consumers read the log from its start, {self.deletion(place)}."


def earlier_start(state: PartitionState) -> EarlierStart | None:
    """Return the log start that a partition has in its checkpoint before its first leader epoch, None without one."""
    partition = state.partition
    starts = checkpointed_epochs(partition)
    if not starts or LOG_START not in partition.log_dir.checkpoints or partition.place.topic == METADATA_TOPIC:
        return None
    first_epoch, checkpoint = min(starts.values()), partition.checkpoint(LOG_START)
    is_certain = partition.log_dir.clean_shutdown or _is_checkpointed_later(state)
    remote = forgotten_remote_start(checkpoint, first_epoch, partition.first_offset, state.remote_log)
    # Without the metadata of remote storage only the entry shows that the broker did not move the start further.
    is_shown = is_certain and checkpoint is not None and checkpoint < first_epoch < partition.first_offset
    if remote is None and state.remote_log is None and is_shown:
        remote = checkpoint
    if remote is not None:
        read_from = min(first_epoch, partition.first_offset)
        return EarlierStart(remote, first_epoch, read_from, is_remote=True, is_certain=is_certain)
    local, epoch = state.local_log_start_offset, min(starts, key=starts.__getitem__)
    is_truncated = local < first_epoch <= state.log_end_offset and _epoch_before(state, first_epoch) == epoch
    return EarlierStart(local, first_epoch, local, is_remote=False, is_certain=is_certain) if is_truncated else None


def forgotten_remote_start(
    checkpoint: int | None, first_epoch: int, first_offset: int, remote: RemoteLog | None
) -> int | None:
    """Return where a log starts in remote storage before its first leader epoch; None if it does not, or is unknown.

    A broker that starts moves its log start to the first segment in remote storage, as it does when it deletes some.

    Args:
        checkpoint: the log start offset from the checkpoint, None without an entry.
        first_epoch: offset at which the leader epochs begin.
        first_offset: base offset of the first segment on disk.
        remote: what is known of remote storage.
    """
    if remote is None or remote.start_offset is None:
        return None
    start, end = max(checkpoint or 0, remote.start_offset, remote.deleted_to), min(first_epoch, first_offset)
    is_readable = any(first < end and start <= last for first, last in remote.readable)
    return start if start < end and is_readable else None


def _is_checkpointed_later(state: PartitionState) -> bool:
    """Return whether the checkpoint was written after the leader epochs, and so has the log start of then.

    A copy that has not kept the times of files has the metadata file of the partition from after its records.
    """
    partition = state.partition
    written, epochs = partition.log_dir.written.get(LOG_START), partition.leader_epochs
    if written is None or epochs is None or epochs.mtime_ms is None or partition.created_ms is None:
        return False
    is_kept = partition.created_ms < state.log.newest_timestamp and kept_until(state) != NO_TIME
    return is_kept and epochs.mtime_ms + WRITTEN_APART_MS < written


def _epoch_before(state: PartitionState, offset: int) -> int | None:
    """Return the leader epoch of the record before an offset, None if it is not on disk or has none.

    If the leader epochs were truncated at the offset, it is the first one. A checkpoint of leader epochs that was lost
    also begins late, but with an epoch that the records before it do not have.
    """
    runs = state.log.epochs
    before: list[int] = runs["leader_epoch"][runs["first_offset"] < offset].tolist()
    return before[-1] if before else None
