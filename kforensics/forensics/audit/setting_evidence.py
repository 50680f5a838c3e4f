"""Collects the settings of brokers and topics from their files, those that count first, and what a cluster deleted.

What a user gives comes first, then the metadata log, a broker's ``server.properties``, and what the files prove.
Kafka's defaults fill the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from kforensics.errors import InputError
from kforensics.forensics.audit.cluster_membership import Clusters, PartitionMembership
from kforensics.forensics.audit.other_cleaners import other_cleaners
from kforensics.forensics.coordinators.coordinator_records import TRANSACTION_STATE
from kforensics.forensics.coordinators.longest_timeout import LongestTimeout, longest_timeout
from kforensics.forensics.core.broker_settings import (
    EARLIER,
    MAX_TIMEOUT,
    PRODUCER_EXPIRY,
    Setting,
    default_setting,
)
from kforensics.forensics.core.election import Leaderless
from kforensics.forensics.core.formatting import format_duration
from kforensics.forensics.core.past_cleanings import PastPolicy
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.metadata.cluster_metadata import in_force
from kforensics.forensics.metadata.cluster_settings import (
    ClusterSetting,
    KnownTopics,
    cluster_facts_in,
    running_in,
)
from kforensics.forensics.metadata.metadata_versions import Release
from kforensics.forensics.metadata.remote_log import RemoteLog, remote_logs_in
from kforensics.forensics.partition.kept_times import newest_batch_time, predated_by
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.sidecar.snapshot_expiry import Expired, SnapshotExpiry, snapshot_expiry
from kforensics.parsers.files.log_names import METADATA_TOPIC, REMOTE_LOG_METADATA

__all__ = ["SettingEvidence", "rules_by_evidence", "setting_evidence"]

LogDirs = frozenset[str | None]
NO_TOPICS = KnownTopics()
ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class SettingEvidence:
    """What a partition shows of the settings, and of remote storage; can be serialized.

    Attributes:
        member: the cluster, log directory and broker of the partition.
        length: how far its log reaches, to choose among copies of a metadata log.
        configured: settings in the metadata log.
        release: the release of its brokers in the metadata log.
        releases: the release that each broker registered last in the metadata log, by broker id.
        started: when each broker registered last in the metadata log, in ms by broker id.
        running_ms: the newest time in the metadata log, until when its broker was running.
        gone_ms: when its broker had missed a batch of the metadata log, None if nothing shows it.
        predated_ms: by how much its files are older than what brokers wrote in them; 0 if they are not, or may not be.
        expiry: what its snapshots show.
        timeout: the longest timeout in a log of the transaction coordinator.
        remote_logs: what a log of the metadata of remote storage shows.
        topics: what the metadata log shows of topics.
    """

    member: PartitionMembership
    length: tuple[int, int] = (0, 0)
    configured: tuple[ClusterSetting, ...] = ()
    release: Release | None = None
    releases: Mapping[int, Release] = field(default_factory=dict, hash=False)
    started: Mapping[int, int] = field(default_factory=dict, hash=False)
    running_ms: int | None = None
    gone_ms: int | None = None
    predated_ms: int = 0
    expiry: SnapshotExpiry | None = None
    timeout: LongestTimeout | None = None
    remote_logs: tuple[RemoteLog, ...] = ()
    topics: KnownTopics = NO_TOPICS


def setting_evidence(partition: Partition, as_of_ms: int) -> SettingEvidence | None:
    """Return what a partition shows of the settings, None if it shows nothing. A file that cannot be read does not.

    Args:
        partition: the partition.
        as_of_ms: time of evaluation.
    """
    evidence = SettingEvidence(PartitionMembership.of(partition), expiry=snapshot_expiry(partition, as_of_ms))
    with suppress(InputError):  # the audit of the partition reports it
        if partition.segments:
            length = partition.segments[-1].base_offset or 0, partition.segments[-1].size
            evidence = replace(evidence, length=length)
        if partition.place.topic == METADATA_TOPIC and in_force([partition]) and partition.segments:
            settings, release, topics, releases, started = cluster_facts_in(partition)
            evidence = replace(evidence, configured=settings, release=release, topics=topics)
            evidence = replace(evidence, releases=releases, started=started)
            running = running_in(partition)
            evidence = replace(evidence, running_ms=running.until, gone_ms=running.gone_from)
            evidence = replace(evidence, predated_ms=predated_by(partition, running.until))
        elif partition.place.topic == REMOTE_LOG_METADATA:
            evidence = replace(evidence, remote_logs=remote_logs_in(partition))
        elif partition.place.topic == TRANSACTION_STATE:
            evidence = replace(evidence, timeout=longest_timeout(partition))
            evidence = replace(evidence, predated_ms=predated_by(partition, newest_batch_time(partition)))
    shown = (evidence.configured, evidence.timeout, evidence.expiry, evidence.running_ms, evidence.remote_logs)
    return evidence if any(shown) or evidence.predated_ms else None


def rules_by_evidence(
    rules: Rules,
    given: Sequence[Setting],
    evidence: Iterable[SettingEvidence],
    members: Iterable[PartitionMembership],
    clusters: Clusters,
) -> Rules:
    """Return rules with all settings that are known, those that count first.

    Args:
        rules: limits and the time of evaluation.
        given: settings that the user gives, those that count first.
        evidence: what the partitions show.
        members: all partitions.
        clusters: their clusters.
    """
    members = list(members)
    by_cluster: dict[str, list[SettingEvidence]] = defaultdict(list)
    for one in evidence:
        by_cluster[clusters.name_of_member(one.member)].append(one)
    log_dirs: dict[str, set[tuple[int | None, str | None]]] = defaultdict(set)
    for member in members if by_cluster else ():
        log_dirs[clusters.name_of_member(member)].add((member.broker_id, member.log_dir))
    settings, static = ([one for one in given if one.is_static is is_static] for is_static in (False, True))
    proven, defaults, remote_logs, predated = list[Setting](), list[Setting](), list[RemoteLog](), {*rules.predated}
    unreplicated, shown = [*rules.unreplicated_topics], dict[str, Any]()
    for cluster, of_cluster in sorted(by_cluster.items()):
        settings += _configured(of_cluster, log_dirs[cluster])
        remote_logs += _remote_logs(of_cluster, log_dirs[cluster])
        unreplicated += max(of_cluster, key=lambda one: (bool(one.topics.unreplicated), one.length)).topics.unreplicated
        for name, known in _shown(of_cluster, log_dirs[cluster]).items():
            shown[name] = {**shown.get(name, getattr(rules, name)), **known}
        predated |= {one.member.log_dir for one in of_cluster if one.predated_ms > rules.clock_skew_ms}
        limits = _with(rules, [*settings, *static])
        proven += [*_proven_timeout(of_cluster, limits, log_dirs[cluster]), *_proven_expiry(of_cluster, limits)]
        defaults += _defaults(of_cluster, log_dirs[cluster])
    return replace(
        _with(rules, [*settings, *static, *proven, *defaults]),
        remote_logs={**_by_partition(remote_logs), **rules.remote_logs},
        unreplicated_topics=tuple(unreplicated),
        predated=frozenset(predated),
        leaderless=_leaderless(rules, by_cluster.values()),
        other_cleaners=other_cleaners(members, clusters),
        **shown,
    )


def _shown(
    evidence: Sequence[SettingEvidence], log_dirs: Collection[tuple[int | None, str | None]]
) -> dict[str, Mapping[Any, Any]]:
    """Return what files show of a cluster, by the field of the rules."""
    longest = _longest_metadata(evidence)
    return {
        "deleted_topics": {topic: deleted for one in evidence for topic, deleted in one.topics.deleted.items()},
        "out_of_sync": _out_of_sync(evidence, log_dirs),
        "past_compaction": _past_compaction(evidence),
        "releases": _of_brokers(evidence, log_dirs, lambda one: one.releases),
        "started": _of_brokers(evidence, log_dirs, lambda one: one.started),
        "dated_epochs": {log_dir: longest.topics.dated_epochs for _, log_dir in log_dirs} if longest else {},
        "running_until": _by_broker(evidence, log_dirs, lambda one: one.running_ms),
        "gone_from": _by_broker(evidence, log_dirs, lambda one: one.gone_ms),
    }


def _longest_metadata(evidence: Iterable[SettingEvidence]) -> SettingEvidence | None:
    """Return what the longest copy of the metadata log of a cluster shows, None if there is none."""
    metadata = (one for one in evidence if one.running_ms is not None)
    return max(metadata, key=lambda one: one.length, default=None)


def _past_compaction(evidence: Sequence[SettingEvidence]) -> dict[str, PastPolicy]:
    """Return the policies with compaction that topics had, by topic id, without those that the longest copy has last.

    A copy that begins with a later snapshot does not show the policies before it.
    """
    longest = _longest_metadata(evidence)
    known = longest.topics.compacted if longest else {}
    by_length = sorted(evidence, key=lambda one: one.length)
    past = {topic: policy for one in by_length for topic, policy in one.topics.compacted.items()}
    return {topic: policy for topic, policy in past.items() if topic not in known or policy.until_ms is not None}


def _out_of_sync(
    evidence: Sequence[SettingEvidence], log_dirs: Iterable[tuple[int | None, str | None]]
) -> dict[str | None, dict[tuple[str, int], int]]:
    """Return since when the replicas of each broker are out of sync, by log directory, as the longest copy shows it."""
    longest = _longest_metadata(evidence)
    by_broker: dict[int | None, dict[tuple[str, int], int]] = defaultdict(dict)
    for partition, late in longest.topics.out_of_sync.items() if longest else ():
        for broker, since in late.items():
            by_broker[broker][partition] = since
    return {log_dir: by_broker[broker] for broker, log_dir in log_dirs if broker in by_broker}


def _of_brokers(
    evidence: Sequence[SettingEvidence],
    log_dirs: Iterable[tuple[int | None, str | None]],
    by_broker_in: Callable[[SettingEvidence], Mapping[int, ValueT]],
) -> dict[str | None, ValueT]:
    """Return what the longest copy of the metadata log shows of the broker of each log directory."""
    longest = max((one for one in evidence if by_broker_in(one)), key=lambda one: one.length, default=None)
    by_broker = by_broker_in(longest) if longest else {}
    return {log_dir: by_broker[broker] for broker, log_dir in log_dirs if broker is not None and broker in by_broker}


def _leaderless(
    rules: Rules, clusters: Iterable[Sequence[SettingEvidence]]
) -> dict[tuple[str, int], tuple[Leaderless, ...]]:
    """Return when partitions had no leader, as the longest copies of metadata logs show it.

    Every task gets it, so it has only what counts: times that are longer than clocks may differ. Copies of one cluster
    have the same partitions, and what the metadata log of one shows is true of all.
    """
    leaderless: dict[tuple[str, int], tuple[Leaderless, ...]] = dict(rules.leaderless)
    for metadata in filter(None, map(_longest_metadata, clusters)):
        for partition, losses in metadata.topics.lost_leaders.items():
            times = (Leaderless.of(*loss, metadata.running_ms or NO_TIME) for loss in losses)
            if longer := tuple(time for time in times if time.until - time.since >= rules.clock_skew_ms):
                leaderless[partition] = (*leaderless.get(partition, ()), *longer)
    return leaderless


def _by_broker(
    evidence: Sequence[SettingEvidence],
    log_dirs: Iterable[tuple[int | None, str | None]],
    time_in: Callable[[SettingEvidence], int | None],
) -> dict[str | None, int]:
    """Return the newest time that the broker's own copies of the metadata log show, for each log directory."""
    by_broker: dict[int | None, int] = {}
    for one in evidence:
        broker, time = one.member.broker_id, time_in(one)
        if time is not None and broker is not None:
            by_broker[broker] = max(time, by_broker.get(broker, time))
    return {log_dir: by_broker[broker] for broker, log_dir in log_dirs if broker in by_broker}


