"""The story of a producer: as its leader described it, and what only the log knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.explain.producer_story import producer_story
from kforensics.render.explanations import producer_story_lines
from tests.forensics.cases import SAMPLES, case_in, case_of, partitions_under
from tests.forensics.events import NOW
from tests.forensics.forge import file_of, forge, patch
from tests.forensics.partitions import PARTITIONS

DAY = 86_400_000
SAME = {
    "producer_epoch": "producer_epoch",
    "last_sequence": "last_sequence",
    "coordinator_epoch": "coordinator_epoch",
    "current_txn_first_offset": "current_transaction_start_offset",
}
LEAST = 150


def test_producers_are_as_their_leaders_described_them() -> None:
    compared = 0
    for one in PARTITIONS:
        # Written to again after its leader was asked, or not described at all before 2.8.
        if not one.is_in_sync or not one.truth["producers"]:
            continue
        (partition,) = partitions_under(one.folder)
        case = case_in(partition)
        if case.log_end_offset != one.truth["latest"]:
            continue
        for said in one.truth["producers"]:
            story = producer_story(case, said["producer_id"])
            assert story is not None, (one.folder, said)
            assert {name: int(story.state[name]) for name in SAME} == {name: said[key] for name, key in SAME.items()}
            assert bool(story.counts["open"]) == (said["current_transaction_start_offset"] >= 0)
            compared += 1
    assert compared >= LEAST


def test_what_a_producer_did() -> None:
    (partition,) = partitions_under(SAMPLES / "transactions-v2" / "broker-1" / "hanging-0")
    story = producer_story(case_in(partition), 12, "hanging")
    assert story is not None
    assert (story.transactional_id, story.counts) == ("hanging", {"committed": 1, "aborted": 0, "open": 1})
    assert (story.holds_last_stable_offset, story.bounds.last_stable_offset) == (True, 3)
    assert story.last["first_offset"].tolist() == [0, 3]
    assert (story.epochs, story.records) == ((0, 1), 4)


def test_only_the_last_transactions_are_told_and_all_are_counted(tmp_path: Path) -> None:
    pairs = [f"D 1 0 {number}-{number} @{2 * number} T; M 1 0 C 1 @{2 * number + 1}" for number in range(5)]
    forge(tmp_path, "; ".join(pairs))
    story = producer_story(case_of(tmp_path), 1)
    assert story is not None
    assert (story.counts["committed"], story.last["first_offset"].tolist()) == (5, [4, 6, 8])


def test_markers_that_ended_nothing_and_what_went_wrong_are_counted(tmp_path: Path) -> None:
    forge(tmp_path, "D 1 0 0-1 @0-1 N; D 1 0 5-5 @2-2 N; M 2 0 A 1 @3")
    case = case_of(tmp_path)
    gapped, marked = producer_story(case, 1), producer_story(case, 2)
    assert gapped is not None
    assert marked is not None
    assert (gapped.anomalies, gapped.empty_markers, gapped.epochs) == ({"seq-gap": 1}, 0, None)
    assert (marked.anomalies, marked.empty_markers) == ({}, 1)


def test_a_producer_that_wrote_nothing_here_has_no_story(tmp_path: Path) -> None:
    forge(tmp_path, "D 1 0 0-0 @0-0 N")
    assert producer_story(case_of(tmp_path), 2) is None


@pytest.mark.parametrize(("later", "expired"), [(DAY // 2, False), (2 * DAY, True)], ids=["soon", "late"])
def test_a_broker_forgets_a_silent_producer(tmp_path: Path, later: int, *, expired: bool) -> None:
    forge(tmp_path, "D 1 0 0-0 @0-0 N; D 2 0 0-0 @1-1 T")
    case = case_of(tmp_path, as_of_ms=NOW + later)
    told = [producer_story(case, producer_id) for producer_id in (1, 2)]
    # The transaction of producer 2 is open, so it is never forgotten.
    assert [one is not None and one.is_expired for one in told] == [expired, False]


def test_without_the_head_a_state_is_exact_behind_a_marker(tmp_path: Path) -> None:
    log = {10: "D 1 0 5-5 @10-10 T; M 1 0 C 1 @11; D 2 0 7-7 @12-12 N"}
    forge(tmp_path, log, snapshots={10: None, 13: None})
    case = case_of(tmp_path)
    told = [producer_story(case, producer_id) for producer_id in (1, 2)]
    assert [one is not None and one.is_exact for one in told] == [True, False]


def test_damage_may_hide_what_a_producer_did(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, "D 1 0 0-0 @0-0 N; plain @1-1; plain @2-2"))
    patch(log, 1, fix_crc=False, length=-1)
    story = producer_story(case_of(tmp_path), 1)
    assert story is not None
    assert story.is_exact is False


@pytest.mark.parametrize(
    ("log", "markers"), [("D 1 0 0-0 @10-10 T; M 1 0 C 1 @11", 0), ("M 1 0 C 1 @11", 1)], ids=["data", "marker"]
)
def test_a_producer_that_a_broker_has_forgotten_has_a_story(tmp_path: Path, log: str, markers: int) -> None:
    forge(tmp_path, {10: log, 12: "plain @12-12"}, snapshots={10: None, 12: [], 13: []})
    story = producer_story(case_of(tmp_path), 1)
    assert story is not None
    assert (story.state, story.empty_markers) == (None, markers)
    assert "nothing of it any more" in next(iter(producer_story_lines(story)))


def test_the_newest_snapshot_is_told(tmp_path: Path) -> None:
    forge(tmp_path, {0: "D 1 0 0-0 @0-0 N", 1: "D 2 0 0-0 @1-1 N"})
    story = producer_story(case_of(tmp_path), 1)
    assert story is not None
    assert story.snapshot is not None
    assert story.snapshot[0].endswith("00000000000000000002.snapshot")
