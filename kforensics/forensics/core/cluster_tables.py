"""Definitions of the tables about a cluster: its coordinators and groups, its events and its metadata."""

from __future__ import annotations

from kforensics.parsers.tables.schemas import Table, parse_columns, placed_table

__all__ = [
    "CLUSTER_CHANGES",
    "CLUSTER_EVENTS",
    "CLUSTER_IMAGE",
    "CLUSTER_TABLES",
    "COMMITTED_OFFSETS",
    "COORDINATOR_TRANSACTIONS",
    "COST_TABLES",
    "DISTRIBUTED_TRANSACTIONS",
    "GROUPS",
    "GROUP_EVENTS",
    "GROUP_OFFSETS",
    "GROUP_TABLES",
    "ID_EVENTS",
    "ID_TABLES",
    "NAME_PARTITIONS",
    "PARTITION_HISTORY",
    "TRANSACTIONAL_IDS",
    "TRANSACTION_COSTS",
]

RECORDS = parse_columns("""
path string segment
position int64 byte position of the record's batch
offset int64 offset of the record
timestamp int64 timestamp of the record in ms; null if it has none
leader_epoch int32 leader epoch of its batch, which is the coordinator epoch; null in formats 0 and 1
transactional_id string transactional id; null if the key cannot be read
state string state by Kafka's name; null for a tombstone, and if it cannot be read or has no name
tombstone bool whether the id was removed here
version int16 version of the value; null for a tombstone or if it cannot be read, like the next columns
producer_id int64 producer id
producer_epoch int16 producer epoch
last_producer_epoch int16 producer epoch of the previous record of this id; null if its producer id was another
previous_producer_id int64 producer id before this state; null if not written
next_producer_id int64 producer id to use after this transaction; null if none
next_producer_epoch int16 declared since 4.1, written by no release up to 4.4; null if not written
transaction_version int16 of the client's request; 0 also means 1, which clients do not write
transaction_timeout_ms int32 transaction timeout in ms
partitions string partitions of the transaction, with commas; null if there never were any, empty once it is complete
partition_count int32 number of partitions
last_update_timestamp int64 when the coordinator started to write this state, in ms
start_timestamp int64 start of the transaction in ms; null if none has started
step string relation to the previous record of this id: first, next, again, flipped, unapplied, illegal or unknown
error string why a broker cannot read it; null if it can
""")
IDS = parse_columns("""
transactional_id string transactional id
state string its last state; null if it was removed or cannot be read
removed bool whether its last record is a tombstone
producer_id int64 producer id; null if it was removed or cannot be read, like the next three columns
producer_epoch int16 producer epoch
transaction_version int16 of the client's last request that states it
transaction_timeout_ms int32 transaction timeout in ms
start_timestamp int64 start of its last transaction in ms; null if there is none
partitions string partitions of its ongoing transaction, with commas; null if there is none
first_timestamp int64 time of its first available record in ms
last_timestamp int64 time of its last record in ms
inits int64 number of initializations
transactions int64 transactions
committed int64 transactions committed in all partitions
aborted int64 transactions aborted in all partitions
producer_ids int32 number of producer ids it has had
exact bool whether its first available record is the first one ever written
component string the component whose naming its name follows; null if none is known
component_next string what that component does next with its open transaction; null if it has none open
path string segment with its last record
position int64 byte position of that record's batch
offset int64 offset of that record
""")
TRANSACTIONS = parse_columns("""
transactional_id string transactional id
producer_id int64 producer id of its markers
producer_epoch int16 of its data; null if no record from before its end is available
marker_epoch int16 of its markers; null while undecided
state string its last state
outcome string committed, aborted, open, or superseded if its outcome was decided again
transaction_version int16 of the request that ended it
transaction_timeout_ms int32 transaction timeout in ms
start_timestamp int64 start in ms
decided_timestamp int64 when its outcome was decided, in ms; null if that record is not available
first_marker_timestamp int64 timestamp of its first available marker in ms
last_marker_timestamp int64 timestamp of its last available marker in ms
completed_timestamp int64 when every partition had its marker, in ms; null until then
partitions string its partitions, with commas; null if no record that lists them is available
partition_count int32 number of partitions
markers int32 partitions with its marker
empty_markers int32 partitions in which the marker ended no data
missing_markers int32 partitions that lack its marker
contrary_markers int32 partitions with a marker of the opposite outcome
unverifiable int32 partitions that cannot be verified
atomic string yes, no, pending, or unverifiable
exact bool whether its markers are attributed without doubt
path string segment with the record that decided it, or with its last record
position int64 byte position of that record's batch
offset int64 offset of that record
""")

