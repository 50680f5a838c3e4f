"""What the next start of a broker does to its log directories, and what becomes of each partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kforensics.forensics.forecast.effects import RUNTIME, Effect, LoadedLog, LoadRefusedError
from kforensics.forensics.forecast.identity import identity_fault, is_reserved, registration_fault
from kforensics.forensics.forecast.index_limits import NO_LIMITS
from kforensics.forensics.forecast.log_directory import (
    METADATA_FOLDER,
    LogDirectory,
    PartitionFolder,
    clash_of,
    read_log_directory,
)
from kforensics.forensics.forecast.log_loading import load_log
from kforensics.forensics.forecast.metadata_loading import (
    GONE,
    SERVED,
    STRAY,
    UNSERVED,
    LoadedMetadata,
    fate_of,
    load_metadata,
    why_stray,
)
from kforensics.forensics.forecast.release_limits import (
    refused_setting,
    release_numbers,
    rules_of,
    unreadable_metadata,
)
from kforensics.forensics.metadata.metadata_versions import Release, registered_release
from kforensics.forensics.metadata.topic_image import PartitionRegistration
from kforensics.forensics.partition.partition_files import LOG_START, RECOVERY_POINT

__all__ = ["BrokerForecast", "PartitionForecast", "forecast_start"]

STARTS, REFUSES, NOT_KNOWN = "starts", "refuses", "not known"
CREATED, CREATED_AGAIN, TOPIC_DELETED = "created", "created-again", "topic-deleted"
WITHOUT_LEADER, OFFLINE, FUTURE = "without leader", "offline", "future"
FILE_EXISTS = "java.nio.file.FileAlreadyExistsException"


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
    """

    log_dirs: list[str]
    node_id: int | None = None
    release: Release | None = None
    outcome: str = STARTS
    refusals: list[LoadRefusedError] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    partitions: list[PartitionForecast] = field(default_factory=list)
    metadata: LoadedMetadata | None = None

    @property
    def changes(self) -> bool:
        """Whether it does anything that an orderly start of healthy log directories does not."""
        return self.outcome != STARTS or bool(self.refusals) or any(True for _ in self.all_effects())

    def all_effects(self) -> Iterator[tuple[PartitionForecast | None, Effect]]:
        """Yield the effects with their partitions, those without a word in the log of the broker first."""
        of_broker = [(None, effect) for effect in self.effects]
        every = [*of_broker, *((partition, effect) for partition in self.partitions for effect in partition.effects)]
        yield from sorted(every, key=lambda pair: not pair[1].silent)


def forecast_start(paths: Sequence[str], release: str | None = None, *, loads_logs: bool = True) -> BrokerForecast:
    """Return what the next start of a broker does to its log directories.

    Args:
        paths: all its log directories.
        release: the release that is started; None for the one with which the broker registered last, or the newest
            that is known.
        loads_logs: whether to forecast the load of each log, which reads it.

    Raises:
        InputError: one cannot be read.
    """
    forecast = BrokerForecast(list(paths), release=None if release is None else release_numbers(release))
    start = _Start([read_log_directory(path) for path in paths], forecast, loads_logs)
    start.run()
    return start.forecast


