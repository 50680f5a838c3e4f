"""What is to be said of one offset: what became of it, who gets it, and the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kforensics.forensics.core.findings import Exactness
from kforensics.forensics.core.record_types import Records
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.log_rows import Place

__all__ = ["AbortedEntry", "Fate", "Hole", "LogBounds", "OffsetStory", "StoredBatch"]


class Fate(StrEnum):
    """What became of an offset."""

    VISIBLE = "visible"
    ABORTED = "aborted"  # its transaction was aborted
    UNDECIDED = "undecided"  # its transaction is open, or not on hand
    HELD_BACK = "held-back"  # it is decided, and waits for the last stable offset behind an open transaction
    NOT_REPLICATED = "not-replicated"  # it is at the high watermark that was asked for, or behind it
    CONTROL = "control"  # a marker or another control record, which no application is given
    DELETED = "deleted"  # below the log start offset: by retention or DeleteRecords
    COMPACTED = "compacted"  # the cleaner took it
    NOT_IN_BATCH = "not-in-batch"  # its batch spans it and holds no such record, and no cleaner was there
    LOST = "lost"  # no batch spans it, and no cleaner was there
    DAMAGED = "damaged"  # it lay in bytes that cannot be read
    NOT_ON_HAND = "not-on-hand"  # the log begins before the files on hand do
    BEYOND_END = "beyond-end"  # not written, as far as the log on hand goes

    @property
    def is_data(self) -> bool:
        """Whether a record of a user stands there that a read_uncommitted consumer is given."""
        return self in (Fate.VISIBLE, Fate.ABORTED, Fate.UNDECIDED, Fate.HELD_BACK)

    @property
    def is_loss(self) -> bool:
        """Whether a record should stand there, and does not or cannot be read."""
        return self in (Fate.NOT_IN_BATCH, Fate.LOST, Fate.DAMAGED)


@dataclass(frozen=True, slots=True)
class LogBounds:
    """Between which offsets consumers are served.

    Attributes:
        log_start_offset: the first one they may see.
        last_stable_offset: where a read_committed consumer ends; the largest it can be, if it is not exact.
        high_watermark: where all end: the log end offset, unless another one was asked for.
        log_end_offset: behind the last batch.
        exact: whether nothing from before the log on hand, or from bytes that cannot be read, can hold the last stable
            offset back further.
        at_checkpoint: high watermark of the checkpoint, up to five seconds old; None if there is none.
        holder: TRANSACTION record of the transaction that holds the last stable offset, None if none does.
    """

    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    exact: bool
    at_checkpoint: int | None = None
    holder: Any = None


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch and where it stands.

    Attributes:
        path: its segment.
        segment: number of that in the partition.
        header: what it says of itself.
    """

    path: str
    segment: int
    header: Batch

    @property
    def base_offset(self) -> int:
        """First offset; the last one where a compressed entry of format 0 or 1 does not tell the first."""
        return self.header.last_offset if self.header.base_offset is None else self.header.base_offset

    @property
    def producer_id(self) -> int:
        """Producer id, -1 if there is none."""
        return -1 if self.header.producer_id is None else self.header.producer_id

    @property
    def is_thinned(self) -> bool:
        """Whether it holds fewer records than offsets."""
        count = self.header.count
        return count is not None and count < self.header.last_offset - self.base_offset + 1


@dataclass(frozen=True, slots=True)
class Hole:
    """Offsets that no batch spans.

    Attributes:
        first_offset: the first of them.
        last_offset: the last one.
        segment: number of the segment behind them.
        is_between_segments: whether they lie where one segment ends and the next one begins.
    """

    first_offset: int
    last_offset: int
    segment: int
    is_between_segments: bool


@dataclass(frozen=True, slots=True)
class AbortedEntry:
    """Where a transaction index names a transaction as aborted.

    Attributes:
        path: the index.
        position: of the entry.
        first_offset: first offset it gives.
        last_offset: offset of the ABORT marker it gives.
    """

    path: str
    position: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True, eq=False)
class OffsetStory:
    """The story of an offset.

    Attributes:
        place: its partition.
        folder: where that lies.
        offset: the offset.
        fate: what became of it.
        exactness: how far that can be trusted.
        why: half a sentence that says why.
        bounds: between which offsets consumers are served.
        batch: the batch that spans it, None if none does.
        record: the record, None if there is none.
        control: type of a control record and, of a marker, the coordinator epoch; None for both otherwise.
        transaction: TRANSACTION record: the one it belongs to, or ended; None if there is none.
        entry: what names that one as aborted in the transaction index, None if nothing does.
        indexed: whether something does; None where it was not looked for, or the index is not on hand.
        snapshot: path of the snapshot next behind it, and what that says of the producer as a PRODUCER record, None if
            it does not know it; None where there is no snapshot, or no producer.
        hole: offsets around it that no batch spans, None if one does.
        same_sequence: batches of the same producer, epoch and sequences.
        around: TRANSACTION records of aborted transactions in whose range a compacted offset lies: the cleaner takes
            what was aborted first.
        paths: of the segments.
    """

    place: Place
    folder: str
    offset: int
    fate: Fate
    exactness: Exactness
    why: str
    bounds: LogBounds
    batch: StoredBatch | None = None
    record: Record | None = None
    control: tuple[str | None, int | None] = (None, None)
    transaction: Any = None
    entry: AbortedEntry | None = None
    indexed: bool | None = None
    snapshot: tuple[str, Records | None] | None = None
    hole: Hole | None = None
    same_sequence: tuple[StoredBatch, ...] = ()
    around: tuple[Any, ...] = ()
    paths: tuple[str, ...] = ()

    @property
    def read_uncommitted(self) -> bool | None:
        """Whether a consumer that reads everything is given the record; None if nothing on hand tells."""
        return None if self.fate is Fate.NOT_ON_HAND else self.fate.is_data

    @property
    def read_committed(self) -> bool | None:
        """Whether a read_committed consumer is given the record; None if nothing on hand tells.

        Of what was aborted it knows by the transaction index alone: without an entry it is given that as well.
        """
        if self.fate is Fate.NOT_ON_HAND:
            return None
        return self.is_shown_by_index or (self.fate is Fate.VISIBLE and not self.is_hidden_by_index)

    @property
    def is_shown_by_index(self) -> bool:
        """Whether aborted data is given to read_committed consumers because the index does not name it."""
        return self.fate is Fate.ABORTED and self.indexed is False and self.offset < self.bounds.last_stable_offset

    @property
    def is_hidden_by_index(self) -> bool:
        """Whether committed data is kept from read_committed consumers because the index names it."""
        return self.fate is Fate.VISIBLE and self.indexed is True
