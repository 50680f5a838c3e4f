"""What the metadata of remote storage shows of logs whose start is there, compared with what their broker said."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kforensics.analyses.audit import AuditRequest, audit_results
from kforensics.analyses.partitions import Investigation, investigate
from kforensics.forensics.checks.partition.checkpoints import findings
from kforensics.forensics.core.findings import Exactness, Severity
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.explain.offset_explainer import OffsetExplainer
from kforensics.forensics.explain.offset_story import RecordStatus
from kforensics.forensics.metadata.remote_log import RemoteLog, remote_logs_in, remote_segments_at
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_state import PartitionState
from tests.forensics.forge import drop, file_of, forge
from tests.forensics.partition_states import SAMPLES, partitions_under

SAMPLE = SAMPLES / "remote-retention"
METADATA, TOPICS = "__remote_log_metadata-0", ("kept", "retained", "cut", "retained-and-cut")
CHECKPOINT = "log-start-offset-checkpoint"


def _truth() -> dict[str, Any]:
    truth: dict[str, Any] = json.loads((SAMPLE / "truth.json").read_text())
    return truth


def _states(*paths: Path) -> dict[str, PartitionState]:
    investigation = investigate([str(path) for path in paths], None, _refuse, lambda _: None)
    states = {state.partition.place.topic or "": state for state in investigation.states(_refuse)}
    return {topic: state for topic, state in states.items() if topic in TOPICS}


def _refuse(message: object) -> None:
    raise AssertionError(message)


def _copy(tmp_path: Path) -> Path:
    shutil.copytree(SAMPLE / "broker-1", tmp_path / "broker-1")
    return tmp_path / "broker-1"


def _without_start(log_dir: Path) -> Path:
    """Remove what shows the log start offsets beside the metadata of remote storage."""
    (log_dir / CHECKPOINT).unlink()
    for topic in TOPICS:
        (log_dir / f"{topic}-0" / "leader-epoch-checkpoint").unlink()
    return log_dir


def test_log_starts_are_those_that_the_broker_said() -> None:
    truth = _truth()
    for topic, state in _states(SAMPLE).items():
        assert state.log_start_offset == truth["topics"][topic]["0"]["earliest"]
        assert state.partition.first_offset == truth["earliest_local"][topic] > state.log_start_offset


def test_the_metadata_shows_log_starts_without_checkpoints(tmp_path: Path) -> None:
    """Only DeleteRecords moves a start into a segment, and that is in no metadata."""
    truth = _truth()["topics"]
    for topic, state in _states(_without_start(_copy(tmp_path))).items():
        start = truth[topic]["0"]["earliest"]
        assert state.remote_log is not None
        assert state.log_start_offset == state.remote_log.start_offset
        if topic in {"kept", "retained"}:
            assert state.log_start_offset == start
        else:
            (segment,) = remote_segments_at(state.remote_log, state.log_start_offset)
            assert segment.first_offset <= start <= segment.last_offset


def test_a_checkpoint_from_before_a_deletion_does_not_count(tmp_path: Path) -> None:
    log_dir = _copy(tmp_path)
    (log_dir / CHECKPOINT).write_text("0\n1\nretained 0 0\n")
    (log_dir / "retained-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    assert _states(log_dir)["retained"].log_start_offset == _truth()["topics"]["retained"]["0"]["earliest"]


@pytest.mark.parametrize("topic", TOPICS)
def test_what_a_consumer_can_read_is_in_remote_storage(topic: str) -> None:
    state, truth = _states(SAMPLE)[topic], _truth()["topics"][topic]["0"]
    for offset in range(truth["latest"]):
        story = OffsetExplainer(state, None).story(offset)
        if offset < truth["earliest"]:
            assert story.status is RecordStatus.DELETED
        elif offset < state.partition.first_offset:
            assert (story.status, story.exactness) == (RecordStatus.NOT_ON_HAND, Exactness.EXACT)
            assert "it is in remote storage, in segment " in story.why
            assert ", copied at 20" in story.why
    received = {record["offset"] for record in truth["read_uncommitted"]}
    assert received <= set(range(truth["earliest"], truth["latest"]))


def test_what_became_of_deleted_offsets_is_said() -> None:
    state = _states(SAMPLE)["retained-and-cut"]
    assert "in remote storage, too: segment " in OffsetExplainer(state, None).story(0).why
    assert "remote storage still has segment " in OffsetExplainer(state, None).story(17).why


def test_a_partition_alone_is_explained_as_among_the_others() -> None:
    alone, among = (_states(path)["kept"] for path in (SAMPLE / "broker-1" / "kept-0", SAMPLE))
    stories = [OffsetExplainer(state, None).story(3) for state in (alone, among)]
    assert stories[0].why == stories[1].why
    assert stories[0].status is stories[1].status is RecordStatus.NOT_ON_HAND


def test_processes_of_a_pool_know_what_is_in_remote_storage(tmp_path: Path) -> None:
    investigation = investigate([str(_without_start(_copy(tmp_path)))], None, _refuse, lambda _: None)
    starts = [list(_starts(investigation, processes)) for processes in (None, 2)]
    assert starts[0] == starts[1]
    assert dict(starts[0])["kept"] == 0


def _starts(investigation: Investigation, processes: int | None) -> Iterator[tuple[str, int]]:
    for result in audit_results(investigation, AuditRequest(processes=processes), lambda _: None):
        rows = result.rows.get("lso")
        if isinstance(rows, Rows) and result.place.topic in TOPICS:
            yield result.place.topic, rows.columns["log_start_offset"]


def test_a_deleted_topic_has_nothing_to_read() -> None:
    (metadata,) = partitions_under(SAMPLES / "remote-storage" / "broker-1" / METADATA)
    logs = {log.topic_id: log for log in remote_logs_in(metadata)}
    kept = json.loads((SAMPLES / "remote-storage" / "truth.json").read_text())["topics"]["tiered"]["0"]["topic_id"]
    assert logs.pop(kept).readable == ((7, 25),)
    ((deleted,),) = [log.readable or [log.deleted] for log in logs.values()]
    assert deleted == ((0, 26),)


@pytest.mark.parametrize("lost", [0, 5])
def test_metadata_that_lacks_records_is_not_whole(tmp_path: Path, lost: int) -> None:
    metadata = _copy(tmp_path) / METADATA
    assert all(log.is_whole for partition in partitions_under(metadata) for log in remote_logs_in(partition))
    drop(file_of(metadata), lost)
    (partition,) = partitions_under(metadata)
    assert not any(log.is_whole for log in remote_logs_in(partition))


def _log(*readable: tuple[int, int], deleted: tuple[tuple[int, int], ...] = (), is_whole: bool = True) -> RemoteLog:
    return RemoteLog("", 0, readable, deleted, is_whole, 0, ())


def _found(tmp_path: Path, log: RemoteLog | None, log_start: int = 0) -> list[tuple[Severity, int | None, int | None]]:
    """Return the findings in a log whose files begin at offset 40, and whose log starts in remote storage."""
    forge(tmp_path, {40: "plain @40-44"}, log_start=log_start, leader_epochs={log_start: 0})
    (partition,) = partitions_under(tmp_path)
    logs: dict[tuple[str | None, int | None], tuple[RemoteLog, ...]] = {}
    logs |= {(partition.topic_id, 0): (log,)} if log is not None else {}
    state = examine(partition, replace(Rules(0), remote_logs=logs))
    return [(finding.severity, finding.first_offset, finding.last_offset) for finding in findings(state)]


def test_offsets_that_are_nowhere_are_found(tmp_path: Path) -> None:
    assert _found(tmp_path, _log((0, 9), (20, 39))) == [(Severity.ERROR, 10, 19)]


def test_the_newest_copies_may_be_missing_in_older_metadata(tmp_path: Path) -> None:
    assert _found(tmp_path, _log((0, 29))) == [(Severity.INFO, 30, 39)]


@pytest.mark.parametrize(
    "log",
    [
        None,  # the metadata was not supplied
        _log((0, 39)),
        _log((0, 45)),  # the next segment is copied and not deleted locally yet
        _log((0, 19), (10, 39)),  # two leaders copied the same offsets
        _log((0, 9), (20, 39), is_whole=False),  # retention removed the start of the metadata
        _log((20, 39), deleted=((0, 19),)),  # retention in remote storage, after the checkpoint
        _log((20, 39), deleted=((5, 19),)),
        _log(deleted=((0, 39),)),
    ],
)
def test_logs_that_lost_nothing_are_sound(tmp_path: Path, log: RemoteLog | None) -> None:
    assert _found(tmp_path, log) == []


def test_offsets_before_the_log_start_are_not_missing(tmp_path: Path) -> None:
    assert _found(tmp_path, _log((20, 39)), log_start=20) == []
