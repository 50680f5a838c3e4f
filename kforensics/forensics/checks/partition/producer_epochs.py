"""Producer epochs that fall, rise at the wrong place, or come to their end.

Rule: ``ProducerAppendInfo.checkProducerEpoch`` and ``checkSequence``; for the end of the epochs
``ProducerIdAndEpoch`` in the coordinator, which gives a new producer id before 32767.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np

from kforensics.forensics.core.findings import Exactness, Finding, Severity, codes
from kforensics.forensics.core.observations import Noticed, noted, of_kind
from kforensics.forensics.core.record_types import Anomaly, Records
from kforensics.forensics.core.reporting import Row, each, expiry, place, span
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.log_summary import Noter
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.producer_history import (
    NOTHING,
    anomalies_of,
    are_raised_by_commits,
    is_expired,
    last_before,
)
from kforensics.forensics.replay.finalising import known_producers
from kforensics.parsers.columns.batch_columns import NO_CONTROL, BatchColumns
from kforensics.parsers.format.rows import TRANSACTIONAL_BIT

__all__ = ["CODES", "NOTER", "findings"]

CODES = codes("""
epoch-regressed error
A producer wrote with an epoch below one that had been seen: one that was fenced got through.
Look for output of both instances side by side; with transactional ids, for offsets that the older one committed.
why: The epoch of a producer rises when another instance takes over, and the old one is fenced by it. A leader that \
knows this refuses the old one; this one did not, so the output of both instances may stand side by side.
innocent: The leader had lost what it knew, or had forgotten an idle producer at producer.id.expiration.ms. In a log \
without its head the higher epoch may be of older times.

epoch-bump-nonzero-seq error
The first batch of a new epoch does not begin at sequence 0.
The first records of that epoch are missing here: compare with what the application was told was written.
why: Every epoch begins to count at 0, and a leader that knows the producer insists on it. That the first batch here \
is a later one says that earlier ones are not in this log.
innocent: The leader had forgotten the producer. A client that is not Java's counts otherwise. The first batches were \
cut off after an unclean election.

epoch-bump-without-marker warning
The epoch of a producer rises inside an open transaction.
See what became of the transaction that mixes the two epochs.
why: The coordinator first ends the open transaction and then lets the new epoch begin. Here data of the new epoch was \
let into the old transaction.
innocent: None for Kafka's own coordinator. A cleaner of before 3.3 may have taken the marker away.

epoch-near-exhaustion warning
A producer has nearly used up its epochs.
Find out what fences it again and again.
why: Each fencing and, with transaction version 2, each transaction uses up an epoch; there are 32768. A coordinator \
gives a new producer id in time; one that cannot leaves the application standing.
innocent: With transaction version 2 it is in order: the producer id is changed at the end.

epoch-max-used error
A transactional producer wrote with the last epoch there is.
Upgrade to 4.3 or later, whose coordinator ends such a transaction and changes the producer id; before, end it with \
kafka-transactions.sh abort only after the state of the coordinator was repaired (KAFKA-19367, KAFKA-20090).
why: The last epoch is kept for fencing, so that a coordinator can always abort. Where data has it, the abort cannot \
be written, and the transaction stays open.
innocent: A producer with idempotence and without transactions may come that far by itself; it is not meant here.

pid-mixed-modes warning
A producer id was used with transactions and without.
Find out which client library it is: a transactional producer of the Java client always says so.
why: The Java client marks all data of a transactional producer as transactional. A producer that does both loses the \
guarantee for the part outside, and brokers differ in what they make of it.
innocent: None with the Java client.