def _remote_logs(
    evidence: Sequence[SettingEvidence], log_dirs: Iterable[tuple[int | None, str | None]]
) -> Iterator[RemoteLog]:
    """Yield what the longest copy of each partition of the metadata shows of remote storage."""
    every = frozenset(log_dir for _, log_dir in log_dirs)
    longest: dict[int | None, SettingEvidence] = {}
    for one in evidence:
        number = one.member.partition
        if one.remote_logs and (number not in longest or one.length > longest[number].length):
            longest[number] = one
    for one in longest.values():
        yield from (replace(log, log_dirs=every) for log in one.remote_logs)


def _by_partition(logs: Iterable[RemoteLog]) -> dict[tuple[str | None, int | None], tuple[RemoteLog, ...]]:
    by_partition: dict[tuple[str | None, int | None], tuple[RemoteLog, ...]] = {}
    for log in logs:
        key = log.topic_id, log.partition
        by_partition[key] = (*by_partition.get(key, ()), log)
    return by_partition


def _with(rules: Rules, settings: Sequence[Setting]) -> Rules:
    of_brokers = tuple(setting for setting in settings if not setting.is_of_topics)
    of_topics = tuple(setting for setting in settings if setting.is_of_topics)
    return replace(rules, settings=of_brokers, topic_settings=of_topics)


