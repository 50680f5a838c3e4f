"""What a release does not accept in the metadata of a cluster: after such an upgrade or downgrade no broker starts.

Rules: ``MetadataVersion.fromFeatureLevel``, ``LogConfig.fromProps`` of every topic in the metadata, and the versions of
records in ``AbstractApiMessageSerde``. ``lab/forecast/releases.py`` starts real brokers of 3.9.1 to 4.4.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kforensics.errors import InputMissingError
from kforensics.forensics.core.commands import BOOTSTRAP
from kforensics.forensics.forecast.effects import ILLEGAL_ARGUMENT, RUNTIME, LoadRefusedError
from kforensics.forensics.forecast.metadata_loading import LoadedMetadata
from kforensics.forensics.metadata.cluster_image import TOPIC, ClusterImage
from kforensics.forensics.metadata.cluster_metadata import log_records
from kforensics.forensics.metadata.metadata_versions import (
    KNOWN,
    METADATA_VERSION,
    Levels,
    Release,
    level_name,
    release_name,
)
from kforensics.parsers.messages import metadata as schemas
from kforensics.parsers.messages.schema import MessageSchema, layout

__all__ = [
    "ReleaseRefusedError",
    "refused_setting",
    "release_numbers",
    "rules_of",
    "unreadable_metadata",
]

# The first releases with other rules of loading logs; ``older_releases`` has what else differs before 3.9.
RULES = ("3.3", "4.4")

CONFIG = "org.apache.kafka.common.config.ConfigException"
PARSE = "org.apache.kafka.server.common.serialization.MetadataParseException"
# Later releases read it only while the metadata log is empty.
BOOTSTRAP_CHECKPOINT, LAST_TO_READ_BOOTSTRAP = "bootstrap.checkpoint", (4, 0)
SEGMENT_BYTES, LEAST_SEGMENT_BYTES, LEAST_SINCE = "segment.bytes", 1 << 20, (4, 1)
SCHEMAS = {each.name: each for each in vars(schemas).values() if isinstance(each, MessageSchema)}


class ReleaseRefusedError(LoadRefusedError):
    """Metadata that a release does not accept.

    Attributes:
        remedy: what to do before the release is started.
        command: a shell command for it; empty if there is none.
    """

    def __init__(self, exception: str, message: str, path: str, remedy: str, command: str = "") -> None:
        super().__init__(exception, message, path)
        self.remedy, self.command = remedy, command


def release_numbers(release: str) -> Release:
    """Return major and minor number of a release, such as ``4.4.0``.

    Raises:
        ValueError: it is no release of Kafka.
    """
    major, minor = map(int, release.split(".")[:2])
    return major, minor


def rules_of(release: Release | None) -> str:
    """Return the release whose rules of loading logs count, the newest if the release is unknown.

    Releases before the first whose starts were recorded follow that one.
    """
    older = (each for each in reversed(RULES) if release is None or release_numbers(each) <= release)
    return next(older, RULES[0])


def unreadable_metadata(
    metadata: LoadedMetadata, release: Release | None, node_id: int | None
) -> ReleaseRefusedError | None:
    """Return the refusal of metadata that the release does not read, None if it reads it, or is unknown.

    Args:
        metadata: what the metadata log has.
        release: the release that is started.
        node_id: id of the node; one of the voters is a controller.

    Raises:
        InputError: ``bootstrap.checkpoint`` cannot be read.
    """
    if release is None or release not in KNOWN:
        return None
    levels = KNOWN[release]
    bootstrap = f"{metadata.folder.rpartition('/')[0]}/{BOOTSTRAP_CHECKPOINT}"
    formatted = _bootstrap_level(bootstrap) if release <= LAST_TO_READ_BOOTSTRAP else None
    return (
        _unknown_level(formatted, levels, release, bootstrap)
        or _unknown_record(metadata.versions, release, metadata.folder)
        or _unknown_level(_level_of(metadata), levels, release, metadata.folder)
        or (_unfinished_level(metadata, levels, release) if node_id in metadata.controllers else None)
    )


def refused_setting(metadata: LoadedMetadata | None, release: Release | None) -> ReleaseRefusedError | None:
    """Return the refusal of a setting of a topic, wherever its partitions are; None if the release accepts all."""
    if metadata is None or release is None or release < LEAST_SINCE:
        return None
    small = list(_too_small(metadata.image))
    if not small:
        return None
    topics = ", ".join(topic for topic, _ in small)
    message = (
        f"Invalid value {small[0][1]} for configuration {SEGMENT_BYTES}: Value must be at least {LEAST_SEGMENT_BYTES}"
    )
    remedy = (
        f"From 4.1 on no broker starts while a topic has {SEGMENT_BYTES} below {LEAST_SEGMENT_BYTES}: {topics}. Change"
        " it while the brokers still run the old release."
    )
    alter = (
        f"kafka-configs.sh --bootstrap-server {BOOTSTRAP} --alter --entity-type topics --entity-name {{}} --add-config"
        f" {SEGMENT_BYTES}={LEAST_SEGMENT_BYTES}"
    )
    command = " && ".join(alter.format(topic) for topic, _ in small)
    return ReleaseRefusedError(CONFIG, message, metadata.folder, remedy, command)


def _unknown_record(versions: Mapping[str, int], release: Release, path: str) -> ReleaseRefusedError | None:
    """Return the refusal of records whose type or version the release does not know."""
    name = release_name(release)
    for kind, version in versions.items():
        schema = SCHEMAS[kind]
        is_known = schema.known_to(name)
        if not is_known or version > layout(schema, name).highest_version:
            what = f"version {version} of {kind}" if is_known else kind
            message = f"Failed to deserialize record with type {schema.id}: {name} does not know {what}"
            return ReleaseRefusedError(PARSE, message, path, _newer(release))
    return None


def _bootstrap_level(path: str) -> int | None:
    """Return the ``metadata.version`` that the cluster was formatted with."""
    try:
        records = list(log_records(path, 0))
    except InputMissingError:
        return None
    levels = [one.value for one in records if one.kind == "FeatureLevelRecord" and one.value is not None]
    return next((value["featureLevel"] for value in levels if value["name"] == METADATA_VERSION), None)


def _level_of(metadata: LoadedMetadata) -> int | None:
    return metadata.image.features.get(METADATA_VERSION)


def _unknown_level(level: int | None, levels: Levels, release: Release, path: str) -> ReleaseRefusedError | None:
    """Return the refusal of a ``metadata.version`` that the release does not read."""
    if level is None or levels.lowest <= level <= levels.highest:
        return None
    message = f"No MetadataVersion with feature level {level}"
    if release >= (4, 0):
        message += f". Valid feature levels are from {levels.lowest} to {levels.highest}."
    if level > levels.highest:
        return ReleaseRefusedError(ILLEGAL_ARGUMENT, message, path, _newer(release))
    remedy = (
        f"The metadata has metadata.version {level_name(level)}, and 4.0 and later need 3.3-IV3 at least. Raise it"
        " while the brokers still run a release before 4.0."
    )
    command = f"kafka-features.sh --bootstrap-server {BOOTSTRAP} upgrade --metadata 3.9"
    return ReleaseRefusedError(ILLEGAL_ARGUMENT, message, path, remedy, command)


def _unfinished_level(metadata: LoadedMetadata, levels: Levels, release: Release) -> ReleaseRefusedError | None:
    """Return the refusal of a ``metadata.version`` that a controller of the release does not support."""
    level = _level_of(metadata)
    if level is None or level <= levels.finished:
        return None
    record = f"FeatureLevelRecord(name='{METADATA_VERSION}', featureLevel={level})"
    supported = f"{levels.lowest}-{levels.finished}"
    message = f"Tried to apply FeatureLevelRecord {record}, but this controller only supports versions {supported}"
    return ReleaseRefusedError(RUNTIME, message, metadata.folder, _newer(release))


def _too_small(image: ClusterImage) -> Iterator[tuple[str, int]]:
    for (kind, topic), values in sorted(image.configs.items()):
        value = values.get(SEGMENT_BYTES)
        if kind == TOPIC and topic in image.names and value is not None and int(value) < LEAST_SEGMENT_BYTES:
            yield topic, int(value)


def _newer(release: Release) -> str:
    name = release_name(release)
    return f"Start the release that the cluster ran: {name} does not read its metadata, and Kafka cannot downgrade it."
