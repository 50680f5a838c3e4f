"""The records of ``__transaction_state`` as NumPy columns, decoded in bulk.

Keys and lists of partitions repeat often: each distinct one is decoded at most once per chunk. Keys and values are read
in columns, version by version; a value that does not have the exact layout of its version is decoded on its own, as a
``StateRecord``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import (
    NO_VERSION,
    NONE,
    TRANSACTION_LOG,
    TRANSACTION_STATE,
    VERSION_SIZE,
    RecordHeader,
    State,
    StateRecord,
    TopicPartition,
    listed_partitions,
    state_record,
)
from kforensics.forensics.core.record_arrays import take_rows
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.parsers.columns.record_columns import RecordColumns
from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray
from kforensics.parsers.format.byte_slices import ByteSlices, SliceNumbers, distinct_rows, distinct_slices, with_slices
from kforensics.parsers.messages.codec import decode
from kforensics.parsers.messages.message_columns import java_texts, read_columns, read_keys, texts_of
from kforensics.parsers.messages.registry import COORDINATOR_TYPES
from kforensics.parsers.messages.transaction_log import TRANSACTION_LOG_VALUE

# The types of the records with the state of a transactional id.
STATE_TYPES = [number for number, kind in COORDINATOR_TYPES[TRANSACTION_STATE].items() if kind.name == TRANSACTION_LOG]
# A status where there is none; statuses have 8 bits.
NO_STATUS = -(1 << 8)
# A missing transactional id, and a null list.
NO_ID = NO_LIST = NONE
# Maximum number of cached lists of partitions.
MAX_CACHED_LISTS = 1 << 16

STATE_ROW = np.dtype(
    [
        ("id", "i4"),  # number of the transactional id, NO_ID if the key cannot be read
        ("segment", "i4"),
        ("position", "i8"),
        ("offset", "i8"),
        ("timestamp", "i8"),
        ("leader_epoch", "i4"),
        ("is_tombstone", "?"),
        ("is_wrong", "?"),  # whether there is an error
        ("version", "i4"),
        ("status", "i2"),
        ("producer_id", "i8"),
        ("producer_epoch", "i2"),
        ("previous_producer_id", "i8"),
        ("next_producer_id", "i8"),
        ("next_producer_epoch", "i2"),
        ("timeout_ms", "i4"),
        ("transaction_version", "i2"),
        ("partitions", "i4"),  # number of the list of partitions in this chunk, NO_LIST for null
        ("last_update_ms", "i8"),
        ("start_ms", "i8"),
        ("time", "i8"),  # as ``StateRecord.time``
    ]
)
StateRowArray: TypeAlias = StructArray
# Fields of the message by column, with the value for versions that do not have the field.
FIELDS = {
    "status": ("transactionStatus", NONE),
    "producer_id": ("producerId", NONE),
    "producer_epoch": ("producerEpoch", NONE),
    "previous_producer_id": ("previousProducerId", NONE),
    "next_producer_id": ("nextProducerId", NONE),
    "next_producer_epoch": ("nextProducerEpoch", NONE),
    "timeout_ms": ("transactionTimeoutMs", NONE),
    "transaction_version": ("clientTransactionVersion", 0),
    "last_update_ms": ("transactionLastUpdateTimestampMs", NONE),
    "start_ms": ("transactionStartTimestampMs", NONE),
}
# The row of a record without a value.
NO_VALUE = np.zeros(1, STATE_ROW)
for _name, (_, _default) in FIELDS.items():
    NO_VALUE[_name] = _default
NO_VALUE["version"], NO_VALUE["status"], NO_VALUE["id"], NO_VALUE["partitions"] = NO_VERSION, NO_STATUS, NO_ID, NO_LIST
ID_FIELD = "transactionalId"
LIST_FIELD = "transactionPartitions"
# A message of the list alone, which is followed by the tagged fields as in every message of a flexible version.
LIST_ALONE = replace(
    TRANSACTION_LOG_VALUE, fields=tuple(field for field in TRANSACTION_LOG_VALUE.fields if field.name == LIST_FIELD)
)
NO_TAGS = b"\x00"
COMPLETE = (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


class PartitionLists:
    """Numbers the lists of partitions of a chunk; the numbers of another chunk differ.

    Attributes:
        lists: lists by number; the first one is empty.
    """

    def __init__(self) -> None:
        self.lists: list[tuple[TopicPartition, ...]] = []
        self._numbers: dict[tuple[TopicPartition, ...], int] = {}
        self.number(())

    def number(self, partitions: tuple[TopicPartition, ...] | None) -> int:
        """Return the number of a list, NO_LIST for null."""
        if partitions is None:
            return NO_LIST
        number = self._numbers.setdefault(partitions, len(self.lists))
        if number == len(self.lists):
            self.lists.append(partitions)
        return number

    def at(self, number: int) -> tuple[TopicPartition, ...] | None:
        """Return a list by its number, None for NO_LIST."""
        return None if number == NO_LIST else self.lists[number]


@dataclass(frozen=True, slots=True)
class StateColumns:
    """The records of a chunk, in the order of the log.

    Attributes:
        rows: STATE_ROW records.
        names: transactional ids by number, in UTF-8.
        lists: lists of partitions.
        errors: why a broker cannot use a record, by its index.
    """

    rows: StateRowArray
    names: ByteSlices
    lists: PartitionLists
    errors: Mapping[int, str | None]

    def __len__(self) -> int:
        return len(self.rows)

    def name(self, index: int) -> str | None:
        """Return the transactional id of a record by its index, None if the key cannot be read."""
        names = self.encoded_names(np.array([index]))[1]
        return names[0] if names else None

    def encoded_names(self, indexes: IntArray | slice = slice(None)) -> tuple[IntArray, list[str]]:
        """Return the transactional ids of records dictionary-encoded; the code -1 is for a key that cannot be read."""
        numbers, codes = np.unique(self.rows["id"][indexes], return_inverse=True)
        missing = int(np.count_nonzero(numbers == NO_ID))  # the lowest number, if it is there
        return codes - missing, texts_of(self.names.take(numbers[missing:]))


class StateCache:
    """Numbers transactional ids in the order of their first records, and caches decoded lists of partitions."""

    def __init__(self) -> None:
        self._names = SliceNumbers()
        self._lists: dict[tuple[int, bytes], tuple[TopicPartition, ...] | None] = {}

    def __len__(self) -> int:
        return len(self._names)

    @property
    def names(self) -> ByteSlices:
        """The transactional ids by number, in UTF-8."""
        return self._names.slices

    def ids(self, keys: ByteSlices) -> IntArray:
        """Return the numbers of the transactional ids in keys, NO_ID for a null key and one that cannot be read."""
        codes, first = distinct_rows(keys)
        keys = keys.take(first)
        types, read = read_keys(TRANSACTION_STATE, STATE_TYPES, keys)
        irregular = np.flatnonzero(np.isin(types, STATE_TYPES) & ~read.fits).tolist()
        decoded = {row: name for row in irregular if (name := self._decoded(keys.get(row) or b"")) is not None}
        has_id = read.fits.copy()
        has_id[list(decoded)] = True
        others = [name.encode() for name in decoded.values()]
        numbers = np.full(len(keys) + 1, NO_ID)
        names = with_slices(read.slices(ID_FIELD), list(decoded), others).take(np.flatnonzero(has_id))
        numbers[np.flatnonzero(has_id)] = self._names.add(java_texts(names))
        # The code of a null key is -1, which indexes the NO_ID at the end.
        return numbers[codes]

    def _decoded(self, key: bytes) -> str | None:
        return state_record(RecordHeader(0, 0, 0, 0, 0), key, None).transactional_id

    def partitions(self, version: int, data: bytes) -> tuple[TopicPartition, ...] | None:
        """Return an encoded list of partitions in a message of a version."""
        encoded = (version, data)
        if encoded not in self._lists:
            if len(self._lists) >= MAX_CACHED_LISTS:
                self._lists.clear()
            topics = decode(LIST_ALONE, version, data + NO_TAGS).value[LIST_FIELD]
            self._lists[encoded] = listed_partitions(topics)
        return self._lists[encoded]


def state_columns(segment: int, records: RecordColumns, cache: StateCache) -> StateColumns:
    """Return the data records of a chunk.

    Args:
        segment: number of the segment.
        records: the chunk; control records are skipped.
        cache: numbers ids.
    """
    data = np.flatnonzero(~records.rows["is_control"])
    headers = take_rows(records.rows, data)
    rows = np.repeat(NO_VALUE, len(data))
    rows["id"], rows["segment"] = cache.ids(records.keys.take(data)), segment
    for name in ("position", "offset", "timestamp", "leader_epoch"):
        rows[name] = headers[name]
    decoding = _Decoding(records, data, rows, cache)
    decoding.run()
    rows["time"] = _times(rows)
    return StateColumns(rows, cache.names, decoding.lists, decoding.errors)


def _times(rows: StateRowArray) -> IntArray:
    """Return when records were written; rule: ``StateRecord.time``."""
    status, last_update = rows["status"], rows["last_update_ms"]
    unknown = (last_update < 0) | ~np.isin(status, tuple(State)) | np.isin(status, COMPLETE)
    return np.where(rows["timestamp"] >= 0, rows["timestamp"], np.where(unknown, NO_TIME, last_update))


class _Decoding:
    """Decodes the values of records into STATE_ROW records.

    Attributes:
        lists: lists of partitions.
        errors: by row.
    """

    def __init__(self, records: RecordColumns, data: IntArray, rows: StateRowArray, cache: StateCache) -> None:
        self._records, self._data, self._rows, self._cache = records, data, rows, cache
        self._values = records.values.take(data)
        self.lists = PartitionLists()
        self.errors: dict[int, str | None] = {}

    def run(self) -> None:
        """Decode all values."""
        rows, has_id = self._rows, self._rows["id"] != NO_ID
        rows["is_tombstone"] = has_id & (self._values.sizes < 0)
        irregular = ~rows["is_tombstone"]
        has_version = np.flatnonzero(has_id & (self._values.sizes >= VERSION_SIZE))
        versions = self._values.take(has_version).numbers(">i2")
        for version in np.unique(versions).tolist():
            if 0 <= version <= TRANSACTION_LOG_VALUE.highest_version:
                of_version = has_version[versions == version]
                irregular[of_version] = ~self._read(version, of_version)
        for row in np.flatnonzero(irregular).tolist():
            self._decode(row)

    def _read(self, version: int, of_version: IntArray) -> BoolArray:
        """Read values of one version in columns; return which of them could be read."""
        columns = read_columns(TRANSACTION_LOG_VALUE, version, self._values.take(of_version), VERSION_SIZE)
        rows, fitting = self._rows, of_version[columns.fits]
        rows["version"][fitting] = version
        for name, (field, default) in FIELDS.items():
            rows[name][fitting] = columns.numbers(field, default)[columns.fits]
        rows["partitions"][fitting] = self._list_numbers(version, columns.slices(LIST_FIELD).take(columns.fits))
        return columns.fits

    def _list_numbers(self, version: int, slices: ByteSlices) -> IntArray:
        """Return the numbers of encoded lists of partitions."""
        distinct = distinct_slices(slices)
        numbers = [self.lists.number(self._cache.partitions(version, data)) for data in distinct.values]
        return np.array([*numbers, NO_LIST])[distinct.codes]

    def _decode(self, row: int) -> None:
        """Decode a single record with the codec."""
        index, stored = int(self._data[row]), self._rows[row]
        header = RecordHeader(*(stored[name].item() for name in RecordHeader._fields))
        record = state_record(header, self._records.keys.get(index), self._records.values.get(index))
        if record.error is not None:
            self.errors[row] = record.error
        self._put(stored, record)

    def _put(self, stored: StateRowArray, record: StateRecord) -> None:
        stored["is_wrong"] = record.error is not None
        if record.status is not None:
            stored["version"] = record.version
            for name in FIELDS:
                stored[name] = getattr(record, name)
            stored["partitions"] = self.lists.number(record.partitions)
