"""Open transactions that a broker has forgotten: its newest snapshot lacks them, so they block nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import kforensics
from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
from kforensics.forensics.core.record_types import TransactionArray
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.explain.offset_explainer import OffsetExplainer, bounds_of
from kforensics.forensics.explain.offset_story import RecordStatus
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.forgotten_transactions import producers_below
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.stable_offset import stable_offset
from tests.command import SAMPLES, run
from tests.forensics.audit.test_deleted_topics import DELETED, KEPT, METADATA
from tests.forensics.batch_notation import NOW
from tests.forensics.checks.partition.producer_states import forged_state
from tests.forensics.forge import Segments, SnapshotEntry, file_of, forge, patch, remove_segment, snapshot_bytes
from tests.forensics.partition_states import partitions_under, state_under

OPEN = "plain @0; D 1 0 0-1 @1-2 T; plain @3-4"
FIRST_SEGMENT, CONTINUED = "D 1 0 0-1 @0-1 T", "D 1 0 2-3 @2-3 T; plain @4; D 1 0 4-4 @5 T"
KNOWN = SnapshotEntry(1, 0, 4, 5, 0, current_txn_first_offset=0)
FORGOT, MISMATCH = "state-lost-after-stop/broker-1/open-0", "snapshot-open-txn-mismatch"
DELIVERED = ": this replica has forgotten it, and as leader it delivers its data to all consumers."


class Shown(NamedTuple):
    """Where the last stable offset is, and the first and last offsets of transactions without a marker."""

    stable: int
    opened: list[tuple[int, int]]
    forgotten: list[tuple[int, int]]


def shown(state: PartitionState) -> Shown:
    """Return what a partition shows, which is exact for all that asks for it."""
    stable, bounds, store = stable_offset(state), bounds_of(state), state.transaction_store
    assert stable.last_stable_offset == bounds.last_stable_offset
    assert (stable.exact, bounds.exact) == (True, True)
    opened = [first for first, _ in ranges(store.opened)]
    assert [first for first in state.producers["current_txn_first_offset"].tolist() if first >= 0] == opened
    return Shown(stable.last_stable_offset, ranges(store.opened), ranges(store.forgotten))


def ranges(rows: TransactionArray) -> list[tuple[int, int]]:
    """Return the first and last offsets of transactions."""
    return [(row["first_offset"], row["last_offset"]) for row in rows]


@pytest.mark.parametrize("clean_shutdown", [True, False])
def test_what_the_newest_snapshot_lacks_blocks_nothing(tmp_path: Path, *, clean_shutdown: bool) -> None:
    """Nor if the broker runs, or was killed: whatever its next start reads, it had not read it when it was copied."""
    state = forged_state(tmp_path, OPEN, snapshots={5: []}, clean_shutdown=clean_shutdown)
    assert shown(state) == (5, [], [(1, 2)])
    stories = [OffsetExplainer(state).story(offset) for offset in range(5)]
    assert {story.status for story in stories} == {RecordStatus.VISIBLE}
    assert stories[1].why == (
        "it is in the transaction of producer 1 from offset 1, which the broker has forgotten, as its snapshot at "
        "offset 5 shows: no marker hides its data"
    )


def test_a_producer_with_an_entry_may_have_no_open_transaction(tmp_path: Path) -> None:
    assert shown(forged_state(tmp_path, OPEN, snapshots={5: [SnapshotEntry(1, 0, 1, 2, 1)]})) == (5, [], [(1, 2)])


LOOK_ALIKES: dict[str, tuple[Segments, dict[str, Any]]] = {
    "a right snapshot": (OPEN, {}),
    "no snapshot": (OPEN, {"snapshots": {5: None}}),
    "a snapshot that is cut": (OPEN, {"snapshots": {5: snapshot_bytes([])[:-1]}}),
    "a snapshot with the rest of a longer one": (OPEN, {"snapshots": {5: snapshot_bytes([]) + b"\0"}}),
    "a snapshot from after the end of the log": (OPEN, {"snapshots": {5: None, 9: []}}),
    "a snapshot from before the transaction": (
        {0: "plain @0", 1: "D 1 0 0-1 @1-2 T; plain @3-4"},
        {"snapshots": {1: []}, "clean_shutdown": False},
    ),
    "a snapshot that has it open from an earlier offset": (
        OPEN,
        {"snapshots": {5: [SnapshotEntry(1, 0, 1, 2, 1, current_txn_first_offset=0)]}},
    ),
    "a snapshot that has it open from after itself": (
        OPEN,
        {"snapshots": {5: [SnapshotEntry(1, 0, 1, 2, 1, current_txn_first_offset=7)]}},
    ),
}


@pytest.mark.parametrize(("log", "options"), LOOK_ALIKES.values(), ids=LOOK_ALIKES)
def test_nothing_is_forgotten(tmp_path: Path, log: Segments, options: dict[str, Any]) -> None:
    assert shown(forged_state(tmp_path, log, **options)) == (1, [(1, 2)], [])


def test_what_is_damaged_or_lost_may_be_its_marker(tmp_path: Path) -> None:
    log = {0: "D 1 0 0-1 @0-1 T; M 2 0 C 1 @2", 3: "plain @3"}
    damaged = forge(tmp_path / "damaged", log, snapshots={3: [], 4: []})
    patch(file_of(damaged), 2, fix_crc=False, max_timestamp=7)
    lost = forge(tmp_path / "lost", {**log, 4: "plain @4", 5: "plain @5"}, snapshots={3: [], 4: [], 5: [], 6: []})
    remove_segment(lost, 4)
    for folder in (damaged, lost):
        assert not len(state_under(folder.parent).transaction_store.forgotten)


@pytest.mark.parametrize(
    ("damaged", "other"), [(0, ("warning", "approximate")), (2, ("info", "unverifiable"))], ids=["before", "after"]
)
def test_damage_before_its_data_explains_no_forgotten_transaction(
    tmp_path: Path, damaged: int, other: tuple[str, str]
) -> None:
    """It may explain an open transaction that only the snapshot has."""
    only_in_file = SnapshotEntry(2, 0, 0, 1, 0, current_txn_first_offset=1)
    log = {0: "plain @0; D 2 0 0-0 @1 N; plain @2", 3: "D 1 0 0-1 @3-4 T; plain @5"}
    folder = forge(tmp_path, log, snapshots={6: [only_in_file]})
    patch(file_of(folder), damaged, fix_crc=False, max_timestamp=7)
    assert shown(state_under(tmp_path)) == (6, [], [(3, 4)])
    found = {
        row["producer_id"]: row for row in kforensics.audit(tmp_path).findings.to_pylist() if row["code"] == MISMATCH
    }
    assert [(found[one]["severity"], found[one]["exactness"]) for one in (1, 2)] == [("critical", "exact"), other]
    assert "batches lost from the log: only before the transaction" in found[1]["benign"]
    assert f"critical {MISMATCH}" in run("lso", tmp_path).text


@pytest.mark.parametrize("topic_id", [DELETED, KEPT], ids=["deleted", "another topic was deleted"])
def test_lso_shows_it_as_an_audit_does(tmp_path: Path, topic_id: str) -> None:
    """The metadata log shows that the topic was deleted while its files were copied, so that nothing there matters."""
    replaced = {"t-0/partition.metadata": f"version: 0\ntopic_id: {topic_id}".encode()}
    forge(tmp_path, OPEN, snapshots={5: []}, clean_shutdown=False, replaced=replaced)
    shutil.copytree(METADATA, tmp_path / METADATA.name)
    (row,) = (row for row in kforensics.audit(tmp_path).findings.to_pylist() if row["code"] == MISMATCH)
    assert row["severity"] == ("info" if topic_id == DELETED else "critical")
    ended = run("lso", tmp_path)
    assert (ended.code, f"critical {MISMATCH}" in ended.text) == ((0, False) if topic_id == DELETED else (1, True))


def test_a_transaction_whose_data_was_deleted_exposes_nothing(tmp_path: Path) -> None:
    state = forged_state(tmp_path, OPEN, snapshots={5: []}, log_start=3)
    assert not len(state.transaction_store.forgotten)


@pytest.mark.parametrize("entry", [None, 2, 0], ids=["rolled", "known since", "known from the beginning"])
def test_the_data_that_follows_is_another_transaction_for_the_broker(tmp_path: Path, entry: int | None) -> None:
    """A broker whose newest snapshot has the whole transaction has not forgotten it, whatever an older one has."""
    newest = None if entry is None else [KNOWN._replace(current_txn_first_offset=entry)]
    state = forged_state(tmp_path, {0: FIRST_SEGMENT, 2: CONTINUED}, snapshots={2: [], 6: newest})
    assert shown(state) == ((0, [(0, 5)], []) if entry == 0 else (2, [(2, 5)], [(0, 1)]))
    if entry != 0:
        (opened,), (forgotten,) = state.transaction_store.opened, state.transaction_store.forgotten
        assert (opened["records"], opened["batches"], opened["segment"], opened["position"]) == (3, 2, 1, 0)
        assert (forgotten["records"], forgotten["batches"], forgotten["segment"]) == (2, 1, 0)
        begun = {offset: producers_below(state, offset)["current_txn_first_offset"].tolist() for offset in (1, 2, 4, 6)}
        assert begun == ({1: [0], 2: [-1], 4: [2], 6: [2]} if entry is None else {1: [0], 2: [0], 4: [0], 6: [2]})
        assert [OffsetExplainer(state).story(offset).status for offset in (0, 2, 4, 5)] == [
            RecordStatus.VISIBLE,
            RecordStatus.UNDECIDED,
            RecordStatus.HELD_BACK,
            RecordStatus.UNDECIDED,
        ]


@pytest.mark.parametrize("producers", [1, 12])
def test_the_log_is_read_again_once(tmp_path: Path, producers: int) -> None:
    """However many producers went on with their transactions after their broker had forgotten their first data."""
    ids, read = range(1, producers + 1), list[int]()
    first, later = ([f"D {one} 0 {at}-{at} @{at * producers + one - 1} T" for one in ids] for at in (0, 1))
    entries = [SnapshotEntry(one, 0, 1, at, 0, current_txn_first_offset=at) for at, one in enumerate(ids, producers)]
    log = {0: "; ".join(first), producers: "; ".join(later)}
    folder = forge(tmp_path, log, snapshots={2 * producers: entries})
    with file_of(folder, producers).open("ab") as file:
        file.write(b"\1" * 9)
    (partition,) = partitions_under(tmp_path)
    state = examine(partition, Rules(NOW), kernels=read.append)
    assert state.torn_end is not None
    assert (state.damage_before_end, state.is_broken) == ((), False)
    assert shown(state)[1:] == (
        [(at, at) for at in range(producers, 2 * producers)],
        [(at, at) for at in range(producers)],
    )
    assert len(read) == 2 * len(partition.segments)


def test_only_some_transactions_are_forgotten(tmp_path: Path) -> None:
    log = "D 1 0 0-0 @0 T; D 2 0 0-0 @1 T; D 3 0 0-0 @2 T; M 3 0 C 1 @3"
    state = forged_state(tmp_path, log, snapshots={4: [SnapshotEntry(2, 0, 0, 1, current_txn_first_offset=1)]})
    assert shown(state) == (1, [(1, 1)], [(0, 0)])


def test_the_answer_is_that_of_each_replica(tmp_path: Path) -> None:
    """One has not forgotten the transaction and is stuck; that the other one passed it is no sign of an end."""
    forge(tmp_path / "broker-1", OPEN)
    forge(tmp_path / "broker-2", OPEN, node_id=2, snapshots={5: []})
    rows = kforensics.lso(tmp_path).to_pylist()
    assert [(row["broker_id"], row["last_stable_offset"], row["exact"]) for row in rows] == [(1, 1, True), (2, 5, True)]
    forgetful = PartitionMarkers.of(state_under(tmp_path / "broker-2"))
    assert forgetful.has_passed(np.array([0, 1])).tolist() == [True, False]
    codes = kforensics.audit(tmp_path).findings.to_pylist()
    assert {row["code"] for row in codes if row["code"].startswith("replica-")} == set()
    assert [row["broker_id"] for row in codes if row["code"] == "txn-open-at-end"] == [1]


def test_answers_on_a_broker_that_had_lost_its_snapshots_are_as_it_gave_them() -> None:
    folder = SAMPLES / FORGOT
    truth = json.loads((folder.parents[1] / "truth.json").read_text("utf-8"))["topics"]["open"]["0"]
    (row,) = kforensics.lso(folder).to_pylist()
    assert (row["last_stable_offset"], row["exact"]) == (truth["latest_read_committed"], True)
    assert [row["outcome"] for row in kforensics.transactions(folder).to_pylist()] == ["aborted", "forgotten"]
    assert kforensics.transactions(folder, states=["open"]).to_pylist() == []
    found = [row for row in kforensics.audit(folder).findings.to_pylist() if row["producer_id"] == 1]
    assert {row["code"] for row in found} & {"txn-open-at-end", "txn-late", "lso-stuck", "txn-hanging"} == set()
    (row,) = (row for row in found if row["code"] == MISMATCH and row["first_offset"] == 19)
    assert row["message"].endswith(DELIVERED)
    assert run("lso", folder).code == 1
    known = {row["producer_id"]: row["current_txn_first_offset"] for row in kforensics.producers(folder).to_pylist()}
    assert {known[one["producer_id"]] for one in truth["producers"]} == {-1}
