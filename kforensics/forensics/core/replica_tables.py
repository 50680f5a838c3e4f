"""Definitions of the tables about replicas."""

from __future__ import annotations

from kforensics.parsers.tables.schemas import Table, parse_columns, placed_table

__all__ = ["REPLICA_RESULTS"]

DIFFERENCES = parse_columns("""
folder string folder of this replica
other_broker_id int32 broker of the other replica; null if unknown
other_log_dir string its log directory
other_folder string its folder
kind string diverged, leader-epoch, damaged, missing, behind, before-start or cleaned
loser string folder of the replica overruled by a later leader; null if neither is
first_offset int64 first offset of the first batch that differs
last_offset int64 last offset of the last batch that differs
batches int64 differing batches of this replica
other_batches int64 differing batches of the other replica
records int64 data records in them
other_records int64 the same for the other replica
markers int64 control batches among them
other_markers int64 the same for the other replica
bytes int64 bytes of them
other_bytes int64 the same for the other replica
producer_ids string first producers, at most twenty, separated by spaces
other_producer_ids string the same for the other replica
lowest_leader_epoch int32 lowest leader epoch of the batches; null if this replica has none, like the next three columns
highest_leader_epoch int32 highest leader epoch of the batches
first_timestamp int64 smallest maximum timestamp in ms
last_timestamp int64 largest maximum timestamp in ms
other_lowest_leader_epoch int32 lowest leader epoch there; null, like the next three, without batches
other_highest_leader_epoch int32 highest leader epoch of the other replica
other_first_timestamp int64 smallest maximum timestamp in ms
other_last_timestamp int64 largest maximum timestamp in ms
path string segment of the first batch of this replica; null if it has none
position int64 byte position of that batch
other_path string segment of the first batch of the other replica; null if it has none
other_position int64 byte position of that batch
left_out int64 further ranges of these two replicas that are not listed
""")

LOST_RECORDS = parse_columns("""
folder string folder of the replica that has the record
other_broker_id int32 broker of the replica with the later leader epoch; null if unknown
other_folder string its folder
path string segment with the record
batch_position int64 byte position of its batch
offset int64 its offset
timestamp int64 its timestamp in ms; -1 if it has none
producer_id int64 -1 if the producer is not idempotent
producer_epoch int16 -1 if none
sequence int32 sequence; -1 if none
outcome string plain, or the outcome of its transaction in this replica: committed, aborted or open
key binary key; null if there is none
key_size int32 bytes of the key; -1 if null
value_size int32 bytes of the value; -1 if null
known_committed bool whether the checkpointed high watermark of this replica is above it
again_at int64 offset of an equal record of the other replica; null if there is none
""")

LEADER_EPOCHS = parse_columns("""
folder string folder of the replica
leader_epoch int32 leader epoch
start_offset int64 first offset, from the batches and leader-epoch-checkpoint together
first_offset int64 first offset of its first batch; null if it has none here
last_offset int64 last offset of its last batch; null if it has none here
noted bool whether leader-epoch-checkpoint has it
shared bool whether every other replica has it with the same start offset
leader int32 broker elected with it, from the cluster metadata; null, like the rest, if unknown
elected_at int64 when the controller recorded the election, in ms
in_sync string replicas in sync before, separated by spaces
unclean bool whether the leader was not in sync
""")

REPLICA_RESULTS: dict[str, Table] = {
    table.name: table
    for table in (
        placed_table("replica_differences", "range of offsets in which two replicas differ", DIFFERENCES),
        placed_table("leader_epoch_lineage", "leader epoch of a replica", LEADER_EPOCHS),
        placed_table(
            "lost_records",
            "record of a replica that a later leader did not have or wrote over, until the replica truncates it",
            LOST_RECORDS,
        ),
    )
}
