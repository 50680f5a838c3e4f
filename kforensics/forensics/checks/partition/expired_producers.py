"""Checks for idempotent producers whose old timestamps make the broker expire them immediately.

Rule: ``ProducerStateManager.isProducerExpired``: a producer expires once the largest timestamp of its newest batch is
older than ``producer.id.expiration.ms``. With create time the client sets that timestamp. What the broker wrote earlier
in the log gives a lower bound for the time of an append: markers, batches with log append time, whole segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

import numpy as np

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.broker_settings import PRODUCER_EXPIRY
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_duration, format_time
from kforensics.forensics.core.observations import ObservationArray, Observed, batches, observations_of, observe
from kforensics.forensics.core.record_types import NO_TIME, Anomaly, ProducerArray
from kforensics.forensics.core.reporting import Row, first_n
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.log_summary import Collector
from kforensics.forensics.partition.marker_times import newest_marker_times
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.producer_history import anomalies_of
from kforensics.parsers.columns.batch_columns import ABORT, COMMIT, NO_CONTROL, BatchColumns
from kforensics.parsers.format.array_types import BoolArray, IntArray
from kforensics.parsers.format.rows import LOG_APPEND_TIME_BIT, TRANSACTIONAL_BIT

CODES = by_name(
    Code(
        "producer-expired-by-timestamp",
        Severity.WARNING,
        meaning="The timestamps of an idempotent producer are so old that the broker expires it immediately.",
        remedy="Search this log for duplicates: retries were not detected. Use log append time for imports.",
        why=(
            "A broker expires a producer once its newest timestamp is older than producer.id.expiration.ms, one "
            "day by default. With create time that is the client's timestamp. A producer of old data expires as "
            "soon as it has written, and a retry counts as new data."
        ),
        benign=(
            "Old data is imported or mirrored. As long as the sequences of the producer show neither a repeated batch "
            "nor a gap, the severity is only info. By default brokers before 3.4 expire producers after a week; less "
            "than that is an info if the release is unknown."
        ),
    ),
)

NO_TIMESTAMP = -1
# Old enough for every comparison, and near enough that differences do not overflow.
FAR_PAST = NO_TIME // 2
Clock: TypeAlias = Callable[[PartitionState, IntArray], IntArray]
IMPORT = "import of old data where duplicates do no harm: possible"


def _missing_timestamps(chunk: BatchColumns, _: Rules) -> Iterator[ObservationArray]:
    is_affected = (chunk.max_timestamp == NO_TIMESTAMP) & _is_idempotent(chunk)
    if is_affected.any():
        yield observe(Observed.PRODUCER_EXPIRED_BY_TIMESTAMP, chunk, is_affected, amount=NO_TIME)


def _old_timestamps(before: BatchColumns, after: BatchColumns, rules: Rules) -> Iterator[ObservationArray]:
    broker_time, timestamp = before.max_timestamp, after.max_timestamp
    is_append_time = (before.magic >= 1) & (before.attributes & LOG_APPEND_TIME_BIT != 0)
    is_broker_time = before.crc_valid & (is_append_time | (before.control == ABORT) | (before.control == COMMIT))
    is_broker_time &= (broker_time >= 0) & (broker_time <= _now(rules))
    age = broker_time - np.maximum(timestamp, FAR_PAST)
    is_expired = is_broker_time & (age > rules.pid_expiry_ms) & (timestamp != NO_TIMESTAMP) & _is_idempotent(after)
    if is_expired.any():
        yield observe(Observed.PRODUCER_EXPIRED_BY_TIMESTAMP, after, is_expired, amount=age, previous=broker_time)


COLLECTOR = Collector(batches=_missing_timestamps, neighbors=_old_timestamps)


def _now(rules: Rules) -> int:
    return rules.as_of_ms + rules.clock_skew_ms


def _is_idempotent(chunk: BatchColumns) -> BoolArray:
    """Return which batches are data with create time of producers without transactions.

    Transactions keep their producer alive by themselves.
    """
    is_transactional = chunk.attributes & TRANSACTIONAL_BIT != 0
    is_create_time = chunk.attributes & LOG_APPEND_TIME_BIT == 0
    is_data = chunk.crc_valid & (chunk.count > 0) & (chunk.control == NO_CONTROL) & (chunk.magic >= 2)
    is_idempotent: BoolArray = is_data & (chunk.producer_id >= 0) & ~is_transactional & is_create_time
    return is_idempotent


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield expired producers: by the observations, then by the broker's time when it appended their newest batch."""
    observations = observations_of(state.log.observations, Observed.PRODUCER_EXPIRED_BY_TIMESTAMP)
    # The cleaner lowers the timestamp of a batch when it removes the newest record.
    observations = observations[observations["last_offset"] >= state.first_uncompacted_offset]
    yield from first_n(observations, partial(_observed, state))
    expired, broker_time = _expired_by(state, _marker_clock, observations["producer_id"])
    yield from first_n(expired, partial(_expired, state, "preceding marker", Exactness.EXACT), broker_time=broker_time)
    reported = np.concatenate([observations["producer_id"], expired["producer_id"]])
    expired, broker_time = _expired_by(state, _file_clock, reported)
    yield from first_n(
        expired, partial(_expired, state, "preceding segment", Exactness.APPROXIMATE), broker_time=broker_time
    )
    yield from _imported(state, np.concatenate([reported, expired["producer_id"]]))


