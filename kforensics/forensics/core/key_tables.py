"""The one statement of the tables on keys."""

from __future__ import annotations

from kforensics.parsers.tables.schemas import Table, columns, placed_table

__all__ = ["KEY_RESULTS"]

PARTITIONS = columns("""
folder string folder of the partition
partition_count int32 partitions of the topic today
count_source string given, metadata, keys (as these lie) or partitions (the highest on hand, so there may be more)
earlier_counts string counts before, with a space between; null if there were none
partitioner string default, other, or null where that cannot be told
records int64 records that read_committed consumers get
keyless_records int64 those of them without key
hidden_records int64 records of transactions that were aborted or are open, whose keys are left out
unread_batches int64 batches whose records cannot be read, or not all of them
keys int64 different keys
astray_keys int64 those of them that lie where none of the counts would have them
late_keys int64 those that were written here after the topic grew and belong elsewhere since
keys_apart int64 keys that lie in another partition too, once for each neighbour in time
last_old_offset int64 last record that only an earlier count has here; null if there is none, as are the next three
last_old_timestamp int64 its time in ms, or the largest one before
first_new_offset int64 first record that only today's count has here
first_new_timestamp int64 its time in ms, or the smallest one behind
""")
PLACES = columns("""
folder string folder of the partition in which the key lies
key binary the key; null where its record cannot be read any more
hash int32 murmur2 of it, made positive
expected_partition int32 where it belongs with today's count
why string grown, late, stray or tombstone, see the page on keys
other_partition int32 the other partition it lies in
role string earlier or later of the two; value or tombstone
records int64 records of the key here
first_offset int64 offset of the first of them
last_offset int64 offset of the last of them
tombstone bool whether that one is a tombstone
first_timestamp int64 smallest timestamp in ms; null if none has any
last_timestamp int64 largest one
producer_id int64 who wrote them; -1 for no producer id, null for several
path string segment with the first of them
position int64 byte position of its batch
""")
PRODUCERS = columns("""
folder string folder of the partition
producer_id int64 producer id; -1 for all that have none
style string keyed, sticky, round-robin, or null where that cannot be told; over all partitions of the topic
batches int64 data batches
records int64 records in them
keyless_records int64 those of them without key
bytes int64 bytes of the batches
records_per_batch float64 records of a batch, on average
most_records int64 records of the largest batch
most_bytes int64 bytes of the largest batch
fill float64 size of a batch on average, as a share of the largest one that this producer wrote to the topic
compression_ratio float64 bytes of records before compression for each byte stored; null where none could be read whole
first_timestamp int64 smallest timestamp in ms; null if no record has any
last_timestamp int64 largest one
""")

KEY_RESULTS: dict[str, Table] = {
    table.name: table
    for table in (
        placed_table("key_partitions", "partition of a topic, by what its keys say", PARTITIONS),
        placed_table("keys_apart", "partition of a key that lies in two, and of each two of them", PLACES),
        placed_table("producer_batches", "producer id in a partition", PRODUCERS),
    )
}
