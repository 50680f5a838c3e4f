"""Whether the batches of each idempotent producer follow one another without loss and repetition.

Rule: ``ProducerAppendInfo.checkSequence``. A leader that knows its producer lets nothing of this into the log, so each
finding says that a leader did not know it, or that the log is not what a leader wrote.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from kforensics.forensics.core.findings import Finding, Severity, codes
from kforensics.forensics.core.record_types import Anomaly, Records
from kforensics.forensics.core.reporting import Row, each, expiry, place
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.producer_history import (
    NOTHING,
    anomalies_of,
    is_expired,
    last_before,
    markers_before,
)

__all__ = ["CODES", "findings"]

CODES = codes("""
seq-gap error
Sequence numbers are missing between two neighbouring batches of a producer.
Acknowledged records may be lost: compare the replicas of {topic}-{partition}, and look for unclean elections.
why: A leader that knows the producer takes no batch but the next one. So either what is missing had been taken and \
was lost again, usually by an unclean election, and acknowledged records are gone; or the leader did not know the \
producer.
innocent: The producer had expired, or a replica without its state was elected. Where that can be shown, the finding \
is a warning.

seq-duplicate-batch critical
The same batch of a producer stands in the log twice.
Consumers got both: remove the second where they keep what they got; look at failovers and producer.id.expiration.ms.
why: The producer sent a batch again after a lost answer, and the leader did not recognise it: it had forgotten the \
producer or was newly elected without its state. Consumers get the records twice, exactly-once or not.
innocent: Sequences begin again after 2147483647, and an expired producer may begin again at 0. Contents that differ \
are seq-reuse.

seq-overlap error
A batch begins inside what its producer had already written.
A part of it stands in the log twice: compare the records.
why: A retry was cut into other batches than the first attempt, and a leader without memory of the producer took it. \
Some records stand there twice.
innocent: The producer had expired, or began anew at 0.

seq-first-nonzero info
The first batch of a producer does not begin at sequence 0, though the log is there from its first offset on.
why: A broker takes any first sequence from a producer it does not know. It says that this producer wrote before, and \
that those batches were never here or are gone.
innocent: The topic was deleted and created again while the producer went on, or the producer had expired. By itself \
it means nothing.

