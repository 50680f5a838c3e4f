"""What a start of a release before 3.9 does in another way than later ones; ``lab/forecast`` starts 3.6.2 to 3.8.1.

Before 3.8 a quorum state that cannot be read is cleared. Releases before 3.7 have no ``-stray`` folders: what is in no
metadata is deleted. Several exceptions have other classes. Rules: ``QuorumState.initialize``,
``BrokerMetadataPublisher.initializeManagers`` and ``BrokerMetadataCheckpoint`` of 3.6.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from kforensics.errors import InputError
from kforensics.forensics.forecast.effects import ILLEGAL_STATE, IO, KAFKA, LoadRefusedError
from kforensics.forensics.forecast.identity import INCONSISTENT, NOT_CONSISTENT, UNFORMATTED, UNREADABLE
from kforensics.forensics.forecast.log_directory import FILE_SYSTEM, UNNAMED, LogDirectory, PartitionFolder
from kforensics.forensics.forecast.metadata_loading import (
    DELETED_AS_STRAY,
    SERVED,
    STRAY,
    UNREPLAYED,
    UNSERVED,
    LoadedMetadata,
    fate_of,
)
from kforensics.forensics.metadata.cluster_metadata import LogRecord, log_records
from kforensics.forensics.metadata.metadata_versions import Release, registered_release
from kforensics.parsers.files.folders import folders_of
from kforensics.parsers.files.meta_properties import MetaProperties
from kforensics.parsers.files.partition_metadata import PartitionMetadata, read_partition_metadata
from kforensics.parsers.files.source import open_source

__all__ = [
    "LAST_WITH_ZOOKEEPER",
    "LOADED_SINCE",
    "OUT_OF_SERVICE",
    "STATE_KEPT_SINCE",
    "STRAYS_READ_SINCE",
    "STRAYS_SINCE",
    "as_logged",
    "fate_before_strays",
    "fate_in_its_release",
    "in_zookeeper",
    "last_registered",
    "refused_strays",
    "unreadable_topic_ids",
    "voters_fault",
]

# The first releases that have ``-stray`` folders, and that end at a quorum state that they cannot read.
STRAYS_SINCE, STATE_KEPT_SINCE = (3, 7), (3, 8)
# The last release that can keep its metadata in ZooKeeper.
LAST_WITH_ZOOKEEPER = (3, 9)
# The first releases that accept folders with the suffix ``-stray``, and that do not write the marker of a clean
# shutdown when they end because of a log that they cannot load (``LogManager.shutdown``, which KRaft does not come to).
# With ZooKeeper older ones end where later ones go on without the log directory.
STRAYS_READ_SINCE, LOADED_SINCE = (3, 6), (3, 6)
# The first that logs a RuntimeException about a record of the metadata that it cannot apply.
RUNTIME_SINCE = (3, 9)
# What a start does to a folder that the metadata does not assign to the broker, by the fate of the partition.
OUT_OF_SERVICE = {
    STRAY: "renames the folder to -stray",
    DELETED_AS_STRAY: "deletes the folder, as releases before 3.7 do",
}
NOT_EMPTY = "java.nio.file.DirectoryNotEmptyException"
NODE_ID = "kafka.common.InconsistentNodeIdException"
# How messages about log directories that disagree begin since 3.7, and what older releases log.
DISAGREEMENTS = ("Stored node id", "Invalid cluster.id in")
VOTERS = (
    "Configured voter set: [{0}] is different from the voter set read from the state file: {1}. Check if the quorum"
    " configuration is up to date, or wipe out the local state file if necessary"
)


def last_registered(folder: str, node_id: int | None) -> Release | None:
    """Return the release with which a broker registered last, as far as the metadata log can be read.

    Args:
        folder: the folder of the metadata log.
        node_id: id of the broker; None for any.
    """
    release = None
    for record in _records(folder):
        value = record.value if record.kind == "RegisterBrokerRecord" else None
        if value is not None and node_id in {None, value["brokerId"]}:
            release = registered_release(value) or release
    return release


def _records(folder: str) -> Iterator[LogRecord]:
    """Yield the records of snapshots, and then of the log, that can be read."""
    names = sorted(entry.path for entry in folders_of(folder).children(folder) if not entry.is_folder)
    for path in (name for end in (".checkpoint", ".log") for name in names if name.endswith(end)):
        with suppress(InputError):  # the load says what is wrong
            yield from log_records(path, 0)


def fate_in_its_release(folder: PartitionFolder, metadata: LoadedMetadata, node_id: int) -> str:
    """Return what a broker of the release that registered last makes of a folder.

    Args:
        folder: the folder.
        metadata: what the broker reads from its metadata log, which has it registered.
        node_id: id of the broker.
    """
    fate, release = fate_of(folder, metadata, node_id), registered_release(metadata.image.brokers[node_id])
    is_older = release is not None and release < STRAYS_SINCE
    return fate_before_strays(fate, folder, metadata, node_id) if is_older else fate


def fate_before_strays(fate: str, folder: PartitionFolder, metadata: LoadedMetadata, node_id: int | None) -> str:
    """Return what becomes of a folder that later releases make stray.

    Without ``partition.metadata`` the name decides, and the file is written again.

    Args:
        fate: what becomes of it in later releases.
        folder: the folder.
        metadata: what the broker reads from its metadata log.
        node_id: id of the broker.
    """
    if fate != STRAY or folder.name.state != "live":
        return fate
    if folder.topic_id is not None:
        return DELETED_AS_STRAY
    assigned = metadata.image.partition_named(folder.name.topic, folder.name.partition)
    # Without a topic id it cannot be deleted: the broker logs an error, and leaves it.
    return SERVED if assigned is not None and node_id in assigned.replicas else UNSERVED


def in_zookeeper(meta: MetaProperties, release: Release) -> str:
    """Return what the start of a broker with ZooKeeper depends on that its log directories do not have.

    In migration mode, which only its settings show, the first request of the KRaft controller names all partitions of
    the broker, which renames the others. Rule: ``ReplicaManager.becomeLeaderOrFollower`` and ``updateStrayLogs``, since
    3.6.

    Args:
        meta: the identity of a log directory.
        release: the release that starts.
    """
    settings = "" if meta.node_id is None else f"broker.id={meta.node_id} in its settings"
    cluster = "" if meta.cluster_id is None else f"the cluster id {meta.cluster_id} in ZooKeeper"
    needs = " and ".join(each for each in (settings, cluster) if each)
    stay = "stay as they are"
    if release >= STRAYS_READ_SINCE:
        stay += (
            ", or are renamed to -stray in migration mode (zookeeper.metadata.migration.enable) once a KRaft controller"
            " is in charge"
        )
    return (
        f"{f'the start needs {needs}; ' if needs else ''}which partitions the broker serves is in ZooKeeper: others are"
        f" loaded, and {stay}; releases before 3.6 refuse stray folders, see --release"
    )


def refused_strays(directory: LogDirectory) -> Iterator[LoadRefusedError]:
    """Yield the refusals of folders that a later release has made stray."""
    for folder in directory.folders:
        if folder.name.state == "stray":
            message = UNNAMED.format(directory.path, folder.path.rpartition("/")[2])
            yield LoadRefusedError(KAFKA, message, folder.path)


def unreadable_topic_ids(directory: LogDirectory) -> Iterator[LoadRefusedError]:
    """Yield the refusals of files with topic ids whose version only later releases accept."""
    for folder in directory.folders:
        path = f"{folder.path}/partition.metadata"
        if folder.topic_id is None:
            continue
        with open_source(path) as source:
            versions = [row.version for row in read_partition_metadata(source) if isinstance(row, PartitionMetadata)]
        if versions and versions[0] > 0:
            message = f"Unrecognized version of partition metadata file ({path}): {versions[0]}"
            yield LoadRefusedError(IO, message, path, is_storage=True)


def voters_fault(metadata: LoadedMetadata) -> LoadRefusedError | None:
    """Return the refusal of voters in the quorum state that differ from those that elected the last controller.

    A broker compares them with its settings, which the log directory does not have.
    """
    voters, electorate = sorted(metadata.voters or ()), list[int]()
    for record in _records(metadata.folder) if voters else ():
        if record.kind == "LEADER_CHANGE" and record.value is not None:
            electorate = sorted(each["voterId"] for each in record.value["voters"])
    if not voters or not electorate or voters == electorate:
        return None
    message = VOTERS.format(", ".join(map(str, electorate)), voters)
    return LoadRefusedError(ILLEGAL_STATE, message, f"{metadata.folder}/quorum-state")


def as_logged(refusal: LoadRefusedError, release: Release, *, is_before_metadata: bool) -> LoadRefusedError:
    """Return a refusal with the exception that a release logs.

    Args:
        refusal: what the newest releases log.
        release: the release.
        is_before_metadata: whether it refuses before it reads the metadata log, which it does first of all.
    """
    if refusal.message.startswith(UNREPLAYED) and release < RUNTIME_SINCE:
        return LoadRefusedError(ILLEGAL_STATE, refusal.message, refusal.path)
    if release < STRAYS_READ_SINCE and refusal.exception == FILE_SYSTEM:
        return LoadRefusedError(NOT_EMPTY, refusal.message, refusal.path, is_storage=True)
    if release >= STRAYS_SINCE:
        return refusal
    if refusal.message == UNREADABLE:
        log_dir = refusal.path.rpartition("/")[0]
        is_there = any(entry.path == refusal.path for entry in folders_of(log_dir).children(log_dir))
        return refusal if is_there else LoadRefusedError(KAFKA, UNFORMATTED.format(log_dir), refusal.path)
    if refusal.message.startswith(UNFORMATTED.partition("{")[0]):
        return LoadRefusedError(KAFKA, refusal.message, refusal.path)
    if is_before_metadata and refusal.message.startswith(DISAGREEMENTS):
        return LoadRefusedError(INCONSISTENT, NOT_CONSISTENT, refusal.path)
    if not refusal.message.startswith("Stored node id"):
        return refusal
    node_id = refusal.message.split()[3]
    message = f"Configured node.id doesn't match stored node.id `{node_id}' in meta.properties."
    return LoadRefusedError(NODE_ID, message, refusal.path)
