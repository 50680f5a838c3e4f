"""The partitions among the samples whose leaders told of their producers, or that hold batches of any."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kforensics.forensics.replay.fold import Replay, fold
from kforensics.forensics.replay.replay_types import EMPTY, UNKNOWN, BatchSummary, Boundary, batch_summary
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import records_of
from kforensics.parsers.state.producer_snapshot import ProducerSnapshotEntry, read_producer_snapshot
from lab.places import SAMPLES
from tests.forensics.events import snapshot_boundary

# Brokers that came up without what they knew of producers, after a kill or without snapshots: these do not say it.
FORGETFUL = re.compile(r"state-lost-after-stop/|ghosts(-3\.9)?/broker-1/(killed-|restarted-open-in-nothing)")


@dataclass(frozen=True)
class Partition:
    """A partition's folder, the release that wrote it, and what its leader said of it while alive."""

    folder: Path
    kafka: str
    truth: dict[str, Any] = field(repr=False)

    @property
    def first_offset(self) -> int:
        """First offset of the first segment, from its name."""
        return min(int(path.stem) for path in self.folder.glob("*.log"))

    @property
    def log(self) -> list[BatchSummary]:
        """What was there when the leader was asked; some brokers wrote more before they crashed."""
        return [batch for batch in _log(self.folder) if batch.last_offset < self.truth["latest"]]

    @property
    def is_cleaned(self) -> bool:
        """Whether a hole between or inside batches shows that the log was compacted."""
        ends = [self.first_offset, *(batch.last_offset + 1 for batch in self.log)]
        holes = any(batch.base_offset > end for batch, end in zip(self.log, ends, strict=False))
        return holes or any(batch.count <= batch.last_offset - batch.base_offset for batch in self.log)

    @property
    def snapshots(self) -> dict[int, list[ProducerSnapshotEntry]]:
        """The snapshots, by offset, behind which the log is all there."""
        found = {int(path.stem): _snapshot(path) for path in sorted(self.folder.glob("*.snapshot"))}
        return {offset: found[offset] for offset in found if self.first_offset <= offset <= self.truth["latest"]}

    @property
    def boundary(self) -> Boundary:
        """The beginning of the log or, where its head was deleted, the snapshot at its first segment, if any."""
        first = self.first_offset
        if first == 0:
            return EMPTY
        return snapshot_boundary(first, self.snapshots[first]) if first in self.snapshots else UNKNOWN

    @property
    def last_stable_offset(self) -> int:
        """What the leader said, or the log start: since 4.0 brokers give the base offset of the batch it lies in."""
        return max(int(self.truth["earliest"]), int(self.truth["latest_read_committed"]))

    @property
    def is_told(self) -> bool:
        """Whether the log or a snapshot tells all of its past, and the broker had not forgotten it itself."""
        name = self.folder.relative_to(SAMPLES).as_posix()
        return self.boundary is not UNKNOWN and FORGETFUL.match(name) is None

    @property
    def is_in_sync(self) -> bool:
        """Whether the replica held what its leader spoke of; one that was lost may hold what the leader never saw."""
        broker = next(part for part in self.folder.relative_to(SAMPLES).parts if part.startswith("broker-"))
        return int(broker.removeprefix("broker-")) in self.truth["isr"]

    def replay(self, boundary: Boundary | None = None) -> Replay:
        """Return the replay of the log, from its own boundary or another one."""
        return fold(self.log, boundary or self.boundary, self.truth["earliest"])


def all_batches(partition: Partition) -> list[BatchSummary]:
    """Return all batches of a partition, those too that were written after its leader was asked."""
    return _log(partition.folder)


@cache
def _log(folder: Path) -> list[BatchSummary]:
    paths = enumerate(sorted(folder.glob("*.log")))
    return [summary for number, path in paths for summary in _segment(path, number)]


def _segment(path: Path, number: int) -> Iterator[BatchSummary]:
    source = open_source(path)
    for batch in walk(source):
        if isinstance(batch, Batch):
            first = next(records_of(source, batch), None) if batch.is_control else None
            yield batch_summary(batch, first if isinstance(first, Record) else None, number)


def _snapshot(path: Path) -> list[ProducerSnapshotEntry]:
    return [row for row in read_producer_snapshot(open_source(path)) if isinstance(row, ProducerSnapshotEntry)]


def _partitions() -> Iterator[Partition]:
    for path in sorted(SAMPLES.glob("*/truth.json")):
        truth = json.loads(path.read_text(encoding="utf-8"))
        for topic, partitions in truth["topics"].items():
            for number, said in partitions.items():
                # Of a topic that is being deleted the brokers say nothing more.
                folders = sorted(path.parent.rglob(f"{topic}-{number}")) if "latest_read_committed" in said else []
                found = (Partition(folder, truth["kafka"], said) for folder in folders)
                yield from (one for one in found if _has_producers(one))


def _has_producers(partition: Partition) -> bool:
    return bool(partition.truth["producers"]) or any(batch.producer_id >= 0 for batch in partition.log)


FOUND = tuple(_partitions())
PARTITIONS = tuple(one for one in FOUND if one.is_told)


def _each(found: tuple[Partition, ...]) -> pytest.MarkDecorator:
    """Return the mark that lets a test run for some partitions."""
    cases = [pytest.param(one, id=one.folder.relative_to(SAMPLES).as_posix()) for one in found]
    return pytest.mark.parametrize("partition", cases)


partitions = _each(PARTITIONS)
partitions_of_no_past = _each(tuple(one for one in FOUND if not one.is_told))
partitions_in_sync = _each(tuple(one for one in PARTITIONS if one.is_in_sync))
# Brokers before 2.8 do not describe their producers.
partitions_described = _each(tuple(one for one in PARTITIONS if one.is_in_sync and one.truth["producers"] is not None))
# What the cleaner has removed since is still in the snapshots it had been in.
partitions_as_written = _each(tuple(one for one in PARTITIONS if not one.is_cleaned))
