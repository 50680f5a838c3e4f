"""Partitions as a whole: what the fast road says of real ones is what the live broker said and the files it wrote."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kforensics.forensics.audit.partition_result import noters_of
from kforensics.forensics.checks.partition_checks import FAMILIES
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import Examination, examine, producers_below
from kforensics.forensics.partition.log_chunk import Joining, Split, Stretch, Task, stretches
from kforensics.forensics.partition.log_summary import LogSummary
from kforensics.forensics.partition.partition_files import Partition, partitions_of
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.snapshot_records import snapshot_records
from kforensics.forensics.partition.stable_offset import stable_offset
from kforensics.forensics.partition.timeline import expected_index
from kforensics.forensics.replay.replay_types import BoundaryKind
from kforensics.forensics.sidecar.transaction_entries import index_records
from kforensics.parsers.files.discover import FoundFile, discover
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import walk
from lab.places import SAMPLES
from tests.forensics.forge import forge
from tests.forensics.partitions import (
    FOUND,
    PARTITIONS,
    partitions_described,
    partitions_in_sync,
    partitions_of_no_past,
)
from tests.forensics.partitions import Partition as Sample

RULES = Rules(1_795_300_000_000)
NOTERS = noters_of(FAMILIES)


def partition_in(folder: Path) -> Partition:
    """Return the partition whose folder, or whose log directory, is given."""
    (found,) = partitions_of(row for row in discover([str(folder)]) if isinstance(row, FoundFile))
    return found


def _case(sample: Sample) -> Case:
    return examine(partition_in(sample.folder), RULES, NOTERS, watches_indexes=True)


def _ends_as_told(sample: Sample, case: Case) -> bool:
    """Whether the log holds what it held when the broker was asked: some were written to before they crashed."""
    return bool(case.log_end_offset == sample.truth["latest"])


@partitions_in_sync
def test_last_stable_offset_is_that_of_the_live_broker(partition: Sample) -> None:
    case = _case(partition)
    if not _ends_as_told(partition, case):
        assert case.log_end_offset > partition.truth["latest"]
        return
    stable = stable_offset(case)
    assert (stable.last_stable_offset, stable.exact) == (partition.last_stable_offset, True)
    # What is in remote storage only is no part of the log on hand.
    assert case.log_start_offset == partition.truth["earliest"] or "remote-storage" in str(partition.folder)


@partitions_of_no_past
def test_a_broker_that_forgot_shows_no_less_than_its_log_allows(partition: Sample) -> None:
    """Where the head is gone and no snapshot tells of it, what the broker said lies within the bounds."""
    stable = stable_offset(_case(partition))
    assert stable.lowest <= partition.last_stable_offset
    if not stable.exact:
        assert partition.last_stable_offset <= stable.last_stable_offset


@partitions_described
def test_producers_are_those_of_the_live_broker(partition: Sample) -> None:
    case = _case(partition)
    if not _ends_as_told(partition, case):
        return
    said = {one["producer_id"]: one for one in partition.truth["producers"]}
    assert {
        one["producer_id"]: {
            "producer_id": one["producer_id"],
            "producer_epoch": one["producer_epoch"],
            "last_sequence": one["last_sequence"],
            "last_timestamp": one["last_timestamp"],
            "coordinator_epoch": one["coordinator_epoch"],
            "current_transaction_start_offset": one["current_txn_first_offset"],
        }
        for one in case.producers
    } == said


def test_the_samples_are_compared_with_something(record_property: Any) -> None:
    """So many partitions and producers, and entries of transaction indexes and snapshots, that the broker wrote."""
    partitions = producers = entries = snapshots = states = 0
    for sample in PARTITIONS:
        case = _case(sample)
        partitions += 1
        producers += len(sample.truth["producers"] or ())
        indexed = index_records(case.partition)
        assert indexed is not None
        entries += len(indexed)
        for offset, producers_there in case.producers_at.items():
            written = snapshot_records(case.partition.snapshots[offset].path)
            assert written is not None
            snapshots, states = snapshots + 1, states + len(written)
            assert len(producers_there) <= len(case.producers)
    found = {"partitions": partitions, "producers": producers, "index entries": entries, "snapshots": snapshots}
    record_property("examined", {**found, "snapshot entries": states})
    assert partitions > 150
    assert min(producers, entries, snapshots, states) > 50


def _as_written(sample: Sample) -> bool:
    return not sample.is_cleaned


@pytest.mark.parametrize(
    "sample",
    [
        pytest.param(one, id=str(one.folder)[-60:])
        for one in PARTITIONS
        if _as_written(one) and not one.kafka.startswith("2.7.")
    ],
)
def test_transaction_indexes_and_snapshots_are_those_the_broker_wrote(sample: Sample) -> None:
    """Rebuilt from the log alone, but for what stood before its first batch."""
    case = _case(sample)
    indexed = index_records(case.partition)
    assert indexed is not None
    names = ["producer_id", "first_offset", "last_offset"]
    rebuilt = [row for rows in expected_index(case.ledger) for row in rows[names].tolist()]
    written_entries = [entry for entries in indexed for entry in entries[names].tolist()]
    assert rebuilt == [entry for entry in written_entries if entry[2] >= case.boundary.offset]
    for offset, rebuilt_producers in case.producers_at.items():
        written = snapshot_records(case.partition.snapshots[offset].path)
        assert written is not None
        if offset <= case.log_end_offset:
            assert _states(rebuilt_producers) == _states(written), offset


def _states(producers: Any) -> list[tuple[Any, ...]]:
    names = [name for name in producers.dtype.names if not name.startswith("recent")]
    found: list[tuple[Any, ...]] = producers[names].tolist()
    return found


def _boundaries(partition: Partition, segment: int) -> Iterator[int]:
    with open_source(partition.segments[segment].path) as source:
        yield from (row.position for row in walk(source) if isinstance(row, Batch) and row.crc_valid)


def _cut(partition: Partition, dice: random.Random, share: float) -> Iterator[Split]:
    for segment in range(len(partition.segments)):
        inside = [at for at in _boundaries(partition, segment) if at and dice.random() < share]
        for start, stop in zip([0, *inside], [*inside, None], strict=True):
            yield Split(segment, start, stop)


def _joined(task: Task, split: Split) -> list[Stretch]:
    joining = Joining(task)
    for stretch in stretches(task, split):
        joining.add(stretch)
    return joining.found()


def _assert_same(left: Case, right: Case) -> None:
    for name in ("transactions", "empty_markers", "producers", "anomalies"):
        assert repr(getattr(left, name).tolist()) == repr(getattr(right, name).tolist()), name
    assert (left.boundary, left.exact_from) == (right.boundary, right.exact_from)
    assert left.producers_at.keys() == right.producers_at.keys()
    for offset, producers in left.producers_at.items():
        assert repr(producers.tolist()) == repr(right.producers_at[offset].tolist())
    for field in fields(LogSummary):
        if field.name != "marks":  # where a chunk begins is no fact of the log
            _assert_same_value(getattr(left.log, field.name), getattr(right.log, field.name), field.name)
    assert repr(left.index_faults) == repr(right.index_faults)


def _assert_same_value(left: Any, right: Any, name: str) -> None:
    if isinstance(left, np.ndarray):
        assert sorted(left.tolist()) == sorted(right.tolist()), name
    elif hasattr(left, "position"):
        assert [getattr(left, one.name).tolist() for one in fields(left)] == [
            getattr(right, one.name).tolist() for one in fields(right)
        ], name
    else:
        assert left == right, name


def _name(folder: Path | str) -> str:
    """Return what names a sample wherever the checkout is: the same dice fall everywhere."""
    return str(Path(folder).relative_to(SAMPLES))


@pytest.mark.parametrize("sample", [pytest.param(one, id=str(one.folder)[-60:]) for one in FOUND])
def test_a_log_says_the_same_however_it_is_cut(sample: Sample) -> None:
    """Whole, one batch at a time, and cut anywhere by workers: the same values, snapshots and notes included."""
    partition = partition_in(sample.folder)
    whole = examine(partition, RULES, NOTERS, watches_indexes=True)
    dice = random.Random(_name(sample.folder))  # noqa: S311  # cuts, no secrets
    task = Task(partition, RULES, NOTERS, watches_indexes=True, workers=0)
    for share in (1.0, 0.3):
        examination = Examination(task)
        for split in _cut(partition, dice, share):
            examination.add(_joined(task, split) if dice.random() < 0.5 else stretches(task, split))
        case = examination.case()
        _assert_same(whole, case)
        assert repr(stable_offset(whole)) == repr(stable_offset(case))


DAMAGED = [
    partition
    for partition in partitions_of(row for row in discover([str(SAMPLES / "damaged")]) if isinstance(row, FoundFile))
    if any(segment.size for segment in partition.segments)
]


@pytest.mark.parametrize("partition", [pytest.param(one, id=one.folder[-60:]) for one in DAMAGED])
def test_a_damaged_log_says_the_same_however_it_is_cut(partition: Partition) -> None:
    """Cut where batches are sound, as splits are: what stands before a cut shows where good data goes on."""
    whole = examine(partition, RULES, NOTERS, watches_indexes=True)
    task = Task(partition, RULES, NOTERS, watches_indexes=True, workers=0)
    dice = random.Random(_name(partition.folder))  # noqa: S311  # cuts, no secrets
    for share in (1.0, 0.7, 0.5):
        examination = Examination(task)
        for split in _cut(partition, dice, share):
            examination.add(_joined(task, split))
        case = examination.case()
        _assert_same(whole, case)
        assert repr(stable_offset(whole)) == repr(stable_offset(case))


def test_a_snapshot_behind_the_first_batch_tells_what_was_open_before_it(tmp_path: Path) -> None:
    """Example 21: nothing is known of what stood before the first batch, until a snapshot lists what is open."""
    text = "gone D 7 0 0-9 @90-99 T; D 1 0 5-5 @100-100 T; M 2 0 A 1 @101; M 1 0 C 1 @102"
    without = forge(tmp_path / "without", {100: text}, snapshots={100: None, 103: None}, log_start=100)
    case = examine(partition_in(without), RULES)
    stable = stable_offset(case)
    assert (case.boundary.kind, case.transactions["first_offset_exact"].tolist()) == (BoundaryKind.UNKNOWN, [False])
    assert (stable.lowest, stable.last_stable_offset, stable.exact) == (100, 103, False)
    more = {100: text, 103: "D 3 0 0-0 @103-103 N"}
    with_one = forge(tmp_path / "with", more, snapshots={100: None}, log_start=100)
    case = examine(partition_in(with_one), RULES)
    stable = stable_offset(case)
    # The transaction of producer 7 began in what was deleted, and holds the offset at the start of the log.
    assert (case.boundary.kind, case.exact_from) == (BoundaryKind.SNAPSHOT, 103)
    assert (stable.last_stable_offset, stable.exact) == (100, True)
    assert int(stable.holder["first_offset"]) == 90


def test_producers_below_an_offset_are_those_of_the_log_up_to_there(tmp_path: Path) -> None:
    folder = forge(tmp_path, "D 1 0 0-4 @0-4 T; M 1 0 C 3 @5; D 2 0 0-0 @6-6 N; D 1 0 5-5 @7-7 T")
    case = examine(partition_in(folder), RULES)
    found = {offset: producers_below(case, offset)["producer_id"].tolist() for offset in (0, 5, 6, 7, 8, 99)}
    assert found == {0: [], 5: [1], 6: [1], 7: [1, 2], 8: [1, 2], 99: [1, 2]}
    assert producers_below(case, 5)["current_txn_first_offset"].tolist() == [0]
    assert producers_below(case, 8)["current_txn_first_offset"].tolist() == [7, -1]


def test_rows_of_a_table_come_as_values_and_as_columns(tmp_path: Path) -> None:
    from kforensics.forensics.partition.transaction_tables import TransactionTables

    folder = forge(tmp_path, "D 1 0 0-4 @0-4 T; M 1 0 C 3 @5; D 1 0 5-5 @7-7 T")
    stream = TransactionTables.of(examine(partition_in(folder), RULES)).transactions()
    closed, opened = stream.parts()
    assert isinstance(closed, Rows)
    columns = [row for part in stream.record_batches() for row in part.to_pylist()]
    assert [tuple(row.values()) for row in columns] == list(stream) == [*closed, *opened]
    assert [row["marker_offset"] for row in columns] == [5, None] == [row for (row,) in stream.only("marker_offset")]
