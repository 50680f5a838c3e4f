"""Idempotent producers whose timestamps make a broker forget them at once, and retries with them.

Rule: ``ProducerStateManager.isProducerExpired``: a producer is forgotten once the largest timestamp of its newest batch
is older than the expiry. Of data with create time that timestamp is the client's word. That a batch was appended after
some time is known from what the broker wrote in front of it: markers, batches with log append time, whole segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from kforensics.forensics.core.aggregation import batches
from kforensics.forensics.core.findings import Exactness, Finding, Severity, codes
from kforensics.forensics.core.observations import Noticed, noted, of_kind
from kforensics.forensics.core.record_types import NO_TIME, Records
from kforensics.forensics.core.reporting import Row, each, moment, span
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.log_summary import Noter
from kforensics.forensics.partition.marker_times import newest_marker_times
from kforensics.forensics.partition.partition_state import Case
from kforensics.parsers.columns.batch_columns import ABORT, COMMIT, NO_CONTROL, BatchColumns
from kforensics.parsers.format.rows import LOG_APPEND_TIME_BIT, TRANSACTIONAL_BIT

__all__ = ["CODES", "NOTER", "findings"]

CODES = codes("""
producer-expired-by-timestamp warning
A broker had to forget an idempotent producer at once, for the timestamps of its data are that old.
Duplicates from retries are not kept out of such a log: look for them, and use log append time for imports.
why: A broker forgets a producer once its newest timestamp is older than producer.id.expiration.ms, a day by default, \
and with create time that is the client's timestamp. Data from the past is forgotten as soon as it is written, and a \
retry of it is taken for new.
innocent: An import of old data, where duplicates do not matter or are removed later.
""")

NO_TIMESTAMP = -1
# So far back that a difference to it does not overflow.
FAR_PAST = NO_TIME // 2
Clock: TypeAlias = Callable[[Case, Any], Any]
IMPORT = "data that is being imported, where duplicates do no harm: possible"


def _of_batches(chunk: BatchColumns, _: Rules) -> Iterator[Records]:
    which = (chunk.max_timestamp == NO_TIMESTAMP) & _is_idempotent(chunk)
    if which.any():
        yield noted(Noticed.PRODUCER_EXPIRED_BY_TIMESTAMP, chunk, which, amount=NO_TIME)


def _of_neighbours(before: BatchColumns, after: BatchColumns, rules: Rules) -> Iterator[Records]:
    clock, timestamp = before.max_timestamp, after.max_timestamp
    is_append_time = (before.magic >= 1) & (before.attributes & LOG_APPEND_TIME_BIT != 0)
    is_clock = before.crc_valid & (is_append_time | (before.control == ABORT) | (before.control == COMMIT))
    is_clock &= (clock >= 0) & (clock <= _now(rules))
    age = clock - np.maximum(timestamp, FAR_PAST)
    which = is_clock & (age > rules.pid_expiry_ms) & (timestamp != NO_TIMESTAMP) & _is_idempotent(after)
    if which.any():
        yield noted(Noticed.PRODUCER_EXPIRED_BY_TIMESTAMP, after, which, amount=age, previous=clock)


NOTER = Noter(batches=_of_batches, neighbours=_of_neighbours)


def _now(rules: Rules) -> int:
    return rules.as_of_ms + rules.clock_skew_ms


def _is_idempotent(chunk: BatchColumns) -> Any:
    """Return which batches are all that keeps their producer in mind; a transaction does so by itself."""
    is_transactional = chunk.attributes & TRANSACTIONAL_BIT != 0
    is_create_time = chunk.attributes & LOG_APPEND_TIME_BIT == 0
    is_data = chunk.crc_valid & (chunk.count > 0) & (chunk.control == NO_CONTROL) & (chunk.magic >= 2)
    return is_data & (chunk.producer_id >= 0) & ~is_transactional & is_create_time


def findings(case: Case) -> Iterator[Finding]:
    """Yield the producers a broker had to forget: by the notes, and by its clock when it took their newest batch."""
    notes = of_kind(case.log.notes, Noticed.PRODUCER_EXPIRED_BY_TIMESTAMP)
    # The cleaner lowers the timestamp of a batch when it takes the newest record out.
    notes = notes[notes["last_offset"] >= case.strict_from]
    yield from each(notes, partial(_noted, case))
    late, broker_time = _behind_clock(case, _marker_clock, notes["producer_id"])
    yield from each(late, partial(_late, case, "marker", Exactness.EXACT), broker_time=broker_time)
    told = np.concatenate([notes["producer_id"], late["producer_id"]])
    late, broker_time = _behind_clock(case, _file_clock, told)
    yield from each(late, partial(_late, case, "segment", Exactness.APPROXIMATE), broker_time=broker_time)
    yield from _imported(case, np.concatenate([told, late["producer_id"]]))


def _noted(case: Case, row: Row) -> Finding:
    producer = row["producer_id"]
    if row["amount"] == NO_TIME:
        message = f"Producer {producer} wrote data without a timestamp, in {batches(row['count'])}."
    else:
        message = (
            f"Producer {producer} wrote data {span(row['amount'])} older than what the broker wrote in front of it."
        )
    return case.finding(
        CODES["producer-expired-by-timestamp"],
        message,
        at=(row["segment"], row["position"]),
        offsets=(row["first_offset"], row["last_offset"]),
        producer=(producer, row["producer_epoch"]),
        evidence={"batches": row["count"], "expiry_ms": case.rules.pid_expiry_ms},
        benign=(IMPORT,),
    )


def _marker_clock(case: Case, offsets: Any) -> Any:
    """Return the broker's time when the log had come to some offsets, from all markers; NO_TIME if there is none."""
    return newest_marker_times(case, offsets, _now(case.rules))


