"""Definitions of the tables of decoded files: columns with types and meaning, and the Arrow schemas made of them.

Arrow schemas, CSV headers, JSON keys and documentation pages are derived from these definitions. They need neither
pyarrow nor NumPy, so that a dump of a small file starts fast.
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
    "dictionary_schema",
    "encodable",
    "parse_columns",
    "placed_table",
]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: name, type (``int64``, ``string``, …, ``headers``, ``recent_batches``) and description."""

    name: str
    type: str
    doc: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table: name, what a row represents, and columns."""

    name: str
    row: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The column names in order."""
        return tuple(column.name for column in self.columns)


def parse_columns(text: str) -> tuple[Column, ...]:
    """Return columns from lines of ``name type description``."""
    rows = (line.split(maxsplit=2) for line in text.strip().splitlines())
    return tuple(Column(name, kind, doc) for name, kind, doc in rows)


PLACE = parse_columns("""
broker_id int32 broker id from meta.properties; null if the log directory has none
log_dir string the log directory as given
topic string topic from the folder name, which Kafka may have shortened
partition int32 partition
""")
PATH = parse_columns("path string file as given")
RANGE = parse_columns("""
position int64 byte position in the file
size int32 size in bytes
""")
POSITION = parse_columns("position int64 byte position in the file")

FILES = parse_columns("""
path string file as given
kind string kind of file, from its name: log, index, timeindex, txnindex, snapshot, checkpoint, …
base_offset int64 offset in the file name: base offset of a segment, end offset of a snapshot
size int64 size in bytes
mtime_ms int64 last modification in ms
state string live, deleted, cleaned, swap, stray or future
topic_id string topic id from partition.metadata
""")
BATCHES = parse_columns("""
base_offset int64 first offset of the batch as appended
last_offset int64 last offset of the batch as appended
count int32 number of records; after compaction fewer than the offsets the batch spans
magic int8 message format: 0, 1 or 2
partition_leader_epoch int32 epoch of the leader that appended it; null in formats 0 and 1
crc int64 stored checksum
crc_valid bool whether the stored checksum matches the bytes
attributes int16 attributes as stored
compression_type string none, gzip, snappy, lz4 or zstd; null for an unassigned codec number
timestamp_type string CreateTime, LogAppendTime or NoTimestampType
is_transactional bool whether the batch belongs to a transaction
is_control bool whether the batch contains control records, such as transaction markers
delete_horizon_ms int64 time in ms after which the cleaner may remove tombstones and markers; null if not set
base_timestamp int64 base timestamp in ms as stored; the delete horizon if that is set
max_timestamp int64 largest record timestamp in ms, or the append time
producer_id int64 -1 if the producer is not idempotent
producer_epoch int16 -1 if none
base_sequence int32 sequence of the first record; -1 if none
last_sequence int32 sequence of the last record; -1 if none
control_type string COMMIT, ABORT, LEADER_CHANGE, …; null for other batches
coordinator_epoch int32 epoch of the transaction coordinator; null for anything but a COMMIT or ABORT marker
""")
RECORDS = parse_columns("""
batch_position int64 byte position of the batch in the file
offset int64 offset of the record
timestamp int64 timestamp in ms; -1 if none
timestamp_type string CreateTime, LogAppendTime or NoTimestampType
sequence int32 sequence number; -1 if none
key binary key; null if the record has none
value binary value; null for a tombstone
headers headers header keys and values in stored order
key_size int32 size of the key in bytes; -1 if null
value_size int32 size of the value in bytes; -1 if null
control_type string COMMIT, ABORT, LEADER_CHANGE, …; null for other records
coordinator_epoch int32 epoch of the transaction coordinator; null for anything but a COMMIT or ABORT marker
""")
DAMAGE = parse_columns("""
start int64 position of the first byte that was not decoded
end int64 position after the last such byte
reason string damage reason, see the page on damage
detail string a sentence, or Kafka's own message
next_good_position int64 where decoding resumed; null if nothing valid follows
inside_batch int64 position of the batch whose records are lost; null if whole batches are lost
""")
OFFSET_INDEX = parse_columns("""
offset int64 offset of the entry
relative_offset int32 as stored: offset minus the segment's base offset
log_position int32 byte position in the .log
""")
TIME_INDEX = parse_columns("""
timestamp int64 largest timestamp in ms up to the offset
offset int64 offset of the entry
relative_offset int32 as stored: offset minus the segment's base offset
""")
TRANSACTION_INDEX = parse_columns("""
version int16 version of the entry
producer_id int64 producer of the aborted transaction
first_offset int64 first data offset of the transaction
last_offset int64 offset of the ABORT marker
last_stable_offset int64 last stable offset when the transaction ended
""")
PRODUCER_SNAPSHOTS = parse_columns("""
snapshot_offset int64 end offset of the snapshot: it covers the offsets below this one
producer_id int64 producer id
producer_epoch int16 producer epoch
last_sequence int32 last sequence of the last batch; -1 if none
last_offset int64 last offset of the last batch; -1 if no batch is retained
offset_delta int32 last offset delta of the last batch
timestamp int64 max timestamp in ms of the last batch or marker
coordinator_epoch int32 coordinator epoch of the last marker; -1 if none
current_txn_first_offset int64 first offset of the open transaction; -1 if none is open
""")
CHECKPOINTS = parse_columns("""
checkpoint string file name, which determines the meaning of the offset
offset int64 checkpointed offset
""")
LEADER_EPOCHS = parse_columns("""
leader_epoch int32 leader epoch
start_offset int64 first offset of the epoch
""")
PROPERTIES = parse_columns("""
name string name of the property
value string value of the property as text
""")


def placed_table(name: str, row: str, *groups: tuple[Column, ...]) -> Table:
    """Return a table whose rows begin with the location columns.

    Args:
        name: name of the table.
        row: what a row represents.
        groups: the other columns.
    """
    return Table(name, row, tuple(column for group in (PLACE, *groups) for column in group))


TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        placed_table("files", "file", FILES),
        placed_table("batches", "record batch, or top-level entry of message format 0 or 1", PATH, RANGE, BATCHES),
        placed_table("records", "record", PATH, RECORDS),
        placed_table("index_entries", "entry of an offset index", PATH, POSITION, OFFSET_INDEX),
        placed_table("time_index_entries", "entry of a time index", PATH, POSITION, TIME_INDEX),
        placed_table("transaction_index_entries", "aborted transaction of an index", PATH, POSITION, TRANSACTION_INDEX),
        placed_table("producer_snapshots", "producer in a producer snapshot", PATH, POSITION, PRODUCER_SNAPSHOTS),
        placed_table(
            "checkpoints", "line of an offset checkpoint; topic and partition come from the line", PATH, CHECKPOINTS
        ),
        placed_table("leader_epochs", "line of a leader-epoch checkpoint", PATH, LEADER_EPOCHS),
        placed_table("properties", "property of a small state file", PATH, PROPERTIES),
        placed_table("damage", "range of bytes that was not decoded", PATH, DAMAGE),
    )
}


def arrow_type(name: str) -> pa.DataType:
    """Return the Arrow type of a column type."""
    import pyarrow as pa  # needed for Arrow formats only

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
    import pyarrow as pa  # needed for Arrow formats only

    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in TABLES[name].columns])


def encodable(text: str) -> str:
    """Return text that Arrow accepts: lone surrogates, from a file name that is not UTF-8, are escaped."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def dictionary_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema with dictionary-encoded text, as the kernels produce and the Parquet writer uses."""
    import pyarrow as pa  # needed for Arrow formats only

    encoded = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([field.with_type(encoded) if field.type == pa.string() else field for field in schema])