@dataclass(slots=True)
class _Start:
    directories: list[LogDirectory]
    forecast: BrokerForecast
    loads_logs: bool = True
    loads: list[tuple[LogDirectory, PartitionForecast, PartitionFolder]] = field(default_factory=list)
    offline: set[str] = field(default_factory=set)

    def run(self) -> None:
        forecast = self.forecast
        for step in (self.check_identity, self.load_metadata, self.load_logs):
            refusal = step()
            if refusal is not None:
                forecast.refusals.insert(0, refusal)
                forecast.outcome = REFUSES
                return
            if forecast.outcome == NOT_KNOWN:
                return
        self.assign()

    # Identity.

    def check_identity(self) -> LoadRefusedError | None:
        known = [each.meta for each in self.directories if each.meta is not None]
        if not known:
            path = f"{self.directories[0].path}/meta.properties"
            return LoadRefusedError(RUNTIME, "No readable meta.properties files found.", path)
        fault = identity_fault(self.directories)
        if isinstance(fault, LoadRefusedError):
            return fault
        if fault is not None:
            self.forecast.outcome = NOT_KNOWN
            self.forecast.effects.append(fault)
        self.forecast.node_id = known[0].node_id
        if all(meta.version == 0 for meta in known) and not any(each.has_metadata for each in self.directories):
            self.forecast.outcome = NOT_KNOWN
            detail = (
                "a broker with ZooKeeper wrote these files: its start is not forecast, because no metadata log is here"
            )
            self.forecast.effects.append(Effect("not-known", detail))
        return None

    # The metadata log.

    def load_metadata(self) -> LoadRefusedError | None:
        having = [directory for directory in self.directories if directory.has_metadata]
        if not having:
            return self._without_metadata()
        if having[0] is not self.directories[0]:
            self.forecast.outcome = NOT_KNOWN
            path = f"{having[0].path}/{METADATA_FOLDER}"
            detail = f"{path} is not in the first log directory: the broker refuses unless metadata.log.dir names it"
            self.forecast.effects.append(Effect("not-known", detail, path=path))
            return None
        try:
            metadata = load_metadata(f"{having[0].path}/{METADATA_FOLDER}", self.forecast.node_id)
        except LoadRefusedError as refused:
            return refused
        self.forecast.metadata = metadata
        self.forecast.effects += metadata.effects
        registered = metadata.image.brokers.get(-1 if self.forecast.node_id is None else self.forecast.node_id)
        if self.forecast.release is None and registered is not None:
            self.forecast.release = registered_release(registered)
        return unreadable_metadata(metadata, self.forecast.release, self.forecast.node_id) or registration_fault(
            self.directories, metadata
        )

    def _without_metadata(self) -> LoadRefusedError | None:
        versions = {each.meta.version for each in self.directories if each.meta is not None}
        if versions == {1}:  # KRaft: ZooKeeper-time brokers wrote version 0
            self.forecast.metadata = LoadedMetadata(lost="the metadata log is missing")
        return None

    # The logs.

    def load_logs(self) -> LoadRefusedError | None:
        refused = refused_setting(self.forecast.metadata, self.forecast.release)
        if refused is not None:
            return refused  # before it looks at the logs
        fatal: list[LoadRefusedError] = []
        for directory in self.directories:
            refusals = [*directory.refusals, *self._load(directory)]
            fatal += [each for each in refusals if not each.is_storage]
            if refusals:
                self.forecast.refusals += refusals
        self.offline = offline = {self._directory_of(each.path) for each in self.forecast.refusals}
        metadata = {each.path for each in self.directories if each.has_metadata}
        if not fatal and offline and (len(offline) == len(self.directories) or offline & metadata):
            fatal = [self.forecast.refusals[0]]
        if fatal:
            self.forecast.refusals.remove(fatal[0])
        refusal = fatal[0] if fatal else clash_of(self.directories)
        if refusal is not None:
            self._lose_marker()
        return refusal

    def _lose_marker(self) -> None:
        if any(directory.clean for directory in self.directories):
            detail = "the start that fails removes the marker of the clean shutdown; the next one recovers all logs"
            self.forecast.effects.append(Effect("marker-removed", detail, silent=True))

    def _directory_of(self, path: str) -> str:
        return next(each.path for each in self.directories if path.startswith(each.path))

    def _load(self, directory: LogDirectory) -> list[LoadRefusedError]:
        refusals = []
        for folder in directory.folders:
            name = folder.name
            deleted = name.state == "deleted"
            partition = PartitionForecast(directory.path, folder.path, name.topic, name.partition, UNSERVED)
            self.loads.append((directory, partition, folder))
            if not self.loads_logs:
                continue
            try:
                recovery = directory.offset(RECOVERY_POINT, name)
                log_start = directory.offset(LOG_START, name) if LOG_START in directory.checkpoints else None
                partition.loaded = load_log(
                    folder.path,
                    recovery,
                    log_start,
                    clean=directory.clean,
                    is_deleted=deleted,
                    limits=self.forecast.metadata.index_limits(name.topic) if self.forecast.metadata else NO_LIMITS,
                    release=rules_of(self.forecast.release),
                )
            except LoadRefusedError as refused:
                refusals.append(refused)
            else:
                partition.effects += partition.loaded.effects
        return refusals

    # What becomes of each partition.

    def assign(self) -> None:
        metadata, forecast = self.forecast.metadata, self.forecast
        for _, partition, folder in self.loads:
            partition.fate = fate_of(folder, metadata, forecast.node_id)
            if partition.log_dir in self.offline:
                partition.fate, partition.loaded, partition.effects = OFFLINE, None, []
            if partition.fate == STRAY and folder.name.state == "live" and self._is_replaceable():
                partition.fate = NOT_KNOWN
            if partition.fate == STRAY and folder.name.state == "live":
                partition.effects.append(self._stray_effect(partition, folder))
            if folder.name.state == "stray":
                # The recovery point is that of the partition in service.
                partition.effects = [effect for effect in partition.effects if effect.kind != "short-log"]
            if partition.fate == GONE:
                # Its log is not recovered, and the checkpoints are about the partition that replaced it.
                detail = "the folder is deleted a minute after the start"
                partition.loaded, partition.effects = None, [Effect("deleted", detail, silent=True, path=folder.path)]
            if partition.fate == SERVED and folder.name.state == "future":
                self._promote(partition, folder)
            forecast.partitions.append(partition)
        if metadata is not None and self._is_replaceable():
            self._leave_open(metadata)
        elif metadata is not None:
            self._create_missing(metadata)
            self._find_leaderless(metadata)

    def _leave_open(self, metadata: LoadedMetadata) -> None:
        """Say what other controllers decide about."""
        detail = f"{metadata.lost}: without another controller every partition becomes stray, with one none does"
        if not metadata.folder:
            self.forecast.outcome = NOT_KNOWN
            detail += "; as the only voter of a dynamic quorum, it finds no controller and ends"
        self.forecast.effects.append(Effect("not-known", detail))

    def _is_replaceable(self) -> bool:
        """Whether metadata is missing here that other controllers may have."""
        metadata = self.forecast.metadata
        return metadata is not None and metadata.lost is not None and metadata.voters != (self.forecast.node_id,)

    def _promote(self, partition: PartitionForecast, folder: PartitionFolder) -> None:
        others = (other for _, other, each in self.loads if each.name.state == "live")
        if any(other.name == partition.name for other in others):
            partition.fate = FUTURE
        else:
            detail = f"the folder is renamed to {partition.name} and served as it is: no other replica is here"
            partition.effects.append(Effect("promoted", detail, silent=True, path=folder.path))

    def _stray_effect(self, partition: PartitionForecast, folder: PartitionFolder) -> Effect:
        detail = f"renamed to -stray and out of service: {why_stray(folder, self.forecast.metadata)}"
        if self._is_deleted(folder):
            return Effect(TOPIC_DELETED, detail, path=folder.path)
        size = partition.loaded.log_end - partition.loaded.log_start if partition.loaded else None
        return Effect("stray", detail, records=size, path=folder.path)

    def _is_deleted(self, folder: PartitionFolder) -> bool:
        """Whether the metadata log shows that the topic of a folder was deleted."""
        return self.forecast.metadata is not None and folder.topic_id in self.forecast.metadata.removed

    def _create_missing(self, metadata: LoadedMetadata) -> None:
        kept = (SERVED, OFFLINE)
        there = {(part.topic, part.partition) for part in self.forecast.partitions if part.fate in kept}
        again = {part.name for _, part, folder in self.loads if self._is_deleted(folder)}
        for name, number, assigned in metadata.image.partitions():
            if self.forecast.node_id not in assigned.replicas or (name, number) in there:
                continue
            if self._is_elsewhere(metadata, assigned):
                continue
            directory = self.directories[0]
            log_dir = directory.path
            if f"{name}-{number}" in directory.files:
                path = f"{log_dir}/{name}-{number}"
                self.forecast.refusals.append(LoadRefusedError(FILE_EXISTS, path, path, is_storage=True))
                if len(self.directories) == 1:
                    self.forecast.outcome = REFUSES
                    self._lose_marker()
            created = PartitionForecast(log_dir, None, name, number, CREATED, LoadedLog(f"{log_dir}/{name}-{number}"))
            then = "it is served empty" if len(assigned.replicas) == 1 else "it is copied from the leader"
            if f"{name}-{number}" in again:
                created.effects.append(Effect(CREATED_AGAIN, f"its topic was created again: {then}", silent=True))
            else:
                created.effects.append(Effect("created", f"no folder of it is left: {then}", silent=True, offset=0))
            self.forecast.partitions.append(created)

    def _find_leaderless(self, metadata: LoadedMetadata) -> None:
        """Find partitions without a leader: their directory is unknown, or the broker cannot apply the metadata."""
        ids = {each.meta.directory_id for each in self.directories if each.meta is not None and each.meta.directory_id}
        changed = not self._are_registered(metadata)
        fault = self._publishing_fault(metadata)
        if fault is not None:
            self.forecast.effects.append(fault)
        for partition in self.forecast.partitions:
            if partition.fate not in (SERVED, CREATED):
                continue
            assigned = self._assigned_directory(metadata, partition)
            if fault is not None:
                partition.fate = NOT_KNOWN
            elif assigned is not None and not is_reserved(assigned) and assigned not in ids and changed:
                partition.fate = WITHOUT_LEADER
                detail = (
                    f"the metadata has it in the directory {assigned}, which no log directory is: it has no leader here"
                )
                partition.effects = [Effect("without-leader", detail, silent=True)]

    def _are_registered(self, metadata: LoadedMetadata) -> bool:
        """Whether the metadata has the directory ids of all log directories."""
        metas = [each.meta for each in self.directories]
        return all(meta is not None and meta.directory_id in metadata.directories for meta in metas)

    def _is_elsewhere(self, metadata: LoadedMetadata, assigned: PartitionRegistration) -> bool:
        """Whether a partition is in a log directory of the broker that the caller has not named."""
        place = dict(zip(assigned.replicas, assigned.directories, strict=False)).get(self.forecast.node_id or -1)
        ids = {each.meta.directory_id for each in self.directories if each.meta is not None}
        if place is None or is_reserved(place) or place in ids or not self._are_registered(metadata):
            return False
        return metadata.directories.get(place) == self.forecast.node_id

    def _assigned_directory(self, metadata: LoadedMetadata, partition: PartitionForecast) -> str | None:
        topic = metadata.image.topic_named(partition.topic)
        assigned = topic.partitions.get(partition.partition) if topic else None
        if assigned is None:
            return None
        return dict(zip(assigned.replicas, assigned.directories, strict=False)).get(self.forecast.node_id or -1)

    def _publishing_fault(self, metadata: LoadedMetadata) -> Effect | None:
        """Return the effect of a folder with the topic id of another topic: the metadata cannot be applied."""
        for _, partition, folder in self.loads:
            topic = metadata.image.topic_named(partition.topic)
            expected = topic.topic_id if topic and partition.partition in topic.partitions else None
            if partition.fate == UNSERVED and folder.name.state == "live" and expected not in (None, folder.topic_id):
                detail = (
                    f"{folder.path}/partition.metadata has the topic id of {metadata.topic_name(folder.topic_id)}:"
                    " the broker stops applying the metadata there, and most or all partitions have no leader"
                )
                return Effect("nothing-served", detail, path=f"{folder.path}/partition.metadata")
        return None
