"""Checks that no replica ends before what the others know to be committed, and that all start at the same offset.

Rule: ``ReplicaManager.checkpointHighWatermarks``: every record below a high watermark was on all in-sync replicas.
"""

from __future__ import annotations

from collections.abc import Iterator

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.commands import export_command
from kforensics.forensics.core.election import SyncChange, unclean_phrase
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_count, format_offsets, format_time
from kforensics.forensics.partition.kept_times import may_precede
from kforensics.forensics.partition.lost_end import traces_of_lost_end
from kforensics.forensics.partition.lost_watermarks import LostWatermark
from kforensics.forensics.partition.partition_files import RECOVERY_POINT
from kforensics.forensics.replicas.comparison import Comparison
from kforensics.forensics.replicas.differences import DifferenceKind
from kforensics.forensics.replicas.replica import Replica

CODES = by_name(
    Code(
        "replica-truncated",
        Severity.WARNING,
        meaning="A replica ends before the high watermark that another replica knows.",
        remedy=(
            "Keep the replica from becoming leader until it has fetched what it lacks from the other one, which would "
            "otherwise truncate it. If it has been leader since, save the records that only the other replica has "
            "before it starts following this one."
        ),
        why=(
            "Committed records were on all in-sync replicas. A replica that ends before them was not in sync, "
            "or has lost data. If it becomes leader, the others truncate what they have beyond its end."
        ),
        benign=(
            "It was out of sync and lagging, a reassignment fills it, its files were copied earlier, or its broker was "
            "stopped earlier. If its files are the older ones, or the metadata of the cluster has it out of sync, the "
            "severity is only info, but not if its log was once longer. It is info, too, if an unclean election has "
            "lost the records: that is unclean-election-loss."
        ),
    ),
    Code(
        "replica-lag",
        Severity.INFO,
        meaning="A replica ends before another one, but after everything that is known to be committed.",
        why="It lags, as followers do, and will catch up.",
        benign="It was copied earlier than the other replica.",
    ),
    Code(
        "replica-start-differs",
        Severity.INFO,
        meaning="Replicas start at different offsets, because each broker applies retention by itself.",
        why="The replicas cannot be compared before the later of the two log start offsets.",
        benign="Each broker deletes old segments by itself.",
    ),
)


OUT_OF_SYNC, COPIED_EARLIER = "out of sync and lagging: not ruled out", "copied before the others: not ruled out"
COPIED_FIRST = "copied before the others: likely, its broker was running, and its files are older"
STOPPED_FIRST = "stopped before the others: likely, its broker was shut down cleanly, and its files are older"


def findings(comparison: Comparison) -> Iterator[Finding]:
    """Yield live replicas that end early or start elsewhere; copies set aside need not keep up.

    Nor need those of a topic that was deleted and created again.
    """
    for replica in comparison.live:
        yield from _end(comparison, replica)
    yield from _starts(comparison)


def _end(comparison: Comparison, replica: Replica) -> Iterator[Finding]:
    live = (other for other in comparison.live if other is not replica)
    others = [other for other in live if comparison.is_of_one_topic(replica, other)]
    knowing = max(others, key=lambda other: other.high_watermark or 0, default=None)
    longest = max(others, key=lambda other: other.end, default=None)
    if knowing is not None and (knowing.high_watermark or 0) > replica.end:
        lost = _lost_by_election(comparison, replica, knowing)
        yield lost or _truncated(comparison, replica, knowing, knowing.high_watermark or 0)
    elif longest is not None and longest.end > replica.end:
        elected = _elected_since(replica, longest)
        if elected is None:
            yield _lag(comparison, replica, longest)
        else:
            yield _elected_shorter(comparison, replica, longest, elected)


def _truncated(comparison: Comparison, replica: Replica, knowing: Replica, committed: int) -> Finding:
    elected = _elected_since(replica, knowing)
    message = (
        f"{replica.name} ends at offset {replica.end}, below the high watermark {committed} of {knowing.name}: "
        f"{format_count(committed - replica.end, 'committed offset')} missing."
    )
    traces, evidence = _traces(replica)
    is_early = _ended_earlier(comparison, replica, knowing)
    severity = Severity.INFO if is_early else None
    benign: tuple[str, ...] = (OUT_OF_SYNC, _why_early(replica) if is_early else COPIED_EARLIER)
    begin = None if elected is not None else _overruled_from(comparison, replica, knowing)
    remedy = _catch_up(comparison, replica, knowing, committed)
    if elected is not None:
        message += f" It has since become leader with epoch {elected}, so the missing records are lost."
        remedy = _rescue(replica, knowing, replica.end)
        severity, benign = Severity.CRITICAL, ("out of sync and lagging: no, it was elected",)
    elif begin is not None:
        message += (
            f" A later leader has written to it from offset {begin} on, so {knowing.name} truncates its own records "
            "from there when it follows."
        )
        benign = ("out of sync and lagging: no, a later leader has written to it",)
        remedy = _rescue(replica, knowing, begin)
    elif not is_early and not _was_longer(replica) and (change := comparison.out_of_sync(replica, knowing)):
        message += f" {_why_out_of_sync(change)}"
        severity, benign = Severity.INFO, ("out of sync and lagging: yes, by the metadata of the cluster",)
    else:
        message += f"{traces} Not ruled out: it lags out of sync, or was copied before the others."
    ends = {"log_end_offset": replica.end, "high_watermark": committed, "leader_epoch": elected}
    return comparison.finding(
        replica,
        CODES["replica-truncated"],
        message,
        severity=severity,
        offsets=(replica.end, committed - 1),
        evidence={"other": knowing.partition.folder, **ends, **evidence},
        benign=benign,
        cause=_cause(comparison, replica, knowing),
        remedy=remedy,
    )


