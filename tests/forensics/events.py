"""Batches in the short notation of the specification of transactions.

``D p e s0-s1 @base-last T`` is a transactional data batch, ``N`` instead of ``T`` another one, ``M p e C c @o`` a
COMMIT (``A``: ABORT) marker with coordinator epoch ``c``, ``plain @base-last`` a batch without producer and
``shell p @o`` a control batch without record. ``cnt n`` and ``ts n`` may follow. ``none`` stands for sequences of a
batch that has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from kforensics.forensics.core.record_types import (
    ANOMALY,
    EMPTY_MARKER,
    NO_TIME,
    PRODUCER,
    TRANSACTION,
    Ending,
    Records,
)
from kforensics.forensics.replay.fold import Replay
from kforensics.forensics.replay.replay_types import (
    AnomalyRow,
    BatchSummary,
    Boundary,
    BoundaryKind,
    EmptyMarker,
    Marker,
    Outcome,
    Producer,
    RecentBatch,
    Transaction,
)
from kforensics.parsers.columns.batch_columns import ABORT, COMMIT, NO_CONTROL, SHELL, BatchColumns
from kforensics.parsers.format.rows import CONTROL_BIT, TRANSACTIONAL_BIT
from kforensics.parsers.state.producer_snapshot import ProducerSnapshotEntry

SIZE = 100
NOW = 1_700_000_000_000
EVENT = re.compile(
    r"(?P<kind>D|M|plain|shell)(?: (?P<pid>\d+))?(?: (?P<epoch>\d+))?"
    r"(?: none| (?P<s0>\d+)-(?P<s1>\d+)| (?P<outcome>[AC]) (?P<coordinator>\d+))?"
    r" @(?P<base>\d+)(?:-(?P<last>\d+))?(?P<tx> T| N)?(?: cnt (?P<cnt>\d+))?(?: ts (?P<ts>\d+))?"
)
OUTCOMES = {"A": Outcome.ABORTED, "C": Outcome.COMMITTED}


def events(text: str) -> list[BatchSummary]:
    """Return the batches of a log, separated by semicolons."""
    return [_event(part.strip()) for part in text.split(";") if part.strip()]


def _event(text: str) -> BatchSummary:
    found = EVENT.fullmatch(text)
    assert found is not None, text
    base = int(found["base"])
    last = int(found["last"] or base)
    kind = found["kind"]
    timestamp = int(found["ts"] or NOW + base)
    marker = Marker(OUTCOMES[found["outcome"]], int(found["coordinator"])) if kind == "M" else None
    return BatchSummary(
        base_offset=base,
        last_offset=last,
        count=0 if kind == "shell" else int(found["cnt"] or last - base + 1),
        producer_id=int(found["pid"] or -1),
        producer_epoch=int(found["epoch"] or -1),
        base_sequence=int(found["s0"] or -1),
        last_sequence=int(found["s1"] or -1),
        is_transactional=kind in ("M", "shell") or found["tx"] == " T",
        is_control=kind in ("M", "shell"),
        max_timestamp=timestamp,
        size=SIZE,
        marker=marker,
    )


def columns_of(batches: Iterable[BatchSummary]) -> BatchColumns:
    """Return the columns of batches."""
    return BatchColumns.of_rows([_row(batch) for batch in batches])


def _row(batch: BatchSummary) -> tuple[Any, ...]:
    control = SHELL if batch.is_control else NO_CONTROL
    if batch.marker is not None:
        control = ABORT if batch.marker.outcome is Outcome.ABORTED else COMMIT
    attributes = TRANSACTIONAL_BIT * batch.is_transactional + CONTROL_BIT * batch.is_control
    coordinator_epoch = -1 if batch.marker is None else batch.marker.coordinator_epoch
    return (
        *(batch.segment, batch.position, batch.size, batch.base_offset, batch.last_offset, batch.count),
        *(2, 0, attributes, True, batch.max_timestamp),
        *(batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence),
        *(control, coordinator_epoch, batch.exact),
    )


ENDINGS = {Outcome.ABORTED: Ending.ABORTED, Outcome.COMMITTED: Ending.COMMITTED, Outcome.OPEN: Ending.OPEN}


def rows_of(replay: Replay) -> dict[str, list[tuple[Any, ...]]]:
    """Return what a replay found as the values of the records that say the same, each kind sorted."""
    return {
        "transactions": sorted(_transaction(one) for one in replay.transactions),
        "open_transactions": sorted(_transaction(one) for one in replay.open_transactions),
        "empty_markers": sorted(_empty_marker(one) for one in replay.empty_markers),
        "anomalies": sorted(_anomaly(one) for one in replay.anomalies),
        "producers": sorted(_producer(one) for one in replay.producers.values()),
    }


def records_of_replay(replay: Replay) -> tuple[Records, Records]:
    """Return the transactions of a replay, closed ones first, and its empty markers, as records."""
    transactions = [_transaction(one) for one in (*replay.transactions, *replay.open_transactions)]
    return np.array(transactions, TRANSACTION), np.array(
        [_empty_marker(one) for one in replay.empty_markers], EMPTY_MARKER
    )


def values_of(records: Records) -> list[tuple[Any, ...]]:
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


def _transaction(one: Transaction) -> tuple[Any, ...]:
    return _in_order(
        TRANSACTION,
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        lowest_epoch=one.lowest_epoch,
        highest_epoch=one.highest_epoch,
        first_offset=one.first_offset,
        last_offset=one.last_offset,
        marker_offset=_number(one.marker_offset),
        marker_epoch=_number(one.marker_epoch),
        coordinator_epoch=_number(one.coordinator_epoch),
        ending=ENDINGS[one.outcome].value,
        batches=one.batches,
        records=one.records,
        bytes=one.bytes,
        first_timestamp=_time(one.first_timestamp),
        last_timestamp=one.last_timestamp,
        marker_timestamp=_time(one.marker_timestamp),
        first_offset_exact=one.first_offset_exact,
        segment=one.segment,
        position=one.position,
        marker_segment=one.marker_segment,
        marker_position=one.marker_position,
    )


def _empty_marker(one: EmptyMarker) -> tuple[Any, ...]:
    names = [name for name in EMPTY_MARKER.names or () if name != "ending"]
    return _in_order(EMPTY_MARKER, ending=ENDINGS[one.outcome].value, **{name: getattr(one, name) for name in names})


def _anomaly(one: AnomalyRow) -> tuple[Any, ...]:
    found = {name: getattr(one, name) for name in ANOMALY.names or ()}
    return _in_order(ANOMALY, **found | {"kind": one.kind.value, "previous_timestamp": _time(one.previous_timestamp)})


def _producer(one: Producer) -> tuple[Any, ...]:
    unused = [(0, 0, 0, 0)] * (5 - len(one.recent))
    recent = [(each.last_sequence, each.last_offset, each.offset_delta, each.timestamp) for each in one.recent]
    names = [name for name in PRODUCER.names or () if not name.startswith("recent")]
    found = {name: getattr(one, name) for name in names}
    return _in_order(PRODUCER, **found, recent_count=len(recent), recent=recent + unused)


def snapshot_boundary(offset: int, entries: Iterable[ProducerSnapshotEntry]) -> Boundary:
    """Return the boundary a ``.snapshot`` describes: all batches below its offset are in its entries.

    Args:
        offset: the number in its name.
        entries: its entries, of which each holds the newest batch of a producer only.
    """
    return Boundary(BoundaryKind.SNAPSHOT, offset, tuple(_producer_of(entry) for entry in entries))


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
