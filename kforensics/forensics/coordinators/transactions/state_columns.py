"""Records of ``__transaction_state`` as numpy columns, decoded by the thousand.

Keys and lists of partitions come again and again: each is decoded once in a chunk at most. Values are read in columns
by version; those that are not plainly a value of their version become a ``StateRecord`` first, one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import (
    NONE,
    State,
    StateRecord,
    TopicPartition,
    listed_partitions,
    state_record,
)
from kforensics.forensics.core.record_arrays import picked
from kforensics.forensics.core.record_types import NO_TIME, Records
from kforensics.parsers.columns.record_columns import RecordColumns
from kforensics.parsers.format.byte_slices import Pieces, distinct
from kforensics.parsers.messages.codec import decode
from kforensics.parsers.messages.message_columns import read_columns
from kforensics.parsers.messages.transaction import TRANSACTION_LOG_VALUE

__all__ = [
    "NO_ID",
    "NO_LIST",
    "NO_STATUS",
    "NO_VERSION",
    "STATE",
    "PartitionLists",
    "StateBook",
    "StateColumns",
    "state_columns",
]

VERSION_SIZE = 2
# In place of what is not there; versions and states have fewer bits. No id and no list are -1.
NO_VERSION, NO_STATUS = 1 << 16, -(1 << 8)
NO_ID = NO_LIST = NONE
# Lists of partitions of which it is remembered what their bytes say.
MOST_LISTS = 1 << 16

STATE = np.dtype(
    [
        ("id", "i4"),  # number of the transactional id, NO_ID where the key cannot be read
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
        ("time", "i8"),  # as ``StateRecord.time`` has it
    ]
)
# Fields of the message by columns, with what stands for a field that the version does not have.
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
# What a record without a value has in its place.
NO_VALUE = np.zeros(1, STATE)
for _name, (_, _absent) in FIELDS.items():
    NO_VALUE[_name] = _absent
NO_VALUE["version"], NO_VALUE["status"], NO_VALUE["id"], NO_VALUE["partitions"] = NO_VERSION, NO_STATUS, NO_ID, NO_LIST
LIST_FIELD = "transactionPartitions"
# The list alone, with what a message of its version has behind it.
LIST_ALONE = replace(
    TRANSACTION_LOG_VALUE, fields=tuple(field for field in TRANSACTION_LOG_VALUE.fields if field.name == LIST_FIELD)
)
NO_TAGS = b"\x00"
COMPLETE = (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


class PartitionLists:
    """Lists of partitions with their numbers; the number of a list says nothing in another chunk.

    Attributes:
        lists: by their numbers; the first one is empty.
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
        """Return a list by its number."""
        return None if number == NO_LIST else self.lists[number]


@dataclass(frozen=True, slots=True)
class StateColumns:
    """Records in the order of the log.

    Attributes:
        rows: STATE records.
        codes: number of each record's id among ``names``, -1 where the key cannot be read.
        names: transactional ids.
        lists: lists of partitions.
        errors: why a record says nothing to a broker, by its index.
    """

    rows: Records
    codes: Records
    names: Sequence[str | None]
    lists: PartitionLists
    errors: Mapping[int, str | None]

    def __len__(self) -> int:
        return len(self.rows)


class StateBook:
    """Numbers transactional ids as they come, and remembers what bytes say.

    Attributes:
        names: transactional ids, with their numbers.
    """

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self._known: dict[bytes, str | None] = {}
        self._lists: dict[tuple[int, bytes], tuple[TopicPartition, ...] | None] = {}

    def known(self, words: Iterable[bytes]) -> list[str | None]:
        """Return the ids of keys, None for a key that cannot be read."""
        return [self._known[word] if word in self._known else self._decoded(word) for word in words]

    def _decoded(self, word: bytes) -> str | None:
        name = self._known[word] = state_record((0, 0, 0, 0, 0), word, None).transactional_id
        if name is not None:
            self.names.setdefault(name, len(self.names))
        return name

    def partitions(self, version: int, data: bytes) -> tuple[TopicPartition, ...] | None:
        """Return what the bytes of a list of partitions say in a message of a version."""
        known = (version, data)
        if known not in self._lists:
            if len(self._lists) >= MOST_LISTS:
                self._lists.clear()
            topics = decode(LIST_ALONE, version, data + NO_TAGS).value[LIST_FIELD]
            self._lists[known] = listed_partitions(topics)
        return self._lists[known]


