"""The reference replay of logs of real brokers, against the state the brokers reported and the files they wrote."""

from __future__ import annotations

from kforensics.forensics.core.record_types import TransactionOutcome
from kforensics.forensics.replay.boundary import UNKNOWN
from kforensics.parsers.files.source import open_source
from kforensics.parsers.state.indexes import TransactionIndexEntry, read_transaction_index
from kforensics.parsers.state.producer_snapshot import ProducerSnapshotEntry
from tests.forensics.batch_notation import snapshot_boundary
from tests.forensics.sample_partitions import (
    PARTITIONS,
    Partition,
    partitions,
    partitions_as_written,
    partitions_described,
    partitions_in_sync,
    partitions_without_history,
)
from tests.reference.fold import Replay, fold

# KAFKA-10702: up to this release, an abort without a transaction was added to the index as well.
INDEXES_EMPTY_ABORTS = "2.7."


def _snapshot_values(replay: Replay) -> set[tuple[int, ...]]:
    """Return the producers of a replay as a snapshot contains them."""
    return {
        (
            producer.producer_id,
            producer.producer_epoch,
            producer.last_sequence,
            producer.last_offset,
            producer.offset_delta,
            producer.last_timestamp,
            producer.coordinator_epoch,
            producer.current_txn_first_offset,
        )
        for producer in replay.producers.values()
    }


def _entry_values(snapshot: list[ProducerSnapshotEntry]) -> set[tuple[int, ...]]:
    return {
        (
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.offset_delta,
            entry.timestamp,
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )
        for entry in snapshot
    }


@partitions_in_sync
def test_last_stable_offset_is_that_of_the_live_broker(partition: Partition) -> None:
    replay = partition.replay()
    stable = replay.last_stable_offset()
    assert replay.log_end_offset == partition.truth["latest"]
    assert (stable.last_stable_offset, stable.exact) == (partition.last_stable_offset, True)


@partitions_without_history
def test_last_stable_offset_of_a_broker_without_history_is_within_the_bounds(partition: Partition) -> None:
    """It may be higher than that of the log, unless the log start is missing."""
    stable = partition.replay().last_stable_offset()
    assert stable.lowest <= partition.last_stable_offset
    if not stable.exact:
        assert partition.last_stable_offset <= stable.last_stable_offset


@partitions_described
def test_producers_and_open_transactions_are_those_of_the_live_broker(partition: Partition) -> None:
    reported = partition.truth["producers"]
    replay = partition.replay()
    assert {
        producer.producer_id: {
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "last_sequence": producer.last_sequence,
            "last_timestamp": producer.last_timestamp,
            "coordinator_epoch": producer.coordinator_epoch,
            "current_transaction_start_offset": producer.current_txn_first_offset,
        }
        for producer in replay.producers.values()
    } == {producer["producer_id"]: producer for producer in reported}
    assert {transaction.producer_id: transaction.first_offset for transaction in replay.open_transactions} == {
        producer["producer_id"]: producer["current_transaction_start_offset"]
        for producer in reported
        if producer["current_transaction_start_offset"] >= 0
    }


@partitions
def test_aborted_transactions_are_those_of_the_transaction_indexes(partition: Partition) -> None:
    """In a compacted log, an entry may outlive its data until the next compaction, but never the other way round."""
    replay = partition.replay()
    rebuilt = {
        (aborted.producer_id, aborted.first_offset, aborted.last_offset, aborted.last_stable_offset)
        for aborted in replay.aborted_transactions
    }
    rows = [row for path in partition.folder.glob("*.txnindex") for row in read_transaction_index(open_source(path))]
    stored = {
        (row.producer_id, row.first_offset, row.last_offset, row.last_stable_offset)
        for row in rows
        if isinstance(row, TransactionIndexEntry)
    }
    if partition.kafka.startswith(INDEXES_EMPTY_ABORTS) and not partition.is_cleaned:
        # Their last stable offset depends on what else was open.
        empty = {
            (marker.producer_id, marker.marker_offset, marker.marker_offset)
            for marker in replay.empty_markers
            if marker.outcome is TransactionOutcome.ABORTED
        }
        of_empty = {entry for entry in stored if entry[:3] in empty}
        assert {entry[:3] for entry in of_empty} == empty
        rebuilt |= of_empty
    assert rebuilt <= stored
    extra = {entry for entry in stored - rebuilt if not (partition.is_cleaned and _data_is_gone(partition, entry))}
    assert extra == set()


def _data_is_gone(partition: Partition, entry: tuple[int, int, int, int]) -> bool:
    producer_id, first_offset, last_offset, _ = entry
    return not any(
        first_offset <= batch.base_offset < last_offset and batch.producer_id == producer_id for batch in partition.log
    )


@partitions_as_written
def test_the_state_at_each_snapshot_is_that_of_the_snapshot(partition: Partition) -> None:
    for offset, snapshot in partition.snapshots.items():
        if offset >= partition.boundary.offset:
            before = fold([batch for batch in partition.log if batch.base_offset < offset], partition.boundary)
            assert _snapshot_values(before) == _entry_values(snapshot), offset


@partitions
def test_replay_from_any_snapshot_has_the_same_result(partition: Partition) -> None:
    whole = partition.replay()
    for offset, snapshot in partition.snapshots.items():
        tail = partition.replay(snapshot_boundary(offset, snapshot))
        assert _snapshot_values(tail) == _snapshot_values(whole), offset
        assert tail.last_stable_offset().last_stable_offset == whole.last_stable_offset().last_stable_offset, offset
        # A snapshot may contain an open transaction whose data has been compacted away since, while its marker remains.
        after = {aborted for aborted in whole.aborted_transactions if aborted.last_offset >= offset}
        assert after == set(tail.aborted_transactions) or partition.is_cleaned, offset


@partitions_as_written
def test_without_the_log_start_the_bounds_hold_and_exact_results_are_exact(partition: Partition) -> None:
    whole = partition.replay()
    known = {(each.producer_id, each.first_offset, each.marker_offset) for each in whole.transactions}
    for offset in partition.snapshots:
        log_start_offset = max(offset, whole.log_start_offset)
        tail = fold([batch for batch in partition.log if batch.base_offset >= offset], UNKNOWN, log_start_offset)
        stable = tail.last_stable_offset()
        expected = max(whole.last_stable_offset().last_stable_offset, log_start_offset)
        assert stable.lowest <= expected <= stable.last_stable_offset, offset
        exact = [transaction for transaction in tail.transactions if transaction.first_offset_exact]
        assert {(each.producer_id, each.first_offset, each.marker_offset) for each in exact} <= known, offset


def test_samples_contain_enough_to_compare() -> None:
    """A lost sample must not make these tests pass."""
    replays = [partition.replay() for partition in PARTITIONS]
    counts = (
        len(PARTITIONS),
        sum(len(partition.snapshots) for partition in PARTITIONS),
        sum(len(replay.producers) for replay in replays),
        sum(len(replay.transactions) for replay in replays),
        sum(len(replay.open_transactions) for replay in replays),
        sum(len(replay.aborted_transactions) for replay in replays),
    )
    least = (164, 401, 258, 304, 20, 119)
    assert all(count >= low for count, low in zip(counts, least, strict=True)), counts
