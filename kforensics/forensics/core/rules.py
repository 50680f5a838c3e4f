"""Limits that checks use, Kafka's defaults where Kafka has one, and the time of evaluation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kforensics.forensics.core.broker_settings import (
    ABORT_SCAN,
    CLEANUP_POLICY,
    COMPACT,
    DEFAULT,
    DELETE_RETENTION,
    EARLIER,
    GIVEN,
    GIVEN_BY_CALLER,
    GIVEN_BY_FILE,
    MAX_TIMEOUT,
    PRODUCER_EXPIRY,
    Setting,
    default_setting,
)

if TYPE_CHECKING:
    from kforensics.forensics.core.election import DatedEpochs, Leaderless
    from kforensics.forensics.core.past_cleanings import OtherCleaner, PastPolicy
    from kforensics.forensics.metadata.remote_log import RemoteLog

__all__ = ["COPY_MS", "FIRST_KAFKA_MS", "Rules"]

DAY_MS = 86_400_000
# Copying a log directory is assumed to take no longer than this.
COPY_MS = 3_600_000
# 2011, when Kafka was published: a file that is older has lost its time.
FIRST_KAFKA_MS = 1_293_840_000_000
# The limits that are settings of a broker.
LIMITS = {
    MAX_TIMEOUT: "max_txn_timeout_ms",
    PRODUCER_EXPIRY: "pid_expiry_ms",
    ABORT_SCAN: "abort_scan_ms",
}


@dataclass(frozen=True, slots=True)
class Rules:
    """Limits and the time of evaluation; all times in ms.

    Attributes:
        as_of_ms: time of evaluation, when the files were copied: given by the user, or the newest modification time;
            never the current time.
        is_assumed: whether it is the newest modification time. Then an older copy of a running broker is evaluated as
            of its own time wherever later events could matter.
        max_txn_timeout_ms: ``transaction.max.timeout.ms``.
        late_buffer_ms: how much longer a broker waits before it considers a transaction late.
        pid_expiry_ms: ``producer.id.expiration.ms``.
        abort_scan_ms: ``transaction.abort.timed.out.transaction.cleanup.interval.ms``.
        clock_skew_ms: maximum difference between the clocks of brokers.
        copied_ms: when the files of the partition were copied at the earliest, by their modification times; None if
            they say nothing.
        ancient_ms: maximum age of a batch relative to its neighbors.
        many_open_transactions: number of simultaneously open transactions that is reported.
        many_segments: number of segments spanned by one transaction that is reported.
        near_exhaustion: producer epoch from which exhaustion is reported.
        aborted_share: share of aborted transactions that is reported.
        aborted_least: minimum number of transactions for that share.
        new_producers_per_hour: number of new producers in a partition per hour that is reported.
        settings: known settings of brokers, those that count first; the limits above have their values in :meth:`at`.
        topic_settings: known settings of topics; no limit follows from them.
        least_pid_expiry_ms: the shortest ``producer.id.expiration.ms`` that agrees with the files, if they alone prove
            ``pid_expiry_ms``; None otherwise.
        shown_pid_expiry_ms: the shortest one that agrees with the files of any log directory that prove one; brokers
            of a cluster usually have the same.
        remote_logs: what is known of remote storage, by topic id and partition; several for copies of a cluster.
        deleted_topics: when topics were deleted, in ms by topic id, as far as metadata logs show it.
        unreplicated_topics: ids of the topics whose partitions have never had a follower, as far as they show it.
        out_of_sync: since when replicas have been out of sync, in ms, by log directory, then by topic id and partition,
            as far as metadata logs show it; NO_TIME for those that were never seen in sync.
        running_until: until when the broker of each log directory was running, in ms, by its own copy of the metadata
            log, which has a record of every half second.
        gone_from: when the broker of each log directory had missed a record of the metadata log, in ms: from then on it
            was stopped, or without its controllers, if it was not copied then.
        predated: log directories whose files have times from before what their broker wrote, as far as the logs of the
            metadata and of ``__transaction_state`` show it.
        releases: major and minor number of the release with which the broker of each log directory registered last.
        started: when the broker of each log directory registered last, as it does when it starts, in ms.
        leaderless: when partitions had no leader, by topic id and partition, as far as metadata logs show it, if that
            was for longer than clocks may differ.
        dated_epochs: when leader epochs began, by log directory, then by topic id and partition, as far as metadata
            logs show it of partitions whose leader may have lacked records.
        cluster_times: the newest modification time in the cluster of a log directory, in ms, for log directories whose
            cluster was copied long before the newest one: they are evaluated as of that time.
        past_compaction: the last cleanup policy with compaction that a topic had before the current one, by topic id,
            as far as metadata logs show it.
        other_cleaners: how far the cleaners of other brokers have compacted their replicas of a partition, by log
            directory, topic and partition number, of partitions that the cleaner of their own broker has not.
        newest_ms: the time of evaluation of all, in the rules of one such log directory; None in others.
    """

    as_of_ms: int
    max_txn_timeout_ms: int = 900_000
    late_buffer_ms: int = 300_000
    pid_expiry_ms: int = DAY_MS
    abort_scan_ms: int = 10_000
    clock_skew_ms: int = 5_000
    copied_ms: int | None = None
    ancient_ms: int = 30 * DAY_MS
    many_open_transactions: int = 1_000
    many_segments: int = 10
    near_exhaustion: int = 32_000
    aborted_share: float = 0.2
    aborted_least: int = 100
    new_producers_per_hour: int = 1_000
    is_assumed: bool = False
    settings: tuple[Setting, ...] = ()
    topic_settings: tuple[Setting, ...] = ()
    least_pid_expiry_ms: int | None = None
    shown_pid_expiry_ms: int | None = None
    remote_logs: Mapping[tuple[str | None, int | None], tuple[RemoteLog, ...]] = field(default_factory=dict, hash=False)
    deleted_topics: Mapping[str, int] = field(default_factory=dict, hash=False)
    unreplicated_topics: tuple[str, ...] = ()
    out_of_sync: Mapping[str | None, Mapping[tuple[str, int], int]] = field(default_factory=dict, hash=False)
    running_until: Mapping[str | None, int] = field(default_factory=dict, hash=False)
    gone_from: Mapping[str | None, int] = field(default_factory=dict, hash=False)
    predated: frozenset[str | None] = frozenset()
    releases: Mapping[str | None, tuple[int, int]] = field(default_factory=dict, hash=False)
    started: Mapping[str | None, int] = field(default_factory=dict, hash=False)
    leaderless: Mapping[tuple[str, int], tuple[Leaderless, ...]] = field(default_factory=dict, hash=False)
    dated_epochs: Mapping[str | None, Mapping[tuple[str, int], DatedEpochs]] = field(default_factory=dict, hash=False)
    cluster_times: Mapping[str | None, int] = field(default_factory=dict, hash=False)
    past_compaction: Mapping[str, PastPolicy] = field(default_factory=dict, hash=False)
    other_cleaners: Mapping[tuple[str | None, str | None, int | None], OtherCleaner] = field(
        default_factory=dict, hash=False
    )
    newest_ms: int | None = None

    def at(self, log_dir: str | None, topic: str | None = None) -> Rules:
        """Return the limits in a log directory, by the settings that are for it, and its time of evaluation.

        Args:
            log_dir: the log directory.
            topic: the topic whose settings are kept; None for none.
        """
        if log_dir in self.cluster_times:
            earlier = replace(self, as_of_ms=self.cluster_times[log_dir], newest_ms=self.as_of_ms, cluster_times={})
            return earlier.at(log_dir, topic)
        own = tuple(one for one in self.topic_settings if topic is not None and one.is_for(log_dir))
        of_topic = tuple(one for one in own if not one.is_of_one_topic or one.entity == f"topic {topic}")
        if not self.settings:
            return replace(self, topic_settings=of_topic) if self.topic_settings else self
        limits: dict[str, Any] = {
            field: setting.number for name, field in LIMITS.items() if (setting := self._setting(name, log_dir))
        }
        expiry = self._setting(PRODUCER_EXPIRY, log_dir)
        settings = tuple(setting for setting in self.settings if setting.is_for(log_dir))
        least = expiry.lower_bound if expiry else None
        bounds = (one.lower_bound for one in self.settings if one.name == PRODUCER_EXPIRY)
        shown = min((bound for bound in bounds if bound is not None), default=self.shown_pid_expiry_ms)
        limits |= {"least_pid_expiry_ms": least, "shown_pid_expiry_ms": shown}
        return replace(self, **limits, settings=settings, topic_settings=of_topic)

    def across(self, log_dirs: Iterable[str | None]) -> Rules:
        """Return the limits in several log directories: those of the one with the longest transactions."""
        return max(map(self.at, log_dirs), key=lambda rules: rules.max_txn_timeout_ms, default=self)

    @property
    def latest_ms(self) -> int:
        """The time of evaluation of all, also in the rules of a log directory that has its own."""
        return self.as_of_ms if self.newest_ms is None else self.newest_ms

    def evaluated_at(self, time_ms: int) -> dict[str, object]:
        """Return until when something was evaluated, for the evidence of a finding; nothing if that is as for all."""
        return {} if time_ms == self.latest_ms else {"evaluated_ms": time_ms}

    def tolerating(self, clock_skew_ms: int) -> Rules:
        """Return the limits for brokers whose clocks differ by up to so much."""
        return self if clock_skew_ms == self.clock_skew_ms else replace(self, clock_skew_ms=clock_skew_ms)

    def out_of_sync_since(self, log_dir: str | None, topic_id: str | None, partition: int | None) -> int | None:
        """Return since when a replica is out of sync, in ms; NO_TIME if it never was in sync, None if it is or may be.

        Args:
            log_dir: the log directory of the replica.
            topic_id: the id of its topic.
            partition: its partition number.
        """
        return self.out_of_sync.get(log_dir, {}).get(_key(topic_id, partition))

    def leaderless_times(self, topic_id: str | None, partition: int | None) -> tuple[Leaderless, ...]:
        """Return when a partition had no leader, as far as the metadata of its cluster shows it."""
        return self.leaderless.get(_key(topic_id, partition), ())

    def epochs_of(self, log_dir: str | None, topic_id: str | None, partition: int | None) -> DatedEpochs | None:
        """Return when the leader epochs of a partition began, as the metadata of its cluster shows it.

        Args:
            log_dir: the log directory of the replica.
            topic_id: the id of its topic.
            partition: its partition number.
        """
        return self.dated_epochs.get(log_dir, {}).get(_key(topic_id, partition))

    def remote_log(self, topic_id: str | None, partition: int | None, log_dir: str | None) -> RemoteLog | None:
        """Return what is known of a partition in remote storage, None if nothing is."""
        logs = self.remote_logs.get((topic_id, partition), ())
        return next((log for log in logs if log.log_dirs is None or log_dir in log.log_dirs), None)

    def other_cleaner(self, log_dir: str | None, topic: str | None, partition: int | None) -> OtherCleaner | None:
        """Return how far another broker's cleaner has compacted a partition that its own has not; None if none has.

        Args:
            log_dir: the log directory of the replica.
            topic: its topic.
            partition: its partition number.
        """
        return self.other_cleaners.get((log_dir, topic, partition))

    def source(self, name: str) -> str:
        """Return where the value of a setting comes from, as a phrase; only of the rules of one log directory."""
        setting = self._setting(name, None, any_log_dir=True)
        return (setting or default_setting(name)).source

    def given(self, name: str) -> int | None:
        """Return the value that the user gives a setting by its name, None if the user does not."""
        by_name = (one for one in self.settings if one.name == name)
        names = (GIVEN, GIVEN_BY_CALLER)
        by_user = (one.number for one in by_name if one.source in names or one.source.startswith(GIVEN_BY_FILE))
        return next(by_user, None)

    def is_default(self, name: str) -> bool:
        """Return whether the value of a setting is Kafka's default; only of the rules of one log directory."""
        return self.source(name).startswith(DEFAULT)

    @property
    def compaction(self) -> Setting | None:
        """The cleanup policy if it is known to include compaction; only of the rules of one topic."""
        policy = self.of_topic(CLEANUP_POLICY)
        return policy if not policy.is_default and COMPACT in policy.value.split(",") else None

    @property
    def is_not_compacted(self) -> bool:
        """Whether the cleanup policy is known, and does not include compaction; only of the rules of one topic."""
        return not self.of_topic(CLEANUP_POLICY).is_default and self.compaction is None

    @property
    def delete_retention(self) -> Setting:
        """How long a cleaner keeps tombstones; only of the rules of one topic."""
        return self.of_topic(DELETE_RETENTION)

    def of_topic(self, name: str) -> Setting:
        """Return the value of a setting of topics, Kafka's default if it is unknown; only of the rules of one topic."""
        return next((one for one in self.topic_settings if one.name == name), default_setting(name))

    def evidence(self, name: str) -> dict[str, object]:
        """Return the name, value and source of a setting, for the evidence of a finding that leans on it."""
        setting = self._setting(name, None, any_log_dir=True) or default_setting(name)
        value = getattr(self, LIMITS[name]) if name in LIMITS else setting.number
        return {"setting": name, "setting_value": value, "setting_source": setting.source}

    def source_of(self, name: str) -> str:
        """Return where the value of a setting comes from."""
        return (self._setting(name, None, any_log_dir=True) or default_setting(name)).source

    def _setting(self, name: str, log_dir: str | None, *, any_log_dir: bool = False) -> Setting | None:
        fitting = (setting for setting in self.settings if setting.name == name)
        return next((setting for setting in fitting if any_log_dir or setting.is_for(log_dir)), None)

    @property
    def possible_pid_expiry_ms(self) -> int:
        """The shortest time after which a broker may have forgotten an idle producer."""
        return self.pid_expiry_ms if self.least_pid_expiry_ms is None else self.least_pid_expiry_ms

    @property
    def certain_pid_expiry_ms(self) -> int:
        """The time after which a broker of any release has forgotten an idle producer."""
        is_known = self._setting(PRODUCER_EXPIRY, None, any_log_dir=True) is not None
        return self.pid_expiry_ms if is_known else max(self.pid_expiry_ms, int(EARLIER[PRODUCER_EXPIRY].value))

    @property
    def certain_abort_scan_ms(self) -> int:
        """The time within which a coordinator of any release aborts a transaction after its timeout."""
        is_known = self._setting(ABORT_SCAN, None, any_log_dir=True) is not None
        return self.abort_scan_ms if is_known else max(self.abort_scan_ms, int(EARLIER[ABORT_SCAN].value))

    @property
    def late_ms(self) -> int:
        """Time without a batch after which Kafka considers an open transaction late."""
        return self.max_txn_timeout_ms + self.late_buffer_ms


def _key(topic_id: str | None, partition: int | None) -> tuple[str, int]:
    return topic_id or "", -1 if partition is None else partition