pid-churn info
Very many producers came and went.
Let applications keep their producers: each of them costs the broker memory until it expires.
why: Every producer that starts gets a new id, and every partition it writes to remembers it for a day. Very many of \
them fill the memory of the broker and make its snapshots large.
innocent: Short-lived producers on purpose, as in functions and cron jobs.
""")

LAST_EPOCH = 32_767
HOUR_MS = 3_600_000


def _noted(batches: BatchColumns, rules: Rules) -> Iterable[Records]:
    near = (batches.producer_epoch >= rules.near_exhaustion) & (batches.producer_id >= 0) & batches.crc_valid
    if not near.any():
        return
    yield noted(Noticed.EPOCH_NEAR_EXHAUSTION, batches, near, amount=batches.producer_epoch)
    transactional = (batches.attributes & TRANSACTIONAL_BIT != 0) & (batches.control == NO_CONTROL)
    yield noted(Noticed.EPOCH_MAX_USED, batches, near & transactional & (batches.producer_epoch == LAST_EPOCH))


NOTER = Noter(batches=_noted)


def findings(case: Case) -> Iterator[Finding]:
    """Yield what is to be said of the epochs of the producers in a log, and of how many there are."""
    regressed = anomalies_of(case, Anomaly.EPOCH_REGRESSED)
    yield from each(regressed, partial(_regressed, case), expired=is_expired(case, regressed))
    if case.judges_sequences:
        yield from _bumps(case)
    yield from each(anomalies_of(case, Anomaly.EPOCH_BUMP_WITHOUT_MARKER), partial(_without_marker, case))
    near = of_kind(case.log.notes, Noticed.EPOCH_NEAR_EXHAUSTION)
    yield from each(near, partial(_near, case), by_design=are_raised_by_commits(case, near["producer_id"]))
    yield from each(of_kind(case.log.notes, Noticed.EPOCH_MAX_USED), partial(_last_epoch, case))
    if case.judges_sequences:
        yield from each(_mixed(case), partial(_mixed_modes, case))
    yield from _churn(case)


def _regressed(case: Case, row: Row) -> Finding:
    return case.finding(
        CODES["epoch-regressed"],
        f"Producer {row['producer_id']} wrote the offsets {row['first_offset']} to {row['last_offset']} with epoch "
        f"{row['producer_epoch']}, after epoch {row['producer_epoch'] + row['amount']} had been seen.",
        severity=Severity.WARNING if row["expired"] else None,
        **place(row),
        evidence={"fallen_by": row["amount"], "previous_offset": row["previous_offset"]},
        benign=(expiry(row), "leader that had lost its state: cannot be seen in one replica"),
    )


def _bumps(case: Case) -> Iterator[Finding]:
    found = anomalies_of(case, Anomaly.EPOCH_BUMP_NONZERO_SEQ)
    # Where offsets are missing too, so are the first batches of the epoch.
    found = found.compress((found["first_offset"] >= case.strict_from) & (found["hole"] == 0))
    more = {"expired": is_expired(case, found), "cause": _fall_before(case, found)}
    yield from each(found, partial(_bump, case), **more)


def _fall_before(case: Case, bumps: Records) -> Records:
    """Return for each bump the code of the fall that made it one, an empty text if there is none.

    The replay takes over an epoch that falls; the producer that is still there then seems to raise it.
    """
    if not len(bumps):
        return np.zeros(0, str)
    falls = anomalies_of(case, Anomaly.EPOCH_REGRESSED, Anomaly.MARKER_EPOCH_REGRESSED)
    at = last_before(falls["producer_id"], falls["first_offset"], bumps["producer_id"], bumps["first_offset"])
    fall = np.concatenate([falls, np.full(1, NOTHING, falls.dtype)])[at]
    back = (at >= 0) & (bumps["producer_epoch"] <= fall["producer_epoch"] + fall["amount"])
    of_data = fall["kind"] == Anomaly.EPOCH_REGRESSED
    return np.where(back, np.where(of_data, "epoch-regressed", "marker-epoch-regressed"), "")


def _bump(case: Case, row: Row) -> Finding:
    return case.finding(
        CODES["epoch-bump-nonzero-seq"],
        f"Producer {row['producer_id']} went on with epoch {row['producer_epoch']}, {row['amount']} above the one "
        f"before, at offset {row['first_offset']}, and its first batch does not begin at sequence 0.",
        severity=Severity.WARNING if row["expired"] else None,
        **place(row),
        evidence={"raised_by": row["amount"], "previous_offset": row["previous_offset"]},
        benign=(expiry(row), "client that is not Java's, truncation after an unclean election: cannot be seen here"),
        cause=row["cause"] or None,
    )


def _without_marker(case: Case, row: Row) -> Finding:
    cleaned = row["previous_offset"] < case.strict_from
    return case.finding(
        CODES["epoch-bump-without-marker"],
        f"Producer {row['producer_id']} raised its epoch to {row['producer_epoch']} at offset {row['first_offset']} "
        "inside an open transaction.",
        **place(row),
        evidence={"raised_by": row["amount"], "previous_offset": row["previous_offset"]},
        exactness=Exactness.APPROXIMATE if cleaned else Exactness.EXACT,
        benign=(f"marker lost to a cleaner before 3.3: {'possible' if cleaned else 'no, never cleaned here'}",),
    )


def _near(case: Case, row: Row) -> Finding:
    by_design = row["by_design"]
    return case.finding(
        CODES["epoch-near-exhaustion"],
        f"Producer {row['producer_id']} has come to epoch {row['amount']} of {LAST_EPOCH}; its first batch with "
        f"{case.rules.near_exhaustion} or more stands at offset {row['first_offset']}.",
        severity=Severity.INFO if by_design else None,
        **place(row),
        evidence={"batches": row["count"], "epoch": row["amount"]},
        benign=(f"transaction version 2, an epoch for each transaction: {'yes' if by_design else 'no sign of it'}",),
    )


def _last_epoch(case: Case, row: Row) -> Finding:
    return case.finding(
        CODES["epoch-max-used"],
        f"Producer {row['producer_id']} wrote transactional data with epoch {LAST_EPOCH}, the last there is, from "
        f"offset {row['first_offset']} on.",
        **place(row),
        evidence={"batches": row["count"]},
        benign=("producer without transactions: no",),
    )


def _mixed(case: Case) -> Records:
    """Return where producers changed their mode, but for what is worse: inside a transaction."""
    found = anomalies_of(case, Anomaly.PID_MIXED_MODES)
    if not len(found):
        return found
    inside = anomalies_of(case, Anomaly.TXN_NONTXN_INSIDE)
    return found.compress(~np.isin(found["first_offset"], inside["first_offset"]))


def _mixed_modes(case: Case, row: Row) -> Finding:
    return case.finding(
        CODES["pid-mixed-modes"],
        f"Producer {row['producer_id']} wrote both with transactions and without; the second kind begins at offset "
        f"{row['first_offset']}.",
        **place(row),
        evidence={"previous_offset": row["previous_offset"]},
    )


def _churn(case: Case) -> Iterator[Finding]:
    """Yield that there are very many producers for the time from the first batch to the newest.

    When each of them came is not kept; those of a snapshot were there before.
    """
    came = len(case.producers) - len(known_producers(case.boundary))
    first = int(case.log.first.max_timestamp[0]) if case.log.batches else NOTHING
    lasted = case.log.newest_timestamp - first
    if first < 0 or came <= case.rules.new_producers_per_hour * max(1, lasted / HOUR_MS):
        return
    yield case.finding(
        CODES["pid-churn"],
        f"{came} producers wrote here within {span(lasted)}.",
        offsets=(int(case.log.first.base_offset[0]), case.log_end_offset - 1),
        evidence={"producers": came, "milliseconds": lasted},
        exactness=Exactness.APPROXIMATE,
        benign=("producers that live shortly, as in functions: possible",),
    )