def _lost_by_election(comparison: Comparison, replica: Replica, knowing: Replica) -> Finding | None:
    """Return the finding on a replica that ends early because an unclean election truncated another one, or None.

    The loss is a finding on the cluster. A replica that was elected, or that a later leader has written to, is worse.
    """
    lost = _watermark_lost_by_election(comparison, replica, knowing)
    is_leader = _elected_since(replica, knowing) is not None
    if lost is None or is_leader or _overruled_from(comparison, replica, knowing) is not None:
        return None
    return comparison.finding(
        replica,
        CODES["replica-truncated"],
        f"{replica.name} ends at offset {replica.end}, below the high watermark {lost.offset} of {knowing.name}: "
        f"{format_count(lost.offset - replica.end, 'committed offset')} missing. They are lost: {lost.phrase}.",
        severity=Severity.INFO,
        offsets=(replica.end, lost.offset - 1),
        evidence={
            "other": knowing.partition.folder,
            "log_end_offset": replica.end,
            "high_watermark": lost.offset,
            "leader_epoch": lost.election.leader_epoch,
        },
        benign=(f"copied before the others: no, the log of {knowing.name} was truncated, too",),
        cause="unclean-election-loss",
        remedy=_catch_up(comparison, replica, knowing, lost.offset),
    )


def _watermark_lost_by_election(comparison: Comparison, replica: Replica, other: Replica) -> LostWatermark | None:
    """Return the high watermark of another replica, if a replica ends before it only because of an unclean election.

    One that ends before the offset at which the election continued lags: what it lacks up to there is not lost.
    """
    lost = comparison.lost_watermark(other)
    return None if lost is None or replica.end < lost.start else lost


def _traces(replica: Replica) -> tuple[str, dict[str, object]]:
    """Return the traces of a longer log, if the replica's own high watermark shows that it was longer."""
    return traces_of_lost_end(replica.state) if _was_longer(replica) else ("", {})


def _why_out_of_sync(change: SyncChange) -> str:
    when = format_time(change.timestamp)
    if change.is_in_sync:
        return f"It came into sync at {when}, after its files had been written."
    if change.is_added:
        return f"It was added to the replicas at {when} and has not come into sync yet, so it lags and will catch up."
    return f"It has been out of sync since {when}, so it lags and will catch up."


def _why_early(replica: Replica) -> str:
    return STOPPED_FIRST if replica.partition.log_dir.clean_shutdown else COPIED_FIRST


def _was_longer(replica: Replica) -> bool:
    return replica.high_watermark is not None and replica.high_watermark > replica.end


def _rescue(leader: Replica, other: Replica, begin: int) -> str:
    """Return how to save from another replica what a leader lacks from an offset on."""
    if other.end <= begin:
        return (
            f"No available replica has the records from offset {begin} on: look for copies that brokers have set "
            f"aside, and ask the producing applications to send them again. {leader.name} does not get them back."
        )
    return (
        f"Save {format_offsets(begin, other.end - 1)} from {other.name} before its broker starts again, because it "
        f"truncates them when it follows: {export_command(other.partition.folder, begin, other.end - 1)}. Then send "
        "those records again that the producers have not sent a second time."
    )


def _catch_up(comparison: Comparison, replica: Replica, other: Replica, committed: int) -> str:
    """Return how a replica gets what it lacks."""
    first, second = sorted((replica, other), key=lambda side: side.number)
    diverged = comparison.differences_between(first, second, DifferenceKind.DIVERGED)
    if any(comparison.loser(difference) is None for difference in diverged):
        return (
            "Decide first which of the two is right, as replica-divergence says: "
            f"if {replica.name} leads, {other.name} truncates what it has beyond its end."
        )
    if other.end <= replica.end:
        return (
            f"No available replica has {format_offsets(replica.end, committed - 1)}: look for other replicas and for "
            f"copies that brokers have set aside before {replica.name} becomes leader."
        )
    return (
        f"Keep {replica.name} from becoming leader until it has fetched {format_offsets(replica.end, other.end - 1)} "
        f"from {other.name}, which would otherwise truncate them."
    )


