"""The committed offsets in the records of ``__consumer_offsets`` as NumPy columns, decoded in bulk.

Keys and values are read in columns, type by type and version by version, each distinct key once per chunk. What does
not have the exact layout of its type or version is decoded on its own, by the codec. Groups, topics and keys are
numbered: their bytes are kept once, and no Python object is made of them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kforensics.forensics.coordinators.consumer_groups.commits import (
    GROUP_KEY,
    OFFSET_COMMITS,
    RECORD_POSITION,
    FirstRecords,
    GroupKeys,
)
from kforensics.forensics.coordinators.coordinator_records import NO_VERSION, NONE, VERSION_SIZE
from kforensics.forensics.core.record_arrays import concat_rows, take_rows
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS
from kforensics.parsers.columns.record_columns import RecordColumns, RecordRows
from kforensics.parsers.format.array_types import BoolArray, Column, IntArray, StructArray
from kforensics.parsers.format.byte_slices import (
    SLACK,
    ByteSlices,
    SliceNumbers,
    distinct_rows,
    distinct_slices,
    with_slices,
)
from kforensics.parsers.format.text_encoding import ZERO_UUID, java_utf8
from kforensics.parsers.messages.internal_records import decode_record
from kforensics.parsers.messages.message_columns import ReadColumns, java_texts, read_columns, read_keys
from kforensics.parsers.messages.registry import COORDINATOR_TYPES, record_type

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
        numbers: number of group, topic and partition.
        keys: group, topic and partition.
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
    numbers: IntArray
    keys: GroupKeys
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

    @property
    def times(self) -> IntArray:
        """When each record was written in ms, NO_TIME if unknown.

        The records of message format 0 have no timestamp, so the commit timestamp in the value is used.
        """
        times: IntArray = np.where(self.rows["timestamp"] < 0, self.commit_timestamp, self.rows["timestamp"])
        return np.where(times < 0, NO_TIME, times)


class KeyNumbers:
    """Numbers groups, topics and groups' partitions in the order of their first records."""

    def __init__(self) -> None:
        self._groups, self._topics, self._keys = SliceNumbers(), SliceNumbers(), SliceNumbers()
        self._first: list[StructArray] = []

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def keys(self) -> GroupKeys:
        """Group, topic and partition by number."""
        numbered = self._keys.slices
        rows = numbered.data[: len(numbered) * GROUP_KEY.itemsize].view(GROUP_KEY)
        return GroupKeys(self._groups.slices, self._topics.slices, rows)

    @property
    def first_records(self) -> FirstRecords:
        """The position of the first available record of each group."""
        self._first = [concat_rows([np.empty(0, RECORD_POSITION), *self._first])]
        return FirstRecords(self._groups.slices, self._first[0])

    def add(self, segment: int, rows: RecordRows, keys: ByteSlices) -> tuple[IntArray, IntArray]:
        """Return the record type of each record, and the number of its key; NONE without a committed offset.

        Args:
            segment: number of the segment.
            rows: the records.
            keys: their keys.
        """
        codes, first = distinct_rows(keys)
        keys = keys.take(first)
        types, read = read_keys(CONSUMER_OFFSETS, GROUP_TYPES, keys)
        irregular = np.flatnonzero(np.isin(types, tuple(GROUP_TYPES)) & ~read.fits)
        decoded = {row: fields for row in irregular.tolist() if (fields := _decoded(keys.get(row))) is not None}
        has_group = read.fits.copy()
        has_group[list(decoded)] = True
        groups = np.full(len(keys), NONE, "i4")
        names = _texts(read, "group", decoded, np.flatnonzero(has_group))
        groups[has_group] = self._add_groups(segment, take_rows(rows, first[has_group]), names)
        commits = np.flatnonzero(has_group & np.isin(types, OFFSET_COMMITS))
        named = np.zeros(len(commits), GROUP_KEY)
        partitions = read.numbers("partition", NONE).copy()
        partitions[list(decoded)] = [fields.get("partition", NONE) for fields in decoded.values()]
        named["group"], named["partition"] = groups[commits], partitions[commits]
        named["topic"] = self._topics.add(_texts(read, "topic", decoded, commits))
        numbers = np.full(len(keys) + 1, NONE, "i8")
        numbers[commits] = self._keys.add(_fixed_slices(named))
        # The code of a null key is -1, which indexes the NONE at the end.
        return np.append(types, NONE)[codes], numbers[codes]

    def _add_groups(self, segment: int, rows: RecordRows, names: ByteSlices) -> IntArray:
        """Number the groups of some records, and keep the positions of the first records of new ones."""
        before = len(self._groups)
        numbers = self._groups.add(names)
        # Numbers rise by one with each new group.
        highest = np.maximum.accumulate(np.append(before - 1, numbers))
        new = take_rows(rows, numbers > highest[:-1])
        positions = np.zeros(len(new), RECORD_POSITION)
        positions["segment"], positions["position"], positions["offset"] = segment, new["position"], new["offset"]
        self._first.append(positions)
        return numbers


def _decoded(key: bytes | None) -> dict[str, Any] | None:
    """Return the fields of a key, read by the codec; None if it cannot be read."""
    return decode_record(CONSUMER_OFFSETS, key, None).key


def _texts(read: ReadColumns, name: str, decoded: Mapping[int, dict[str, Any]], indexes: IntArray) -> ByteSlices:
    """Return a field of some keys as Java decodes it.

    Args:
        read: the keys that were read in columns.
        name: the field.
        decoded: the fields of other keys by index.
        indexes: which keys.
    """
    others = [fields.get(name, "").encode() for fields in decoded.values()]
    return java_texts(with_slices(read.slices(name), list(decoded), others).take(indexes))


def _fixed_slices(rows: StructArray) -> ByteSlices:
    """Return rows as their bytes."""
    size = rows.dtype.itemsize
    data = np.concatenate([rows.view(f"V{size}").view("u1"), np.zeros(SLACK, "u1")])
    return ByteSlices(data, size * np.arange(len(rows)), np.full(len(rows), size))


def commit_columns(segment: int, records: RecordColumns, known: KeyNumbers) -> CommitColumns:
    """Return the committed offsets among the data records of a chunk.

    Args:
        segment: number of the segment.
        records: the chunk; control records are skipped.
        known: numbers keys and collects groups.
    """
    data = np.flatnonzero(~records.rows["is_control"])
    types, numbers = known.add(segment, take_rows(records.rows, data), records.keys.take(data))
    commits = np.flatnonzero(numbers != NONE)
    indexes, numbers = data[commits], numbers[commits]
    decoding = _Decoding(records, indexes, types[commits])
    decoding.run()
    rows = take_rows(records.rows, indexes)
    return CommitColumns(segment, rows, indexes, numbers, known.keys.take(numbers), *decoding.columns())


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
