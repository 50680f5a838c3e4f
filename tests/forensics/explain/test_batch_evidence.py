"""Evidence about a record: transaction indexes, snapshots and other batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kforensics.forensics.explain.offset_explainer import OffsetExplainer
from kforensics.forensics.explain.offset_story import RecordStatus
from tests.forensics.explain.stories import story
from tests.forensics.forge import file_of, forge
from tests.forensics.partition_states import SAMPLES, partitions_under, state_of

OPEN = "plain @0-0; D 1 0 0-0 @1-1 T; D 2 0 0-0 @2-2 T; M 2 0 A 1 @3; D 3 0 0-0 @4-4 T; M 3 0 C 1 @5; plain @6-6"
ABORTED = "D 1 0 0-1 @0-1 T; M 1 0 A 1 @2; D 1 0 2-2 @3-3 T; M 1 0 C 1 @4"


def test_the_index_lists_an_aborted_transaction(tmp_path: Path) -> None:
    forge(tmp_path, ABORTED)
    explained = story(tmp_path, 1)
    assert (explained.status, explained.indexed, explained.read_committed) == (RecordStatus.ABORTED, True, False)
    assert explained.entry is not None
    assert (explained.entry.first_offset, explained.entry.last_offset, explained.entry.position) == (0, 2, 0)
    assert story(tmp_path, 3).indexed is False


@pytest.mark.parametrize("entry", [(9, 0, 2, 3), (1, 2, 4, 5)], ids=["producer", "offsets"])
def test_other_entries_do_not_hide_aborted_data(tmp_path: Path, entry: tuple[int, int, int, int]) -> None:
    forge(tmp_path, ABORTED, txnindex={0: [entry]})
    assert story(tmp_path, 1).indexed is False


def test_without_an_entry_consumers_receive_aborted_data(tmp_path: Path) -> None:
    forge(tmp_path, ABORTED, txnindex={0: None})
    explained = story(tmp_path, 1)
    assert (explained.status, explained.indexed) == (RecordStatus.ABORTED, False)
    assert (explained.read_committed, explained.is_shown_by_index) == (True, True)


def test_a_missing_entry_shows_no_aborted_data_above_the_last_stable_offset(tmp_path: Path) -> None:
    forge(tmp_path, OPEN, txnindex={0: None})
    explained = story(tmp_path, 2)
    assert (explained.status, explained.indexed, explained.read_committed) == (RecordStatus.ABORTED, False, False)


def test_an_index_that_was_not_copied_is_no_evidence(tmp_path: Path) -> None:
    folder = forge(tmp_path, ABORTED, txnindex={0: None})
    file_of(folder, 0, "index").unlink()
    assert story(tmp_path, 1).indexed is False
    file_of(folder, 0, "timeindex").unlink()
    explained = story(tmp_path, 1)
    assert (explained.indexed, explained.read_committed) == (None, False)


def test_a_wrong_entry_hides_committed_data(tmp_path: Path) -> None:
    forge(tmp_path, ABORTED, txnindex={0: [(1, 0, 2, 3), (1, 3, 4, 5)]})
    explained = story(tmp_path, 3)
    assert (explained.status, explained.indexed) == (RecordStatus.VISIBLE, True)
    assert (explained.read_uncommitted, explained.read_committed, explained.is_hidden_by_index) == (True, False, True)


def test_batches_of_the_same_sequences_are_listed() -> None:
    folder = SAMPLES / "duplicates" / "broker-1" / "expired-0"
    (partition,) = partitions_under(folder)
    explainer = OffsetExplainer(state_of(partition))
    assert [batch.base_offset for batch in explainer.story(13).same_sequence] == [3]
    assert [batch.base_offset for batch in explainer.story(4).same_sequence] == [12]
    assert explainer.story(0).same_sequence == ()


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ({0: "D 1 0 0-0 @0-0 N", 1: "D 1 0 0-0 @1-1 N"}, [1]),
        ("D 1 0 0-0 @0-0 N; D 1 0 0-0 @1-1 N; D 1 1 0-0 @2-2 N", [1]),
        ("D 1 0 0-1 @0-1 N; D 1 0 0-0 @2-2 N", []),
        ("D 1 0 0-0 @0-0 N; D 2 0 0-0 @1-1 N; D 2 0 0-0 @2-2 N", []),
        ("D 1 0 0-0 @0-0 N; plain @1-1", []),
    ],
    ids=["segments", "epochs", "shorter", "producers", "once"],
)
def test_batches_of_the_same_sequences_are_of_one_epoch(tmp_path: Path, log: Any, expected: list[int]) -> None:
    forge(tmp_path, log)
    assert [batch.base_offset for batch in story(tmp_path, 0).same_sequence] == expected


def test_sequences_of_a_group_coordinator_are_not_compared(tmp_path: Path) -> None:
    log = "D 1 1 0-0 @0-0 T; M 1 1 C 1 @1; D 1 0 0-0 @2-2 T; M 1 0 C 1 @3; D 1 0 0-0 @4-4 T; M 1 0 C 1 @5"
    forge(tmp_path, log, topic="__consumer_offsets")
    assert story(tmp_path, 2).same_sequence == ()


def test_the_next_snapshot_has_the_producer_state(tmp_path: Path) -> None:
    forge(tmp_path, {0: "D 1 0 0-1 @0-1 T", 2: "M 1 0 C 1 @2; D 2 0 0-0 @3-3 N"})
    path, state = story(tmp_path, 0).snapshot or ("", None)
    assert path.endswith("00000000000000000002.snapshot")
    assert state is not None
    assert int(state["current_txn_first_offset"]) == 0
    assert (story(tmp_path, 3).snapshot or ("", None))[0].endswith("00000000000000000004.snapshot")
