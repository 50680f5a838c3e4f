"""What the files of a log directory say about all its partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from kforensics.errors import InputError, InputForbiddenError, InputMissingError
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.folders import folders_of
from kforensics.parsers.files.meta_properties import MetaProperties, meta_properties, read_meta_properties
from kforensics.parsers.files.source import file_name, open_source
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.text_checkpoint import OffsetCheckpointEntry, read_offset_checkpoint

__all__ = [
    "CLEANER",
    "DELETED",
    "HIGH_WATERMARK",
    "LIVE",
    "LOG_START",
    "RECOVERY_POINT",
    "ROOT_FILES",
    "LogDir",
    "log_dir_of",
    "root_files",
]

RECOVERY_POINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
CLEANER = "cleaner-offset-checkpoint"
# States of files and folders.
LIVE, DELETED = "live", "deleted"
ROOT_FILES = {
    **dict.fromkeys((RECOVERY_POINT, HIGH_WATERMARK, LOG_START, CLEANER), "offset-checkpoint"),
    ".kafka_cleanshutdown": "clean-shutdown",
    "meta.properties": "meta-properties",
}


@dataclass(frozen=True, slots=True)
class LogDir:
    """What the files of a log directory say about all its partitions.

    Attributes:
        path: the directory.
        checkpoints: offsets by topic and partition, by the name of the checkpoint file; a file that is missing, or that
            Kafka would reject, has no entry.
        damaged: checkpoint files that cannot be read, or that Kafka would reject, and why.
        forbidden: checkpoint files that this user may not read, and why; they show nothing about the broker.
        clean_shutdown: whether the broker left the marker file of a clean shutdown.
        cluster_id: from ``meta.properties``; None without that file, or if it has no cluster id.
        written: when a checkpoint was written, by the name of the file.
        directory_id: from ``meta.properties``; brokers before 3.7 write none.
        broker_id: from ``meta.properties``.
        beside: the other log directories of its broker that were found, without their checkpoints.
        has_zookeeper: whether its broker kept the metadata in ZooKeeper, from ``meta.properties``.
    """

    path: str | None
    checkpoints: Mapping[str, Mapping[tuple[str, int], int]] = field(default_factory=dict)
    damaged: Mapping[str, str] = field(default_factory=dict)
    clean_shutdown: bool = False
    cluster_id: str | None = None
    written: Mapping[str, int] = field(default_factory=dict)
    directory_id: str | None = None
    forbidden: Mapping[str, str] = field(default_factory=dict)
    broker_id: int | None = None
    beside: tuple[LogDir, ...] = ()
    has_zookeeper: bool = False

    @property
    def written_ms(self) -> int | None:
        """When the newest checkpoint was written; None without one.

        A running broker writes that of the high watermarks every five seconds in any case
        (``ReplicaManager.checkpointHighWatermarks``).
        """
        return max(self.written.values(), default=None)


def root_files(log_dir: str) -> Iterator[FoundFile]:
    """Yield the files of a log directory that describe its partitions, if only a partition's folder was named.

    Args:
        log_dir: the log directory.
    """
    folders = folders_of(log_dir)
    for name, kind in ROOT_FILES.items():
        if file := _root_file(log_dir, folders.join(log_dir, name), kind):
            yield file


def _root_file(log_dir: str, path: str, kind: str) -> FoundFile | None:
    try:
        with open_source(path) as source:
            return FoundFile(path, kind, source.size, log_dir=log_dir, mtime_ms=source.mtime_ms)
    except InputMissingError:
        return None
    except InputError:
        return FoundFile(path, kind, 0, log_dir=log_dir)  # reading it fails again and reports the error


def log_dir_of(path: str | None, files: Iterable[FoundFile]) -> LogDir:
    """Return what the files of a log directory say.

    Args:
        path: the log directory.
        files: those of ``ROOT_FILES`` that it has.
    """
    files = list(files)
    checkpoints: dict[str, dict[tuple[str, int], int]] = {}
    damaged, denied, written = dict[str, str](), dict[str, str](), dict[str, int]()
    for file in files:
        if file.kind != "offset-checkpoint" or file.state != LIVE:
            continue
        name = file_name(file.path)
        if file.mtime_ms is not None:
            written[name] = file.mtime_ms
        try:
            checkpoints[name] = _offsets(file)
        except InputForbiddenError as error:
            denied[name] = error.why
        except (ValueError, InputError) as error:
            damaged[name] = str(error)
    clean = any(file.kind == "clean-shutdown" for file in files)
    meta = _meta_properties(files)
    log_dir = LogDir(path, checkpoints, damaged, clean, written=written, forbidden=denied)
    if meta is None:
        return log_dir
    return replace(
        log_dir,
        cluster_id=meta.cluster_id,
        directory_id=meta.directory_id,
        broker_id=meta.node_id,
        has_zookeeper=meta.has_zookeeper,
    )


def _meta_properties(files: Iterable[FoundFile]) -> MetaProperties | None:
    for file in files:
        if file.kind == "meta-properties":
            with suppress(InputError), open_source(file.path) as source:
                return meta_properties(read_meta_properties(source))
    return None


def _offsets(file: FoundFile) -> dict[tuple[str, int], int]:
    """Return the offsets in a checkpoint file.

    Raises:
        ValueError: Kafka would reject the file.
    """
    with open_source(file.path) as source:
        rows = list(read_offset_checkpoint(source))
    if faults := [row.detail for row in rows if isinstance(row, Damage)]:
        raise ValueError(faults[0])
    entries = (row for row in rows if isinstance(row, OffsetCheckpointEntry))
    return {(entry.topic, entry.partition): entry.offset for entry in entries}
