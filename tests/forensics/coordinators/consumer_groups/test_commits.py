"""Committed offsets in force, from forged logs and samples."""

from __future__ import annotations

from pathlib import Path

import pytest

import kforensics
from kforensics.forensics.audit.cluster_result import group_commits
from kforensics.forensics.coordinators.consumer_groups.commits import Commits
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import SOON, at, forge_offsets
from tests.forensics.forge import file_of, patch
from tests.forensics.partition_states import SAMPLES, partitions_under

TOPIC_ID = "5HUBVeBMSt2jcXgFunpQdg"


def commits_under(folder: Path) -> Commits:
    (partition,) = partitions_under(folder)
    return group_commits(examine(partition, Rules(SOON)))


def in_force(folder: Path) -> dict[tuple[str, str, int], int]:
    return {key: commit.committed for key, commit in commits_under(folder).last.items()}


@pytest.mark.parametrize(("outcome", "offset"), [("C", 9), ("A", 4)])
def test_commits_of_a_transaction_take_effect_with_its_marker(outcome: str, offset: int, tmp_path: Path) -> None:
    log = f"plain @0-0; D 1 0 0-0 @1-1 T; M 1 0 {outcome} 0 @2 {at(7)}"
    forge_offsets(tmp_path, log, {0: ("g", "in-0", 4), 1: ("g", "in-0", 9)})
    assert in_force(tmp_path) == {("g", "in", 0): offset}


def test_a_commit_with_a_higher_offset_stays(tmp_path: Path) -> None:
    """A broker that loads the log compares the offsets of records, not of markers."""
    log = f"D 1 0 0-0 @0-0 T; plain @1-1; M 1 0 C 0 @2 {at(7)}"
    forge_offsets(tmp_path, log, {0: ("g", "in-0", 4), 1: ("g", "in-0", 9)})
    assert in_force(tmp_path) == {("g", "in", 0): 9}


def test_the_last_commit_of_a_transaction_counts(tmp_path: Path) -> None:
    log = f"D 1 0 0-0 @0-0 T; D 1 0 1-1 @1-1 T; M 1 0 C 0 @2 {at(7)}"
    forge_offsets(tmp_path, log, {0: ("g", "in-0", 9), 1: ("g", "in-0", 4)})
    (commit,) = commits_under(tmp_path).last.values()
    assert (commit.committed, commit.offset, commit.time, commit.producer_id) == (4, 1, NOW + 7, 1)


def test_a_tombstone_removes_the_offset(tmp_path: Path) -> None:
    forge_offsets(tmp_path, "plain @0-0; plain @1-1", {0: ("g", "in-0", 9), 1: ("g", "in-0", None)})
    assert in_force(tmp_path) == {}


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (f"D 1 0 0-0 @1-1 T; plain @2-2; M 1 0 C 0 @3 {at(3)}", {}),
        (f"D 1 0 0-0 @1-1 T; M 1 0 C 0 @3 {at(3)}; plain @4-4", {}),
        (f"D 1 0 0-0 @1-1 T; plain @2-2; D 1 0 1-1 @5-5 T; M 1 0 C 0 @6 {at(3)}", {("g", "in", 0): 6}),
        (f"plain @2-2; D 1 0 0-0 @5-5 T; M 1 0 C 0 @6 {at(3)}", {("g", "in", 0): 6}),
        ("D 1 0 0-0 @1-1 T; plain @2-2", {}),
    ],
    ids=("before the marker", "after the marker", "committed again", "before the commit", "still open"),
)
def test_a_tombstone_takes_what_is_pending(log: str, expected: dict[object, int], tmp_path: Path) -> None:
    """Of its own partition of the group alone; brokers from 4.0 on do so, and earlier ones until they load the log."""
    other = f"{log}; D 9 0 0-0 @7-7 T; M 9 0 C 0 @8 {at(9)}"
    committed: dict[int, tuple[object, ...]] = {2: ("g", "in-0", None), 4: ("g", "in-0", None), 7: ("g", "in-1", 1)}
    forge_offsets(
        tmp_path, f"plain @0-0; {other}", committed | {0: ("g", "in-0", 3), 1: ("g", "in-0", 7), 5: ("g", "in-0", 6)}
    )
    commits = commits_under(tmp_path)
    assert {key: commit.committed for key, commit in commits.last.items()} == {**expected, ("g", "in", 1): 1}
    assert not commits.pending
    assert not commits.waiting
    assert len(commits.resets) == (("g", "in", 0) in expected)