def _configured(
    evidence: Sequence[SettingEvidence], log_dirs: Iterable[tuple[int | None, str | None]]
) -> Iterator[Setting]:
    """Yield the settings in the longest copy of the metadata log."""
    newest = max((one for one in evidence if one.configured), key=lambda one: one.length, default=None)
    every = frozenset(log_dir for _, log_dir in log_dirs)  # one object, however many settings there are
    for broker, setting in newest.configured if newest else ():
        own = frozenset(log_dir for owner, log_dir in log_dirs if owner == broker)
        if broker is None or own:
            yield replace(setting, log_dirs=every if broker is None else own)


def _defaults(
    evidence: Sequence[SettingEvidence], log_dirs: Iterable[tuple[int | None, str | None]]
) -> Iterator[Setting]:
    """Yield Kafka's defaults for the release of a cluster, of settings whose default has changed."""
    newest = max((one for one in evidence if one.release), key=lambda one: one.length, default=None)
    every = frozenset(log_dir for _, log_dir in log_dirs)
    for name in EARLIER if newest else ():
        yield replace(default_setting(name, newest.release if newest else None), log_dirs=every)


def _proven_timeout(
    evidence: Sequence[SettingEvidence], rules: Rules, log_dirs: Iterable[tuple[int | None, str | None]]
) -> Iterator[Setting]:
    """Yield a longer maximum for transactions than is assumed, if one has a longer timeout."""
    dirs = frozenset(log_dir for _, log_dir in log_dirs)
    longest = max((one.timeout for one in evidence if one.timeout), default=None)
    limits = rules.across(dirs)
    if longest and longest.timeout_ms > limits.max_txn_timeout_ms and limits.is_default(MAX_TIMEOUT):
        source = f"proof: transactional id {longest.transactional_id!r} has this timeout"
        yield Setting(MAX_TIMEOUT, str(longest.timeout_ms), source, log_dirs=dirs)


