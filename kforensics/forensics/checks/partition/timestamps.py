"""Timestamps that cannot be right, or that are not what a reader takes them for.

Of data with create time a timestamp is the client's word, of other data and of markers it is the leader's.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from kforensics.forensics.core.aggregation import Sum, batches, note_of_all, sum_of
from kforensics.forensics.core.findings import Exactness, Finding, codes
from kforensics.forensics.core.observations import Noticed, noted, of_kind
from kforensics.forensics.core.record_types import NO_TIME, Records
from kforensics.forensics.core.reporting import Row, each, moment, span
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.log_summary import Noter
from kforensics.forensics.partition.partition_state import Case
from kforensics.parsers.columns.batch_columns import NO_CONTROL, BatchColumns
from kforensics.parsers.format.rows import LOG_APPEND_TIME_BIT

__all__ = ["CODES", "NOTER", "findings"]

CODES = codes("""
ts-future warning
A timestamp lies after the time at which the files were copied.
Retention by time never deletes such a segment, and a producer is never forgotten: set message.timestamp.after.max.ms.
why: Retention by time goes by the largest timestamp of a segment, so that it stays until that time has come. An \
idempotent producer does not expire either.
innocent: A client that counts in micro- or nanoseconds. The copy is younger than it was taken for.

ts-ancient info
A batch has a create time long before that of the batch in front of it.
Retention by time may delete its segment at once; see whether data is being imported.
why: With create time the clock is that of the client, or of the data itself. Retention may remove the segment at its \
next run, and a broker forgets the producer at once.
innocent: An import of old data.

ts-missing info
Batches have no timestamp.
why: Such records have no time to be found by; the time index has no entry for them.
innocent: Old clients.

ts-append-regressed info
Log append time goes back by more than clocks of brokers should differ.
See to the time service of the brokers.
why: The leader wrote down its own clock, and the clock went back, usually because another broker with another clock \
became leader.
innocent: A change of leader, or a clock that was corrected.