OFFSETS = parse_columns("""
path string segment
position int64 byte position of the record's batch
offset int64 offset of the record
timestamp int64 timestamp of the record in ms; null if it has none
group string group
committed_topic string topic of the committed offset
committed_partition int32 partition of that topic
transactional bool whether it takes effect with the COMMIT marker of its transaction
producer_id int64 producer of that transaction; null if there is none
producer_epoch int16 its epoch; null if there is none
outcome string committed, aborted or pending; null if there is no transaction, or its start is missing
tombstone bool whether the offset was removed here
version int16 version of the value; null for a tombstone or if it cannot be read, like all following columns
committed_offset int64 the offset
committed_leader_epoch int32 leader epoch of the last record consumed; null if the client did not state it
metadata string metadata that the client committed with it
committed_topic_id string topic id; null up to 4.0
commit_timestamp int64 when it was committed, in ms
expire_timestamp int64 expiry time in ms; null unless written, as up to 2.0
error string why it cannot be read; null if it can
""")

IN_FORCE = parse_columns("""
group string group
committed_topic string topic of the committed offset
committed_partition int32 partition of that topic
committed_offset int64 the offset in force
committed_leader_epoch int32 leader epoch of the last record consumed; null if the client did not state it
metadata string metadata that the client committed with it
committed_topic_id string topic id; null up to 4.0
transactional bool whether it took effect with the COMMIT marker of a transaction
producer_id int64 producer of that transaction; null if there was none
producer_epoch int16 its epoch; null if there was none
effective_timestamp int64 when it took effect, in ms: time of its marker or record, else commit_timestamp; null if none
pending bool whether an open transaction has committed a newer one, so that it cannot be fetched as stable
log_end_offset int64 of the committed partition; null if it was not supplied, like the next seven columns
last_stable_offset int64 of the committed partition
lag int64 offsets from the committed one to the log end; negative if it is beyond the log end
stable_lag int64 the same up to the last stable offset, the limit of read_committed consumers
log_start_offset int64 first offset that consumers may see
high_watermark int64 from the checkpoint, which may be five seconds old; null if the checkpoint lacks the partition
high_watermark_source string checkpoint, or log end if there is no checkpoint
high_watermark_lag int64 offsets up to the high watermark, the limit of read_uncommitted consumers, or to the log end
path string segment with its record
position int64 byte position of the record's batch
offset int64 offset of the record
""")

EVENTS = parse_columns("""
timestamp int64 when, in ms; null if unknown
kind string what happened, such as election or feature; the page on plot lists the kinds
node_id int32 the broker or controller concerned: the elected leader, or who started or stopped; null if none is
name string feature, or reason of the damage; null for other kinds
value int64 leader epoch, level of the feature, first id after the block of producer ids, or damaged bytes
previous int64 earlier value of the feature; null if unknown
partitions int32 partitions that an election or its failure concerns
path string file that shows it
position int64 byte position of the batch, or of the damage
offset int64 first offset of the batch; null for damage
""")

