"""Checks for timestamps that cannot be right, or that have another meaning than expected.

With create time the client sets the timestamp of data; log append time and the timestamps of markers come from the
leader.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_duration, format_time
from kforensics.forensics.core.observations import (
    ObservationArray,
    ObservationSum,
    Observed,
    batches,
    observation_of_all,
    observations_of,
    observe,
    sum_observations,
)
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.reporting import Row, first_n
from kforensics.forensics.core.rules import FIRST_KAFKA_MS, Rules
from kforensics.forensics.partition.log_summary import Collector
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.columns.batch_columns import NO_CONTROL, BatchColumns
from kforensics.parsers.format.array_types import BoolArray
from kforensics.parsers.format.rows import LOG_APPEND_TIME_BIT

CODES = by_name(
    Code(
        "ts-future",
        Severity.WARNING,
        meaning="A timestamp is later than the time at which the files were copied.",
        remedy=(
            "Set message.timestamp.after.max.ms (since 3.6), which prevents new ones. To free the space now, use "
            "DeleteRecords (kafka-delete-records.sh) or retention.bytes, which ignores timestamps."
        ),
        why=(
            "Retention by time uses the largest timestamp of a segment, so the segment stays until that time "
            "has passed. An idempotent producer does not expire before then either."
        ),
        benign="A client that counts in microseconds or nanoseconds. The files were copied later than assumed.",
    ),
    Code(
        "ts-ancient",
        Severity.INFO,
        meaning="A batch has a create time long before that of the previous batch.",
        remedy="Check whether data is being imported: retention by time may delete its segment immediately.",
        why=(
            "Create time is the client's clock, or the time of the data itself. Retention may remove the "
            "segment at its next run, and a broker expires the producer immediately."
        ),
        benign="An import of old data.",
    ),
    Code(
        "ts-missing",
        Severity.INFO,
        meaning="Batches have no timestamp.",
        why="Such records cannot be found by time; the time index has no entry for them.",
        benign="Old clients.",
    ),
    Code(
        "ts-append-regressed",
        Severity.INFO,
        meaning="Log append time goes back by more than broker clocks should differ.",
        remedy="Check the time synchronization of the brokers.",
        why=(
            "The leader writes its own clock, and the clock went back, usually because a broker with another "
            "clock became leader."
        ),
        benign="A leader change, or a clock that was corrected.",
    ),
    Code(
        "ts-type-mixed",
        Severity.INFO,
        meaning="The log has both create times and log append times.",
        remedy=(
            "Check the timestamp type of each batch before you use its timestamps: message.timestamp.type was changed."
        ),
        why="One kind comes from clients, the other from brokers, so the two cannot be compared.",
        benign="The topic configuration was changed.",
    ),
)

NO_TIMESTAMP = -1
FAR_PAST = NO_TIME // 2
BOTH_TYPES = 3
# Units that a client may have used instead of milliseconds, by how many of them are in a millisecond.
UNITS = {1_000: "microseconds", 1_000_000: "nanoseconds"}
YEAR_MS = 365 * 86_400_000


def _unusual_timestamps(chunk: BatchColumns, rules: Rules) -> Iterator[ObservationArray]:
    has_timestamp = chunk.crc_valid & (chunk.magic >= 1)
    timestamp = chunk.max_timestamp
    is_future = has_timestamp & (timestamp > _now(rules))
    if is_future.any():
        yield observe(Observed.TS_FUTURE, chunk, is_future, amount=timestamp)
    # An emptied batch may have lost its timestamp with its records.
    is_missing = has_timestamp & (timestamp == NO_TIMESTAMP) & (chunk.count > 0)
    if is_missing.any():
        yield observation_of_all(Observed.TS_MISSING, chunk, is_missing)


def _decreasing_timestamps(before: BatchColumns, after: BatchColumns, rules: Rules) -> Iterator[ObservationArray]:
    # Neither a wrong clock nor a damaged batch is a reference for others.
    is_reference = before.crc_valid & (before.max_timestamp >= 0) & (before.max_timestamp <= _now(rules))
    is_compared = after.crc_valid & (after.magic >= 1) & (after.max_timestamp != NO_TIMESTAMP) & (after.count > 0)
    age = before.max_timestamp - np.maximum(after.max_timestamp, FAR_PAST)
    is_older = is_reference & is_compared & (age > min(rules.clock_skew_ms, rules.ancient_ms))
    if not is_older.any():
        return
    is_append, was_append = _is_append_time(after), _is_append_time(before)
    is_data = after.control == NO_CONTROL
    tests = {
        Observed.TS_ANCIENT: ~is_append & is_data & (age > rules.ancient_ms),
        Observed.TS_APPEND_REGRESSED: is_append & was_append & (age > rules.clock_skew_ms),
    }
    for kind, test in tests.items():
        matches = is_older & test
        if matches.any():
            yield observe(kind, after, matches, amount=age, previous=before.max_timestamp)


COLLECTOR = Collector(batches=_unusual_timestamps, neighbors=_decreasing_timestamps)


def _copied(rules: Rules) -> int:
    """Return when the files were copied; the user may ask for the state at another time."""
    return rules.as_of_ms if rules.copied_ms is None else rules.copied_ms


def _now(rules: Rules) -> int:
    copied = _copied(rules)
    return int(np.iinfo("i8").max) if copied < FIRST_KAFKA_MS else copied + rules.clock_skew_ms


def _is_append_time(chunk: BatchColumns) -> BoolArray:
    is_append_time: BoolArray = (chunk.magic >= 1) & (chunk.attributes & LOG_APPEND_TIME_BIT != 0)
    return is_append_time


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield what is wrong with the timestamps of batches."""
    yield from first_n(observations_of(state.log.observations, Observed.TS_FUTURE), partial(_future, state))
    for kind, finding in _AGGREGATED.items():
        total = sum_observations(state.log.observations, kind)
        if total:
            yield finding(state, total)
    if state.log.timestamp_types == BOTH_TYPES:
        message = "Some batches have create time, others log append time."
        yield state.finding(CODES["ts-type-mixed"], message, benign=("topic configuration changed: likely",))