def test_an_open_transaction_keeps_groups_waiting(tmp_path: Path) -> None:
    log = "plain @0-0; D 1 0 0-0 @1-1 T; D 1 0 1-1 @2-2 T; D 1 0 2-2 @3-3 T"
    forge_offsets(tmp_path, log, {0: ("g", "in-0", 1), 1: ("h", "in-0", 1), 2: ("g", "in-1", 1), 3: ("h", "in-1", 1)})
    commits = commits_under(tmp_path)
    assert commits.pending == {1: ("h", "g")}
    assert list(commits.last) == [("g", "in", 0)]
    assert list(commits.groups) == ["g", "h"]


def test_a_batch_with_a_wrong_checksum_is_ignored(tmp_path: Path) -> None:
    folder = forge_offsets(tmp_path, "plain @0-0; plain @1-1", {0: ("g", "in-0", 1), 1: ("g", "in-0", 2)})
    patch(file_of(folder), 1, fix_crc=False, crc=1)
    commits = commits_under(tmp_path)
    assert [commit.committed for commit in commits.last.values()] == [1]
    assert not commits.is_whole


def test_rows_of_records(tmp_path: Path) -> None:
    log = f"plain @0-0; D 7 3 0-0 @1-1 T; M 7 3 C 0 @2 {at(7)}; plain @3-3"
    committed = {0: ("g", "in-0", 4), 1: ("g", "in-9", 9, TOPIC_ID), 3: ("g", "in-0", None)}
    folder = forge_offsets(tmp_path, log, committed)
    rows: list[Rows] = []
    (partition,) = partitions_under(tmp_path)
    group_commits(examine(partition, Rules(SOON)), rows.append)
    (some,) = rows
    values = some.record_batch().to_pylist()
    assert values == [dict(zip(some.table.names, row, strict=True)) for row in some]
    plain, transactional, tombstone = values
    assert (plain["path"], plain["topic"], plain["partition"]) == (str(file_of(folder)), "__consumer_offsets", 0)
    names = ("group", "committed_topic", "committed_partition", "committed_offset", "version", "commit_timestamp")
    assert [plain[name] for name in names] == ["g", "in", 0, 4, 3, NOW]
    assert (plain["transactional"], plain["producer_id"], plain["committed_topic_id"]) == (False, None, None)
    assert (transactional["transactional"], transactional["producer_id"], transactional["producer_epoch"]) == (
        True,
        7,
        3,
    )
    assert (transactional["committed_topic_id"], transactional["version"]) == (TOPIC_ID, 4)
    assert (tombstone["tombstone"], tombstone["committed_offset"], tombstone["offset"]) == (True, None, 3)


def test_a_record_of_message_format_0_has_the_time_of_its_value() -> None:
    """A broker of 2.8 wrote them so; of the states of the group no time is known."""
    broker = SAMPLES / "legacy-magic-0" / "broker-0"
    states = [examine(one, Rules(SOON)) for one in partitions_under(broker)]
    (state,) = (one for one in states if one.partition.place.topic == "__consumer_offsets")
    rows: list[Rows] = []
    commits = group_commits(state, rows.append)
    written = [time for some in rows for (time,) in some.only("commit_timestamp")]
    assert len(written) > 2
    assert sorted({commit.time for commit in commits.last.values()} - {*written}) == []
    table = kforensics.groups(str(broker), group="readers")
    events = [row for row in table.to_pylist() if row["event"] in {"commits", "reset"}]
    assert {row["last_timestamp"] for row in events} <= {*written}


def test_every_commit_of_real_brokers_can_be_read() -> None:
    """From the first release with format 0 to the newest one; groups have other records, too."""
    rows: list[Rows] = []
    partitions = [one for path in SAMPLES.glob("*/truth.json") for one in partitions_under(path.parent)]
    for partition in partitions:
        if partition.place.topic == "__consumer_offsets":
            group_commits(examine(partition, Rules(SOON)), rows.append)
    values = [row for some in rows for row in some.only("error", "committed_offset", "tombstone", "version")]
    assert {error for error, *_ in values} == {None}
    assert all((offset is None) == tombstone for _, offset, tombstone, _ in values)
    assert {version for *_, version in values} >= {3, 4}
