"""The replay of what real brokers wrote, against what they said while alive and the files they wrote beside it."""

from __future__ import annotations

from kforensics.forensics.replay.fold import Replay, fold
from kforensics.forensics.replay.replay_types import UNKNOWN, Outcome
from kforensics.parsers.files.source import open_source
from kforensics.parsers.state.producer_snapshot import ProducerSnapshotEntry
from kforensics.parsers.state.transaction_index import TransactionIndexEntry, read_transaction_index
from tests.forensics.events import snapshot_boundary
from tests.forensics.partitions import (
    PARTITIONS,
    Partition,
    partitions,
    partitions_as_written,
    partitions_described,
    partitions_in_sync,
    partitions_of_no_past,
)

# KAFKA-10702: up to this release an abort without a transaction was put into the index too.
INDEXES_EMPTY_ABORTS = "2.7."


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
    assert (found.last_stable_offset, found.exact) == (partition.last_stable_offset, True)


@partitions_of_no_past
def test_last_stable_offset_of_a_broker_that_forgot_is_no_lower_than_that_of_its_log(partition: Partition) -> None:
    """And where the head is gone it is within the bounds."""
    found = partition.replay().last_stable_offset()
    assert found.lowest <= partition.last_stable_offset
    if not found.exact:
        assert partition.last_stable_offset <= found.last_stable_offset


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
