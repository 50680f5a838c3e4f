"""The explanation of one offset: its status, which consumers receive the record, and the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from kforensics.forensics.core.findings import Exactness
from kforensics.forensics.partition.log_starts import EarlierStart
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.log_rows import Place

if TYPE_CHECKING:
    import numpy as np

    from kforensics.forensics.checks.partition.missing_logs import MissingLog
    from kforensics.forensics.partition.epoch_starts import UncleanStart


class RecordStatus(StrEnum):
    """What happened to the record of an offset."""

    VISIBLE = "visible"
    ABORTED = "aborted"  # its transaction was aborted
    UNDECIDED = "undecided"  # its transaction is open, or not available
    HELD_BACK = "held-back"  # not in an open transaction, but at or above the last stable offset
    NOT_REPLICATED = "not-replicated"  # at or above the given high watermark
    CONTROL = "control"  # a marker or another control record, which applications never receive
    DELETED = "deleted"  # below the log start offset: by retention or DeleteRecords
    COMPACTED = "compacted"  # removed by the log cleaner
    NOT_IN_BATCH = "not-in-batch"  # its batch spans the offset without the record, and was not compacted
    LOST = "lost"  # no batch spans the offset, and the log was not compacted there
    DAMAGED = "damaged"  # in bytes that cannot be read
    NOT_ON_HAND = "not-on-hand"  # in the log, but not in the available files
    BEYOND_END = "beyond-end"  # at or above the log end offset

    @property
    def is_data(self) -> bool:
        """Whether the offset has a user's record that read_uncommitted consumers receive."""
        return self in (RecordStatus.VISIBLE, RecordStatus.ABORTED, RecordStatus.UNDECIDED, RecordStatus.HELD_BACK)

    @property
    def is_loss(self) -> bool:
        """Whether the offset should have a record that is missing or unreadable."""
        return self in (RecordStatus.NOT_IN_BATCH, RecordStatus.LOST, RecordStatus.DAMAGED)


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The offsets between which consumers are served.

    Attributes:
        log_start_offset: first offset that consumers can read.
        last_stable_offset: end for read_committed consumers; an upper bound if it is not exact.
        high_watermark: end for all consumers: the log end offset, unless another one was given.
        log_end_offset: offset after the last batch.
        exact: whether no transaction from before the available log, or from unreadable bytes, can lower the last
            stable offset further.
        checkpointed_high_watermark: high watermark of the checkpoint, up to five seconds old; None if there is none.
        blocking_transaction: TRANSACTION record of the transaction that blocks the last stable offset, None if none
            does.
        lagging_since: since when this replica may lack what its leader has, in ms, NO_TIME if it was never seen in
            sync; None if it does not lag, or nothing is known.
        earlier_start: the log start of the checkpoint, if it is before the first leader epoch.
    """

    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    exact: bool
    checkpointed_high_watermark: int | None = None
    blocking_transaction: np.void | None = None
    lagging_since: int | None = None
    earlier_start: EarlierStart | None = None


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch and its location.

    Attributes:
        path: path of its segment.
        segment: number of the segment in the partition.
        header: its decoded header.
    """

    path: str
    segment: int
    header: Batch

    @property
    def base_offset(self) -> int:
        """First offset; the last one for a compressed entry of format 0 or 1 whose records are unreadable."""
        return self.header.last_offset if self.header.base_offset is None else self.header.base_offset

    @property
    def producer_id(self) -> int:
        """Producer id, -1 if there is none."""
        return -1 if self.header.producer_id is None else self.header.producer_id

    @property
    def is_partially_compacted(self) -> bool:
        """Whether it contains fewer records than it spans offsets."""
        count = self.header.count
        return count is not None and count < self.header.last_offset - self.base_offset + 1


@dataclass(frozen=True, slots=True)
class OffsetGap:
    """A range of offsets that no batch spans.

    Attributes:
        first_offset: first missing offset.
        last_offset: last missing offset.
        segment: number of the segment that contains the next batch.
        is_between_segments: whether the batches on both sides are in different segments.
    """

    first_offset: int
    last_offset: int
    segment: int
    is_between_segments: bool


@dataclass(frozen=True, slots=True)
class AbortedEntry:
    """An entry of a transaction index, which lists an aborted transaction.

    Attributes:
        path: path of the index.
        position: byte position of the entry.
        first_offset: first offset of the transaction.
        last_offset: offset of the ABORT marker.
    """

    path: str
    position: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True, eq=False)
