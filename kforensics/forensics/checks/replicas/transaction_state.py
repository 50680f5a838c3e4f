"""Checks that replicas agree on transactions: which are open, how the others ended, and where the LSO is.

Replicas with the same batches have the same transactions. They can differ only if one of them lost batches, or if its
cleaner removed a marker wrongly. Rule: ``ProducerStateManager`` and KAFKA-8351, KAFKA-13727, KAFKA-14055.
"""

from __future__ import annotations

from collections.abc import Iterator

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity, by_name
from kforensics.forensics.core.record_types import TransactionOutcome
from kforensics.forensics.core.reporting import first_findings
from kforensics.forensics.replicas.comparison import Comparison
from kforensics.forensics.replicas.differences import DifferenceKind
from kforensics.forensics.replicas.replica import Replica
from kforensics.forensics.replicas.transaction_differences import (
    TransactionDifference,
    TransactionMismatch,
    find_transaction_differences,
)

CODES = by_name(
    Code(
        "replica-txn-state-divergence",
        Severity.ERROR,
        meaning="Replicas disagree on a transaction: whether it is open, how it ended, or where it started.",
        remedy=(
            "Keep the replica of {topic}-{partition} whose open transactions agree with the coordinator log; "
            "rebuild the others."
        ),
        why=(
            "Replicas have the same batches and should have the same transactions. If they do not, one of them "
            "lost a marker to its cleaner, or lost a part of its log, and the last stable offset jumps with the "
            "next leader change."
        ),
        benign="The logs start at different offsets, and the transaction starts before both.",
    ),
    Code(
        "lso-regressed",
        Severity.WARNING,
        meaning="A replica has a lower last stable offset than another one that ends at the same offset.",
        remedy=(
            "Compare the open transactions of both, and restart the broker whose state is wrong: it then replays "
            "its log."
        ),
        why=(
            "The last stable offset only rises, except when a replica with different transactions takes over. "
            "If this one becomes leader, consumers wait for a transaction that has ended on other replicas."
        ),
        benign="The logs start at different offsets. The logs were truncated after a leader change.",
    ),
)

STATE, REGRESSED = CODES.values()
# Differences that explain a missing part of a transaction.
LOSSES = (DifferenceKind.MISSING, DifferenceKind.DAMAGED)
NOT_COMPACTED = "compacted at different times: no, the cleaner keeps a marker while data before it is left"


def findings(comparison: Comparison) -> Iterator[Finding]:
    """Yield transactions on which replicas disagree, and last stable offsets that differ."""
    differences = [
        difference
        for first, second in comparison.pairs()
        for difference in find_transaction_differences(first, second, comparison.common_history_end(first, second))
    ]
    yield from first_findings((_finding(comparison, difference) for difference in differences), len(differences))
    yield from _regressed(comparison, {difference.lacking.number for difference in differences})


def _finding(comparison: Comparison, difference: TransactionDifference) -> Finding:
    row, counterpart = difference.transaction, difference.counterpart
    marker = int(row["marker_offset"])
    first = int(row["first_offset"])
    location = row if counterpart is None else counterpart
    lacking = difference.lacking.state.log_gaps.between(first, _end_where_lacking(difference))
    replica = difference.having if counterpart is None else difference.lacking
    return comparison.finding(
        replica,
        STATE,
        _message(difference),
        severity=Severity.INFO if lacking.any else None,
        at=(int(location["segment"]), int(location["position"])),
        offsets=(first, max(marker, int(row["last_offset"]))),
        producer=(int(row["producer_id"]), int(row["producer_epoch"])),
        evidence={
            "lacking": difference.lacking.partition.folder,
            "having": difference.having.partition.folder,
            "how": str(difference.mismatch),
            "marker_offset": marker,
            "outcome": _outcome(row),
            "instead": None if counterpart is None else _outcome(counterpart),
        },
        exactness=Exactness.APPROXIMATE if difference.mismatch is TransactionMismatch.ABSENT else Exactness.EXACT,
        benign=(
            "different log starts: no, it started after both",
            NOT_COMPACTED,
            lacking.benign,
        ),
        cause="replica-divergence" if _is_lost(comparison, difference) else None,
    )


def _end_where_lacking(difference: TransactionDifference) -> int:
    """Return the offset of the marker that ended the transaction where one is missing, the log end if none did."""
    end = -1 if difference.counterpart is None else int(difference.counterpart["marker_offset"])
    return difference.lacking.state.log_end_offset if end < 0 else end


