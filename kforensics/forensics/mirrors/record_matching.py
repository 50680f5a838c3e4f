"""Matches the records of a partition with those of its mirror, in bounded memory.

Each log is read for its transactions, and again for its records. Records of equal key, value, headers and timestamp are
in the same bucket, where they are paired: the first with the first, the second with the second. Records that the mirror
has more often than the source are copies again. Temporary files hold what does not fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kforensics.forensics.core.external_sort import ExternalSort, SortedRows
from kforensics.forensics.core.record_arrays import concat_rows, take_rows
from kforensics.forensics.core.record_types import TransactionOutcome
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.duplicates.content_duplicates import DEFAULT_MEMORY, MEMORY_SHARES, buckets_by_hash
from kforensics.forensics.duplicates.record_reader import RecordReader, hidden_transactions
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.columns.hash_columns import HashColumns
from kforensics.parsers.format.array_types import BoolArray, IntArray
from kforensics.parsers.format.rows import LOG_APPEND_TIME_BIT, TRANSACTIONAL_BIT, Damage

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["NO_OFFSET", "MatchedLogs", "MirrorRowArray", "SourceRowArray", "match_logs"]

NO_OFFSET = -1
ENTRY = np.dtype(
    [
        ("low", "u8"),  # hash of key, value and headers
        ("high", "u8"),
        ("timestamp", "i8"),
        ("offset", "i8"),
        ("producer_id", "i8"),  # -1 unless the record is transactional
        ("in_mirror", "?"),
    ]
)
EntryArray: TypeAlias = "npt.NDArray[np.void]"
# A record of the source.
SOURCE_ROW = np.dtype(
    [
        ("offset", "i8"),
        ("producer_id", "i8"),  # -1 unless the record is transactional
        ("copies", "i8"),  # records of the mirror that are copies of it
        ("copy", "i8"),  # offset of the first one in the mirror, NO_OFFSET for none
    ]
)
SourceRowArray: TypeAlias = "npt.NDArray[np.void]"
# A record of the mirror.
MIRROR_ROW = np.dtype(
    [
        ("offset", "i8"),
        ("original", "i8"),  # offset in the source, NO_OFFSET for none
        ("is_again", "?"),  # whether an earlier record of the mirror is a copy of the same record
        ("is_certain", "?"),  # whether no other record of the source has the same content
    ]
)
MirrorRowArray: TypeAlias = "npt.NDArray[np.void]"


@dataclass(frozen=True, slots=True)
class MatchedLogs:
    """A partition and its mirror, record by record.

    Attributes:
        source: state of the partition.
        mirror: state of its mirror.
        sources: SOURCE_ROW records of all visible data records of the source, by offset.
        copies: MIRROR_ROW records of those of the mirror, by offset, without transactions that the mirror aborted.
        damaged: ranges of bytes that cannot be read, of the source and of the mirror.
        aborted_by_mirror: records of transactions of MirrorMaker itself that it aborted.
    """

    source: PartitionState
    mirror: PartitionState
    sources: SortedRows
    copies: SortedRows
    damaged: tuple[int, int]
    aborted_by_mirror: int


class _Entries:
    """Reads the records of a partition as ENTRY records.

    Attributes:
        is_timed: whether each record has the timestamp of its producer.
        damaged: ranges that cannot be read.
        dropped: records of aborted transactions that were left out.
    """

    def __init__(self, state: PartitionState, *, in_mirror: bool) -> None:
        aborted = (rows[rows["outcome"] == TransactionOutcome.ABORTED] for rows in state.transaction_store)
        hidden = np.concatenate([hidden_transactions(None), *map(hidden_transactions, aborted)])
        self._reader = RecordReader([segment.path for segment in state.partition.segments], hidden)
        self._start, self._in_mirror = state.log_start_offset, in_mirror
        self.is_timed, self.damaged, self.dropped = True, 0, 0

    def read(self) -> Iterator[EntryArray]:
        """Yield the records in log order.

        Raises:
            InputError: a segment cannot be read.
        """
        for chunk in self._reader.chunks(self._count):
            yield self._entries(chunk.columns)

    def _count(self, _segment: int, _damage: Damage) -> None:
        self.damaged += 1

    def _entries(self, columns: HashColumns) -> EntryArray:
        entries = np.zeros(len(columns), ENTRY)
        for name in ("low", "high", "timestamp", "offset"):
            entries[name] = getattr(columns, name)
        is_transactional = columns.attributes & TRANSACTIONAL_BIT != 0
        entries["producer_id"] = np.repeat(np.where(is_transactional, columns.producer_id, -1), columns.records)
        entries["in_mirror"] = self._in_mirror
        is_visible = entries["offset"] >= self._start
        if self._in_mirror:
            is_hidden = np.repeat(self._reader.hides(columns), columns.records)
            self.dropped += int((is_visible & is_hidden).sum())
            is_visible &= ~is_hidden
            self.is_timed &= not (columns.attributes & LOG_APPEND_TIME_BIT).any()
        else:
            # A record without a timestamp gets the time at which MirrorMaker sends it.
            self.is_timed &= not (columns.timestamp < 0).any()
        return take_rows(entries, is_visible)


def match_logs(source: Partition, mirror: Partition, rules: Rules, *, memory: int = DEFAULT_MEMORY) -> MatchedLogs:
    """Return the records of a partition and of its mirror, each with its counterparts.

    Args:
        source: the partition.
        mirror: the partition of the same number in the target cluster.
        rules: the time of evaluation.
        memory: approximate bytes of memory before temporary files are used.

    Raises:
        InputError: a segment cannot be read.
    """
    states = examine(source, rules), examine(mirror, rules)
    readers = [_Entries(state, in_mirror=bool(number)) for number, state in enumerate(states)]
    share = memory // MEMORY_SHARES
    sources = ExternalSort(SOURCE_ROW, lambda rows: rows["offset"], share)
    copies = ExternalSort(MIRROR_ROW, lambda rows: rows["offset"], share)
    with buckets_by_hash(ENTRY, share, "low") as buckets:
        for reader in readers:
            for entries in reader.read():
                buckets.add(entries)
        is_timed = all(reader.is_timed for reader in readers)
        for bucket in buckets.buckets():
            parts = list(bucket)
            if parts:
                source_rows, mirror_rows = _paired(concat_rows(parts), is_timed=is_timed)
                sources.add(source_rows)
                copies.add(mirror_rows)
    damaged = (readers[0].damaged, readers[1].damaged)
    return MatchedLogs(*states, sources.finish(), copies.finish(), damaged, readers[1].dropped)


def _paired(entries: EntryArray, *, is_timed: bool) -> tuple[SourceRowArray, MirrorRowArray]:
    """Return the records of both sides of a bucket, each with its counterparts."""
    times = entries["timestamp"] if is_timed else np.zeros(len(entries), "i8")
    order = np.lexsort((entries["offset"], entries["in_mirror"], times, entries["high"], entries["low"]))
    rows, times = take_rows(entries, order), times[order]
    is_first = np.ones(len(rows), bool)
    is_first[1:] = times[1:] != times[:-1]
    for name in ("low", "high"):
        is_first[1:] |= rows[name][1:] != rows[name][:-1]
    starts = np.flatnonzero(is_first)
    group = np.cumsum(is_first) - 1
    originals = np.add.reduceat((~rows["in_mirror"]).astype("i8"), starts)[group]
    members = np.diff(np.append(starts, len(rows)))[group]
    return (
        _source_rows(rows, starts[group], originals, members - originals),
        _mirror_rows(rows, starts[group], originals),
    )


def _source_rows(rows: EntryArray, start: IntArray, originals: IntArray, copies: IntArray) -> SourceRowArray:
    at: IntArray = np.flatnonzero(~rows["in_mirror"])
    start, originals, copies = start[at], originals[at], copies[at]
    rank = at - start
    found = np.empty(len(at), SOURCE_ROW)
    for name in ("offset", "producer_id"):
        found[name] = rows[name][at]
    found["copies"] = copies // originals + (rank < copies % originals)
    first = np.where(rank < copies, at + originals, 0)
    found["copy"] = np.where(rank < copies, rows["offset"][first], NO_OFFSET)
    return _in_order(found)


def _mirror_rows(rows: EntryArray, start: IntArray, originals: IntArray) -> MirrorRowArray:
    at: IntArray = np.flatnonzero(rows["in_mirror"])
    start, originals = start[at], originals[at]
    rank = at - start - originals
    has_original: BoolArray = originals > 0
    found = np.empty(len(at), MIRROR_ROW)
    found["offset"] = rows["offset"][at]
    original = np.where(has_original, start + rank % np.maximum(originals, 1), 0)
    found["original"] = np.where(has_original, rows["offset"][original], NO_OFFSET)
    found["is_again"] = has_original & (rank >= originals)
    found["is_certain"] = originals == 1
    return _in_order(found)


def _in_order(rows: SourceRowArray) -> SourceRowArray:
    return take_rows(rows, np.argsort(rows["offset"], kind="stable"))
