"""The one statement of the tables on replicas."""

from __future__ import annotations

from kforensics.parsers.tables.schemas import Table, columns, placed_table

__all__ = ["REPLICA_RESULTS"]

DIFFERENCES = columns("""
folder string folder of this replica
other_broker_id int32 broker of the other replica; null if that cannot be told
other_log_dir string its log directory
other_folder string its folder
kind string diverged, leader-epoch, damaged, missing, behind, before-start or cleaned
loser string folder of the one that a later leader has overruled; null if neither is
first_offset int64 first offset of the first batch that differs
last_offset int64 last offset of the last one
batches int64 batches that differ and that this replica has
other_batches int64 those that the other one has
records int64 records of users in them
other_records int64 the same of the other one
markers int64 control batches among them
other_markers int64 the same of the other one
bytes int64 bytes of them
other_bytes int64 the same of the other one
producer_ids string first producers, twenty at most, with a space between
other_producer_ids string the same of the other one
lowest_leader_epoch int32 lowest leader epoch of the batches; null if this replica has none, as are the next three
highest_leader_epoch int32 highest one
first_timestamp int64 smallest maximum timestamp in ms
last_timestamp int64 largest one
other_lowest_leader_epoch int32 lowest one of the other replica; null if that has no batches, as are the next three
other_highest_leader_epoch int32 highest one
other_first_timestamp int64 smallest maximum timestamp in ms
other_last_timestamp int64 largest one
path string segment of the first batch of this replica; null if it has none
position int64 byte position of that batch
other_path string segment of the first batch of the other replica; null if it has none
other_position int64 byte position of that batch
left_out int64 further ranges of the two that are not listed
""")

LOST_RECORDS = columns("""
folder string folder of the replica that has the record
other_broker_id int32 broker of the replica with the later leader epoch; null if that cannot be told
other_folder string its folder
path string segment with the record
batch_position int64 byte position of its batch
offset int64 its offset
timestamp int64 its timestamp in ms; -1 if it has none
producer_id int64 -1 if the producer is not idempotent
producer_epoch int16 -1 if none
sequence int32 sequence; -1 if none
outcome string plain, or how its transaction stands in this replica: committed, aborted or open
key binary key; null if there is none
key_size int32 bytes of the key; -1 if null
value_size int32 bytes of the value; -1 if null
known_committed bool whether the high watermark on record at this replica lies behind it
again_at int64 offset of a record of the other replica that says the same; null if there is none
""")

LEADER_EPOCHS = columns("""
folder string folder of the replica
leader_epoch int32 leader epoch
start_offset int64 where it begins, as the batches and leader-epoch-checkpoint have it together
first_offset int64 first offset of its first batch; null if it has none here
last_offset int64 last offset of its last batch; null if it has none here
noted bool whether leader-epoch-checkpoint has it
shared bool whether every other replica has it, and lets it begin at the same offset
leader int32 broker that was elected with it, as the cluster's metadata says; null if that is not known, as are the rest
elected_at int64 when the controller wrote so, in ms
in_sync string replicas in sync before, with a space between
unclean bool whether the leader was not in sync
""")

REPLICA_RESULTS: dict[str, Table] = {
    table.name: table
    for table in (
        placed_table("replica_differences", "range of offsets in which two replicas differ", DIFFERENCES),
        placed_table("leader_epoch_lineage", "leader epoch of a replica", LEADER_EPOCHS),
        placed_table("lost_records", "record that a later leader did not have or wrote over", LOST_RECORDS),
    )
}