ts-type-mixed info
The log holds create times and log append times.
Ask each batch what its timestamps mean; message.timestamp.type was changed.
why: One half is told by clients, the other one by brokers; comparing them leads nowhere.
innocent: The configuration of the topic was changed.
""")

NO_TIMESTAMP = -1
FAR_PAST = NO_TIME // 2
BOTH_TYPES = 3
# What a client may have taken a timestamp for, by how many of them there are in a millisecond.
UNITS = {1_000: "microseconds", 1_000_000: "nanoseconds"}
YEAR_MS = 365 * 86_400_000


def _of_batches(chunk: BatchColumns, rules: Rules) -> Iterator[Records]:
    is_timed = chunk.crc_valid & (chunk.magic >= 1)
    timestamp = chunk.max_timestamp
    is_late = is_timed & (timestamp > _now(rules))
    if is_late.any():
        yield noted(Noticed.TS_FUTURE, chunk, is_late, amount=timestamp)
    # An emptied batch may have lost its timestamp with its records.
    is_missing = is_timed & (timestamp == NO_TIMESTAMP) & (chunk.count > 0)
    if is_missing.any():
        yield note_of_all(Noticed.TS_MISSING, chunk, is_missing)


def _of_neighbours(before: BatchColumns, after: BatchColumns, rules: Rules) -> Iterator[Records]:
    # Neither a broken clock nor a broken batch is a measure for others.
    is_measure = before.crc_valid & (before.max_timestamp >= 0) & (before.max_timestamp <= _now(rules))
    is_measured = after.crc_valid & (after.magic >= 1) & (after.max_timestamp != NO_TIMESTAMP) & (after.count > 0)
    age = before.max_timestamp - np.maximum(after.max_timestamp, FAR_PAST)
    older = is_measure & is_measured & (age > min(rules.clock_skew_ms, rules.ancient_ms))
    if not older.any():
        return
    by_broker, is_append = _is_append_time(after), _is_append_time(before)
    is_data = after.control == NO_CONTROL
    tests = {
        Noticed.TS_ANCIENT: ~by_broker & is_data & (age > rules.ancient_ms),
        Noticed.TS_APPEND_REGRESSED: by_broker & is_append & (age > rules.clock_skew_ms),
    }
    for kind, struck in tests.items():
        which = older & struck
        if which.any():
            yield noted(kind, after, which, amount=age, previous=before.max_timestamp)


NOTER = Noter(batches=_of_batches, neighbours=_of_neighbours)


def _now(rules: Rules) -> int:
    return rules.as_of_ms + rules.clock_skew_ms


def _is_append_time(chunk: BatchColumns) -> Any:
    return (chunk.magic >= 1) & (chunk.attributes & LOG_APPEND_TIME_BIT != 0)


def findings(case: Case) -> Iterator[Finding]:
    """Yield what is wrong with the timestamps of batches."""
    yield from each(of_kind(case.log.notes, Noticed.TS_FUTURE), partial(_future, case))
    for kind, finding in _SUMS.items():
        found = sum_of(case.log.notes, kind)
        if found:
            yield finding(case, found)
    if case.log.timestamp_types == BOTH_TYPES:
        message = "Some batches have create time and others have log append time."
        yield case.finding(CODES["ts-type-mixed"], message, benign=("a change of the topic's configuration: likely",))


def _future(case: Case, row: Row) -> Finding:
    newest, count = row["amount"], row["count"]
    ahead = newest - case.rules.as_of_ms
    return case.finding(
        CODES["ts-future"],
        f"The timestamps of {batches(count)} are later than the copy of the files, by {span(ahead)} at most.",
        at=(row["segment"], row["position"]),
        offsets=(row["first_offset"], row["last_offset"]),
        producer=None if row["producer_id"] < 0 else (row["producer_id"], row["producer_epoch"]),
        evidence={"batches": count, "newest_timestamp": newest, "as_of": case.rules.as_of_ms},
        exactness=Exactness.EXACT if _broker_time_is_past(case) else Exactness.APPROXIMATE,
        benign=(
            f"a client with other units: {_unit(case, newest)}",
            "a copy made later than assumed: "
            + ("no marker shows it" if _broker_time_is_past(case) else "likely, the broker's own marker is later too"),
        ),
    )


def _broker_time_is_past(case: Case) -> bool:
    return int(case.log.last_marker.max_timestamp.max(initial=NO_TIME)) <= _now(case.rules)


def _unit(case: Case, timestamp: int) -> str:
    for factor, name in UNITS.items():
        if abs(timestamp // factor - case.rules.as_of_ms) < 10 * YEAR_MS:
            return f"likely, as {name} it is {moment(timestamp // factor)}"
    return "ruled out, it is no time near in microseconds or nanoseconds either"


def _ancient(case: Case, found: Sum) -> Finding:
    return case.finding(
        CODES["ts-ancient"],
        f"{found.that('is', 'are')} older than the batch in front, by {span(found.amount)} at most.",
        at=found.at,
        offsets=found.offsets,
        evidence={"batches": found.count, "largest_step_ms": found.amount},
        benign=("data that is being imported: possible",),
    )


def _missing(case: Case, found: Sum) -> Finding:
    return case.finding(
        CODES["ts-missing"],
        f"{found.that('has', 'have')} no timestamp.",
        at=found.at,
        offsets=found.offsets,
        evidence={"batches": found.count},
        benign=("old clients: possible", "batches emptied by the cleaner: ruled out, there are records in them"),
    )


def _append_regressed(case: Case, found: Sum) -> Finding:
    begins = bool(np.isin(found.first_offset, case.log.epochs["first_offset"]))
    change = "likely, a leader epoch begins" if begins else "ruled out, no leader epoch begins"
    return case.finding(
        CODES["ts-append-regressed"],
        f"Log append time goes back at {batches(found.count)}, by {span(found.amount)} at most, first at offset"
        f" {found.first_offset}.",
        at=found.at,
        offsets=found.offsets,
        evidence={"batches": found.count, "largest_step_ms": found.amount},
        benign=(f"a change of leader: {change} at offset {found.first_offset}", "a clock that was set: possible"),
    )


_SUMS = {
    Noticed.TS_ANCIENT: _ancient,
    Noticed.TS_MISSING: _missing,
    Noticed.TS_APPEND_REGRESSED: _append_regressed,
}
