"""COMMIT and ABORT markers that end nothing, contradict one another, or have epochs they should not have.

Rule: ``ProducerAppendInfo.appendEndTxnMarker`` for what a leader takes; a follower and a replay take all.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from kforensics.forensics.core.findings import Exactness, Finding, Severity, codes
from kforensics.forensics.core.record_types import Anomaly, Ending, Records
from kforensics.forensics.core.reporting import Part, Row, each, each_of, expiry, place, span
from kforensics.forensics.partition.marker_times import with_marker_times
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.producer_history import anomalies_of, is_expired, markers_before
from kforensics.forensics.sidecar.transaction_entries import index_records

__all__ = ["CODES", "findings"]

CODES = codes("""
marker-empty info
A marker ends no data in this partition.
Nothing; where more than a tenth of the markers are empty, producers enlist partitions and do not write to them.
why: A coordinator writes a marker to every partition that was enlisted, whether or not data came. The marker ends \
nothing and does no harm.
innocent: Nearly always: the producer failed before it wrote, the data was cleaned or deleted since, or a marker was \
sent again after a failover.

marker-duplicate info
The end of a transaction was written twice.
why: The coordinator got no answer, or moved to another broker, and sent the marker again. The second one ends \
nothing.
innocent: Nearly always. Below transaction version 2 it may also be an empty transaction of the same epoch.

marker-conflict critical
The same transaction has a COMMIT and an ABORT in this partition.
The first marker decided what consumers see; look into the coordinator log for what was meant.
why: The first marker decided: consumers go by it, whatever the second one says. If both are of one transaction, its \
coordinator took two decisions, and other partitions may have got the other one first.
innocent: Below transaction version 2 the second marker may be of an empty transaction right behind the first. An \
operator aborted with kafka-transactions.sh what had just been committed.

marker-epoch-regressed error
A marker has an epoch below that of its producer.
From here on an old instance of the producer is not fenced: look for data of lower epochs behind it.
why: Brokers refuse a marker of a lower epoch, unless they do not know the producer. Whoever replays the log takes it, \
and with it the lower epoch: an instance that had been fenced may write again.
innocent: The leader had lost the state of the producer, or the producer had been idle until it expired.

marker-epoch-jump warning
A marker has an epoch more than 2 above that of the data it ends.
See whether the data and the marker are of the same transaction.
why: To fence a producer its coordinator raises the epoch by one, and transaction version 2 by one for each \
transaction. A larger step says that markers of other transactions are missing, or that this marker ended data that \
had been left hanging by an older one.
innocent: WriteTxnMarkers up to version 1 takes any epoch that is not lower; a coordinator that tried again and again \
raised it each time (before KAFKA-9666).

marker-coordinator-epoch-regressed warning
A marker comes from an older coordinator than one before it.
Compare with the leader epochs of the coordinator's partition: a coordinator that had been replaced may have written it.
why: The coordinator epoch is the leader epoch of a partition of __transaction_state; it only rises. A lower one comes \
from a coordinator that had been replaced and did not know it yet.
innocent: An operator's abort has epoch 0 if none was given. The producer had expired (KAFKA-9144). The topic \
__transaction_state was created anew.

