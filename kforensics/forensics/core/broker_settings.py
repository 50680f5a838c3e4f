"""Kafka's settings that checks lean on: their names, defaults and valid values, and where a value comes from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kforensics.errors import UsageError

__all__ = [
    "ABORT_SCAN",
    "BROKER_NAMES",
    "CHECK_INTERVAL",
    "CLEANUP_POLICY",
    "COMPACT",
    "DEFAULT",
    "DELETE_RETENTION",
    "EARLIER",
    "GIVEN",
    "GIVEN_BY_CALLER",
    "GIVEN_BY_FILE",
    "ID_EXPIRY",
    "KNOWN",
    "MAX_TIMEOUT",
    "MIN_ISR",
    "OFFSETS_PARTITIONS",
    "OFFSETS_REPLICAS",
    "OFFSETS_RETENTION",
    "PRODUCER_EXPIRY",
    "RETENTION_BYTES",
    "RETENTION_MS",
    "STATE_MIN_ISR",
    "STATE_PARTITIONS",
    "STATE_REPLICAS",
    "Setting",
    "default_setting",
    "is_of_broker",
    "known_first",
    "setting_of_broker",
    "validated",
]

ABORT_SCAN = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
MAX_TIMEOUT = "transaction.max.timeout.ms"
PRODUCER_EXPIRY = "producer.id.expiration.ms"
ID_EXPIRY = "transactional.id.expiration.ms"
CHECK_INTERVAL = "producer.id.expiration.check.interval.ms"
ID_EXPIRY_CHECK = "transaction.remove.expired.transaction.cleanup.interval.ms"
VERIFICATION = "transaction.partition.verification.enable"
STATE_PARTITIONS = "transaction.state.log.num.partitions"
STATE_REPLICAS, STATE_MIN_ISR = "transaction.state.log.replication.factor", "transaction.state.log.min.isr"
OFFSETS_REPLICAS = "offsets.topic.replication.factor"
MIN_ISR, UNCLEAN_ELECTION = "min.insync.replicas", "unclean.leader.election.enable"
OFFSETS_PARTITIONS = "offsets.topic.num.partitions"
OFFSETS_RETENTION = "offsets.retention.minutes"
CLEANUP_POLICY, COMPACT = "cleanup.policy", "compact"
DELETE_RETENTION = "delete.retention.ms"
RETENTION_MS, RETENTION_BYTES = "retention.ms", "retention.bytes"
# Sources.
GIVEN, GIVEN_BY_CALLER, DEFAULT = "--set", "settings", "Kafka's default"
GIVEN_BY_FILE = "[settings] of "  # and the path of a configuration file
SHORT_MAX, INT_MAX, LONG_MAX = (1 << 15) - 1, (1 << 31) - 1, (1 << 63) - 1
INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
POLICIES = (COMPACT, "delete")
BOOLEANS = ("true", "false")
MINUTE_MS, HOUR_MS = 60_000, 3_600_000


@dataclass(frozen=True, slots=True)
class KnownSetting:
    """A setting.

    Attributes:
        default: Kafka's default, as text.
        meaning: what it means for the verdicts.
        least: the lowest valid number; None for a list of policies or a boolean.
        most: the highest valid number.
        of_topics: whether topics have it.
        is_boolean: whether it is true or false.
    """

    default: str
    meaning: str
    least: int | None = 1
    most: int = INT_MAX
    of_topics: bool = False
    is_boolean: bool = False


NO_VERDICT = "No verdict depends on it."
LATE_TIMESTAMP = f"A broker refuses a record whose timestamp is further from its clock. {NO_VERDICT}"
RETENTION = (
    "Decides which segments are deleted, oldest first. In the copy of a running broker their transaction indexes may "
    "be missing (txnindex-missing-entry)."
)
# Rules: ``TransactionStateManagerConfig``, ``TransactionLogConfig``, ``GroupCoordinatorConfig`` and ``LogConfig``.
KNOWN: Mapping[str, KnownSetting] = {
    MAX_TIMEOUT: KnownSetting(
        "900000",
        "An open transaction that has been idle for this and 5 minutes is late (txn-late, lso-stuck). An id with a "
        "longer timeout is txnlog-timeout-too-large.",
    ),
    PRODUCER_EXPIRY: KnownSetting(
        "86400000",
        "A broker forgets a producer that has been idle for this, unless its transaction is open: it is shown as "
        "expired, may be missing in a snapshot, and its retries become duplicates (producer-expired-by-timestamp).",
    ),
    CHECK_INTERVAL: KnownSetting("600000", f"How often a broker looks for expired producers. {NO_VERDICT}"),
    ID_EXPIRY: KnownSetting(
        "604800000",
        "A coordinator forgets a transactional id without a transaction that has not changed for this, and writes a "
        f"tombstone. {NO_VERDICT}",
    ),
    ABORT_SCAN: KnownSetting(
        "10000",
        "A coordinator aborts a transaction after its timeout and at most this: beyond that it is "
        "txnlog-ongoing-overdue or txn-duration-excessive.",
    ),
    ID_EXPIRY_CHECK: KnownSetting(
        "3600000",
        f"How often a coordinator looks for expired transactional ids, so how late a tombstone may be. {NO_VERDICT}",
    ),
    VERIFICATION: KnownSetting(
        "true",
        "With false, and before 3.6, a leader accepts a batch that arrives after its transaction ended, unless its "
        f"epoch is too low. The batch begins a transaction that no coordinator ends (txn-hanging). {NO_VERDICT}",
        None,
        is_boolean=True,
    ),
    STATE_REPLICAS: KnownSetting(
        "3",
        "With 1 replica of __transaction_state, a broker that is lost takes the transactions that it coordinates with "
        "it: those that were open stay open (txn-hanging-unknown-id). It counts when the topic is created. "
        f"{NO_VERDICT}",
        1,
        SHORT_MAX,
    ),
    STATE_MIN_ISR: KnownSetting(
        "2",
        "A coordinator refuses a step of a transaction if fewer replicas of __transaction_state are in sync. With 1, a "
        "step that it has confirmed can be lost with one broker. It counts when the topic is created, which then has "
        f"its own min.insync.replicas. {NO_VERDICT}",
    ),
    STATE_PARTITIONS: KnownSetting(
        "50",
        "The hash of a transactional id modulo this is its partition of __transaction_state (txnlog-wrong-partition).",
    ),
    OFFSETS_PARTITIONS: KnownSetting(
        "50", "The hash of a group modulo this is its partition of __consumer_offsets (group-wrong-partition)."
    ),
    OFFSETS_RETENTION: KnownSetting(
        "10080",
        "A committed offset expires this long after its group has become empty (group-offset-reset).",
    ),
    OFFSETS_REPLICAS: KnownSetting(
        "3",
        "With 1 replica of __consumer_offsets, a broker that is lost takes the offsets of its groups with it, which "
        f"then start as auto.offset.reset says. It counts when the topic is created. {NO_VERDICT}",
        1,
        SHORT_MAX,
    ),
    "default.replication.factor": KnownSetting(
        "1",
        "Replicas of a topic that is created without a number of its own. With 1 there is no other copy of what a log "
        f"lost. {NO_VERDICT}",
        1,
        SHORT_MAX,
    ),
    MIN_ISR: KnownSetting(
        "1",
        "A broker confirms a batch with acks=all when all replicas in sync have it, and refuses it if these are fewer. "
        "With 1, that may be the leader alone: what it confirmed is lost with it, and no client has seen an error "
        f"(replica-divergence, replica-truncated). {NO_VERDICT}",
        of_topics=True,
    ),
    UNCLEAN_ELECTION: KnownSetting(
        "false",
        "With true, a replica that was not in sync may become leader, and the others then drop what it lacks, "
        "committed or not (replica-truncated, replica-divergence). With false, only an operator can elect it. "
        f"{NO_VERDICT}",
        None,
        of_topics=True,
        is_boolean=True,
    ),
    "max.message.bytes": KnownSetting("1048588", f"A broker refuses a larger batch. {NO_VERDICT}", 0, of_topics=True),
    "message.timestamp.before.max.ms": KnownSetting(str(LONG_MAX), LATE_TIMESTAMP, 0, LONG_MAX, of_topics=True),
    "message.timestamp.after.max.ms": KnownSetting(str(HOUR_MS), LATE_TIMESTAMP, 0, LONG_MAX, of_topics=True),
    "message.timestamp.difference.max.ms": KnownSetting(str(LONG_MAX), LATE_TIMESTAMP, 0, LONG_MAX, of_topics=True),
    RETENTION_MS: KnownSetting("604800000", RETENTION, -1, LONG_MAX, of_topics=True),
    RETENTION_BYTES: KnownSetting("-1", RETENTION, -1, LONG_MAX, of_topics=True),
    DELETE_RETENTION: KnownSetting(
        "86400000",
        "The log cleaner keeps a tombstone for this long. A replica that was away for longer keeps the record that it "
        "deleted (replica-key-divergence).",
        0,
        LONG_MAX,
        of_topics=True,
    ),
    CLEANUP_POLICY: KnownSetting(
        "delete",
        "With compact, the log cleaner explains gaps between offsets, and records without a key are a finding "
        "(keyless-in-compacted).",
        None,
        of_topics=True,
    ),
}
# A broker's names for the defaults of its topics, with the factor of the unit; of several the first one counts.
BROKER_NAMES: Mapping[str, tuple[str, int]] = {
    "message.max.bytes": ("max.message.bytes", 1),
    "log.message.timestamp.before.max.ms": ("message.timestamp.before.max.ms", 1),
    "log.message.timestamp.after.max.ms": ("message.timestamp.after.max.ms", 1),
    "log.message.timestamp.difference.max.ms": ("message.timestamp.difference.max.ms", 1),
    "log.retention.ms": (RETENTION_MS, 1),
    "log.retention.minutes": (RETENTION_MS, MINUTE_MS),
    "log.retention.hours": (RETENTION_MS, HOUR_MS),
    "log.retention.bytes": (RETENTION_BYTES, 1),
    "log.cleanup.policy": (CLEANUP_POLICY, 1),
    "log.cleaner.delete.retention.ms": (DELETE_RETENTION, 1),
    # Topics and brokers have the same name for these two.
    MIN_ISR: (MIN_ISR, 1),
    UNCLEAN_ELECTION: (UNCLEAN_ELECTION, 1),
}


class EarlierDefault(NamedTuple):
    """A default of earlier releases.

    Attributes:
        until: the release that has another one, as major and minor number.
        value: the default before, as text.
    """

    until: tuple[int, int]
    value: str


# Rules: ``KafkaConfig`` and ``TransactionStateManager`` of the releases. Before KIP-854 producers expired after
# ``transactional.id.expiration.ms``. KIP-106 made elections clean in 0.11; before KIP-890 nothing was verified.
EARLIER: Mapping[str, EarlierDefault] = {
    PRODUCER_EXPIRY: EarlierDefault((3, 4), "604800000"),
    ABORT_SCAN: EarlierDefault((2, 5), "60000"),
    "offsets.retention.minutes": EarlierDefault((2, 0), "1440"),
    "max.message.bytes": EarlierDefault((2, 5), "1000012"),
    "message.timestamp.after.max.ms": EarlierDefault((4, 0), str(LONG_MAX)),
    UNCLEAN_ELECTION: EarlierDefault((0, 11), "true"),
    VERIFICATION: EarlierDefault((3, 6), "false"),
}


@dataclass(frozen=True, slots=True)
class Setting:
    """A value of a setting, and where it comes from.

    Attributes:
        name: the setting, by the name that topics use if they have it.
        value: its value.
        source: where the value comes from, as a phrase.
        entity: the broker or topic that has it, such as ``broker 1`` or ``topic orders``; None if it is for all.
        log_dirs: the log directories that it is for; None if it is for all.
        lower_bound: for a value that is proven by files alone, the lowest value that agrees with them.
        is_static: whether it is in a broker's ``server.properties``, below what was set dynamically. Rules:
            ``DynamicBrokerConfig`` and ``LogConfig.fromProps``.
    """

    name: str
    value: str
    source: str
    entity: str | None = None
    log_dirs: frozenset[str | None] | None = None
    lower_bound: int | None = None
    is_static: bool = False

    def is_for(self, log_dir: str | None) -> bool:
        """Return whether the setting is for a log directory."""
        return self.log_dirs is None or log_dir in self.log_dirs

    @property
    def is_default(self) -> bool:
        """Whether it is Kafka's default."""
        return self.source.startswith(DEFAULT)

    @property
    def is_of_topics(self) -> bool:
        """Whether topics have it, so that no limit of a broker follows from it."""
        return KNOWN[self.name].of_topics

    @property
    def is_of_one_topic(self) -> bool:
        """Whether it is the setting of one topic."""
        return (self.entity or "").startswith("topic ")

    @property
    def meaning(self) -> str:
        """What it means for the verdicts."""
        return KNOWN[self.name].meaning

    @property
    def number(self) -> int:
        """The value as a number."""
        return int(self.value)


