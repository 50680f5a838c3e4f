"""Control batches that are not what a coordinator or the cleaner writes.

Rule: ``EndTransactionMarker``, ``ControlRecordType`` and ``MemoryRecords.withEndTransactionMarker`` for their bytes,
``MemoryRecords.filterTo`` for empty ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from kforensics.forensics.core.findings import Finding, Severity, codes
from kforensics.forensics.core.observations import Noticed, noted, of_kind
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.reporting import Row, each, moment, place, span
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.log_summary import Noter
from kforensics.forensics.partition.partition_state import Case
from kforensics.parsers.columns.batch_columns import ABORT, COMMIT, NO_CONTROL, SHELL, BatchColumns
from kforensics.parsers.format.rows import CODEC_MASK, TRANSACTIONAL_BIT

__all__ = ["CODES", "NOTER", "findings"]

CODES = codes("""
marker-malformed error
A control batch of a producer cannot be read as one marker.
Copy the segment first: a broker that starts after an unclean stop cuts the log here, or fails to load it.
why: Key and value of a marker have four and six bytes at least, and a batch holds one. A broker that reads another \
thing while it recovers the log cuts the log off here, or gives up the partition.
innocent: A later release may give a marker's value a new version, which is read as if it were the first one.

marker-flags-unexpected warning
A marker is made as no coordinator makes it.
Find out what wrote it.
why: Coordinators write markers as transactional, without a sequence, and uncompressed. What writes them otherwise is \
not Kafka, or a bit has flipped.
innocent: A broker that is not Kafka.

control-shell info
A control batch is empty, as the cleaner leaves it.
why: The cleaner has removed a marker and kept the header of its batch, so that the producer's epoch and its last \
offset are not forgotten.
innocent: Always where a cleaner has been. Elsewhere nothing leaves such a batch, and the finding is worse.

marker-timestamp-regressed info
A marker is older than the one before it, of the same leader.
Look at the clock of the leader.
why: Markers have the time of the broker that wrote them; its clock went back.
innocent: The clock was set, or a time service corrected it.
""")

NO_SEQUENCE = -1


def _noted(batches: BatchColumns, _rules: Rules) -> Iterable[Records]:
    control = (batches.control != NO_CONTROL) & batches.crc_valid
    if not control.any():
        return
    is_shell = control & (batches.control == SHELL)
    of_producer = control & ~is_shell & (batches.producer_id >= 0)
    is_marker = (batches.control == ABORT) | (batches.control == COMMIT)
    malformed = of_producer & (~is_marker | (batches.count != 1))
    plain = (batches.attributes & (TRANSACTIONAL_BIT | CODEC_MASK)) == TRANSACTIONAL_BIT
    strange = of_producer & ~(plain & (batches.base_sequence == NO_SEQUENCE))
    for kind, which in (
        (Noticed.CONTROL_SHELL, is_shell),
        (Noticed.MARKER_MALFORMED, malformed),
        (Noticed.MARKER_FLAGS_UNEXPECTED, strange),
    ):
        if which.any():
            yield noted(kind, batches, which, amount=batches.count)


def _noted_between(before: BatchColumns, after: BatchColumns, rules: Rules) -> Iterable[Records]:
    fallen = before.max_timestamp - after.max_timestamp
    sound = before.crc_valid & after.crc_valid & (before.leader_epoch == after.leader_epoch)
    regressed = (fallen > rules.clock_skew_ms) & sound
    if regressed.any():
        yield noted(Noticed.MARKER_TIMESTAMP_REGRESSED, after, regressed, amount=fallen, previous=before.max_timestamp)


NOTER = Noter(batches=_noted, markers=_noted_between)


def findings(case: Case) -> Iterator[Finding]:
    """Yield what is to be said of the control batches of a log, of each kind once for each producer."""
    notes = case.log.notes
    yield from each(of_kind(notes, Noticed.MARKER_MALFORMED), partial(_malformed, case))
    yield from each(of_kind(notes, Noticed.MARKER_FLAGS_UNEXPECTED), partial(_strange, case))
    yield from each(of_kind(notes, Noticed.CONTROL_SHELL), partial(_shell, case))
    yield from each(of_kind(notes, Noticed.MARKER_TIMESTAMP_REGRESSED), partial(_regressed, case))


def _malformed(case: Case, row: Row) -> Finding:
    more = f"holds {row['amount']} records" if row["amount"] > 1 else "cannot be read as a marker"
    others = f"; others of its batches that are like that: {row['count'] - 1}" if row["count"] > 1 else ""
    return case.finding(
        CODES["marker-malformed"],
        f"The control batch of producer {row['producer_id']} at offset {row['first_offset']} {more}{others}.",
        **place(row),
        evidence={"batches": row["count"], "records": row["amount"]},
    )


def _strange(case: Case, row: Row) -> Finding:
    return case.finding(
        CODES["marker-flags-unexpected"],
        f"Control batches of producer {row['producer_id']}, {row['count']} in all, the first at offset "
        f"{row['first_offset']}, are not marked as transactional, have a sequence, or are compressed.",
        **place(row),
        evidence={"batches": row["count"]},
        benign=("broker that is not Kafka: possible",),
    )


def _shell(case: Case, row: Row) -> Finding:
    uncleaned = case.is_known_uncleaned
    return case.finding(
        CODES["control-shell"],
        f"Control batches of producer {row['producer_id']}, {row['count']} in all, the first at offset "
        f"{row['first_offset']}, are empty{', and the cleaner has never been here' if uncleaned else ''}.",
        severity=Severity.ERROR if uncleaned else None,
        **place(row),
        evidence={"batches": row["count"]},
        benign=(f"left by the cleaner: {'no, its checkpoint does not name the partition' if uncleaned else 'yes'}",),
    )


def _regressed(case: Case, row: Row) -> Finding:
    return case.finding(
        CODES["marker-timestamp-regressed"],
        f"The marker of producer {row['producer_id']} at offset {row['first_offset']} is of "
        f"{moment(row['timestamp'])}, {span(row['amount'])} before the marker in front of it.",
        **place(row),
        evidence={"fallen_by_ms": row["amount"]},
        benign=("clock of the leader set back: likely",),
    )