IMAGE = parse_columns("""
kind string broker, controller, voter, feature, topic, partition, config, quota, acl, scram_user, …
name string the node, feature, topic, partition, user, …; of a config or quota, what it is for
setting string name of the setting or quota, mechanism of a user, or what an access control entry allows or denies
value string its value; level of a feature, and hidden if the setting is a secret
state string what is the matter, such as fenced, no leader or under-replicated; null if nothing is
node_id int32 broker or controller; null for other entities
topic_id string topic id; null for anything but topics and partitions
leader int32 leader of the partition, -1 if it has none; null for other entities, like the next nine columns
leader_epoch int32 leader epoch
partition_epoch int32 how often the partition was changed
replicas string broker ids, with commas; the first one is the preferred leader
isr string in-sync replicas
elr string eligible leader replicas
last_known_elr string last known eligible leader replicas
adding string replicas that a reassignment adds
removing string replicas that a reassignment removes
directories string ids of the log directories of the replicas
since int64 when the leader was elected or the topic created, in ms; null if before the available log
record string the record that states it, as JSON with Kafka's names, without secrets; null if it is no record of its own
end_offset int64 end offset of the image in the metadata log
timestamp int64 time of the last record in the image, in ms; null if unknown
""")
CHANGES = parse_columns("""
kind string kind of the entity, as in `cluster_image`
name string its name
setting string its setting, as in `cluster_image`
change string created, deleted or changed
what string what is different, each value with the one before
before string record that stated it before, as JSON without secrets; null if it was created
after string record that states it after, as JSON without secrets; null if it was deleted
records int64 records between that concern it; null if they are not available, like the next seven columns
first_offset int64 offset of the first of them
first_timestamp int64 its time in ms
last_offset int64 offset of the last of them
last_timestamp int64 its time in ms
elections int64 elections among them
controller int32 controller that wrote the last of them
controller_epoch int32 its epoch
""")
HISTORY = parse_columns("""
offset int64 offset of the record; null for the state in a snapshot
timestamp int64 its time in ms; null for the state in a snapshot
change string what changed: created, elected, unclean election, no leader, isr shrunk, isr expanded, …; with commas
leader int32 leader after it, -1 for none; null once the topic is deleted, like the next eight columns
leader_epoch int32 leader epoch
partition_epoch int32 partition epoch
replicas string broker ids, with commas
isr string in-sync replicas
elr string eligible leader replicas
last_known_elr string last known eligible leader replicas
adding string replicas that a reassignment adds
removing string replicas that a reassignment removes
duration_ms int64 how long it lasted, in ms; null if it did not end, or a time is unknown
controller int32 controller that wrote it; null if unknown
controller_epoch int32 its epoch
""")
OF_AN_ID = parse_columns("""
transactional_id string transactional id
event string initialized, transactions, fenced, timed-out, rotated, expired, open, deciding or unreadable
times int64 how often it happened in a row
first_timestamp int64 when it began, in ms: for transactions the start of the first one; null if unknown
last_timestamp int64 when it ended, in ms; null if unknown
producer_id int64 producer id; null for an unreadable record, like the next three columns
first_epoch int16 producer epoch at its first record
last_epoch int16 producer epoch at its last record
transaction_timeout_ms int32 transaction timeout in ms
previous_producer_id int64 producer id before; null unless it was another
committed int64 transactions that were committed
aborted int64 transactions that were aborted
exact bool whether no record before or within it can be missing; false for a timeout, which is never certain
why string the reason, as a clause; null if there is nothing to add
path string segment with its last record
position int64 byte position of that record's batch
offset int64 offset of that record
""")
WHERE = parse_columns("""
name string the name
kind string what the name is taken for: transactional id or group; the place columns are its partition
hash int64 Java's String.hashCode of the name, made non-negative as Kafka does
partition_count int32 number of partitions of the topic
count_source string where this number comes from
available bool whether the log of the partition is among the files
""")
OF_GROUPS = parse_columns("""
group string group
type string classic, consumer, share or streams
state string Stable, Empty, NotReady, Assigning, Reconciling or Dead, by its records; Dead for a group that was removed
generation int32 generation of a classic group, epoch of another; null if no record shows it
protocol string assignor of a classic group; null if there is none
members int32 members
clients string client ids of the members, with commas; null if there are no members
partitions int32 partitions with a committed offset
pending int32 partitions with an offset that waits for the end of a transaction
lag int64 offsets to the log end, of all its partitions among the files, 0 beyond it; null if none is among them
stable_lag int64 the same up to the last stable offset, the limit of read_committed consumers
high_watermark_lag int64 the same up to the high watermark, or the log end without a checkpoint
without_lag int32 partitions whose log is not among the files
beyond_end int32 partitions with an offset beyond the log end, which take nothing from the lags
resets int64 how often it went back or started again without its offset; at least, if there are very many
last_commit_timestamp int64 when its last offset in force took effect, in ms; null if there is none
emptied_timestamp int64 when its last member left, in ms; null if no record shows it
component string the component that it belongs to, or looks like; null if none is known, like the next two columns
component_source string what shows the component: records of the group, or only its name
component_next string what that component does when it starts again
""")
OF_A_GROUP = parse_columns("""
group string group
event string state, commits, aborted, pending, removed, reset, lag, out-of-range, delivery or checkpoint
times int64 how many records in a row
first_timestamp int64 time of the first one, in ms; null if unknown, as for out-of-range
last_timestamp int64 time of the last one, in ms; null if unknown
committed_topic string topic of the committed offset; null for a state
committed_partition int32 partition of that topic; null for a state
first_committed int64 first committed offset, of a reset the one before, of a delivery the start offset; null if none
last_committed int64 last committed offset, of a delivery the last one with a state; null for a state and a removal
state string state of the group; null for another event, like the next three columns
generation int32 its generation or epoch
members int32 its members
clients string client ids of the members, with commas; null if there are none
cause string why the group went back or started again, or will do so; null for other events
exact bool whether the files leave no other explanation
why string what shows the cause, delivery states with offsets, the new type of a group, or a removal before a COMMIT
member string of a reset, the member that committed: the only one, or the one that had the partition; else null
client_id string its client id; null if no member is named, like the next column
client_host string from where it had joined, as its broker saw it
producer_id int64 of a reset in a transaction, its producer id; else null
transactional_id string its transactional id; null if no available coordinator names it
log_start_offset int64 of a lag, first offset that consumers may see; null for other events, like the next seven columns
last_stable_offset int64 last stable offset once the whole log is replicated
high_watermark int64 from the checkpoint, which may be five seconds old; null if the checkpoint lacks the partition
high_watermark_source string checkpoint, or log end if there is no checkpoint
log_end_offset int64 log end offset
lag int64 offsets from the committed one to the log end; negative if it is beyond the log end
stable_lag int64 the same up to the last stable offset, the limit of read_committed consumers
high_watermark_lag int64 the same up to the high watermark, the limit of read_uncommitted consumers, or to the log end
path string segment with its first record
position int64 byte position of that record's batch
offset int64 offset of that record
""")