def _overruled_from(comparison: Comparison, replica: Replica, other: Replica) -> int | None:
    """Return from which offset a later leader has written to a replica what another one does not have, or None."""
    first, second = sorted((replica, other), key=lambda side: side.number)
    diverged = comparison.differences_between(first, second, DifferenceKind.DIVERGED)
    overruled = (difference.first_offset for difference in diverged if comparison.loser(difference) is other)
    return min(overruled, default=None)


def _ended_earlier(comparison: Comparison, replica: Replica, other: Replica) -> bool:
    """Return whether the files of a replica are older than those of another one, and it has not lost its own end.

    Its broker was running when they were copied, or was shut down cleanly before the other one wrote its newest data.
    In an archive that keeps whole seconds, the files of both may have the same time.
    """
    own_time, other_time = replica.partition.newest_mtime_ms, other.partition.newest_mtime_ms
    is_stopped = replica.partition.log_dir.clean_shutdown
    if is_stopped and replica.partition.checkpoint(RECOVERY_POINT) == replica.end:
        # The end of its log when it stopped. It had stopped to follow before it wrote its last snapshot.
        own_time, other_time = replica.partition.appended_ms, other.partition.appended_ms
    if own_time is None or other_time is None:
        return False
    if own_time >= other_time:
        is_tie = own_time == other_time and may_precede(own_time, other_time)
        return is_tie and not is_stopped and _is_of_time_of_files(comparison, replica, other)
    # A copy that does not preserve file times is newer than all data.
    return not is_stopped or (other.state.log.newest_timestamp > own_time and not _was_longer(replica))


def _is_of_time_of_files(comparison: Comparison, replica: Replica, other: Replica) -> bool:
    """Return whether what a replica lacks was written when its files were, and not before.

    Files that a copy has made new or old are not of the time of any data.
    """
    since, newest = comparison.lacking_since(replica, other), replica.partition.newest_mtime_ms
    return since is not None and newest is not None and 0 <= since - newest <= replica.state.rules.clock_skew_ms


def _elected_shorter(comparison: Comparison, replica: Replica, longest: Replica, elected: int) -> Finding:
    """Return the finding for a leader that ends before another replica, whose tail will be truncated."""
    unclean = comparison.unclean_election(longest.last_leader_epoch, elected)
    return comparison.finding(
        replica,
        CODES["replica-truncated"],
        f"{replica.name} ends at offset {replica.end} and has since become leader with epoch {elected}: {longest.name} "
        f"truncates {format_offsets(replica.end, longest.end - 1)} when it follows.",
        severity=None if unclean is None else Severity.CRITICAL,
        offsets=(replica.end, longest.end - 1),
        evidence={"other": longest.partition.folder, "log_end_offset": replica.end, "leader_epoch": elected},
        exactness=Exactness.APPROXIMATE if unclean is None else Exactness.EXACT,
        benign=(
            "uncommitted tail: likely, no checkpointed high watermark reaches it"
            if unclean is None
            else f"uncommitted tail: not ruled out for all of it; {unclean_phrase(unclean)}",
        ),
        remedy=_rescue(replica, longest, replica.end),
    )


def _elected_since(replica: Replica, other: Replica) -> int | None:
    """Return the epoch that starts at the end of a replica and is above all epochs of another one, None without one."""
    newest = max((epoch for epoch, _ in other.epoch_starts), default=-1)
    return next((epoch for epoch, start in replica.epoch_starts if epoch > newest and start == replica.end), None)


def _lag(comparison: Comparison, replica: Replica, longest: Replica) -> Finding:
    lag = longest.end - replica.end
    return comparison.finding(
        replica,
        CODES["replica-lag"],
        f"{replica.name} ends at offset {replica.end}, {format_count(lag, 'offset')} before {longest.name}.",
        offsets=(replica.end, longest.end - 1),
        evidence={"other": longest.partition.folder, "log_end_offset": replica.end, "lag": lag},
        benign=(COPIED_EARLIER,),
        cause=_cause(comparison, replica, longest),
    )


def _cause(comparison: Comparison, replica: Replica, other: Replica) -> str | None:
    """Return the finding that explains an early end: after a divergence one of the two may be longer."""
    if _watermark_lost_by_election(comparison, replica, other) is not None:
        return "unclean-election-loss"
    first, second = sorted((replica, other), key=lambda side: side.number)
    return "replica-divergence" if comparison.differences_between(first, second, DifferenceKind.DIVERGED) else None


def _starts(comparison: Comparison) -> Iterator[Finding]:
    starts = {replica.name: replica.state.log_start_offset for replica in comparison.live}
    if len(set(starts.values())) < 2:
        return
    latest = max(comparison.live, key=lambda replica: replica.state.log_start_offset)
    low, high = min(starts.values()), max(starts.values())
    listed = ", ".join(f"{name} at {start}" for name, start in starts.items())
    yield comparison.finding(
        latest,
        CODES["replica-start-differs"],
        f"Log start offsets differ: {listed}. The replicas are comparable from offset {high}.",
        offsets=(low, high - 1),
        evidence={"log_start_offsets": starts},
        benign=("each broker applies retention by itself: likely",),
    )


CHECK = Check("ends", CODES, findings)
