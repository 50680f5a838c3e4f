"""Define the tables of ``explain``, and convert explanations to rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np

from kforensics.forensics.core.record_types import NO_TIME, TransactionOutcome
from kforensics.forensics.explain.offset_story import OffsetRun, OffsetStory
from kforensics.forensics.explain.producer_story import OUTCOME_NAMES, ProducerStory
from kforensics.forensics.explain.transactional_id_story import (
    PartitionOfTransaction,
    TransactionalIdStory,
    TransactionOfId,
)
from kforensics.parsers.log.log_rows import Place
from kforensics.parsers.tables.schemas import Table, parse_columns, placed_table

StoryRow: TypeAlias = tuple[Any, ...]
OFFSETS = parse_columns("""
offset int64 the offset
fate string what happened to its record, from the list above
read_uncommitted bool whether read_uncommitted consumers receive the record; null if the available files do not show it
read_committed bool whether read_committed consumers receive the record; null if the available files do not show it
exactness string how reliable this is: exact, approximate or unverifiable
why string the reason, as a clause
log_start_offset int64 first offset that consumers can read; null if the log is missing, as are the next three
last_stable_offset int64 end of the log for read_committed consumers
high_watermark int64 end of the log for all consumers: the log end offset unless --at is given
log_end_offset int64 offset after the last batch
path string path of the segment that contains its batch; null if no batch spans it, as are the next columns up to size
position int64 byte position of the batch
size int32 size of the batch in bytes
base_offset int64 first offset of the batch; null for a compressed entry of format 0 or 1
last_offset int64 last offset of the batch
producer_id int64 producer of the batch; null if there is none, as are the next three columns
producer_epoch int16 producer epoch of the batch
sequence int32 sequence number of the record
same_sequence_offset int64 first offset of another batch with the same producer, epoch and sequences; null if none
timestamp int64 timestamp of the record in ms; null if there is no record, as are the next three columns
key_size int32 size of the key in bytes; -1 for a null key
value_size int32 size of the value in bytes; -1 for a null value
control_type string COMMIT, ABORT, LEADER_CHANGE, …; null unless it is a control record
coordinator_epoch int32 epoch of the coordinator that wrote the marker; null unless it is a marker
transaction_first_offset int64 first offset of its transaction; null if it is not in one, as are the next four columns
transaction_last_offset int64 last offset of the data of this transaction
outcome string outcome of the transaction: committed, aborted or open
marker_offset int64 offset of the marker; null for an open transaction, as is the next column
marker_timestamp int64 timestamp of the marker in ms
indexed bool whether the transaction index lists the transaction as aborted; null if the index is not available
holder_producer_id int64 producer of the transaction that blocks the last stable offset; null if there is none
holder_first_offset int64 first offset of the blocking transaction
""")
RUNS = parse_columns("""
first_offset int64 the first offset
last_offset int64 the last offset
fate string what happened to the records, from the list above
read_uncommitted bool whether read_uncommitted consumers receive them; null if the available files do not show it
read_committed bool whether read_committed consumers receive them; null if the available files do not show it
exactness string how reliable this is: exact, approximate or unverifiable
why string the reason, as a clause
transactional_id string id of the transaction of these offsets; null if unknown or if they are not in one
producer_id int64 producer of this transaction; null if they are not in one, as are the next three columns
transaction_first_offset int64 first offset of this transaction
transaction_last_offset int64 last offset of its data
outcome string its outcome: committed, aborted or open
marker_offset int64 offset of its marker; null if it is open, as is the next column
marker_timestamp int64 timestamp of the marker in ms
indexed bool whether the transaction index lists the transaction as aborted; null if the index is not available
""")
PRODUCERS = parse_columns("""
producer_id int64 the producer
transactional_id string its transactional id; null if no available coordinator's log has it
producer_epoch int16 epoch of its last batch or marker; null if the broker has no state for it, as are the next five
last_sequence int32 last sequence number of this epoch; -1 if there is none
last_offset int64 offset of the record with this sequence number; -1 if there is none
last_timestamp int64 timestamp of its last batch or marker in ms
coordinator_epoch int32 coordinator epoch of its last marker; -1 if there is none
current_txn_first_offset int64 first offset of its open transaction; -1 if none is open
exact bool whether no batch from before the available log can change this state
expired bool whether the state has expired on the broker by the time of evaluation
holds_last_stable_offset bool whether its transaction blocks the last stable offset
committed int64 number of its committed transactions
aborted int64 number of its aborted transactions
open int64 number of its open transactions
records int64 number of records in its transactions
empty_markers int64 number of its markers that ended no data
anomalies string anomalies that the replay found, by finding code, with their number
""")
TRANSACTIONS = parse_columns("""
transactional_id string the transactional id
producer_id int64 producer id of the transaction
producer_epoch int16 epoch of its data; null if no record from before its end is available
marker_epoch int16 epoch of its markers; null until its outcome is decided
state string last state of the transaction, by Kafka's name
start_timestamp int64 time of its start in ms
decided_timestamp int64 time of the decision to commit or abort in ms; null if this record is not available
completed_timestamp int64 time at which all partitions had their markers in ms; null if it is not complete
verdict string whether this partition has its marker, from the list above; null if it lists no partition
marker_offset int64 offset of its marker; null if there is none, as are the next three columns
marker_timestamp int64 timestamp of the marker in ms
first_offset int64 first offset of the data that the marker ended; null if it ended none
last_offset int64 last offset of the data that the marker ended
open_offset int64 first offset of open data of the producer in this partition; null if there is none
path string path of the segment with the record of the decision, or with its last record
position int64 byte position of the batch of this record
offset int64 offset of this record
""")
EXPLAINED_OFFSETS = placed_table("explained_offsets", "partition with the offset", OFFSETS)
EXPLAINED_RUNS = placed_table("explained_runs", "run of offsets with the same fate, for the same reason", RUNS)
EXPLAINED_PRODUCERS = placed_table("explained_producers", "partition in which the producer appears", PRODUCERS)
EXPLAINED_TRANSACTIONS = placed_table(
    "explained_transactions", "transaction of the transactional id and partition in it", TRANSACTIONS
)
EXPLAIN_TABLES: dict[str, Table] = {
    table.name: table for table in (EXPLAINED_OFFSETS, EXPLAINED_RUNS, EXPLAINED_PRODUCERS, EXPLAINED_TRANSACTIONS)
}
NULL = (None,)
LOG_BOUNDS = ("log_start_offset", "last_stable_offset", "high_watermark", "log_end_offset")
PRODUCER_STATE = (
    *("producer_epoch", "last_sequence", "last_offset", "last_timestamp", "coordinator_epoch"),
    "current_txn_first_offset",
)


def offset_row(story: OffsetStory) -> StoryRow:
    """Return the row of an offset."""
    bounds = story.bounds
    return (
        *(*story.place, story.offset, str(story.status), story.read_uncommitted, story.read_committed),
        *(str(story.exactness), story.why),
        *(NULL * 4 if story.missing else (getattr(bounds, name) for name in LOG_BOUNDS)),
        *_batch(story),
        *_record(story),
        *_transaction(story.transaction),
        story.indexed,
        *_fields(bounds.blocking_transaction, "producer_id", "first_offset"),
    )


def run_row(run: OffsetRun) -> StoryRow:
    """Return the row of a run of offsets."""
    story = run.story
    return (
        *(*story.place, run.first_offset, run.last_offset, str(story.status), story.read_uncommitted),
        *(story.read_committed, str(story.exactness), story.why, run.transactional_id),
        *_fields(story.transaction, "producer_id"),
        *_transaction(story.transaction),
        story.indexed,
    )


def _batch(story: OffsetStory) -> StoryRow:
    if story.batch is None:
        return NULL * 9
    header = story.batch.header
    producer: StoryRow = NULL * 3
    if story.batch.producer_id >= 0:
        sequence = None if story.record is None else story.record.sequence
        producer = story.batch.producer_id, header.producer_epoch, sequence
    same_sequence = story.same_sequence[0].base_offset if story.same_sequence else None
    extent = header.position, header.size, header.base_offset, header.last_offset
    return story.batch.path, *extent, *producer, same_sequence


def _record(story: OffsetStory) -> StoryRow:
    record = story.record
    if record is None:
        return NULL * 5
    return record.timestamp, record.key_size, record.value_size, *story.control


def _transaction(transaction: np.void | None) -> StoryRow:
    if transaction is None:
        return NULL * 5
    first, last = _fields(transaction, "first_offset", "last_offset")
    is_open = transaction["outcome"] == TransactionOutcome.OPEN
    marker = NULL * 2 if is_open else _fields(transaction, "marker_offset", "marker_timestamp")
    return first, last, OUTCOME_NAMES[TransactionOutcome(int(transaction["outcome"]))], *marker


def _fields(record: np.void | None, *names: str) -> StoryRow:
    return NULL * len(names) if record is None else tuple(int(record[name]) for name in names)


def producer_row(story: ProducerStory) -> StoryRow:
    """Return the row of a producer."""
    anomalies = ", ".join(f"{name} {count}" for name, count in story.anomalies.items())
    return (
        *(*story.place, story.producer_id, story.transactional_id, *_fields(story.state, *PRODUCER_STATE)),
        *(story.is_exact, story.is_expired, story.holds_last_stable_offset),
        *(story.counts[name] for name in ("committed", "aborted", "open")),
        *(story.records, story.empty_markers, anomalies or None),
    )


def transaction_rows(story: TransactionalIdStory) -> Iterator[StoryRow]:
    """Yield the rows of a transactional id: one per transaction and partition, or one per transaction without any."""
    for transaction in story.transactions:
        partitions: Iterable[PartitionOfTransaction | None] = transaction.partitions or (None,)
        for partition in partitions:
            yield _transaction_row(story, transaction, partition)


def _transaction_row(
    story: TransactionalIdStory, transaction: TransactionOfId, partition: PartitionOfTransaction | None
) -> StoryRow:
    facts, place = transaction.facts, story.place
    if partition is not None:
        place = partition.place or Place(None, None, *partition.partition)
    return (
        *(*place, story.transactional_id, facts["producer_id"], _known(facts["data_epoch"])),
        *(_known(facts["marker_epoch"]), transaction.state),
        *(_time(facts[name]) for name in ("start", "decided", "completed")),
        *(None if partition is None else partition.verdict, *_marker(partition)),
        *(None if partition is None else partition.open_from, transaction.path, facts["position"], facts["offset"]),
    )


def _marker(partition: PartitionOfTransaction | None) -> StoryRow:
    if partition is None or partition.marker is None:
        return NULL * 4
    marker = partition.marker
    return (
        *(marker["marker_offset"], marker["marker_timestamp"]),
        *(_known(marker["first_offset"]), _known(marker["last_offset"])),
    )


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _time(timestamp: int) -> int | None:
    return None if timestamp == NO_TIME else timestamp
