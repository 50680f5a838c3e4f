"""Batches in the short notation of the specification of transactions.

``D p e s0-s1 @base-last T`` is a transactional data batch, with ``N`` instead of ``T`` a non-transactional one.
``M p e C c @o`` is a COMMIT marker (``A``: ABORT) with coordinator epoch ``c``. ``plain @base-last`` is a batch without
a producer, and ``empty p @o`` a control batch without records. ``cnt n`` and ``ts n`` may follow. ``none`` replaces the
sequences of a batch that has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from kforensics.forensics.core.producer_states import ProducerStates
from kforensics.forensics.core.record_types import (
    ANOMALY,
    EMPTY_MARKER,
    NO_TIME,
    PRODUCER,
    TRANSACTION,
    EmptyMarkerArray,
    TransactionArray,
    TransactionOutcome,
)
from kforensics.forensics.replay.boundary import Boundary, BoundaryKind
from kforensics.parsers.columns.batch_columns import ABORT, COMMIT, EMPTY_CONTROL_BATCH, NO_CONTROL, BatchColumns
from kforensics.parsers.format.array_types import StructArray
from kforensics.parsers.format.rows import CONTROL_BIT, TRANSACTIONAL_BIT
from kforensics.parsers.state.producer_snapshot import ProducerSnapshotEntry
from tests.reference.fold import Replay
from tests.reference.replay_values import (
    AnomalyRow,
    BatchSummary,
    EmptyMarker,
    Marker,
    Producer,
    RecentBatch,
    Transaction,
    producer_records,
)

SIZE = 100
NOW = 1_700_000_000_000
BATCH = re.compile(
    r"(?P<kind>D|M|plain|empty)(?: (?P<pid>\d+))?(?: (?P<epoch>\d+))?"
    r"(?: none| (?P<s0>\d+)-(?P<s1>\d+)| (?P<outcome>[AC]) (?P<coordinator>\d+))?"
    r" @(?P<base>\d+)(?:-(?P<last>\d+))?(?P<tx> T| N)?(?: cnt (?P<cnt>\d+))?(?: ts (?P<ts>\d+))?"
)
OUTCOMES = {"A": TransactionOutcome.ABORTED, "C": TransactionOutcome.COMMITTED}


def parse_batches(text: str) -> list[BatchSummary]:
    """Return the batches of a log, whose notation is separated by semicolons."""
    return [_batch(part.strip()) for part in text.split(";") if part.strip()]


def _batch(text: str) -> BatchSummary:
    fields = BATCH.fullmatch(text)
    assert fields is not None, text
    base = int(fields["base"])
    last = int(fields["last"] or base)
    kind = fields["kind"]
    timestamp = int(fields["ts"] or NOW + base)
    marker = Marker(OUTCOMES[fields["outcome"]], int(fields["coordinator"])) if kind == "M" else None
    return BatchSummary(
        base_offset=base,
        last_offset=last,
        count=0 if kind == "empty" else int(fields["cnt"] or last - base + 1),
        producer_id=int(fields["pid"] or -1),
        producer_epoch=int(fields["epoch"] or -1),
        base_sequence=int(fields["s0"] or -1),
        last_sequence=int(fields["s1"] or -1),
        is_transactional=kind in ("M", "empty") or fields["tx"] == " T",
        is_control=kind in ("M", "empty"),
        max_timestamp=timestamp,
        size=SIZE,
        marker=marker,
    )


def columns_of(batches: Iterable[BatchSummary]) -> BatchColumns:
    """Return the columns of batches."""
    return BatchColumns.of_rows([_row(batch) for batch in batches])


def _row(batch: BatchSummary) -> tuple[Any, ...]:
    control = EMPTY_CONTROL_BATCH if batch.is_control else NO_CONTROL
    if batch.marker is not None:
        control = ABORT if batch.marker.outcome is TransactionOutcome.ABORTED else COMMIT
    attributes = TRANSACTIONAL_BIT * batch.is_transactional + CONTROL_BIT * batch.is_control
    coordinator_epoch = -1 if batch.marker is None else batch.marker.coordinator_epoch
    return (
        *(batch.segment, batch.position, batch.size, batch.base_offset, batch.last_offset, batch.count),
        *(2, 0, attributes, True, batch.max_timestamp),
        *(batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence),
        *(control, coordinator_epoch, batch.exact),
    )


def rows_of(replay: Replay) -> dict[str, list[tuple[Any, ...]]]:
    """Return the results of a replay as the values of the equivalent records, sorted by kind."""
    return {
        "transactions": sorted(map(_transaction, replay.transactions)),
        "open_transactions": sorted(map(_transaction, replay.open_transactions)),
        "empty_markers": sorted(map(_empty_marker, replay.empty_markers)),
        "anomalies": sorted(map(_anomaly, replay.anomalies)),
        "producers": sorted(map(_producer, replay.producers.values())),
    }


def records_of_replay(replay: Replay) -> tuple[TransactionArray, EmptyMarkerArray]:
    """Return the transactions of a replay, closed ones first, and its empty markers, as records."""
    transactions = [_transaction(row) for row in (*replay.transactions, *replay.open_transactions)]
    empty_markers = [_empty_marker(row) for row in replay.empty_markers]
    return np.array(transactions, TRANSACTION), np.array(empty_markers, EMPTY_MARKER)


def values_of(records: StructArray) -> list[tuple[Any, ...]]:
    """Return the values of records, sorted."""
    values = records.tolist()
    if records.dtype == PRODUCER:
        values = [(*value[:-1], value[-1].tolist()) for value in values]
    return sorted(values)


def _time(timestamp: int | None) -> int:
    return NO_TIME if timestamp is None else timestamp


def _number(offset: int | None) -> int:
    return -1 if offset is None else offset


def _in_order(dtype: Any, /, **numbers: Any) -> tuple[Any, ...]:
    return tuple(numbers[name] for name in dtype.names)


def _transaction(transaction: Transaction) -> tuple[Any, ...]:
    return _in_order(
        TRANSACTION,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        lowest_epoch=transaction.lowest_epoch,
        highest_epoch=transaction.highest_epoch,
        first_offset=transaction.first_offset,
        last_offset=transaction.last_offset,
        marker_offset=_number(transaction.marker_offset),
        marker_epoch=_number(transaction.marker_epoch),
        coordinator_epoch=_number(transaction.coordinator_epoch),
        outcome=transaction.outcome.value,
        batches=transaction.batches,
        records=transaction.records,
        bytes=transaction.bytes,
        first_timestamp=_time(transaction.first_timestamp),
        last_timestamp=transaction.last_timestamp,
        marker_timestamp=_time(transaction.marker_timestamp),
        first_offset_exact=transaction.first_offset_exact,
        segment=transaction.segment,
        position=transaction.position,
        marker_segment=transaction.marker_segment,
        marker_position=transaction.marker_position,
    )


def _empty_marker(marker: EmptyMarker) -> tuple[Any, ...]:
    names = [name for name in EMPTY_MARKER.names or () if name != "outcome"]
    values = {name: getattr(marker, name) for name in names}
    return _in_order(EMPTY_MARKER, outcome=marker.outcome.value, **values)


def _anomaly(anomaly: AnomalyRow) -> tuple[Any, ...]:
    values = {name: getattr(anomaly, name) for name in ANOMALY.names or ()}
    changed = {"kind": anomaly.kind.value, "previous_timestamp": _time(anomaly.previous_timestamp)}
    return _in_order(ANOMALY, **values | changed)


def _producer(producer: Producer) -> tuple[Any, ...]:
    unused = [(0, 0, 0, 0)] * (5 - len(producer.recent))
    recent = [
        (batch.last_sequence, batch.last_offset, batch.offset_delta, batch.timestamp) for batch in producer.recent
    ]
    names = [name for name in PRODUCER.names or () if not name.startswith("recent")]
    values = {name: getattr(producer, name) for name in names}
    return _in_order(PRODUCER, **values, recent_count=len(recent), recent=recent + unused)


def snapshot_boundary(offset: int, entries: Iterable[ProducerSnapshotEntry]) -> Boundary:
    """Return the boundary that a ``.snapshot`` describes: its entries include all batches below its offset.

    Args:
        offset: the number in its name.
        entries: its entries; each contains only the newest batch of a producer.
    """
    return Boundary(BoundaryKind.SNAPSHOT, offset, ProducerStates(producer_records(map(_producer_of, entries))))


def _producer_of(entry: ProducerSnapshotEntry) -> Producer:
    newest = RecentBatch(entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp)
    return Producer(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        recent=(newest,) if entry.has_batch else (),
        last_timestamp=entry.timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_first_offset=entry.current_txn_first_offset,
    )