marker-admin-abort info
An operator probably aborted this transaction.
Keep a note of it: the coordinator does not know of it.
why: kafka-transactions.sh abort writes the marker straight to the partition. It has the epoch of the data, and the \
coordinator is not asked.
innocent: Below transaction version 2, an abort by the producer itself looks the same, if its coordinator's record of \
it was cleaned away.
""")

# A coordinator that fences adds one, with transaction version 2 up to 4.0.0 two.
EPOCHS_OF_AN_END = 2


def findings(case: Case) -> Iterator[Finding]:
    """Yield what is to be said of the markers in a log."""
    conflicts, certain = _conflicts(case)
    yield from each(conflicts, partial(_conflict, case), certain=certain)
    yield from _empty(case, conflicts["first_offset"])
    yield from each(_duplicates(case), partial(_duplicate, case))
    regressed = anomalies_of(case, Anomaly.MARKER_EPOCH_REGRESSED)
    yield from each(regressed, partial(_regressed, case), expired=is_expired(case, regressed))
    yield from each_of(_jumps(case), partial(_jump, case))
    yield from _older_coordinators(case)
    yield from each_of(_admin_aborts(case), partial(_admin_abort, case), by="marker_offset")


def _conflicts(case: Case) -> tuple[Records, Records]:
    """Return contradicting markers of probably one transaction, and for which of them the epochs prove it.

    Where the first one has the epoch behind that of the data it ended, the transaction after it has the next one. Else
    two transactions may share the epoch, of which the second one is empty here: only a new coordinator, and no more
    than some seconds, let one think of the same.
    """
    found = anomalies_of(case, Anomaly.MARKER_CONFLICT)
    ids = found["producer_id"]
    first, second = (markers_before(case, ids, found["first_offset"] + at) for at in (0, 1))
    certain = (first["data_epoch"] >= 0) & (first["data_epoch"] < found["producer_epoch"])
    close = np.abs(found["timestamp"] - found["previous_timestamp"]) <= case.rules.clock_skew_ms
    moved = second["coordinator_epoch"] > first["coordinator_epoch"]
    probable = certain | (close & moved & (found["hole"] == 0))
    return found[probable], certain[probable]


def _ending_marker(row: Row) -> dict[str, Any]:
    """Return the place of the marker of a transaction."""
    return {
        "offsets": (row["marker_offset"], row["marker_offset"]),
        "producer": (row["producer_id"], row["marker_epoch"]),
        "at": (row["marker_segment"], row["marker_position"]),
    }


def _conflict(case: Case, row: Row) -> Finding:
    certain = row["certain"]
    return case.finding(
        CODES["marker-conflict"],
        f"The marker of producer {row['producer_id']}, epoch {row['producer_epoch']}, at offset {row['first_offset']} "
        f"says the contrary of the one at offset {row['previous_offset']}, with no data between.",
        severity=None if certain else Severity.WARNING,
        **place(row),
        evidence={"previous_offset": row["previous_offset"]},
        exactness=Exactness.EXACT if certain else Exactness.APPROXIMATE,
        benign=(
            "empty transaction of the same epoch right behind the other: "
            + ("no, the epoch rises with each" if certain else "possible, the coordinator log was not consulted"),
        ),
    )


def _empty(case: Case, conflicts: Records) -> Iterator[Finding]:
    found = case.empty_markers
    shown = found["exact"] & ~np.isin(found["marker_offset"], conflicts) & ~_proven(case, found)
    found = found[shown]
    share = {"markers": len(case.ledger.closed) + len(case.empty_markers), "empty": len(found)}
    again = np.isin(found["marker_offset"], _duplicates(case)["first_offset"])
    yield from each(found, partial(_ends_nothing, case, share), again=again)


def _proven(case: Case, found: Records) -> Records:
    """Return which markers ended a transaction whose data is gone, as their entries in the transaction index say."""
    proven: Records = np.zeros(len(found), bool)
    indexed = index_records(case.partition) if len(found) else None
    for entries in indexed or ():
        at = np.minimum(np.searchsorted(entries["last_offset"], found["marker_offset"]), len(entries) - 1)
        entry = entries[at]
        same = (entry["last_offset"] == found["marker_offset"]) & (entry["producer_id"] == found["producer_id"])
        begin = max(int(case.log.first.base_offset[0]), case.strict_from)
        # Up to 2.7 an empty abort had an entry too, which begins with the marker itself (KAFKA-10702).
        proven |= same & (entry["first_offset"] < np.minimum(begin, found["marker_offset"]))
    return proven


def _ends_nothing(case: Case, share: dict[str, int], row: Row) -> Finding:
    return case.finding(
        CODES["marker-empty"],
        f"The {_name(row)} of producer {row['producer_id']}, epoch {row['marker_epoch']}, at offset "
        f"{row['marker_offset']} ends no transaction here.",
        offsets=(row["marker_offset"], row["marker_offset"]),
        producer=(row["producer_id"], row["marker_epoch"]),
        at=(row["segment"], row["position"]),
        evidence={"empty_markers": share["empty"], "markers": share["markers"]},
        benign=(
            f"sent again: {'yes' if row['again'] else 'no'}",
            f"its data was cleaned away: {'possible' if row['marker_offset'] < case.strict_from else 'no'}",
            "partition enlisted, but nothing written: possible",
        ),
    )


def _name(row: Row) -> str:
    return "ABORT" if row["ending"] == Ending.ABORTED else "COMMIT"


def _duplicates(case: Case) -> Records:
    """Return markers that repeat another, where all that stood between the two is there."""
    found = anomalies_of(case, Anomaly.MARKER_DUPLICATE)
    return found.compress(found["hole"] == 0)


def _duplicate(case: Case, row: Row) -> Finding:
    return case.finding(
        CODES["marker-duplicate"],
        f"The marker of producer {row['producer_id']}, epoch {row['producer_epoch']}, at offset {row['first_offset']} "
        f"repeats the one at offset {row['previous_offset']}.",
        **place(row),
        evidence={"previous_offset": row["previous_offset"]},
        benign=("sent again after a failover or a lost answer, or an empty transaction of the same epoch: likely",),
    )


def _regressed(case: Case, row: Row) -> Finding:
    return case.finding(
        CODES["marker-epoch-regressed"],
        f"The marker at offset {row['first_offset']} has epoch {row['producer_epoch']} of producer "
        f"{row['producer_id']}, after epoch {row['producer_epoch'] + row['amount']} had been seen.",
        severity=Severity.WARNING if row["expired"] else None,
        **place(row),
        evidence={"fallen_by": row["amount"], "previous_offset": row["previous_offset"]},
        benign=(
            expiry(row),
            "leader that had lost its state: cannot be seen in one replica",
        ),
    )


def _jumps(case: Case) -> Iterator[Part]:
    for closed in case.ledger.closed:
        risen = closed["marker_epoch"].astype("i8") - closed["highest_epoch"]
        jumps = risen > EPOCHS_OF_AN_END
        yield Part(closed[jumps], {"risen": risen[jumps]})


def _jump(case: Case, row: Row) -> Finding:
    return case.finding(
        CODES["marker-epoch-jump"],
        f"The {_name(row)} of producer {row['producer_id']} at offset {row['marker_offset']} has epoch "
        f"{row['marker_epoch']}, {row['risen']} above that of the data it ends from offset {row['first_offset']} on.",
        **_ending_marker(row),
        evidence={"risen_by": row["risen"], "first_offset": row["first_offset"]},
        benign=(
            "WriteTxnMarkers up to version 1 takes any epoch that is not lower: possible",
            "data that had hung before, ended by a later marker: the coordinator log was not consulted",
        ),
    )


def _older_coordinators(case: Case) -> Iterator[Finding]:
    found = anomalies_of(case, Anomaly.MARKER_COORDINATOR_EPOCH_REGRESSED)
    itself = markers_before(case, found["producer_id"], found["first_offset"] + 1)
    more = {"coordinator_epoch": itself["coordinator_epoch"], "ending": itself["ending"]}
    yield from each(found, partial(_older_coordinator, case), **more)


def _older_coordinator(case: Case, row: Row) -> Finding:
    epoch = row["coordinator_epoch"]
    by_operator = row["ending"] == Ending.ABORTED and epoch == 0
    return case.finding(
        CODES["marker-coordinator-epoch-regressed"],
        f"The {_name(row)} of producer {row['producer_id']} at offset {row['first_offset']} has coordinator epoch "
        f"{epoch}, while the marker at offset {row['previous_offset']} has {epoch + row['amount']}.",
        **place(row),
        evidence={"fallen_by": row["amount"], "previous_offset": row["previous_offset"]},
        benign=(
            f"abort by an operator, with epoch 0: {'possible' if by_operator else 'no'}",
            "partition of the coordinator log created anew: cannot be seen here",
        ),
    )


def _admin_aborts(case: Case) -> Iterator[Part]:
    def may_be(closed: Records) -> Records:
        late = (_silence(closed, closed["last_timestamp"]) > case.rules.late_ms) & (closed["last_timestamp"] > 0)
        aborted = (closed["ending"] == Ending.ABORTED) & (closed["marker_epoch"] == closed["highest_epoch"])
        either: Records = late & aborted
        return either

    for found, times in with_marker_times(case, "last_offset", may_be):
        silence = _silence(found, np.maximum(found["last_timestamp"], times))
        late = np.flatnonzero(silence > case.rules.late_ms)
        late = late[_by_operators(case, found[late])]
        yield Part(found[late], {"silence": silence[late]})


def _silence(closed: Records, since: Records) -> Records:
    silence: Records = closed["marker_timestamp"] - since
    return silence


def _by_operators(case: Case, found: Records) -> Records:
    """Return which aborts come from no coordinator that is known, or from the one of the marker before."""
    epoch = found["coordinator_epoch"]
    before = markers_before(case, found["producer_id"], found["first_offset"])
    by_operator: Records = (epoch == 0) | (epoch == before["coordinator_epoch"])
    return by_operator


def _admin_abort(case: Case, row: Row) -> Finding:
    return case.finding(
        CODES["marker-admin-abort"],
        f"The ABORT at offset {row['marker_offset']} ended the transaction of producer {row['producer_id']} from "
        f"offset {row['first_offset']} on {span(row['silence'])} after its last batch, without raising its epoch, "
        "as an operator's does.",
        **_ending_marker(row),
        evidence={"silent_ms": row["silence"], "first_offset": row["first_offset"]},
        exactness=Exactness.APPROXIMATE,
        benign=("abort by a producer of transaction version 0 or 1: the coordinator log was not consulted",),
    )
