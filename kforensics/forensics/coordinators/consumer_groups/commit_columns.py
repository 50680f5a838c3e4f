"""The committed offsets in the records of ``__consumer_offsets`` as NumPy columns, decoded in bulk.

Keys repeat often: each distinct one is decoded at most once per chunk. Values are read in columns, version by version;
a value that does not have the exact layout of its version is decoded on its own, by the codec.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from kforensics.forensics.coordinators.consumer_groups.commits import OFFSET_COMMITS, GroupPartition
from kforensics.forensics.coordinators.coordinator_records import NO_VERSION, NONE, VERSION_SIZE, RecordPosition
from kforensics.forensics.core.record_arrays import take_rows
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS
from kforensics.parsers.columns.record_columns import RecordColumns, RecordRows
from kforensics.parsers.format.array_types import BoolArray, Column, IntArray
from kforensics.parsers.format.byte_slices import ByteSlices, distinct_slices
from kforensics.parsers.format.text_encoding import ZERO_UUID, java_utf8
from kforensics.parsers.messages.internal_records import decode_record
from kforensics.parsers.messages.message_columns import ReadColumns, read_columns, read_keys
from kforensics.parsers.messages.registry import COORDINATOR_TYPES, record_type

# The type of all records without a committed offset.
OTHER_TYPE = -1
# Decoded keys that are cached. To decode a key again in columns takes a microsecond, to keep it 250 bytes.
MOST_CACHED = 1 << 17
# The types of the records whose keys name a group.
GROUP_TYPES: Final = {
    number
    for number, kind in COORDINATOR_TYPES[CONSUMER_OFFSETS].items()
    if any(field.name == "group" for field in kind.key.fields)
}


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A dictionary-encoded column of text.

    Attributes:
        codes: index of each row's text in ``values``, -1 for null.
        values: the texts, which may repeat.
    """

    codes: IntArray
    values: Sequence[str | None]


@dataclass(frozen=True, slots=True)
class CommitColumns:
    """The records that contain a committed offset, or remove one, in the order of the log.

    A number is -1 if it was not written or cannot be read.

    Attributes:
        segment: number of their segment.
        rows: RECORD_ROW records.
        indexes: their indexes in the chunk.
        keys: number of group, topic and partition.
        codes: index of group, topic and partition in ``keys_by_code``.
        keys_by_code: groups, topics and partitions.
        is_tombstone: whether the record removes the offset.
        is_read: whether there is a value that can be read.
        version: version of the value, NO_VERSION if there is none.
        committed: the committed offset.
        leader_epoch: the committed leader epoch.
        metadata: the client's metadata.
        topic_id: topic id, null if there is none.
        commit_timestamp: commit timestamp in ms.
        expire_timestamp: expire timestamp in ms.
        errors: why a record cannot be read, by its index here.
    """

    segment: int
    rows: RecordRows
    indexes: IntArray
    keys: IntArray
    codes: IntArray
    keys_by_code: Sequence[GroupPartition]
    is_tombstone: BoolArray
    is_read: BoolArray
    version: IntArray
    committed: IntArray
    leader_epoch: IntArray
    metadata: TextColumn
    topic_id: TextColumn
    commit_timestamp: IntArray
    expire_timestamp: IntArray
    errors: Mapping[int, str | None]

    def __len__(self) -> int:
        return len(self.rows)


class DecodedKey(NamedTuple):
    """A decoded key.

    Attributes:
        kind: record type, OTHER_TYPE if the record has no committed offset.
        number: number of group, topic and partition; -1 for another type.
        key: group, topic and partition.
        group: the group, None if there is none.
    """

    kind: int
    number: int
    key: GroupPartition
    group: str | None


OTHER_KEY: Final = DecodedKey(OTHER_TYPE, NONE, ("", "", NONE), None)


