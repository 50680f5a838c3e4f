"""The one statement of every table: its columns, their types and what they mean.

Arrow schemas, CSV headers, JSON keys and the pages of the documentation are derived from here. The statement itself
needs neither pyarrow nor numpy, so that a dump of a small file stays light.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "TABLES",
    "Column",
    "Table",
    "arrow_schema",
    "arrow_type",
    "columns",
    "encodable",
    "placed_table",
    "with_words",
]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: name, type (``int64``, ``string``, …, ``headers``, ``recent_batches``) and one sentence."""

    name: str
    type: str
    doc: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table: name, what one row stands for, and its columns."""

    name: str
    row: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The column names in order."""
        return tuple(column.name for column in self.columns)


def columns(text: str) -> tuple[Column, ...]:
    """Return columns from lines of ``name type sentence``."""
    rows = (line.split(maxsplit=2) for line in text.strip().splitlines())
    return tuple(Column(name, kind, doc) for name, kind, doc in rows)


PLACE = columns("""
broker_id int32 id of the broker from meta.properties; null if that is not beside the log directory
log_dir string the log directory as given
topic string topic, as far as the folder's name tells it
partition int32 partition
""")
PATH = columns("path string file as given")
RANGE = columns("""
position int64 byte position in the file
size int32 bytes
""")
POSITION = columns("position int64 byte position in the file")

FILES = columns("""
path string file as given
kind string what the file is, by its name: log, index, timeindex, txnindex, snapshot, checkpoint, …
base_offset int64 number in the name: base offset of a segment, next offset of a snapshot
size int64 bytes
mtime_ms int64 last modification in ms
state string live, deleted, cleaned, swap, stray or future
topic_id string topic id from partition.metadata
""")
BATCHES = columns("""
base_offset int64 offset of the first record ever written in the batch
last_offset int64 offset of the last record ever written in the batch
count int32 records in the batch; fewer than the offsets it spans once compacted
magic int8 message format: 0, 1 or 2
partition_leader_epoch int32 epoch of the leader that appended it; null in formats 0 and 1
crc int64 stored checksum
crc_valid bool whether the checksum holds
attributes int16 attributes as stored
compression_type string none, gzip, snappy, lz4 or zstd; null for a number that means nothing
timestamp_type string CreateTime, LogAppendTime or NoTimestampType
is_transactional bool whether the records belong to a transaction
is_control bool whether the records are markers or other control records
delete_horizon_ms int64 time after which the cleaner may drop tombstones and markers; null if not set
base_timestamp int64 base timestamp as stored in ms; the delete horizon if that is set
max_timestamp int64 largest timestamp in ms, or the append time
producer_id int64 -1 if the producer is not idempotent
producer_epoch int16 -1 if none
base_sequence int32 sequence of the first record; -1 if none
last_sequence int32 sequence of the last record; -1 if none
control_type string COMMIT, ABORT, LEADER_CHANGE, …; null unless a control batch
coordinator_epoch int32 epoch of the transaction coordinator; null unless a COMMIT or ABORT marker
""")
RECORDS = columns("""
batch_position int64 byte position of the batch in the file
offset int64 offset
timestamp int64 ms; -1 if none
timestamp_type string CreateTime, LogAppendTime or NoTimestampType
sequence int32 sequence; -1 if none
key binary key; null if there is none
value binary value; null for a tombstone
headers headers header keys and values in their order
key_size int32 bytes of the key; -1 if null
value_size int32 bytes of the value; -1 if null
control_type string COMMIT, ABORT, LEADER_CHANGE, …; null unless a control record
coordinator_epoch int32 epoch of the transaction coordinator; null unless a COMMIT or ABORT marker
""")
DAMAGE = columns("""
start int64 first byte that was not decoded
end int64 byte behind the last one
reason string one word, see the page on damage
detail string a sentence, or Kafka's own message
next_good_position int64 where decoding went on; null if nothing good follows
inside_batch int64 position of the batch whose records are lost; null where whole batches are
""")
OFFSET_INDEX = columns("""
offset int64 offset
relative_offset int32 as stored: offset minus the segment's base offset
log_position int32 byte position in the .log that the entry names
""")
TIME_INDEX = columns("""
timestamp int64 largest timestamp in ms up to the offset
offset int64 offset
relative_offset int32 as stored: offset minus the segment's base offset
""")
TRANSACTION_INDEX = columns("""
version int16 version of the entry
producer_id int64 producer of the aborted transaction
first_offset int64 first data offset of the transaction
last_offset int64 offset of the ABORT marker
last_stable_offset int64 last stable offset once the transaction had ended
""")
PRODUCER_SNAPSHOTS = columns("""
snapshot_offset int64 the state describes exactly the offsets below this one
producer_id int64 producer id
producer_epoch int16 producer epoch
last_sequence int32 sequence of the last batch's last record; -1 if none
last_offset int64 last offset of the last batch; -1 if none is kept
offset_delta int32 last offset delta of the last batch
timestamp int64 max timestamp in ms of the last batch, or the marker's
coordinator_epoch int32 epoch of the last marker; -1 if none
current_txn_first_offset int64 first offset of the open transaction; -1 if none is open
""")
CHECKPOINTS = columns("""
checkpoint string name of the file, which tells what the offset means
offset int64 offset
""")
LEADER_EPOCHS = columns("""
leader_epoch int32 leader epoch
start_offset int64 first offset written in that epoch
""")
PROPERTIES = columns("""
name string name of the property
value string its value as text
""")


