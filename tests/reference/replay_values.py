"""Values of the reference replay: one object per batch, producer, transaction, marker and anomaly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kforensics.forensics.core.record_types import PRODUCER, Anomaly, ProducerArray, TransactionOutcome
from kforensics.parsers.format.control_records import control_fields
from kforensics.parsers.format.rows import Batch, Record

NONE = -1
OUTCOMES = {"COMMIT": TransactionOutcome.COMMITTED, "ABORT": TransactionOutcome.ABORTED}


@dataclass(frozen=True, slots=True)
class Marker:
    """The COMMIT or ABORT marker in a control batch.

    Attributes:
        outcome: outcome of the transaction that it ends.
        coordinator_epoch: epoch of the coordinator that wrote it.
    """

    outcome: TransactionOutcome
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """The fields of a batch that the replay needs.

    Attributes:
        base_offset: first offset.
        last_offset: last offset, which does not change when the log cleaner removes records.
        count: number of records.
        producer_id: -1 for none.
        producer_epoch: -1 for none.
        base_sequence: sequence of the first record, -1 for none.
        last_sequence: sequence of the last record, -1 for none.
        is_transactional: whether the records belong to a transaction.
        is_control: whether the records are markers or other control records.
        max_timestamp: largest timestamp of the records according to the header; of a marker, that of its one record.
        size: bytes of the batch.
        marker: the marker in a control batch, None without a readable marker.
        exact: False for a compressed entry of format 0 or 1, whose header lacks the first offset.
        segment: index of the segment in the partition.
        position: byte position in the segment.
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
    """One of the batches by which a broker recognizes a retry.

    Attributes:
        last_sequence: sequence of the last record.
        last_offset: offset of the last record.
        offset_delta: last offset minus first offset.
        timestamp: maximum timestamp.
    """

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class Producer:
    """The state of a producer id as a replica keeps it.

    Rule: ``org.apache.kafka.storage.internals.log.ProducerStateEntry``.

    Attributes:
        producer_id: the producer id.
        producer_epoch: epoch of the last batch or marker.
        recent: up to five batches of this epoch, oldest first.
        last_timestamp: timestamp of the last batch or marker.
        coordinator_epoch: coordinator epoch of the last marker, -1 without a marker.
        current_txn_first_offset: first offset of the open transaction, -1 for none.
    """

    producer_id: int
    producer_epoch: int = NONE
    recent: tuple[RecentBatch, ...] = ()
    last_timestamp: int = NONE
    coordinator_epoch: int = NONE
    current_txn_first_offset: int = NONE

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record written in this epoch, -1 for none."""
        return self.recent[-1].last_sequence if self.recent else NONE

    @property
    def last_offset(self) -> int:
        """Offset of the last record written in this epoch, -1 for none."""
        return self.recent[-1].last_offset if self.recent else NONE

    @property
    def offset_delta(self) -> int:
        """Last offset minus first offset of the last batch of this epoch; 0 for none, as in a ``.snapshot`` file."""
        return self.recent[-1].offset_delta if self.recent else 0


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction in this partition, from its first batch to its marker.

    For a transaction that was open at a snapshot, ``batches``, ``records`` and ``bytes`` count only what comes after
    the snapshot.

    Attributes:
        producer_id: the producer id.
        producer_epoch: epoch of the last data batch; the epoch of the marker may be higher.
        lowest_epoch: lowest epoch of the data batches.
        highest_epoch: highest epoch of the data batches.
        first_offset: first offset of the data.
        last_offset: last offset of the data.
        batches: number of data batches.
        records: number of records in them.
        bytes: their bytes.
        first_timestamp: smallest maximum timestamp of the batches, None if some precede a snapshot.
        last_timestamp: largest maximum timestamp of the batches.
        first_offset_exact: False if the transaction may have started before the available log.
        outcome: how it ended.
        marker_offset: offset of the marker; None while the transaction is open, as are the next three.
        marker_epoch: producer epoch of the marker.
        coordinator_epoch: coordinator epoch of the marker.
        marker_timestamp: timestamp of the marker.
        segment: index of the segment of the first available batch; -1 if that precedes a snapshot.
        position: byte position in that segment, or -1.
        marker_segment: index of the segment of the marker; -1 while the transaction is open.
        marker_position: byte position in that segment, or -1.
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
    outcome: TransactionOutcome = TransactionOutcome.OPEN
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
    """A marker that ended no transaction of its producer.

    Attributes:
        producer_id: the producer id.
        marker_offset: offset of the marker.
        marker_epoch: producer epoch of the marker.
        coordinator_epoch: coordinator epoch of the marker.
        marker_timestamp: timestamp of the marker.
        outcome: the outcome that the marker states.
        exact: False if it may have ended a transaction whose data precedes the available log.
        segment: index of the segment in the partition.
        position: byte position in the segment.
    """

    producer_id: int
    marker_offset: int
    marker_epoch: int
    coordinator_epoch: int
    marker_timestamp: int
    outcome: TransactionOutcome
    exact: bool = True
    segment: int = 0
    position: int = 0


@dataclass(frozen=True, slots=True)
class AnomalyRow:
    """An event that a leader with full knowledge of the producer would not have written.

    Attributes:
        kind: the kind of anomaly.
        producer_id: producer id of the batch or marker.
        producer_epoch: epoch of the batch or marker.
        first_offset: first offset of the batch or marker.
        last_offset: last offset of the batch or marker.
        timestamp: maximum timestamp of the batch or marker.
        amount: records missing or repeated; epochs regressed or bumped; 0 if not counted.
        previous_offset: last offset of the producer's earlier event that conflicts with it, -1 for none.
        previous_timestamp: timestamp of that event, None for none.
        offset_gap: offsets missing from the log between the two.
        segment: index of the segment in the partition.
        position: byte position in the segment.
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
    offset_gap: int = 0
    segment: int = 0
    position: int = 0


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """The ``.txnindex`` entry of an ABORT marker, as the leader writes it.

    On a follower, ``last_stable_offset`` may be the first offset of a transaction that starts after the marker in the
    same fetch, if no other transaction was open.

    Attributes:
        producer_id: the producer id.
        first_offset: first offset of the data.
        last_offset: offset of the marker.
        last_stable_offset: smallest first offset of the other open transactions, else the offset after the marker.
        first_offset_exact: False if the transaction may have started before the available log.
        last_stable_offset_exact: False if other transactions may be open from before the available log.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    first_offset_exact: bool = True
    last_stable_offset_exact: bool = True


@dataclass(frozen=True, slots=True)
class LastStableOffset:
    """The offset up to which a read_committed consumer can read.

    Attributes:
        last_stable_offset: that offset; the largest possible one, if it is not exact.
        lowest: the smallest possible one.
        blocking_transaction: the transaction that keeps it below the high watermark, None for none.
    """

    last_stable_offset: int
    lowest: int
    blocking_transaction: Transaction | None

    @property
    def exact(self) -> bool:
        """Whether no transaction from before the available log can lower it."""
        return self.lowest == self.last_stable_offset


def batch_summary(batch: Batch, first_record: Record | None = None, segment: int = 0) -> BatchSummary:
    """Return the fields of a batch that the replay needs.

    The header of a compressed entry of format 0 or 1 has only the last offset, so such an entry counts as its last
    record alone. It has no producer, so no state depends on the other records.

    Args:
        batch: the header.
        first_record: first record of a control batch, None if it has no readable record.
        segment: index of the segment in the partition.
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
    """Return the marker in a control record, None if it has another type or is too short for Kafka to replay."""
    control_type, coordinator_epoch = control_fields(record)
    if control_type not in OUTCOMES or coordinator_epoch is None:
        return None
    return Marker(OUTCOMES[control_type], coordinator_epoch)


def producer_records(producers: Iterable[Producer]) -> ProducerArray:
    """Return producers as PRODUCER records, by producer id; of several with one id, the last."""
    by_id = {producer.producer_id: producer for producer in producers}
    records = np.zeros(len(by_id), PRODUCER)
    for record, producer_id in zip(records, sorted(by_id), strict=True):
        producer = by_id[producer_id]
        for name in PRODUCER.names or ():
            if not name.startswith("recent"):
                record[name] = getattr(producer, name)
        record["recent_count"] = len(producer.recent)
        for index, batch in enumerate(producer.recent):
            record["recent"][index] = (batch.last_sequence, batch.last_offset, batch.offset_delta, batch.timestamp)
    return records


def producers_of(records: ProducerArray) -> list[Producer]:
    """Return the producers that PRODUCER records describe."""
    return [
        Producer(
            producer_id=int(record["producer_id"]),
            producer_epoch=int(record["producer_epoch"]),
            recent=tuple(RecentBatch(*values) for values in record["recent"][: record["recent_count"]].tolist()),
            last_timestamp=int(record["last_timestamp"]),
            coordinator_epoch=int(record["coordinator_epoch"]),
            current_txn_first_offset=int(record["current_txn_first_offset"]),
        )
        for record in records
    ]