class KeyCache:
    """Numbers groups' partitions in the order of their first records, and caches decoded keys.

    Attributes:
        keys: numbers of group, topic and partition.
        groups: position of the first available record of each group.
    """

    def __init__(self) -> None:
        self.keys: dict[GroupPartition, int] = {}
        self.groups: dict[str, RecordPosition] = {}
        self._decoded_keys: dict[bytes, DecodedKey] = {}

    def decoded(self, keys: Sequence[bytes]) -> list[DecodedKey]:
        """Return some distinct keys, decoded; committed offsets in columns, the others one by one."""
        if len(self._decoded_keys) > MOST_CACHED:
            self._decoded_keys.clear()
        new = [key for key in keys if key not in self._decoded_keys]
        commits: dict[bytes, GroupPartition] = read_keys(CONSUMER_OFFSETS, OFFSET_COMMITS, new)
        for key in new:
            if (fields := commits.get(key)) is None:
                self._decode(key)
            else:
                self._decoded_keys[key] = self._commit(int.from_bytes(key[:VERSION_SIZE]), fields)
        return [self._decoded_keys.get(key, OTHER_KEY) for key in keys]

    def _commit(self, kind: int, key: GroupPartition) -> DecodedKey:
        return DecodedKey(kind, self.keys.setdefault(key, len(self.keys)), key, key[0])

    def _decode(self, data: bytes) -> None:
        """Decode a single key with the codec; keys of other records are not kept."""
        if len(data) < VERSION_SIZE or int.from_bytes(data[:VERSION_SIZE]) not in GROUP_TYPES:
            return
        message = decode_record(CONSUMER_OFFSETS, data, None)
        decoded = OTHER_KEY
        if message.key is not None:
            decoded = OTHER_KEY._replace(group=message.key["group"])
            if message.type_id in OFFSET_COMMITS:
                key = (message.key["group"], message.key["topic"], message.key["partition"])
                decoded = self._commit(message.type_id or 0, key)
        self._decoded_keys[data] = decoded


def commit_columns(segment: int, records: RecordColumns, cache: KeyCache) -> CommitColumns:
    """Return the committed offsets among the data records of a chunk.

    Args:
        segment: number of the segment.
        records: the chunk; control records are skipped.
        cache: numbers keys and collects groups.
    """
    data = np.flatnonzero(~records.rows["is_control"])
    keys = distinct_slices(records.keys.take(data))
    decoded = cache.decoded(keys.values)
    _add_groups(segment, records.rows, data[_first_rows(keys.codes, len(decoded))], decoded, cache)
    # The code of a null key is -1, which indexes the OTHER_KEY at the end.
    kinds, numbers, keys_by_code, _ = zip(*decoded, OTHER_KEY, strict=True)
    types = np.array(kinds)[keys.codes]
    commits = np.flatnonzero(types != OTHER_TYPE)
    indexes, codes = data[commits], keys.codes[commits]
    decoding = _Decoding(records, indexes, types[commits])
    decoding.run()
    rows = take_rows(records.rows, indexes)
    return CommitColumns(segment, rows, indexes, np.array(numbers)[codes], codes, keys_by_code, *decoding.columns())


def _first_rows(codes: IntArray, count: int) -> IntArray:
    """Return the first row with each code."""
    first = np.zeros(count, "i8")
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return first


def _add_groups(
    segment: int, rows: RecordRows, first: IntArray, decoded: Sequence[DecodedKey], cache: KeyCache
) -> None:
    """Add the positions of the first records of new groups."""
    for key, row in zip(decoded, first.tolist(), strict=True):
        if key.group is not None and key.group not in cache.groups:
            position = RecordPosition(segment, int(rows["position"][row]), int(rows["offset"][row]))
            cache.groups[key.group] = position


