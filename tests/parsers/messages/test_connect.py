"""Records of Kafka Connect: what their keys say, and that nothing confidential is shown of their values."""

from __future__ import annotations

import json
from collections import Counter

import pytest

import kforensics
from kforensics.parsers.messages.connect import CONNECT_TOPICS, HIDDEN, ConnectKind, connect_record, without_secrets
from kforensics.parsers.messages.reader import MessageError
from tests.command import ROOT, dump, sentence

MIRROR = ROOT / "tests" / "data" / "mirror" / "target" / "broker-1"
CONFIDENTIAL = "hunter2"
# Kind, connector, task and topic by key.
KEYS = {
    "session-key": (ConnectKind.SESSION_KEY, None, None, None),
    "connector-a-1": (ConnectKind.CONNECTOR_CONFIG, "a-1", None, None),
    "task-a-1-12": (ConnectKind.TASK_CONFIG, "a-1", 12, None),
    "commit-a": (ConnectKind.TASKS_COMMIT, "a", None, None),
    "tasks-fencing-a": (ConnectKind.TASK_COUNT, "a", None, None),
    "target-state-a": (ConnectKind.TARGET_STATE, "a", None, None),
    "restart-connector-a": (ConnectKind.RESTART, "a", None, None),
    "logger-cluster-org.apache": (ConnectKind.LOGGER_LEVEL, None, None, "org.apache"),
    "status-connector-a": (ConnectKind.CONNECTOR_STATUS, "a", None, None),
    "status-task-a-0": (ConnectKind.TASK_STATUS, "a", 0, None),
    "status-topic-t:connector-a": (ConnectKind.TOPIC_STATUS, "a", None, "t"),
}


@pytest.mark.parametrize("key", KEYS)
def test_the_key_shows_what_a_record_is(key: str) -> None:
    record = connect_record(key.encode(), b'{"a":1}')
    assert record is not None
    assert record[:4] == KEYS[key]
    assert record.value == {"a": 1}
    tombstone = connect_record(key.encode(), None)
    assert tombstone is not None
    assert tombstone.value is None


def test_a_source_offset_has_a_connector_and_a_part_of_its_source() -> None:
    record = connect_record('["c",{"file":"größe"}]'.encode(), b'{"position":14}')
    assert record is not None
    assert record == (ConnectKind.SOURCE_OFFSET, "c", None, None, {"file": "größe"}, {"position": 14})


@pytest.mark.parametrize("key", [None, b"", b"order-1", b"task-a", b"[1]", b'["c",1]', b"[" * 100_000, b"\xff["])
def test_other_keys_are_no_records_of_connect(key: bytes | None) -> None:
    assert connect_record(key, b"{}") is None


@pytest.mark.parametrize("value", [b"", b"12", b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_value_that_is_no_object_is_refused(value: bytes) -> None:
    with pytest.raises(MessageError, match="is not a JSON object"):
        connect_record(b"commit-a", value)


def test_secrets_are_not_shown() -> None:
    properties = {
        "connector.class": "C",
        "database.password": CONFIDENTIAL,
        "connection.url": f"jdbc:x?password={CONFIDENTIAL}",
    }
    for key, value in (
        ("session-key", {"key": CONFIDENTIAL, "algorithm": "HmacSHA256", "creation-timestamp": 1}),
        ("session-key", {"key": CONFIDENTIAL, "new": CONFIDENTIAL}),
        ("connector-a", {"properties": properties, "new": CONFIDENTIAL}),
        ("task-a-0", {"properties": {**properties, "other": {"nested": CONFIDENTIAL}}}),
    ):
        record = connect_record(key.encode(), json.dumps(value).encode())
        assert record is not None
        shown = without_secrets(record)
        assert CONFIDENTIAL not in json.dumps(shown)
        assert HIDDEN in json.dumps(shown)
    assert json.loads(json.dumps(shown))["properties"]["connector.class"] == "C"


def test_every_record_of_the_workers_of_mirror_maker_is_recognized() -> None:
    kinds = Counter[str]()
    for topic in ("mm2-configs.source.internal", "mm2-offsets.source.internal", "mm2-status.source.internal"):
        assert CONNECT_TOPICS.fullmatch(topic)
        for row in kforensics.dump(MIRROR / f"{topic}-0").records.to_pylist():
            record = connect_record(row["key"], row["value"])
            assert record is not None, row["key"]
            kinds[record.kind] += 1
    assert kinds.keys() >= {"session-key", "connector-config", "task-config", "tasks-commit", "source-offset"}
    assert kinds.keys() >= {"connector-status", "task-status", "topic-status"}


def test_the_command_prints_lines_of_json_without_the_key_of_the_session() -> None:
    (record,) = (
        row
        for row in kforensics.dump(MIRROR / "mm2-configs.source.internal-0").records.to_pylist()
        if row["key"] == b"session-key"
    )
    secret = json.loads(record["value"])["key"]
    ended = dump("--formatter", "connect", MIRROR)
    lines = [json.loads(line) for line in ended.lines]
    assert (ended.code, ended.err) == (0, "")
    assert secret not in ended.text
    assert [line["value"]["algorithm"] for line in lines if line["kind"] == "session-key"] == ["HmacSHA256"]
    offsets = [line for line in lines if line["kind"] == "source-offset" and line["partition"].get("topic") == "orders"]
    assert [line["value"] for line in offsets] == [{"offset": 23}]
    assert "has no style" in sentence(dump("--formatter", "connect", "--style", "4.3", MIRROR))


def test_names_of_other_topics_are_left_alone() -> None:
    assert not CONNECT_TOPICS.fullmatch("__consumer_offsets")
    assert not CONNECT_TOPICS.fullmatch("orders")
    assert CONNECT_TOPICS.fullmatch("etl-offsets")
