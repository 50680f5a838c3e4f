"""Transactions that ended strangely, or hold what is not theirs.

Rule: ``ProducerAppendInfo`` and ``TransactionCoordinator.abortTimedOutTransactions``; what the coordinator knew of a
transaction is not in this log.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from kforensics.forensics.core.findings import Exactness, Finding, codes
from kforensics.forensics.core.record_types import Anomaly, Ending, Records
from kforensics.forensics.core.reporting import Part, Row, each, each_of, moment, place, span
from kforensics.forensics.partition.marker_times import with_marker_times
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.producer_history import NOTHING, anomalies_of, with_markers_before

__all__ = ["CODES", "findings"]

CODES = codes("""
txn-duration-excessive warning
A transaction lasted longer than its coordinator should have let it.
See whether the transaction coordinator was available in that time.
why: A transaction that its producer leaves open is aborted at its timeout. One that lasted longer had no coordinator \
at the time, or one that could not reach the partitions.
innocent: Timestamps of data are the client's word, so a transaction with old data in it looks long. The limit of a \
two-phase commit is none.

txn-aborted-rate-high warning
A large share of the transactions was aborted.
Look into the logs of the producers: timeouts, and two of them with one transactional id that fence each other.
why: Work is done and thrown away. Usually transactions last longer than their timeout, or two instances with one \
transactional id take it from each other.
innocent: Test traffic, or one storm of timeouts in otherwise quiet times.

txn-epoch-mixed error
A transaction holds data of more than one producer epoch.
Treat the part with the lower epoch as a hanging transaction that the next one swallowed.
why: A new epoch means that the producer was fenced or began anew, and its old transaction was to be ended first. Here \
no marker stands between the two, so that both share the fate of the later one: data that should have been aborted may \
have been committed, or the other way round.
innocent: A cleaner of before 3.3 took away the marker that stood between. Where the head of the log is missing, the \
marker may be in it.

txn-nontxn-inside critical
A producer wrote a batch without a transaction inside its own open transaction.
No broker can load this log after an unclean stop: keep a replica that can be loaded, and build this one again.
why: A leader refuses such a batch, and so does every broker that replays the log after an unclean stop: it then fails \
to load the partition. Either the marker between is lost, or the bytes of the batch are not those that were written.
innocent: A cleaner of before 3.3 took the marker away. A flipped bit in the attributes of the batch; its checksum \
would fail.

txn-foreign-data-absorbed critical
Data of another transaction was committed with this one.
Compare the records up to the change of the epoch with the source; the application may have to repeat its work.
why: A transaction left data that nobody ended, and the next one of the same producer did: its COMMIT now stands for \
data that should have been aborted, or its ABORT hides data that was committed. Consumers cannot tell.
innocent: None with transaction version 2. Before it, clocks that differ and timestamps set by clients may make a \
batch look as if it came too early.

