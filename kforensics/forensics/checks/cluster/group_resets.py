"""Checks for consumer groups that read again or skip records because of their committed offsets.

Rules: ``reset_causes`` for what removes or lowers an offset; ``OffsetFetcher``: a consumer whose offset is not in the
log starts where auto.offset.reset says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from kforensics.forensics.checks.check import Check
from kforensics.forensics.coordinators.cluster_evidence import Cluster, PlacedFinding, partition_name
from kforensics.forensics.coordinators.consumer_groups.commits import Commits, OffsetReset
from kforensics.forensics.coordinators.consumer_groups.committers import committer_of
from kforensics.forensics.coordinators.consumer_groups.offset_ranges import (
    OffsetBeforeLog,
    OffsetOfDeletedTopic,
    offset_before_log,
    offsets_before_log,
    offsets_of_deleted_topics,
)
from kforensics.forensics.coordinators.consumer_groups.reset_causes import ResetCause, ResetReason, reset_reason
from kforensics.forensics.core.broker_settings import OFFSETS_RETENTION
from kforensics.forensics.core.commands import BOOTSTRAP, DESCRIBE_GROUP, GROUPS_TOOL, filled_in
from kforensics.forensics.core.findings import Code, Exactness, Severity, by_name
from kforensics.forensics.core.formatting import format_count, format_time
from kforensics.forensics.core.reporting import MOST, time_of

RESTORE = f"{GROUPS_TOOL} --reset-offsets --group {{group}} --topic {{topic_partition}} --to-offset {{offset}}"
SKIP = (
    "To continue at offset {offset} after all, stop its members, check "
    f"`{RESTORE} --dry-run`, then run `{RESTORE} --execute`."
)
CODES = by_name(
    Code(
        "group-offset-reset",
        Severity.WARNING,
        meaning="A group lost its committed offset or went back, and processes records again or skips some.",
        remedy="Check whether it was intended, and whether the application tolerates records that come twice.",
        why=(
            "A group without a committed offset starts where auto.offset.reset says: from the start, so that "
            "everything is processed again, or at the end, so that what came meanwhile is skipped. The evidence names "
            f"the cause in reset_by: an offset that expired ({OFFSETS_RETENTION} after the last member had left), an "
            "offset or a group that was deleted, a topic that was deleted and created again, a log that was truncated, "
            "or a lower offset that an administrator, a consumer or a transaction committed. A topic that is deleted "
            "takes its offsets with it, unless the coordinator of the group is not running: then the old offset is in "
            "force for the new topic, and a group that starts skips what that has before it."
        ),
        benign=(
            "Someone wanted the group to start again: what an administrator or a client of the group did is "
            "information. A group that is no longer in use skips nothing."
        ),
    ),
    Code(
        "group-offset-out-of-range",
        Severity.WARNING,
        meaning="The committed offset of a group is before the start of the log.",
        remedy="Check why the group lags longer than the topic keeps records, and retention.ms and retention.bytes.",
        why=(
            "Retention, or DeleteRecords, took records that the group had not committed. Its consumers get "
            "OFFSET_OUT_OF_RANGE and start where auto.offset.reset says: at the start of what is left, or at the end. "
            "An offset beyond the end of the log is eos-offset-beyond-log."
        ),
        benign=(
            "A group that is no longer in use, a partition without records, or an application that commits only "
            "partitions it made progress on; the first two are information."
        ),
    ),
)
# What happened, by cause, and whether that is only likely; the rest of the message is the same.
HAPPENED = {
    ResetCause.OFFSET_EXPIRED: "{likely}expired at {removed}",
    ResetCause.OFFSET_DELETED: "was {likely}deleted at {removed}",
    ResetCause.GROUP_DELETED: "was {likely}deleted with its group at {removed}",
    ResetCause.OFFSET_REMOVED: "was removed at {removed}, by expiry or by a deletion",
    ResetCause.TOPIC_RECREATED: "became void, as the topic was deleted and created again",
    ResetCause.LOG_TRUNCATED: "became void, as the log of the partition was truncated",
    ResetCause.TRANSACTION: "was {likely}lowered by a transaction",
    ResetCause.ADMINISTRATOR: "was {likely}reset by an administrator",
    ResetCause.SIMPLE_CONSUMER: "was {likely}lowered by a consumer that is no member",
    ResetCause.MEMBER: "was {likely}lowered by a member of the group",
}
OUTLIVED = "stayed in force when the topic was deleted and created again"
REMEDIES = {
    ResetCause.OFFSET_EXPIRED: f"Set {OFFSETS_RETENTION} of the brokers above the longest pause of the group. {SKIP}",
    ResetCause.LOG_TRUNCATED: (
        f"Find out why the partition lost records, in the findings on it. See where the group is: {DESCRIBE_GROUP}."
    ),
}
READ_SKIPPED = (
    "Check whether the application needs the records before offset {offset} of the new topic. To see them: "
    f"`kafka-console-consumer.sh --bootstrap-server {BOOTSTRAP} --topic {{topic}} --partition {{partition}} "
    "--offset earliest --max-messages {offset}`."
)
TO_START = f"{GROUPS_TOOL} --reset-offsets --group {{group}} --topic {{topic_partition}} --to-earliest"
READ_FROM_START = (
    "So that the group reads the new topic from its start, stop its members, check "
    f"`{TO_START} --dry-run`, then run `{TO_START} --execute`."
)
OTHER_REMEDY = f"No action, if it was intended. {SKIP}"
# Causes that are never intended; the others may be.
UNINTENDED = (ResetCause.OFFSET_EXPIRED, ResetCause.LOG_TRUNCATED)


def findings(cluster: Cluster) -> Iterator[PlacedFinding]:
    """Yield groups that went back, started again without an offset, or are before the start of a log."""
    for commits in cluster.commits:
        placed = (_reset(cluster, commits, reset) for reset in commits.resets)
        yield from _counted(placed, commits.reset_count)
        yield from _out_of_range(cluster, commits)
        others = offsets_of_deleted_topics(cluster, commits)
        yield from _counted((_of_deleted_topic(cluster, commits, one) for one in others), len(others))


def _counted(placed: Iterator[PlacedFinding], total: int) -> Iterator[PlacedFinding]:
    """Yield the first findings; the evidence of the last one states how many are ``left_out``."""
    for count, (place, finding) in enumerate(islice(placed, MOST), 1):
        left_out = {"left_out": total - MOST} if count == MOST < total else {}
        yield PlacedFinding(place, replace(finding, evidence={**finding.evidence, **left_out}))


def _reset(cluster: Cluster, commits: Commits, reset: OffsetReset) -> PlacedFinding:
    (group, topic, partition), commit, before, removal, _ = reset
    reason = reset_reason(cluster, reset)
    is_back = before is not None and commit.committed < before.committed
    is_harm = is_back and reason.cause in UNINTENDED and not reason.is_inferred
    removed = format_time(removal.time) if removal is not None else ""
    is_certain = reason.is_certain and not reset.outlived_topic
    happened = OUTLIVED if reset.outlived_topic else HAPPENED[reason.cause]
    happened = happened.format(removed=removed, likely="" if reason.is_certain else "likely ")
    offset = "offset" if before is None else f"offset {before.committed}"
    name = partition_name((topic, partition))
    return cluster.at_commit(
        commits,
        (commit.segment, commit.position, commit.offset),
        CODES["group-offset-reset"],
        f"The committed {offset} of group {group!r} for {name} {happened} ({reason.why}). {_consequence(reset)}",
        severity=Severity.WARNING if is_harm or _has_skipped(reset) else Severity.INFO,
        producer=(commit.producer_id, commit.producer_epoch),
        evidence=_evidence(cluster, reset, reason),
        exactness=Exactness.EXACT if is_certain and commits.is_whole else Exactness.APPROXIMATE,
        benign=_benign(reset, reason),
        remedy=reset_remedy(
            reason.cause,
            group,
            (topic, partition),
            before and before.committed,
            outlived_topic=reset.outlived_topic,
        ),
    )


def _has_skipped(reset: OffsetReset) -> bool:
    """Return whether a member started from the offset of a deleted topic: it was assigned the partition since."""
    before, group = reset.before, reset.group
    return reset.outlived_topic and before is not None and group is not None and group.has_moved_since(before.offset)


def reset_remedy(
    cause: ResetCause, group: str, partition: tuple[str, int], offset: int | None, *, outlived_topic: bool = False
) -> str:
    """Return what to do about a reset.

    Args:
        cause: why the group went back.
        group: name of the group.
        partition: topic and partition.
        offset: the committed offset before, None if it is unknown.
        outlived_topic: whether it is that of a deleted topic and stayed in force.
    """
    topic, number = partition
    values = {"group": group, "topic_partition": f"{topic}:{number}", "offset": offset}
    values |= {"topic": topic, "partition": number}
    return filled_in(READ_SKIPPED if outlived_topic else REMEDIES.get(cause, OTHER_REMEDY), values)


def start_remedy(group: str, partition: tuple[str, int]) -> str:
    """Return what to do about an offset of a deleted topic that is in force.

    Args:
        group: name of the group.
        partition: topic and partition.
    """
    topic, number = partition
    return filled_in(READ_FROM_START, {"group": group, "topic_partition": f"{topic}:{number}"})


def _consequence(reset: OffsetReset) -> str:
    commit, before = reset.commit, reset.before
    first = f"at {format_time(commit.time)} the group committed offset {commit.committed}"
    if before is None:
        return f"Later, {first}; where it was before is not in the log any more."
    if commit.committed < before.committed:
        count = format_count(before.committed - commit.committed, "offset")
        return f"Then, {first}: at least {count} read again."
    if reset.outlived_topic:
        return f"Then, {first}."
    return f"Then, {first}: it may have read from the start again, or skipped records, as its auto.offset.reset says."


def _evidence(cluster: Cluster, reset: OffsetReset, reason: ResetReason) -> dict[str, object]:
    key, commit, before, removal, group = reset
    committer = committer_of(cluster, key, commit, group)
    return {
        "group": key[0],
        "partition": partition_name(key[1:]),
        "reset_by": str(reason.cause),
        "why": reason.why,
        "committed": commit.committed,
        "before": None if before is None else before.committed,
        "before_at_offset": None if before is None else before.offset,
        "removed_at_offset": None if removal is None else removal.offset,
        "members": None if group is None else len(group.members),
        "generation": None if group is None else group.generation,
        **time_of((removal or commit).time),
        **{name: getattr(committer, name) for name in ("member", "client_id", "client_host", "transactional_id")},
    }


def _benign(reset: OffsetReset, reason: ResetReason) -> tuple[str, ...]:
    if reason.cause is ResetCause.OFFSET_EXPIRED:
        deleted = "at that moment" if reason.is_inferred else "after that time"
        return (f"deleted by an administrator {deleted}: possible",)
    if reason.cause in UNINTENDED:
        return ()
    if reset.outlived_topic:
        return ("the log ended before that offset when the group started, which read from the start then: possible",)
    expired = () if reason.is_certain or reset.removal is None else (f"{OFFSETS_RETENTION} was shorter: possible",)
    return ("intended: possible", *expired)


def _of_deleted_topic(cluster: Cluster, commits: Commits, offset: OffsetOfDeletedTopic) -> PlacedFinding:
    (group, topic, partition), commit, log, deleted = offset
    state, name = commits.states.get(group), partition_name((topic, partition))
    is_used, may_be_removed = bool(state and state.members), commits.may_lack_later
    return cluster.at_commit(
        commits,
        (commit.segment, commit.position, commit.offset),
        CODES["group-offset-reset"],
        f"The committed offset {commit.committed} of group {group!r} for {name} is that of a deleted topic of the same "
        f"name: {offset.why}. It is in force, and {offset.consequence}.",
        severity=Severity.INFO if may_be_removed else Severity.WARNING,
        evidence={
            "group": group,
            "partition": name,
            "reset_by": str(ResetCause.TOPIC_RECREATED),
            "committed": commit.committed,
            "committed_topic_id": commit.topic_id,
            "topic_id": log.topic_id,
            "log_start_offset": offset.first_offset,
            "log_end_offset": log.log_end_offset,
            "members": len(state.members) if state else None,
            **time_of(commit.time),
        },
        exactness=Exactness.APPROXIMATE if deleted is None or may_be_removed else Exactness.EXACT,
        benign=(
            f"group no longer in use: {'no, it has members' if is_used else 'possible, it has no members'}",
            "its offsets copied before the topic was deleted, which removes them: "
            + ("likely, the replica was out of sync" if may_be_removed else "possible"),
        ),
        remedy=start_remedy(group, (topic, partition)),
    )


def _out_of_range(cluster: Cluster, commits: Commits) -> Iterator[PlacedFinding]:
    """Yield committed offsets before the log start of the available partitions."""
    rows = offsets_before_log(cluster, commits)
    placed = (_before_start(cluster, commits, offset_before_log(cluster, commits, row)) for row in rows.tolist())
    yield from _counted(placed, len(rows))


def _before_start(cluster: Cluster, commits: Commits, offset: OffsetBeforeLog) -> PlacedFinding:
    (group, topic, partition), commit, log = offset.key, offset.commit, offset.log
    state, name = commits.states.get(group), partition_name((topic, partition))
    is_used, has_records = bool(state and state.members), log.log_start_offset < log.log_end_offset
    return cluster.at_commit(
        commits,
        (commit.segment, commit.position, commit.offset),
        CODES["group-offset-out-of-range"],
        f"The offset of group {group!r} for {name} is {commit.committed}, but {offset.why}. {offset.consequence}",
        severity=None if is_used and has_records and offset.is_certain else Severity.INFO,
        evidence={
            "group": group,
            "partition": name,
            "committed": commit.committed,
            "log_start_offset": log.visible_start_offset,
            "log_end_offset": log.log_end_offset,
            "members": len(state.members) if state else None,
        },
        exactness=Exactness.EXACT if offset.is_certain else Exactness.APPROXIMATE,
        benign=(
            f"group not in use: {'no, it has members' if is_used else 'likely, it has no members'}",
            f"partition copied after the commit: {'no, the broker was stopped' if offset.is_certain else 'possible'}",
            f"nothing left to read: {'no' if has_records else 'yes'}",
        ),
        remedy=filled_in(f"{CODES['group-offset-out-of-range'].remedy} See {DESCRIBE_GROUP}.", {"group": group}),
    )


CHECK = Check("group_resets", CODES, findings)
