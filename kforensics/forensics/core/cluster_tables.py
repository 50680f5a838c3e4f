"""The one statement of the tables about a cluster."""

from __future__ import annotations

from kforensics.parsers.tables.schemas import Table, columns, placed_table

__all__ = [
    "CLUSTER_TABLES",
    "COMMITTED_OFFSETS",
    "COORDINATOR_TRANSACTIONS",
    "DISTRIBUTED_TRANSACTIONS",
    "GROUP_OFFSETS",
    "TRANSACTIONAL_IDS",
]

RECORDS = columns("""
path string segment
position int64 byte position of the record's batch
offset int64 offset of the record
timestamp int64 timestamp of the record in ms; null if it has none
leader_epoch int32 leader epoch of its batch, which is the coordinator's epoch; null in formats 0 and 1
transactional_id string transactional id; null if the key cannot be read
state string state by Kafka's name; null for a tombstone, and where it cannot be read or has no name
tombstone bool whether the id was removed here
version int16 version of the value; null for a tombstone or where it cannot be read, as are the next ones
producer_id int64 producer id
producer_epoch int16 producer epoch
last_producer_epoch int16 producer epoch of the record of this id before it; null if the producer id was another
previous_producer_id int64 producer id before this state; null if not written
next_producer_id int64 producer id that the end of this transaction will bring; null if none
next_producer_epoch int16 declared since 4.1, written by no release up to 4.4; null if not written
transaction_version int16 of the client's request: 0 also stands for 1, which clients do not write
transaction_timeout_ms int32 transaction timeout in ms
partitions string partitions of the transaction, with commas; null if none ever were, empty once it is complete
partition_count int32 how many
last_update_timestamp int64 when the coordinator began to write this state, in ms
start_timestamp int64 when the transaction began, in ms; null if none has
step string how it follows the record of this id before it: first, next, again, flipped, unapplied, illegal or unknown
error string why a broker cannot read it; null if it can
""")
IDS = columns("""
transactional_id string transactional id
state string its last state; null if it was removed or cannot be read
removed bool whether its last record is a tombstone
producer_id int64 producer id; null if it was removed or cannot be read, as are the next three
producer_epoch int16 producer epoch
transaction_version int16 of the client's last request that tells
transaction_timeout_ms int32 transaction timeout in ms
start_timestamp int64 when its last transaction began, in ms; null if none has
partitions string partitions of its transaction that goes on, with commas; null if there is none
first_timestamp int64 time of its first record on hand in ms
last_timestamp int64 time of its last record in ms
inits int64 times it was initialised
transactions int64 transactions
committed int64 those that were committed everywhere
aborted int64 those that were aborted everywhere
producer_ids int32 producer ids it has had
exact bool whether its first record on hand is the first there was
path string segment that holds its last record
position int64 byte position of that record's batch
offset int64 offset of that record
""")
TRANSACTIONS = columns("""
transactional_id string whose transaction it is
producer_id int64 producer id of its markers
producer_epoch int16 of its data; null if no record from before its end is there
marker_epoch int16 of its markers; null while its end is not decided
state string its last state
outcome string committed, aborted, open, or superseded if its end was decided anew
transaction_version int16 of the request that ended it
transaction_timeout_ms int32 transaction timeout in ms
start_timestamp int64 when it began, in ms
decided_timestamp int64 when its end was decided, in ms; null if that record is not there
first_marker_timestamp int64 timestamp of its first marker on hand in ms
last_marker_timestamp int64 timestamp of its last marker on hand in ms
completed_timestamp int64 when every partition had its marker, in ms; null while that is not so
partitions string its partitions, with commas; null if no record that lists them is there
partition_count int32 how many
markers int32 partitions with its marker
empty_markers int32 those of them in which the marker ended no data
missing_markers int32 partitions that should have its marker and do not
contrary_markers int32 partitions in which the marker says the contrary
unverifiable int32 partitions that nobody can tell of
atomic string yes, no, pending, or unverifiable
exact bool whether it is beyond doubt which markers are its own
path string segment that holds the record that decided it, or its last one
position int64 byte position of that record's batch
offset int64 offset of that record
""")

OFFSETS = columns("""
path string segment
position int64 byte position of the record's batch
offset int64 offset of the record
timestamp int64 timestamp of the record in ms; null if it has none
group string group
committed_topic string topic whose offset it is
committed_partition int32 partition of that topic
transactional bool whether it takes effect with the COMMIT marker of its transaction
producer_id int64 producer of that transaction; null if there is none
producer_epoch int16 its epoch; null if there is none
outcome string how that transaction ended: committed, aborted or pending; null if there is none, or its begin is gone
tombstone bool whether the offset was removed here
version int16 version of the value; null for a tombstone or where it cannot be read, as are all that follow
committed_offset int64 the offset
committed_leader_epoch int32 leader epoch of the last record consumed; null if the client did not say
metadata string what the client wrote beside it
committed_topic_id string topic id; null up to 4.0
commit_timestamp int64 when it was committed, in ms
expire_timestamp int64 when it was to expire, in ms; null unless written so, as up to 2.0
error string why it cannot be read; null if it can
""")

IN_FORCE = columns("""
group string group
committed_topic string topic whose offset it is
committed_partition int32 partition of that topic
committed_offset int64 the offset that is in force
committed_leader_epoch int32 leader epoch of the last record consumed; null if the client did not say
metadata string what the client wrote beside it
committed_topic_id string topic id; null up to 4.0
transactional bool whether it took effect with the COMMIT marker of a transaction
producer_id int64 producer of that transaction; null if there was none
producer_epoch int16 its epoch; null if there was none
effective_timestamp int64 when it took effect, in ms: the time of its record or of the marker; null if neither tells
pending bool whether an open transaction holds a newer one: it cannot be fetched as stable
log_end_offset int64 of the committed partition; null if that was not supplied, as are the next three
last_stable_offset int64 of the committed partition
lag int64 offsets from the committed one to the log end; below 0 if it is beyond
stable_lag int64 the same up to the last stable offset, which is as far as read_committed consumers get
path string segment that holds its record
position int64 byte position of the record's batch
offset int64 offset of the record
""")

COORDINATOR_TRANSACTIONS = placed_table("coordinator_transactions", "record of `__transaction_state`", RECORDS)
TRANSACTIONAL_IDS = placed_table("transactional_ids", "transactional id, by its last use", IDS)
DISTRIBUTED_TRANSACTIONS = placed_table(
    "distributed_transactions", "transaction of a transactional id, in all its partitions", TRANSACTIONS
)
GROUP_OFFSETS = placed_table("group_offsets", "committed offset in `__consumer_offsets`", OFFSETS)
COMMITTED_OFFSETS = placed_table(
    "committed_offsets", "offset of a group that is in force, as the cluster's logs end", IN_FORCE
)
CLUSTER_TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        COORDINATOR_TRANSACTIONS,
        TRANSACTIONAL_IDS,
        DISTRIBUTED_TRANSACTIONS,
        GROUP_OFFSETS,
        COMMITTED_OFFSETS,
    )
}
