"""Which logs start in remote storage at an offset that the broker does not read.

Rule: ``partition.log_starts``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kforensics.forensics.forecast.broker_forecast import PartitionForecast
from kforensics.forensics.forecast.effects import START_UNREAD, Effect
from kforensics.forensics.forecast.log_directory import LogDirectory, PartitionFolder
from kforensics.forensics.forecast.segment_files import PartitionFiles, epoch_starts
from kforensics.forensics.metadata.remote_log import RemoteLog, remote_logs_at
from kforensics.forensics.partition.log_starts import forgotten_remote_start
from kforensics.forensics.partition.partition_files import LOG_START
from kforensics.parsers.files.log_names import REMOTE_LOG_METADATA

__all__ = ["add_unread_starts"]


def add_unread_starts(loads: Iterable[tuple[LogDirectory, PartitionForecast, PartitionFolder]]) -> None:
    """Add to the effects of partitions that their logs start at an offset in remote storage that is not read.

    Only where one of the log directories has the metadata of remote storage.

    Args:
        loads: the folders whose logs were loaded, with their log directories.

    Raises:
        InputError: a file cannot be read.
    """
    loaded = [each for each in loads if each[1].loaded is not None and each[2].name.state != "deleted"]
    remote_logs = _remote_logs(folder for _, _, folder in loaded if folder.name.topic == REMOTE_LOG_METADATA)
    for directory, partition, folder in loaded if remote_logs else ():
        remote = remote_logs.get((folder.topic_id, partition.partition))
        effect = None if remote is None else _unread_start(directory, folder, remote)
        if partition.loaded is not None and effect is not None:
            partition.loaded.log_start = effect.offset or 0
            partition.effects.append(effect)


def _remote_logs(folders: Iterable[PartitionFolder]) -> Mapping[tuple[str | None, int], RemoteLog]:
    """Return what partitions of the metadata of remote storage say, by topic id and partition."""
    logs: dict[tuple[str | None, int], RemoteLog] = {}
    for folder in folders:
        files = PartitionFiles.of(folder.path).files
        segments = [files[name].path for name in sorted(files) if name.endswith(".log")]
        logs |= {(log.topic_id, log.partition): log for log in remote_logs_at(segments)}
    return logs


def _unread_start(directory: LogDirectory, folder: PartitionFolder, remote: RemoteLog) -> Effect | None:
    files = PartitionFiles.of(folder.path)
    starts, bases = epoch_starts(files), [files.number(name) for name in files.files if name.endswith(".log")]
    if not starts or not bases:
        return None
    first_epoch, checkpoint = min(starts.values()), directory.offset(LOG_START, folder.name)
    start = forgotten_remote_start(checkpoint, first_epoch, min(bases), remote)
    if start is None:
        return None
    detail = (
        f"the log starts at {start}, before its leader epochs, which begin at {first_epoch}: the broker does not read"
        " from there, and a consumer at the log start receives nothing"
    )
    return Effect(START_UNREAD, detail, silent=True, offset=start, records=first_epoch - start)
