"""The replay of what real brokers wrote, against what they said while alive and the files they wrote beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kforensics.forensics.fold import Replay, fold
from kforensics.forensics.values import (
    EMPTY,
    UNKNOWN,
    BatchSummary,
    Boundary,
    Outcome,
    batch_summary,
    snapshot_boundary,
)
from kforensics.parsers.batches import walk
from kforensics.parsers.log_rows import records_of
from kforensics.parsers.producer_snapshot import ProducerSnapshotEntry, read_producer_snapshot
from kforensics.parsers.rows import Batch, Record
from kforensics.parsers.source import open_source
from kforensics.parsers.transaction_index import TransactionIndexEntry, read_transaction_index

SAMPLES = Path(__file__).resolve().parents[2] / "sample_logs"
# KAFKA-10702: up to this release an abort without a transaction was put into the index too.
INDEXES_EMPTY_ABORTS = "2.7."


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
        """The beginning of the log or, where its head was deleted, the snapshot at the first segment."""
        first = self.first_offset
        return EMPTY if first == 0 else snapshot_boundary(first, self.snapshots[first])

    @property
    def is_in_sync(self) -> bool:
        """Whether the replica held what its leader spoke of; one that was lost may hold what the leader never saw."""
        broker = next(part for part in self.folder.relative_to(SAMPLES).parts if part.startswith("broker-"))
        return int(broker.removeprefix("broker-")) in self.truth["isr"]

    def replay(self, boundary: Boundary | None = None) -> Replay:
        """Return the replay of the log, from its own boundary or another one."""
        return fold(self.log, boundary or self.boundary, self.truth["earliest"])


@cache
def _log(folder: Path) -> list[BatchSummary]:
    return [summary for path in sorted(folder.glob("*.log")) for summary in _segment(path)]


def _segment(path: Path) -> Iterator[BatchSummary]:
    source = open_source(path)
    for batch in walk(source):
        if isinstance(batch, Batch):
            first = next(records_of(source, batch), None) if batch.is_control else None
            yield batch_summary(batch, first if isinstance(first, Record) else None)


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


PARTITIONS = tuple(_partitions())


def _each(found: tuple[Partition, ...]) -> pytest.MarkDecorator:
    cases = [pytest.param(one, id=one.folder.relative_to(SAMPLES).as_posix()) for one in found]
    return pytest.mark.parametrize("partition", cases)


partitions = _each(PARTITIONS)
partitions_in_sync = _each(tuple(one for one in PARTITIONS if one.is_in_sync))
# Brokers before 2.8 do not describe their producers.
partitions_described = _each(tuple(one for one in PARTITIONS if one.is_in_sync and one.truth["producers"] is not None))
# What the cleaner has removed since is still in the snapshots it had been in.
partitions_as_written = _each(tuple(one for one in PARTITIONS if not one.is_cleaned))


def _as_in_snapshot(replay: Replay) -> set[tuple[int, ...]]:
    return {
        (
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            one.last_offset,
            one.offset_delta,
            one.last_timestamp,
            one.coordinator_epoch,
            one.current_txn_first_offset,
        )
        for one in replay.producers.values()
    }


def _entries(snapshot: list[ProducerSnapshotEntry]) -> set[tuple[int, ...]]:
    return {
        (
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            one.last_offset,
            one.offset_delta,
            one.timestamp,
            one.coordinator_epoch,
            one.current_txn_first_offset,
        )
        for one in snapshot
    }


@partitions_in_sync
def test_last_stable_offset_is_that_of_the_live_broker(partition: Partition) -> None:
    replay = partition.replay()
    found = replay.last_stable_offset()
    assert replay.log_end_offset == partition.truth["latest"]
    assert (found.last_stable_offset, found.exact) == (partition.truth["latest_read_committed"], True)


@partitions_described
def test_producers_and_open_transactions_are_those_of_the_live_broker(partition: Partition) -> None:
    said = partition.truth["producers"]
    replay = partition.replay()
    assert {
        one.producer_id: {
            "producer_id": one.producer_id,
            "producer_epoch": one.producer_epoch,
            "last_sequence": one.last_sequence,
            "last_timestamp": one.last_timestamp,
            "coordinator_epoch": one.coordinator_epoch,
            "current_transaction_start_offset": one.current_txn_first_offset,
        }
        for one in replay.producers.values()
    } == {one["producer_id"]: one for one in said}
    assert {one.producer_id: one.first_offset for one in replay.open_transactions} == {
        one["producer_id"]: one["current_transaction_start_offset"]
        for one in said
        if one["current_transaction_start_offset"] >= 0
    }


@partitions
def test_aborted_transactions_are_those_of_the_transaction_indexes(partition: Partition) -> None:
    """In a cleaned log an entry may outlive its data by a round of cleaning, but no data its entry."""
    replay = partition.replay()
    rebuilt = {
        (one.producer_id, one.first_offset, one.last_offset, one.last_stable_offset)
        for one in replay.aborted_transactions
    }
    if partition.kafka.startswith(INDEXES_EMPTY_ABORTS):
        rebuilt |= {
            (one.producer_id, one.marker_offset, one.marker_offset, one.marker_offset + 1)
            for one in replay.empty_markers
            if one.outcome is Outcome.ABORTED and not partition.is_cleaned
        }
    rows = [row for path in partition.folder.glob("*.txnindex") for row in read_transaction_index(open_source(path))]
    stored = {
        (row.producer_id, row.first_offset, row.last_offset, row.last_stable_offset)
        for row in rows
        if isinstance(row, TransactionIndexEntry)
    }
    assert rebuilt <= stored
    left_over = {entry for entry in stored - rebuilt if not (partition.is_cleaned and _data_is_gone(partition, entry))}
    assert left_over == set()


def _data_is_gone(partition: Partition, entry: tuple[int, int, int, int]) -> bool:
    producer_id, first_offset, last_offset, _ = entry
    return not any(
        first_offset <= batch.base_offset < last_offset and batch.producer_id == producer_id for batch in partition.log
    )


@partitions_as_written
def test_state_is_that_of_the_snapshots_on_the_way(partition: Partition) -> None:
    for offset, snapshot in partition.snapshots.items():
        if offset >= partition.boundary.offset:
            before = fold([one for one in partition.log if one.base_offset < offset], partition.boundary)
            assert _as_in_snapshot(before) == _entries(snapshot), offset


@partitions
def test_replay_from_any_snapshot_comes_to_the_same_end(partition: Partition) -> None:
    whole = partition.replay()
    for offset, snapshot in partition.snapshots.items():
        tail = partition.replay(snapshot_boundary(offset, snapshot))
        assert _as_in_snapshot(tail) == _as_in_snapshot(whole), offset
        assert tail.last_stable_offset().last_stable_offset == whole.last_stable_offset().last_stable_offset, offset
        # A snapshot may know an open transaction whose data was cleaned away since, with its marker still there.
        behind = {one for one in whole.aborted_transactions if one.last_offset >= offset}
        assert behind == set(tail.aborted_transactions) or partition.is_cleaned, offset


@partitions_as_written
def test_without_what_stood_before_the_bounds_hold_and_what_is_called_exact_is(partition: Partition) -> None:
    whole = partition.replay()
    known = {(one.producer_id, one.first_offset, one.marker_offset) for one in whole.transactions}
    for offset in partition.snapshots:
        log_start_offset = max(offset, whole.log_start_offset)
        tail = fold([one for one in partition.log if one.base_offset >= offset], UNKNOWN, log_start_offset)
        stable = tail.last_stable_offset()
        expected = max(whole.last_stable_offset().last_stable_offset, log_start_offset)
        assert stable.lowest <= expected <= stable.last_stable_offset, offset
        exact = [one for one in tail.transactions if one.first_offset_exact]
        assert {(one.producer_id, one.first_offset, one.marker_offset) for one in exact} <= known, offset


def test_samples_hold_what_is_to_be_compared() -> None:
    """A sample that gets lost must not make these tests pass."""
    replays = [one.replay() for one in PARTITIONS]
    counts = (
        len(PARTITIONS),
        sum(len(one.snapshots) for one in PARTITIONS),
        sum(len(one.producers) for one in replays),
        sum(len(one.transactions) for one in replays),
        sum(len(one.open_transactions) for one in replays),
        sum(len(one.aborted_transactions) for one in replays),
    )
    least = (164, 401, 258, 304, 20, 119)
    assert all(count >= low for count, low in zip(counts, least, strict=True)), counts
