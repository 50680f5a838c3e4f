"""What a forecast says of a broker and of its partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kforensics.forensics.forecast.effects import ROUTINE, Effect, LoadedLog, LoadRefusedError
from kforensics.forensics.forecast.metadata_loading import LoadedMetadata
from kforensics.forensics.metadata.metadata_versions import Release

__all__ = [
    "ASSIGNED",
    "COPIED",
    "CREATED",
    "FUTURE",
    "OFFLINE",
    "REFUSES",
    "STARTS",
    "WITHOUT_LEADER",
    "BrokerForecast",
    "PartitionForecast",
]

STARTS, REFUSES = "starts", "refuses"
# Fates of partitions beside those in ``metadata_loading``.
CREATED, COPIED, WITHOUT_LEADER, OFFLINE, FUTURE = "created", "copied", "without leader", "offline", "future"
# The effect on one that the broker never had, because it was assigned to it while it was down.
ASSIGNED = "assigned"


@dataclass(slots=True)
class PartitionForecast:
    """What becomes of the folder of a partition.

    Attributes:
        log_dir: its log directory.
        folder: its folder; None for a partition that the broker creates.
        topic: its topic.
        partition: its number.
        fate: ``served``, ``stray``, ``deleted``, ``unserved``, ``created`` or ``offline``.
        loaded: the log after the load; None if it is not loaded.
        effects: what the start does to it.
    """

    log_dir: str
    folder: str | None
    topic: str
    partition: int
    fate: str
    loaded: LoadedLog | None = None
    effects: list[Effect] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Topic and number."""
        return f"{self.topic}-{self.partition}"


@dataclass(slots=True)
class BrokerForecast:
    """What the next start of a broker does.

    Attributes:
        log_dirs: its log directories.
        node_id: its id, None if no log directory shows it.
        release: major and minor number of the release that is started; None if it is unknown.
        outcome: ``starts``, ``refuses`` or ``not known``.
        refusals: what ends the start, the first first; of a broker that starts, what takes a log directory offline.
        effects: what it does to the log directories themselves.
        partitions: what becomes of the partitions.
        metadata: what it reads from its metadata log, None without one.
        has_zookeeper: whether it keeps its metadata in ZooKeeper, as its log directories show.
        is_release_assumed: whether nothing shows the release, so that it is the last one with ZooKeeper.
    """

    log_dirs: list[str]
    node_id: int | None = None
    release: Release | None = None
    outcome: str = STARTS
    refusals: list[LoadRefusedError] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    partitions: list[PartitionForecast] = field(default_factory=list)
    metadata: LoadedMetadata | None = None
    has_zookeeper: bool = False
    is_release_assumed: bool = False

    @property
    def changes(self) -> bool:
        """Whether it does anything that an orderly start of healthy log directories does not."""
        is_routine = all(effect.kind in ROUTINE for _, effect in self.all_effects())
        return self.outcome != STARTS or bool(self.refusals) or not is_routine

    def all_effects(self) -> Iterator[tuple[PartitionForecast | None, Effect]]:
        """Yield the effects with their partitions, those without a word in the log of the broker first."""
        of_broker = [(None, effect) for effect in self.effects]
        every = [*of_broker, *((partition, effect) for partition in self.partitions for effect in partition.effects)]
        yield from sorted(every, key=lambda pair: not pair[1].silent)
