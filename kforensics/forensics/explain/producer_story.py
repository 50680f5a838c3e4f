"""Tells the story of a producer in a partition whose log was examined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kforensics.forensics.core.record_types import Anomaly, Ending, Records
from kforensics.forensics.explain.batch_evidence import next_snapshot
from kforensics.forensics.explain.offset_explainer import bounds_of
from kforensics.forensics.explain.offset_story import LogBounds
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.transaction_store import NO_TRANSACTIONS
from kforensics.parsers.log.log_rows import Place

__all__ = ["ProducerStory", "producer_story"]

# Transactions of which more is told than how many there are.
LAST = 3
ENDINGS = {Ending.COMMITTED: "committed", Ending.ABORTED: "aborted", Ending.OPEN: "open"}


@dataclass(frozen=True, slots=True, eq=False)
class ProducerStory:
    """The story of a producer in a partition.

    Attributes:
        place: the partition.
        folder: where that lies.
        producer_id: the producer.
        transactional_id: whose it is, None if no coordinator's log on hand tells.
        state: PRODUCER record: what a broker knows of it at the end of the log; None if it knows nothing.
        is_exact: whether nothing from before the log on hand can change that state.
        is_expired: whether a broker would have forgotten it by the time of evaluation.
        counts: transactions by how they ended: committed, aborted, open.
        records: records in its transactions.
        last: TRANSACTION records of its last transactions, in the order of their markers.
        epochs: lowest and highest epoch of its transactions and their markers, None if it has none.
        empty_markers: markers that ended nothing.
        anomalies: what the replay met, by the name of the finding, and how often.
        bounds: between which offsets consumers of the partition are served.
        snapshot: path of the newest snapshot, and its PRODUCER record, None if it does not know the producer; None
            where there is no snapshot.
        paths: of the segments.
    """

    place: Place
    folder: str
    producer_id: int
    transactional_id: str | None
    state: Any
    is_exact: bool
    is_expired: bool
    counts: Mapping[str, int]
    records: int
    last: Records
    epochs: tuple[int, int] | None
    empty_markers: int
    anomalies: Mapping[str, int]
    bounds: LogBounds
    snapshot: tuple[str, Any] | None = None
    paths: tuple[str, ...] = ()

    @property
    def holds_last_stable_offset(self) -> bool:
        """Whether its transaction is the one that holds the last stable offset back."""
        holder = self.bounds.holder
        return holder is not None and int(holder["producer_id"]) == self.producer_id


def producer_story(case: Case, producer_id: int, transactional_id: str | None = None) -> ProducerStory | None:
    """Return the story of a producer, None if nothing in the partition is of it.

    Args:
        case: the partition.
        producer_id: the producer.
        transactional_id: whose it is, where that is known.
    """
    states = case.producers[case.producers["producer_id"] == producer_id]
    seen = _Transactions()
    for rows in case.ledger:
        seen.add(rows[rows["producer_id"] == producer_id])
    empty = int((case.empty_markers["producer_id"] == producer_id).sum())
    kinds = case.anomalies["kind"][case.anomalies["producer_id"] == producer_id].tolist()
    if not len(states) and not seen.records and not empty and not sum(seen.counts.values()):
        return None
    state = states[0] if len(states) else None
    return ProducerStory(
        place=case.partition.place,
        folder=case.partition.folder,
        producer_id=producer_id,
        transactional_id=transactional_id,
        state=state,
        is_exact=_is_exact(case, state),
        is_expired=state is not None and _is_expired(case, state),
        counts=seen.counts,
        records=seen.records,
        last=seen.last,
        epochs=seen.epochs,
        empty_markers=empty,
        anomalies=Counter(Anomaly(kind).name.lower().replace("_", "-") for kind in kinds),
        bounds=bounds_of(case),
        snapshot=next_snapshot(case, max(case.partition.snapshots, default=0) - 1, producer_id),
        paths=tuple(segment.path for segment in case.partition.segments),
    )


class _Transactions:
    """What the transactions of a producer amount to, taken part by part."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(ENDINGS.values(), 0)
        self.records, self.last = 0, NO_TRANSACTIONS
        self.epochs: tuple[int, int] | None = None

    def add(self, rows: Records) -> None:
        if not len(rows):
            return
        for ending, name in ENDINGS.items():
            self.counts[name] += int((rows["ending"] == ending).sum())
        self.records += int(rows["records"].sum())
        self.last = np.concatenate([self.last, rows])[-LAST:]
        low, high = int(rows["lowest_epoch"].min()), int(max(rows["highest_epoch"].max(), rows["marker_epoch"].max()))
        self.epochs = (low, high) if self.epochs is None else (min(self.epochs[0], low), max(self.epochs[1], high))


def _is_exact(case: Case, state: Any) -> bool:
    """Behind its first marker on hand a producer is known exactly."""
    marked = state is not None and int(state["coordinator_epoch"]) >= 0
    return marked or (case.exact_from is not None and not case.is_broken)


def _is_expired(case: Case, state: Any) -> bool:
    """A broker forgets a producer without an open transaction some time after its last write."""
    silent = case.rules.as_of_ms - int(state["last_timestamp"])
    return int(state["current_txn_first_offset"]) < 0 and silent >= case.rules.pid_expiry_ms
