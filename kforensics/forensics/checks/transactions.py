"""Transactions that ended strangely, or hold what is not theirs.

Rule: ``ProducerAppendInfo`` and ``TransactionCoordinator.abortTimedOutTransactions``; what the coordinator knew of a
transaction is not in this log.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from kforensics.forensics.case import Case
from kforensics.forensics.findings import Exactness, Finding, codes
from kforensics.forensics.producer_past import NOTHING, anomalies_of, marker_times, markers_before, markers_of
from kforensics.forensics.replay.results import Anomaly, Ending
from kforensics.forensics.telling import Row, each, moment, place, span

__all__ = ["CODES", "findings"]

CODES = codes("""
txn-duration-excessive warning
A transaction lasted longer than its coordinator should have let it.
See whether the transaction coordinator was available in that time.

txn-aborted-rate-high warning
A large share of the transactions was aborted.
Look into the logs of the producers: timeouts, and two of them with one transactional id that fence each other.

txn-epoch-mixed error
A transaction holds data of more than one producer epoch.
Treat the part with the lower epoch as a hanging transaction that the next one swallowed.

txn-nontxn-inside critical
A producer wrote a batch without a transaction inside its own open transaction.
No broker can load this log after an unclean stop: keep a replica that can be loaded, and build this one again.

txn-foreign-data-absorbed critical
Data of another transaction was committed with this one.
Compare the records up to the change of the epoch with the source; the application may have to repeat its work.

txn-write-after-marker error
Data arrived after the transaction it belongs to had been ended.
If it is still open it hangs; if the marker of a later transaction ended it, it shares the fate of that one.
""")


def findings(case: Case) -> Iterator[Finding]:
    """Yield what is to be said of the transactions of a log."""
    yield from _excessive(case)
    yield from _aborted_rate(case)
    mixed = case.transactions.compress(case.transactions["lowest_epoch"] != case.transactions["highest_epoch"])
    yield from each(mixed, partial(_mixed, case))
    yield from each(mixed.compress(mixed["ending"] == Ending.COMMITTED), partial(_absorbed, case))
    yield from _inside(case)
    yield from _after_marker(case)


def _excessive(case: Case) -> Iterator[Finding]:
    rules, closed = case.rules, case.closed_transactions
    timed = closed.compress(closed["first_timestamp"] >= 0)
    begins = np.maximum(timed["first_timestamp"], marker_times(case, timed["first_offset"]))
    lasted = timed["marker_timestamp"] - begins
    allowed = rules.max_txn_timeout_ms + rules.abort_scan_ms + rules.clock_skew_ms
    long = lasted > allowed
    yield from each(timed[long], partial(_lasted, case, allowed), lasted=lasted[long], begins=begins[long])


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
    closed = case.closed_transactions
    aborted = int((closed["ending"] == Ending.ABORTED).sum())
    if len(closed) < case.rules.aborted_least or aborted <= case.rules.aborted_share * len(closed):
        return
    yield case.finding(
        CODES["txn-aborted-rate-high"],
        f"Of {len(closed)} transactions {aborted} were aborted, {aborted / len(closed):.0%}.",
        offsets=(int(closed["first_offset"].min()), int(closed["marker_offset"][-1])),
        evidence={"transactions": len(closed), "aborted": aborted},
        benign=("test traffic, one storm of timeouts: possible",),
    )


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


def _after_marker(case: Case) -> Iterator[Finding]:
    found = case.transactions
    before = markers_before(markers_of(case), found["producer_id"], found["first_offset"])
    after = (before["marker_offset"] != NOTHING) & (found["lowest_epoch"] < before["highest_epoch"])
    more = {"before": before["marker_offset"], "ended_epoch": before["highest_epoch"]}
    yield from each(found[after], partial(_late_write, case), **{name: more[name][after] for name in more})


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
