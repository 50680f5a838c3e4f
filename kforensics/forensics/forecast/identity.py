"""The identity of log directories in ``meta.properties``: what a broker refuses, alone or beside others.

Rules: ``MetaPropertiesEnsemble.verify``; with ZooKeeper ``KafkaServer.getBrokerMetadataAndOfflineDirs``.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from itertools import takewhile

from kforensics.forensics.forecast.effects import RUNTIME, Effect, LoadRefusedError
from kforensics.forensics.forecast.log_directory import META, LogDirectory
from kforensics.forensics.forecast.metadata_loading import UNACKNOWLEDGED, LoadedMetadata
from kforensics.parsers.files.meta_properties import MetaProperties

__all__ = [
    "INCONSISTENT",
    "NOT_CONSISTENT",
    "UNFORMATTED",
    "UNREADABLE",
    "identity_fault",
    "is_reserved",
    "registration_fault",
    "unnamed_directories",
    "unnamed_ids",
    "zookeeper_fault",
]

# Ids below this one are reserved for directories that are unassigned, lost or migrating, and for later use.
RESERVED = 100
INCONSISTENT = "kafka.common.InconsistentBrokerMetadataException"
NOT_CONSISTENT = "BrokerMetadata is not consistent across log.dirs."
UNREADABLE = "No readable meta.properties files found."
UNFORMATTED = "No `meta.properties` found in {} (have you run `kafka-storage.sh` to format the directory?)"


def identity_fault(directories: Sequence[LogDirectory]) -> LoadRefusedError | Effect | None:
    """Return what a broker refuses about the identity of its log directories, or what about it is not known.

    Args:
        directories: all of them; at least one has an identity.
    """
    for directory in directories:
        path = f"{directory.path}/{META}"
        if directory.refusals and directory.meta is None and not directory.folders:
            continue  # it is offline
        if directory.meta is None and directory.meta_fault is not None:
            why = f"{path} cannot be read ({directory.meta_fault})"
            return Effect("not-known", f"{why}; what a broker with other log directories does is open", path=path)
        message = _fault(directory) or _disagreement(directory, directories)
        if message is not None:
            return LoadRefusedError(RUNTIME, message, path)
    return None


def zookeeper_fault(directories: Sequence[LogDirectory]) -> LoadRefusedError | None:
    """Return what a broker with ZooKeeper refuses about the identity of its log directories.

    It writes a ``meta.properties`` again that is missing or has no id. Whether broker id and cluster id are those of
    its settings and of ZooKeeper, the log directories do not show.
    """
    faulty = next((each for each in directories if each.meta_fault is not None), None)
    if faulty is not None:
        return LoadRefusedError(RUNTIME, faulty.meta_fault or "", f"{faulty.path}/{META}")
    known = {each.path: (each.meta.node_id, each.meta.cluster_id) for each in directories if each.meta is not None}
    first = next(iter(known.values()))
    other = next((path for path, ids in known.items() if ids != first), None)
    return None if other is None else LoadRefusedError(INCONSISTENT, NOT_CONSISTENT, f"{other}/{META}")


def registration_fault(directories: Sequence[LogDirectory], metadata: LoadedMetadata) -> LoadRefusedError | None:
    """Return what a broker refuses about its identity as the metadata has it.

    Args:
        directories: all its log directories; one has the metadata log.
        metadata: what the metadata log has.
    """
    for directory in directories:
        meta, path = directory.meta, f"{directory.path}/{META}"
        if meta is None or meta.node_id is None:
            continue
        registered = metadata.directories.get(meta.directory_id or "")
        is_broker = meta.node_id in metadata.image.brokers  # perhaps without being a controller
        if registered is None and not is_broker and metadata.voters is not None and len(metadata.voters) == 1:
            registered = metadata.voters[0]
        if registered is not None and registered != meta.node_id:
            message = f"Stored node id {meta.node_id} doesn't match previous node id {registered} in {path}."
            return LoadRefusedError(RUNTIME, message, path)
    return _lone_voter(next(each for each in directories if each.has_metadata), metadata)


def unnamed_directories(directories: Sequence[LogDirectory], metadata: LoadedMetadata) -> Iterator[Effect]:
    """Yield which log directories the broker registered last that are none of those that are looked at.

    With a new one among them an old one was replaced.

    Args:
        directories: those that are looked at.
        metadata: what the metadata log has.
    """
    for directory_id in unnamed_ids([each.meta for each in directories if each.meta is not None], metadata):
        detail = (
            f"the log directory with directory.id={directory_id}, which the broker registered last, is none of"
            " these: what is in it is left out, and the broker refuses to start if it is empty now"
        )
        yield Effect("not-known", detail, silent=True)


def unnamed_ids(metas: Sequence[MetaProperties], metadata: LoadedMetadata) -> list[str]:
    """Return the ids of the log directories that the broker registered last, without those that are looked at.

    Args:
        metas: the identities of those that are looked at.
        metadata: what the metadata log has.
    """
    known, nodes = {meta.directory_id for meta in metas}, {meta.node_id for meta in metas}
    if not known <= metadata.directories.keys():
        return []
    return [each for each, node_id in metadata.directories.items() if node_id in nodes and each not in known]


def _lone_voter(directory: LogDirectory, metadata: LoadedMetadata) -> LoadRefusedError | None:
    """Return the refusal of the only voter of a dynamic quorum, if the voter has another directory id.

    No controller is elected, and the broker ends after ``initial.broker.registration.timeout.ms``, a minute by default.
    """
    meta = directory.meta
    if meta is None or meta.node_id is None or not metadata.has_only_controller(meta.node_id):
        return None
    voter = metadata.controllers[meta.node_id]
    if voter is None or voter == meta.directory_id:
        return None
    message = f"{UNACKNOWLEDGED}: the only voter is node {meta.node_id} in directory {voter}, not {meta.directory_id}"
    return LoadRefusedError(RUNTIME, message, f"{directory.path}/{META}")


def _fault(directory: LogDirectory) -> str | None:
    meta = directory.meta
    if meta is None:
        return UNFORMATTED.format(directory.path)
    if meta.node_id is None:
        return f"Error: node ID not found in {directory.path}"
    if is_reserved(meta.directory_id):
        return f"Invalid reserved directory ID {meta.directory_id} found in {directory.path}"
    return None


def _disagreement(directory: LogDirectory, directories: Sequence[LogDirectory]) -> str | None:
    """Return how a log directory disagrees with one before it."""
    meta, path = directory.meta, f"{directory.path}/{META}"
    for other in takewhile(lambda each: each is not directory, directories):
        if meta is None or other.meta is None:
            continue
        if other.meta.node_id != meta.node_id:
            return f"Stored node id {meta.node_id} doesn't match previous node id {other.meta.node_id} in {path}."
        if other.meta.cluster_id != meta.cluster_id:
            return f"Invalid cluster.id in: {path}. Expected {other.meta.cluster_id}, but read {meta.cluster_id}"
        if meta.directory_id is not None and other.meta.directory_id == meta.directory_id:
            places = f"It was the ID of {other.path}, but also of {directory.path}"
            return f"Duplicate directory ID Optional[{meta.directory_id}] found. {places}"
    return None


def is_reserved(directory_id: str | None) -> bool:
    """Return whether a directory id is one of those that name no directory."""
    if directory_id is None:
        return False
    padded = directory_id + "=" * (-len(directory_id) % 4)
    return int.from_bytes(base64.urlsafe_b64decode(padded), "big") < RESERVED
