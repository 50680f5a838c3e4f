"""The explanation of a producer: as its leader described it, and what only the log shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.explain.producer_story import producer_story
from kforensics.render.explanation_text import producer_story_lines
from tests.forensics.batch_notation import NOW
from tests.forensics.forge import file_of, forge, patch
from tests.forensics.partition_states import SAMPLES, partitions_under, state_of, state_under
from tests.forensics.sample_partitions import PARTITIONS

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
    for replica in PARTITIONS:
        # Written to again after its leader was asked, or not described at all before 2.8.
        if not replica.is_in_sync or not replica.truth["producers"]:
            continue
        (partition,) = partitions_under(replica.folder)
        state = state_of(partition)
        if state.log_end_offset != replica.truth["latest"]:
            continue
        for described in replica.truth["producers"]:
            story = producer_story(state, described["producer_id"])
            assert story is not None, (replica.folder, described)
            assert story.state is not None, (replica.folder, described)
            assert {name: int(story.state[name]) for name in SAME} == {
                name: described[key] for name, key in SAME.items()
            }
            assert bool(story.counts["open"]) == (described["current_transaction_start_offset"] >= 0)
            compared += 1
    assert compared >= LEAST


def test_what_a_producer_did() -> None:
    (partition,) = partitions_under(SAMPLES / "transactions-v2" / "broker-1" / "hanging-0")
    story = producer_story(state_of(partition), 12, "hanging")
    assert story is not None
    assert story.transactional_id == "hanging"
    assert story.counts == {"committed": 1, "aborted": 0, "open": 1, "forgotten": 0}
    assert (story.holds_last_stable_offset, story.bounds.last_stable_offset) == (True, 3)
    assert story.last["first_offset"].tolist() == [0, 3]
    assert (story.epochs, story.records) == ((0, 1), 4)


def test_only_the_last_transactions_are_listed_and_all_are_counted(tmp_path: Path) -> None:
    pairs = [f"D 1 0 {number}-{number} @{2 * number} T; M 1 0 C 1 @{2 * number + 1}" for number in range(5)]
    forge(tmp_path, "; ".join(pairs))
    story = producer_story(state_under(tmp_path), 1)
    assert story is not None
    assert (story.counts["committed"], story.last["first_offset"].tolist()) == (5, [4, 6, 8])


def test_empty_markers_and_anomalies_are_counted(tmp_path: Path) -> None:
    forge(tmp_path, "D 1 0 0-1 @0-1 N; D 1 0 5-5 @2-2 N; M 2 0 A 1 @3")
    state = state_under(tmp_path)
    gapped, marked = producer_story(state, 1), producer_story(state, 2)
    assert gapped is not None
    assert marked is not None
    assert (gapped.anomalies, gapped.empty_markers, gapped.epochs) == ({"seq-gap": 1}, 0, None)
    assert (marked.anomalies, marked.empty_markers) == ({}, 1)


def test_a_producer_that_does_not_appear_has_no_story(tmp_path: Path) -> None:
    forge(tmp_path, "D 1 0 0-0 @0-0 N")
    assert producer_story(state_under(tmp_path), 2) is None


@pytest.mark.parametrize(("later", "expired"), [(DAY // 2, False), (2 * DAY, True)], ids=["soon", "late"])
def test_the_state_of_an_idle_producer_expires(tmp_path: Path, later: int, *, expired: bool) -> None:
    forge(tmp_path, "D 1 0 0-0 @0-0 N; D 2 0 0-0 @1-1 T")
    state = state_under(tmp_path, as_of_ms=NOW + later)
    stories = [producer_story(state, producer_id) for producer_id in (1, 2)]
    # The transaction of producer 2 is open, so its state does not expire.
    assert [story is not None and story.is_expired for story in stories] == [expired, False]


def test_without_the_start_of_the_log_a_state_is_exact_after_a_marker(tmp_path: Path) -> None:
    log = {10: "D 1 0 5-5 @10-10 T; M 1 0 C 1 @11; D 2 0 7-7 @12-12 N"}
    forge(tmp_path, log, snapshots={10: None, 13: None})
    state = state_under(tmp_path)
    stories = [producer_story(state, producer_id) for producer_id in (1, 2)]
    assert [story is not None and story.is_exact for story in stories] == [True, False]


def test_damage_makes_a_producer_state_inexact(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, "D 1 0 0-0 @0-0 N; plain @1-1; plain @2-2"))
    patch(log, 1, fix_crc=False, length=-1)
    story = producer_story(state_under(tmp_path), 1)
    assert story is not None
    assert story.is_exact is False


@pytest.mark.parametrize(
    ("log", "markers"), [("D 1 0 0-0 @10-10 T; M 1 0 C 1 @11", 0), ("M 1 0 C 1 @11", 1)], ids=["data", "marker"]
)
def test_a_producer_without_a_state_on_the_broker_has_a_story(tmp_path: Path, log: str, markers: int) -> None:
    forge(tmp_path, {10: log, 12: "plain @12-12"}, snapshots={10: None, 12: [], 13: []})
    story = producer_story(state_under(tmp_path), 1)
    assert story is not None
    assert (story.state, story.empty_markers) == (None, markers)
    assert "not in the broker's producer state any more" in next(iter(producer_story_lines(story)))


def test_the_newest_snapshot_is_evidence(tmp_path: Path) -> None:
    forge(tmp_path, {0: "D 1 0 0-0 @0-0 N", 1: "D 2 0 0-0 @1-1 N"})
    story = producer_story(state_under(tmp_path), 1)
    assert story is not None
    assert story.snapshot is not None
    assert story.snapshot[0].endswith("00000000000000000002.snapshot")
