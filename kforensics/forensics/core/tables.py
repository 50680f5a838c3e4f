"""The one statement of every table of verdicts; those of decoded files are in ``parsers.tables``."""

from __future__ import annotations

from kforensics.forensics.core.cluster_tables import CLUSTER_TABLES
from kforensics.forensics.core.key_tables import KEY_RESULTS
from kforensics.forensics.core.replica_tables import REPLICA_RESULTS
from kforensics.parsers.tables.schemas import Table, columns, placed_table

__all__ = ["RESULTS"]

TRANSACTIONS = columns("""
producer_id int64 whose transaction it is
producer_epoch int16 of its last data batch; the marker's may be higher
first_offset int64 first offset of its data
last_offset int64 last offset of its data
marker_offset int64 offset of its COMMIT or ABORT marker; null while it is open, as are the next two
marker_epoch int16 producer epoch of the marker
coordinator_epoch int32 epoch of the coordinator that wrote the marker
outcome string committed, aborted or open
batches int64 data batches
records int64 records in them
bytes int64 bytes of them
first_timestamp int64 smallest maximum timestamp of its batches in ms; null if some precede the log on hand
last_timestamp int64 largest one
marker_timestamp int64 timestamp of the marker in ms; null while it is open
duration_ms int64 from the first timestamp to the marker's, or to the time of evaluation while it is open
first_offset_exact bool whether it cannot have begun before the log on hand
path string segment that holds its first batch on hand
position int64 byte position of that batch
""")
PRODUCERS = columns("""
producer_id int64 producer id
producer_epoch int16 of its last batch or marker
last_sequence int32 sequence of its last record under this epoch; -1 if there is none
last_offset int64 offset of that record; -1 if there is none
last_timestamp int64 timestamp of its last batch or marker in ms
coordinator_epoch int32 of its last marker; -1 if there is none
current_txn_first_offset int64 first offset of its open transaction; -1 if none is open
recent_batches recent_batches the last batches of this epoch, five at most, oldest first: by them a broker knows a retry
exact bool whether nothing from before the log on hand can change this state
expired bool whether a broker would have forgotten it by the time of evaluation
in_snapshot bool whether the snapshot at this offset has it with the same state; null if there is none
transactions int64 its transactions in this log, open ones included
aborted int64 those of them that were aborted
records int64 records in its transactions
bytes int64 bytes of their data batches
transaction_ms int64 how long its closed transactions lasted together, in ms
""")
LSO = columns("""
log_start_offset int64 first offset that consumers may see
log_end_offset int64 offset behind the last batch
high_watermark int64 from the checkpoint, which is up to five seconds old; null if it has none for this partition
high_watermark_source string checkpoint, or log end where there is none
last_stable_offset int64 last stable offset once all of the log is replicated; the most it can be if it is not exact
lowest_last_stable_offset int64 the least it can be
last_stable_offset_at_checkpoint int64 last stable offset at the high watermark of the checkpoint
exact bool whether no transaction from before the log on hand can hold it back further
producer_id int64 producer of the transaction that holds it back; null if none does, as are the next four
producer_epoch int16 epoch of that transaction's last data batch
first_offset int64 first offset of that transaction
last_timestamp int64 when that transaction last wrote, in ms
age_ms int64 time since then, up to the time of evaluation or, of a copy that is older, that of the copy
open_transactions int64 how many transactions are open
hidden_records int64 records of users from the last stable offset on, which a read_committed consumer does not get
hidden_bytes int64 bytes of the batches from there on
""")
LSO_HISTORY = columns("""
from_high_watermark int64 first high watermark of this step
to_high_watermark int64 last one
last_stable_offset int64 last stable offset at the last one
producer_id int64 whose transaction holds it; null while it moves with the high watermark
exact bool whether no transaction from before the log on hand can have held it back further
""")
ABORTED = columns("""
producer_id int64 whose transaction was aborted
first_offset int64 first offset of its data
last_offset int64 offset of the ABORT marker
last_stable_offset int64 what the index entry of a leader should hold
exact bool whether nothing from before the log on hand can change the first offset
indexed bool whether .txnindex has the entry
indexed_last_stable_offset int64 what its entry holds; null if there is none
""")
PARTITIONS = columns("""
verdict string worst severity found, clean, or unread if the partition could not be read
segments int32 segments
bytes int64 bytes of all batches
batches int64 batches
records int64 records of users
first_offset int64 first offset on hand; null for an empty log
log_end_offset int64 offset behind the last batch
last_stable_offset int64 last stable offset
newest_timestamp int64 largest timestamp in ms; null if there is none
producers int64 producer ids known at the end of the log
open_transactions int64 transactions without a marker
committed int64 transactions that were committed
aborted int64 transactions that were aborted
control_batches int64 batches without records of users
control_records_share float64 their share of all records
control_bytes_share float64 their share of all bytes
records_per_batch float64 records of users in a data batch, on average
aborted_share float64 share of aborted transactions among the closed ones; null if none is closed
transaction_records float64 records in a transaction, on average
transaction_ms float64 how long a closed transaction lasted, on average, in ms
findings int64 how many findings
read string ok, or why the partition could not be read
""")
DUPLICATES = columns("""
level string sequence, content-retry or content
first_partition int32 partition of the earlier copy where that is another one of the topic; null within a partition
first_path string segment of the earlier copy
first_position int64 position of its batch
first_offset int64 offset of its first record
second_path string segment of the later copy
second_position int64 position of its batch
second_offset int64 offset of its first record
records int64 records in a row that are there twice
first_producer_id int64 who wrote the earlier copy
first_producer_epoch int16 epoch of that
second_producer_id int64 who wrote the later copy
second_producer_epoch int16 epoch of that
first_timestamp int64 timestamp of the earlier copy's first record in ms
second_timestamp int64 timestamp of the later copy's
view string committed if a read_committed consumer gets both, else raw
why string what makes them the same
""")
FINDINGS = columns("""
code string what kind of finding; codes never change
severity string info, warning, error or critical
first_offset int64 first offset it is about
last_offset int64 last offset it is about
producer_id int64 producer it is about
producer_epoch int16 its epoch
path string file with the evidence
position int64 byte position in it
message string what was found
evidence string figures, as JSON
exactness string exact, approximate or unverifiable
benign string innocent explanations that were tested, one after the other
cause string code of the finding it follows from
remedy string what to do
""")

OF_PARTITIONS: dict[str, Table] = {
    table.name: table
    for table in (
        placed_table("transactions", "transaction of a partition", TRANSACTIONS),
        placed_table("producers", "producer id at the end of a log", PRODUCERS),
        placed_table("lso", "partition", LSO),
        placed_table("lso_history", "step of the last stable offset", LSO_HISTORY),
        placed_table("aborted_transactions", "ABORT marker that ended a transaction", ABORTED),
        placed_table("duplicates", "run of records, or batch, that is there twice", DUPLICATES),
        placed_table("findings", "finding", FINDINGS),
        placed_table("partitions", "partition", PARTITIONS),
    )
}
RESULTS: dict[str, Table] = OF_PARTITIONS | CLUSTER_TABLES | REPLICA_RESULTS | KEY_RESULTS
