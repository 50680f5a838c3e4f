"""Why consumers with read_committed stop where they do.

Rule: ``UnifiedLog.fetchLastStableOffsetMetadata``; all of the log is taken for replicated, for a copy does not know the
high watermark of the moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from kforensics.forensics.core.findings import Finding, codes
from kforensics.forensics.core.record_types import NO_TIME, Ending
from kforensics.forensics.core.reporting import Part, Row, each, each_of, moment
from kforensics.forensics.partition.blocking_transactions import Wait, signs_of_hanging, silence_of
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.transaction_store import NO_TRANSACTIONS

__all__ = ["CODES", "findings"]

CODES = codes("""
lso-stuck critical
The last stable offset stays behind the end of the log: consumers with read_committed get nothing from there on.
See whether the transaction that holds it hangs, with kafka-transactions.sh --bootstrap-server <host:port> \
find-hanging --topic {topic} --partition {partition}; if it is listed, end it with kafka-transactions.sh \
--bootstrap-server <host:port> abort --topic {topic} --partition {partition} --start-offset {first_offset}; if not, \
its coordinator will end it, and an abort would lose data. Look at compaction too: the cleaner cannot pass this offset.
why: One transaction that does not end holds back all that is behind it, of other producers too, and of those without \
transactions. Consumers with read_committed have a lag that grows and no error; those with read_uncommitted notice \
nothing.
innocent: The high watermark stands still and not the transaction: then it is replication that is stuck. Or nobody \
writes to the partition, and nothing is held back.

lso-prefix-unknown info
The last stable offset is only known as a range, for the head of the log is not here.
Capture the .snapshot files of the partition too.
why: Whether a transaction from the missing part is still open cannot be told without the producer state at the \
beginning of what is here. So there is a lowest and a highest value.
innocent: It is never a fault: it says how far to believe the other findings.

