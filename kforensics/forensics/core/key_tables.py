"""Definitions of the tables about keys."""

from __future__ import annotations

from kforensics.parsers.tables.schemas import Table, parse_columns, placed_table

__all__ = ["KEY_RESULTS"]

PARTITIONS = parse_columns("""
folder string folder of the partition
partition_count int32 current partition count of the topic
count_source string given, metadata, keys (derived from them) or partitions (highest available; there may be more)
earlier_counts string earlier counts, separated by spaces; null if there were none
partitioner string default, other, or null if unknown
records int64 records that read_committed consumers receive
keyless_records int64 records without a key
hidden_records int64 records of aborted or open transactions, whose keys are left out
unread_batches int64 batches whose records cannot all be read
keys int64 distinct keys
astray_keys int64 keys that are misplaced under every partition count
late_keys int64 keys written here by the old partition count after the topic grew
keys_apart int64 keys that are in another partition, too, counted once for each neighbor in time
last_old_offset int64 last record that only an earlier count places here; null, like the next three, if none
last_old_timestamp int64 its time in ms, or the largest earlier time
first_new_offset int64 first record that only the current count places here
first_new_timestamp int64 its time in ms, or the smallest later time
""")
PLACES = parse_columns("""
folder string folder of the partition with the key
key binary the key; null if its record can no longer be read
hash int32 murmur2 of it, made positive
expected_partition int32 partition that the current count assigns
why string grown, late, stray, tombstone or empty, see the page on keys
other_partition int32 the other partition with the key
role string earlier or later of the two, or value or tombstone
records int64 records of the key here
first_offset int64 offset of the first record of the key here
last_offset int64 offset of the last record of the key here
tombstone bool whether the last record is a tombstone
first_timestamp int64 smallest timestamp in ms; null if no record has one
last_timestamp int64 largest timestamp in ms
producer_id int64 producer of the records; -1 for no producer id, null for several
path string segment with the first record of the key here
position int64 byte position of its batch
""")
PRODUCERS = parse_columns("""
folder string folder of the partition
producer_id int64 producer id; -1 for all without one
style string keyed, sticky, round-robin, or null if unknown; over all partitions of the topic
batches int64 data batches
records int64 records in them
keyless_records int64 records without a key
bytes int64 bytes of the batches
records_per_batch float64 average number of records in a batch
most_records int64 records of the largest batch
most_bytes int64 bytes of the largest batch
fill float64 average size of a batch, as a share of the largest batch that this producer wrote to the topic
compression_ratio float64 uncompressed bytes of records per stored byte; null if no batch could be read completely
mean_wait_ms float64 average wait in ms from the first to the last record of a batch; null with LogAppendTime
most_wait_ms int64 the longest of these in ms; null with LogAppendTime
batches_10ms int64 batches if those begun in the same 10 ms were one, up to 16 KiB; null with LogAppendTime
batches_100ms int64 the same for 100 ms; null with LogAppendTime
first_timestamp int64 smallest timestamp in ms; null if no record has one
last_timestamp int64 largest timestamp in ms
""")

KEY_RESULTS: dict[str, Table] = {
    table.name: table
    for table in (
        placed_table("key_partitions", "partition of a topic, evaluated by its keys", PARTITIONS),
        placed_table("keys_apart", "partition of a key that is in two partitions, for each pair of them", PLACES),
        placed_table("producer_batches", "producer id in a partition", PRODUCERS),
    )
}
