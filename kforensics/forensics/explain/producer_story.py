"""Explain a producer in a partition: its transactions, its producer state and its anomalies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kforensics.forensics.core.record_types import Anomaly, TransactionArray, TransactionOutcome
from kforensics.forensics.explain.batch_evidence import next_snapshot
from kforensics.forensics.explain.offset_explainer import bounds_of
from kforensics.forensics.explain.offset_story import LogBounds
from kforensics.forensics.partition.blocking_transactions import are_expired, copy_time
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.transaction_store import NO_TRANSACTIONS
from kforensics.parsers.log.log_rows import Place

# Transactions shown in full; the others are only counted.
LAST = 3
OUTCOME_NAMES = {
    TransactionOutcome.COMMITTED: "committed",
    TransactionOutcome.ABORTED: "aborted",
    TransactionOutcome.OPEN: "open",
    TransactionOutcome.FORGOTTEN: "forgotten",
}


@dataclass(frozen=True, slots=True, eq=False)
class ProducerStory:
    """The explanation of a producer in a partition.

    Attributes:
        place: the partition.
        folder: folder of the partition.
        producer_id: the producer.
        transactional_id: its transactional id, None if no available coordinator's log has it.
        state: PRODUCER record: the broker's producer state at the end of the log; None if the broker has none.
        is_exact: whether no batch from before the available log can change this state.
        is_expired: whether the state has expired by the time of evaluation.
        counts: number of transactions by outcome: committed, aborted, open, forgotten.
        records: records in its transactions.
        last: TRANSACTION records of its last transactions, in the order of their markers.
        epochs: lowest and highest epoch of its transactions and their markers, None if it has none.
        empty_markers: markers that ended no data.
        anomalies: number of anomalies that the replay found, by the code of the finding.
        bounds: the offsets between which consumers of the partition are served.
        snapshot: path of the newest snapshot, and its PRODUCER record, None if it has no entry for the producer; None
            without a snapshot.
        paths: paths of the segments.
    """

    place: Place
    folder: str
    producer_id: int
    transactional_id: str | None
    state: np.void | None
    is_exact: bool
    is_expired: bool
    counts: Mapping[str, int]
    records: int
    last: TransactionArray
    epochs: tuple[int, int] | None
    empty_markers: int
    anomalies: Mapping[str, int]
    bounds: LogBounds
    snapshot: tuple[str, np.void | None] | None = None
    paths: tuple[str, ...] = ()

    @property
    def holds_last_stable_offset(self) -> bool:
        """Whether one of its transactions blocks the last stable offset."""
        transaction = self.bounds.blocking_transaction
        return transaction is not None and int(transaction["producer_id"]) == self.producer_id


def producer_story(
    state: PartitionState, producer_id: int, transactional_id: str | None = None
) -> ProducerStory | None:
    """Return the explanation of a producer, None if it does not appear in the partition.

    Args:
        state: the partition.
        producer_id: the producer.
        transactional_id: its transactional id, if known.
    """
    producers = state.producers[state.producers["producer_id"] == producer_id]
    transactions = _TransactionTotals()
    for rows in state.transaction_store.with_forgotten():
        transactions.add(rows[rows["producer_id"] == producer_id])
    empty_markers = int((state.empty_markers["producer_id"] == producer_id).sum())
    kinds = state.anomalies["kind"][state.anomalies["producer_id"] == producer_id].tolist()
    transaction_count = sum(transactions.counts.values())
    if not len(producers) and not transactions.records and not empty_markers and not transaction_count:
        return None
    producer = producers[0] if len(producers) else None
    return ProducerStory(
        place=state.partition.place,
        folder=state.partition.folder,
        producer_id=producer_id,
        transactional_id=transactional_id,
        state=producer,
        is_exact=_is_exact(state, producer),
        is_expired=producer is not None and bool(are_expired(producer, copy_time(state), state.rules.pid_expiry_ms)),
        counts=transactions.counts,
        records=transactions.records,
        last=transactions.last,
        epochs=transactions.epochs,
        empty_markers=empty_markers,
        anomalies=Counter(Anomaly(kind).name.lower().replace("_", "-") for kind in kinds),
        bounds=bounds_of(state),
        snapshot=next_snapshot(state, max(state.partition.snapshots, default=0) - 1, producer_id),
        paths=tuple(segment.path for segment in state.partition.segments),
    )


class _TransactionTotals:
    """Aggregates the transactions of a producer, page by page."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(OUTCOME_NAMES.values(), 0)
        self.records, self.last = 0, NO_TRANSACTIONS
        self.epochs: tuple[int, int] | None = None

    def add(self, rows: TransactionArray) -> None:
        if not len(rows):
            return
        for outcome, name in OUTCOME_NAMES.items():
            self.counts[name] += int((rows["outcome"] == outcome).sum())
        self.records += int(rows["records"].sum())
        self.last = np.concatenate([self.last, rows])[-LAST:]
        low, high = int(rows["lowest_epoch"].min()), int(max(rows["highest_epoch"].max(), rows["marker_epoch"].max()))
        self.epochs = (low, high) if self.epochs is None else (min(self.epochs[0], low), max(self.epochs[1], high))


def _is_exact(state: PartitionState, producer: np.void | None) -> bool:
    """Return whether a producer state is exact: it is after the producer's first available marker."""
    is_marked = producer is not None and int(producer["coordinator_epoch"]) >= 0
    return is_marked or (state.exact_from is not None and not state.is_broken)
