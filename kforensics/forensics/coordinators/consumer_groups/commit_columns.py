"""Records of ``__consumer_offsets`` as numpy columns: the committed offsets among them, decoded by the thousand.

A key comes again and again, and is decoded once in a chunk at most. Values are read in columns by version; the codec
reads, one by one, those that are not plainly a value of their version.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from kforensics.forensics.coordinators.consumer_groups.commit_types import OFFSET_COMMITS, GroupPartition, Seat
from kforensics.forensics.coordinators.coordinator_records import NONE
from kforensics.forensics.core.record_arrays import picked
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS
from kforensics.parsers.columns.record_columns import RecordColumns
from kforensics.parsers.format.byte_slices import Pieces, distinct
from kforensics.parsers.format.java_utf8 import java_utf8
from kforensics.parsers.format.uuid_text import ZERO
from kforensics.parsers.messages.internal_records import decode_record
from kforensics.parsers.messages.message_columns import ReadColumns, read_columns
from kforensics.parsers.messages.registry import COORDINATOR_TYPES, record_type

__all__ = ["NO_VERSION", "CommitColumns", "KeyBook", "Texts", "commit_columns"]

# Bytes of the version in front of a value, or of the type in front of a key, and what stands for types of records
# without a committed offset.
VERSION_SIZE, OTHER = 2, -1
# In place of a version where not even that can be read; versions are of 16 bits.
NO_VERSION = 1 << 16
# Types of records whose keys name a group.
OF_GROUPS: Final = {
    number
    for number, kind in COORDINATOR_TYPES[CONSUMER_OFFSETS].items()
    if any(field.name == "group" for field in kind.key.fields)
}


@dataclass(frozen=True, slots=True)
class Texts:
    """Text of which rows have some.

    Attributes:
        codes: number of each row's, -1 for none.
        words: the text; the same may come twice.
    """

    codes: Records
    words: Sequence[str | None]


@dataclass(frozen=True, slots=True)
class CommitColumns:
    """Records that hold a committed offset, or remove one, in the order of the log.

    What is not written is -1, and what cannot be read too.

    Attributes:
        segment: number of their segment.
        rows: RECORD records.
        at: which records of the chunk they are.
        keys: number of group, topic and partition.
        codes: number of the same among ``words``.
        words: groups, topics and partitions.
        is_tombstone: whether the offset was removed.
        is_read: whether a value was there and could be read.
        version: of the value, NO_VERSION where there is none.
        committed: the offset.
        leader_epoch: that was committed.
        metadata: what the client wrote beside it.
        topic_id: of the topic; None is that of no topic.
        commit_timestamp: in ms.
        expire_timestamp: in ms.
        errors: why a record cannot be read, by its index here.
    """

    segment: int
    rows: Records
    at: Records
    keys: Records
    codes: Records
    words: Sequence[GroupPartition]
    is_tombstone: Records
    is_read: Records
    version: Records
    committed: Records
    leader_epoch: Records
    metadata: Texts
    topic_id: Texts
    commit_timestamp: Records
    expire_timestamp: Records
    errors: Mapping[int, str | None]

    def __len__(self) -> int:
        return len(self.rows)


class Known(NamedTuple):
    """What the bytes of a key say.

    Attributes:
        kind: record type, OTHER if it is none with a committed offset.
        number: of group, topic and partition; -1 where the type is another one.
        key: group, topic and partition.
        group: the group, None if there is none.
    """

    kind: int
    number: int
    key: GroupPartition
    group: str | None


NOTHING: Final = Known(OTHER, NONE, ("", "", NONE), None)


class KeyBook:
    """Numbers groups, topics and partitions as they come.

    Attributes:
        keys: groups, topics and partitions, with their numbers.
        groups: where each group has its first record on hand.
    """

    def __init__(self) -> None:
        self.keys: dict[GroupPartition, int] = {}
        self.groups: dict[str, Seat] = {}
        self._known: dict[bytes, Known] = {}

    def known(self, words: Iterable[bytes]) -> list[Known]:
        """Return what keys say."""
        return [self._known.get(word) or self._decoded(word) for word in words]

    def _decoded(self, word: bytes) -> Known:
        if len(word) < VERSION_SIZE or int.from_bytes(word[:VERSION_SIZE]) not in OF_GROUPS:
            return NOTHING
        found = decode_record(CONSUMER_OFFSETS, word, None)
        told = NOTHING
        if found.key is not None:
            told = NOTHING._replace(group=found.key["group"])
            if found.type_id in OFFSET_COMMITS:
                key = (found.key["group"], found.key["topic"], found.key["partition"])
                told = Known(found.type_id or 0, self.keys.setdefault(key, len(self.keys)), key, key[0])
        self._known[word] = told
        return told


def commit_columns(segment: int, records: RecordColumns, book: KeyBook) -> CommitColumns:
    """Return the committed offsets among the data records of a chunk.

    Args:
        segment: number of the segment.
        records: the chunk, of which control records are passed over.
        book: numbers keys, and is told of groups.
    """
    data = np.flatnonzero(~records.rows["is_control"])
    keys = distinct(records.keys.taken(data))
    found = book.known(keys.words)
    _seat(segment, records.rows, data[_firsts(keys.codes, len(found))], found, book)
    # Behind the last word, where -1 finds it, is the null key.
    kinds, numbers, words, _ = zip(*found, NOTHING, strict=True)
    types = np.array(kinds)[keys.codes]
    which = np.flatnonzero(types != OTHER)
    at, codes = data[which], keys.codes[which]
    decoding = _Decoding(records, at, types[which])
    decoding.run()
    return CommitColumns(
        segment, picked(records.rows, at), at, np.array(numbers)[codes], codes, words, *decoding.columns()
    )


def _firsts(codes: Records, count: int) -> Records:
    """Return for each code the first row that has it."""
    found = np.zeros(count, "i8")
    found[codes[::-1]] = np.arange(len(codes))[::-1]
    return found


def _seat(segment: int, rows: Records, firsts: Records, found: Sequence[Known], book: KeyBook) -> None:
    """Tell where groups that are new have their first record."""
    for known, first in zip(found, firsts.tolist(), strict=True):
        if known.group is not None and known.group not in book.groups:
            book.groups[known.group] = Seat(segment, int(rows["position"][first]), int(rows["offset"][first]))


class _Decoding:
    """Decodes the values of some records."""

    def __init__(self, records: RecordColumns, at: Records, types: Records) -> None:
        self._records, self._at, self._types = records, at, types
        self._values = records.values.taken(at)
        count = len(at)
        self._is_tombstone, self._is_read = self._values.sizes < 0, np.zeros(count, "?")
        self._version = np.full(count, NO_VERSION, "i4")
        names = ("offset", "leaderEpoch", "commitTimestamp", "expireTimestamp")
        self._numbers = {name: np.full(count, NONE, "i8") for name in names}
        self._metadata, self._topic_id = _Spans(count), _Spans(count)
        self._errors: dict[int, str | None] = {}

    def run(self) -> None:
        """Decode them all."""
        odd = ~self._is_tombstone
        which = np.flatnonzero(self._values.sizes >= VERSION_SIZE)
        versions = self._values.taken(which).numbers(">i2")
        self._version[which] = versions
        groups = self._types[which] << 16 | versions.astype("i8") & 0xFFFF
        for group in np.unique(groups).tolist():
            rows = which[groups == group]
            odd[rows] = ~self._read(group >> 16, int(self._version[rows[0]]), rows)
        for row in np.flatnonzero(odd).tolist():
            self._decode(row)

    def _read(self, number: int, version: int, rows: Records) -> Records:
        """Read values of one version in columns; return which of them were."""
        kind = record_type(CONSUMER_OFFSETS, number)
        if kind is None or not 0 <= version <= kind.value.highest_version:
            return np.zeros(len(rows), "?")
        read = read_columns(kind.value, version, self._values.taken(rows), VERSION_SIZE)
        self._put(rows, read)
        return read.fits

    def _put(self, rows: Records, read: ReadColumns) -> None:
        fits, rows = read.fits, rows[read.fits]
        self._is_read[rows] = True
        for name, column in self._numbers.items():
            column[rows] = read.numbers(name, NONE)[fits]
        self._metadata.put(rows, read.pieces("metadata").taken(fits))
        self._topic_id.put(rows, read.pieces("topicId").taken(fits))

    def _decode(self, row: int) -> None:
        """Have the codec read a value."""
        at = int(self._at[row])
        found = decode_record(CONSUMER_OFFSETS, self._records.keys.at(at), self._records.values.at(at))
        self._errors[row] = found.error
        self._version[row] = NO_VERSION if found.version is None else found.version
        value = found.value
        if value is None:
            return
        self._is_read[row] = True
        for name, column in self._numbers.items():
            column[row] = value.get(name, NONE)
        self._metadata.more[row] = value["metadata"].encode()
        self._topic_id.more[row] = base64.urlsafe_b64decode(value.get("topicId", ZERO) + "==")

    def columns(self) -> tuple[Any, ...]:
        """Return the columns from ``is_tombstone`` on."""
        offset, leader_epoch, commit_timestamp, expire_timestamp = self._numbers.values()
        data = self._values.data
        return (
            *(self._is_tombstone, self._is_read, self._version, offset, leader_epoch),
            *(self._metadata.texts(data, java_utf8), self._topic_id.texts(data, _topic_id_text)),
            *(commit_timestamp, expire_timestamp),
            self._errors,
        )


class _Spans:
    """Where rows have a text: in the bytes of the chunk, or, of few, as bytes of their own.

    Attributes:
        more: bytes by row.
    """

    def __init__(self, count: int) -> None:
        self._starts, self._sizes = np.zeros(count, "i8"), np.full(count, NONE, "i8")
        self.more: dict[int, bytes] = {}

    def put(self, rows: Records, pieces: Pieces) -> None:
        """Take the texts of some rows."""
        self._starts[rows], self._sizes[rows] = pieces.starts, pieces.sizes

    def texts(self, data: Records, text: Callable[[bytes], str | None]) -> Texts:
        """Return all of them, as text."""
        found = distinct(Pieces(data, self._starts, self._sizes))
        codes = found.codes.astype("i8")
        for row, word in self.more.items():
            codes[row] = len(found.words)
            found.words.append(word)
        return Texts(codes, list(map(text, found.words)))


def _topic_id_text(word: bytes) -> str | None:
    text = base64.urlsafe_b64encode(word).decode("ascii")[: len(ZERO)]
    return None if text == ZERO else text
