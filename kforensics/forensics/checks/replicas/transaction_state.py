"""Whether replicas agree on transactions: which are open, how the others ended, and where the last stable offset is.

What lies in the same batches is the same for every replica, so only what one of them has lost, or a cleaner has taken
out wrongly, can make a difference. Rule: ``ProducerStateManager`` and KAFKA-8351, KAFKA-13727, KAFKA-14055.
"""

from __future__ import annotations

from collections.abc import Iterator

from kforensics.forensics.core.aggregation import first_findings
from kforensics.forensics.core.findings import Exactness, Finding, codes
from kforensics.forensics.core.record_types import Ending
from kforensics.forensics.replicas.comparison import Comparison
from kforensics.forensics.replicas.differences import Kind
from kforensics.forensics.replicas.replica import Replica
from kforensics.forensics.replicas.transaction_differences import StateDifference, Unlike, state_differences

__all__ = ["CODES", "findings"]

CODES = codes("""
replica-txn-state-divergence error
Replicas disagree on a transaction: on what is open, on how it ended, or on where it began.
Keep the replica of {topic}-{partition} whose open transactions agree with the coordinator's log; build the others.
why: Replicas have the same batches and should come to the same transactions. Where they do not, one of them has lost \
a marker to its cleaner, or a piece of its log, and the last stable offset jumps with the next change of leader.
innocent: The logs begin at different offsets, and the transaction before both.

lso-regressed warning
A replica that ends where another one does has a lower last stable offset.
Compare the open transactions of both; a restart of the broker with the wrong state makes it read its log again.
why: The last stable offset only rises, except where a replica with another opinion takes over. If this one becomes \
leader, consumers wait for a transaction that has ended for others.
innocent: The logs begin at different offsets. The logs were cut after a change of leader.
""")

STATE, REGRESSED = CODES.values()
# Ranges that explain what is missing from a transaction.
LOSSES = (Kind.MISSING, Kind.DAMAGED)
NOT_CLEANED = "cleaned at different times: no, the cleaner takes no marker while data before it is left"


def findings(comparison: Comparison) -> Iterator[Finding]:
    """Yield the transactions that replicas do not agree on, and last stable offsets that differ."""
    differences = [
        found
        for first, second in comparison.pairs()
        for found in state_differences(first, second, comparison.agrees_to(first, second))
    ]
    yield from first_findings((_finding(comparison, found) for found in differences), len(differences))
    yield from _regressed(comparison, {found.lacking.number for found in differences})


def _finding(comparison: Comparison, found: StateDifference) -> Finding:
    row, instead = found.transaction, found.instead
    marker = int(row["marker_offset"])
    first = int(row["first_offset"])
    where = row if instead is None else instead
    is_lost = _is_lost(comparison, found)
    of = found.having if instead is None else found.lacking
    return comparison.finding(
        of,
        STATE,
        _message(found),
        at=(int(where["segment"]), int(where["position"])),
        offsets=(first, max(marker, int(row["last_offset"]))),
        producer=(int(row["producer_id"]), int(row["producer_epoch"])),
        evidence={
            "lacking": found.lacking.partition.folder,
            "having": found.having.partition.folder,
            "how": str(found.how),
            "marker_offset": marker,
            "outcome": _outcome(row),
            "instead": None if instead is None else _outcome(instead),
        },
        exactness=Exactness.APPROXIMATE if found.how is Unlike.ABSENT else Exactness.EXACT,
        benign=("different log starts: no, it began after both", NOT_CLEANED),
        cause="replica-divergence" if is_lost else None,
    )


def _outcome(row: object) -> str:
    return Ending(int(row["ending"])).name.lower()  # type: ignore[index]  # a numpy record


def _is_lost(comparison: Comparison, found: StateDifference) -> bool:
    """Return whether a batch of the transaction is missing or damaged at one of the two."""
    first, second = sorted((found.lacking, found.having), key=lambda one: one.number)
    row = found.transaction
    begin, end = int(row["first_offset"]), max(int(row["marker_offset"]), int(row["last_offset"]))
    ranges = comparison.of_pair(first, second, *LOSSES)
    return any(one.first_offset <= end and one.last_offset >= begin for one in ranges)


def _message(found: StateDifference) -> str:
    row, instead = found.transaction, found.instead
    whose = f"the transaction of producer {row['producer_id']} from offset {row['first_offset']}"
    lacking, having = found.lacking.name, found.having.name
    if found.how is Unlike.ABSENT:
        return f"{lacking} has nothing of {whose}, which is {_outcome(row)} at {having}."
    if found.how is Unlike.FIRST_OFFSET:
        return f"At {lacking} {whose} begins at offset {instead['first_offset']}."
    if found.how is Unlike.OUTCOME:
        return f"{having} has {whose} {_outcome(row)} at offset {row['marker_offset']}, {lacking} {_outcome(instead)}."
    kind = "ABORT" if row["ending"] == Ending.ABORTED else "COMMIT"
    end = instead["marker_offset"]
    goes_on = "is still open" if end < 0 else f"is {_outcome(instead)} at offset {end}"
    lost = f"the {kind} marker at offset {row['marker_offset']}"
    return f"{lacking} lacks {lost} that {having} has: there {whose} {goes_on}."


def _regressed(comparison: Comparison, struck: set[int]) -> Iterator[Finding]:
    """Yield replicas whose last stable offset is below that of one that ends at the same offset."""
    stable = {one.number: _last_stable_offset(one) for one in comparison.live}
    for replica in comparison.live:
        others = [one for one in comparison.live if one.end == replica.end]
        best = max(others, key=lambda one: stable[one.number])
        high, low = stable[best.number], stable[replica.number]
        if low < high:
            first, second = sorted((replica, best), key=lambda one: one.number)
            starts = {one.case.log_start_offset for one in (first, second)}
            yield comparison.finding(
                replica,
                REGRESSED,
                f"The last stable offset of {replica.name} is {low}, that of {best.name} is {high}; both end at offset "
                f"{replica.end}.",
                offsets=(low, high - 1),
                evidence={"other": best.partition.folder, "last_stable_offset": low, "of_other": high},
                exactness=Exactness.EXACT if len(starts) == 1 else Exactness.APPROXIMATE,
                benign=(f"different log starts: {'no' if len(starts) == 1 else 'not ruled out'}",),
                cause=_cause(comparison, first, second, struck & {first.number, second.number}),
            )


def _cause(comparison: Comparison, first: Replica, second: Replica, struck: set[int]) -> str | None:
    if comparison.of_pair(first, second, Kind.DIVERGED):
        return "replica-divergence"
    return STATE.name if struck else None


def _last_stable_offset(replica: Replica) -> int:
    """Return the last stable offset at the log's end, where a transaction that has a marker holds nothing."""
    held = int(replica.case.open_transactions["first_offset"].min(initial=replica.end))
    return max(held, replica.case.log_start_offset)
