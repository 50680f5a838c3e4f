"""What the replay of a partition takes and gives: small frozen values, named as Kafka and the tables name them.

Offsets, epochs, sequences and ids are Kafka's numbers, its own -1 ("none") included; timestamps are milliseconds since
the epoch; ``bytes`` and ``size`` count what batches take in the log, headers included. None is what cannot be known or
does not apply.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from kforensics.forensics.core.record_types import Anomaly
from kforensics.parsers.format.control import control_of
from kforensics.parsers.format.rows import Batch, Record

__all__ = [
    "EMPTY",
    "UNKNOWN",
    "AbortedTransaction",
    "AnomalyRow",
    "BatchSummary",
    "Boundary",
    "BoundaryKind",
    "EmptyMarker",
    "LastStableOffset",
    "Marker",
    "Outcome",
    "Producer",
    "RecentBatch",
    "Transaction",
    "batch_summary",
]

NONE = -1


class Outcome(Enum):
    """How a transaction ended in this partition."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"


OUTCOMES = {"COMMIT": Outcome.COMMITTED, "ABORT": Outcome.ABORTED}


@dataclass(frozen=True, slots=True)
class Marker:
    """The COMMIT or ABORT in a control batch.

    Attributes:
        outcome: what it makes of the transaction.
        coordinator_epoch: epoch of the coordinator that wrote it.
    """

    outcome: Outcome
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """What the replay needs of a batch.

    Attributes:
        base_offset: its first offset.
        last_offset: its last offset, which it keeps when the cleaner takes records out.
        count: records in it.
        producer_id: -1 if none.
        producer_epoch: -1 if none.
        base_sequence: sequence of the first record, -1 if none.
        last_sequence: sequence of the last record, -1 if none.
        is_transactional: whether its records belong to a transaction.
        is_control: whether its records are markers or other control records.
        max_timestamp: largest timestamp of its records, from the header. Of a marker it is that of its one record.
        size: bytes of the batch.
        marker: the marker of a control batch; None if it holds none that can be read.
        exact: False for a compressed entry of format 0 or 1, which does not tell its first offset.
        segment: number of its segment in the partition.
        position: byte position in it.
    """

    base_offset: int
    last_offset: int
    count: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    is_transactional: bool
    is_control: bool
    max_timestamp: int
    size: int
    marker: Marker | None = None
    exact: bool = True
    segment: int = 0
    position: int = 0


@dataclass(frozen=True, slots=True)
class RecentBatch:
    """One of the batches by which a broker knows a retry again.

    Attributes:
        last_sequence: sequence of its last record.
        last_offset: offset of its last record.
        offset_delta: last offset minus first offset.
        timestamp: its maximum timestamp.
    """

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class Producer:
    """The state of a producer id, as a replica of the partition keeps it.

    Rule: ``org.apache.kafka.storage.internals.log.ProducerStateEntry``.

    Attributes:
        producer_id: its id.
        producer_epoch: of its last batch or marker.
        recent: at most five batches of this epoch, oldest first.
        last_timestamp: of its last batch or marker.
        coordinator_epoch: of its last marker, -1 if none was seen.
        current_txn_first_offset: first offset of the open transaction, -1 if none is.
    """

    producer_id: int
    producer_epoch: int = NONE
    recent: tuple[RecentBatch, ...] = ()
    last_timestamp: int = NONE
    coordinator_epoch: int = NONE
    current_txn_first_offset: int = NONE

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record written under this epoch, -1 if none was."""
        return self.recent[-1].last_sequence if self.recent else NONE

    @property
    def last_offset(self) -> int:
        """Offset of the last record written under this epoch, -1 if none was."""
        return self.recent[-1].last_offset if self.recent else NONE

    @property
    def offset_delta(self) -> int:
        """Last minus first offset of the last batch of this epoch, 0 if there is none, as in a ``.snapshot``."""
        return self.recent[-1].offset_delta if self.recent else 0


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction in this partition, from its first batch to its marker.

    Of one that was open at a snapshot, ``batches``, ``records`` and ``bytes`` count what stands behind the snapshot.

    Attributes:
        producer_id: whose it is.
        producer_epoch: of its last data batch; the marker's may be higher.
        lowest_epoch: of its data batches.
        highest_epoch: of its data batches.
        first_offset: first offset of its data.
        last_offset: last offset of its data.
        batches: its data batches.
        records: records in them.
        bytes: bytes of them.
        first_timestamp: smallest maximum timestamp of its batches, None if some stand before a snapshot.
        last_timestamp: largest one.
        first_offset_exact: False if it may have begun before the log on hand.
        outcome: how it ended.
        marker_offset: offset of its marker, None while it is open, as are the next three.
        marker_epoch: producer epoch of the marker.
        coordinator_epoch: coordinator epoch of the marker.
        marker_timestamp: timestamp of the marker.
        segment: number of the segment of its first batch on hand; -1 if that precedes a snapshot.
        position: byte position in it, or -1.
        marker_segment: number of the segment of its marker; -1 while it is open.
        marker_position: byte position in it, or -1.
    """

    producer_id: int
    producer_epoch: int
    lowest_epoch: int
    highest_epoch: int
    first_offset: int
    last_offset: int
    batches: int
    records: int
    bytes: int
    first_timestamp: int | None
    last_timestamp: int
    first_offset_exact: bool = True
    outcome: Outcome = Outcome.OPEN
    marker_offset: int | None = None
    marker_epoch: int | None = None
    coordinator_epoch: int | None = None
    marker_timestamp: int | None = None
    segment: int = NONE
    position: int = NONE
    marker_segment: int = NONE
    marker_position: int = NONE