def placed_table(name: str, row: str, *groups: tuple[Column, ...]) -> Table:
    """Return a table whose rows begin with the place.

    Args:
        name: its name.
        row: what one row stands for.
        groups: the other columns.
    """
    return Table(name, row, tuple(column for group in (PLACE, *groups) for column in group))


TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        placed_table("files", "file found", FILES),
        placed_table("batches", "record batch, or top-level entry of message format 0 or 1", PATH, RANGE, BATCHES),
        placed_table("records", "record", PATH, RECORDS),
        placed_table("index_entries", "entry of an offset index", PATH, POSITION, OFFSET_INDEX),
        placed_table("time_index_entries", "entry of a time index", PATH, POSITION, TIME_INDEX),
        placed_table("transaction_index_entries", "aborted transaction in an index", PATH, POSITION, TRANSACTION_INDEX),
        placed_table("producer_snapshots", "producer in a snapshot", PATH, POSITION, PRODUCER_SNAPSHOTS),
        placed_table(
            "checkpoints", "line of an offset checkpoint; topic and partition are the line's", PATH, CHECKPOINTS
        ),
        placed_table("leader_epochs", "line of a leader-epoch checkpoint", PATH, LEADER_EPOCHS),
        placed_table("properties", "property of a small state file", PATH, PROPERTIES),
        placed_table("damage", "range of bytes not decoded", PATH, DAMAGE),
    )
}


def arrow_type(name: str) -> pa.DataType:
    """Return the Arrow type of a column type."""
    import pyarrow as pa  # only Arrow formats pay for it

    if name == "headers":
        return pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    if name == "recent_batches":
        numbers = (("last_sequence", 32), ("last_offset", 64), ("offset_delta", 32), ("timestamp", 64))
        return pa.list_(pa.struct([(field, pa.type_for_alias(f"int{bits}")) for field, bits in numbers]))
    return pa.bool_() if name == "bool" else pa.type_for_alias(name)


def arrow_schema(name: str) -> pa.Schema:
    """Return the Arrow schema of a table.

    Raises:
        KeyError: there is no such table.
    """
    import pyarrow as pa  # as above

    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in TABLES[name].columns])


def encodable(text: str) -> str:
    """Return text as Arrow takes it: lone surrogates, from a name that is no UTF-8, are escaped."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def with_words(schema: pa.Schema) -> pa.Schema:
    """Return a schema with dictionaries in place of text, as kernels make it and Parquet is written from."""
    import pyarrow as pa  # as above

    words = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([field.with_type(words) if field.type == pa.string() else field for field in schema])