def _observed(state: PartitionState, row: Row) -> Finding:
    producer = row["producer_id"]
    if row["amount"] == NO_TIME:
        message = f"Producer {producer} wrote data without a timestamp in {batches(row['count'])}."
    else:
        message = (
            f"Producer {producer} wrote data {format_duration(row['amount'])} older than the broker's preceding batch."
        )
    is_certain = row["amount"] == NO_TIME or row["amount"] > state.rules.certain_pid_expiry_ms
    return state.finding(
        CODES["producer-expired-by-timestamp"],
        message,
        severity=_severity(state, producer, is_certain=is_certain),
        at=(row["segment"], row["position"]),
        offsets=(row["first_offset"], row["last_offset"]),
        producer=(producer, row["producer_epoch"]),
        evidence={
            "batches": row["count"],
            "expiry_ms": state.rules.pid_expiry_ms,
            **state.rules.evidence(PRODUCER_EXPIRY),
        },
        benign=(IMPORT,),
    )


def _severity(state: PartitionState, producer_id: int, *, is_certain: bool) -> Severity | None:
    """Return INFO if the producer may not have expired, or none of its batches was written twice or is missing.

    Otherwise None, for the severity of the code.
    """
    if not is_certain:
        return Severity.INFO
    harmed = anomalies_of(state, Anomaly.SEQ_DUPLICATE_BATCH, Anomaly.SEQ_OVERLAP, Anomaly.SEQ_GAP)["producer_id"]
    return None if producer_id in harmed else Severity.INFO


def _marker_clock(state: PartitionState, offsets: IntArray) -> IntArray:
    """Return the newest marker timestamp before each offset, NO_TIME where there is no marker."""
    return newest_marker_times(state, offsets, _now(state.rules))


def _file_clock(state: PartitionState, offsets: IntArray) -> IntArray:
    """Return the newest file time of a segment before each offset, NO_TIME where there is none.

    A file time counts only if the segment has data of that time, so it is not that of a copy.
    """
    segments = state.log.segments
    written = [state.partition.segments[segment].mtime_ms for segment in segments["segment"].tolist()]
    times = np.array([NO_TIME if time is None else time for time in written], "i8")
    earliest = np.maximum(times, FAR_PAST) - state.rules.pid_expiry_ms
    newest = segments["max_timestamp"]
    agrees = (times <= _now(state.rules)) & (newest >= earliest) & (newest <= times + state.rules.clock_skew_ms)
    ends, times = segments["last_offset"][agrees], times[agrees]
    order = np.argsort(ends, kind="stable")
    times = np.maximum.accumulate(np.append(NO_TIME, times[order]))
    return times[np.searchsorted(ends[order], offsets)]


