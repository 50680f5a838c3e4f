"""Checks for control batches that neither a coordinator nor the cleaner writes.

Rule: ``EndTransactionMarker``, ``ControlRecordType`` and ``MemoryRecords.withEndTransactionMarker`` for the bytes of
markers, ``MemoryRecords.filterTo`` for empty control batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.findings import Code, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_count, format_duration, format_time
from kforensics.forensics.core.observations import ObservationArray, Observed, observations_of, observe
from kforensics.forensics.core.reporting import Row, first_n, place
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.log_summary import Collector
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.columns.batch_columns import ABORT, COMMIT, EMPTY_CONTROL_BATCH, NO_CONTROL, BatchColumns
from kforensics.parsers.format.rows import CODEC_MASK, TRANSACTIONAL_BIT

CODES = by_name(
    Code(
        "marker-malformed",
        Severity.ERROR,
        meaning="A control batch of a producer cannot be read as one marker.",
        remedy=(
            "Copy the segment first: a broker that starts after an unclean shutdown truncates the log here, or "
            "fails to load it."
        ),
        why=(
            "The key of a marker has at least four bytes and its value at least six, and a batch has one "
            "marker. A broker that reads anything else during log recovery truncates the log here or takes the "
            "partition offline."
        ),
        benign="A later release may have added a version of the marker value; it is read as the first version.",
    ),
    Code(
        "marker-flags-unexpected",
        Severity.WARNING,
        meaning="A marker has flags that no coordinator sets.",
        remedy="Find out what wrote it.",
        why=(
            "Coordinators write transactional, uncompressed markers without a sequence. A marker that differs "
            "was not written by Kafka, or a bit has flipped."
        ),
        benign="A broker implementation other than Apache Kafka.",
    ),
    Code(
        "control-shell",
        Severity.INFO,
        meaning="A control batch is empty, as the cleaner leaves it.",
        why=(
            "The cleaner removed the marker and kept the header of its batch, to preserve the producer's epoch "
            "and last offset."
        ),
        benign=(
            "Always, in a log that was compacted. In any other log nothing leaves such a batch, and the "
            "severity is higher."
        ),
    ),
    Code(
        "marker-timestamp-regressed",
        Severity.INFO,
        meaning="A marker is older than the previous marker of the same leader.",
        remedy="Check the clock of the leader.",
        why="Markers have the timestamp of the broker that wrote them; its clock went back.",
        benign="The clock was set, or a time service corrected it.",
    ),
)

NO_SEQUENCE = -1


def _unusual_control_batches(batches: BatchColumns, _rules: Rules) -> Iterable[ObservationArray]:
    control = (batches.control != NO_CONTROL) & batches.crc_valid
    if not control.any():
        return
    is_empty = control & (batches.control == EMPTY_CONTROL_BATCH)
    of_producer = control & ~is_empty & (batches.producer_id >= 0)
    is_marker = (batches.control == ABORT) | (batches.control == COMMIT)
    is_malformed = of_producer & (~is_marker | (batches.count != 1))
    has_usual_flags = (batches.attributes & (TRANSACTIONAL_BIT | CODEC_MASK)) == TRANSACTIONAL_BIT
    has_unusual_flags = of_producer & ~(has_usual_flags & (batches.base_sequence == NO_SEQUENCE))
    for kind, matches in (
        (Observed.CONTROL_SHELL, is_empty),
        (Observed.MARKER_MALFORMED, is_malformed),
        (Observed.MARKER_FLAGS_UNEXPECTED, has_unusual_flags),
    ):
        if matches.any():
            yield observe(kind, batches, matches, amount=batches.count)


def _regressed_timestamps(before: BatchColumns, after: BatchColumns, rules: Rules) -> Iterable[ObservationArray]:
    decrease = before.max_timestamp - after.max_timestamp
    is_comparable = before.crc_valid & after.crc_valid & (before.leader_epoch == after.leader_epoch)
    regressed = (decrease > rules.clock_skew_ms) & is_comparable
    if regressed.any():
        yield observe(
            Observed.MARKER_TIMESTAMP_REGRESSED, after, regressed, amount=decrease, previous=before.max_timestamp
        )


COLLECTOR = Collector(batches=_unusual_control_batches, markers=_regressed_timestamps)


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield unusual control batches, one finding for each producer and kind."""
    observations = state.log.observations
    yield from first_n(observations_of(observations, Observed.MARKER_MALFORMED), partial(_malformed, state))
    yield from first_n(observations_of(observations, Observed.MARKER_FLAGS_UNEXPECTED), partial(_unusual_flags, state))
    yield from first_n(observations_of(observations, Observed.CONTROL_SHELL), partial(_empty, state))
    yield from first_n(observations_of(observations, Observed.MARKER_TIMESTAMP_REGRESSED), partial(_regressed, state))


def _malformed(state: PartitionState, row: Row) -> Finding:
    fault = f"has {row['amount']} records" if row["amount"] > 1 else "cannot be read as a marker"
    others = f"; {row['count'] - 1} more of its control batches are malformed" if row["count"] > 1 else ""
    return state.finding(
        CODES["marker-malformed"],
        f"The control batch of producer {row['producer_id']} at offset {row['first_offset']} {fault}{others}.",
        **place(row),
        evidence={"batches": row["count"], "records": row["amount"]},
    )


def _unusual_flags(state: PartitionState, row: Row) -> Finding:
    return state.finding(
        CODES["marker-flags-unexpected"],
        f"Unexpected flags in {_batches(row)} of producer {row['producer_id']} (first at offset "
        f"{row['first_offset']}): not transactional, with a sequence, or compressed.",
        **place(row),
        evidence={"batches": row["count"]},
        benign=("broker implementation other than Apache Kafka: possible",),
    )


def _empty(state: PartitionState, row: Row) -> Finding:
    is_uncleaned = state.is_known_uncleaned
    return state.finding(
        CODES["control-shell"],
        f"Producer {row['producer_id']} has {_batches(row)} without a record (first at offset "
        f"{row['first_offset']}){', in a log that was never compacted' if is_uncleaned else ''}.",
        severity=Severity.ERROR if is_uncleaned else None,
        **place(row),
        evidence={"batches": row["count"]},
        benign=(f"left by the cleaner: {'no, partition not in its checkpoint' if is_uncleaned else 'yes'}",),
    )


def _batches(row: Row) -> str:
    return format_count(row["count"], "control batch", "control batches")


def _regressed(state: PartitionState, row: Row) -> Finding:
    return state.finding(
        CODES["marker-timestamp-regressed"],
        f"The marker of producer {row['producer_id']} at offset {row['first_offset']} has timestamp "
        f"{format_time(row['timestamp'])}, {format_duration(row['amount'])} before that of the previous marker.",
        **place(row),
        evidence={"fallen_by_ms": row["amount"]},
        benign=("leader's clock set back: likely",),
    )


CHECK = Check("marker_batches", CODES, findings, collector=COLLECTOR)
