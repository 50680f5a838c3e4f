"""Why an offset has no record, in forged logs that lack it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.core.findings import Exactness
from kforensics.forensics.explain.offset_explainer import OffsetExplainer
from kforensics.forensics.explain.offset_story import RecordStatus
from kforensics.forensics.partition.partition_files import partitions_of
from kforensics.parsers.files.discover import FoundFile, discover
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import walk
from tests.forensics.explain.stories import story
from tests.forensics.forge import drop, file_of, forge, patch
from tests.forensics.partition_states import state_of

EXACT, APPROXIMATE = Exactness.EXACT, Exactness.APPROXIMATE


def test_a_missing_batch_of_an_uncompacted_log_is_lost(tmp_path: Path) -> None:
    folder = forge(tmp_path, "plain @0-2; plain @3-5; plain @6-8")
    drop(file_of(folder), 3)
    explained = story(tmp_path, 4)
    assert (explained.status, explained.exactness, explained.batch) == (RecordStatus.LOST, EXACT, None)
    assert explained.offset_gap is not None
    assert (
        explained.offset_gap.first_offset,
        explained.offset_gap.last_offset,
        explained.offset_gap.is_between_segments,
    ) == (
        3,
        5,
        False,
    )
    (tmp_path / "cleaner-offset-checkpoint").unlink()
    assert story(tmp_path, 4).exactness is APPROXIMATE


def test_a_missing_segment_is_lost(tmp_path: Path) -> None:
    folder = forge(tmp_path, {0: "plain @0-2", 3: "plain @3-5", 6: "plain @6-8"})
    file_of(folder, 3).unlink()
    explained = story(tmp_path, 5)
    assert (explained.status, explained.exactness) == (RecordStatus.LOST, EXACT)
    assert "a segment is missing" in explained.why
    assert explained.offset_gap is not None
    assert explained.offset_gap.is_between_segments


def test_an_offset_gap_of_the_cleaner_is_compacted(tmp_path: Path) -> None:
    forge(tmp_path, {0: "plain @0-2; plain @6-8", 9: "plain @9-9"}, compacted=True)
    explained = story(tmp_path, 4)
    assert (explained.status, explained.exactness) == (RecordStatus.COMPACTED, EXACT)
    (tmp_path / "cleaner-offset-checkpoint").unlink()
    assert (story(tmp_path, 4).status, story(tmp_path, 4).exactness) == (RecordStatus.COMPACTED, APPROXIMATE)


def test_compacted_offsets_in_an_aborted_transaction_list_it(tmp_path: Path) -> None:
    log = (
        "D 1 0 0-0 @0-0 T; D 2 0 0-0 @1-1 T; gone plain @2-2; D 1 0 1-1 @3-3 T; M 1 0 A 1 @4; gone plain @5-5;"
        "M 2 0 C 1 @6"
    )
    forge(tmp_path, {0: log, 7: "plain @7-7"}, compacted=True)
    (overlapping_aborted,) = story(tmp_path, 2).overlapping_aborted
    assert (overlapping_aborted["first_offset"], overlapping_aborted["marker_offset"]) == (0, 4)
    assert story(tmp_path, 5).status is RecordStatus.COMPACTED
    assert story(tmp_path, 5).overlapping_aborted == ()


@pytest.mark.parametrize(
    ("compacted", "status"),
    [(False, RecordStatus.NOT_IN_BATCH), (True, RecordStatus.COMPACTED)],
    ids=["uncleaned", "cleaned"],
)
def test_a_batch_with_fewer_records_than_offsets(tmp_path: Path, status: RecordStatus, *, compacted: bool) -> None:
    forge(tmp_path, {0: "plain @0-0; plain @1-3 cnt 1; plain @4-4", 5: "plain @5-5"}, compacted=compacted)
    explained = [story(tmp_path, offset) for offset in (1, 2, 3, 4)]
    missing = [result for result in explained if result.status is status]
    assert len(missing) == 2
    assert {result.exactness for result in missing} == {EXACT}
    assert [result.status for result in explained if result not in missing] == [RecordStatus.VISIBLE] * 2
    for result in missing:
        assert result.batch is not None
        assert result.batch.is_partially_compacted
        assert result.record is None


def test_an_emptied_marker_is_compacted(tmp_path: Path) -> None:
    forge(tmp_path, {0: "D 3 0 0-0 @0-0 T; empty 3 @1; M 3 0 C 1 @2", 3: "plain @3-3"}, compacted=True)
    explained = story(tmp_path, 1)
    assert (explained.status, explained.transaction) == (RecordStatus.COMPACTED, None)
    assert "emptied" in explained.why


def test_offsets_in_unreadable_bytes_are_damaged(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, "plain @0-2; plain @3-5; plain @6-8"))
    data = log.read_bytes()
    size = len(data) // 3
    log.write_bytes(data[:size] + bytes([255] * size) + data[2 * size :])
    explained = story(tmp_path, 4)
    assert (explained.status, explained.exactness) == (RecordStatus.DAMAGED, APPROXIMATE)
    assert f"bytes {size:#x} to {2 * size:#x}" in explained.why
    # The unreadable bytes may have opened a transaction.
    assert (story(tmp_path, 0).status, story(tmp_path, 0).exactness) == (RecordStatus.VISIBLE, APPROXIMATE)


def test_after_damage_every_outcome_is_approximate(tmp_path: Path) -> None:
    _spoil(file_of(forge(tmp_path, "D 1 0 0-0 @0-0 T; plain @1-3; M 1 0 A 1 @4")), 1)
    explained = story(tmp_path, 0)
    assert (explained.status, explained.exactness, explained.bounds.exact) == (RecordStatus.ABORTED, APPROXIMATE, False)


def test_a_batch_whose_checksum_fails_is_damaged(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, "plain @0-2; plain @3-5; plain @6-8"))
    patch(log, 3, fix_crc=False, max_timestamp=7)
    explained = story(tmp_path, 4)
    assert explained.status is RecordStatus.DAMAGED
    assert explained.record is not None


def test_a_torn_last_batch_is_beyond_the_end_and_reported(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, "plain @0-2; plain @3-5"))
    log.write_bytes(log.read_bytes()[:-1])
    explained = story(tmp_path, 4)
    assert (explained.status, explained.exactness) == (RecordStatus.BEYOND_END, APPROXIMATE)
    assert "truncated" in explained.why


def test_zeros_after_the_last_batch_are_not_damage(tmp_path: Path) -> None:
    folder = forge(tmp_path, {0: "plain @0-2", 3: "plain @3-5", 6: "plain @6-8"})
    file_of(folder, 3).unlink()
    for base in (0, 6):
        log = file_of(folder, base)
        log.write_bytes(log.read_bytes() + bytes(4096))
    assert (story(tmp_path, 4).status, story(tmp_path, 9).status) == (RecordStatus.LOST, RecordStatus.BEYOND_END)
    assert story(tmp_path, 9).exactness is EXACT


def test_a_last_batch_with_a_wrong_crc_still_ends_the_log(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, "plain @0-2; plain @3-5"))
    patch(log, 3, fix_crc=False, max_timestamp=7)
    assert (story(tmp_path, 6).status, story(tmp_path, 6).exactness) == (RecordStatus.BEYOND_END, EXACT)


def _spoil(log: Path, *base_offsets: int) -> None:
    """Overwrite batches with unreadable bytes."""
    data = bytearray(log.read_bytes())
    with open_source(log) as source:
        for batch in walk(source):
            if isinstance(batch, Batch) and batch.base_offset in base_offsets:
                data[batch.position : batch.position + batch.size] = bytes([255] * batch.size)
    log.write_bytes(bytes(data))


def test_damage_elsewhere_does_not_explain_an_offset_gap(tmp_path: Path) -> None:
    folder = forge(tmp_path, "; ".join(f"plain @{base}-{base + 2}" for base in range(0, 21, 3)))
    drop(file_of(folder), 9)
    _spoil(file_of(folder), 3, 15)
    statuses = {offset: story(tmp_path, offset).status for offset in (4, 7, 10, 13, 16)}
    assert statuses == {
        4: RecordStatus.DAMAGED,
        7: RecordStatus.VISIBLE,
        10: RecordStatus.LOST,
        13: RecordStatus.VISIBLE,
        16: RecordStatus.DAMAGED,
    }


def test_after_the_cleaner_checkpoint_only_the_log_shows_compaction(tmp_path: Path) -> None:
    forge(tmp_path, {0: "plain @0-0; plain @2-2", 3: "plain @3-3; plain @5-5"}, compacted=True, first_dirty=3)
    explained = {offset: story(tmp_path, offset) for offset in (1, 4)}
    assert {offset: (result.status, result.exactness) for offset, result in explained.items()} == {
        1: (RecordStatus.COMPACTED, EXACT),
        4: (RecordStatus.COMPACTED, APPROXIMATE),
    }


def test_a_replica_may_have_fetched_a_compacted_log(tmp_path: Path) -> None:
    forge(tmp_path, "plain @0-2; plain @6-8", topic="__consumer_offsets")
    explained = story(tmp_path, 4)
    assert (explained.status, explained.exactness) == (RecordStatus.COMPACTED, APPROXIMATE)
    assert "a leader that had compacted it" in explained.why


def test_a_delete_horizon_always_shows_compaction(tmp_path: Path) -> None:
    forge(tmp_path, "plain @0-2 cnt 1; plain @3-3", horizons={0: 1_700_000_000_000})
    explained = story(tmp_path, 1)
    assert (explained.status, explained.exactness) == (RecordStatus.COMPACTED, EXACT)
    assert "delete horizon" in explained.why


def test_an_emptied_data_batch_is_not_a_marker(tmp_path: Path) -> None:
    forge(tmp_path, {0: "D 1 0 0-0 @0-0 N cnt 0", 1: "plain @1-1"}, compacted=True)
    explained = story(tmp_path, 0)
    assert explained.status is RecordStatus.COMPACTED
    assert explained.why.startswith(
        "its batch spans offset 0 but contains no record: the log is compacted up to offset"
    )


def test_an_offset_gap_at_the_start_of_a_segment_is_not_a_missing_segment(tmp_path: Path) -> None:
    forge(tmp_path, {0: "plain @0-2", 3: "plain @5-6"})
    explained = story(tmp_path, 4)
    assert explained.status is RecordStatus.LOST
    assert "a segment is missing" not in explained.why


def test_offsets_of_the_log_that_the_files_lack_are_not_available(tmp_path: Path) -> None:
    forge(tmp_path, {20: "plain @20-22"}, log_start=10)
    statuses = {offset: story(tmp_path, offset).status for offset in (9, 10, 19, 20)}
    assert statuses == {
        9: RecordStatus.DELETED,
        10: RecordStatus.NOT_ON_HAND,
        19: RecordStatus.NOT_ON_HAND,
        20: RecordStatus.VISIBLE,
    }


def test_offsets_in_remote_storage_belong_to_the_log(tmp_path: Path) -> None:
    """The leader epochs start at the log start offset, which a running broker may not have checkpointed yet."""
    for log_start, words in ((10, "it is in remote storage"), (None, "in remote storage, or was not copied")):
        forge(tmp_path, {20: "plain @20-22"}, log_start=log_start, leader_epochs={10: 0})
        explained = story(tmp_path, 19)
        assert (explained.status, explained.bounds.log_start_offset) == (RecordStatus.NOT_ON_HAND, 10)
        assert words in explained.why
        assert story(tmp_path, 9).status is RecordStatus.DELETED


def test_what_was_deleted_from_remote_storage_is_deleted_though_the_checkpoint_is_older(tmp_path: Path) -> None:
    """A broker of 4.3.1 had moved the log start to 42 and checkpointed 21; without remote storage files may lack."""
    forge(tmp_path, {54: "plain @54-56"}, log_start=21, leader_epochs={42: 0}, clean_shutdown=False)
    deleted = story(tmp_path, 25)
    assert (deleted.status, deleted.bounds.log_start_offset) == (RecordStatus.DELETED, 42)
    assert "moved the log start offset to 42; its segment is deleted" in deleted.why
    assert story(tmp_path, 42).status is RecordStatus.NOT_ON_HAND
    forge(tmp_path, {54: "plain @54-56"}, log_start=21)
    assert story(tmp_path, 25).status is RecordStatus.NOT_ON_HAND


def test_a_log_without_remote_storage_starts_on_disk(tmp_path: Path) -> None:
    """Retention truncates the leader epochs at the log start; a checkpoint from before it is out of date."""
    forge(tmp_path, {20: "plain @20-22"}, log_start=10, leader_epochs={20: 0}, clean_shutdown=False)
    assert story(tmp_path, 20).bounds.log_start_offset == 20


def test_deleted_records_are_shown_while_their_bytes_are_on_disk(tmp_path: Path) -> None:
    forge(tmp_path, "D 1 0 0-2 @0-2 T; M 1 0 A 1 @3; plain @4-5", log_start=4)
    explained = story(tmp_path, 1)
    assert (explained.status, explained.read_uncommitted, explained.read_committed) == (
        RecordStatus.DELETED,
        False,
        False,
    )
    assert explained.record is not None
    assert explained.transaction is not None
    assert explained.transaction["marker_offset"] == 3


def test_an_empty_log_ends_where_it_begins(tmp_path: Path) -> None:
    forge(tmp_path, {7: ""})
    assert [story(tmp_path, offset).status for offset in (6, 7, 8)] == [
        RecordStatus.DELETED,
        RecordStatus.BEYOND_END,
        RecordStatus.BEYOND_END,
    ]


@pytest.mark.parametrize("offset", [1, 4, 7], ids=["before", "between", "after"])
def test_a_segment_that_was_not_given_is_not_available(tmp_path: Path, offset: int) -> None:
    bases = (0, 3, 6)
    folder = forge(tmp_path, {base: f"plain @{base}-{base + 2}" for base in bases})
    given = [str(file_of(folder, base)) for base in bases if not base <= offset < base + 3]
    (partition,) = partitions_of(row for row in discover(given) if isinstance(row, FoundFile))
    explained = OffsetExplainer(state_of(partition)).story(offset)
    assert (explained.status, explained.exactness) == (RecordStatus.NOT_ON_HAND, Exactness.UNVERIFIABLE)
    assert file_of(folder, offset - offset % 3).name in explained.why
    available = next(base for base in bases if not base <= offset < base + 3)
    assert OffsetExplainer(state_of(partition)).story(available).status is RecordStatus.VISIBLE


def test_without_the_checkpoint_a_deletion_is_approximate(tmp_path: Path) -> None:
    forge(tmp_path, {6: "plain @6-8"})
    assert (story(tmp_path, 5).status, story(tmp_path, 5).exactness) == (RecordStatus.DELETED, EXACT)
    (tmp_path / "log-start-offset-checkpoint").unlink()
    assert (story(tmp_path, 5).status, story(tmp_path, 5).exactness) == (RecordStatus.DELETED, APPROXIMATE)