def _expired_by(state: PartitionState, clock: Clock, reported: IntArray) -> tuple[ProducerArray, IntArray]:
    """Return producers whose newest data was too old when it was appended, with a lower bound for that time.

    Args:
        state: the partition.
        clock: returns a lower bound for the broker's time at each offset.
        reported: producer ids to leave out.
    """
    producers = state.producers
    # A transaction and its marker keep a producer alive by themselves.
    is_plain = (producers["current_txn_first_offset"] == -1) & (producers["coordinator_epoch"] == -1)
    is_plain &= (producers["last_sequence"] >= 0) & (producers["last_timestamp"] != NO_TIMESTAMP)
    is_plain &= producers["last_offset"] >= state.first_uncompacted_offset
    is_plain &= ~np.isin(producers["producer_id"], reported)
    plain = np.flatnonzero(is_plain)
    if not len(plain):
        return producers[:0], plain
    broker_time = clock(state, producers["last_offset"][plain])
    age = np.maximum(broker_time, 0) - np.maximum(producers["last_timestamp"][plain], FAR_PAST)
    is_expired = (broker_time >= 0) & (age > state.rules.pid_expiry_ms)
    return producers[plain[is_expired]], broker_time[is_expired]


def _expired(state: PartitionState, clock_name: str, exactness: Exactness, row: Row) -> Finding:
    last, timestamp, broker_time = row["last_offset"], row["last_timestamp"], row["broker_time"]
    return state.finding(
        CODES["producer-expired-by-timestamp"],
        f"The newest data of producer {row['producer_id']} has timestamp {format_time(timestamp)}, but the "
        f"{clock_name} is of {format_time(broker_time)}.",
        severity=_severity(
            state, row["producer_id"], is_certain=broker_time - timestamp > state.rules.certain_pid_expiry_ms
        ),
        offsets=(last - row["offset_delta"], last),
        producer=(row["producer_id"], row["producer_epoch"]),
        evidence={
            "timestamp": timestamp,
            "broker_time": broker_time,
            "expiry_ms": state.rules.pid_expiry_ms,
            **state.rules.evidence(PRODUCER_EXPIRY),
        },
        exactness=exactness,
        benign=(IMPORT,),
    )


def _imported(state: PartitionState, reported: IntArray) -> Iterator[Finding]:
    """Yield a finding if even the newest data was too old when the file was last written.

    The file of a replica that was built later looks the same, so this is only a hint. So does any copy that does not
    preserve file times; but then all files have nearly the same time.
    """
    last, written = state.log.last, state.partition.segments[-1].mtime_ms if state.partition.segments else None
    if written is None or not len(last) or not _is_idempotent(last)[0] or last.producer_id[0] in reported:
        return
    newest, expiry = int(last.max_timestamp[0]), state.rules.pid_expiry_ms
    is_too_old = newest == state.log.newest_timestamp and expiry < written - newest
    if not is_too_old or written > _now(state.rules) or _file_time_range(state) <= expiry:
        return
    offset = int(last.last_offset[0])
    yield state.finding(
        CODES["producer-expired-by-timestamp"],
        f"The newest data has timestamp {format_time(newest)}, but its segment was last written at "
        f"{format_time(written)}.",
        severity=Severity.INFO,
        at=(int(last.segment[0]), int(last.position[0])),
        offsets=(int(last.base_offset[0]), offset),
        producer=(int(last.producer_id[0]), int(last.producer_epoch[0])),
        evidence={
            "timestamp": newest,
            "broker_time": written,
            "expiry_ms": expiry,
            **state.rules.evidence(PRODUCER_EXPIRY),
        },
        exactness=Exactness.UNVERIFIABLE,
        benign=(IMPORT, "replica built later: possible"),
    )


def _file_time_range(state: PartitionState) -> int:
    """Return the time from the oldest file of the partition to the newest, or to the copy if that is later."""
    partition = state.partition
    by_offset = (partition.indexes, partition.time_indexes, partition.snapshots)
    files = [*partition.segments, *(file for files in by_offset for file in files.values()), *partition.others]
    times = [file.mtime_ms for file in files if file.mtime_ms is not None]
    return max([*times, state.rules.as_of_ms]) - min([*times, state.rules.as_of_ms])


CHECK = Check("expired_producers", CODES, findings, collector=COLLECTOR)
