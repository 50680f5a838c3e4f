"""Whether a metadata log is in force: a broker that went back to ZooKeeper leaves it where it is, and ignores it.

A broker with ZooKeeper has a metadata log while it is being migrated to KRaft. After a rollback of the migration the
folder stays, and grows stale. Only a broker with KRaft, or one that is being migrated, goes on writing to it. Rules:
``KafkaServer.startup``, which starts a Raft manager only with ``zookeeper.metadata.migration.enable``, and
``KafkaServer.shutdown``, which ends it after the logs: the metadata log of a migrating broker is closed last.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache

from kforensics.errors import InputError
from kforensics.forensics.core.formatting import format_time
from kforensics.forensics.partition.kept_times import newest_time_in
from kforensics.forensics.partition.log_dirs import LogDir, root_files
from kforensics.parsers.files.folders import Entry, folders_of
from kforensics.parsers.files.log_names import METADATA_TOPIC, parse_file_name

__all__ = ["metadata_unused_since", "not_in_force", "unused_since"]

# How much later than a metadata log in use a broker writes its checkpoints: before it closes that log if it was shut
# down cleanly. Otherwise it was running, and took its time to copy.
STOPPING_MS, COPYING_MS = 10_000, 24 * 3_600_000
# How far the file time of a metadata log may be from the clock of its controller, unless a copy has changed it.
KEPT_MS = 30_000


def unused_since(log_dir: LogDir) -> int | None:
    """Return since when the metadata log in a log directory is not in force, None if it is, or if there is none.

    Args:
        log_dir: the log directory.
    """
    if log_dir.path is None:
        return None
    return metadata_unused_since(
        log_dir.path, log_dir.has_zookeeper, (each.path for each in log_dir.beside if each.path)
    )


def metadata_unused_since(log_dir: str, has_zookeeper: bool, beside: Iterable[str] = ()) -> int | None:
    """Return since when the metadata log in a log directory is not in force, in ms, None if nothing shows that.

    That is if the broker has ZooKeeper and went on running after the last write to the metadata log. Where a copy has
    changed the times of files, nothing shows it.

    Args:
        log_dir: path of the log directory.
        has_zookeeper: whether the broker kept its metadata in ZooKeeper, by its ``meta.properties``.
        beside: paths of the other log directories of the broker.
    """
    if not has_zookeeper:
        return None
    with suppress(InputError):  # the audit of the metadata log reports it
        children = folders_of(log_dir).children(f"{log_dir}/{METADATA_TOPIC}-0")
        segments = {
            name.base_offset or 0: entry
            for entry in children
            if (name := parse_file_name(entry.name)) and (name.kind, name.state) == ("log", "live")
        }
        written = max((entry.mtime_ms for entry in children if entry.mtime_ms is not None), default=None)
        files = [file for path in (log_dir, *beside) for file in root_files(path) if file.mtime_ms is not None]
        if not segments or written is None:
            return None
        later = max((file.mtime_ms - written for file in files if file.mtime_ms is not None), default=0)
        if later <= (STOPPING_MS if any(file.kind == "clean-shutdown" for file in files) else COPYING_MS):
            return None
        last = segments[max(segments)]
        newest = _newest_time_in(last)
        is_kept = newest is not None and last.mtime_ms is not None and abs(last.mtime_ms - newest) <= KEPT_MS
        return newest if is_kept else None
    return None


@lru_cache(maxsize=4)
def _newest_time_in(segment: Entry) -> int | None:
    """Return the newest timestamp in a segment; all partitions of its log directory ask for it."""
    return newest_time_in(segment.path)


def not_in_force(since_ms: int) -> str:
    """Return a sentence about a metadata log that is not in force.

    Args:
        since_ms: since when.
    """
    return f"not in force since {format_time(since_ms)}, because its broker went back to ZooKeeper and ignores it"