def _proven_expiry(evidence: Sequence[SettingEvidence], rules: Rules) -> Iterator[Setting]:
    """Yield a shorter expiry for each log directory whose snapshots show one."""
    by_log_dir: dict[str | None, list[SettingEvidence]] = defaultdict(list)
    for one in evidence:
        if one.expiry:
            by_log_dir[one.member.log_dir].append(one)
    for log_dir, of_log_dir in by_log_dir.items():
        limits = rules.at(log_dir)
        shown = [one.expiry for one in of_log_dir if one.expiry]
        stopped_ms = _stopped_ms(evidence, of_log_dir, limits.clock_skew_ms)
        longest = max(one.longest_idle_ms(stopped_ms) for one in shown)
        expired = [expired.taken_by(stopped_ms) for one in shown for expired in one.expired]
        # None can be idle for less than no time: its marker has the time of a broker whose clock is ahead.
        expired = [one for one in expired if one.idle_ms > 0 and _is_credible(one, longest)]
        shortest = min(expired, key=lambda one: (one.idle_ms, one.path), default=None)
        if shortest and shortest.idle_ms < limits.pid_expiry_ms and limits.is_default(PRODUCER_EXPIRY):
            broker = of_log_dir[0].member.broker_id
            yield Setting(
                PRODUCER_EXPIRY,
                str(shortest.idle_ms),
                f"proof: {shortest.path} lacks producer {shortest.producer_id}, idle for "
                f"{format_duration(shortest.idle_ms)}; this is the longest value that allows it",
                None if broker is None else f"broker {broker}",
                frozenset([log_dir]),
                lower_bound=min(shortest.idle_ms, max(longest, shortest.idle_ms) // 2),
            )


def _stopped_ms(
    evidence: Sequence[SettingEvidence], of_log_dir: Sequence[SettingEvidence], clock_skew_ms: int
) -> int | None:
    """Return until when the broker of a log directory may have been running, None if its metadata log does not show it.

    A copy that does not keep the times of files makes snapshots look younger than they are. A broker that lost its
    controllers goes on without them, and then its snapshots have later times than its metadata log.
    """
    member = of_log_dir[0].member
    running = [one.running_ms for one in evidence if one.running_ms is not None and _is_same_broker(one.member, member)]
    newest = max(one.expiry.newest_ms for one in of_log_dir if one.expiry)
    return max(running) + clock_skew_ms if running and newest <= max(running) else None


def _is_same_broker(one: PartitionMembership, other: PartitionMembership) -> bool:
    return one.log_dir == other.log_dir or (one.broker_id == other.broker_id and one.broker_id is not None)


def _is_credible(expired: Expired, longest_idle_ms: int) -> bool:
    """Return whether producers expired rather than that they are missing by mistake.

    A broker looks for expired producers at intervals, so that some are idle for longer. One that has been idle for much
    less than others that are known may be missing for any reason; several of them that wrote last at once may not.
    """
    return expired.count > 1 or 2 * expired.idle_ms > longest_idle_ms
