"""Checks that replicas have the same batches in the part of the log that was never compacted.

Rule: a follower appends what its leader sends, byte for byte, and first truncates what a later leader does not have.
Committed records are never truncated, except after the election of a replica that was not in sync.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.commands import export_command
from kforensics.forensics.core.election import NO_LEADER, unclean_phrase
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_count, format_offsets, format_time
from kforensics.forensics.core.observations import batches
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.reporting import WRITTEN, first_findings, time_of
from kforensics.forensics.replicas.comparison import Comparison
from kforensics.forensics.replicas.differences import Difference, DifferenceKind, SideSummary
from kforensics.forensics.replicas.lineage import truncation_offset
from kforensics.forensics.replicas.replica import Replica
from kforensics.parsers.files.log_names import METADATA_TOPIC

CODES = by_name(
    Code(
        "replica-divergence",
        Severity.CRITICAL,
        meaning="Replicas have different batches at the same offsets.",
        remedy=(
            "Copy all replicas of {topic}-{partition} before a broker starts again. After an election the one with the "
            "later leader epoch is right; of damaged bytes, the one whose checksums are valid. Save what only the "
            "others have, and let them follow."
        ),
        why=(
            "Followers copy byte for byte, so replicas differ only after an unclean election, because of a tail "
            "that was never truncated, or by damage. Which records consumers receive depends on the leader."
        ),
        benign=(
            "A tail above the high watermark that was not truncated yet, with a lower leader epoch on one side: "
            "it disappears when the replica follows again. Without leader epochs, a tail above the high watermark of "
            "one replica, if the other one wrote later, or of both. The same records with two leader epochs: a "
            "producer sent them to the new leader again, and the old leader truncates its own and fetches the same. A "
            "topic that was deleted and created again between the copies, before topics had ids."
        ),
    ),
)

REPORTED_KINDS = (DifferenceKind.DIVERGED, DifferenceKind.LEADER_EPOCH, DifferenceKind.DAMAGED, DifferenceKind.MISSING)
UNCOMMITTED_TAIL = "uncommitted tail, truncated when the replica follows again"
SENT_AGAIN = "sent again to the new leader, truncated and fetched when the replica follows again"
CHECKPOINT_AGE = "checkpointed up to five seconds before"
CREATED_AGAIN = "topic deleted and created again between the copies, or while a broker was down: likely"
LOST_THE_LEAD = "leader changes of controllers that lost the lead before a majority had them: likely"
NOT_COMPACTED = "compacted at different times: no, that leaves other traces"


@dataclass(frozen=True, slots=True)
class _Branch:
    """A range of offsets in which one replica differs from others.

    Attributes:
        replica: the replica that will be truncated, otherwise the first one of the pair.
        side: what it has there.
        others: the replicas it differs from in the same way, with what they have there.
        difference: the range, from the first pair.
        overruled: whether a later leader wrote to the others, or was elected there; without leader epochs, whether only
            the others have the range committed.
        is_created_again: whether one side is all of an earlier topic with the same name.
    """

    replica: Replica
    side: SideSummary
    others: tuple[tuple[Replica, SideSummary], ...]
    difference: Difference
    overruled: bool
    is_created_again: bool

    @property
    def is_of_quorum(self) -> bool:
        """Whether controllers vote on what is committed; no leader that was out of sync can be elected there."""
        return self.replica.partition.place.topic == METADATA_TOPIC

    @property
    def is_leader_change(self) -> bool:
        """Whether nothing but the first batches of controllers differ, which each writes when it is elected."""
        sides = (self.side, *(side for _, side in self.others))
        return self.is_of_quorum and self.overruled and not any(side.records for side in sides)

    @property
    def is_committed(self) -> bool:
        """Whether the overruled replica knows that the beginning of the range was committed."""
        high_watermark = self.replica.high_watermark
        return high_watermark is not None and high_watermark > self.difference.first_offset

    @property
    def has_epochs(self) -> bool:
        """Whether one of the replicas has leader epochs; message formats 0 and 1 have none."""
        return any(replica.epoch_starts for replica in (self.replica, *(other for other, _ in self.others)))

    @property
    def is_above_high_watermarks(self) -> bool:
        """Whether each replica without leader epochs would truncate the range if it followed another one."""
        committed = (self.replica.high_watermark, *(other.high_watermark for other, _ in self.others))
        is_above = all(end is not None and end <= self.difference.first_offset for end in committed)
        return is_above and self.difference.kind is DifferenceKind.DIVERGED and not self.has_epochs

    @property
    def checkpointed(self) -> str:
        """Its high watermark in words."""
        return "unknown" if self.replica.high_watermark is None else str(self.replica.high_watermark)

    @property
    def truncates_to(self) -> int | None:
        """Offset to which the replica truncates when it follows; None if no leader decides, or a quorum does."""
        if not self.overruled or self.is_of_quorum:
            return None
        return truncation_offset(self.replica, self.others[0][0])

    @property
    def is_fetched_again(self) -> bool:
        """Whether the replica drops this range when it follows, and receives the same records from its leader."""
        truncates_to = self.truncates_to
        is_dropped = truncates_to is not None and truncates_to <= self.difference.first_offset
        return is_dropped and self.difference.kind is DifferenceKind.LEADER_EPOCH


def findings(comparison: Comparison) -> Iterator[Finding]:
    """Yield each range in which a replica differs from others, once for all that it differs from in the same way."""
    branches = _branches(comparison)
    left_out = sum(difference.left_out for difference in comparison.differences)
    yield from first_findings((_finding(comparison, branch) for branch in branches), len(branches) + left_out)


def _branches(comparison: Comparison) -> list[_Branch]:
    branches: dict[tuple[int, DifferenceKind, int, bool], _Branch] = {}
    for difference in comparison.differences:
        if difference.kind not in REPORTED_KINDS:
            continue
        may_lose = difference.kind in (DifferenceKind.DIVERGED, DifferenceKind.LEADER_EPOCH)
        loser = comparison.loser(difference) if may_lose else None
        number, other = difference.first, difference.second
        side, other_side = difference.sides
        if _is_about_second(comparison, difference, loser):
            number, other, side, other_side = other, number, other_side, side
        key = number, difference.kind, difference.first_offset, loser is not None
        before = branches.get(key)
        others = ((comparison.replicas[other], other_side),)
        branches[key] = _Branch(
            comparison.replicas[number],
            side if before is None else before.side,
            others if before is None else before.others + others,
            difference if before is None else before.difference,
            loser is not None,
            comparison.is_created_again(difference) if before is None else before.is_created_again,
        )
    return list(branches.values())


def _is_about_second(comparison: Comparison, difference: Difference, loser: Replica | None) -> bool:
    """Return whether the finding is about the second replica: the overruled, damaged or incomplete one."""
    if loser is not None:
        return loser.number == difference.second
    if difference.kind is DifferenceKind.MISSING:
        return difference.sides[0].batches > 0
    if difference.kind is DifferenceKind.DAMAGED:
        return _is_damaged(comparison.replicas[difference.second], difference)
    return False


def _is_damaged(replica: Replica, difference: Difference) -> bool:
    """Return whether the first batch of a range is damaged in the log of the second replica."""
    side = difference.sides[1]
    damaged = [(segment, row.inside_batch) for segment, row in replica.state.log.damage]
    return side.at in damaged


def _finding(comparison: Comparison, branch: _Branch) -> Finding:
    difference, replica, side = branch.difference, branch.replica, branch.side
    severity, benign = _severity(comparison, branch)
    evidence: dict[str, object] = {
        "others": [other.partition.folder for other, _ in branch.others],
        "kind": str(difference.kind),
        "high_watermark": replica.high_watermark,
        "leader_epochs": side.leader_epochs,
        "leader_epochs_of_others": branch.others[0][1].leader_epochs,
        "batches": side.batches,
        "records": side.records,
        "producer_ids": list(side.producer_ids),
        **time_of((side.timestamps or (NO_TIME,))[0], WRITTEN),
    }
    if branch.truncates_to is not None:
        evidence["truncates_to"] = branch.truncates_to
    if branch.overruled:
        evidence["written_again"] = _written_again(comparison, branch)
    finding = comparison.finding(
        replica,
        CODES["replica-divergence"],
        _message(branch),
        severity=severity,
        at=side.at,
        offsets=(difference.first_offset, difference.last_offset),
        evidence=evidence,
        exactness=Exactness.EXACT if severity is Severity.CRITICAL else Exactness.APPROXIMATE,
        benign=(NOT_COMPACTED, *benign),
        remedy=_remedy(branch),
    )
    return replace(finding, producer_id=side.producer_ids[0]) if len(side.producer_ids) == 1 else finding


def _written_again(comparison: Comparison, branch: _Branch) -> int:
    """Return how many records of the overruled replica the other one has too."""
    if branch.difference.kind is DifferenceKind.LEADER_EPOCH:
        return branch.side.records
    first, last = branch.difference.first_offset, branch.difference.last_offset
    own = (row for row in comparison.lost if row.branch.loser is branch.replica)
    return sum(row.again_at is not None for row in own if first <= row.offset <= last)


def _severity(comparison: Comparison, branch: _Branch) -> tuple[Severity, tuple[str, ...]]:
    """Return the severity of a range, and the tested explanation.

    The high watermark of the overruled replica decides: as far as that replica knows, nothing above it was committed.
    The high watermark of the new leader says nothing about this.
    """
    if branch.is_created_again:
        return Severity.WARNING, (CREATED_AGAIN,)
    if branch.is_above_high_watermarks:
        replicas = (branch.replica, *(other for other, _ in branch.others))
        known = ", ".join(f"{replica.high_watermark} on {replica.name}" for replica in replicas)
        return Severity.WARNING, (f"{UNCOMMITTED_TAIL}: likely, the high watermark is {known}, {CHECKPOINT_AGE}",)
    if not branch.overruled:
        return Severity.CRITICAL, ()
    if branch.is_leader_change:
        return Severity.INFO, (LOST_THE_LEAD,)
    if branch.difference.kind is DifferenceKind.LEADER_EPOCH:
        return _severity_of_same_records(branch)
    if branch.is_committed:
        return Severity.CRITICAL, (f"{UNCOMMITTED_TAIL}: no, its checkpointed high watermark is {branch.checkpointed}",)
    low, high = _highest_epoch(branch.side), _highest_epoch(branch.others[0][1])
    unclean = comparison.unclean_election(low, high)
    if unclean is not None:
        return Severity.CRITICAL, (f"{UNCOMMITTED_TAIL}: not ruled out for all of it; {unclean_phrase(unclean)}",)
    is_known = any(election.leader != NO_LEADER for election in comparison.elections)
    clean = f"the elections since were clean by {METADATA_TOPIC}" if is_known else CHECKPOINT_AGE
    return Severity.WARNING, (f"{UNCOMMITTED_TAIL}: likely, its high watermark is {branch.checkpointed}, {clean}",)


def _severity_of_same_records(branch: _Branch) -> tuple[Severity, tuple[str, ...]]:
    """Return the severity of the same records with two leader epochs: whoever leads, consumers receive the same.

    After an election this ends by itself. Only an unclean one, or a changed byte, explains it for committed records.
    """
    known = f"its checkpointed high watermark is {branch.checkpointed}"
    if branch.is_fetched_again and not branch.is_committed:
        return Severity.INFO, (f"{SENT_AGAIN}: likely, {known}",)
    no_truncation = "" if branch.is_fetched_again else ", and it does not truncate so far"
    return Severity.WARNING, (f"{SENT_AGAIN}: not ruled out, {known}{no_truncation}",)


def _message(branch: _Branch) -> str:
    name, side, other_side = branch.replica.name, branch.side, branch.others[0][1]
    others = ", ".join(other.name for other, _ in branch.others)
    kind = branch.difference.kind
    offsets = format_offsets(branch.difference.first_offset, branch.difference.last_offset)
    if kind is DifferenceKind.MISSING:
        return (
            f"{name} has no batch at {offsets}, with batches before and after; {others}: {batches(other_side.batches)}."
        )
    if kind is DifferenceKind.DAMAGED:
        return f"{name} has {batches(side.batches)} at {offsets} whose checksum fails; on {others} it is valid."
    epochs = _epochs(side), _epochs(other_side)
    if kind is DifferenceKind.LEADER_EPOCH:
        same = f"{name} and {others} have the same records at {offsets} with leader epochs {epochs[0]} and {epochs[1]}."
        follows = f"When {name} follows {branch.others[0][0].name} it truncates to offset {branch.truncates_to}"
        return f"{same} {follows} and fetches them again." if branch.is_fetched_again else same
    of_epochs = [f" of leader epoch {epoch}" if branch.has_epochs else "" for epoch in epochs]
    against = f"{batches(side.batches)}{of_epochs[0]} against {batches(other_side.batches)}{of_epochs[1]}"
    against += "" if branch.has_epochs else ", without leader epochs"
    differ = f"{name} and {others} differ at {offsets}: {against}."
    if branch.is_created_again:
        return f"{differ} All of one is older than the other: the topic was probably deleted and created again."
    if branch.is_above_high_watermarks:
        return f"{differ} When one of them follows another it truncates to its high watermark, and drops its own."
    if not branch.overruled:
        return f"{differ} No leader had both."
    if branch.is_of_quorum:
        return f"{differ} The log of the controller that is elected next decides which of them is kept."
    leader = branch.others[0][0]
    begin, end = side.timestamps or (NO_TIME, NO_TIME)
    truncated = f"it truncates to offset {branch.truncates_to}"
    return (
        f"{differ} When {name} follows {leader.name} {truncated} and drops "
        f"{format_count(side.records, 'record')}, written from {format_time(begin)} to {format_time(end)}."
    )


def _remedy(branch: _Branch) -> str:
    """Return which replica is right, as far as the epochs decide, and how to save what the other one has."""
    replica, right, kind = branch.replica, branch.others[0][0], branch.difference.kind
    if kind in (DifferenceKind.MISSING, DifferenceKind.DAMAGED):
        return f"Copy the files of {replica.name}, and rebuild it from {right.name}, which has these batches."
    first, last = branch.difference.first_offset, branch.difference.last_offset
    if branch.is_created_again:
        return "Copy all replicas again, one soon after the other. If they still differ, keep the newer ones."
    if not branch.overruled:
        return _remedy_without_winner(branch)
    if branch.is_leader_change:
        return "Nothing: when the controllers run again, the quorum keeps what a majority had and truncates the rest."
    if branch.is_of_quorum:
        return (
            f"Copy __cluster_metadata-0 of {replica.name} and {right.name} before their controllers start again. Then "
            "start all voters together: they keep what a majority had."
        )
    later = "its leader epoch is the later one" if branch.has_epochs else "these offsets are committed there"
    decided = f"{right.name} is right: {later}."
    if kind is DifferenceKind.LEADER_EPOCH and branch.is_fetched_again and not branch.is_committed:
        return (
            f"Nothing: {replica.name} fetches the same records from {right.name}, whose leader epoch is the later one."
        )
    if kind is DifferenceKind.LEADER_EPOCH:
        return f"{decided} Let {replica.name} follow, or rebuild it; the records are the same."
    return (
        f"{decided} Save what only {replica.name} has before its broker starts again and truncates it: "
        f"{export_command(replica.partition.folder, first, last)}. Then let it follow."
    )


def _remedy_without_winner(branch: _Branch) -> str:
    """Return how to save what each replica has, if nothing shows which one is right."""
    sides = (branch.replica, *(other for other, _ in branch.others))
    offsets = branch.difference.first_offset, branch.difference.last_offset
    saves = "; ".join(export_command(side.partition.folder, *offsets) for side in sides)
    if branch.is_above_high_watermarks:
        return (
            f"The next leader is right, and the others truncate what they have. Save what each has: {saves}. Then let "
            "them follow, and send those records again that the leader lacks."
        )
    unknown = "There are no leader epochs to show which is right, and the next leader decides what is truncated."
    if branch.has_epochs:
        unknown = "The leader epochs do not show which is right, and none of them truncates here by itself."
    return (
        f"{unknown} Save what each has: {saves}. Decide by the records; then rebuild the others from a broker with the "
        "right ones."
    )


def _highest_epoch(side: SideSummary) -> int:
    return side.leader_epochs[1] if side.leader_epochs else -1


def _epochs(side: SideSummary) -> str:
    low, high = side.leader_epochs or (-1, -1)
    return str(low) if low == high else f"{low} to {high}"


CHECK = Check("divergence", CODES, findings)
