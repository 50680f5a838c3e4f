"""The states of whole partitions, compared with what the live brokers reported and the files they wrote."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from kforensics.forensics.checks.check import collectors_of
from kforensics.forensics.checks.partition_checks import PARTITION_CHECKS
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import PartitionStateBuilder, examine
from kforensics.forensics.partition.forgotten_transactions import producers_below
from kforensics.forensics.partition.log_chunk import ChunkJoiner, LogChunk, ReadTask, log_chunks
from kforensics.forensics.partition.log_summary import LogSummary
from kforensics.forensics.partition.partition_files import Partition, partitions_of
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.snapshot_records import snapshot_records
from kforensics.forensics.partition.splits import SegmentSplit
from kforensics.forensics.partition.stable_offset import stable_offset
from kforensics.forensics.partition.timeline import expected_aborted_entries
from kforensics.forensics.replay.boundary import BoundaryKind
from kforensics.forensics.sidecar.aborted_entries import index_records
from kforensics.parsers.files.discover import FoundFile, discover
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.kernels.policy import no_kernels
from kforensics.parsers.log.batches import walk
from lab.places import SAMPLES
from tests.forensics.forge import forge
from tests.forensics.sample_partitions import (
    ALL_PARTITIONS,
    PARTITIONS,
    partitions_described,
    partitions_in_sync,
    partitions_without_history,
)
from tests.forensics.sample_partitions import Partition as Sample

RULES = Rules(1_795_300_000_000)
COLLECTORS = collectors_of(PARTITION_CHECKS)


def partition_in(folder: Path) -> Partition:
    """Return the partition whose folder, or whose log directory, is given."""
    (partition,) = partitions_of(row for row in discover([str(folder)]) if isinstance(row, FoundFile))
    return partition


def _state(sample: Sample) -> PartitionState:
    return examine(partition_in(sample.folder), RULES, COLLECTORS, watches_indexes=True)


def _ends_as_reported(sample: Sample, state: PartitionState) -> bool:
    """Return whether the log still ends where the broker reported; some brokers wrote more before they crashed."""
    return bool(state.log_end_offset == sample.truth["latest"])


@partitions_in_sync
def test_last_stable_offset_is_that_of_the_live_broker(partition: Sample) -> None:
    state = _state(partition)
    if not _ends_as_reported(partition, state):
        assert state.log_end_offset > partition.truth["latest"]
        return
    stable = stable_offset(state)
    assert stable.last_stable_offset == partition.last_stable_offset
    if not stable.exact:  # another release than the sample's may answer the base offset of the batch at the log start
        assert stable.blocking_transaction["first_offset"] < state.local_log_start_offset
    assert state.log_start_offset == partition.truth["earliest"]  # which may be in remote storage


@partitions_without_history
def test_the_offset_of_a_broker_that_lost_its_state_is_within_the_bounds(partition: Sample) -> None:
    """Also if the log start is missing and there is no snapshot of it."""
    stable = stable_offset(_state(partition))
    assert stable.lowest <= partition.last_stable_offset
    if not stable.exact:
        assert partition.last_stable_offset <= stable.last_stable_offset


@partitions_described
def test_producers_are_those_of_the_live_broker(partition: Sample) -> None:
    state = _state(partition)
    if not _ends_as_reported(partition, state):
        return
    expected = {producer["producer_id"]: producer for producer in partition.truth["producers"]}
    assert {
        row["producer_id"]: {
            "producer_id": row["producer_id"],
            "producer_epoch": row["producer_epoch"],
            "last_sequence": row["last_sequence"],
            "last_timestamp": row["last_timestamp"],
            "coordinator_epoch": row["coordinator_epoch"],
            "current_transaction_start_offset": row["current_txn_first_offset"],
        }
        for row in state.producers
    } == expected


def test_the_samples_contain_enough_to_compare(record_property: Any) -> None:
    """Count partitions, producers, and the entries of transaction indexes and snapshots that the brokers wrote."""
    partitions = producers = entries = snapshots = states = 0
    for sample in PARTITIONS:
        state = _state(sample)
        partitions += 1
        producers += len(sample.truth["producers"] or ())
        indexed = index_records(state.partition)
        assert indexed is not None
        entries += len(indexed)
        for offset, replayed in state.producers_at.items():
            written = snapshot_records(state.partition.snapshots[offset].path)
            assert written is not None
            snapshots, states = snapshots + 1, states + len(written)
            assert len(replayed) <= len(state.producers)
    counts = {"partitions": partitions, "producers": producers, "index entries": entries, "snapshots": snapshots}
    record_property("examined", {**counts, "snapshot entries": states})
    assert partitions > 150
    assert min(producers, entries, snapshots, states) > 50


def _as_written(sample: Sample) -> bool:
    return not sample.is_cleaned


@pytest.mark.parametrize(
    "sample",
    [
        pytest.param(sample, id=str(sample.folder)[-60:])
        for sample in PARTITIONS
        if _as_written(sample) and not sample.kafka.startswith("2.7.")
    ],
)
def test_rebuilt_transaction_indexes_and_snapshots_match_the_files_of_the_broker(sample: Sample) -> None:
    """Rebuilt from the log alone, except for what precedes its first batch."""
    state = _state(sample)
    indexed = index_records(state.partition)
    assert indexed is not None
    names = ["producer_id", "first_offset", "last_offset"]
    rebuilt = [row for rows in expected_aborted_entries(state.transaction_store) for row in rows[names].tolist()]
    written_entries = [entry for entries in indexed for entry in entries[names].tolist()]
    assert rebuilt == [entry for entry in written_entries if entry[2] >= state.boundary.offset]
    for offset, rebuilt_producers in state.producers_at.items():
        written = snapshot_records(state.partition.snapshots[offset].path)
        assert written is not None
        if offset <= state.log_end_offset:
            assert _states(rebuilt_producers[:]) == _states(written), offset


def _states(producers: Any) -> list[tuple[Any, ...]]:
    names = [name for name in producers.dtype.names if not name.startswith("recent")]
    values: list[tuple[Any, ...]] = producers[names].tolist()
    return values


def _batch_positions(partition: Partition, segment: int) -> Iterator[int]:
    with open_source(partition.segments[segment].path) as source:
        yield from (row.position for row in walk(source) if isinstance(row, Batch) and row.crc_valid)


def _random_splits(partition: Partition, dice: random.Random, share: float) -> Iterator[SegmentSplit]:
    for segment in range(len(partition.segments)):
        inside = [position for position in _batch_positions(partition, segment) if position and dice.random() < share]
        for start, stop in zip([0, *inside], [*inside, None], strict=True):
            yield SegmentSplit(segment, start, stop)


def _joined(task: ReadTask, split: SegmentSplit) -> list[LogChunk]:
    joiner = ChunkJoiner(task)
    for log_chunk in log_chunks(task, split):
        joiner.add(log_chunk)
    return joiner.joined()


def _assert_same(left: PartitionState, right: PartitionState) -> None:
    for name in ("transactions", "empty_markers", "producers", "anomalies"):
        assert repr(getattr(left, name)[:].tolist()) == repr(getattr(right, name)[:].tolist()), name
    assert (left.boundary, left.exact_from) == (right.boundary, right.exact_from)
    assert left.producers_at.keys() == right.producers_at.keys()
    for offset, producers in left.producers_at.items():
        assert repr(producers[:].tolist()) == repr(right.producers_at[offset][:].tolist())
    for field in fields(LogSummary):
        if field.name != "chunk_starts":  # depends on how the log was split
            _assert_same_value(getattr(left.log, field.name), getattr(right.log, field.name), field.name)
    assert repr(left.index_faults) == repr(right.index_faults)


def _assert_same_value(left: Any, right: Any, name: str) -> None:
    if isinstance(left, np.ndarray):
        assert sorted(left.tolist()) == sorted(right.tolist()), name
    elif hasattr(left, "position"):
        columns = [[getattr(side, field.name).tolist() for field in fields(side)] for side in (left, right)]
        assert columns[0] == columns[1], name
    else:
        assert left == right, name


def _name(folder: Path | str) -> str:
    """Return the name of a sample, which does not depend on the checkout, as a seed."""
    return str(Path(folder).relative_to(SAMPLES))


@pytest.mark.parametrize("sample", [pytest.param(sample, id=str(sample.folder)[-60:]) for sample in ALL_PARTITIONS])
def test_the_state_does_not_depend_on_how_the_log_is_split(sample: Sample) -> None:
    """As a whole, batch by batch, and split anywhere: the same state, including snapshots and observations."""
    partition = partition_in(sample.folder)
    whole = examine(partition, RULES, COLLECTORS, watches_indexes=True)
    dice = random.Random(_name(sample.folder))  # noqa: S311  # random splits, not a secret
    task = ReadTask(partition, RULES, COLLECTORS, watches_indexes=True, workers=0)
    for share in (1.0, 0.3):
        builder = PartitionStateBuilder(task)
        for split in _random_splits(partition, dice, share):
            builder.add(_joined(task, split) if dice.random() < 0.5 else log_chunks(task, split))
        state = builder.state()
        _assert_same(whole, state)
        assert repr(stable_offset(whole)) == repr(stable_offset(state))


DAMAGED = [
    partition
    for partition in partitions_of(row for row in discover([str(SAMPLES / "damaged")]) if isinstance(row, FoundFile))
    if any(segment.size for segment in partition.segments)
]


@pytest.mark.parametrize("partition", [pytest.param(damaged, id=damaged.folder[-60:]) for damaged in DAMAGED])
def test_the_state_of_a_damaged_log_does_not_depend_on_how_it_is_split(partition: Partition) -> None:
    """Split at sound batches, as splits are: the part before a split shows where good data continues."""
    whole = examine(partition, RULES, COLLECTORS, watches_indexes=True)
    task = ReadTask(partition, RULES, COLLECTORS, watches_indexes=True, workers=0)
    dice = random.Random(_name(partition.folder))  # noqa: S311  # random splits, not a secret
    for share in (1.0, 0.7, 0.5):
        builder = PartitionStateBuilder(task)
        for split in _random_splits(partition, dice, share):
            builder.add(_joined(task, split))
        state = builder.state()
        _assert_same(whole, state)
        assert repr(stable_offset(whole)) == repr(stable_offset(state))


def test_a_snapshot_after_the_first_batch_shows_what_was_open_before_it(tmp_path: Path) -> None:
    """Example 21: the log before the first batch is unknown, until a snapshot lists the open transactions."""
    text = "gone D 7 0 0-9 @90-99 T; D 1 0 5-5 @100-100 T; M 2 0 A 1 @101; M 1 0 C 1 @102"
    without = forge(tmp_path / "without", {100: text}, snapshots={100: None, 103: None}, log_start=100)
    state = examine(partition_in(without), RULES)
    stable = stable_offset(state)
    assert (state.boundary.kind, state.transactions["first_offset_exact"].tolist()) == (BoundaryKind.UNKNOWN, [False])
    assert (stable.lowest, stable.last_stable_offset, stable.exact) == (100, 103, False)
    more = {100: text, 103: "D 3 0 0-0 @103-103 N"}
    with_one = forge(tmp_path / "with", more, snapshots={100: None}, log_start=100)
    state = examine(partition_in(with_one), RULES)
    stable = stable_offset(state)
    # The transaction of producer 7 began in the deleted part, and blocks the offset at the log start.
    assert (state.boundary.kind, state.exact_from) == (BoundaryKind.SNAPSHOT, 103)
    assert (stable.last_stable_offset, stable.exact) == (100, True)
    assert int(stable.blocking_transaction["first_offset"]) == 90


def test_producers_below_an_offset_match_the_log_up_to_there(tmp_path: Path) -> None:
    folder = forge(tmp_path, "D 1 0 0-4 @0-4 T; M 1 0 C 3 @5; D 2 0 0-0 @6-6 N; D 1 0 5-5 @7-7 T")
    state = examine(partition_in(folder), RULES)
    producer_ids = {offset: producers_below(state, offset)["producer_id"].tolist() for offset in (0, 5, 6, 7, 8, 99)}
    assert producer_ids == {0: [], 5: [1], 6: [1], 7: [1, 2], 8: [1, 2], 99: [1, 2]}
    assert producers_below(state, 5)["current_txn_first_offset"].tolist() == [0]
    assert producers_below(state, 8)["current_txn_first_offset"].tolist() == [7, -1]


def test_rows_of_a_table_are_available_as_values_and_as_columns(tmp_path: Path) -> None:
    from kforensics.forensics.partition.partition_rows import TransactionTables

    folder = forge(tmp_path, "D 1 0 0-4 @0-4 T; M 1 0 C 3 @5; D 1 0 5-5 @7-7 T")
    stream = TransactionTables.of(examine(partition_in(folder), RULES)).transactions()
    closed, opened = stream.parts()
    assert isinstance(closed, Rows)
    columns = [row for part in stream.record_batches() for row in part.to_pylist()]
    assert [tuple(row.values()) for row in columns] == list(stream) == [*closed, *opened]
    assert [row["marker_offset"] for row in columns] == [5, None] == [row for (row,) in stream.only("marker_offset")]


def test_the_work_for_each_segment_does_not_grow_with_the_number_of_segments(tmp_path: Path) -> None:
    """Events of the profiler are counted: calls, and turns of generators. Each segment has a snapshot."""
    few, many = (_events_per_segment(tmp_path / f"made-{count}", count) for count in (60, 240))
    assert many < few * 1.05


def _events_per_segment(folder: Path, count: int) -> float:
    events = 0

    def profile(_frame: FrameType, _event: str, _value: object) -> None:
        nonlocal events
        events += 1

    text = {offset: f"D 1 0 {offset}-{offset} @{offset}-{offset} N" for offset in range(count)}
    partition, before = partition_in(forge(folder, text)), sys.getprofile()
    sys.setprofile(profile)
    try:
        examine(partition, RULES, COLLECTORS, no_kernels, watches_indexes=True)
    finally:
        sys.setprofile(before)
    return events / count
