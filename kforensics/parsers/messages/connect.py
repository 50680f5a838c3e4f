"""The records of the three topics in which a Kafka Connect cluster keeps its state, as its JSON converter writes them.

Rules: ``KafkaOffsetBackingStore`` and ``OffsetStorageWriter`` for the offsets of source connectors,
``KafkaStatusBackingStore`` and ``KafkaConfigBackingStore``. The names of the topics are settings of the workers, so the
keys show what a record is.
"""

from __future__ import annotations

import json
import re
from enum import StrEnum
from typing import Any, Final, NamedTuple

from kforensics.parsers.messages.reader import RUNTIME, MessageError

__all__ = ["CONNECT_TOPICS", "HIDDEN", "ConnectKind", "ConnectRecord", "connect_record", "without_secrets"]

# Names that such topics may have: those of Kafka's configuration files, of MirrorMaker 2, and what people call them.
CONNECT_TOPICS: Final = re.compile(
    r"mm2-(offsets|configs|status)\..+\.internal|(?!__).+[-._](offsets?|configs?|status)"
)
# Instead of a value that may be a secret.
HIDDEN: Final = "(not shown)"
# The settings of connectors and tasks that name nothing confidential; the values of all others may be passwords.
_SHOWN: Final = frozenset(
    (
        *("name", "connector.class", "task.class", "tasks.max", "topic", "topics", "topics.regex", "transforms"),
        *("exactly.once.support", "transaction.boundary", "transaction.boundary.interval.ms", "offsets.storage.topic"),
        *("key.converter", "value.converter", "header.converter", "errors.tolerance", "source.cluster.alias"),
        *("target.cluster.alias", "enabled", "offset.lag.max", "task.index"),
    )
)
_SHOWN_OF_SESSION: Final = frozenset(("algorithm", "creation-timestamp"))


class ConnectKind(StrEnum):
    """What a record is."""

    SOURCE_OFFSET = "source-offset"
    CONNECTOR_STATUS = "connector-status"
    TASK_STATUS = "task-status"
    TOPIC_STATUS = "topic-status"
    CONNECTOR_CONFIG = "connector-config"
    TASK_CONFIG = "task-config"
    TASKS_COMMIT = "tasks-commit"
    TASK_COUNT = "task-count"
    TARGET_STATE = "target-state"
    SESSION_KEY = "session-key"
    RESTART = "restart"
    LOGGER_LEVEL = "logger-level"


_CONNECTOR, _TASK, _TOPIC = "(?P<connector>.+)", "-(?P<task>[0-9]{1,9})", "(?P<topic>.+)"
# The most specific comes first. ``ConnectorTaskId`` is the name of the connector, a hyphen and the number.
_KEYS: Final = (
    (ConnectKind.TOPIC_STATUS, re.compile(f"status-topic-{_TOPIC}:connector-{_CONNECTOR}")),
    (ConnectKind.CONNECTOR_STATUS, re.compile(f"status-connector-{_CONNECTOR}")),
    (ConnectKind.TASK_STATUS, re.compile(f"status-task-{_CONNECTOR}{_TASK}")),
    (ConnectKind.CONNECTOR_CONFIG, re.compile(f"connector-{_CONNECTOR}")),
    (ConnectKind.TASK_COUNT, re.compile(f"tasks-fencing-{_CONNECTOR}")),
    (ConnectKind.TASK_CONFIG, re.compile(f"task-{_CONNECTOR}{_TASK}")),
    (ConnectKind.TASKS_COMMIT, re.compile(f"commit-{_CONNECTOR}")),
    (ConnectKind.TARGET_STATE, re.compile(f"target-state-{_CONNECTOR}")),
    (ConnectKind.RESTART, re.compile(f"restart-connector-{_CONNECTOR}")),
    (ConnectKind.LOGGER_LEVEL, re.compile(f"logger-cluster-{_TOPIC}")),
    (ConnectKind.SESSION_KEY, re.compile("session-key")),
)


class ConnectRecord(NamedTuple):
    """A record of Kafka Connect.

    Attributes:
        kind: what it is.
        connector: the connector, None for a record of all.
        task: number of the task, None for any other record.
        topic: the topic that the connector uses, or the logger; None for any other record.
        partition: the source partition of an offset; None for any other record.
        value: its fields; None for a tombstone.
    """

    kind: ConnectKind
    connector: str | None
    task: int | None
    topic: str | None
    partition: dict[str, Any] | None
    value: dict[str, Any] | None


def connect_record(key: bytes | None, value: bytes | None) -> ConnectRecord | None:
    """Return a record of Kafka Connect, None if its key is of no kind.

    >>> connect_record(b"tasks-fencing-files", b'{"task-count":2}')[:3]
    (<ConnectKind.TASK_COUNT: 'task-count'>, 'files', None)

    Raises:
        MessageError: its value is no JSON object.
    """
    names = _names(key)
    if names is None:
        return None
    if value is None:
        return names
    fields = _json(value)
    if not isinstance(fields, dict):
        raise MessageError(RUNTIME, f"the value of a record of Kafka Connect ({names.kind}) is not a JSON object")
    return names._replace(value=fields)


def _names(key: bytes | None) -> ConnectRecord | None:
    text = (key or b"").decode("utf-8", "replace")
    if text.startswith("["):
        match _json(key or b""):
            case [str() as connector, dict() as partition]:
                return ConnectRecord(ConnectKind.SOURCE_OFFSET, connector, None, None, partition, None)
        return None
    for kind, pattern in _KEYS:
        if fits := pattern.fullmatch(text):
            parts = fits.groupdict()
            task = parts.get("task")
            number = None if task is None else int(task)
            return ConnectRecord(kind, parts.get("connector"), number, parts.get("topic"), None, None)
    return None


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        return None


def without_secrets(record: ConnectRecord) -> dict[str, Any] | None:
    """Return the fields of a record without what may be a secret.

    These are the key with which workers sign requests to each other, and the settings of connectors and tasks but for
    those that are known to be none.
    """
    value = record.value
    if value is None:
        return None
    if record.kind is ConnectKind.SESSION_KEY:
        return {name: field if name in _SHOWN_OF_SESSION else HIDDEN for name, field in value.items()}
    if record.kind in (ConnectKind.CONNECTOR_CONFIG, ConnectKind.TASK_CONFIG):
        return {name: _shown(field) for name, field in value.items()}
    return value


def _shown(properties: Any) -> Any:
    if not isinstance(properties, dict):
        return HIDDEN
    return {name: text if name in _SHOWN else HIDDEN for name, text in properties.items()}
