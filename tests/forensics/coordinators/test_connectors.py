"""What is known about connectors: the offsets of committed records count, and fencing follows the task count record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kforensics.forensics.coordinators.connectors import Connector, connectors_of, is_of_connect
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.render.connector_text import connector_lines
from kforensics.render.screen import Screen
from tests.command import ROOT
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import Content, forge
from tests.forensics.partition_states import partitions_under

MIRROR = ROOT / "tests" / "data" / "mirror" / "target"
OFFSET = b'["files",{"filename":"a.txt"}]'


def _connectors(folder: Path) -> dict[str, Connector]:
    logs = [one for one in partitions_under(folder) if is_of_connect(one)]
    return connectors_of(examine(log, Rules(NOW)) for log in logs)


def _forge(folder: Path, records: list[tuple[bytes, bytes | None]], topic: str = "etl-configs") -> None:
    batches = "; ".join(f"plain @{offset}" for offset in range(len(records)))
    forge(folder, batches, topic=topic, records={offset: [record] for offset, record in enumerate(records)})


def test_only_offsets_of_committed_transactions_count(tmp_path: Path) -> None:
    batches = "D 1 0 0-0 @0-0 T; M 1 0 C 1 @1; D 1 0 1-1 @2-2 T; M 1 0 A 1 @3; D 1 0 2-2 @4-4 T"
    values: dict[int, list[Content]] = {offset: [(OFFSET, b'{"position":%d}' % offset)] for offset in (0, 2, 4)}
    forge(tmp_path, batches, topic="etl-offsets", records=values)
    (offset,) = _connectors(tmp_path)["files"].offsets.values()
    assert (offset.partition, offset.offset, offset.topic) == (
        '{"filename": "a.txt"}',
        '{"position": 0}',
        "etl-offsets",
    )


def test_a_tombstone_removes_an_offset(tmp_path: Path) -> None:
    _forge(tmp_path, [(OFFSET, b'{"position":1}'), (OFFSET, None)], "etl-offsets")
    assert _connectors(tmp_path)["files"].offsets == {}


FENCING = {
    "never": ([("commit-files", {"tasks": 2})], (2, None, False), ""),
    "done": (
        [("commit-files", {"tasks": 2}), ("tasks-fencing-files", {"task-count": 2})],
        (2, 2, True),
        "the newest task count record, of 2 tasks, follows the configurations of tasks",
    ),
    "due": (
        [("commit-files", {"tasks": 2}), ("tasks-fencing-files", {"task-count": 2}), ("commit-files", {"tasks": 3})],
        (3, 2, False),
        "fencing: due, ",
    ),
}


@pytest.mark.parametrize("name", FENCING)
def test_tasks_are_fenced_until_a_newer_configuration(tmp_path: Path, name: str) -> None:
    records, expected, says = FENCING[name]
    _forge(tmp_path, [(key.encode(), json.dumps(value).encode()) for key, value in records])
    connector = _connectors(tmp_path)["files"]
    assert (connector.tasks, connector.task_count, connector.is_fenced) == expected
    text = "\n".join(connector_lines(connector, Screen()))
    assert says in text
    assert ("fencing" in text) == bool(says)


def test_connectors_of_one_name_in_two_connect_clusters_are_not_mixed(tmp_path: Path) -> None:
    for topic in ("a-configs", "b-configs"):
        _forge(tmp_path, [(b"commit-files", b'{"tasks":1}')], topic)
    assert _connectors(tmp_path)["files"].has_two_owners


def test_a_topic_of_that_name_without_records_of_connect_is_left_alone(tmp_path: Path) -> None:
    _forge(tmp_path, [(b"order-1", b"{}"), (b"commit-files", b'{"tasks":1}')], "order-status")
    assert _connectors(tmp_path) == {}


def test_the_connectors_of_mirror_maker_go_on_where_it_stopped() -> None:
    """The last record of the topic that was copied has the offset 23; the next is read first."""
    connectors = _connectors(MIRROR)
    source = connectors["MirrorSourceConnector"]
    of_topic = {json.loads(one.partition)["topic"]: json.loads(one.offset) for one in source.offsets.values()}
    assert of_topic["orders"] == {"offset": 23}
    assert of_topic["twice"] == {"offset": 4}
    assert (source.tasks, source.task_count, source.has_two_owners) == (1, None, False)
    assert source.state in ("RUNNING", "UNASSIGNED")