def _future(state: PartitionState, row: Row) -> Finding:
    newest, count = row["amount"], row["count"]
    copied = _copied(state.rules)
    return state.finding(
        CODES["ts-future"],
        f"{batches(count)} with timestamps up to {format_duration(newest - copied)} after the files were copied.",
        at=(row["segment"], row["position"]),
        offsets=(row["first_offset"], row["last_offset"]),
        producer=None if row["producer_id"] < 0 else (row["producer_id"], row["producer_epoch"]),
        evidence={"batches": count, "newest_timestamp": newest, "copied": copied, "as_of": state.rules.as_of_ms},
        exactness=Exactness.EXACT if _broker_time_is_past(state) else Exactness.APPROXIMATE,
        benign=(
            f"client with other units: {_unit(state, newest)}",
            "copied later than assumed: "
            + ("no marker shows it" if _broker_time_is_past(state) else "likely, the last marker is later too"),
        ),
    )


def _broker_time_is_past(state: PartitionState) -> bool:
    return int(state.log.last_marker.max_timestamp.max(initial=NO_TIME)) <= _now(state.rules)


def _unit(state: PartitionState, timestamp: int) -> str:
    for factor, name in UNITS.items():
        if abs(timestamp // factor - _copied(state.rules)) < 10 * YEAR_MS:
            return f"likely, as {name} it is {format_time(timestamp // factor)}"
    return "ruled out, not a plausible time in microseconds or nanoseconds either"


def _ancient(state: PartitionState, total: ObservationSum) -> Finding:
    return state.finding(
        CODES["ts-ancient"],
        f"{total.that('is', 'are')} up to {format_duration(total.amount)} older than the previous batch.",
        at=total.at,
        offsets=total.offsets,
        evidence={"batches": total.count, "largest_step_ms": total.amount},
        benign=("import of old data: possible",),
    )


def _missing(state: PartitionState, total: ObservationSum) -> Finding:
    return state.finding(
        CODES["ts-missing"],
        f"{total.that('has', 'have')} no timestamp.",
        at=total.at,
        offsets=total.offsets,
        evidence={"batches": total.count},
        benign=("old clients: possible", "batches emptied by the cleaner: ruled out, they have records"),
    )


def _append_regressed(state: PartitionState, total: ObservationSum) -> Finding:
    has_new_epoch = bool(np.isin(total.first_offset, state.log.epochs["first_offset"]))
    outcome = "likely, a leader epoch starts" if has_new_epoch else "ruled out, no leader epoch starts"
    return state.finding(
        CODES["ts-append-regressed"],
        f"Log append time goes back by up to {format_duration(total.amount)} in {batches(total.count)}, first at "
        f"offset {total.first_offset}.",
        at=total.at,
        offsets=total.offsets,
        evidence={"batches": total.count, "largest_step_ms": total.amount},
        benign=(f"leader change: {outcome} at offset {total.first_offset}", "clock was set: possible"),
    )


_AGGREGATED = {
    Observed.TS_ANCIENT: _ancient,
    Observed.TS_MISSING: _missing,
    Observed.TS_APPEND_REGRESSED: _append_regressed,
}


CHECK = Check("timestamps", CODES, findings, collector=COLLECTOR)
