"""Finds batches of a partition that a later leader has overruled, and that are still on disk.

A replica that truncates its log renames whole segments to ``.deleted`` and removes them some time later; a replica that
is moved, deleted or forgotten stays for some time in a folder whose name ends with ``-delete``, ``-future`` or
``-stray``. Rules: ``LocalLog.truncateTo``, ``LocalLog.deleteSegmentFiles`` and ``LogManager.asyncDelete``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from kforensics.errors import InputError
from kforensics.forensics.partition.epoch_starts import EpochStarts
from kforensics.parsers.files.discover import FoundFile, discover
from kforensics.parsers.files.folders import folders_of
from kforensics.parsers.files.log_names import parse_folder_name
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import walk

__all__ = ["OverruledBatches", "overruled_batches"]

LIVE = "live"


@dataclass(frozen=True, slots=True)
class OverruledBatches:
    """Batches in a file that a later leader has overruled.

    Attributes:
        path: the file.
        position: byte position of the first of them.
        leader_epoch: their own leader epoch.
        overruled_by: leader epoch that overruled them.
        first_offset: first offset of the first one.
        last_offset: last offset of the last one.
        records: number of data records.
        first_timestamp: smallest maximum timestamp in ms.
        last_timestamp: largest maximum timestamp in ms.
    """

    path: str
    position: int
    leader_epoch: int
    overruled_by: int
    first_offset: int
    last_offset: int
    records: int
    first_timestamp: int
    last_timestamp: int


def overruled_batches(
    log_dirs: Iterable[str], name: tuple[str, int], topic_id: str | None, starts: EpochStarts
) -> Iterator[OverruledBatches]:
    """Yield overruled batches of a partition in files that no broker serves any more, by file and epoch.

    Args:
        log_dirs: where to look.
        name: topic and partition.
        topic_id: its topic id; folders of a topic with another id are left out.
        starts: leader epochs of the partition with their start offsets.
    """
    for folder in _folders(log_dirs, name):
        files = (file for file in discover([folder]) if isinstance(file, FoundFile) and file.kind == "log")
        logs = [file for file in files if topic_id is None or file.topic_id in (topic_id, None)]
        if _is_live(folder):
            logs = [file for file in logs if file.state == "deleted"]
        yield from _in_logs(sorted(logs, key=lambda file: file.base_offset or 0), starts)


def _folders(log_dirs: Iterable[str], name: tuple[str, int]) -> Iterator[str]:
    """Yield the folders of a partition, including those that were set aside."""
    for log_dir in sorted(set(log_dirs)):
        with suppress(InputError):  # the listing of the inputs reports it
            for entry in folders_of(log_dir).children(log_dir):
                parsed = parse_folder_name(entry.name) if entry.is_folder else None
                if parsed is not None and (parsed.topic, parsed.partition) == name:
                    yield entry.path


def _is_live(folder: str) -> bool:
    parsed = parse_folder_name(folder.rstrip("/").rpartition("/")[2])
    return parsed is not None and parsed.state == LIVE


def _in_logs(logs: list[FoundFile], starts: EpochStarts) -> Iterator[OverruledBatches]:
    """Yield the rows of some segments of a folder.

    Whatever is overruled is at the end of a log: older segments than the newest one that begins with a valid batch need
    not be read.
    """
    rows: list[OverruledBatches] = []
    for log in reversed(logs):
        overruled = _in_log(log.path, starts)
        rows = [*(row for row in overruled if row is not None), *rows]
        if overruled and overruled[0] is None:
            break
    yield from rows


def _in_log(path: str, starts: EpochStarts) -> list[OverruledBatches | None]:
    """Return the rows of a segment, None for batches that were not overruled."""
    try:
        with open_source(path) as source:
            batches = [row for row in walk(source) if isinstance(row, Batch) and row.crc_valid and row.magic >= 2]
    except InputError:
        return []
    groups = groupby(batches, lambda batch: (batch.partition_leader_epoch or 0, _overruled_by(batch, starts)))
    return [None if later is None else _row(path, own, later, list(group)) for (own, later), group in groups]


def _overruled_by(batch: Batch, starts: EpochStarts) -> int | None:
    """Return the first epoch that is above a batch's own and begins at its offset or before, None if there is none."""
    own, first = batch.partition_leader_epoch, batch.base_offset
    if own is None or own < 0 or first is None:
        return None
    return next((epoch for epoch, start in starts if epoch > own and start <= first), None)


def _row(path: str, own: int, later: int, batches: list[Batch]) -> OverruledBatches:
    times = [batch.max_timestamp for batch in batches]
    return OverruledBatches(
        path=path,
        position=batches[0].position,
        leader_epoch=own,
        overruled_by=later,
        first_offset=min(batch.base_offset for batch in batches if batch.base_offset is not None),
        last_offset=max(map(attrgetter("last_offset"), batches)),
        records=sum(batch.count or 0 for batch in batches if not batch.is_control),
        first_timestamp=min(times),
        last_timestamp=max(times),
    )