@dataclass(frozen=True, slots=True)
class EmptyMarker:
    """A marker that found no transaction of its producer open.

    Attributes:
        producer_id: its producer.
        marker_offset: its offset.
        marker_epoch: its producer epoch.
        coordinator_epoch: its coordinator epoch.
        marker_timestamp: its timestamp.
        outcome: what it would have made of a transaction.
        exact: False if it may have ended a transaction whose data stands before the log on hand.
        segment: number of its segment in the partition.
        position: byte position in it.
    """

    producer_id: int
    marker_offset: int
    marker_epoch: int
    coordinator_epoch: int
    marker_timestamp: int
    outcome: Outcome
    exact: bool = True
    segment: int = 0
    position: int = 0


@dataclass(frozen=True, slots=True)
class AnomalyRow:
    """What a leader that knew all of a producer would not have written.

    Attributes:
        kind: what it is.
        producer_id: whose batch or marker it is.
        producer_epoch: its epoch.
        first_offset: first offset of the batch or marker at which it shows.
        last_offset: last offset of it.
        timestamp: its maximum timestamp.
        amount: records missing or written again; epochs fallen or risen; 0 where nothing is counted.
        previous_offset: last offset of the producer's event that it does not go with, -1 if none is known.
        previous_timestamp: timestamp of that event, None if there is none.
        hole: offsets that the log misses between the producer's last batch or marker and this one.
        segment: number of its segment in the partition.
        position: byte position in it.
    """

    kind: Anomaly
    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    timestamp: int
    amount: int = 0
    previous_offset: int = NONE
    previous_timestamp: int | None = None
    hole: int = 0
    segment: int = 0
    position: int = 0


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """The entry that ``.txnindex`` should hold for an ABORT marker, as the leader writes it.

    A follower's ``last_stable_offset`` may be the first offset of a transaction that begins behind the marker in the
    same fetch, where nothing else was open.

    Attributes:
        producer_id: its producer.
        first_offset: first offset of its data.
        last_offset: offset of the marker.
        last_stable_offset: smallest first offset of other producers' open transactions, else the one behind the marker.
        first_offset_exact: False if the transaction may have begun before the log on hand.
        last_stable_offset_exact: False if transactions may be open from before the log on hand.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    first_offset_exact: bool = True
    last_stable_offset_exact: bool = True


@dataclass(frozen=True, slots=True)
class LastStableOffset:
    """How far a read_committed consumer may read.

    Attributes:
        last_stable_offset: that offset; the largest it can be, if it is not exact.
        lowest: the smallest it can be.
        holder: transaction that holds it back, None if it is at the high watermark.
    """

    last_stable_offset: int
    lowest: int
    holder: Transaction | None

    @property
    def exact(self) -> bool:
        """Whether no transaction from before the log on hand can hold it back further."""
        return self.lowest == self.last_stable_offset


class BoundaryKind(Enum):
    """What is known of the log before the batches that are replayed."""

    EMPTY = "empty"
    SNAPSHOT = "snapshot"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Boundary:
    """The state from which a replay starts.

    Attributes:
        kind: EMPTY if nothing stands before it, SNAPSHOT if a snapshot tells, UNKNOWN if nothing does.
        offset: of the snapshot; the replay begins with the batch there.
        producers: those of the snapshot.
        records: the same as PRODUCER records by producer id, in place of them: there may be a million.
    """

    kind: BoundaryKind
    offset: int = 0
    producers: tuple[Producer, ...] = ()
    records: Any = field(default=None, compare=False, repr=False)


EMPTY, UNKNOWN = Boundary(BoundaryKind.EMPTY), Boundary(BoundaryKind.UNKNOWN)


def batch_summary(batch: Batch, first_record: Record | None = None, segment: int = 0) -> BatchSummary:
    """Return what the replay needs of a batch.

    A compressed entry of format 0 or 1 tells only its last offset without being decompressed, so it stands here for
    its last record alone. It has no producer, and no state depends on the others.

    Args:
        batch: its header.
        first_record: first record of a control batch, None if it has none that can be read.
        segment: number of the batch's segment in the partition.
    """
    return BatchSummary(
        base_offset=batch.last_offset if batch.base_offset is None else batch.base_offset,
        last_offset=batch.last_offset,
        count=1 if batch.count is None else batch.count,
        producer_id=NONE if batch.producer_id is None else batch.producer_id,
        producer_epoch=NONE if batch.producer_epoch is None else batch.producer_epoch,
        base_sequence=NONE if batch.base_sequence is None else batch.base_sequence,
        last_sequence=NONE if batch.last_sequence is None else batch.last_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        max_timestamp=batch.max_timestamp,
        size=batch.size,
        marker=_marker(first_record) if batch.is_control and first_record else None,
        exact=batch.base_offset is not None,
        segment=segment,
        position=batch.position,
    )


def _marker(record: Record) -> Marker | None:
    """Return the marker in a control record, None if it is of another type or too short: Kafka cannot replay those."""
    control_type, coordinator_epoch = control_of(record)
    if control_type not in OUTCOMES or coordinator_epoch is None:
        return None
    return Marker(OUTCOMES[control_type], coordinator_epoch)