def state_columns(segment: int, records: RecordColumns, book: StateBook) -> StateColumns:
    """Return the data records of a chunk.

    Args:
        segment: number of the segment.
        records: the chunk, of which control records are passed over.
        book: numbers ids.
    """
    at = np.flatnonzero(~records.rows["is_control"])
    keys, stored = distinct(records.keys.taken(at)), picked(records.rows, at)
    # Behind the last name, where -1 finds it, there is none.
    names = [*book.known(keys.words), None]
    numbers = np.array([NO_ID if name is None else book.names[name] for name in names])
    codes = np.where(numbers[keys.codes] == NO_ID, NONE, keys.codes)
    rows = np.repeat(NO_VALUE, len(at))
    rows["id"], rows["segment"] = numbers[codes], segment
    for name in ("position", "offset", "timestamp", "leader_epoch"):
        rows[name] = stored[name]
    decoding = _Decoding(records, at, rows, book)
    decoding.run()
    rows["time"] = _times(rows)
    return StateColumns(rows, codes, names, decoding.lists, decoding.errors)


def _times(rows: Records) -> Records:
    """Return when records were written; rule: ``StateRecord.time``."""
    status, last_update = rows["status"], rows["last_update_ms"]
    silent = (last_update < 0) | ~np.isin(status, tuple(State)) | np.isin(status, COMPLETE)
    return np.where(rows["timestamp"] >= 0, rows["timestamp"], np.where(silent, NO_TIME, last_update))


class _Decoding:
    """Decodes the values of records into rows of STATE.

    Attributes:
        lists: lists of partitions.
        errors: by row.
    """

    def __init__(self, records: RecordColumns, at: Records, rows: Records, book: StateBook) -> None:
        self._records, self._at, self._rows, self._book = records, at, rows, book
        self._values = records.values.taken(at)
        self.lists = PartitionLists()
        self.errors: dict[int, str | None] = {}

    def run(self) -> None:
        """Decode them all."""
        rows, has_id = self._rows, self._rows["id"] != NO_ID
        rows["is_tombstone"] = has_id & (self._values.sizes < 0)
        odd = ~rows["is_tombstone"]
        which = np.flatnonzero(has_id & (self._values.sizes >= VERSION_SIZE))
        versions = self._values.taken(which).numbers(">i2")
        for version in np.unique(versions).tolist():
            if 0 <= version <= TRANSACTION_LOG_VALUE.highest_version:
                some = which[versions == version]
                odd[some] = ~self._read(version, some)
        for row in np.flatnonzero(odd).tolist():
            self._decode(row)

    def _read(self, version: int, which: Records) -> Records:
        """Read values of one version in columns; return which of them were."""
        read = read_columns(TRANSACTION_LOG_VALUE, version, self._values.taken(which), VERSION_SIZE)
        rows, some = self._rows, which[read.fits]
        rows["version"][some] = version
        for name, (field, absent) in FIELDS.items():
            rows[name][some] = read.numbers(field, absent)[read.fits]
        rows["partitions"][some] = self._listed(version, read.pieces(LIST_FIELD).taken(read.fits))
        return read.fits

    def _listed(self, version: int, pieces: Pieces) -> Records:
        """Return the numbers of lists of partitions."""
        found = distinct(pieces)
        numbers = [self.lists.number(self._book.partitions(version, word)) for word in found.words]
        return np.array([*numbers, NO_LIST])[found.codes]

    def _decode(self, row: int) -> None:
        """Have the codec read a record."""
        at, stored = int(self._at[row]), self._rows[row]
        place = tuple(stored[name].item() for name in ("segment", "position", "offset", "timestamp", "leader_epoch"))
        found = state_record(place, self._records.keys.at(at), self._records.values.at(at))
        if found.error is not None:
            self.errors[row] = found.error
        self._put(stored, found)

    def _put(self, stored: Records, found: StateRecord) -> None:
        stored["is_wrong"] = found.error is not None
        if found.status is not None:
            stored["version"] = found.version
            for name in FIELDS:
                stored[name] = getattr(found, name)
            stored["partitions"] = self.lists.number(found.partitions)
