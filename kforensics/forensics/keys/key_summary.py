"""What the records of one partition say of its keys: a value that may travel, and is joined with those of the topic."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kforensics.forensics.core.record_types import Records
from kforensics.forensics.duplicates.content_entries import hidden_batches
from kforensics.forensics.duplicates.partition_duplicates import reading_of
from kforensics.forensics.keys.key_columns import KeyColumns, key_columns
from kforensics.forensics.keys.key_rows import IN_FILE, KEY, KEY_ROOM, LATER, KeyGathering, KeyRows, share_bounds
from kforensics.forensics.keys.murmur2 import murmur2
from kforensics.forensics.keys.producer_batches import PRODUCER_BATCHES, BatchTotals
from kforensics.forensics.keys.record_sizes import record_sizes
from kforensics.forensics.partition.log_chunk import Split
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.splits import splits_of
from kforensics.parsers.columns.batch_columns import NO_CONTROL, BatchColumns, joined
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import CODEC_MASK
from kforensics.parsers.kernels.policy import Choice, kernels_for
from kforensics.parsers.log.log_rows import Place
from kforensics.parsers.log.records import HEADER_SIZE
from kforensics.parsers.tables.file_rows import Reading

__all__ = ["SAMPLE", "Counts", "KeySummary", "key_summary"]

# Rows of each partition by which it is told how keys were placed.
SAMPLE = 4_096


@dataclass(frozen=True, slots=True)
class Counts:
    """Records of a partition, or of a part of it.

    Attributes:
        records: of users, that a read_committed consumer gets.
        keyless: those of them without key.
        hidden: records of transactions that were aborted or are open; their keys are left out.
        unread: batches whose records cannot be read, or not all of them.
    """

    records: int = 0
    keyless: int = 0
    hidden: int = 0
    unread: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.records + other.records,
            self.keyless + other.keyless,
            self.hidden + other.hidden,
            self.unread + other.unread,
        )


@dataclass(frozen=True, slots=True)
class KeySummary:
    """The keys of a partition, and how its producers fill their batches.

    Attributes:
        place: broker, log directory, topic and partition.
        folder: where its files lie.
        topic_id: from ``partition.metadata``, None if that is not there.
        paths: its segments.
        log_start_offset: first offset that consumers may see.
        log_end_offset: offset behind the last batch.
        is_compacted: whether a cleaner has been here, as its checkpoint says.
        counts: its records.
        keys: KEY rows, at least one for each key and producer.
        producers: PRODUCER_BATCHES.
        moments: when batches were written, MOMENT rows.
    """

    place: Place
    folder: str
    topic_id: str | None
    paths: tuple[str, ...]
    log_start_offset: int
    log_end_offset: int
    is_compacted: bool
    counts: Counts
    keys: KeyRows
    producers: Records
    moments: Records

    @property
    def number(self) -> int:
        """Number of the partition, -1 where its folder does not tell."""
        return -1 if self.place.partition is None else self.place.partition

    def share(self, share: int, shares: int) -> Records:
        """Return the KEY rows of one of so many shares of all keys, whatever partition they are in."""
        return self.keys.between(*share_bounds(share, shares))

    def light(self) -> KeySummary:
        """Return the summary with no more keys than tell how they were placed, to be sent anywhere."""
        return replace(self, keys=KeyRows(self.keys.lowest(SAMPLE)))


def key_summary(
    case: Case, kernels: Choice = kernels_for, workers: int | None = None, *, room: int = KEY_ROOM
) -> KeySummary:
    """Return what the records of a partition say of its keys; its log is read once for headers, once for records.

    It shares nothing with other calls, and neither what it takes nor what it returns is tied to a machine but for the
    temporary file of very many keys: :meth:`KeySummary.share` gives these piece by piece.

    Args:
        case: the partition, whose transactions are known.
        kernels: gives the compiled kernels.
        workers: threads that read, 0 for none beside the caller's, None for one per processor.
        room: bytes of keys to hold in memory; what does not fit goes into a temporary file.

    Raises:
        InputError: a segment cannot be read.
    """
    gathering = _Gathering(case, kernels, workers, KeyGathering(room))
    for split in splits_of(case.partition):
        gathering.add(split)
    partition = case.partition
    return KeySummary(
        partition.place,
        partition.folder,
        partition.topic_id,
        tuple(segment.path for segment in partition.segments),
        case.log_start_offset,
        case.log_end_offset,
        case.first_dirty_offset is not None,
        gathering.counts,
        gathering.keys.finish(),
        gathering.totals.producers,
        gathering.totals.moments,
    )


class _Gathering:
    """Goes through the splits of a partition.

    Attributes:
        counts: records so far.
        keys: takes their keys.
        totals: of their batches.
    """

    def __init__(self, case: Case, kernels: Choice, workers: int | None, keys: KeyGathering) -> None:
        self._case, self._kernels, self._workers = case, kernels, workers
        self._hides = reading_of(case, kernels, workers).hidden
        self.counts, self.keys, self.totals = Counts(), keys, BatchTotals.empty()

    def add(self, split: Split) -> None:
        """Read a split."""
        batches = self._batches(split)
        is_hidden, sizes = hidden_batches(batches, self._hides), _Sizes(batches)
        reading = Reading(records=True, start=split.start, stop=split.stop)
        found = self._case.partition.segments[split.segment]
        for every in key_columns(found, reading, self._kernels, self._workers):
            batch, counts = _batch_of(every, batches)
            columns, batch = (every, batch) if counts.all() else (every.taken(counts), batch[counts])
            if len(batch):
                sizes.add(columns, batch)
                self._add_keys(columns, batches, batch, is_hidden[batch], split.segment)
        self.counts += Counts(unread=int((sizes.seen < batches.count).sum()))
        self.totals.add(sizes.finished())

    def _add_keys(
        self, columns: KeyColumns, batches: BatchColumns, batch: Records, is_hidden: Records, segment: int
    ) -> None:
        visible = columns.offset >= self._case.log_start_offset
        kept, keyless = visible & ~is_hidden, columns.key_size < 0
        self.counts += Counts(
            records=int(kept.sum()),
            keyless=int((kept & keyless).sum()),
            hidden=int((visible & is_hidden).sum()),
        )
        keyed = np.flatnonzero(kept & ~keyless)
        if len(keyed):
            self.keys.add(_key_rows(columns.taken(keyed), batches.producer_id[batch[keyed]], segment))

    def _batches(self, split: Split) -> BatchColumns:
        """Return the batches of a split whose records count."""
        with open_source(self._case.partition.segments[split.segment].path) as source:
            chunks = batch_chunks(
                source,
                split.segment,
                _say_nothing,
                self._kernels,
                start=split.start,
                stop=split.stop,
                workers=self._workers,
            )
            found = joined([chunk[chunk.control == NO_CONTROL] for chunk in chunks])
        self.counts += Counts(unread=int((~found.crc_valid).sum()))
        return found[found.crc_valid]


def _batch_of(columns: KeyColumns, batches: BatchColumns) -> tuple[Records, Records]:
    """Return for each record the index of its batch, and whether that batch counts."""
    if not len(batches):
        return np.zeros(len(columns), "i8"), np.zeros(len(columns), bool)
    starts = np.flatnonzero(np.append(True, columns.position[1:] != columns.position[:-1]))
    positions = columns.position[starts]
    at = np.minimum(np.searchsorted(batches.position, positions), len(batches) - 1)
    lengths = np.diff(np.append(starts, len(columns)))
    return np.repeat(at, lengths), np.repeat(batches.position[at] == positions, lengths)


def _key_rows(columns: KeyColumns, producer_ids: Records, segment: int) -> Records:
    """Return a row of KEY for each of some records that have keys."""
    rows = np.empty(len(columns), KEY)
    rows["murmur"], rows["identity"] = murmur2(columns.keys)
    rows["producer_id"], rows["records"] = producer_ids, 1
    rows["first_offset"], rows["first_place"] = columns.offset, segment * IN_FILE + columns.position
    rows["last_mark"] = 2 * columns.offset + (columns.value_size < 0)
    rows["first_timestamp"] = np.where(columns.timestamp < 0, LATER, columns.timestamp)
    rows["last_timestamp"] = columns.timestamp
    return rows


class _Sizes:
    """Adds up the records of the batches of a split.

    Attributes:
        seen: records of each batch.
    """

    def __init__(self, batches: BatchColumns) -> None:
        self._batches = batches
        self.seen, self._keyless, self._plain = (np.zeros(len(batches), "i8") for _ in range(3))
        self._first = np.full(len(batches), LATER)
        self._last = np.full(len(batches), -1)
        self._is_compressed = batches.attributes & CODEC_MASK != 0

    def add(self, columns: KeyColumns, batch: Records) -> None:
        """Add records, of which there are some, each with the index of its batch."""
        starts = np.flatnonzero(np.append(True, batch[1:] != batch[:-1]))
        at = batch[starts]
        self.seen[at] += np.diff(np.append(starts, len(batch)))
        self._keyless[at] += np.add.reduceat((columns.key_size < 0).astype("i8"), starts)
        first = np.where(columns.timestamp < 0, LATER, columns.timestamp)
        self._first[at] = np.minimum(self._first[at], np.minimum.reduceat(first, starts))
        self._last[at] = np.maximum(self._last[at], np.maximum.reduceat(columns.timestamp, starts))
        if self._is_compressed[at].any():
            self._plain[at] += np.add.reduceat(self._plain_sizes(columns, batch, starts), starts)

    def _plain_sizes(self, columns: KeyColumns, batch: Records, starts: Records) -> Records:
        # A batch may have begun in the columns before these; then its base timestamp is a little off.
        base = np.repeat(columns.timestamp[starts], np.diff(np.append(starts, len(batch))))
        return record_sizes(
            columns.key_size,
            columns.value_size,
            columns.header_size,
            columns.offset - self._batches.base_offset[batch],
            columns.timestamp - base,
            self._batches.magic[batch],
        )

    def finished(self) -> Records:
        """Return PRODUCER_BATCHES, one for each batch with records."""
        batches, which = self._batches, np.flatnonzero(self.seen)
        found = np.zeros(len(which), PRODUCER_BATCHES)
        found["producer_id"], found["batches"] = batches.producer_id[which], 1
        found["records"], found["keyless"] = self.seen[which], self._keyless[which]
        found["bytes"] = found["most_bytes"] = batches.size[which]
        found["most_records"] = self.seen[which]
        found["first_timestamp"], found["last_timestamp"] = self._first[which], self._last[which]
        is_whole = self.seen[which] >= batches.count[which]
        stored = batches.size[which] - HEADER_SIZE
        found["stored_bytes"] = np.where(is_whole, stored, 0)
        found["plain_bytes"] = np.where(is_whole, np.where(self._is_compressed, self._plain, 0)[which], 0)
        found["plain_bytes"] += np.where(is_whole & ~self._is_compressed[which], stored, 0)
        return found


def _say_nothing(_damage: object) -> None:
    """Damage was told of when the case was made."""
