"""The sample partitions whose leaders reported producers, or that contain batches of producers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kforensics.forensics.replay.boundary import EMPTY, UNKNOWN, Boundary
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import read_records
from kforensics.parsers.state.producer_snapshot import ProducerSnapshotEntry, read_producer_snapshot
from lab.places import SAMPLES
from tests.forensics.batch_notation import snapshot_boundary
from tests.forensics.with_partitions import Test, with_partitions
from tests.reference.fold import Replay, fold
from tests.reference.replay_values import BatchSummary, batch_summary

# Brokers that lost their producer state, after a kill or without snapshots, or soon expired it, and do not report it.
FORGETFUL = re.compile(
    r"state-lost-after-stop/|producer-expiry/|ghosts(-3\.9)?/broker-1/(killed-|restarted-open-in-nothing)"
)


@dataclass(frozen=True)
class Partition:
    """A partition's folder, the release that wrote it, and what its live leader reported about it."""

    folder: Path
    kafka: str
    truth: dict[str, Any] = field(repr=False)

    @property
    def first_offset(self) -> int:
        """First offset of the first segment, from its name."""
        return min(int(path.stem) for path in self.folder.glob("*.log"))

    @property
    def log(self) -> list[BatchSummary]:
        """The batches at the time of the leader's report; some brokers wrote more before they crashed."""
        return [batch for batch in _log(self.folder) if batch.last_offset < self.truth["latest"]]

    @property
    def is_cleaned(self) -> bool:
        """Whether an offset gap between or inside batches shows that the log was compacted."""
        ends = [self.first_offset, *(batch.last_offset + 1 for batch in self.log)]
        offset_gaps = any(batch.base_offset > end for batch, end in zip(self.log, ends, strict=False))
        return offset_gaps or any(batch.count <= batch.last_offset - batch.base_offset for batch in self.log)

    @property
    def snapshots(self) -> dict[int, list[ProducerSnapshotEntry]]:
        """The snapshots, by offset, after which the log is complete."""
        snapshots = {int(path.stem): _snapshot(path) for path in sorted(self.folder.glob("*.snapshot"))}
        first, last = self.first_offset, self.truth["latest"]
        return {offset: snapshot for offset, snapshot in snapshots.items() if first <= offset <= last}

    @property
    def boundary(self) -> Boundary:
        """The start of the log or, if that was deleted, the snapshot at its first segment, if any."""
        first = self.first_offset
        if first == 0:
            return EMPTY
        return snapshot_boundary(first, self.snapshots[first]) if first in self.snapshots else UNKNOWN

    @property
    def last_stable_offset(self) -> int:
        """As the leader reported, or the log start: since 4.0 brokers report the base offset of the batch it is in."""
        return max(int(self.truth["earliest"]), int(self.truth["latest_read_committed"]))

    @property
    def history_complete(self) -> bool:
        """Whether the log or a snapshot contains its whole history, and the broker had not lost it."""
        name = self.folder.relative_to(SAMPLES).as_posix()
        return self.boundary is not UNKNOWN and FORGETFUL.match(name) is None

    @property
    def is_in_sync(self) -> bool:
        """Whether the replica had what its leader reported; one out of sync may contain what the leader never saw."""
        broker = next(part for part in self.folder.relative_to(SAMPLES).parts if part.startswith("broker-"))
        return int(broker.removeprefix("broker-")) in self.truth["isr"]

    def replay(self, boundary: Boundary | None = None) -> Replay:
        """Return the replay of the log from its own boundary, or from another one."""
        return fold(self.log, boundary or self.boundary, self.truth["earliest"])


def all_batches(partition: Partition) -> list[BatchSummary]:
    """Return all batches of a partition, including those written after its leader's report."""
    return _log(partition.folder)


@cache
def _log(folder: Path) -> list[BatchSummary]:
    paths = enumerate(sorted(folder.glob("*.log")))
    return [summary for number, path in paths for summary in _segment(path, number)]


def _segment(path: Path, number: int) -> Iterator[BatchSummary]:
    source = open_source(path)
    for batch in walk(source):
        if isinstance(batch, Batch):
            first = next(read_records(source, batch), None) if batch.is_control else None
            yield batch_summary(batch, first if isinstance(first, Record) else None, number)


def _snapshot(path: Path) -> list[ProducerSnapshotEntry]:
    return [row for row in read_producer_snapshot(open_source(path)) if isinstance(row, ProducerSnapshotEntry)]


def _partitions() -> Iterator[Partition]:
    for path in sorted(SAMPLES.glob("*/truth.json")):
        truth = json.loads(path.read_text(encoding="utf-8"))
        for topic, partitions in truth["topics"].items():
            for number, reported in partitions.items():
                # Brokers report nothing about a topic that is being deleted.
                is_reported = "latest_read_committed" in reported
                folders = sorted(path.parent.rglob(f"{topic}-{number}")) if is_reported else []
                samples = (Partition(folder, truth["kafka"], reported) for folder in folders)
                yield from filter(_has_producers, samples)


def _has_producers(partition: Partition) -> bool:
    return bool(partition.truth["producers"]) or any(batch.producer_id >= 0 for batch in partition.log)


ALL_PARTITIONS = tuple(_partitions())
PARTITIONS = tuple(partition for partition in ALL_PARTITIONS if partition.history_complete)


def _each(samples: Iterable[Partition]) -> Callable[[Test], Test]:
    """Return a decorator that runs a test with each of some partitions."""
    return with_partitions((sample.folder.relative_to(SAMPLES).as_posix(), sample) for sample in samples)


IN_SYNC = tuple(partition for partition in PARTITIONS if partition.is_in_sync)
partitions = _each(PARTITIONS)
partitions_without_history = _each(partition for partition in ALL_PARTITIONS if not partition.history_complete)
partitions_in_sync = _each(IN_SYNC)
# Brokers before 2.8 do not describe their producers.
partitions_described = _each(partition for partition in IN_SYNC if partition.truth["producers"] is not None)
# Snapshots still include what the cleaner has removed since.
partitions_as_written = _each(partition for partition in PARTITIONS if not partition.is_cleaned)
