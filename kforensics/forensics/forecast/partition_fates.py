"""What becomes of each partition at the next start: served, stray, deleted, created, or without a leader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kforensics.forensics.forecast.broker_forecast import (
    ASSIGNED,
    COPIED,
    CREATED,
    FUTURE,
    OFFLINE,
    REFUSES,
    WITHOUT_LEADER,
    BrokerForecast,
    PartitionForecast,
)
from kforensics.forensics.forecast.effects import (
    DIRECTORY_LOST,
    FILE_WRITTEN,
    LOG_CREATED,
    RETENTION_DUE,
    Effect,
    LoadedLog,
    LoadRefusedError,
)
from kforensics.forensics.forecast.identity import is_reserved
from kforensics.forensics.forecast.log_directory import (
    FILE_SYSTEM,
    MARKER,
    SOME_COPIED,
    LogDirectory,
    PartitionFolder,
    had_data,
)
from kforensics.forensics.forecast.metadata_loading import (
    DELETED_AS_STRAY,
    GONE,
    NOT_KNOWN,
    SERVED,
    UNSERVED,
    LoadedMetadata,
    fate_of,
    why_stray,
)
from kforensics.forensics.forecast.older_releases import OUT_OF_SERVICE, fate_before_strays
from kforensics.forensics.metadata.cluster_image import ClusterImage
from kforensics.forensics.metadata.topic_image import PartitionRegistration
from kforensics.parsers.files.source import file_name

__all__ = ["PartitionFates", "lose_marker", "write_marker"]

# The feature with which a controller elects eligible leader replicas.
ELIGIBLE_LEADERS = "eligible.leader.replicas.version"
CREATED_AGAIN, TOPIC_DELETED = "created-again", "topic-deleted"
# Effects that do not concern a folder beside the partition in service: the recovery point is that of the other, and
# retention passes over logs that are out of service.
OF_SERVED = ("short-log", LOG_CREATED, RETENTION_DUE)
FILE_EXISTS = "java.nio.file.FileAlreadyExistsException"


def lose_marker(forecast: BrokerForecast, directories: Sequence[LogDirectory]) -> None:
    """Add that a start that fails while logs are loaded removes the marker of the clean shutdown."""
    if any(directory.clean for directory in directories):
        detail = "the start that fails removes the marker of the clean shutdown; the next one recovers all logs"
        forecast.effects.append(Effect("marker-removed", detail, silent=True))


def write_marker(forecast: BrokerForecast, directories: Sequence[LogDirectory], writes: str) -> None:
    """Add that a start that fails while logs are loaded writes the marker of a clean shutdown, or may write it."""
    for directory in directories:
        if directory.clean:
            continue
        path = f"{directory.path}/{MARKER}"
        detail = f"the start that fails {writes} {path}: the next one takes the logs for whole, and recovers none"
        forecast.effects.append(Effect("marker-written", detail, silent=True, path=path))


@dataclass(slots=True)
class PartitionFates:
    """Decides what becomes of the partitions of a broker whose logs were loaded.

    Attributes:
        directories: its log directories.
        forecast: takes the partitions, and what is found about them.
        loads: the partitions with their log directories and folders.
        offline: log directories that fail.
        is_before_strays: whether the release is older than 3.7, which deletes what later ones make stray.
    """

    directories: list[LogDirectory]
    forecast: BrokerForecast
    loads: list[tuple[LogDirectory, PartitionForecast, PartitionFolder]]
    offline: set[str]
    is_before_strays: bool = False

    def assign(self) -> None:
        """Add the partitions with their fates to the forecast."""
        metadata, forecast = self.forecast.metadata, self.forecast
        for _, partition, folder in self.loads:
            partition.fate = self._fate(partition, folder)
            self._add_effects(partition, folder)
            forecast.partitions.append(partition)
        if metadata is not None and self._is_replaceable():
            self._leave_open(metadata)
        elif metadata is not None:
            self._create_missing(metadata)
            self._find_leaderless(metadata)

    def _fate(self, partition: PartitionForecast, folder: PartitionFolder) -> str:
        metadata, node_id = self.forecast.metadata, self.forecast.node_id
        if partition.log_dir in self.offline:
            return OFFLINE
        fate = fate_of(folder, metadata, node_id)
        if metadata is not None and self.is_before_strays:
            fate = fate_before_strays(fate, folder, metadata, node_id)
        is_open = fate in OUT_OF_SERVICE and folder.name.state == "live" and self._is_replaceable()
        return NOT_KNOWN if is_open else fate

    def _add_effects(self, partition: PartitionForecast, folder: PartitionFolder) -> None:
        if partition.fate == OFFLINE:
            partition.loaded, partition.effects = None, []
        if partition.fate in OUT_OF_SERVICE and folder.name.state == "live":
            partition.effects.append(self._stray_effect(partition, folder))
        if folder.name.state == "stray":
            partition.effects = [effect for effect in partition.effects if effect.kind not in OF_SERVED]
        if partition.fate in OUT_OF_SERVICE:
            partition.effects = [effect for effect in partition.effects if effect.kind != RETENTION_DUE]
        if partition.fate == GONE:
            # Its log is not recovered, and the checkpoints are about the partition that replaced it.
            detail = f"the folder {file_name(folder.path)} is deleted a minute after the start"
            partition.loaded, partition.effects = None, [Effect("deleted", detail, silent=True, path=folder.path)]
        if partition.fate in (SERVED, UNSERVED) and folder.name.state == "future":
            self._promote(partition, folder)
        is_written = self.is_before_strays and not self.forecast.has_zookeeper
        if partition.fate == SERVED and folder.topic_id is None and is_written:
            detail = "partition.metadata is missing and is written again: the name of the folder decides"
            path = f"{folder.path}/partition.metadata"
            partition.effects.append(Effect(FILE_WRITTEN, detail, silent=True, path=path))

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
        elif self.forecast.has_zookeeper:
            self._leave_future_open(partition, folder)
        elif partition.fate == UNSERVED:
            if not self.is_before_strays:
                topic = self.forecast.metadata.topic_name(folder.topic_id) if self.forecast.metadata else None
                detail = f"the folder is renamed to {partition.name} and not served: its topic id is that of {topic}"
                partition.effects.append(Effect("promoted", detail, silent=True, path=folder.path))
        elif self.is_before_strays:
            message = f"{folder.path} -> {partition.log_dir}/{partition.name}: Directory not empty"
            self._refuse(LoadRefusedError(FILE_SYSTEM, message, folder.path, is_storage=True))
        else:
            detail = f"the folder is renamed to {partition.name} and served as it is: no other replica is here"
            partition.effects.append(Effect("promoted", detail, silent=True, path=folder.path))

    def _leave_future_open(self, partition: PartitionForecast, folder: PartitionFolder) -> None:
        partition.fate = FUTURE
        detail = (
            f"{folder.path} stays as it is; if ZooKeeper assigns {partition.name} to the broker, it makes an empty log"
            " beside it"
        )
        if self.is_before_strays:
            self.forecast.outcome = NOT_KNOWN
            detail += ", cannot rename the folder, and the log directory fails"
        partition.effects = [Effect("not-known", detail, path=folder.path)]

    def _stray_effect(self, partition: PartitionForecast, folder: PartitionFolder) -> Effect:
        goes = partition.fate == DELETED_AS_STRAY
        what = (
            "renamed to -delete, and deleted a minute after the start"
            if goes
            else "renamed to -stray and out of service"
        )
        detail = f"{what}: {why_stray(folder, self.forecast.metadata)}"
        if self._is_deleted(folder):
            return Effect(TOPIC_DELETED, detail, silent=goes, path=folder.path)
        size = partition.loaded.log_end - partition.loaded.log_start if partition.loaded else None
        return Effect(partition.fate, detail, silent=goes, records=size, path=folder.path)

    def _is_deleted(self, folder: PartitionFolder) -> bool:
        """Whether the metadata log shows that the topic of a folder was deleted."""
        return self.forecast.metadata is not None and folder.topic_id in self.forecast.metadata.removed

    def _create_missing(self, metadata: LoadedMetadata) -> None:
        kept = (SERVED, OFFLINE)
        there = {(part.topic, part.partition) for part in self.forecast.partitions if part.fate in kept}
        again = {part.name for _, part, folder in self.loads if self._is_deleted(folder)}
        left_out = frozenset[tuple[str, int]]().union(*(directory.left_out for directory in self.directories))
        for name, number, assigned in metadata.image.partitions():
            if self.forecast.node_id not in assigned.replicas or (name, number) in there:
                continue
            if self._is_elsewhere(metadata, assigned):
                continue
            directory = self.directories[0]
            log_dir = directory.path
            if f"{name}-{number}" in directory.files:
                path = f"{log_dir}/{name}-{number}"
                self._refuse(LoadRefusedError(FILE_EXISTS, path, path, is_storage=True))
            created = PartitionForecast(log_dir, None, name, number, CREATED, LoadedLog(f"{log_dir}/{name}-{number}"))
            is_last = self._is_last_in_sync(assigned)
            then = "it is served empty" if is_last else "it is copied from the leader"
            kind = CREATED if is_last else COPIED
            likely = f" ({SOME_COPIED}: likely)" if (name, number) in left_out else ""
            effect = Effect(kind, f"no folder of it is left{likely}: {then}", silent=True, offset=0)
            why = None if is_last else self._why_new(metadata, created, assigned)
            if created.name in again:
                effect = Effect(CREATED_AGAIN, f"its topic was created again: {then}", silent=True)
            elif why is not None:
                effect = Effect(ASSIGNED, f"{why}: {then}", silent=True)
            created.effects.append(effect)
            self.forecast.partitions.append(created)

    def _why_new(
        self, metadata: LoadedMetadata, created: PartitionForecast, assigned: PartitionRegistration
    ) -> str | None:
        """Return why the broker never had a partition that is assigned to it, None if it may have had it."""
        node_id, own = self.forecast.node_id, metadata.own
        topic = metadata.image.topic_named(created.topic)
        if own is not None and topic is not None and self._is_known_in(own):
            had = own.topics.get(topic.topic_id)
            before = had.partitions.get(created.partition) if had else None
            if before is None or node_id not in before.replicas:
                return "it was assigned to the broker after the end of its own metadata log"
        place = self._assigned_directory(metadata, created)
        is_on_lost_disk = place is not None and not is_reserved(place) and place not in self._directory_ids()
        is_listed = had_data(self.directories, created.topic, created.partition)
        if node_id in assigned.complete or is_on_lost_disk or is_listed:
            return None
        if node_id in assigned.adding:
            return "a reassignment is adding it to the broker"
        return None if assigned.partition_epoch else "it has not been in sync since the partition was created"

    def _is_known_in(self, own: ClusterImage) -> bool:
        """Whether the copy of the metadata log was there when the broker stopped, and is not that of a new disk."""
        registered = own.brokers.get(-1 if self.forecast.node_id is None else self.forecast.node_id)
        named = (registered or {}).get("logDirs") or ()
        return registered is not None and (not named or not self._directory_ids().isdisjoint(named))

    def _directory_ids(self) -> set[str | None]:
        return {each.meta.directory_id for each in self.directories if each.meta is not None}

    def _refuse(self, refusal: LoadRefusedError) -> None:
        """Fail a log directory after the logs were loaded."""
        self.forecast.refusals.append(refusal)
        if len(self.directories) == 1:
            self.forecast.outcome = REFUSES
            lose_marker(self.forecast, self.directories)

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
                self._move(partition, assigned, metadata)

    def _move(self, partition: PartitionForecast, directory: str, metadata: LoadedMetadata) -> None:
        """Say what becomes of a partition whose log directory was replaced, or has another id now.

        A controller takes the leadership from a broker that registers without the directory. If no other replica is in
        sync, the broker gets it back only as an eligible leader replica, and only from another controller.
        """
        assigned = metadata.image.partition_named(partition.topic, partition.partition)
        is_only = metadata.has_only_controller(self.forecast.node_id)
        has_leaders = bool(metadata.image.features.get(ELIGIBLE_LEADERS)) and not is_only
        if assigned is not None and (has_leaders or not self._is_last_in_sync(assigned)):
            return
        is_empty, partition.fate = partition.fate == CREATED, WITHOUT_LEADER
        detail = f"the metadata has it in the directory {directory}, which no log directory is: it has no leader here"
        if is_empty:
            detail += ", and no folder of it is left"
        partition.effects = [Effect(DIRECTORY_LOST if is_empty else "without-leader", detail, silent=True)]

    def _is_last_in_sync(self, assigned: PartitionRegistration) -> bool:
        return not set(assigned.complete) - {self.forecast.node_id}

    def _are_registered(self, metadata: LoadedMetadata) -> bool:
        """Whether the metadata has the directory ids of all log directories."""
        metas = [each.meta for each in self.directories]
        return all(meta is not None and meta.directory_id in metadata.directories for meta in metas)

    def _is_elsewhere(self, metadata: LoadedMetadata, assigned: PartitionRegistration) -> bool:
        """Whether a partition is in a log directory of the broker that the caller has not named."""
        place, ids = self._directory_of(assigned), self._directory_ids()
        if place is None or is_reserved(place) or place in ids or not self._are_registered(metadata):
            return False
        return metadata.directories.get(place) == self.forecast.node_id

    def _assigned_directory(self, metadata: LoadedMetadata, partition: PartitionForecast) -> str | None:
        assigned = metadata.image.partition_named(partition.topic, partition.partition)
        return None if assigned is None else self._directory_of(assigned)

    def _directory_of(self, assigned: PartitionRegistration) -> str | None:
        """Return the id of the log directory in which the broker has a partition, by the metadata."""
        by_node = dict[int | None, str](zip(assigned.replicas, assigned.directories, strict=False))
        return by_node.get(self.forecast.node_id)

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