txn-open-many info
Very many transactions were open at once, or one spans very many segments.
why: A broker looks through what is open to know the last stable offset, and consumers through the indexes of all \
segments that a transaction spans: this costs time, no more.
innocent: A large application of Kafka Streams, or small segments with long transactions.
""")

NOTHING = -1


def findings(case: Case) -> Iterator[Finding]:
    """Yield what is to be said of the last stable offset of a log, and of what it costs to keep it."""
    wait = Wait.of(case)
    if wait is not None:
        yield from _stuck_behind(case, wait)
    yield from _prefix_unknown(case, wait)
    yield from _many_at_once(case)
    yield from each_of(_many_segments(case), partial(_spans, case))


def _stuck_behind(case: Case, wait: Wait) -> Iterator[Finding]:
    holder = case.open_transactions[:1]
    silence, _ = silence_of(case, holder)
    signs = signs_of_hanging(case, holder)
    if silence[0] > case.rules.late_ms:
        hangs = signs["behind_marker"][0] or signs["marker_cleaned"][0]
        yield from each(holder, partial(_stuck, case, wait, "txn-hanging" if hangs else "txn-late"))


def _stuck(case: Case, wait: Wait, cause: str, row: Row) -> Finding:
    return case.finding(
        CODES["lso-stuck"],
        f"The last stable offset is {wait.offset}, {case.log_end_offset - wait.offset} below the log end offset "
        f"{case.log_end_offset}, since {moment(_begin(row))}: the open transaction of producer {row['producer_id']}, "
        f"epoch {row['producer_epoch']}, from offset {row['first_offset']} on holds it; {wait}.",
        offsets=(row["first_offset"], case.log_end_offset - 1),
        producer=(row["producer_id"], row["producer_epoch"]),
        at=(row["segment"], row["position"]),
        evidence={
            "last_stable_offset": wait.offset,
            "log_end_offset": case.log_end_offset,
            "ended_transactions": wait.ended,
            "open_transactions": wait.open,
        },
        benign=(
            f"high watermark stuck instead: {_watermark(case, wait)}",
            f"idle partition: {'nothing of others stands behind it' if _is_alone(case, wait, row) else 'no'}",
        ),
        cause=cause,
    )


def _watermark(case: Case, wait: Wait) -> str:
    high_watermark = case.high_watermark
    if high_watermark is None:
        return "its checkpoint is not here"
    return f"{'yes' if high_watermark <= wait.offset else 'no'}, its checkpoint is at {high_watermark}"


def _begin(row: Row) -> int:
    first: int = row["first_timestamp"]
    last: int = row["last_timestamp"]
    return last if first == NO_TIME else first


def _is_alone(case: Case, wait: Wait, row: Row) -> bool:
    return not wait.open and case.log_end_offset - wait.offset <= row["records"]


def _prefix_unknown(case: Case, wait: Wait | None) -> Iterator[Finding]:
    end = case.log_end_offset
    known = case.exact_from is not None and case.exact_from <= end
    if known or not case.log.batches or case.log_start_offset >= end:
        return
    highest = end if wait is None else wait.offset
    yield case.finding(
        CODES["lso-prefix-unknown"],
        f"The last stable offset is somewhere from {case.log_start_offset} to {highest}: the log begins at offset "
        f"{int(case.log.first.base_offset[0])}, and no snapshot tells which transactions were open there.",
        offsets=(case.log_start_offset, highest),
        evidence={"lowest": case.log_start_offset, "highest": highest},
    )


def _many_at_once(case: Case) -> Iterator[Finding]:
    if len(case.ledger) <= case.rules.many_open_transactions:
        return
    most, offset = _most_at_once(case)
    if most > case.rules.many_open_transactions:
        yield case.finding(
            CODES["txn-open-many"],
            f"At offset {offset} there were {most} transactions open at once.",
            offsets=(offset, offset),
            evidence={"open_transactions": most},
            benign=("large Streams applications: possible",),
        )


def _most_at_once(case: Case) -> tuple[int, int]:
    """Return how many transactions were open at once at most, and the first offset at which they were.

    The log is gone through from its end, with the first offsets of what is open there.
    """
    opened, most, offset = case.open_transactions["first_offset"], 0, 0
    closed = case.ledger.closed
    for number in range(closed.ranges, -1, -1):
        rows = closed.read(number) if number < closed.ranges else NO_TRANSACTIONS
        before = closed.last_keys[number - 1] if number else NOTHING
        firsts = np.concatenate([rows["first_offset"], opened])
        begun = firsts[firsts > before]
        places = np.concatenate([begun, rows["marker_offset"]])
        order = np.argsort(places, kind="stable")
        opened = firsts[firsts <= before]
        at_once = len(opened) + np.cumsum(np.repeat([1, -1], [len(begun), len(rows)])[order])
        if len(order) and at_once.max() >= most:
            most, offset = int(at_once.max()), int(places[order[at_once.argmax()]])
    return most, offset


def _many_segments(case: Case) -> Iterator[Part]:
    bases = [segment.base_offset or 0 for segment in case.partition.segments]
    for found in case.ledger if len(bases) > case.rules.many_segments else ():
        ends = np.where(found["ending"] == Ending.OPEN, found["last_offset"], found["marker_offset"])
        first, last = (np.searchsorted(bases, offsets, "right") for offsets in (found["first_offset"], ends))
        segments = last - np.maximum(first, 1) + 1
        many = segments > case.rules.many_segments
        yield Part(found[many], {"segments": segments[many]})


def _spans(case: Case, row: Row) -> Finding:
    return case.finding(
        CODES["txn-open-many"],
        f"The transaction of producer {row['producer_id']} from offset {row['first_offset']} on spans "
        f"{row['segments']} segments.",
        offsets=(row["first_offset"], row["last_offset"]),
        producer=(row["producer_id"], row["producer_epoch"]),
        at=(row["segment"], row["position"]),
        evidence={"segments": row["segments"]},
        benign=("long transactions in small segments: possible",),
    )