def _outcome(row: object) -> str:
    return TransactionOutcome(int(row["outcome"])).name.lower()  # type: ignore[index]  # a numpy record


def _is_lost(comparison: Comparison, difference: TransactionDifference) -> bool:
    """Return whether a batch of the transaction is missing or damaged on one of the two replicas."""
    first, second = sorted((difference.lacking, difference.having), key=lambda replica: replica.number)
    row = difference.transaction
    begin, end = int(row["first_offset"]), max(int(row["marker_offset"]), int(row["last_offset"]))
    ranges = comparison.differences_between(first, second, *LOSSES)
    return any(offsets.first_offset <= end and offsets.last_offset >= begin for offsets in ranges)


def _message(difference: TransactionDifference) -> str:
    row, counterpart = difference.transaction, difference.counterpart
    transaction = f"the transaction of producer {row['producer_id']}, first offset {row['first_offset']},"
    lacking, having = difference.lacking.name, difference.having.name
    if difference.mismatch is TransactionMismatch.ABSENT:
        return f"{lacking} has no batch of {transaction} which is {_outcome(row)} on {having}."
    if difference.mismatch is TransactionMismatch.FIRST_OFFSET:
        return f"On {lacking} {transaction} starts at offset {counterpart['first_offset']}."
    if difference.mismatch is TransactionMismatch.OUTCOME:
        outcome = f"is {_outcome(row)} at offset {row['marker_offset']}"
        return f"On {having} {transaction} {outcome}; on {lacking} it is {_outcome(counterpart)}."
    kind = "ABORT" if row["outcome"] == TransactionOutcome.ABORTED else "COMMIT"
    end = counterpart["marker_offset"]
    outcome = "is still open" if end < 0 else f"is {_outcome(counterpart)} at offset {end}"
    marker = f"the {kind} marker at offset {row['marker_offset']}"
    return f"{lacking} lacks {marker} that {having} has: there {transaction} {outcome}."


def _regressed(comparison: Comparison, reported: set[int]) -> Iterator[Finding]:
    """Yield replicas whose last stable offset is below that of another replica that ends at the same offset.

    Each broker deletes old segments by itself. A log that starts after the first offset of the transaction that blocks
    another one has never had all of it, or has forgotten it.
    """
    stable = {replica.number: _last_stable_offset(replica) for replica in comparison.live}
    for replica in comparison.live:
        same_end = [
            other
            for other in comparison.live
            if other.end == replica.end
            and (other is replica or other.state.local_log_start_offset <= _first_open_offset(replica))
        ]
        best = max(same_end, key=lambda other: stable[other.number])
        high, low = stable[best.number], stable[replica.number]
        if low < high:
            first, second = sorted((replica, best), key=lambda side: side.number)
            starts = {side.state.local_log_start_offset for side in (first, second)}
            yield comparison.finding(
                replica,
                REGRESSED,
                f"The last stable offset of {replica.name} is {low}, that of {best.name} is {high}, although both end "
                f"at offset {replica.end}.",
                offsets=(low, high - 1),
                evidence={"other": best.partition.folder, "last_stable_offset": low, "of_other": high},
                exactness=Exactness.EXACT if len(starts) == 1 else Exactness.APPROXIMATE,
                benign=(f"different log starts: {'no' if len(starts) == 1 else 'not ruled out'}",),
                cause=_cause(comparison, first, second, reported & {first.number, second.number}),
            )


def _cause(comparison: Comparison, first: Replica, second: Replica, reported: set[int]) -> str | None:
    if comparison.differences_between(first, second, DifferenceKind.DIVERGED):
        return "replica-divergence"
    return STATE.name if reported else None


def _last_stable_offset(replica: Replica) -> int:
    """Return the last stable offset if everything is replicated; only transactions without a marker block it."""
    return max(_first_open_offset(replica), replica.state.local_log_start_offset)


def _first_open_offset(replica: Replica) -> int:
    """Return the first offset of the oldest transaction without a marker, the log end offset if there is none.

    That the broker of a replica has forgotten one is reported about its snapshot.
    """
    return int(replica.state.transaction_store.unended["first_offset"].min(initial=replica.end))


CHECK = Check("transaction_state", CODES, findings)
