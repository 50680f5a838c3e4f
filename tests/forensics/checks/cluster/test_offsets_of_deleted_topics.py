"""Offsets that outlive their topic: Kafka removes them when it is deleted, unless their coordinator is not running."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.forensics.core.findings import Finding
from kforensics.forensics.metadata.cluster_events import removed_topics_in
from tests.command import run
from tests.forensics.batch_notation import NOW
from tests.forensics.checks.cluster.test_group_resets import LABS, RELEASES
from tests.forensics.coordinators.clusters import cluster_under, commit_record, found_in, group_record
from tests.forensics.forge import Content, forge
from tests.forensics.partition_states import partitions_under

OLD, NEW = "5HUBVeBMSt2jcXgFunpQdg", "DwXmP7rrRZWFe58vI7GGmg"
HOUR = 3_600_000


def forge_log(folder: Path, topic_id: str | None, time: int, *, first: int = 0) -> None:
    """Write a partition with ten records from an offset on."""
    text = None if topic_id is None else f"version: 0\ntopic_id: {topic_id}".encode()
    log = {first: f"plain @{first}-{first + 9} ts {NOW + time}"}
    forge(folder, log, topic="in", replaced={"in-0/partition.metadata": text})


def forge_commits(folder: Path, *records: Content) -> None:
    log = "; ".join(f"plain @{at}-{at} ts {NOW + at}" for at in range(len(records)))
    forge(folder, log, topic="__consumer_offsets", records={at: [record] for at, record in enumerate(records)})


def resets_in(folder: Path, **changes: Any) -> list[Finding]:
    cluster = replace(cluster_under(folder), **changes)
    return [finding for _, finding in found_in(cluster) if finding.code.name == "group-offset-reset"]


@pytest.mark.parametrize(
    ("time", "removed", "exactness"),
    [(HOUR, {}, "approximate"), (-HOUR, {OLD: (NOW + HOUR,)}, "exact"), (HOUR, {OLD: (NOW + HOUR,)}, "exact")],
)
def test_the_offset_of_a_deleted_topic_is_in_force(
    time: int, removed: dict[str, tuple[int, ...]], exactness: str, tmp_path: Path
) -> None:
    """Which topic is the older one is in the metadata log, or the times show it."""
    forge_log(tmp_path, NEW, time)
    forge_commits(tmp_path, commit_record("g", "in-0", 7, OLD))
    (finding,) = resets_in(tmp_path, removed_topics=removed)
    assert (str(finding.severity), str(finding.exactness)) == ("warning", exactness)
    assert "is in force, and a consumer that starts there skips 7 offsets, 0 to 6." in finding.message
    assert finding.evidence["reset_by"] == "topic-recreated"
    assert finding.remedy is not None
    assert "--reset-offsets --group g --topic in:0 --to-earliest --execute" in finding.remedy


def test_a_replica_out_of_sync_may_lack_the_removal_of_the_offset(tmp_path: Path) -> None:
    forge_log(tmp_path, NEW, HOUR)
    forge_commits(tmp_path, commit_record("g", "in-0", 7, OLD))
    lagging = tuple(replace(commits, lagging_since=NOW) for commits in cluster_under(tmp_path).commits)
    (finding,) = resets_in(tmp_path, commits=lagging)
    assert (str(finding.severity), str(finding.exactness)) == ("info", "approximate")


# The topic id of the commit and of the partition, the time of its records, its first offset, and deleted topic ids.
INNOCENT: dict[str, tuple[str | None, str | None, int, int, tuple[str, ...]]] = {
    "same id": (NEW, NEW, HOUR, 0, (OLD,)),
    "commit without an id": (None, NEW, HOUR, 0, (OLD,)),
    "partition without an id": (OLD, None, HOUR, 0, (OLD,)),
    "at the log start": (OLD, NEW, HOUR, 7, (OLD,)),
    "replica of the deleted topic": (NEW, OLD, -HOUR, 0, ()),
    "replica of the deleted topic, with the metadata log": (NEW, OLD, HOUR, 0, (OLD,)),
    "nothing shows which topic is older": (OLD, NEW, -HOUR, 0, ()),
}


@pytest.mark.parametrize("case", INNOCENT)
def test_offsets_that_may_be_of_the_same_topic(case: str, tmp_path: Path) -> None:
    committed_id, topic_id, time, first, removed = INNOCENT[case]
    forge_log(tmp_path, topic_id, time, first=first)
    forge_commits(tmp_path, commit_record("g", "in-0", 7, committed_id))
    assert resets_in(tmp_path, removed_topics=dict.fromkeys(removed, (NOW + HOUR,))) == []


def test_the_partition_is_not_among_the_files(tmp_path: Path) -> None:
    forge_commits(tmp_path, commit_record("g", "in-0", 7, OLD))
    assert resets_in(tmp_path, removed_topics={OLD: (NOW + HOUR,)}) == []


@pytest.mark.parametrize("second", [7, 9])
@pytest.mark.parametrize(("restarts", "severity"), [(True, "warning"), (False, "info")])
def test_a_group_went_on_from_the_offset_of_a_deleted_topic(
    restarts: bool, severity: str, second: int, tmp_path: Path
) -> None:
    """Its next commit is of the new topic, and it was not lower; a consumer that ran on may have begun at the start."""
    restart = [group_record("g", 1, generation=2)] if restarts else []
    forge_commits(tmp_path, group_record("g", 1), commit_record("g", "in-0", 7, OLD), *restart,
                  commit_record("g", "in-0", second, NEW))  # fmt: skip
    (finding,) = resets_in(tmp_path)
    assert (str(finding.severity), str(finding.exactness)) == (severity, "approximate")
    assert "stayed in force when the topic was deleted and created again" in finding.message
    assert "the group may have skipped the offsets before 7 of the new topic" in finding.message
    assert finding.remedy is not None
    assert "--topic in --partition 0 --offset earliest --max-messages 7" in finding.remedy


RISING: dict[str, list[Content]] = {
    "same id": [commit_record("g", "in-0", 7, OLD), commit_record("g", "in-0", 9, OLD)],
    "first one without an id": [commit_record("g", "in-0", 7), commit_record("g", "in-0", 9, NEW)],
    "second one without an id": [commit_record("g", "in-0", 7, OLD), commit_record("g", "in-0", 9)],
    "nothing before it": [commit_record("g", "in-0", 0, OLD), commit_record("g", "in-0", 9, NEW)],
}


@pytest.mark.parametrize("case", RISING)
def test_commits_that_rise(case: str, tmp_path: Path) -> None:
    forge_commits(tmp_path, group_record("g", 1), *RISING[case])
    assert resets_in(tmp_path) == []


def test_a_removal_takes_the_offset_of_a_deleted_topic(tmp_path: Path) -> None:
    """Then the group starts where its auto.offset.reset says."""
    records = [commit_record("g", "in-0", 7, OLD), commit_record("g", "in-0", None), commit_record("g", "in-0", 9, NEW)]
    forge_commits(tmp_path, group_record("g", 1), *records)
    (finding,) = resets_in(tmp_path)
    assert str(finding.severity) == "info"
    assert "skipped records, as its auto.offset.reset says" in finding.message


def test_the_history_of_the_group_says_the_same(tmp_path: Path) -> None:
    forge_log(tmp_path, NEW, HOUR)
    forge_commits(tmp_path, commit_record("g", "in-0", 7, OLD))
    events = kforensics.groups(tmp_path, group="g").to_pylist()
    (event,) = (event for event in events if event["event"] == "out-of-range")
    assert (event["cause"], event["exact"], event["first_committed"]) == ("topic-recreated", False, 7)
    assert event["why"].endswith("its records are younger; a consumer that starts there skips 7 offsets, 0 to 6")
    text = run("groups", "--group", "g", str(tmp_path)).text
    text = " ".join(text.split())
    assert "in-0 committed 7 in a deleted topic: likely topic recreated; " in text
    assert "--reset-offsets --group g --topic in:0 --to-earliest --execute" in text


@pytest.mark.parametrize("release", RELEASES)
def test_the_metadata_log_has_the_ids_of_deleted_topics(release: str) -> None:
    removed = removed_topics_in(partitions_under(LABS / release / "broker-1"))
    by_id = sorted(time for name, times in removed.items() if len(name) == len(OLD) for time in times)
    assert by_id == sorted(time for name, times in removed.items() if len(name) != len(OLD) for time in times) != []
