from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.audit.cluster_result import group_commits
from kforensics.forensics.coordinators.consumer_groups.commits import Commits
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from tests.forensics.cases import SAMPLES, partitions_under
from tests.forensics.coordinators.clusters import SOON, at, forge_offsets
from tests.forensics.events import NOW
from tests.forensics.forge import file_of, patch

TOPIC_ID = "5HUBVeBMSt2jcXgFunpQdg"


def commits_under(folder: Path) -> Commits:
    (partition,) = partitions_under(folder)
    return group_commits(examine(partition, Rules(SOON)))


def in_force(folder: Path) -> dict[tuple[str, str, int], int]:
    return {key: commit.committed for key, commit in commits_under(folder).last.items()}


@pytest.mark.parametrize(("ending", "offset"), [("C", 9), ("A", 4)])
def test_what_a_transaction_commits_takes_effect_with_its_marker(ending: str, offset: int, tmp_path: Path) -> None:
    log = f"plain @0-0; D 1 0 0-0 @1-1 T; M 1 0 {ending} 0 @2 {at(7)}"
    forge_offsets(tmp_path, log, {0: ("g", "in-0", 4), 1: ("g", "in-0", 9)})
    assert in_force(tmp_path) == {("g", "in", 0): offset}


def test_a_commit_that_stands_further_behind_stays(tmp_path: Path) -> None:
    """A broker that loads the log compares offsets of records, not of markers."""
    log = f"D 1 0 0-0 @0-0 T; plain @1-1; M 1 0 C 0 @2 {at(7)}"
    forge_offsets(tmp_path, log, {0: ("g", "in-0", 4), 1: ("g", "in-0", 9)})
    assert in_force(tmp_path) == {("g", "in", 0): 9}


def test_the_last_commit_of_a_transaction_counts(tmp_path: Path) -> None:
    log = f"D 1 0 0-0 @0-0 T; D 1 0 1-1 @1-1 T; M 1 0 C 0 @2 {at(7)}"
    forge_offsets(tmp_path, log, {0: ("g", "in-0", 9), 1: ("g", "in-0", 4)})
    (commit,) = commits_under(tmp_path).last.values()
    assert (commit.committed, commit.offset, commit.time, commit.producer_id) == (4, 1, NOW + 7, 1)


def test_what_is_removed_is_gone(tmp_path: Path) -> None:
    forge_offsets(tmp_path, "plain @0-0; plain @1-1", {0: ("g", "in-0", 9), 1: ("g", "in-0", None)})
    assert in_force(tmp_path) == {}


def test_a_transaction_that_is_open_keeps_groups_waiting(tmp_path: Path) -> None:
    log = "plain @0-0; D 1 0 0-0 @1-1 T; D 1 0 1-1 @2-2 T; D 1 0 2-2 @3-3 T"
    forge_offsets(tmp_path, log, {0: ("g", "in-0", 1), 1: ("h", "in-0", 1), 2: ("g", "in-1", 1), 3: ("h", "in-1", 1)})
    found = commits_under(tmp_path)
    assert found.pending == {1: ("h", "g")}
    assert list(found.last) == [("g", "in", 0)]
    assert list(found.groups) == ["g", "h"]


def test_a_batch_whose_checksum_fails_says_nothing(tmp_path: Path) -> None:
    folder = forge_offsets(tmp_path, "plain @0-0; plain @1-1", {0: ("g", "in-0", 1), 1: ("g", "in-0", 2)})
    patch(file_of(folder), 1, fix_crc=False, crc=1)
    found = commits_under(tmp_path)
    assert [commit.committed for commit in found.last.values()] == [1]
    assert not found.is_whole


def test_records_as_they_stand(tmp_path: Path) -> None:
    log = f"plain @0-0; D 7 3 0-0 @1-1 T; M 7 3 C 0 @2 {at(7)}; plain @3-3"
    committed = {0: ("g", "in-0", 4), 1: ("g", "in-9", 9, TOPIC_ID), 3: ("g", "in-0", None)}
    folder = forge_offsets(tmp_path, log, committed)
    rows: list[Rows] = []
    (partition,) = partitions_under(tmp_path)
    group_commits(examine(partition, Rules(SOON)), rows.append)
    (some,) = rows
    found = some.record_batch().to_pylist()
    assert found == [dict(zip(some.table.names, row, strict=True)) for row in some]
    plain, transactional, tombstone = found
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


def test_every_commit_of_real_brokers_can_be_read() -> None:
    """From format 0 and the first release that has it to the newest one; groups have other records too."""
    rows: list[Rows] = []
    partitions = [one for path in SAMPLES.glob("*/truth.json") for one in partitions_under(path.parent)]
    for partition in partitions:
        if partition.place.topic == "__consumer_offsets":
            group_commits(examine(partition, Rules(SOON)), rows.append)
    found = [row for some in rows for row in some.only("error", "committed_offset", "tombstone", "version")]
    assert {error for error, *_ in found} == {None}
    assert all((offset is None) == tombstone for _, offset, tombstone, _ in found)
    assert {version for *_, version in found} >= {3, 4}
