from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.coordinators.coordinator_records import State, StateRecord
from kforensics.forensics.core.record_types import NO_TIME
from tests.forensics.batch_notation import NOW
from tests.forensics.coordinators.clusters import forge_coordinator
from tests.forensics.forge import file_of, patch
from tests.forensics.partition_states import SAMPLES, partitions_under
from tests.reference.coordinator_history import state_records


def records_under(folder: Path) -> list[StateRecord]:
    (partition,) = partitions_under(folder)
    return list(state_records(partition))


@pytest.mark.parametrize("version", [0, 1])
def test_all_fields(version: int, tmp_path: Path) -> None:
    log = "a PrepareAbort 7 3 tv 2 prev 6 next 8 timeout 900 {t-1, t-0, s-2} start 4 t 9; a gone t 10"
    forge_coordinator(tmp_path, log, version=version, leader_epochs={0: 5})
    first, second = records_under(tmp_path)
    tags = (6, 8, 2) if version else (-1, -1, 0)
    assert (first.previous_producer_id, first.next_producer_id, first.transaction_version) == tags
    assert (first.state, first.producer, first.timeout_ms, first.version) == (State.PREPARE_ABORT, (7, 3), 900, version)
    assert first.partitions == (("s", 2), ("t", 0), ("t", 1))
    assert (first.start_ms, first.last_update_ms, first.timestamp, first.time) == (NOW + 4, *[NOW + 9] * 3)
    assert (first.segment, first.position, first.offset, first.leader_epoch) == (0, 0, 0, 5)
    assert (second.is_tombstone, second.state, second.offset, second.transactional_id) == (True, None, 1, "a")


def test_null_and_empty_lists_of_partitions(tmp_path: Path) -> None:
    forge_coordinator(tmp_path, "a Empty 1 0 t 0; a CompleteAbort 1 0 t 1")
    assert [record.partitions for record in records_under(tmp_path)] == [None, ()]


def test_a_batch_with_a_wrong_checksum_is_ignored(tmp_path: Path) -> None:
    folder = forge_coordinator(tmp_path, "a Empty 1 0 t 0; a Empty 1 1 t 1; a Empty 1 2 t 2")
    patch(file_of(folder), 1, fix_crc=False, crc=1)
    assert [record.offset for record in records_under(tmp_path)] == [0, 2]


def test_states_have_kafkas_names() -> None:
    names = "Empty Ongoing PrepareCommit PrepareAbort CompleteCommit CompleteAbort Dead PrepareEpochFence"
    assert [str(state) for state in State] == names.split()
    assert State.EMPTY.is_idle
    assert State.COMPLETE_ABORT.is_idle
    assert not State.ONGOING.is_idle
    assert State.PREPARE_COMMIT.is_prepared
    assert not State.PREPARE_EPOCH_FENCE.is_prepared


def test_records_of_format_0_have_the_time_of_their_field() -> None:
    """Except Complete records, whose field is from before the first marker."""
    (partition,) = (
        one
        for one in partitions_under(SAMPLES / "legacy-magic-0")
        if one.place.topic == "__transaction_state" and one.size
    )
    found = list(state_records(partition))
    assert {record.timestamp for record in found} == {-1}
    for record in found:
        complete = record.state is not None and record.state.is_complete
        assert record.time == (NO_TIME if complete else record.last_update_ms)


def test_broken_records_are_reported_and_skipped() -> None:
    """Each of these partitions has a record with its own kind of damage after an intact one."""
    found = {
        partition.place.partition: list(state_records(partition))
        for partition in partitions_under(SAMPLES / "damaged" / "internal")
        if partition.place.topic == "__transaction_state"
    }
    errors = {number: {record.error for record in records} - {None} for number, records in found.items()}
    broken = {number for number, some in errors.items() if some}
    assert broken == {13, 14, 15, 16, 18, 19, 20}
    assert [record.state for record in found[6] if record.status == 6] == [State.DEAD]
    assert {record.state for record in found[9] if record.status == 99} == {None}
