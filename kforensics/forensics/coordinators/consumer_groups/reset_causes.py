"""Why a group went back, or started again without its committed offset, or will do so.

Rules: ``OffsetMetadataManager.cleanupExpiredOffsets`` and ``GroupCoordinatorService.onPartitionsDeleted`` for
tombstones; ``ClassicGroup.validateOffsetCommit``: only a group without members accepts a commit without a member.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.consumer_groups.commits import Commit, OffsetReset, is_of_another_topic
from kforensics.forensics.coordinators.consumer_groups.committers import committer_of
from kforensics.forensics.coordinators.consumer_groups.group_states import CLASSIC
from kforensics.forensics.coordinators.coordinator_records import NONE
from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
from kforensics.forensics.core.broker_settings import OFFSETS_RETENTION
from kforensics.forensics.core.formatting import format_duration
from kforensics.forensics.core.record_types import NO_TIME

__all__ = ["ResetCause", "ResetReason", "reset_reason"]

MINUTE_MS = 60_000
# How long after the removal of a topic its coordinators have written the tombstones at the latest.
TOPIC_REMOVAL_MS = 10 * MINUTE_MS
# How long after its retention an offset is removed where the coordinator looks for expired ones every few seconds.
SOON_MS = 10_000


class ResetCause(StrEnum):
    """Why a group went back, or started again without its committed offset, or will do so.

    RECORDS_DELETED is that of a committed offset before the log start offset, BEYOND_LOG_END that of one beyond the log
    end offset.
    """

    OFFSET_EXPIRED = "offset-expired"
    OFFSET_DELETED = "offset-deleted"
    GROUP_DELETED = "group-deleted"
    OFFSET_REMOVED = "offset-removed"
    TOPIC_RECREATED = "topic-recreated"
    LOG_TRUNCATED = "log-truncated"
    TRANSACTION = "transaction"
    ADMINISTRATOR = "administrator"
    SIMPLE_CONSUMER = "simple-consumer"
    MEMBER = "member"
    RECORDS_DELETED = "records-deleted"
    BEYOND_LOG_END = "beyond-log-end"


class ResetReason(NamedTuple):
    """The cause of a reset.

    Attributes:
        cause: the cause.
        why: what shows it, as a clause.
        is_certain: whether the files leave no other.
        is_inferred: whether it rests on a setting that only the times suggest.
    """

    cause: ResetCause
    why: str
    is_certain: bool = True
    is_inferred: bool = False


def reset_reason(cluster: Cluster, reset: OffsetReset) -> ResetReason:
    """Return why a group went back, or started again without its offset.

    Args:
        cluster: the cluster, with the partition if it is among the files.
        reset: the commit and what was before.
    """
    recreated = _recreated(cluster, reset)
    if recreated is not None:
        return recreated
    if reset.removal is not None:
        return _removed(cluster, reset, reset.removal)
    truncated = _truncated(cluster, reset)
    return truncated or _committed(cluster, reset)


def _recreated(cluster: Cluster, reset: OffsetReset) -> ResetReason | None:
    _, topic, _ = reset.key
    commit, before, removal = reset.commit, reset.before, reset.removal
    if before is not None and is_of_another_topic(before, commit.topic_id):
        why = "the two commits have different topic ids"
        if reset.outlived_topic:
            skipped = f"the group may have skipped the offsets before {before.committed}"
            why = f"{why}, and nothing removed the first one: {skipped} of the new topic"
        return ResetReason(ResetCause.TOPIC_RECREATED, why)
    skew = cluster.rules.clock_skew_ms
    last = commit.time if removal is None else removal.time
    first = last - TOPIC_REMOVAL_MS if removal is not None else NO_TIME if before is None else before.time
    if any(first - skew <= time <= last + skew for time in cluster.removed_topics.get(topic, ())):
        return ResetReason(ResetCause.TOPIC_RECREATED, "the metadata log has the deletion of the topic")
    return None


def _removed(cluster: Cluster, reset: OffsetReset, removal: Commit) -> ResetReason:
    """Return why the offset was removed, by how long it had been idle."""
    setting = cluster.rules.evidence(OFFSETS_RETENTION)
    retention_ms = int(str(setting["setting_value"])) * MINUTE_MS
    idle_since = _idle_since(reset, removal)
    with_group = bool(removal.leader_epoch)
    if idle_since is None:
        return ResetReason(ResetCause.OFFSET_REMOVED, "compaction took the records before", is_certain=False)
    idle = removal.time - idle_since
    if idle + cluster.rules.clock_skew_ms >= retention_ms:
        why = f"idle for {format_duration(idle)}, {OFFSETS_RETENTION} is {setting['setting_value']}"
        return ResetReason(ResetCause.OFFSET_EXPIRED, f"{why} ({setting['setting_source']})", is_certain=False)
    cause = ResetCause.GROUP_DELETED if with_group else ResetCause.OFFSET_DELETED
    if idle < MINUTE_MS:
        why = f"idle for {format_duration(idle)} only, and {OFFSETS_RETENTION} is at least 1"
        return ResetReason(cause, why)
    is_known = not cluster.rules.is_default(OFFSETS_RETENTION)
    if not is_known and idle % MINUTE_MS < SOON_MS:
        why = f"idle for just over {format_duration(idle - idle % MINUTE_MS)}, which {OFFSETS_RETENTION} may be"
        return ResetReason(ResetCause.OFFSET_EXPIRED, why, is_certain=False, is_inferred=True)
    if not is_known and with_group and reset.group is not None and reset.group.kind != CLASSIC:
        # Its retention counts from the commit, but what its members read does not expire: it expires when they leave.
        why = f"idle for {format_duration(idle)}, and {OFFSETS_RETENTION} may be shorter"
        return ResetReason(ResetCause.OFFSET_REMOVED, why, is_certain=False)
    why = f"idle for {format_duration(idle)} only, {OFFSETS_RETENTION} is {setting['setting_value']}"
    return ResetReason(cause, f"{why} ({setting['setting_source']})", is_certain=is_known)


def _idle_since(reset: OffsetReset, removal: Commit) -> int | None:
    """Return from when the retention of a removed offset counts, None if compaction took the records that show it.

    Of a classic group that is when its last member left, of others the time of the commit.
    """
    emptied = removal.committed
    is_classic = reset.group is not None and reset.group.kind == CLASSIC
    if reset.before is None:
        return emptied if is_classic and emptied != NO_TIME else None
    return max(emptied, reset.before.time) if is_classic and emptied != NO_TIME else reset.before.time


def _truncated(cluster: Cluster, reset: OffsetReset) -> ResetReason | None:
    """Return the reason if the log of the partition was truncated below the offset before, by its leader epochs."""
    _, topic, partition = reset.key
    before, log = reset.before, partition_log(cluster, topic, partition)
    if before is None or log is None or before.leader_epoch == NONE:
        return None
    later = next((start for epoch, start in log.epoch_starts if epoch > before.leader_epoch), None)
    if later is None or later >= before.committed:
        return None
    why = f"the next leader epoch of the partition begins at offset {later}, below the committed {before.committed}"
    return ResetReason(ResetCause.LOG_TRUNCATED, why)


def partition_log(cluster: Cluster, topic: str, partition: int) -> PartitionMarkers | None:
    """Return what is known of the log of a partition, None if it is not among the files."""
    number = cluster.supplied_partitions.get((topic, partition))
    return None if number is None else cluster.marker_join.by_partition[number]


def _committed(cluster: Cluster, reset: OffsetReset) -> ResetReason:
    """Return who committed the lower offset."""
    commit, group = reset.commit, reset.group
    committer = committer_of(cluster, reset.key, commit, group)
    if commit.producer_id != NONE:
        return ResetReason(ResetCause.TRANSACTION, committer.why)
    if group is not None and group.members:
        return ResetReason(ResetCause.MEMBER, committer.why)
    if commit.leader_epoch != NONE:
        why = "the group had no members, and the commit has a leader epoch, as consumers send it"
        return ResetReason(ResetCause.SIMPLE_CONSUMER, why, is_certain=False)
    why = "the group had no members, and the commit has no leader epoch, as tools send it"
    return ResetReason(ResetCause.ADMINISTRATOR, why, is_certain=group is not None and bool(group.protocol_type))
