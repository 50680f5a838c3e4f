"""What a seed decides before a broker starts: settings of brokers, topics, and how producers behave."""

import re
from dataclasses import dataclass, replace
from random import Random

from lab.scenarios.remote_storage import CONFIG as TIERED
from lab.scenarios.replication import CONFIG as REPLICATED
from lab.scenarios.steps import small_segments

EARLY = re.compile(r"(0|1|2\.0)\.")
_WITHOUT_KRAFT = re.compile(r"[0-2]\.")
_SEGMENT_BYTES = ("log.segment.bytes", "offsets.topic.segment.bytes", "transaction.state.log.segment.bytes")
# Topics with small segments that are not compacted.
_TIERED = ("small", "short", "unclean", "recreated", "settings")
_CODECS = ("none", "none", "gzip", "lz4", "snappy")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of the cluster.

    Attributes:
        name: its name.
        partitions: how many it begins with.
        replicas: brokers of each partition.
        configs: its settings.
    """

    name: str
    partitions: int
    replicas: int
    configs: dict[str, str]


@dataclass(frozen=True, slots=True)
class Plan:
    """One cluster.

    Attributes:
        kafka: release of the brokers.
        brokers: one or three.
        seed: decides settings and choices; the timing differs from run to run.
        seconds: how long the load lasts.
        config: settings of the brokers.
        topics: the topics.
        transaction_version: ``transaction.version`` to format with, from 4.0 on.
        upgrade: release to which the first rolling restart takes the brokers, or None.
        log_dirs: names of the log directories of each broker; the empty name is its only one.
        controllers: number of controllers that are processes of their own; without any, the brokers are controllers.
        skew_ms: by how much the clock of each broker is ahead of that of the broker before it; the second one is right.
        rolls_back: whether the second rolling restart brings the first release back.
        migrates: whether the brokers begin with ZooKeeper although their release has KRaft, and migrate to it.
        tiered: whether some topics have segments in remote storage.
        dynamic: whether the voters of the quorum stand in its log, and can leave and return.
        faults: names of the faults that may happen; all if there are none.
    """

    kafka: str
    brokers: int
    seed: int
    seconds: int
    config: dict[str, str]
    topics: list[Topic]
    transaction_version: int | None
    upgrade: str | None = None
    log_dirs: tuple[str, ...] = ("",)
    controllers: int = 0
    skew_ms: int = 0
    rolls_back: bool = False
    migrates: bool = False
    tiered: bool = False
    dynamic: bool = False
    faults: tuple[str, ...] = ()

    def clock_error_ms(self, node_id: int) -> int:
        """By how much the clock of a node is ahead."""
        return (node_id - 2) * self.skew_ms if node_id <= self.brokers else 0

    @property
    def early(self) -> bool:
        """Whether clients of 4.x do not speak to these brokers."""
        return EARLY.match(self.kafka) is not None

    @property
    def kraft(self) -> bool:
        """Whether the brokers begin without ZooKeeper."""
        return not self.migrates and _WITHOUT_KRAFT.match(self.kafka) is None

    @property
    def has_metadata_disk(self) -> bool:
        """Whether the metadata log has a disk of its own, which has no other partitions."""
        return self.kraft and len(self.log_dirs) > 1 and Random(self.seed).random() < 0.5

    @property
    def has_consumer_protocol(self) -> bool:
        """Whether groups may use the consumer protocol of KIP-848 without further settings."""
        return re.match(r"[4-9]\.", self.kafka) is not None

    @property
    def has_share_groups(self) -> bool:
        """Whether share groups (KIP-932) need no further settings."""
        return re.match(r"(4\.[2-9]|[5-9])\.", self.kafka) is not None

    @property
    def replicas(self) -> int:
        """Brokers of a partition."""
        return min(self.brokers, 3)

    def codec(self, chance: Random) -> str:
        """A codec that the release knows."""
        return chance.choice(_CODECS if self.early else (*_CODECS, "zstd"))


def make_plan(kafka: str, brokers: int, seed: int, seconds: int, upgrade: str | None = None) -> Plan:
    """The cluster that belongs to a seed."""
    chance = Random(seed)
    version = chance.choice((0, 1, 2)) if re.match(r"[4-9]\.", kafka) else None
    config = _config(kafka, brokers, chance)
    # Of small segments only what the later release accepts too.
    topics = _topics(upgrade or kafka, brokers, chance)
    plan = Plan(kafka, brokers, seed, seconds, config, topics, version, upgrade)
    # Before 3.7, KRaft brokers had one log directory.
    has_disks = plan.kraft and re.match(r"3\.[0-6]\.", kafka) is None and chance.random() < 0.4
    return with_disks(plan, 2) if has_disks else plan


def with_disks(plan: Plan, count: int) -> Plan:
    """The same cluster with so many log directories per broker."""
    if count == 1:
        return replace(plan, log_dirs=("",))
    # So slow that replicas are on their way for seconds, or not slowed down.
    throttle = Random(plan.seed).choice(({}, {"replica.alter.log.dirs.io.max.bytes.per.second": "10000"}))
    log_dirs = tuple(f"disk-{number}" for number in range(1, count + 1))
    return replace(plan, log_dirs=log_dirs, config={**plan.config, **throttle})


def with_remote_storage(plan: Plan) -> Plan:
    """The same cluster with tiered storage, which only topics that are not compacted can have."""
    remote = {"remote.storage.enable": "true", "local.retention.bytes": "6000"}
    topics = [
        replace(topic, configs={**topic.configs, **remote}) if topic.name in _TIERED else topic for topic in plan.topics
    ]
    partitions = {"rlmm.config.remote.log.metadata.topic.num.partitions": "2"}
    replicas = {"rlmm.config.remote.log.metadata.topic.replication.factor": str(plan.replicas)}
    return replace(plan, tiered=True, topics=topics, config={**TIERED, **plan.config, **partitions, **replicas})


def _config(kafka: str, brokers: int, chance: Random) -> dict[str, str]:
    config = {
        **(REPLICATED if brokers > 1 else {}),
        "log.retention.check.interval.ms": "1500",
        "log.cleaner.backoff.ms": chance.choice(("300", "15000")),
        "log.segment.delete.delay.ms": chance.choice(("500", "60000")),
        "offsets.topic.num.partitions": chance.choice(("1", "3", "50")),
        "transaction.state.log.num.partitions": chance.choice(("1", "3", "50")),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1500",
        "leader.imbalance.check.interval.seconds": "10",
        "auto.leader.rebalance.enable": chance.choice(("true", "false")),
    }
    odd = {
        "transaction.max.timeout.ms": chance.choice(("20000", "3600000")),
        "producer.id.expiration.ms": "6000",
        "producer.id.expiration.check.interval.ms": "1000",
        "transactional.id.expiration.ms": "10000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "2000",
        "offsets.retention.minutes": "1",
        "log.flush.interval.messages": "1",
        "log.preallocate": "true",
        "replication.quota.window.num": "5",
        "offsets.topic.compression.codec": chance.choice(("1", "2", "3")),
        "log.roll.ms": "5000",
        "log.index.interval.bytes": chance.choice(("1", "100", "1000000")),
        "log.index.size.max.bytes": "120",
        "replica.high.watermark.checkpoint.interval.ms": "600000",
        "log.flush.offset.checkpoint.interval.ms": "600000",
        "log.flush.start.offset.checkpoint.interval.ms": "600000",
        "controlled.shutdown.enable": "false",
        "log.cleaner.enable": "false",
    }
    config.update((name, odd[name]) for name in odd if chance.random() < 0.3)
    if brokers > 1 and chance.random() < 0.3:
        # One or two replicas of coordinators' logs: what a broker loses is lost, or lost by an unclean election.
        replicas = chance.choice(("1", "2"))
        names = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")
        config.update(dict.fromkeys(names, replicas))
    if "log.preallocate" in config:
        # Otherwise each copy has a gigabyte of zeros per partition.
        config.update(dict.fromkeys(_SEGMENT_BYTES, "1048576"))
    if re.match(r"(3\.[6-9]|4)\.", kafka) and chance.random() < 0.5:
        config["transaction.partition.verification.enable"] = "false"
    if re.match(r"(1\.1|2\.)", kafka) and chance.random() < 0.5:
        # As between the two rolling restarts of an upgrade.
        config.update(dict.fromkeys(("inter.broker.protocol.version", "log.message.format.version"), "1.0"))
    return config


def _topics(kafka: str, brokers: int, chance: Random) -> list[Topic]:
    small = small_segments(kafka, chance.choice((2500, 6000, 20000)))
    compact = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "2000"}
    short = {"retention.ms": "9000", "retention.bytes": "30000"}
    unclean = {"unclean.leader.election.enable": "true"}
    append_time = {"message.timestamp.type": "LogAppendTime"}
    kinds = [
        ("plain", 3, {}),
        ("small", 2, small),
        ("short", 2, {**small, **short}),
        ("compact", 2, {**small, **compact}),
        ("both", 1, {**small, **compact, **short, "cleanup.policy": "compact,delete"}),
        ("appended", 1, {**append_time, **chance.choice(({}, small))}),
        ("unclean", 2, {**unclean, **small}),
        ("recreated", 2, small),
        ("growing", 1, {}),
        ("settings", 1, small),
        (
            "compressed",
            1,
            {
                "compression.type": chance.choice(("gzip", "lz4", "uncompressed")),
                "max.compaction.lag.ms": "3000",
                **compact,
            },
        ),
    ]
    return [Topic(name, count, min(brokers, 2 if name == "unclean" else 3), configs) for name, count, configs in kinds]