def default_setting(name: str, release: tuple[int, int] | None = None) -> Setting:
    """Return Kafka's default for a setting.

    Args:
        name: the setting.
        release: major and minor number of the release; None if it is unknown, then it is the default of newer ones.
    """
    earlier = EARLIER.get(name)
    if earlier is None:
        return Setting(name, KNOWN[name].default, DEFAULT)
    changed = ".".join(map(str, earlier.until))
    if release is not None and release < earlier.until:
        return Setting(name, earlier.value, f"{DEFAULT} before {changed}")
    unknown = f"; the release is unknown, before it was {earlier.value}" if release is None else ""
    return Setting(name, KNOWN[name].default, f"{DEFAULT} since {changed}{unknown}")


def validated(name: str, value: str, source: str, what: str) -> Setting:
    """Return a setting that a user gives.

    Args:
        name: its name, of a broker or of a topic.
        value: its value.
        source: where it comes from.
        what: how the user gave it, to begin the message of an error.

    Raises:
        UsageError: there is no such setting, or Kafka would not accept the value.
    """
    topic_name, factor = BROKER_NAMES.get(name, (name, 1))
    known = KNOWN.get(topic_name)
    if known is None:
        raise UsageError(f"{what}: {_unknown(name)}")
    if known.is_boolean:
        boolean = value.strip().lower()
        if boolean not in BOOLEANS:
            raise UsageError(f"{what}: {value!r} is not one of {', '.join(BOOLEANS)}")
        return Setting(topic_name, boolean, source)
    if known.least is None:
        policies = [policy.strip() for policy in value.split(",")]
        if not set(policies) <= {*POLICIES, ""}:
            raise UsageError(f"{what}: {value!r} is not a list of {', '.join(POLICIES)}")
        return Setting(topic_name, ",".join(filter(None, policies)), source)
    text = value.strip()
    number = int(text) if INTEGER.fullmatch(text) else None
    if number is None or not known.least <= number <= known.most:
        raise UsageError(f"{what}: {value!r} is not {_numbers(known)}, written as Kafka does, without a unit")
    return Setting(topic_name, str(number * factor if number >= 0 else number), source)


def _unknown(name: str) -> str:
    import difflib  # only for an error

    near = difflib.get_close_matches(name, [*KNOWN, *BROKER_NAMES], 1)
    hint = f"did you mean {near[0]}?" if near else f"the settings that count are {', '.join(KNOWN)}"
    return f"no setting {name!r} is used here; {hint}"


def _numbers(known: KnownSetting) -> str:
    return f"an integer from {known.least} to {known.most}"


def setting_of_broker(name: str, value: str, source: str) -> Setting | None:
    """Return a setting among those of a broker, None if no check uses it or the value is not one that Kafka accepts."""
    if name not in KNOWN and name not in BROKER_NAMES:
        return None
    try:
        return validated(name, value, source, source)
    except UsageError:
        return None


def is_of_broker(name: str) -> bool:
    """Return whether a broker has a setting of this name that checks use."""
    return name in BROKER_NAMES or (name in KNOWN and not KNOWN[name].of_topics)


def known_first(settings: Iterable[Setting]) -> list[Setting]:
    """Return settings in the order in which the table of settings lists their names."""
    order = {name: number for number, name in enumerate(KNOWN)}
    return sorted(settings, key=lambda setting: order[setting.name])