txn-write-after-marker error
Data arrived after the transaction it belongs to had been ended.
If it is still open it hangs; if the marker of a later transaction ended it, it shares the fate of that one.
why: A request of the producer was delayed on the network and arrived when the coordinator had already written the \
marker, for example after a timeout. Brokers from 4.0 on, with transaction version 2, do not let it in. Its data opens \
a transaction that nobody knows of.
innocent: The producer had enlisted the partition for its next transaction already, and the log of the coordinator is \
not here to say so.
""")


def findings(case: Case) -> Iterator[Finding]:
    """Yield what is to be said of the transactions of a log."""
    yield from _excessive(case)
    yield from _aborted_rate(case)
    yield from each_of(_mixed_ones(case), partial(_mixed, case))
    yield from each_of(_mixed_ones(case, Ending.COMMITTED), partial(_absorbed, case))
    yield from _inside(case)
    yield from each_of(_after_marker(case), partial(_late_write, case))


def _excessive(case: Case) -> Iterator[Finding]:
    rules = case.rules
    allowed = rules.max_txn_timeout_ms + rules.abort_scan_ms + rules.clock_skew_ms
    yield from each_of(_long_ones(case, allowed), partial(_lasted, case, allowed), by="marker_offset")


def _long_ones(case: Case, allowed: int) -> Iterator[Part]:
    def may_be(closed: Records) -> Records:
        first = closed["first_timestamp"]
        either: Records = (first >= 0) & (closed["marker_timestamp"] - np.maximum(first, 0) > allowed)
        return either

    for found, times in with_marker_times(case, "first_offset", may_be):
        begins = np.maximum(found["first_timestamp"], times)
        lasted = found["marker_timestamp"] - begins
        long = lasted > allowed
        yield Part(found[long], {"lasted": lasted[long], "begins": begins[long]})


def _lasted(case: Case, allowed: int, row: Row) -> Finding:
    return case.finding(
        CODES["txn-duration-excessive"],
        f"The transaction of producer {row['producer_id']} from offset {row['first_offset']} on lasted "
        f"{span(row['lasted'])}, from {moment(row['begins'])} to its marker at offset {row['marker_offset']}; at most "
        f"{span(allowed)} are allowed.",
        **place(row),
        evidence={"lasted_ms": row["lasted"], "allowed_ms": allowed},
        exactness=_of_clients(case),
        benign=(
            "timestamps set by the client: "
            + ("no, the log has append times" if _has_append_times(case) else "possible"),
            "coordinator not available, producer of a two-phase commit: cannot be seen without the coordinator log",
        ),
    )


def _has_append_times(case: Case) -> bool:
    return case.log.timestamp_types == 2


def _of_clients(case: Case) -> Exactness:
    return Exactness.EXACT if _has_append_times(case) else Exactness.APPROXIMATE


def _aborted_rate(case: Case) -> Iterator[Finding]:
    ledger, count = case.ledger, len(case.ledger.closed)
    if count < case.rules.aborted_least or ledger.aborted <= case.rules.aborted_share * count:
        return
    first = min(ledger.earliest(number) for number in range(ledger.closed.ranges))
    yield case.finding(
        CODES["txn-aborted-rate-high"],
        f"Of {count} transactions {ledger.aborted} were aborted, {ledger.aborted / count:.0%}.",
        offsets=(first, int(ledger.closed.last_keys[-1])),
        evidence={"transactions": count, "aborted": ledger.aborted},
        benign=("test traffic, one storm of timeouts: possible",),
    )


def _mixed_ones(case: Case, ending: Ending | None = None) -> Iterator[Part]:
    for rows in case.ledger:
        mixed = rows["lowest_epoch"] != rows["highest_epoch"]
        yield Part(rows[mixed if ending is None else mixed & (rows["ending"] == ending)])


def _mixed(case: Case, row: Row) -> Finding:
    return case.finding(
        CODES["txn-epoch-mixed"],
        f"The transaction of producer {row['producer_id']} from offset {row['first_offset']} to {row['last_offset']} "
        f"holds data of the epochs {row['lowest_epoch']} to {row['highest_epoch']}, with no marker between.",
        **place(row),
        evidence={"lowest_epoch": row["lowest_epoch"], "highest_epoch": row["highest_epoch"]},
        **_of_zone(case, row),
    )


def _absorbed(case: Case, row: Row) -> Finding:
    return case.finding(
        CODES["txn-foreign-data-absorbed"],
        f"The COMMIT at offset {row['marker_offset']} made data of producer {row['producer_id']} visible from offset "
        f"{row['first_offset']} on that begins with epoch {row['lowest_epoch']}, while the transaction it ended has "
        f"epoch {row['highest_epoch']}.",
        **place(row),
        evidence={"marker_offset": row["marker_offset"], "lowest_epoch": row["lowest_epoch"]},
        cause="txn-epoch-mixed",
        **_of_zone(case, row),
    )


def _of_zone(case: Case, row: Row) -> dict[str, Any]:
    """Return how far one may trust that no marker stood where the log shows none."""
    cleaned: bool = row["first_offset"] < case.strict_from
    return {
        "exactness": Exactness.APPROXIMATE if cleaned else Exactness.EXACT,
        "benign": (f"marker lost to a cleaner before 3.3: {'possible' if cleaned else 'no, never cleaned here'}",),
    }


def _inside(case: Case) -> Iterator[Finding]:
    found = anomalies_of(case, Anomaly.TXN_NONTXN_INSIDE)
    if len(found):
        damaged = {(segment, damage.inside_batch) for segment, damage in case.log.damage}
        yield from each(found, partial(_not_transactional, case, damaged))


def _not_transactional(case: Case, damaged: set[tuple[int, int | None]], row: Row) -> Finding:
    is_damaged = (row["segment"], row["position"]) in damaged
    zone = _of_zone(case, row)
    return case.finding(
        CODES["txn-nontxn-inside"],
        f"Producer {row['producer_id']} wrote the offsets {row['first_offset']} to {row['last_offset']} without a "
        "transaction while one of its own was open.",
        **place(row),
        evidence={"previous_offset": row["previous_offset"]},
        exactness=Exactness.APPROXIMATE if is_damaged else zone["exactness"],
        benign=(*zone["benign"], f"damaged attributes: {'yes, its checksum fails' if is_damaged else 'no'}"),
    )


def _after_marker(case: Case) -> Iterator[Part]:
    for found, before in with_markers_before(case):
        after = (before["marker_offset"] != NOTHING) & (found["lowest_epoch"] < before["highest_epoch"])
        more = {"before": before["marker_offset"], "ended_epoch": before["highest_epoch"]}
        yield Part(found, more).taken(after)


def _late_write(case: Case, row: Row) -> Finding:
    is_open = row["ending"] == Ending.OPEN
    fate = "it is still open" if is_open else f"the marker at offset {row['marker_offset']} ended it"
    return case.finding(
        CODES["txn-write-after-marker"],
        f"Producer {row['producer_id']} wrote with epoch {row['lowest_epoch']} from offset {row['first_offset']} on, "
        f"though a marker of epoch {row['ended_epoch']} had ended what was of that epoch (its last marker before is at "
        f"offset {row['before']}); {fate}.",
        **place(row),
        evidence={"marker_offset": row["before"], "marker_epoch": row["ended_epoch"]},
        exactness=Exactness.APPROXIMATE,
        benign=("enrolled anew by its coordinator: the coordinator log was not consulted",),
    )
