"""All binary layouts, defined once in construct; struct formats, NumPy types and docs are derived from them.

Sources: the protocol page ``kafka.apache.org/documentation/#messageformat`` and the Java class named above each layout.
All integers are big-endian.
"""

from __future__ import annotations

from construct import Int8sb, Int16sb, Int32sb, Int32ub, Int64sb, Struct

from kforensics.parsers.format.integers import SizedBytes, VarInt, VarLong

__all__ = [
    "BATCH_HEADER",
    "CONTROL_KEY",
    "END_TXN_MARKER",
    "ENTRY_PREFIX",
    "LEGACY_HEADER_V0",
    "LEGACY_HEADER_V1",
    "OFFSET_INDEX_ENTRY",
    "PRODUCER_SNAPSHOT_ENTRY",
    "PRODUCER_SNAPSHOT_HEADER",
    "RECORD",
    "RECORD_HEADER",
    "REMOTE_LOG_SNAPSHOT_HEADER",
    "TIME_INDEX_ENTRY",
    "TRANSACTION_INDEX_ENTRY",
]

# org.apache.kafka.common.record: every entry of a .log begins with these fields, whatever its format.
ENTRY_PREFIX = Struct(
    "base_offset" / Int64sb * "offset of the batch's first record as appended (formats 0 and 1: of the last record)",
    "length" / Int32sb * "bytes that follow this field",
    "partition_leader_epoch" / Int32sb * "leader epoch of the append (formats 0 and 1: the CRC is here)",
    "magic" / Int8sb * "format version: 0, 1 or 2",
)

# org.apache.kafka.common.record.DefaultRecordBatch
BATCH_HEADER = Struct(
    "base_offset" / Int64sb * "offset of the batch's first record as appended",
    "length" / Int32sb * "bytes that follow this field; the batch has 12 more",
    "partition_leader_epoch" / Int32sb * "epoch of the leader that appended it, -1 if unknown; not covered by the CRC",
    "magic" / Int8sb * "2",
    "crc" / Int32ub * "CRC-32C of all bytes after this field",
    "attributes" / Int16sb * "bits 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control, 6 delete horizon",
    "last_offset_delta" / Int32sb * "last offset minus base offset; unchanged by compaction",
    "base_timestamp" / Int64sb * "timestamp in ms that record deltas refer to; the delete horizon if bit 6 is set",
    "max_timestamp" / Int64sb * "largest record timestamp in ms; the append time if bit 3 is set",
    "producer_id" / Int64sb * "-1 if the producer is not idempotent",
    "producer_epoch" / Int16sb * "-1 if none",
    "base_sequence" / Int32sb * "sequence of the first record; -1 if none",
    "count" / Int32sb * "number of records; after compaction fewer than the offsets the batch spans",
)

# org.apache.kafka.common.record.LegacyRecord, preceded by AbstractLegacyRecordBatch's offset and size
LEGACY_HEADER_V0 = Struct(
    "offset" / Int64sb * "offset of the message; for a wrapper, of its last inner message",
    "size" / Int32sb * "bytes that follow this field",
    "crc" / Int32ub * "CRC-32 of all bytes after this field",
    "magic" / Int8sb * "0",
    "attributes" / Int8sb * "bits 0-2 codec",
)
LEGACY_HEADER_V1 = Struct(
    "offset" / Int64sb * "offset of the message; for a wrapper, of its last inner message",
    "size" / Int32sb * "bytes that follow this field",
    "crc" / Int32ub * "CRC-32 of all bytes after this field",
    "magic" / Int8sb * "1",
    "attributes" / Int8sb * "bits 0-2 codec, 3 LogAppendTime",
    "timestamp" / Int64sb * "ms, -1 if none; for a wrapper, the largest inner timestamp or the append time",
)

# org.apache.kafka.common.record.DefaultRecord; varints are zigzag, a length of -1 means null
RECORD_HEADER = Struct(
    "key" / SizedBytes * "UTF-8, never null",
    "value" / SizedBytes * "any bytes or null",
)
RECORD = Struct(
    "length" / VarInt * "bytes that follow this field",
    "attributes" / Int8sb * "unused, 0",
    "timestamp_delta" / VarLong * "ms after the batch's base timestamp",
    "offset_delta" / VarInt * "offset minus the batch's base offset",
    "key" / SizedBytes * "any bytes or null",
    "value" / SizedBytes * "any bytes, or null: a tombstone in a compacted topic",
    "header_count" / VarInt * "headers that follow",
)

# org.apache.kafka.storage.internals.log.OffsetIndex, TimeIndex, AbortedTxn
OFFSET_INDEX_ENTRY = Struct(
    "relative_offset" / Int32sb * "offset minus the segment's base offset",
    "position" / Int32sb * "byte position in the .log",
)
TIME_INDEX_ENTRY = Struct(
    "timestamp" / Int64sb * "largest timestamp in ms up to this offset",
    "relative_offset" / Int32sb * "offset minus the segment's base offset",
)
TRANSACTION_INDEX_ENTRY = Struct(
    "version" / Int16sb * "0",
    "producer_id" / Int64sb * "producer of the aborted transaction",
    "first_offset" / Int64sb * "first data offset of the transaction",
    "last_offset" / Int64sb * "offset of the ABORT marker",
    "last_stable_offset" / Int64sb * "last stable offset when the transaction ended",
)

# org.apache.kafka.storage.internals.log.ProducerStateManager
PRODUCER_SNAPSHOT_HEADER = Struct(
    "version" / Int16sb * "1",
    "crc" / Int32ub * "CRC-32C of all bytes after this field, to the end of the file",
    "count" / Int32sb * "entries that follow",
)
PRODUCER_SNAPSHOT_ENTRY = Struct(
    "producer_id" / Int64sb * "",
    "producer_epoch" / Int16sb * "",
    "last_sequence" / Int32sb * "last sequence of the last batch; -1 if none",
    "last_offset" / Int64sb * "last offset of the last batch; -1 if no batch is retained",
    "offset_delta" / Int32sb * "last offset delta of the last batch",
    "timestamp" / Int64sb * "max timestamp in ms of the last batch or marker",
    "coordinator_epoch" / Int32sb * "coordinator epoch of the last marker; -1 if none",
    "current_txn_first_offset" / Int64sb * "-1 if no transaction is open",
)

# org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataSnapshotFile (3.1 to 3.7)
REMOTE_LOG_SNAPSHOT_HEADER = Struct(
    "version" / Int16sb * "0",
    "metadata_partition" / Int32sb * "partition of __remote_log_metadata",
    "metadata_partition_offset" / Int64sb * "offset consumed",
    "count" / Int32sb * "entries that follow, each an i32 length and that many bytes",
)

# org.apache.kafka.common.record.ControlRecordType and EndTransactionMarker
CONTROL_KEY = Struct(
    "version" / Int16sb * "0; higher versions are read as 0",
    "type" / Int16sb * "0 ABORT, 1 COMMIT, 2 LEADER_CHANGE, 3 SNAPSHOT_HEADER, …",
)
END_TXN_MARKER = Struct(
    "version" / Int16sb * "0; higher versions are read as 0",
    "coordinator_epoch" / Int32sb * "leader epoch of the __transaction_state partition",
)