def _file_clock(case: Case, offsets: Any) -> Any:
    """Return the same from the times of files, where data of that day in them shows that no copy has changed them."""
    segments = case.log.segments
    written = [case.partition.segments[segment].mtime_ms for segment in segments["segment"].tolist()]
    times = np.array([NO_TIME if time is None else time for time in written], "i8")
    earliest = np.maximum(times, FAR_PAST) - case.rules.pid_expiry_ms
    newest = segments["max_timestamp"]
    agrees = (times <= _now(case.rules)) & (newest >= earliest) & (newest <= times + case.rules.clock_skew_ms)
    places, times = segments["last_offset"][agrees], times[agrees]
    order = np.argsort(places, kind="stable")
    times = np.maximum.accumulate(np.append(NO_TIME, times[order]))
    return times[np.searchsorted(places[order], offsets)]


def _behind_clock(case: Case, clock: Clock, told: Any) -> tuple[Records, Any]:
    """Return producers whose newest data is too old for the time of its append, and what that is at least.

    Args:
        case: the partition.
        clock: says when the broker had come to some offsets.
        told: producers that are left out.
    """
    producers = case.producers
    # A transaction and its marker keep a producer in mind by themselves.
    is_plain = (producers["current_txn_first_offset"] == -1) & (producers["coordinator_epoch"] == -1)
    is_plain &= (producers["last_sequence"] >= 0) & (producers["last_timestamp"] != NO_TIMESTAMP)
    is_plain &= (producers["last_offset"] >= case.strict_from) & ~np.isin(producers["producer_id"], told)
    plain = np.flatnonzero(is_plain)
    if not len(plain):
        return producers[:0], plain
    broker_time = clock(case, producers["last_offset"][plain])
    age = np.maximum(broker_time, 0) - np.maximum(producers["last_timestamp"][plain], FAR_PAST)
    late = (broker_time >= 0) & (age > case.rules.pid_expiry_ms)
    return producers[plain[late]], broker_time[late]


def _late(case: Case, what: str, exactness: Exactness, row: Row) -> Finding:
    last, time, clock = row["last_offset"], row["last_timestamp"], row["broker_time"]
    return case.finding(
        CODES["producer-expired-by-timestamp"],
        f"The newest data of producer {row['producer_id']} says {moment(time)}; the {what} in front of it is of"
        f" {moment(clock)}.",
        offsets=(last - row["offset_delta"], last),
        producer=(row["producer_id"], row["producer_epoch"]),
        evidence={"timestamp": time, "broker_time": clock, "expiry_ms": case.rules.pid_expiry_ms},
        exactness=exactness,
        benign=(IMPORT,),
    )


def _imported(case: Case, told: Any) -> Iterator[Finding]:
    """Yield a finding if the file says that even the newest data was too old when it was written.

    A replica that was built later looks the same, so this is no more than a word. So would any copy that does not keep
    the times of files; but then all files have nearly the same.
    """
    last, written = case.log.last, case.partition.segments[-1].mtime_ms if case.partition.segments else None
    if written is None or not len(last) or not _is_idempotent(last)[0] or last.producer_id[0] in told:
        return
    newest, expiry = int(last.max_timestamp[0]), case.rules.pid_expiry_ms
    is_too_old = newest == case.log.newest_timestamp and expiry < written - newest
    if not is_too_old or written > _now(case.rules) or _span_of_files(case) <= expiry:
        return
    offset = int(last.last_offset[0])
    yield case.finding(
        CODES["producer-expired-by-timestamp"],
        f"The newest data says {moment(newest)}; the segment was last written to at {moment(written)}.",
        severity=Severity.INFO,
        at=(int(last.segment[0]), int(last.position[0])),
        offsets=(int(last.base_offset[0]), offset),
        producer=(int(last.producer_id[0]), int(last.producer_epoch[0])),
        evidence={"timestamp": newest, "broker_time": written, "expiry_ms": expiry},
        exactness=Exactness.UNVERIFIABLE,
        benign=(IMPORT, "a replica that was built later: possible"),
    )


def _span_of_files(case: Case) -> int:
    """Return the time from the oldest file of the partition to the newest or, where that is later, to the copy."""
    partition = case.partition
    by_offset = (partition.indexes, partition.time_indexes, partition.snapshots)
    files = [*partition.segments, *(found for some in by_offset for found in some.values()), *partition.others]
    times = [found.mtime_ms for found in files if found.mtime_ms is not None]
    return max([*times, case.rules.as_of_ms]) - min([*times, case.rules.as_of_ms])