class _Decoding:
    """Decodes the values of some records."""

    def __init__(self, records: RecordColumns, indexes: IntArray, types: IntArray) -> None:
        self._records, self._indexes, self._types = records, indexes, types
        self._values = records.values.take(indexes)
        count = len(indexes)
        self._is_tombstone, self._is_read = self._values.sizes < 0, np.zeros(count, "?")
        self._version = np.full(count, NO_VERSION, "i4")
        names = ("offset", "leaderEpoch", "commitTimestamp", "expireTimestamp")
        self._numbers = {name: np.full(count, NONE, "i8") for name in names}
        self._metadata, self._topic_id = _TextSlices(count), _TextSlices(count)
        self._errors: dict[int, str | None] = {}

    def run(self) -> None:
        """Decode all values."""
        irregular = ~self._is_tombstone
        has_version = np.flatnonzero(self._values.sizes >= VERSION_SIZE)
        versions = self._values.take(has_version).numbers(">i2")
        self._version[has_version] = versions
        layouts = self._types[has_version] << 16 | versions.astype("i8") & 0xFFFF
        for layout in np.unique(layouts).tolist():
            rows = has_version[layouts == layout]
            irregular[rows] = ~self._read(layout >> 16, int(self._version[rows[0]]), rows)
        for row in np.flatnonzero(irregular).tolist():
            self._decode(row)

    def _read(self, type_id: int, version: int, rows: IntArray) -> BoolArray:
        """Read values of one type and version in columns; return which of them could be read."""
        kind = record_type(CONSUMER_OFFSETS, type_id)
        if kind is None or not 0 <= version <= kind.value.highest_version:
            return np.zeros(len(rows), "?")
        columns = read_columns(kind.value, version, self._values.take(rows), VERSION_SIZE)
        self._put(rows[columns.fits], columns)
        return columns.fits

    def _put(self, rows: IntArray, columns: ReadColumns) -> None:
        self._is_read[rows] = True
        for name, column in self._numbers.items():
            column[rows] = columns.numbers(name, NONE)[columns.fits]
        self._metadata.put(rows, columns.slices("metadata").take(columns.fits))
        self._topic_id.put(rows, columns.slices("topicId").take(columns.fits))

    def _decode(self, row: int) -> None:
        """Decode a single value with the codec."""
        index = int(self._indexes[row])
        message = decode_record(CONSUMER_OFFSETS, self._records.keys.get(index), self._records.values.get(index))
        self._errors[row] = message.error
        self._version[row] = NO_VERSION if message.version is None else message.version
        value = message.value
        if value is None:
            return
        self._is_read[row] = True
        for name, column in self._numbers.items():
            column[row] = value.get(name, NONE)
        self._metadata.single[row] = value["metadata"].encode()
        self._topic_id.single[row] = base64.urlsafe_b64decode(value.get("topicId", ZERO_UUID) + "==")

    def columns(self) -> tuple[Any, ...]:
        """Return the columns of CommitColumns from ``is_tombstone`` on."""
        offset, leader_epoch, commit_timestamp, expire_timestamp = self._numbers.values()
        data = self._values.data
        return (
            *(self._is_tombstone, self._is_read, self._version, offset, leader_epoch),
            *(self._metadata.texts(data, java_utf8), self._topic_id.texts(data, _topic_id_text)),
            *(commit_timestamp, expire_timestamp),
            self._errors,
        )


class _TextSlices:
    """The encoded texts of rows: slices of the bytes of the chunk, or, for a few rows, bytes of their own.

    Attributes:
        single: bytes of their own, by row.
    """

    def __init__(self, count: int) -> None:
        self._starts, self._sizes = np.zeros(count, "i8"), np.full(count, NONE, "i8")
        self.single: dict[int, bytes] = {}

    def put(self, rows: IntArray, slices: ByteSlices) -> None:
        """Set the texts of some rows."""
        self._starts[rows], self._sizes[rows] = slices.starts, slices.sizes

    def texts(self, data: Column, decode: Callable[[bytes], str | None]) -> TextColumn:
        """Return the texts of all rows, decoded."""
        distinct = distinct_slices(ByteSlices(data, self._starts, self._sizes))
        codes = distinct.codes.astype("i8")
        for row, encoded in self.single.items():
            codes[row] = len(distinct.values)
            distinct.values.append(encoded)
        return TextColumn(codes, list(map(decode, distinct.values)))


def _topic_id_text(data: bytes) -> str | None:
    text = base64.urlsafe_b64encode(data).decode("ascii")[: len(ZERO_UUID)]
    return None if text == ZERO_UUID else text
