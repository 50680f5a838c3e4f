"""Whether replicas end where the others have committed, and begin where the others do.

Rule: ``ReplicaManager.checkpointHighWatermarks``: what lies below a high watermark was on every replica in sync.
"""

from __future__ import annotations

from collections.abc import Iterator

from kforensics.forensics.checks.replicas.divergence import told_of
from kforensics.forensics.core.findings import Exactness, Finding, Severity, codes
from kforensics.forensics.replicas.comparison import Comparison
from kforensics.forensics.replicas.differences import Kind
from kforensics.forensics.replicas.replica import Replica

__all__ = ["CODES", "findings"]

CODES = codes("""
replica-truncated warning
A replica ends before what another one knows to be committed.
See that the replica is not in sync, and that no unclean election makes it the leader: the difference would be lost.
why: What was committed was on all replicas in sync. One that ends before was not in sync, or has lost something. If \
it leads, the others cut off what they have more.
innocent: It was out of sync and left behind, or its files were copied earlier. Where its broker was running and its \
files are the older ones, that is no more than an info.

replica-lag info
A replica ends before another one, and behind all that is known to be committed.
why: It is behind, as followers are, and will catch up.
innocent: It was copied earlier than the other one.

replica-start-differs info
Replicas begin at different offsets, as retention runs on each broker for itself.
why: What lies before the later of the two starts cannot be compared.
innocent: Each broker deletes old segments by itself.
""")


LEFT_BEHIND, COPIED_BEFORE = "out of sync, and left behind: not ruled out", "copied before the others: not ruled out"
COPIED_FIRST = "copied before the others: likely, its broker was running, and its files are older"


def findings(comparison: Comparison) -> Iterator[Finding]:
    """Yield the replicas that end early, and those that begin elsewhere; copies set aside need not keep up."""
    for replica in comparison.live:
        yield from _end(comparison, replica)
    yield from _starts(comparison)


def _end(comparison: Comparison, replica: Replica) -> Iterator[Finding]:
    others = [one for one in comparison.live if one is not replica]
    knowing = max(others, key=lambda one: one.high_watermark or 0, default=None)
    longest = max(others, key=lambda one: one.end, default=None)
    if knowing is not None and (knowing.high_watermark or 0) > replica.end:
        yield _truncated(comparison, replica, knowing, knowing.high_watermark or 0)
    elif longest is not None and longest.end > replica.end:
        elected = _elected_since(replica, longest)
        yield _lag(comparison, replica, longest) if elected is None else _cut(comparison, replica, longest, elected)


def _truncated(comparison: Comparison, replica: Replica, knowing: Replica, committed: int) -> Finding:
    elected = _elected_since(replica, knowing)
    message = (
        f"{replica.name} ends at offset {replica.end}, but {knowing.name} knows all below offset {committed} to be "
        "committed."
    )
    early = _was_copied_earlier(replica, knowing)
    benign: tuple[str, ...] = (LEFT_BEHIND, COPIED_FIRST if early else COPIED_BEFORE)
    if elected is not None:
        message += f" It has been leader since, with epoch {elected} from its end on: what it lacks is lost to it."
        benign = ("out of sync, and left behind: no, it was elected",)
    return comparison.finding(
        replica,
        CODES["replica-truncated"],
        message,
        severity=Severity.CRITICAL if elected is not None else Severity.INFO if early else None,
        offsets=(replica.end, committed - 1),
        evidence={
            "other": knowing.partition.folder,
            "log_end_offset": replica.end,
            "high_watermark": committed,
            "leader_epoch": elected,
        },
        benign=benign,
        cause=_cause(comparison, replica, knowing),
    )


def _was_copied_earlier(replica: Replica, other: Replica) -> bool:
    """Return whether a replica of a running broker was last written to, or copied, before another one was."""
    mine, others = replica.partition.newest_mtime_ms, other.partition.newest_mtime_ms
    return not replica.partition.log_dir.clean_shutdown and None not in {mine, others} and (mine or 0) < (others or 0)


def _cut(comparison: Comparison, replica: Replica, longest: Replica, elected: int) -> Finding:
    """Return the finding for a leader that ends before another replica, whose tail it will have cut off."""
    unclean = comparison.unclean_election(longest.last_leader_epoch, elected)
    return comparison.finding(
        replica,
        CODES["replica-truncated"],
        f"{replica.name} ends at offset {replica.end} and has been leader since, with epoch {elected}: {longest.name} "
        f"cuts off its tail up to offset {longest.end - 1} when it follows.",
        severity=None if unclean is None else Severity.CRITICAL,
        offsets=(replica.end, longest.end - 1),
        evidence={"other": longest.partition.folder, "log_end_offset": replica.end, "leader_epoch": elected},
        exactness=Exactness.APPROXIMATE if unclean is None else Exactness.EXACT,
        benign=(
            "a tail that was never committed: likely, no high watermark on record reaches it"
            if unclean is None
            else f"a tail that was never committed: not ruled out for all of it; {told_of(unclean)}",
        ),
    )


def _elected_since(replica: Replica, other: Replica) -> int | None:
    """Return the epoch that a replica noted at its end, above all epochs of another one; None if there is none."""
    newest = max((epoch for epoch, _ in other.epoch_starts), default=-1)
    return next((epoch for epoch, start in replica.epoch_starts if epoch > newest and start == replica.end), None)


def _lag(comparison: Comparison, replica: Replica, longest: Replica) -> Finding:
    return comparison.finding(
        replica,
        CODES["replica-lag"],
        f"{replica.name} ends at offset {replica.end}, {longest.end - replica.end} offsets before {longest.name}.",
        offsets=(replica.end, longest.end - 1),
        evidence={"other": longest.partition.folder, "log_end_offset": replica.end, "lag": longest.end - replica.end},
        benign=(COPIED_BEFORE,),
        cause=_cause(comparison, replica, longest),
    )


def _cause(comparison: Comparison, replica: Replica, other: Replica) -> str | None:
    """Return the finding that an early end follows from: of two that went separate ways one has gone further."""
    first, second = sorted((replica, other), key=lambda one: one.number)
    return "replica-divergence" if comparison.of_pair(first, second, Kind.DIVERGED) else None


def _starts(comparison: Comparison) -> Iterator[Finding]:
    starts = {one.name: one.case.log_start_offset for one in comparison.live}
    if len(set(starts.values())) < 2:
        return
    latest = max(comparison.live, key=lambda one: one.case.log_start_offset)
    low, high = min(starts.values()), max(starts.values())
    told = ", ".join(f"{name} at {start}" for name, start in starts.items())
    yield comparison.finding(
        latest,
        CODES["replica-start-differs"],
        f"The replicas begin at different offsets: {told}; they can be compared from offset {high} on.",
        offsets=(low, high - 1),
        evidence={"log_start_offsets": starts},
        benign=("retention runs on each broker for itself: likely",),
    )
