"""What the next start of a broker does to its log directories, and what becomes of each partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kforensics.forensics.forecast.broker_forecast import REFUSES, BrokerForecast, PartitionForecast
from kforensics.forensics.forecast.effects import FILE_WRITTEN, IN_ZOOKEEPER, RUNTIME, Effect, LoadRefusedError
from kforensics.forensics.forecast.identity import (
    UNREADABLE,
    identity_fault,
    registration_fault,
    unnamed_directories,
    zookeeper_fault,
)
from kforensics.forensics.forecast.later_metadata import caught_up
from kforensics.forensics.forecast.log_directory import (
    META,
    METADATA_FOLDER,
    LogDirectory,
    PartitionFolder,
    clash_of,
    read_log_directories,
)
from kforensics.forensics.forecast.log_loading import load_log
from kforensics.forensics.forecast.metadata_loading import (
    NOT_KNOWN,
    UNSERVED,
    LoadedMetadata,
    fate_of,
    index_limits,
    load_metadata,
)
from kforensics.forensics.forecast.older_releases import (
    LAST_WITH_ZOOKEEPER,
    LOADED_SINCE,
    OUT_OF_SERVICE,
    STATE_KEPT_SINCE,
    STRAYS_READ_SINCE,
    STRAYS_SINCE,
    as_logged,
    in_zookeeper,
    last_registered,
    refused_strays,
    unreadable_topic_ids,
    voters_fault,
)
from kforensics.forensics.forecast.partition_fates import PartitionFates, lose_marker, write_marker
from kforensics.forensics.forecast.release_limits import (
    refused_setting,
    release_numbers,
    rules_of,
    unreadable_metadata,
)
from kforensics.forensics.forecast.remote_starts import add_unread_starts
from kforensics.forensics.metadata.metadata_versions import Release, registered_release, release_name
from kforensics.forensics.partition.partition_files import LOG_START, RECOVERY_POINT
from kforensics.forensics.partition.unused_metadata import not_in_force
from kforensics.parsers.files.meta_properties import MetaProperties

__all__ = ["forecast_start"]


def forecast_start(
    paths: Sequence[str],
    release: str | None = None,
    *,
    loads_logs: bool = True,
    on_loaded: Callable[[str], object] = str,
    other_metadata: Sequence[str] = (),
) -> BrokerForecast:
    """Return what the next start of a broker does to its log directories.

    Args:
        paths: all its log directories.
        release: the release that is started; None for the one with which the broker registered last, or the newest
            that is known.
        loads_logs: whether to forecast the load of each log, which reads it.
        on_loaded: takes the folder of each log whose load was forecast.
        other_metadata: folders of the metadata logs of other nodes of its cluster.

    Raises:
        InputError: one cannot be read.
    """
    forecast = BrokerForecast(list(paths), release=None if release is None else release_numbers(release))
    start = _Start(read_log_directories(paths), forecast, loads_logs, on_loaded, other_metadata=other_metadata)
    start.run()
    return start.forecast


@dataclass(slots=True)
class _Start:
    directories: list[LogDirectory]
    forecast: BrokerForecast
    loads_logs: bool = True
    on_loaded: Callable[[str], object] = str
    other_metadata: Sequence[str] = ()
    loads: list[tuple[LogDirectory, PartitionForecast, PartitionFolder]] = field(default_factory=list)
    offline: set[str] = field(default_factory=set)
    log_dirs: list[LogDirectory] = field(init=False)  # without one that only metadata.log.dir names
    shown: list[Release | None] = field(default_factory=list)  # what the metadata log shows, once it was looked up

    def __post_init__(self) -> None:
        self.log_dirs = [*self.directories]

    def run(self) -> None:
        forecast = self.forecast
        for step in (self.check_identity, self.load_metadata, self.load_logs):
            refusal = step()
            if refusal is not None:
                forecast.refusals.insert(0, self._as_logged(refusal))
                forecast.outcome = REFUSES
                return
            if forecast.outcome == NOT_KNOWN:
                return
        add_unread_starts(self.loads)
        older = self.is_before(STRAYS_SINCE)
        if self.log_dirs:
            PartitionFates(self.log_dirs, forecast, self.loads, self.offline, older).assign()

    def is_before(self, since: Release) -> bool:
        """Whether the release is older than another; if the metadata log cannot be loaded, by what it shows."""
        release = self._release()
        return release is not None and release < since

    def _release(self) -> Release | None:
        having = [each for each in self.directories if each.has_metadata]
        if self.forecast.release is not None or not having:
            return self.forecast.release
        if not self.shown:
            self.shown.append(last_registered(f"{having[0].path}/{METADATA_FOLDER}", self.forecast.node_id))
        return self.shown[0]

    def _as_logged(self, refusal: LoadRefusedError) -> LoadRefusedError:
        release = self._release()
        if release is None:
            return refusal
        return as_logged(refusal, release, is_before_metadata=self.forecast.metadata is None)

    # Identity.

    def check_identity(self) -> LoadRefusedError | None:
        known = [each.meta for each in self.directories if each.meta is not None]
        has_metadata = any(each.has_metadata for each in self.directories)
        is_identified = any(meta.node_id is not None or meta.cluster_id is not None for meta in known)
        if is_identified and not has_metadata and all(meta.has_zookeeper for meta in known):
            return self._check_with_zookeeper(known)
        if not has_metadata and not is_identified and self._is_unidentified():
            return None
        if not known:
            path = f"{self.directories[0].path}/meta.properties"
            return LoadRefusedError(RUNTIME, UNREADABLE, path)
        fault = identity_fault(self.directories)
        if isinstance(fault, LoadRefusedError):
            return fault
        if fault is not None:
            self.forecast.outcome = NOT_KNOWN
            self.forecast.effects.append(fault)
        self.forecast.node_id = known[0].node_id
        return None

    def _check_with_zookeeper(self, known: Sequence[MetaProperties]) -> LoadRefusedError | None:
        forecast = self.forecast
        forecast.has_zookeeper, forecast.node_id = True, known[0].node_id
        forecast.is_release_assumed = forecast.release is None
        forecast.release = forecast.release or LAST_WITH_ZOOKEEPER
        if forecast.release > LAST_WITH_ZOOKEEPER:
            forecast.outcome = NOT_KNOWN
            detail = f"{release_name(forecast.release)} has no ZooKeeper: migrate the cluster to KRaft with 3.9 first"
            forecast.effects.append(Effect("not-known", detail))
            return None
        forecast.effects.append(Effect(IN_ZOOKEEPER, in_zookeeper(known[0], forecast.release), silent=True))
        for directory in self.directories:
            if directory.unused_since is not None:
                detail = f"{directory.path}/{METADATA_FOLDER}: {not_in_force(directory.unused_since)}"
                forecast.effects.append(Effect(IN_ZOOKEEPER, detail, silent=True))
        for path in (f"{each.path}/{META}" for each in self.directories if each.meta is None):
            forecast.effects.append(Effect(FILE_WRITTEN, f"{path} is missing, and is written", silent=True, path=path))
        return zookeeper_fault(self.directories)

    def _is_unidentified(self) -> bool:
        """Whether no directory has an identity, which only a broker with ZooKeeper writes again."""
        missing = [each for each in self.directories if each.meta_fault is None and each.folders]
        if not missing:
            return False
        path = f"{missing[0].path}/{META}"
        detail = f"{path} is missing or empty: a broker with ZooKeeper writes it, and one with KRaft refuses to start"
        self.forecast.outcome = NOT_KNOWN
        self.forecast.effects.append(Effect("not-known", detail, path=path))
        return True

    # The metadata log.

    def load_metadata(self) -> LoadRefusedError | None:
        having = [directory for directory in self.directories if directory.has_metadata]
        if not having:
            return self._without_metadata()
        path = f"{having[0].path}/{METADATA_FOLDER}"
        is_first = having[0] is self.directories[0]
        if not is_first and not having[0].has_only_metadata:
            self._leave_open(path)
            return None
        try:
            metadata = self._read_metadata(path)
        except LoadRefusedError as refused:
            return refused
        if self._is_apart(having[0], metadata):
            self.log_dirs.remove(having[0])
        elif not is_first:
            self._leave_open(path)
            return None
        self.forecast.metadata = metadata
        self.forecast.effects += [*metadata.effects, *unnamed_directories(self.directories, metadata)]
        registered = metadata.image.brokers.get(-1 if self.forecast.node_id is None else self.forecast.node_id)
        if self.forecast.release is None and registered is not None:
            self.forecast.release = registered_release(registered)
        refusal = (
            unreadable_metadata(metadata, self.forecast.release, self.forecast.node_id)
            or (voters_fault(metadata) if self.is_before(STATE_KEPT_SINCE) else None)
            or registration_fault(self.directories, metadata)
        )
        if refusal is not None:
            return refusal
        self.forecast.metadata = caught_up(metadata, self.forecast.node_id, self.other_metadata)
        return unreadable_metadata(self.forecast.metadata, self.forecast.release, self.forecast.node_id)

    def _leave_open(self, path: str) -> None:
        self.forecast.outcome = NOT_KNOWN
        detail = f"{path} is not in the first log directory: the broker refuses unless metadata.log.dir names it"
        self.forecast.effects.append(Effect("not-known", detail, path=path))

    def _is_apart(self, directory: LogDirectory, metadata: LoadedMetadata) -> bool:
        """Whether the directory with the metadata log is none of ``log.dirs``, whose ids brokers register since 3.7."""
        registered = [each for each, node_id in metadata.directories.items() if node_id == self.forecast.node_id]
        if not directory.has_only_metadata or directory.meta is None or directory.meta.directory_id in registered:
            return False
        return bool(registered) or len(self.directories) > 1

    def _read_metadata(self, folder: str) -> LoadedMetadata:
        try:
            return load_metadata(folder, self.forecast.node_id)
        except LoadRefusedError:
            if not self.is_before(STATE_KEPT_SINCE):
                raise
            return load_metadata(folder, self.forecast.node_id, clears_state=True)

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
        for directory in self.log_dirs:
            older = unreadable_topic_ids(directory) if self.is_before(STRAYS_SINCE) else ()
            strays = refused_strays(directory) if self.is_before(STRAYS_READ_SINCE) else ()
            refusals = [*directory.refusals, *strays, *older, *self._load(directory)]
            fatal += [each for each in refusals if not each.is_storage]
            if refusals:
                self.forecast.refusals += refusals
        self.offline = offline = {self._directory_of(each.path) for each in self.forecast.refusals}
        metadata = {each.path for each in self.directories if each.has_metadata}
        if not fatal and offline and (len(offline) == len(self.log_dirs) or offline & metadata):
            fatal = [self.forecast.refusals[0]]
        if fatal:
            self.forecast.refusals.remove(fatal[0])
        refusal = fatal[0] if fatal else self._clash()
        if refusal is None:
            return None
        if refusal.is_storage or not self.forecast.has_zookeeper:
            lose_marker(self.forecast, self.log_dirs)
        elif self._ends_at_logs():
            write_marker(self.forecast, self.log_dirs, "writes")
        elif any(refusal.path.startswith(f"{folder.path}/") for _, _, folder in self.loads):
            # Later releases write it if it was there, or if the other logs are loaded when they end.
            write_marker(self.forecast, self.log_dirs, "may write")
        return refusal

    def _clash(self) -> LoadRefusedError | None:
        refusal = clash_of(self.log_dirs, self._is_in_service)
        # With ZooKeeper nothing renames a future log at the start, and since 3.7 nothing does soon after it.
        keeps_futures = self.forecast.has_zookeeper and not self.is_before(STRAYS_SINCE)
        return None if refusal is not None and refusal.is_storage and keeps_futures else refusal

    def _ends_at_logs(self) -> bool:
        """Whether a log that cannot be loaded ends the broker as one that stops in order, not its log directory."""
        return self.forecast.has_zookeeper and self.is_before(LOADED_SINCE)

    def _is_in_service(self, folder: PartitionFolder) -> bool:
        """Return whether a live folder is loaded as the log of its partition: strays are renamed when they are found.

        Releases before 3.7 find them later.
        """
        metadata = self.forecast.metadata
        if metadata is None or metadata.lost is not None or self.is_before(STRAYS_SINCE):
            return True
        return fate_of(folder, metadata, self.forecast.node_id) not in OUT_OF_SERVICE

    def _directory_of(self, path: str) -> str:
        return next(each.path for each in self.directories if f"{path}/".startswith(f"{each.path}/"))

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
                    limits=index_limits(self.forecast.metadata, name.topic),
                    release=rules_of(self.forecast.release),
                )
            except LoadRefusedError as refused:
                refused.is_storage &= not self._ends_at_logs()
                refusals.append(refused)
            else:
                partition.effects += partition.loaded.effects
            self.on_loaded(folder.path)
        return refusals
