"""Finds all names that results may show, so that they can be redacted: in logs, or in the tables of a store."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from kforensics.analyses.partitions import Investigation
from kforensics.errors import InputError
from kforensics.forensics.coordinators.component_names import id_naming, workers_among
from kforensics.forensics.metadata.image_entities import image_rows
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.log_names import METADATA_TOPIC
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import read_records
from kforensics.parsers.messages.internal_records import DecodedMessage, decode_record
from kforensics.parsers.messages.registry import INTERNAL_TOPICS
from kforensics.render.redaction import JSON_COLUMNS, KIND_OF_COLUMN, NameKind, Redaction

__all__ = ["NAME_COLUMNS", "learn_names", "learn_stored_names"]

# Fields of the records of internal topics, by Kafka's names, whatever their record type.
KIND_OF_FIELD = {
    **dict.fromkeys(
        (
            *("transactionalId", "memberId", "clientId", "groupInstanceId", "instanceId", "leader", "processId"),
            *("rack", "rackId", "racks", "entityName", "principal", "owner", "requester", "renewers", "tokenId"),
            "metadata",
        ),
        NameKind.ID,
    ),
    **dict.fromkeys(("group", "groupId"), NameKind.GROUP),
    **dict.fromkeys(("host", "clientHost"), NameKind.HOST),
    **dict.fromkeys(
        (
            *("topic", "topicName", "topics", "subscribedTopicNames", "subscribedTopicRegex", "regularExpression"),
            *("sourceTopics", "sourceTopicRegex", "repartitionSinkTopics"),
        ),
        NameKind.TOPIC,
    ),
}
# What ConfigRecord and AccessControlEntryRecord name, by their resource type; anything else is an id.
TOPIC_RESOURCE, GROUP_RESOURCES = 2, {"ConfigRecord": 32, "AccessControlEntryRecord": 3, "AccessControlRecord": 3}
# Values of settings that Kafka chooses from, or that are numbers; others may be names.
USUAL_VALUE = re.compile(r"[\w., -]*")
# Entities of the table cluster_image that are people or clients, and those whose value names some.
PEOPLE, PEOPLE_IN_VALUE = ("quota", "acl", "scram_user", "delegation_token"), ("acl", "delegation_token")
HOSTS = re.compile(r"://(\[[^]]*\]|[^:,]*)")
NAME_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "files": ("topic",),
    "partitions": ("topic",),
    "transactional_ids": ("transactional_id",),
    "coordinator_transactions": ("transactional_id",),
    "group_offsets": ("group", "committed_topic", "metadata"),
    "committed_offsets": ("group", "committed_topic", "metadata"),
    "cluster_image": ("kind", "name", "value"),
    "findings": ("topic", "evidence"),
    "incidents": ("transactional_ids", "groups", "evidence"),
}


def learn_names(redaction: Redaction, investigation: Investigation) -> Redaction:
    """Make all names known that an investigation may show, and return the redaction.

    They are those of all files and of checkpoints, and those in the records of internal topics, which are read for it.
    """
    learn_topics(redaction, investigation.files)
    ids: set[str] = set()
    for partition in (*investigation.partitions, *investigation.neighbors):
        redaction.add(NameKind.TOPIC, partition.place.topic)
        for offsets in partition.log_dir.checkpoints.values():
            for topic, _ in offsets:
                redaction.add(NameKind.TOPIC, topic)
        if partition.place.topic in INTERNAL_TOPICS:
            for kind, name in _names_in(partition):
                redaction.add(kind, name)
                if kind is NameKind.ID:
                    ids.add(name)
        if partition.place.topic == METADATA_TOPIC:
            with suppress(InputError):  # what cannot be read is not shown
                _learn_rows(redaction, (dict(zip(*pair, strict=True)) for pair in _image(partition)))
    _learn_parts(redaction, ids)
    return redaction


def learn_topics(redaction: Redaction, files: Iterable[FoundFile]) -> None:
    """Make the topics of files known."""
    for file in files:
        redaction.add(NameKind.TOPIC, file.topic)


def learn_stored_names(redaction: Redaction, rows: Iterable[Mapping[str, Any]]) -> Redaction:
    """Make the names known that are in rows of the tables of a store, and return the redaction.

    Args:
        redaction: what is to know them.
        rows: the columns ``NAME_COLUMNS`` of these tables.
    """
    ids: set[str] = set()
    _learn_rows(redaction, (_with_ids(row, ids) for row in rows))
    _learn_parts(redaction, ids)
    return redaction


def _with_ids(row: Mapping[str, Any], ids: set[str]) -> Mapping[str, Any]:
    if name := row.get("transactional_id"):
        ids.add(name)
    return row


def _learn_parts(redaction: Redaction, ids: Iterable[str]) -> None:
    """Make known what the names of transactional ids show about applications, which explanations repeat."""
    workers = workers_among(ids)
    for name in ids:
        naming = id_naming(name, workers)
        if naming is not None:
            redaction.add(NameKind.ID, naming.part)


def _image(partition: Partition) -> Iterator[tuple[tuple[str, ...], tuple[Any, ...]]]:
    rows = image_rows(partition)
    return ((rows.table.names, row) for row in rows)


def _learn_rows(redaction: Redaction, rows: Iterable[Mapping[str, Any]]) -> None:
    for row in rows:
        for column, value in row.items():
            if not isinstance(value, str):
                continue
            if column in JSON_COLUMNS:
                _learn_evidence(redaction, column, _parsed(value))
            elif column in KIND_OF_COLUMN:
                redaction.add(KIND_OF_COLUMN[column], value)
            elif column == "metadata":
                redaction.add(NameKind.ID, value)
        if kind := row.get("kind"):
            _learn_entity(redaction, kind, row.get("name") or "", row.get("value") or "")


def _learn_entity(redaction: Redaction, kind: str, name: str, value: str) -> None:
    """Make the names known that a row of the table ``cluster_image`` has."""
    if kind == "topic":
        redaction.add(NameKind.TOPIC, name)
    elif kind in PEOPLE:
        redaction.add(NameKind.ID, name)
    elif kind in ("broker", "controller"):
        for host in HOSTS.findall(value):
            redaction.add(NameKind.HOST, host)
    if kind in PEOPLE_IN_VALUE or (kind == "config" and _may_be_name(value)):
        redaction.add(NameKind.ID, value)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # a damaged store
        return None


def _learn_evidence(redaction: Redaction, field: str, value: Any) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            _learn_evidence(redaction, name, inner)
    elif isinstance(value, list):
        for inner in value:
            _learn_evidence(redaction, field, inner)
    elif isinstance(value, str) and field in KIND_OF_COLUMN:
        redaction.add(KIND_OF_COLUMN[field], value)


def _may_be_name(value: str) -> bool:
    return USUAL_VALUE.fullmatch(value) is None


def _names_in(partition: Partition) -> Iterator[tuple[NameKind, str]]:
    """Yield the names in the records of an internal topic; what cannot be read is not shown either."""
    topic = partition.place.topic or ""
    for segment in partition.segments:
        with suppress(InputError), open_source(segment.path) as source:
            for batch in walk(source):
                if not isinstance(batch, Batch) or batch.is_control:
                    continue
                for record in read_records(source, batch):
                    if isinstance(record, Record):
                        yield from _names_of(decode_record(topic, record.key, record.value))


def _names_of(message: DecodedMessage) -> Iterator[tuple[NameKind, str]]:
    for fields in (message.key, message.value):
        if fields is not None:
            yield from _fields(fields)
            yield from _own_fields(message.type_name, fields)


def _fields(fields: Mapping[str, Any]) -> Iterator[tuple[NameKind, str]]:
    for field, value in fields.items():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                yield from _fields(each)
            elif isinstance(each, str) and field in KIND_OF_FIELD:
                yield KIND_OF_FIELD[field], each
                if field in {"principal", "owner"}:
                    yield NameKind.ID, each.partition(":")[2]


def _own_fields(record: str | None, fields: Mapping[str, Any]) -> Iterator[tuple[NameKind, str]]:
    """Yield the names in fields whose meaning depends on the type of the record."""
    if record == "TopicRecord":
        yield NameKind.TOPIC, fields["name"]
    elif record in ("UserScramCredentialRecord", "RemoveUserScramCredentialRecord"):
        yield NameKind.ID, fields["name"]
    if resource := fields.get("resourceName"):
        number = fields.get("resourceType")
        other = NameKind.GROUP if number == GROUP_RESOURCES.get(record or "") else NameKind.ID
        yield (NameKind.TOPIC if number == TOPIC_RESOURCE else other), resource
    if record == "ConfigRecord" and fields.get("value") and _may_be_name(fields["value"]):
        yield NameKind.ID, fields["value"]
