"""Definitions of the result tables of partitions; tables of decoded files are in ``parsers.tables.schemas``."""

from __future__ import annotations

from kforensics.forensics.core.cluster_tables import CLUSTER_TABLES
from kforensics.forensics.core.key_tables import KEY_RESULTS
from kforensics.forensics.core.replica_tables import REPLICA_RESULTS
from kforensics.parsers.tables.schemas import TABLES, Table, parse_columns, placed_table

__all__ = ["RESULTS", "STORED"]

TRANSACTIONS = parse_columns("""
producer_id int64 producer of the transaction
producer_epoch int16 of its last data batch; the marker's may be higher
first_offset int64 first offset of its data
last_offset int64 last offset of its data
marker_offset int64 offset of its COMMIT or ABORT marker; null while open, like the next two columns
marker_epoch int16 producer epoch of the marker
coordinator_epoch int32 epoch of the coordinator that wrote the marker
outcome string committed, aborted, open, or forgotten: open, but its broker does not have it any more
batches int64 data batches
records int64 records in them
bytes int64 bytes of them
first_timestamp int64 smallest maximum timestamp of its batches in ms; null if some have none or are not available
last_timestamp int64 largest maximum timestamp of its batches in ms; null if they have none
marker_timestamp int64 timestamp of the marker in ms; null while open, or if it has none
duration_ms int64 from the first timestamp to the marker's or, while open, to the time of evaluation
first_offset_exact bool whether it cannot have begun before the available log
path string segment with its first available batch
position int64 byte position of that batch
""")
PRODUCERS = parse_columns("""
producer_id int64 producer id
producer_epoch int16 of its last batch or marker
last_sequence int32 last sequence number of this epoch; -1 if there is none
last_offset int64 offset of that record; -1 if there is none
last_timestamp int64 timestamp of its last batch or marker in ms
coordinator_epoch int32 of its last marker; -1 if there is none
current_txn_first_offset int64 first offset of its open transaction; -1 if none is open
recent_batches recent_batches last batches of this epoch, at most five, oldest first; they identify retries
exact bool whether nothing before the available log can change this state
expired bool whether a broker would have expired it by the time of evaluation
in_snapshot bool whether the snapshot at this offset has it with the same state; null if there is no snapshot
transactions int64 its transactions in this log, including open ones
aborted int64 its aborted transactions
records int64 records in its transactions
bytes int64 bytes of their data batches
transaction_ms int64 total duration of its ended transactions in ms
""")
LSO = parse_columns("""
log_start_offset int64 first offset that consumers may see
log_end_offset int64 offset after the last batch
high_watermark int64 from the checkpoint, which may be five seconds old; null if the checkpoint lacks this partition
high_watermark_source string checkpoint, or log end if there is no checkpoint
last_stable_offset int64 last stable offset once the whole log is replicated; an upper bound if not exact
lowest_last_stable_offset int64 lower bound of the last stable offset
last_stable_offset_at_checkpoint int64 last stable offset at the high watermark of the checkpoint
exact bool whether no transaction from before the available log can block at a lower offset
producer_id int64 producer of the blocking transaction; null if there is none, like the next four columns
producer_epoch int16 epoch of the last data batch of the blocking transaction
first_offset int64 first offset of the blocking transaction
last_timestamp int64 time of the last write of the blocking transaction in ms; null if it has none
age_ms int64 time since then, or since a later marker before it, up to the time of evaluation or that of the copy
open_transactions int64 number of open transactions
hidden_records int64 data records from the last stable offset on, which a read_committed consumer does not receive
hidden_bytes int64 bytes of the batches from the last stable offset on
""")
LSO_HISTORY = parse_columns("""
from_high_watermark int64 first high watermark of this step
to_high_watermark int64 last high watermark of this step
last_stable_offset int64 last stable offset at the last high watermark
producer_id int64 producer of the blocking transaction; null while the offset follows the high watermark
exact bool whether no transaction from before the available log can have blocked at a lower offset
""")
ABORTED = parse_columns("""
producer_id int64 producer of the aborted transaction
first_offset int64 first offset of its data
last_offset int64 offset of the ABORT marker
last_stable_offset int64 last stable offset that a leader's index entry should have
exact bool whether nothing before the available log can change the first offset
indexed bool whether .txnindex has the entry
indexed_last_stable_offset int64 last stable offset in its entry; null if there is no entry
""")
PARTITIONS = parse_columns("""
verdict string worst severity found, across replicas and the topic too; clean, or unread if it could not be read
segments int32 segments
bytes int64 bytes of all batches
batches int64 batches
records int64 data records; a compressed message of formats 0 and 1 counts as one
first_offset int64 first available offset; null for an empty log
log_end_offset int64 offset after the last batch
last_stable_offset int64 last stable offset
newest_timestamp int64 largest timestamp in ms; null if there is none
producers int64 producer ids with state at the end of the log
open_transactions int64 transactions without a marker
committed int64 committed transactions
aborted int64 aborted transactions
control_batches int64 control batches
control_records_share float64 their share of all records; null if that is not known, as for records_per_batch
control_bytes_share float64 their share of all bytes
records_per_batch float64 average number of data records in a data batch; null if formats 0 or 1 are compressed
aborted_share float64 share of aborted transactions among the ended ones; null if none has ended
transaction_records float64 average number of records in a transaction
transaction_ms float64 average duration of an ended transaction in ms
findings int64 number of findings, with those of its topic, and from severity warning on those across replicas
read string ok, or why the partition could not be read
""")
BATCH_HISTOGRAMS = parse_columns("""
producer_id int64 producer of the batches, -1 for none; null for those beyond the 256 highest ids of the partition
compression_type string none, gzip, snappy, lz4 or zstd; null for an unassigned codec number
size_from int64 a power of two: the batches have at least so many bytes, and fewer than twice as many
batches int64 data batches
records int64 records in them; a compressed message of formats 0 and 1 counts as one
bytes int64 bytes of them as stored, headers included
uncompressed_bytes int64 the same without compression; null if compressed, as an audit does not decompress batches
""")
DUPLICATES = parse_columns("""
level string sequence, content-retry or content
first_partition int32 partition of the earlier copy if it is another one of the topic; null within a partition
first_path string segment of the earlier copy
first_position int64 position of its batch
first_offset int64 offset of its first record
second_path string segment of the later copy
second_position int64 position of its batch
second_offset int64 offset of its first record
records int64 consecutive duplicate records
first_producer_id int64 producer of the earlier copy
first_producer_epoch int16 its epoch
second_producer_id int64 producer of the later copy
second_producer_epoch int16 its epoch
first_timestamp int64 timestamp of the earlier copy's first record in ms
second_timestamp int64 timestamp of the later copy's first record in ms
view string committed if a read_committed consumer receives both, otherwise raw
why string why they are considered duplicates
""")
FINDINGS = parse_columns("""
code string kind of the finding; codes never change
severity string info, warning, error or critical
first_offset int64 first offset concerned
last_offset int64 last offset concerned
producer_id int64 producer concerned
producer_epoch int16 its epoch
path string file with the evidence
position int64 byte position in it
message string what was found
evidence string the values the message is based on, as JSON
exactness string exact, approximate or unverifiable
benign string benign explanations that were tested
cause string code of the finding it follows from
remedy string what to do
""")
INCIDENTS = parse_columns("""
incident string id, the same in every audit of the same cause
kind string kind of incident; the place columns are null unless all its findings share them
severity string worst severity of its findings
since int64 earliest time that its findings state, in ms; null if they state none
first_timestamp int64 earliest timestamp of the records that its findings are about, in ms; null if not known
what string what happened, in one sentence
impact string what consumers do not receive, or receive twice; null if nothing is known
hidden_records int64 records hidden from read_committed consumers; null if none are known, like the next two columns
lost_records int64 records that are lost, cannot be read, or will be truncated
repeated_records int64 records that were written twice
partition_count int64 number of partitions
partitions string the first partitions, neighboring ones as ranges
brokers string the first broker ids as a JSON list; null if none are known, like the next four columns
transactional_ids string the first transactional ids as a JSON list
producer_ids string the first producer ids as a JSON list
producer_epochs string lowest and highest epoch of each of these producers as a JSON list of pairs
groups string the first consumer groups as a JSON list
findings int64 number of its findings
codes string number of its findings by code, as JSON
evidence string its first findings as a JSON list, with the columns that identify them in the table of findings
remedy string what to check, then what to do
""")
SETTINGS = parse_columns("""
name string setting, by the name that topics use if they have it
value string its value
source string where the value comes from; of several rows for the same log directory the first one counts
entity string broker or topic that has it; null if it is for all others
log_dirs string log directories that it is for, separated by spaces; null if it is for all
meaning string what it means for the verdicts
""")

OF_PARTITIONS: dict[str, Table] = {
    table.name: table
    for table in (
        placed_table("transactions", "transaction of a partition", TRANSACTIONS),
        placed_table("producers", "producer id at the end of a log", PRODUCERS),
        placed_table("lso", "partition", LSO),
        placed_table("lso_history", "step of the last stable offset", LSO_HISTORY),
        placed_table("batch_histograms", "producer, codec and size of data batches", BATCH_HISTOGRAMS),
        placed_table("aborted_transactions", "ABORT marker that ended a transaction", ABORTED),
        placed_table("duplicates", "duplicate run of records, or duplicate batch", DUPLICATES),
        placed_table("findings", "finding", FINDINGS),
        placed_table("partitions", "partition", PARTITIONS),
        placed_table("incidents", "incident: the findings of one cause", INCIDENTS),
        placed_table("settings", "setting", SETTINGS),
    )
}
RESULTS: dict[str, Table] = OF_PARTITIONS | CLUSTER_TABLES | REPLICA_RESULTS | KEY_RESULTS
STORED: dict[str, Table] = TABLES | RESULTS  # what a store may have
