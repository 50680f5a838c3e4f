"""Why an offset is missing, in logs that are forged to lack it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforensics.forensics.core.findings import Exactness
from kforensics.forensics.explain.offset_explainer import OffsetExplainer
from kforensics.forensics.explain.offset_story import Fate
from kforensics.forensics.partition.partition_files import partitions_of
from kforensics.parsers.files.discover import FoundFile, discover
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import walk
from tests.forensics.cases import case_in
from tests.forensics.explain.telling import story
from tests.forensics.forge import drop, file_of, forge, patch

EXACT, APPROXIMATE = Exactness.EXACT, Exactness.APPROXIMATE


def test_a_batch_that_is_gone_is_lost_where_no_cleaner_was(tmp_path: Path) -> None:
    folder = forge(tmp_path, "plain @0-2; plain @3-5; plain @6-8")
    drop(file_of(folder), 3)
    said = story(tmp_path, 4)
    assert (said.fate, said.exactness, said.batch) == (Fate.LOST, EXACT, None)
    assert said.hole is not None
    assert (said.hole.first_offset, said.hole.last_offset, said.hole.is_between_segments) == (3, 5, False)
    (tmp_path / "cleaner-offset-checkpoint").unlink()
    assert story(tmp_path, 4).exactness is APPROXIMATE


def test_a_segment_that_is_gone_is_lost(tmp_path: Path) -> None:
    folder = forge(tmp_path, {0: "plain @0-2", 3: "plain @3-5", 6: "plain @6-8"})
    file_of(folder, 3).unlink()
    said = story(tmp_path, 5)
    assert (said.fate, said.exactness) == (Fate.LOST, EXACT)
    assert "a segment is missing" in said.why
    assert said.hole is not None
    assert said.hole.is_between_segments


def test_a_hole_that_the_cleaner_made_is_compacted(tmp_path: Path) -> None:
    forge(tmp_path, {0: "plain @0-2; plain @6-8", 9: "plain @9-9"}, compacted=True)
    said = story(tmp_path, 4)
    assert (said.fate, said.exactness) == (Fate.COMPACTED, EXACT)
    (tmp_path / "cleaner-offset-checkpoint").unlink()
    assert (story(tmp_path, 4).fate, story(tmp_path, 4).exactness) == (Fate.COMPACTED, APPROXIMATE)


def test_compacted_offsets_within_an_aborted_transaction_name_it(tmp_path: Path) -> None:
    log = (
        "D 1 0 0-0 @0-0 T; D 2 0 0-0 @1-1 T; gone plain @2-2; D 1 0 1-1 @3-3 T; M 1 0 A 1 @4; gone plain @5-5;"
        "M 2 0 C 1 @6"
    )
    forge(tmp_path, {0: log, 7: "plain @7-7"}, compacted=True)
    (around,) = story(tmp_path, 2).around
    assert (around["first_offset"], around["marker_offset"]) == (0, 4)
    assert story(tmp_path, 5).fate is Fate.COMPACTED
    assert story(tmp_path, 5).around == ()


@pytest.mark.parametrize(
    ("compacted", "fate"), [(False, Fate.NOT_IN_BATCH), (True, Fate.COMPACTED)], ids=["uncleaned", "cleaned"]
)
def test_a_batch_with_fewer_records_than_offsets(tmp_path: Path, fate: Fate, *, compacted: bool) -> None:
    forge(tmp_path, {0: "plain @0-0; plain @1-3 cnt 1; plain @4-4", 5: "plain @5-5"}, compacted=compacted)
    said = [story(tmp_path, offset) for offset in (1, 2, 3, 4)]
    missing = [one for one in said if one.fate is fate]
    assert len(missing) == 2
    assert {one.exactness for one in missing} == {EXACT}
    assert [one.fate for one in said if one not in missing] == [Fate.VISIBLE] * 2
    assert all(one.batch is not None and one.batch.is_thinned and one.record is None for one in missing)


def test_an_emptied_marker_is_compacted(tmp_path: Path) -> None:
    forge(tmp_path, {0: "D 3 0 0-0 @0-0 T; shell 3 @1; M 3 0 C 1 @2", 3: "plain @3-3"}, compacted=True)
    said = story(tmp_path, 1)
    assert (said.fate, said.transaction) == (Fate.COMPACTED, None)
    assert "emptied" in said.why


def test_offsets_in_bytes_that_cannot_be_read_are_damaged(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, "plain @0-2; plain @3-5; plain @6-8"))
    data = log.read_bytes()
    size = len(data) // 3
    log.write_bytes(data[:size] + bytes([255] * size) + data[2 * size :])
    said = story(tmp_path, 4)
    assert (said.fate, said.exactness) == (Fate.DAMAGED, APPROXIMATE)
    assert f"bytes {size:#x} to {2 * size:#x}" in said.why
    # What was in the bytes may have opened a transaction.
    assert (story(tmp_path, 0).fate, story(tmp_path, 0).exactness) == (Fate.VISIBLE, APPROXIMATE)


def test_behind_damage_no_outcome_is_beyond_doubt(tmp_path: Path) -> None:
    _spoil(file_of(forge(tmp_path, "D 1 0 0-0 @0-0 T; plain @1-3; M 1 0 A 1 @4")), 1)
    said = story(tmp_path, 0)
    assert (said.fate, said.exactness, said.bounds.exact) == (Fate.ABORTED, APPROXIMATE, False)


def test_a_batch_whose_checksum_fails_is_damaged(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, "plain @0-2; plain @3-5; plain @6-8"))
    patch(log, 3, fix_crc=False, max_timestamp=7)
    said = story(tmp_path, 4)
    assert said.fate is Fate.DAMAGED
    assert said.record is not None


def test_a_torn_end_is_beyond_the_log_and_said(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, "plain @0-2; plain @3-5"))
    log.write_bytes(log.read_bytes()[:-1])
    said = story(tmp_path, 4)
    assert (said.fate, said.exactness) == (Fate.BEYOND_END, APPROXIMATE)
    assert "truncated" in said.why


def test_zeros_behind_the_last_batch_are_no_damage(tmp_path: Path) -> None:
    folder = forge(tmp_path, {0: "plain @0-2", 3: "plain @3-5", 6: "plain @6-8"})
    file_of(folder, 3).unlink()
    for base in (0, 6):
        log = file_of(folder, base)
        log.write_bytes(log.read_bytes() + bytes(4096))
    assert (story(tmp_path, 4).fate, story(tmp_path, 9).fate) == (Fate.LOST, Fate.BEYOND_END)
    assert story(tmp_path, 9).exactness is EXACT


def test_a_last_batch_with_a_wrong_checksum_ends_the_log_all_the_same(tmp_path: Path) -> None:
    log = file_of(forge(tmp_path, "plain @0-2; plain @3-5"))
    patch(log, 3, fix_crc=False, max_timestamp=7)
    assert (story(tmp_path, 6).fate, story(tmp_path, 6).exactness) == (Fate.BEYOND_END, EXACT)


def _spoil(log: Path, *base_offsets: int) -> None:
    """Overwrite batches."""
    data = bytearray(log.read_bytes())
    with open_source(log) as source:
        for batch in walk(source):
            if isinstance(batch, Batch) and batch.base_offset in base_offsets:
                data[batch.position : batch.position + batch.size] = bytes([255] * batch.size)
    log.write_bytes(bytes(data))


def test_damage_elsewhere_does_not_explain_a_hole(tmp_path: Path) -> None:
    folder = forge(tmp_path, "; ".join(f"plain @{base}-{base + 2}" for base in range(0, 21, 3)))
    drop(file_of(folder), 9)
    _spoil(file_of(folder), 3, 15)
    fates = {offset: story(tmp_path, offset).fate for offset in (4, 7, 10, 13, 16)}
    assert fates == {4: Fate.DAMAGED, 7: Fate.VISIBLE, 10: Fate.LOST, 13: Fate.VISIBLE, 16: Fate.DAMAGED}


def test_behind_the_checkpoint_of_the_cleaner_only_the_log_tells(tmp_path: Path) -> None:
    forge(tmp_path, {0: "plain @0-0; plain @2-2", 3: "plain @3-3; plain @5-5"}, compacted=True, first_dirty=3)
    told = {offset: story(tmp_path, offset) for offset in (1, 4)}
    assert {offset: (one.fate, one.exactness) for offset, one in told.items()} == {
        1: (Fate.COMPACTED, EXACT),
        4: (Fate.COMPACTED, APPROXIMATE),
    }


def test_a_replica_may_have_fetched_what_its_leader_had_cleaned(tmp_path: Path) -> None:
    forge(tmp_path, "plain @0-2; plain @6-8", topic="__consumer_offsets")
    said = story(tmp_path, 4)
    assert (said.fate, said.exactness) == (Fate.COMPACTED, APPROXIMATE)
    assert "a leader that had cleaned it" in said.why


def test_a_delete_horizon_shows_the_cleaner_wherever_it_is(tmp_path: Path) -> None:
    forge(tmp_path, "plain @0-2 cnt 1; plain @3-3", horizons={0: 1_700_000_000_000})
    said = story(tmp_path, 1)
    assert (said.fate, said.exactness) == (Fate.COMPACTED, EXACT)
    assert "delete horizon" in said.why


def test_an_emptied_batch_of_data_is_no_marker(tmp_path: Path) -> None:
    forge(tmp_path, {0: "D 1 0 0-0 @0-0 N cnt 0", 1: "plain @1-1"}, compacted=True)
    said = story(tmp_path, 0)
    assert said.fate is Fate.COMPACTED
    assert said.why.startswith("its batch spans offset 0 and holds no record: the cleaner was there")


def test_a_hole_where_a_segment_begins_is_no_missing_segment(tmp_path: Path) -> None:
    forge(tmp_path, {0: "plain @0-2", 3: "plain @5-6"})
    said = story(tmp_path, 4)
    assert said.fate is Fate.LOST
    assert "a segment is missing" not in said.why


def test_what_the_log_has_and_the_files_do_not_is_not_on_hand(tmp_path: Path) -> None:
    forge(tmp_path, {20: "plain @20-22"}, log_start=10)
    fates = {offset: story(tmp_path, offset).fate for offset in (9, 10, 19, 20)}
    assert fates == {9: Fate.DELETED, 10: Fate.NOT_ON_HAND, 19: Fate.NOT_ON_HAND, 20: Fate.VISIBLE}


def test_deleted_records_are_still_told_where_their_bytes_are(tmp_path: Path) -> None:
    forge(tmp_path, "D 1 0 0-2 @0-2 T; M 1 0 A 1 @3; plain @4-5", log_start=4)
    said = story(tmp_path, 1)
    assert (said.fate, said.read_uncommitted, said.read_committed) == (Fate.DELETED, False, False)
    assert said.record is not None
    assert said.transaction["marker_offset"] == 3


def test_an_empty_log_ends_where_it_begins(tmp_path: Path) -> None:
    forge(tmp_path, {7: ""})
    assert [story(tmp_path, offset).fate for offset in (6, 7, 8)] == [Fate.DELETED, Fate.BEYOND_END, Fate.BEYOND_END]


@pytest.mark.parametrize("offset", [1, 4, 7], ids=["before", "between", "behind"])
def test_a_segment_beside_those_that_were_named_is_not_on_hand(tmp_path: Path, offset: int) -> None:
    bases = (0, 3, 6)
    folder = forge(tmp_path, {base: f"plain @{base}-{base + 2}" for base in bases})
    named = [str(file_of(folder, base)) for base in bases if not base <= offset < base + 3]
    (partition,) = partitions_of(row for row in discover(named) if isinstance(row, FoundFile))
    said = OffsetExplainer(case_in(partition)).story(offset)
    assert (said.fate, said.exactness) == (Fate.NOT_ON_HAND, Exactness.UNVERIFIABLE)
    assert file_of(folder, offset - offset % 3).name in said.why
    on_hand = next(one for one in (0, 3, 6) if not one <= offset < one + 3)
    assert OffsetExplainer(case_in(partition)).story(on_hand).fate is Fate.VISIBLE


def test_without_the_checkpoint_nobody_says_that_the_head_was_deleted(tmp_path: Path) -> None:
    forge(tmp_path, {6: "plain @6-8"})
    assert (story(tmp_path, 5).fate, story(tmp_path, 5).exactness) == (Fate.DELETED, EXACT)
    (tmp_path / "log-start-offset-checkpoint").unlink()
    assert (story(tmp_path, 5).fate, story(tmp_path, 5).exactness) == (Fate.DELETED, APPROXIMATE)
