"""The one statement of the tables of stories, and the rows of each story in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kforensics.forensics.core.record_types import NO_TIME, Ending
from kforensics.forensics.explain.offset_story import OffsetStory
from kforensics.forensics.explain.producer_story import ProducerStory
from kforensics.forensics.explain.transactional_id_story import Part, TransactionalIdStory, TransactionOfId
from kforensics.parsers.log.log_rows import Place
from kforensics.parsers.tables.schemas import Table, columns, placed_table

__all__ = [
    "EXPLAINED_OFFSETS",
    "EXPLAINED_PRODUCERS",
    "EXPLAINED_TRANSACTIONS",
    "EXPLAIN_TABLES",
    "offset_row",
    "producer_row",
    "transaction_rows",
]

Row = tuple[Any, ...]
OFFSETS = columns("""
offset int64 the offset
fate string what became of it, a word of the list above
read_uncommitted bool whether a consumer that reads everything is given it; null if nothing on hand tells
read_committed bool whether a read_committed consumer is given it; likewise
exactness string exact, approximate or unverifiable
why string half a sentence that says why
log_start_offset int64 first offset that consumers may see
last_stable_offset int64 where a read_committed consumer ends
high_watermark int64 where all end: the log end, unless --at names another
log_end_offset int64 offset behind the last batch
path string segment that holds its batch; null if no batch spans it, as are the next ones up to size
position int64 byte position of the batch
size int32 bytes of the batch
base_offset int64 first offset of the batch; null in a compressed entry of format 0 or 1
last_offset int64 last offset of the batch
producer_id int64 producer of the batch; null if there is none, as are the next three
producer_epoch int16 its epoch
sequence int32 sequence of the record
same_sequence_offset int64 first offset of another batch of the same producer, epoch and sequences; null if none is
timestamp int64 timestamp of the record in ms; null if there is no record, as are the next three
key_size int32 bytes of the key; -1 if null
value_size int32 bytes of the value; -1 if null
control_type string COMMIT, ABORT, LEADER_CHANGE, …; null unless it is a control record
coordinator_epoch int32 epoch of the coordinator that wrote the marker; null unless it is one
transaction_first_offset int64 first offset of its transaction; null if it is in none, as are the next ones
transaction_last_offset int64 last offset of the data of that
outcome string committed, aborted or open
marker_offset int64 offset of the marker; null while it is open, as is the next one
marker_timestamp int64 timestamp of the marker in ms
indexed bool whether .txnindex names it as aborted; null if that is not on hand
holder_producer_id int64 producer of the transaction that holds the last stable offset; null if none does
holder_first_offset int64 first offset of that transaction
""")
PRODUCERS = columns("""
producer_id int64 the producer
transactional_id string whose it is; null if no log of a coordinator on hand tells
producer_epoch int16 of its last batch or marker; null if a broker knows nothing of it any more, as are the next five
last_sequence int32 sequence of its last record under this epoch; -1 if there is none
last_offset int64 offset of that record; -1 if there is none
last_timestamp int64 timestamp of its last batch or marker in ms
coordinator_epoch int32 of its last marker; -1 if there is none
current_txn_first_offset int64 first offset of its open transaction; -1 if none is open
exact bool whether nothing from before the log on hand can change this state
expired bool whether a broker would have forgotten it by the time of evaluation
holds_last_stable_offset bool whether its transaction holds the last stable offset back
committed int64 its transactions that were committed
aborted int64 those that were aborted
open int64 those that are open
records int64 records in its transactions
empty_markers int64 markers of it that ended nothing
anomalies string what the replay met of it, by the names of findings, with how often
""")
TRANSACTIONS = columns("""
transactional_id string whose transaction it is
producer_id int64 its producer id
producer_epoch int16 of its data; null if no record from before its end is there
marker_epoch int16 of its markers; null while its end is not decided
state string its last state by Kafka's name
start_timestamp int64 when it began, in ms
decided_timestamp int64 when its end was decided, in ms; null if that record is not there
completed_timestamp int64 when every partition had its marker, in ms; null while that is not so
verdict string what this partition says of it, a word of the list above; null if it lists none
marker_offset int64 offset of its marker; null if there is none, as are the next ones
marker_timestamp int64 timestamp of the marker in ms
first_offset int64 first offset of the data it ended; null if it ended none
last_offset int64 last offset of that
open_offset int64 first offset of data of the producer that is open in the partition; null if none is
path string segment of the record that decided it, or of its last one
position int64 byte position of that record's batch
offset int64 offset of that record
""")
EXPLAINED_OFFSETS = placed_table("explained_offsets", "partition with the offset", OFFSETS)
EXPLAINED_PRODUCERS = placed_table("explained_producers", "partition that knows the producer", PRODUCERS)
EXPLAINED_TRANSACTIONS = placed_table(
    "explained_transactions", "transaction of the transactional id and partition of it", TRANSACTIONS
)
EXPLAIN_TABLES: dict[str, Table] = {
    table.name: table for table in (EXPLAINED_OFFSETS, EXPLAINED_PRODUCERS, EXPLAINED_TRANSACTIONS)
}
OUTCOMES = {Ending.COMMITTED: "committed", Ending.ABORTED: "aborted", Ending.OPEN: "open"}
NOTHING = (None,)


def offset_row(story: OffsetStory) -> Row:
    """Return the row of an offset."""
    bounds, holder = story.bounds, story.bounds.holder
    return (
        *(*story.place, story.offset, str(story.fate), story.read_uncommitted, story.read_committed),
        *(str(story.exactness), story.why),
        *(bounds.log_start_offset, bounds.last_stable_offset, bounds.high_watermark, bounds.log_end_offset),
        *_batch(story),
        *_record(story),
        *_transaction(story.transaction),
        story.indexed,
        *_fields(holder, "producer_id", "first_offset"),
    )


def _batch(story: OffsetStory) -> Row:
    if story.batch is None:
        return NOTHING * 9
    header = story.batch.header
    producer: Row = NOTHING * 3
    if story.batch.producer_id >= 0:
        sequence = None if story.record is None else story.record.sequence
        producer = story.batch.producer_id, header.producer_epoch, sequence
    twin = story.same_sequence[0].base_offset if story.same_sequence else None
    return story.batch.path, header.position, header.size, header.base_offset, header.last_offset, *producer, twin


def _record(story: OffsetStory) -> Row:
    record = story.record
    if record is None:
        return NOTHING * 5
    return record.timestamp, record.key_size, record.value_size, *story.control


def _transaction(found: Any) -> Row:
    if found is None:
        return NOTHING * 5
    first, last = _fields(found, "first_offset", "last_offset")
    is_open = found["ending"] == Ending.OPEN
    marker = NOTHING * 2 if is_open else _fields(found, "marker_offset", "marker_timestamp")
    return first, last, OUTCOMES[Ending(int(found["ending"]))], *marker


def _fields(record: Any, *names: str) -> Row:
    return NOTHING * len(names) if record is None else tuple(int(record[name]) for name in names)


STATE = (
    *("producer_epoch", "last_sequence", "last_offset", "last_timestamp", "coordinator_epoch"),
    "current_txn_first_offset",
)


def producer_row(story: ProducerStory) -> Row:
    """Return the row of a producer."""
    anomalies = ", ".join(f"{name} {count}" for name, count in story.anomalies.items())
    return (
        *(*story.place, story.producer_id, story.transactional_id, *_fields(story.state, *STATE)),
        *(story.is_exact, story.is_expired, story.holds_last_stable_offset),
        *(story.counts[name] for name in ("committed", "aborted", "open")),
        *(story.records, story.empty_markers, anomalies or None),
    )


def transaction_rows(story: TransactionalIdStory) -> Iterator[Row]:
    """Yield the rows of a transactional id: of each transaction one for each of its partitions, or one without any."""
    for one in story.transactions:
        parts: Iterable[Part | None] = one.parts or (None,)
        for part in parts:
            yield _part_row(story, one, part)


def _part_row(story: TransactionalIdStory, one: TransactionOfId, part: Part | None) -> Row:
    facts, place = one.facts, story.place
    if part is not None:
        place = part.place or Place(None, None, *part.partition)
    return (
        *(*place, story.transactional_id, facts["producer_id"], _known(facts["data_epoch"])),
        *(_known(facts["marker_epoch"]), one.state),
        *(_time(facts[name]) for name in ("start", "decided", "completed")),
        *(None if part is None else part.verdict, *_marker(part)),
        *(None if part is None else part.open_from, one.path, facts["position"], facts["offset"]),
    )


def _marker(part: Part | None) -> Row:
    if part is None or part.marker is None:
        return NOTHING * 4
    first, last = (_known(part.marker[name]) for name in ("first_offset", "last_offset"))
    return part.marker["marker_offset"], part.marker["marker_timestamp"], first, last


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _time(timestamp: int) -> int | None:
    return None if timestamp == NO_TIME else timestamp
