"""The history of a coordinator's partition, from forged logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.coordinators.coordinator_records import ALWAYS, NEVER, State
from kforensics.forensics.coordinators.transactions.history import UNKNOWN_SET, Coordinators
from kforensics.forensics.core.packed_rows import as_array
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.parsers.format.array_types import StructArray
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import forge_coordinator, history_under
from tests.forensics.forge import drop, file_of

LIFE = (
    "a Empty 1 0 t 0; a Ongoing 1 0 {t-0} t 10; b Empty 2 0 t 11; a Ongoing 1 0 {t-0, t-1} t 12; "
    "a PrepareCommit 1 0 {t-0, t-1} t 20; b Ongoing 2 0 tv 2 {t-0} t 21; a CompleteCommit 1 0 t 30; "
    "b PrepareAbort 2 1 tv 2 {t-0} t 40"
)

BEGUN, PREPARED = "a Empty 1 0 t 0; a Ongoing 1 0 {t-0} t 10", "a PrepareCommit 1 0 {t-0} t 20"


def transactions_under(folder: Path) -> StructArray:
    return as_array(history_under(folder).transactions)


def test_transactions_are_assembled(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, LIFE, leader_epochs={0: 3, 6: 4})
    history = history_under(tmp_path)
    names = ("id", "producer_id", "data_epoch", "marker_epoch", "status", "start", "decided", "completed")
    first, second = as_array(history.transactions)[list(names)].tolist()
    times = [NOW + time for time in (10, 20, 30)]
    assert first == (0, 1, 0, 0, State.COMPLETE_COMMIT, *times)
    assert second == (1, 2, 0, 1, State.PREPARE_ABORT, NOW + 21, NOW + 40, NO_TIME)
    assert [history.partition_sets[number] for number in history.transactions["partitions"]] == [
        (("t", 0), ("t", 1)),
        (("t", 0),),
    ]
    epochs = as_array(history.transactions)[["prepare_leader_epoch", "complete_leader_epoch", "offset"]].tolist()
    assert epochs == [(3, 4, 4), (4, -1, 7)]
    assert (history.coverage_start, history.last_record_time, history.records) == (ALWAYS, NOW + 40, 8)


def test_ids_by_their_last_record(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, f"{LIFE}; a gone t 50")
    history = history_under(tmp_path)
    assert list(history.names) == ["a", "b"]
    names = ("status", "is_removed", "inits", "transactions", "committed", "aborted", "producers", "offset")
    assert history.ids[list(names)].tolist() == [(-1, True, 1, 1, 1, 0, 1, 8), (3, False, 1, 1, 0, 0, 1, 7)]


def test_a_prepare_record_written_again_is_one_transaction(tmp_path: Path) -> None:
    """The first Prepare record has the time of the decision, the last Complete record the end."""
    log = "a Empty 1 0 t 0; a Ongoing 1 0 {t-0} t 1; a PrepareAbort 1 0 {t-0} t 2; a PrepareAbort 1 1 {t-0} t 3"
    forge_coordinator(tmp_path, f"{log}; a CompleteAbort 1 1 t 4; a CompleteAbort 1 1 t 5")
    (row,) = transactions_under(tmp_path)[["marker_epoch", "decided", "completed", "is_superseded"]].tolist()
    assert row == (1, NOW + 2, NOW + 5, False)


def test_transactions_of_one_epoch_differ_by_their_start(tmp_path: Path) -> None:
    """After an offset gap a Complete record does not belong to the Prepare record before it."""
    log = "a PrepareCommit 1 0 {t-0} start 1 t 2; a CompleteCommit 1 0 start 7 t 9"
    forge_coordinator(tmp_path, {5: log})
    first, second = transactions_under(tmp_path)[["status", "partitions", "completed"]].tolist()
    assert first == (State.PREPARE_COMMIT, 0, NO_TIME)
    assert second == (State.COMPLETE_COMMIT, UNKNOWN_SET, NOW + 9)


def test_a_complete_record_alone_has_the_key_of_its_markers(tmp_path: Path) -> None:
    """Even if it brought the next producer id: its markers have the last epoch of the previous one."""
    log = "a CompleteCommit 1 4 tv 2 t 9; b CompleteAbort 9 0 tv 2 prev 8 t 10"
    forge_coordinator(tmp_path, {5: log})
    assert transactions_under(tmp_path)[["producer_id", "marker_epoch"]].tolist() == [(1, 4), (8, 32767)]


@pytest.mark.parametrize("broken", [False, True])
def test_the_start_of_coverage(broken: bool, tmp_path: Path) -> None:
    """The first record after the compacted section; never if records are unreadable."""
    folder = forge_coordinator(
        tmp_path, {0: "a Empty 1 3 @4 t 4", 20: "a Empty 1 5 t 20; a Empty 1 6 t 21; a Empty 1 7 t 22"}, first_dirty=20
    )
    if broken:
        log = file_of(folder, 20)
        log.write_bytes(log.read_bytes()[:80] + bytes(40) + log.read_bytes()[120:])
    history = history_under(tmp_path)
    assert history.coverage_start == (NEVER if broken else NOW + 20)
    assert not history.ids["history_complete"].any()


def test_a_missing_record_makes_the_history_incomplete(tmp_path: Path) -> None:
    """A leader writes no log with an offset gap that no cleaner made."""
    folder = forge_coordinator(tmp_path, LIFE)
    drop(file_of(folder), 4)
    history = history_under(tmp_path)
    assert history.ids["history_complete"].tolist() == [False, False]


def test_several_coordinators_combined(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, LIFE)
    forge_coordinator(tmp_path, "c Empty 7 0 t 0; c Ongoing 7 0 {u-5} t 1; c PrepareCommit 7 0 {u-5} t 2", partition=1)
    coordinators = Coordinators.of([history_under(tmp_path, 0), history_under(tmp_path, 1)])
    assert list(coordinators.names) == ["a", "b", "c"]
    last = coordinators.transactions[-1]
    assert (coordinators.name(int(last["id"])), coordinators.listed(int(last["partitions"]))) == ("c", (("u", 5),))
    assert int(last["coordinator"]) == 1
    assert coordinators.id_of(coordinators.transactions["producer_id"]).tolist() == [0, 1, 2]
    assert coordinators.id_of(last["producer_id"][None] + 1).tolist() == [-1]
    assert Coordinators.of([]).id_of(coordinators.transactions["producer_id"]).tolist() == [-1, -1, -1]


def test_a_transaction_decided_again_has_the_same_data(tmp_path: Path) -> None:
    log = "a Empty 1 0 t 0; a Ongoing 1 0 {t-0} t 1; a PrepareCommit 1 0 {t-0} t 2; a PrepareAbort 1 1 {t-0} t 3"
    forge_coordinator(tmp_path, f"{log}; a CompleteAbort 1 1 t 4")
    names = ["data_epoch", "marker_epoch", "status", "is_superseded"]
    history = history_under(tmp_path)
    assert as_array(history.transactions)[names].tolist() == [
        (0, 0, State.PREPARE_COMMIT, True),
        (0, 1, State.COMPLETE_ABORT, False),
    ]
    assert history.ids[["transactions", "committed", "aborted"]].tolist() == [(1, 0, 1)]


def test_the_latest_time_counts_if_a_clock_was_set_back(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, "a Empty 1 0 t 9; a Empty 1 1 t 3")
    assert history_under(tmp_path).last_record_time == NOW + 9


@pytest.mark.parametrize("tail", [b"", bytes(500)], ids=["as written", "zeros of log.preallocate"])
@pytest.mark.parametrize(
    ("log", "starts"),
    [
        ({0: f"{BEGUN}; {PREPARED}"}, ALWAYS),
        ({0: BEGUN, 2: PREPARED}, ALWAYS),
        ({0: BEGUN, 3: PREPARED}, NOW + 20),
        ({0: f"{BEGUN}; {PREPARED}", 3: ""}, ALWAYS),
        ({0: f"{BEGUN}; {PREPARED}", 9: ""}, NEVER),
        ({0: "", 9: ""}, NEVER),
    ],
    ids=["one segment", "two segments", "a gap", "an empty segment", "a gap before the empty segment", "no batch"],
)
def test_contiguous_offsets_show_that_a_cleaner_removed_nothing(
    log: dict[int, str], starts: int, tail: bytes, tmp_path: Path
) -> None:
    """The broker was killed or at work: its cleaner may have gone on after its checkpoint was written."""
    folder = forge_coordinator(tmp_path, log, clean_shutdown=False)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\n__transaction_state 0 0\n")
    with file_of(folder, max(log)).open("ab") as file:
        file.write(tail)
    assert history_under(tmp_path).coverage_start == starts


@pytest.mark.parametrize(("clean_shutdown", "starts"), [(False, ALWAYS), (True, NEVER)])
def test_a_torn_batch_at_the_end(clean_shutdown: bool, starts: int, tmp_path: Path) -> None:
    """It had not become one when the broker was killed; of a broker that stopped it was one."""
    folder = forge_coordinator(tmp_path, f"{BEGUN}; {PREPARED}", clean_shutdown=clean_shutdown)
    path = file_of(folder)
    path.write_bytes(path.read_bytes()[:-9])
    assert history_under(tmp_path).coverage_start == starts