seq-missing warning
A batch has a producer id and no sequence.
No retry of this writer is noticed: find out which client it is.
why: Without a sequence no leader recognises a retry, so that the producer id is of no use.
innocent: Implementations other than the Java client write so to __consumer_offsets.
""")


def findings(case: Case) -> Iterator[Finding]:
    """Yield what is to be said of the sequences of a log, where no cleaner has been."""
    if not case.judges_sequences:
        return
    yield from _gaps(case)
    yield from each(_strict(case, Anomaly.SEQ_DUPLICATE_BATCH), partial(_duplicate, case))
    overlaps = _strict(case, Anomaly.SEQ_OVERLAP)
    yield from each(overlaps, partial(_overlap, case), **_circumstances(case, overlaps))
    # Where something was cleaned away, the first batch of a producer on hand need not be its first one.
    if case.log.batches and case.strict_from <= int(case.log.first.base_offset[0]):
        yield from each(_strict(case, Anomaly.SEQ_FIRST_NONZERO), partial(_first, case))
    yield from each(_strict(case, Anomaly.SEQ_MISSING), partial(_missing, case))


def _strict(case: Case, kind: Anomaly) -> Records:
    found = anomalies_of(case, kind)
    return found.compress(found["first_offset"] >= case.strict_from)


def _gaps(case: Case) -> Iterator[Finding]:
    found = _strict(case, Anomaly.SEQ_GAP)
    # Where offsets are missing too, so are the batches that had these sequences.
    found = found.compress(found["hole"] == 0)
    found = found.compress(~_follow_cleaned(case, found))
    yield from each(found, partial(_gap, case), **_circumstances(case, found), cause=_step_back(case, found))


def _follow_cleaned(case: Case, gaps: Records) -> Records:
    """Return before which gaps stands a marker where the cleaner has been.

    What is missing may have stood in front of that marker, and no offset is missing behind it.
    """
    marker = markers_before(case, gaps["producer_id"], gaps["first_offset"])["marker_offset"]
    followed: Records = (marker == gaps["previous_offset"]) & (marker < case.strict_from)
    return followed


def _circumstances(case: Case, found: Records) -> dict[str, Records]:
    """Return whether the producer had expired before each batch, and whether the leader changed."""
    starts = case.log.epochs["first_offset"]
    before, here = (np.searchsorted(starts, found[name], "right") for name in ("previous_offset", "first_offset"))
    return {"expired": is_expired(case, found), "leader_changed": here > before}


def _step_back(case: Case, gaps: Records) -> Records:
    """Return for each gap the code of the finding that it merely makes up for, an empty text if there is none.

    After a batch that stands in the log for the second time the replay expects what followed its first copy, and the
    producer goes on where it really was.
    """
    if not len(gaps):
        return np.zeros(0, str)
    back = anomalies_of(case, Anomaly.SEQ_OVERLAP, Anomaly.SEQ_DUPLICATE_BATCH)
    at = last_before(back["producer_id"], back["first_offset"], gaps["producer_id"], gaps["first_offset"])
    before = np.concatenate([back, np.full(1, NOTHING, back.dtype)])[at]
    is_overlap = before["kind"] == Anomaly.SEQ_OVERLAP
    length = before["last_offset"] - before["first_offset"] + 1
    # A copy of a known batch cannot be further back than there are offsets between the two.
    between = before["first_offset"] - before["previous_offset"] - 1
    reach = np.where(is_overlap, before["amount"] - length, between)
    follows = (at >= 0) & (before["producer_epoch"] == gaps["producer_epoch"]) & (gaps["amount"] <= reach)
    return np.where(follows, np.where(is_overlap, "seq-overlap", "seq-duplicate-batch"), "")


def _excuses(row: Row) -> tuple[str, ...]:
    changed = row["leader_changed"]
    return (
        expiry(row),
        f"failover to a replica without its state: {'possible, the leader changed' if changed else 'no'}",
    )


def _severity(row: Row) -> Severity | None:
    return Severity.WARNING if row["expired"] else None


def _gap(case: Case, row: Row) -> Finding:
    return case.finding(
        CODES["seq-gap"],
        f"Between the offsets {row['previous_offset']} and {row['first_offset']} {row['amount']} sequences of producer "
        f"{row['producer_id']}, epoch {row['producer_epoch']}, are missing, while no offset is.",
        severity=_severity(row),
        **place(row),
        evidence={"missing": row["amount"], "previous_offset": row["previous_offset"]},
        benign=_excuses(row),
        cause=row["cause"] or None,
    )


def _duplicate(case: Case, row: Row) -> Finding:
    return case.finding(
        CODES["seq-duplicate-batch"],
        f"The offsets {row['first_offset']} to {row['last_offset']} have the sequences of the batch of producer "
        f"{row['producer_id']}, epoch {row['producer_epoch']}, that ends at offset {row['previous_offset']}: "
        f"{row['amount']} records written twice.",
        **place(row),
        evidence={"records": row["amount"], "first_copy_ends_at": row["previous_offset"]},
        benign=(
            "sequences wrapped: no, the first copy is among the last five batches",
            "contents differ: the records were not compared",
        ),
    )


def _overlap(case: Case, row: Row) -> Finding:
    return case.finding(
        CODES["seq-overlap"],
        f"The batch of producer {row['producer_id']}, epoch {row['producer_epoch']}, at offset {row['first_offset']} "
        f"begins {row['amount']} sequences below the one that follows the batch before it, and equals none of the last "
        "five.",
        severity=_severity(row),
        **place(row),
        evidence={"behind": row["amount"], "previous_offset": row["previous_offset"]},
        benign=_excuses(row),
    )


def _first(case: Case, row: Row) -> Finding:
    return case.finding(
        CODES["seq-first-nonzero"],
        f"The first batch of producer {row['producer_id']}, epoch {row['producer_epoch']}, stands at offset "
        f"{row['first_offset']} and does not begin at sequence 0.",
        **place(row),
        benign=(
            "accepted by every release for a producer it does not know, transactions of Produce v12 excepted: yes",
            "topic created anew, or producer expired: cannot be seen here",
        ),
    )


def _missing(case: Case, row: Row) -> Finding:
    return case.finding(
        CODES["seq-missing"],
        f"The batch of producer {row['producer_id']}, epoch {row['producer_epoch']}, at offset {row['first_offset']} "
        "has no sequence.",
        **place(row),
    )