COSTS = parse_columns("""
cluster string name of the cluster
grouped_by string what the transactions of the row have in common: all, partitions or records
least int64 least number of partitions or records; null for all
most int64 largest number of partitions or records; null for all
transactions int64 ended transactions with known partitions
records int64 their records in the available partitions
bytes int64 size of the batches of these records
markers int64 their available markers; each takes an offset
marker_bytes int64 size of these markers
begin_p50_ms int64 time between first record and start in ms: half of them took at most this; null if unknown
begin_p90_ms int64 the same for 90 of 100
begin_p99_ms int64 the same for 99 of 100
prepare_p50_ms int64 from the decision to the first marker, in ms: the median
prepare_p90_ms int64 the same for 90 of 100
prepare_p99_ms int64 the same for 99 of 100
markers_p50_ms int64 from the first to the last marker, in ms: the median
markers_p90_ms int64 the same for 90 of 100
markers_p99_ms int64 the same for 99 of 100
complete_p50_ms int64 from the last marker to the Complete record, in ms: the median
complete_p90_ms int64 the same for 90 of 100
complete_p99_ms int64 the same for 99 of 100
end_p50_ms int64 from the decision to the Complete record, in ms: the median
end_p90_ms int64 the same for 90 of 100
end_p99_ms int64 the same for 99 of 100
records_per_second float64 records of a transaction by the time from its start to its Complete record; the median
end_share float64 share of that time after the decision; the median
fitted_end_ms float64 what the fitted line gives for this number of partitions, in ms; null in other rows
init_ms float64 typical time of the beginning in ms: mean of the middle half; null but for all
commit_ms float64 time of the end without markers, by the line; null but for all, and if no line can be fitted
marker_ms float64 time that each partition adds to the end, by the line; null if none can be fitted
residual_ms float64 how far typical ends are from the line, in ms: root mean square; null if there is none
""")

COORDINATOR_TRANSACTIONS = placed_table("coordinator_transactions", "record of `__transaction_state`", RECORDS)
TRANSACTIONAL_IDS = placed_table("transactional_ids", "transactional id, by its last use", IDS)
DISTRIBUTED_TRANSACTIONS = placed_table(
    "distributed_transactions", "transaction of a transactional id, in all its partitions", TRANSACTIONS
)
GROUP_OFFSETS = placed_table("group_offsets", "committed offset in `__consumer_offsets`", OFFSETS)
COMMITTED_OFFSETS = placed_table(
    "committed_offsets", "offset of a group in force at the end of the cluster's logs", IN_FORCE
)
CLUSTER_EVENTS = placed_table("cluster_events", "event that the log of a partition shows", EVENTS)
CLUSTER_IMAGE = placed_table("cluster_image", "entity in the image of a KRaft cluster", IMAGE)
CLUSTER_CHANGES = placed_table("cluster_changes", "entity that differs between two images", CHANGES)
PARTITION_HISTORY = placed_table("partition_history", "change of a partition in the metadata log", HISTORY)
CLUSTER_TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        COORDINATOR_TRANSACTIONS,
        TRANSACTIONAL_IDS,
        DISTRIBUTED_TRANSACTIONS,
        GROUP_OFFSETS,
        COMMITTED_OFFSETS,
        CLUSTER_EVENTS,
        CLUSTER_IMAGE,
        CLUSTER_CHANGES,
        PARTITION_HISTORY,
    )
}
ID_EVENTS = placed_table("id_events", "event in the life of a transactional id, or run of equal ones", OF_AN_ID)
NAME_PARTITIONS = placed_table("name_partitions", "internal topic that a name may belong to", WHERE)
TRANSACTION_COSTS = placed_table("transaction_costs", "group of transactions of a cluster", COSTS)
ID_TABLES: dict[str, Table] = {table.name: table for table in (ID_EVENTS, NAME_PARTITIONS)}
COST_TABLES: dict[str, Table] = {table.name: table for table in (TRANSACTION_COSTS,)}
GROUPS = placed_table("groups", "group", OF_GROUPS)
GROUP_EVENTS = placed_table("group_events", "event in the history of a group, or run of equal ones", OF_A_GROUP)
GROUP_TABLES: dict[str, Table] = {table.name: table for table in (GROUPS, GROUP_EVENTS)}
