"""What became of the records of a partition in its mirror, as ranges of offsets.

Rules: ``MirrorSourceTask`` copies what its consumer receives, by default with ``isolation.level=read_uncommitted``, so
records of aborted and open transactions too, but no markers. It writes plain records, or with exactly-once support
transactions of its own, which begin and end elsewhere. So no transaction of the source exists in the mirror.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np

from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.record_arrays import concat_rows
from kforensics.forensics.core.record_types import TransactionOutcome
from kforensics.forensics.mirrors.record_matching import NO_OFFSET, MatchedLogs, MirrorRowArray, SourceRowArray
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.format.array_types import IntArray, StructArray

__all__ = ["SEVERITIES", "CopiedLog", "MirrorRange", "RangeKind"]


class RangeKind(StrEnum):
    """What became of some records."""

    MISSING = "missing"
    SYNC_CONTRADICTION = "sync-contradiction"
    ABORTED_COPIED = "aborted-copied"
    PARTIAL_TRANSACTION = "partial-transaction"
    COPIED_TWICE = "copied-twice"
    ONLY_IN_MIRROR = "only-in-mirror"
    NOTHING_IN_COMMON = "nothing-in-common"
    OPEN_COPIED = "open-copied"
    LAG = "lag"
    BEFORE_MIRROR = "before-mirror"
    COMPACTED_IN_MIRROR = "compacted-in-mirror"
    UNREADABLE_IN_MIRROR = "unreadable-in-mirror"
    GONE_IN_SOURCE = "gone-in-source"
    NO_MIRROR = "no-mirror"
    GROUP_OFFSET = "group-offset"
    COPIED = "copied"


SEVERITIES = {
    RangeKind.MISSING: Severity.ERROR,
    RangeKind.SYNC_CONTRADICTION: Severity.ERROR,
    RangeKind.ABORTED_COPIED: Severity.WARNING,
    RangeKind.PARTIAL_TRANSACTION: Severity.WARNING,
    RangeKind.COPIED_TWICE: Severity.WARNING,
    RangeKind.ONLY_IN_MIRROR: Severity.WARNING,
    RangeKind.NOTHING_IN_COMMON: Severity.WARNING,
    RangeKind.UNREADABLE_IN_MIRROR: Severity.WARNING,
}
# Neither copied nor expected to be: records of aborted transactions, if MirrorMaker reads only what is committed.
NOT_READ = None
KINDS = (*RangeKind, NOT_READ)
CODES = {kind: code for code, kind in enumerate(KINDS)}
TRANSACTION_FIELDS = ("producer_id", "producer_epoch", "first_offset", "marker_offset", "outcome")
TRANSACTION_COPY = np.dtype(
    [
        ("producer_id", "i8"),
        ("producer_epoch", "i2"),
        ("first_offset", "i8"),
        ("marker_offset", "i8"),  # the largest integer while open
        ("outcome", "i1"),
        ("copied", "i8"),  # records that the mirror has
        ("absent", "i8"),  # records that it should have, or will get
        ("last_offset", "i8"),  # of the records that it has, as are the next two
        ("first_copy", "i8"),  # in the mirror
        ("last_copy", "i8"),
    ]
)
LARGEST = np.iinfo("i8").max


class MirrorRange(NamedTuple):
    """Some records and what became of them.

    Attributes:
        kind: what became of them.
        first_offset: first offset in the source, None if the source does not have them; so is the last one.
        last_offset: last offset in the source.
        records: how many records.
        mirror_first_offset: first offset in the mirror, None if the mirror does not have them; so is the last one.
        mirror_last_offset: last offset in the mirror.
        producer_id: producer of the transaction, None for anything else; so is its epoch.
        producer_epoch: its epoch.
        detail: what the numbers do not show, empty for nothing.
    """

    kind: RangeKind
    first_offset: int | None
    last_offset: int | None
    records: int
    mirror_first_offset: int | None = None
    mirror_last_offset: int | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    detail: str = ""


class CopiedLog:
    """A partition, its mirror, and what became of each record.

    Args:
        logs: the records of both.
    """

    def __init__(self, logs: MatchedLogs) -> None:
        self._logs = logs
        self._transactions = _transactions_of(logs.source)
        copied = [rows["offset"][rows["copies"] > 0] for rows in logs.sources]
        bounds = [int(part[at]) for part in copied if len(part) for at in (0, -1)]
        self._first_copied, self._last_copied = (bounds[0], bounds[-1]) if bounds else (LARGEST, NO_OFFSET)
        self._first_copy = next(
            (int(rows["offset"][at[0]]) for rows in logs.copies if len(at := np.flatnonzero(rows["original"] >= 0))),
            LARGEST,
        )
        self._gaps = [
            _before_gaps(rows) if damaged else np.empty(0, "i8")
            for rows, damaged in zip((logs.sources, logs.copies), logs.damaged, strict=True)
        ]
        self._reads_aborted = self._count_by_transaction()

    @property
    def has_copies(self) -> bool:
        """Whether the mirror has any record of the source."""
        return self._last_copied != NO_OFFSET

    def ranges(self) -> Iterator[MirrorRange]:
        """Yield what became of the records: those of the source, those of the mirror, then transactions."""
        if not self.has_copies and len(self._logs.sources) and len(self._logs.copies):
            yield self._nothing_in_common()
            return
        yield from _ranges_of(self._source_labels(), in_source=True)
        yield from _ranges_of(self._mirror_labels(), in_source=False)
        yield from self._transaction_ranges()

    def _nothing_in_common(self) -> MirrorRange:
        offsets = [(rows["offset"][0], rows["offset"][-1]) for rows in self._logs.sources]
        copies = [(rows["offset"][0], rows["offset"][-1]) for rows in self._logs.copies]
        return MirrorRange(
            RangeKind.NOTHING_IN_COMMON,
            *(int(offsets[0][0]), int(offsets[-1][1]), len(self._logs.sources)),
            *(int(copies[0][0]), int(copies[-1][1])),
            detail="a transformation changed all records, or it is another topic",
        )

    def _source_labels(self) -> Iterator[tuple[IntArray, ...]]:
        """Yield the kind of each record of the source, a label that separates ranges, and its offsets."""
        previous_copy = NO_OFFSET
        for rows in self._logs.sources:
            kinds, previous_copy = self._kinds(rows, previous_copy)
            shown = (kinds != CODES[RangeKind.COPIED]) & (kinds != CODES[NOT_READ])
            # Copied records are shown as the mirror has them, and they end a range of others.
            kinds[~shown] = CODES[NOT_READ]
            yield kinds, np.zeros(len(rows), "i8"), rows["offset"], np.full(len(rows), NO_OFFSET)

    def _kinds(self, rows: SourceRowArray, previous_copy: int) -> tuple[IntArray, int]:
        """Return the kind of each record, and the offset of the last copy so far in the mirror."""
        is_copied = rows["copies"] > 0
        latest = np.maximum.accumulate(np.where(is_copied, np.arange(len(rows)), -1))
        copies = np.where(latest >= 0, rows["copy"][latest], previous_copy)
        kinds = np.full(len(rows), CODES[RangeKind.MISSING], "i8")
        kinds[copies + 1 < self._logs.mirror.first_uncompacted_offset] = CODES[RangeKind.COMPACTED_IN_MIRROR]
        kinds[np.isin(copies, self._gaps[1])] = CODES[RangeKind.UNREADABLE_IN_MIRROR]
        kinds[rows["offset"] > self._last_copied] = CODES[RangeKind.LAG]
        kinds[rows["offset"] < self._first_copied] = CODES[
            RangeKind.BEFORE_MIRROR if self.has_copies else RangeKind.LAG
        ]
        if not self._reads_aborted:
            of = self._transaction_of(rows)
            at = np.flatnonzero(of >= 0)
            kinds[at[self._transactions["outcome"][of[at]] == TransactionOutcome.ABORTED]] = CODES[NOT_READ]
        kinds[is_copied] = CODES[RangeKind.COPIED]
        return kinds, int(copies[-1]) if len(rows) else previous_copy

    def _mirror_labels(self) -> Iterator[tuple[IntArray, ...]]:
        """Yield the kind of each record of the mirror, a label that separates ranges, and its offsets."""
        previous = NO_OFFSET
        for rows in self._logs.copies:
            has_original = rows["original"] >= 0
            kinds = self._kinds_in_mirror(rows, previous)
            difference = np.where(has_original, rows["offset"] - rows["original"], 0)
            yield kinds, difference, rows["original"], rows["offset"]
            previous = max(previous, int(rows["original"].max(initial=NO_OFFSET)))

    def _kinds_in_mirror(self, rows: MirrorRowArray, previous: int) -> IntArray:
        source, has_original = self._logs.source, rows["original"] >= 0
        reached = np.maximum.accumulate(np.maximum(rows["original"], previous))
        is_gone = reached + 1 < source.first_uncompacted_offset
        is_gone |= (rows["offset"] < self._first_copy) & (source.log_start_offset > 0)
        is_gone |= np.isin(reached, self._gaps[0])
        kinds = np.where(is_gone, CODES[RangeKind.GONE_IN_SOURCE], CODES[RangeKind.ONLY_IN_MIRROR])
        kinds[has_original] = CODES[RangeKind.COPIED]
        kinds[rows["is_again"]] = CODES[RangeKind.COPIED_TWICE]
        return kinds

    def _count_by_transaction(self) -> bool:
        """Count the copied records of each transaction, and return whether aborted ones are among them."""
        transactions, self._reads_aborted = self._transactions, True
        previous_copy = NO_OFFSET
        for rows in self._logs.sources:
            of = self._transaction_of(rows)
            kinds, previous_copy = self._kinds(rows, previous_copy)
            is_absent = np.isin(kinds, [CODES[RangeKind.MISSING], CODES[RangeKind.LAG]])
            np.add.at(transactions["absent"], of[(of >= 0) & is_absent], 1)
            at = np.flatnonzero((of >= 0) & (rows["copies"] > 0))
            np.add.at(transactions["copied"], of[at], 1)
            np.maximum.at(transactions["last_offset"], of[at], rows["offset"][at])
            np.minimum.at(transactions["first_copy"], of[at], rows["copy"][at])
            np.maximum.at(transactions["last_copy"], of[at], rows["copy"][at])
        is_aborted = transactions["outcome"] == TransactionOutcome.ABORTED
        return bool((transactions["copied"][is_aborted] > 0).any())

    def _transaction_of(self, rows: SourceRowArray) -> IntArray:
        """Return the number of the transaction of each record, -1 for none."""
        of: IntArray = np.full(len(rows), -1)
        known = self._transactions
        for producer_id in np.unique(rows["producer_id"][rows["producer_id"] >= 0]).tolist():
            first, last = np.searchsorted(known["producer_id"], [producer_id, producer_id + 1])
            at = np.flatnonzero(rows["producer_id"] == producer_id)
            number = first + np.searchsorted(known["first_offset"][first:last], rows["offset"][at], "right") - 1
            at, number = at[number >= first], number[number >= first]
            is_inside = rows["offset"][at] < known["marker_offset"][number]
            of[at] = np.where(is_inside, number, -1)
        return of

    def _transaction_ranges(self) -> Iterator[MirrorRange]:
        known = self._transactions
        is_partial = (known["copied"] > 0) & (known["absent"] > 0)
        for outcome, kind, selected in (
            (TransactionOutcome.ABORTED, RangeKind.ABORTED_COPIED, known["copied"] > 0),
            (TransactionOutcome.OPEN, RangeKind.OPEN_COPIED, known["copied"] > 0),
            (TransactionOutcome.COMMITTED, RangeKind.PARTIAL_TRANSACTION, is_partial),
        ):
            for number in np.flatnonzero((known["outcome"] == outcome) & selected).tolist():
                yield _transaction_range(kind, known[number])


def _transaction_range(kind: RangeKind, row: Any) -> MirrorRange:
    copied, absent = int(row["copied"]), int(row["absent"])
    detail = f"the mirror has {copied} of {copied + absent} records" if absent else ""
    return MirrorRange(
        kind,
        *(int(row["first_offset"]), int(row["last_offset"]), copied, int(row["first_copy"]), int(row["last_copy"])),
        *(int(row["producer_id"]), int(row["producer_epoch"]), detail),
    )


def _transactions_of(state: PartitionState) -> StructArray:
    """Return the transactions of a partition by producer and offset; nothing is counted yet."""
    parts = [np.empty(0, TRANSACTION_COPY)]
    for rows in state.transaction_store:
        part = np.zeros(len(rows), TRANSACTION_COPY)
        for name in TRANSACTION_FIELDS:
            part[name] = rows[name]
        part["marker_offset"][rows["outcome"] == TransactionOutcome.OPEN] = LARGEST
        part["first_copy"], part["last_copy"], part["last_offset"] = LARGEST, NO_OFFSET, NO_OFFSET
        parts.append(part)
    every = concat_rows(parts)
    return every[np.lexsort((every["first_offset"], every["producer_id"]))]


def _before_gaps(pages: Iterable[SourceRowArray]) -> IntArray:
    """Return the offsets after which offsets have no record, as in damaged batches and markers."""
    previous, gaps = NO_OFFSET, [np.empty(0, "i8")]
    for rows in pages:
        offsets = np.append(previous, rows["offset"])
        gaps.append(offsets[:-1][np.diff(offsets) > 1])
        previous = int(offsets[-1])
    return np.concatenate(gaps)


def _ranges_of(pages: Iterable[tuple[IntArray, ...]], *, in_source: bool) -> Iterator[MirrorRange]:
    """Yield ranges of consecutive records with the same kind and label.

    Args:
        pages: kinds, labels, offsets in the source and offsets in the mirror.
        in_source: whether they are of the records of the source, otherwise of those of the mirror.
    """
    key: tuple[int, int] | None = None
    values = [0] * 5
    for kinds, labels, originals, copies in pages:
        is_start = np.ones(len(kinds), bool)
        is_start[1:] = (kinds[1:] != kinds[:-1]) | (labels[1:] != labels[:-1])
        starts = np.flatnonzero(is_start)
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(kinds)], strict=True):
            last = int(originals[end - 1]), int(copies[end - 1])
            if key == (kinds[start], labels[start]):
                values = [values[0], last[0], values[2] + end - start, values[3], last[1]]
                continue
            yield from _range(key, values, in_source=in_source)
            key = int(kinds[start]), int(labels[start])
            values = [int(originals[start]), last[0], end - start, int(copies[start]), last[1]]
    yield from _range(key, values, in_source=in_source)


def _range(key: tuple[int, int] | None, values: list[int], *, in_source: bool) -> Iterator[MirrorRange]:
    kind = None if key is None else KINDS[key[0]]
    if kind is None:
        return
    first, last, records, first_copy, last_copy = values
    has_original = first != NO_OFFSET
    yield MirrorRange(
        kind,
        first if has_original else None,
        last if has_original else None,
        records,
        None if in_source else first_copy,
        None if in_source else last_copy,
    )
