"""Coordinators' logs in which a segment begins with what the one before it has already.

A follower of Kafka 3.9.1 wrote batches to a segment and failed before it moved its log end. It fetched them again, from
a leader that had compacted its log meanwhile, and rolled a new segment for them. A broker that reads such a log goes on
after the last offset that it has read, so it takes each offset once.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from kforensics.forensics.coordinators.consumer_groups.commit_columns import CommitColumns
from kforensics.forensics.coordinators.consumer_groups.commit_replay import commits_of
from kforensics.forensics.coordinators.record_issues import CommitIssueKind
from kforensics.forensics.coordinators.transactions.history_replay import StateTransitions, history_of
from kforensics.forensics.coordinators.transactions.transaction_partitions import MarkerStatus
from kforensics.forensics.core.packed_rows import as_array
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.kernels.library import load_kernels
from kforensics.parsers.kernels.policy import KernelPolicy, no_kernels
from kforensics.parsers.log.batches import walk
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import SOON, cluster_under, codes_in, forge_coordinator, forge_offsets
from tests.forensics.forge import file_of, forge
from tests.forensics.partition_states import HOUR, partitions_under
from tests.reference.coordinator_history import history_by_record
from tests.reference.group_commits import commits_by_record

COMPLETE = "a CompleteCommit 1 1 tv 2 start 10 @3 t 30"
SECOND = (
    "a Ongoing 1 1 tv 2 {t-0} start 40 @4 t 40; a PrepareCommit 1 2 tv 2 {t-0} start 40 @5 t 50; "
    "a CompleteCommit 1 2 tv 2 start 40 @6 t 60"
)
REACHED = (
    "a Empty 1 0 @0 t 0; a Ongoing 1 0 tv 2 {t-0} start 10 @1 t 10; a PrepareCommit 1 1 tv 2 {t-0} start 10 @2 t 20; "
    f"{COMPLETE}; {SECOND}"
)
THIRD = (
    "a Ongoing 1 2 tv 2 {t-0} start 70 @7 t 70; a PrepareCommit 1 3 tv 2 {t-0} start 70 @8 t 80; "
    "a CompleteCommit 1 3 tv 2 start 70 @9 t 90"
)
FURTHER = "b Empty 2 0 @10 t 100"
# The segments by base offset. Of what the second one repeats, the leader had compacted offsets 1 and 2 or nothing.
COMPACTED = {0: REACHED, 1: f"{COMPLETE}; {SECOND}; {THIRD}; {FURTHER}"}
EQUAL = {0: REACHED, 3: f"{COMPLETE}; {SECOND}; {THIRD}; {FURTHER}"}
EQUAL_AND_ANOTHER = {0: REACHED, 3: f"{COMPLETE}; {SECOND}; {THIRD}", 10: FURTHER}
TIMES = [(NOW + 10, NOW + 20, NOW + 30), (NOW + 40, NOW + 50, NOW + 60), (NOW + 70, NOW + 80, NOW + 90)]
MARKERS = ["D 1 0 0-0 @0 T; M 1 1 C 0 @1", "D 1 1 0-0 @2 T; M 1 2 C 0 @3", "D 1 2 0-0 @4 T; M 1 3 C 0 @5"]

each_overlap = pytest.mark.parametrize(
    "log", [COMPACTED, EQUAL, EQUAL_AND_ANOTHER], ids=["compacted", "equal", "three"]
)
# Chunks of one record, so that each border between chunks is somewhere in the overlap, and of all.
each_reading = pytest.mark.parametrize(
    ("kernels", "chunk_rows"),
    [(no_kernels, 1), (no_kernels, 2), (no_kernels, 1 << 16), (lambda _size: load_kernels(), 1 << 16)],
    ids=["1", "2", "all", "kernels"],
)


def state_of(folder: Path) -> PartitionState:
    """Return the state of the only partition in a log directory."""
    (partition,) = partitions_under(folder)
    return examine(partition, Rules(SOON))


def misplace(log: Path, base_offset: int, other: int) -> None:
    """Give a batch another base offset, which its checksum does not cover."""
    with open_source(str(log)) as source:
        (position,) = (
            each.position for each in walk(source) if isinstance(each, Batch) and each.base_offset == base_offset
        )
    data = bytearray(log.read_bytes())
    data[position : position + 8] = other.to_bytes(8, "big")
    log.write_bytes(data)


def offsets_read(folder: Path, kernels: KernelPolicy = no_kernels, chunk_rows: int = 1 << 16) -> list[int]:
    """Return the offsets of the records from which the history of a coordinator is made."""
    chunks: list[StateTransitions] = []
    history = history_of(state_of(folder), chunks.append, kernels, chunk_rows)
    offsets = [offset for chunk in chunks for offset in chunk.states.rows["offset"].tolist()]
    assert history.records == len(offsets)
    return offsets


@each_overlap
@each_reading
def test_each_record_is_replayed_once(
    log: dict[int, str], kernels: KernelPolicy, chunk_rows: int, tmp_path: Path
) -> None:
    forge_coordinator(tmp_path, log)
    assert offsets_read(tmp_path, kernels, chunk_rows) == list(range(11))
    state = state_of(tmp_path)
    history = history_of(state, None, kernels, chunk_rows)
    assert as_array(history.transactions)[["start", "decided", "completed"]].tolist() == TIMES
    assert (list(history.names), dict(history.issue_counts)) == (["a", "b"], {})
    by_record = history_by_record(state)
    assert as_array(by_record.transactions).tolist() == as_array(history.transactions).tolist()
    assert (by_record.records, by_record.issue_counts) == (11, history.issue_counts)


@each_overlap
def test_one_marker_matches_a_decision_that_two_segments_have(log: dict[int, str], tmp_path: Path) -> None:
    forge_coordinator(tmp_path, log)
    forge(tmp_path, "; ".join(MARKERS))
    cluster = cluster_under(tmp_path, as_of_ms=NOW + HOUR)
    assert cluster.marker_join.transaction_partitions["marker_status"].tolist() == [MarkerStatus.MATCHED] * 3
    assert codes_in(cluster) == {}


@each_overlap
@pytest.mark.parametrize("absent", [1, 2], ids=["decided in both segments", "decided after the overlap"])
def test_a_marker_that_is_absent_is_missing(log: dict[int, str], absent: int, tmp_path: Path) -> None:
    forge_coordinator(tmp_path, log)
    data = [*MARKERS[:absent], f"D 1 {absent} 0-0 @{2 * absent} T; plain @{2 * absent + 1}", *MARKERS[absent + 1 :]]
    forge(tmp_path, f"{'; '.join(data)}; plain @6-9")
    cluster = cluster_under(tmp_path, as_of_ms=NOW + HOUR)
    expected = [MarkerStatus.MATCHED] * 3
    expected[absent] = MarkerStatus.MISSING
    assert cluster.marker_join.transaction_partitions["marker_status"].tolist() == expected
    codes = codes_in(cluster)
    assert codes["atomicity-marker-missing"] == "critical"
    assert "txnlog-epoch-regressed" not in codes


@pytest.mark.parametrize(
    ("damaged", "base_offset"), [(6, 10**12), (3, 10**12), (3, 9)], ids=["last", "in the middle", "below the log end"]
)
@each_reading
def test_a_damaged_base_offset_hides_no_other_segment(
    damaged: int, base_offset: int, kernels: KernelPolicy, chunk_rows: int, tmp_path: Path
) -> None:
    """The checksum does not cover it."""
    partition = forge_coordinator(tmp_path, {0: REACHED, 7: THIRD, 10: FURTHER})
    misplace(file_of(partition), damaged, base_offset)
    expected = [base_offset if offset == damaged else offset for offset in range(11)]
    assert offsets_read(tmp_path, kernels, chunk_rows) == expected
    assert history_by_record(state_of(tmp_path)).records == 11


def test_a_damaged_base_offset_does_not_hide_an_overlap(tmp_path: Path) -> None:
    partition = forge_coordinator(tmp_path, COMPACTED)
    misplace(file_of(partition), 2, 10**12)
    assert offsets_read(tmp_path) == [0, 1, 10**12, *range(3, 11)]


def test_a_segment_may_repeat_less_than_all(tmp_path: Path) -> None:
    """The broker failed again before it had fetched all; the log then ends below what the first segment reached."""
    forge_coordinator(tmp_path, {0: REACHED, 1: COMPLETE})
    assert offsets_read(tmp_path) == list(range(7))


COMMITS = "plain @0; plain @1; plain @2; plain @3"
COMMITTED = {at: ("group", "t-0", 10 * at) for at in range(6)}


@each_reading
def test_each_commit_takes_effect_once(kernels: KernelPolicy, chunk_rows: int, tmp_path: Path) -> None:
    """Otherwise the offset 10, committed again after 30, were a reset that never happened."""
    forge_offsets(tmp_path, {0: COMMITS, 1: "plain @1; plain @3; plain @4; plain @5"}, COMMITTED)
    chunks: list[CommitColumns] = []
    state = state_of(tmp_path)
    commits = commits_of(state, chunks.append, kernels, chunk_rows)
    assert [offset for chunk in chunks for offset in chunk.rows["offset"].tolist()] == list(range(6))
    assert (commits.reset_count, commits.resets, dict(commits.issue_counts)) == (0, (), {})
    last = commits.last["group", "t", 0]
    assert (last.committed, last.offset) == (50, 5)
    assert commits == commits_by_record(state)


@each_reading
def test_a_commit_that_really_goes_back_is_a_reset(kernels: KernelPolicy, chunk_rows: int, tmp_path: Path) -> None:
    committed = {**COMMITTED, 4: ("group", "t-0", 5)}
    forge_offsets(tmp_path, {0: COMMITS, 1: "plain @1; plain @3; plain @4; plain @5"}, committed)
    state = state_of(tmp_path)
    commits = commits_of(state, None, kernels, chunk_rows)
    (reset,) = commits.resets
    assert reset.before is not None
    assert (reset.before.committed, reset.commit.committed, reset.commit.offset) == (30, 5, 4)
    assert commits == commits_by_record(state)


@each_reading
def test_a_commit_of_a_transaction_waits_for_no_second_marker(
    kernels: KernelPolicy, chunk_rows: int, tmp_path: Path
) -> None:
    """The marker was compacted where the new segment comes from, the commit was not."""
    first = "D 1 0 0-0 @0 T; D 1 0 1-1 @1 T; M 1 0 C 0 @2; plain @3"
    committed = {at: ("group", "t-0", 10 * at) for at in (0, 1, 3, 4)}
    forge_offsets(tmp_path, {0: first, 1: "D 1 0 1-1 @1 T; plain @3; plain @4"}, committed)
    state = state_of(tmp_path)
    commits = commits_of(state, None, kernels, chunk_rows)
    assert (commits.pending, commits.waiting, commits.reset_count) == ({}, frozenset(), 0)
    assert Counter(commits.issue_counts)[CommitIssueKind.REGRESSED] == 0
    assert commits == commits_by_record(state)


def test_a_damaged_base_offset_hides_no_commit(tmp_path: Path) -> None:
    partition = forge_offsets(tmp_path, {0: COMMITS, 4: "plain @4", 5: "plain @5"}, COMMITTED)
    misplace(file_of(partition), 3, 10**12)
    last = commits_of(state_of(tmp_path)).last["group", "t", 0]
    assert (last.committed, last.offset) == (50, 5)


def superseded_in(folder: Path) -> list[str]:
    """Return the names of the logs that are not read, because the segment before them replaced them."""
    (partition,) = partitions_under(folder)
    return [Path(file.path).name for file in partition.superseded if file.kind == "log"]


@each_overlap
def test_a_segment_that_goes_on_is_read(log: dict[int, str], tmp_path: Path) -> None:
    forge_coordinator(tmp_path, log)
    assert superseded_in(tmp_path) == []
    assert state_of(tmp_path).log_end_offset == 11


def test_the_last_segment_goes_on_after_one_that_was_cleaned(tmp_path: Path) -> None:
    """The follower's cleaner removed offset 4 from the first segment, and does not touch the one being written to."""
    cleaned = REACHED.replace("a Ongoing 1 1 tv 2 {t-0} start 40 @4 t 40; ", "")
    forge_coordinator(tmp_path, {**EQUAL, 0: cleaned})
    assert superseded_in(tmp_path) == []
    assert offsets_read(tmp_path) == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("removed", [(4, 9), (3, 4, 9), (3, 5, 6, 7, 8, 9)], ids=["one and the last", "start", "most"])
def test_a_segment_whose_last_batch_the_cleaner_removed_is_superseded(removed: tuple[int, ...], tmp_path: Path) -> None:
    """It was copied before the cleaner had merged it with the one before it."""
    old, further = [f"plain @{offset}" for offset in range(10)], "plain @10; plain @11"
    before = forge(tmp_path / "before", {0: "; ".join(old[:3]), 3: "; ".join(old[3:]), 10: further}, topic="c")
    merged = "; ".join(f"gone {batch}" if offset in removed else batch for offset, batch in enumerate(old))
    partition = forge(
        tmp_path / "copy", {0: merged, 10: further}, topic="c", first_dirty=10, clean_shutdown=False, snapshots={}
    )
    shutil.copy2(file_of(before, 3), partition)
    assert superseded_in(tmp_path / "copy") == [file_of(partition, 3).name]
