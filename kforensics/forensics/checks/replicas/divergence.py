"""Whether replicas have the same batches where no cleaner has been.

Rule: a follower appends what its leader sends, byte for byte, and cuts off what a later leader does not have before it
does. What was committed is never cut, but by an election of a replica that was not in sync.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kforensics.forensics.core.aggregation import batches, first_findings
from kforensics.forensics.core.findings import Exactness, Finding, Severity, codes
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.reporting import moment
from kforensics.forensics.metadata.elections import Election
from kforensics.forensics.replicas.comparison import Comparison
from kforensics.forensics.replicas.differences import Difference, Kind, Side
from kforensics.forensics.replicas.lineage import truncates_to
from kforensics.forensics.replicas.lost_records import LostRecord
from kforensics.forensics.replicas.replica import Replica
from kforensics.parsers.files.log_names import METADATA_TOPIC

__all__ = ["CODES", "findings", "told_of"]

CODES = codes("""
replica-divergence critical
Replicas have different batches at the same offsets.
Keep copies of all replicas of {topic}-{partition}, decide by the leader epochs which is right, and build the others.
why: Followers copy byte for byte, so that replicas differ only after an unclean election, with a tail that was never \
cut, or by damage. Consumers get one or the other, depending on who leads.
innocent: A tail above the high watermark that was not cut yet, of a lower leader epoch on one side: it goes when the \
replica follows again.
""")

SAID = (Kind.DIVERGED, Kind.LEADER_EPOCH, Kind.DAMAGED, Kind.MISSING)
TAIL = "a tail that was never committed, and is cut off when the replica follows again"
AGE = "that is up to five seconds old"
NOT_CLEANED = "cleaned at different times: no, that leaves other traces"


@dataclass(frozen=True, slots=True)
class _Branch:
    """A range in which one replica stands against others.

    Attributes:
        replica: whose log will be cut, or which is the first of the two.
        side: what it has there.
        others: the replicas it differs from in the same way, and what they have there.
        found: the range, as it was found for the first pair.
        overruled: whether a later leader has written to the others, or was elected there.
    """

    replica: Replica
    side: Side
    others: tuple[tuple[Replica, Side], ...]
    found: Difference
    overruled: bool


def findings(comparison: Comparison) -> Iterator[Finding]:
    """Yield each range in which a replica differs from others, once for all it differs from in the same way."""
    branches = _branches(comparison)
    left_out = sum(one.left_out for one in comparison.differences)
    yield from first_findings((_finding(comparison, branch) for branch in branches), len(branches) + left_out)


def _branches(comparison: Comparison) -> list[_Branch]:
    together: dict[tuple[int, Kind, int, bool], _Branch] = {}
    for found in comparison.differences:
        if found.kind not in SAID:
            continue
        loser = comparison.loser(found) if found.kind in (Kind.DIVERGED, Kind.LEADER_EPOCH) else None
        turned = _is_turned(comparison, found, loser)
        one, other = (found.second, found.first) if turned else (found.first, found.second)
        side, against = (found.sides[1], found.sides[0]) if turned else found.sides
        key = one, found.kind, found.first_offset, loser is not None
        before = together.get(key)
        others = ((comparison.replicas[other], against),)
        together[key] = _Branch(
            comparison.replicas[one],
            side if before is None else before.side,
            others if before is None else before.others + others,
            found if before is None else before.found,
            loser is not None,
        )
    return list(together.values())


def _is_turned(comparison: Comparison, found: Difference, loser: Replica | None) -> bool:
    """Return whether the second replica of a pair is the one to speak of: the overruled, damaged or incomplete one."""
    if loser is not None:
        return loser.number == found.second
    if found.kind is Kind.MISSING:
        return found.sides[0].batches > 0
    if found.kind is Kind.DAMAGED:
        return _is_damaged(comparison.replicas[found.second], found)
    return False


def _is_damaged(replica: Replica, found: Difference) -> bool:
    """Return whether a log has damage in a batch of a range."""
    side = found.sides[1]
    places = [(segment, one.inside_batch) for segment, one in replica.case.log.damage]
    return side.at in places


def _finding(comparison: Comparison, branch: _Branch) -> Finding:
    found, one, side = branch.found, branch.replica, branch.side
    severity, benign = _weighed(comparison, branch)
    evidence: dict[str, object] = {
        "others": [other.partition.folder for other, _ in branch.others],
        "kind": str(found.kind),
        "high_watermark": one.high_watermark,
        "leader_epochs": side.leader_epochs,
        "leader_epochs_of_others": branch.others[0][1].leader_epochs,
        "batches": side.batches,
        "records": side.records,
        "producer_ids": list(side.producer_ids),
    }
    if branch.overruled:
        evidence["truncates_to"] = truncates_to(one, branch.others[0][0])
        evidence["written_again"] = sum(row.again_at is not None for row in _lost(comparison, branch))
    finding = comparison.finding(
        one,
        CODES["replica-divergence"],
        _message(branch),
        severity=severity,
        at=side.at,
        offsets=(found.first_offset, found.last_offset),
        evidence=evidence,
        exactness=Exactness.EXACT if severity is Severity.CRITICAL else Exactness.APPROXIMATE,
        benign=(NOT_CLEANED, *benign),
    )
    return replace(finding, producer_id=side.producer_ids[0]) if len(side.producer_ids) == 1 else finding


def _lost(comparison: Comparison, branch: _Branch) -> list[LostRecord]:
    """Return the records that only the replica has, as far as they are listed."""
    first, last = branch.found.first_offset, branch.found.last_offset
    mine = (row for row in comparison.lost if row.branch.loser is branch.replica)
    return [row for row in mine if first <= row.offset <= last]


def _weighed(comparison: Comparison, branch: _Branch) -> tuple[Severity, tuple[str, ...]]:
    """Return how bad a range is, and what innocent explanation was tested.

    The high watermark that counts is that of the replica that was overruled: what lies above it was never committed as
    far as that replica had heard. That of the new leader says nothing of it.
    """
    if not branch.overruled:
        return Severity.CRITICAL, ()
    known, first = branch.replica.high_watermark, branch.found.first_offset
    if known is not None and known > first:
        return Severity.CRITICAL, (f"{TAIL}: no, the high watermark on record there is {known}",)
    low, high = _highest(branch.side), _highest(branch.others[0][1])
    unclean = comparison.unclean_election(low, high)
    if unclean is not None:
        return Severity.CRITICAL, (f"{TAIL}: not ruled out for all of it; {told_of(unclean)}",)
    recorded = "unknown" if known is None else f"{known} there"
    clean = f"the elections since were clean, as {METADATA_TOPIC} has it" if comparison.elections else AGE
    return Severity.WARNING, (f"{TAIL}: likely, the high watermark on record is {recorded}, and {clean}",)


def told_of(unclean: Election) -> str:
    """Return an unclean election as a phrase."""
    in_sync = ", ".join(map(str, unclean.in_sync)) or "none"
    became = f"broker {unclean.leader} became leader with epoch {unclean.leader_epoch}"
    return f"{became} at {moment(unclean.timestamp)} though not in sync (in sync: {in_sync})"


def _message(branch: _Branch) -> str:
    found, name, side, against = branch.found, branch.replica.name, branch.side, branch.others[0][1]
    others = ", ".join(other.name for other, _ in branch.others)
    where = f"offsets {found.first_offset} to {found.last_offset}"
    if found.kind is Kind.MISSING:
        return f"{name} has nothing at {where}, between batches it has; {others} has {batches(against.batches)} there."
    if found.kind is Kind.DAMAGED:
        return f"{name} has {batches(side.batches)} at {where} whose checksum fails; that of {others} holds."
    epochs = _epochs(side), _epochs(against)
    if found.kind is Kind.LEADER_EPOCH:
        return f"{name} and {others} have the same records at {where}, of leader epochs {epochs[0]} and {epochs[1]}."
    said = (
        f"{name} and {others} differ at {where}: {batches(side.batches)} of leader epoch {epochs[0]} against "
        f"{batches(against.batches)} of leader epoch {epochs[1]}."
    )
    if not branch.overruled:
        return f"{said} No leader had both."
    cut = truncates_to(branch.replica, branch.others[0][0])
    begin, end = side.timestamps or (NO_TIME, NO_TIME)
    return (
        f"{said} {name} cuts its log to offset {cut} when it follows the other, and loses {side.records} records, "
        f"written from {moment(begin)} to {moment(end)}."
    )


def _highest(side: Side) -> int:
    return side.leader_epochs[1] if side.leader_epochs else -1


def _epochs(side: Side) -> str:
    low, high = side.leader_epochs or (-1, -1)
    return str(low) if low == high else f"{low} to {high}"