class OffsetStory:
    """The explanation of an offset.

    Attributes:
        place: its partition.
        folder: folder of the partition.
        offset: the offset.
        status: what happened to it.
        exactness: how reliable the status is.
        why: the reason, as a clause.
        bounds: the offsets between which consumers are served.
        batch: the batch that spans it, None if none does.
        record: the record, None if there is none.
        control: type of a control record and, for a marker, the coordinator epoch; None for both otherwise.
        transaction: TRANSACTION record of the transaction that it belongs to or ended; None if there is none.
        entry: entry of the transaction index that lists this transaction as aborted, None if there is none.
        indexed: whether there is such an entry; None if this does not apply, or the index is not available.
        snapshot: path of the next snapshot after it, and the PRODUCER record of the producer there, None if the
            snapshot has no entry for the producer; None without a snapshot or a producer.
        offset_gap: the offset gap that it is in, None if a batch spans it.
        same_sequence: other batches with the same producer, epoch and sequences.
        overlapping_aborted: TRANSACTION records of aborted transactions whose range contains a compacted offset: the
            cleaner removes aborted data first.
        paths: paths of the segments.
        missing: what is known of the partition if its log is missing, None if it is there.
        names: transactional ids by producer id, as far as the coordinators' logs have them.
        begins: when open transactions began by their coordinators, in ms by first offset, if their records are older.
        two_phase_producers: producer ids with an ongoing transaction of a two-phase commit, which has no timeout.
        unclean: the unclean election whose leader wrote here, None if none is known.
    """

    place: Place
    folder: str
    offset: int
    status: RecordStatus
    exactness: Exactness
    why: str
    bounds: LogBounds
    batch: StoredBatch | None = None
    record: Record | None = None
    control: tuple[str | None, int | None] = (None, None)
    transaction: np.void | None = None
    entry: AbortedEntry | None = None
    indexed: bool | None = None
    snapshot: tuple[str, np.void | None] | None = None
    offset_gap: OffsetGap | None = None
    same_sequence: tuple[StoredBatch, ...] = ()
    overlapping_aborted: tuple[np.void, ...] = ()
    paths: tuple[str, ...] = ()
    missing: MissingLog | None = None
    names: Mapping[int, str] = field(default_factory=dict)
    begins: Mapping[int, int] = field(default_factory=dict)
    two_phase_producers: frozenset[int] = frozenset()
    unclean: UncleanStart | None = None

    @property
    def producer_ids(self) -> set[int]:
        """The producers of the transactions that the story names."""
        named = (self.transaction, self.bounds.blocking_transaction, *self.overlapping_aborted)
        return {int(transaction["producer_id"]) for transaction in named if transaction is not None}

    @property
    def read_uncommitted(self) -> bool | None:
        """Whether read_uncommitted consumers receive the record; None if the available files do not show it."""
        return None if self.status is RecordStatus.NOT_ON_HAND else self.status.is_data

    @property
    def read_committed(self) -> bool | None:
        """Whether read_committed consumers receive the record; None if the available files do not show it.

        These consumers learn about aborted transactions from the transaction index only, so they also receive aborted
        data that the index does not list.
        """
        if self.status is RecordStatus.NOT_ON_HAND:
            return None
        return self.is_shown_by_index or (self.status is RecordStatus.VISIBLE and not self.is_hidden_by_index)

    @property
    def is_shown_by_index(self) -> bool:
        """Whether read_committed consumers receive aborted data because the index does not list it."""
        return (
            self.status is RecordStatus.ABORTED
            and self.indexed is False
            and self.offset < self.bounds.last_stable_offset
        )

    @property
    def is_hidden_by_index(self) -> bool:
        """Whether read_committed consumers do not receive committed data because the index lists it as aborted."""
        return self.status is RecordStatus.VISIBLE and self.indexed is True


@dataclass(frozen=True, slots=True, eq=False)
class OffsetRun:
    """Consecutive offsets with the same story.

    Attributes:
        first_offset: the first of them.
        last_offset: the last of them.
        story: the story of the first one; its record, batch and snapshot are not those of the others.
        transactional_id: of the transaction, None if unknown.
        is_first: whether it is the first run of its partition.
    """

    first_offset: int
    last_offset: int
    story: OffsetStory
    transactional_id: str | None = None
    is_first: bool = False

    @property
    def meaning(self) -> tuple[object, ...]:
        """What all offsets of a run have in common."""
        story = self.story
        transaction = (
            None if story.transaction is None else (story.transaction["producer_id"], story.transaction["first_offset"])
        )
        return story.status, story.exactness, story.why, story.read_committed, story.control, transaction
