"""What became of each offset: as live consumers saw it, and in logs that are forged to lack it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kforensics.forensics.explain.offset_story import Fate, Hole, OffsetStory
from kforensics.forensics.explain.offsets import OffsetExplainer
from kforensics.forensics.findings import Exactness
from kforensics.forensics.partition import partitions_of
from kforensics.parsers import batch_reader
from kforensics.parsers.discover import FoundFile, discover
from tests.forensics.cases import SAMPLES, case_in, case_of, partitions_under
from tests.forensics.forge import drop, file_of, forge, patch, swap

# Offsets behind the log end that are asked for too.
BEYOND = 3
# Cleaned after the live consumers had read them.
CLEANED_SINCE = ("crash-while-cleaning", "crash-while-swapping")
# A broker that had forgotten an open transaction gave its consumers what nobody had decided.
FORGOT = "state-lost-after-stop/broker-1/open-0"
LEAST_PARTITIONS, LEAST_OFFSETS = 205, 11_000
NO_RECORD = (Fate.CONTROL, Fate.DELETED, Fate.COMPACTED, Fate.NOT_ON_HAND, Fate.BEYOND_END)
EXACT, APPROXIMATE = Exactness.EXACT, Exactness.APPROXIMATE


@dataclass(frozen=True)
class Consumed:
    """A replica of a partition, and what live consumers received of its leader."""

    folder: Path
    truth: dict[str, Any]

    @property
    def name(self) -> str:
        """Scenario, broker and partition."""
        return self.folder.relative_to(SAMPLES).as_posix()

    def offsets(self, isolation: str) -> set[int]:
        """Return the offsets that a consumer received."""
        return {row["offset"] for row in self.truth[isolation]}


def _consumed() -> Iterator[Consumed]:
    for path in sorted(SAMPLES.glob("*/truth.json")):
        for topic, partitions in json.loads(path.read_bytes())["topics"].items():
            for number, truth in partitions.items():
                if truth.get("read_committed") is None:
                    continue
                for folder in sorted(path.parent.rglob(f"{topic}-{number}")):
                    broker = next(part for part in folder.parts if part.startswith("broker-"))
                    if int(broker.removeprefix("broker-")) in truth["isr"]:
                        yield Consumed(folder, truth)


CONSUMED = tuple(_consumed())
UNCHANGED = tuple(one for one in CONSUMED if one.name.partition("/")[0] not in CLEANED_SINCE and one.name != FORGOT)


@cache
def every_story(folder: Path) -> list[OffsetStory]:
    """Return the stories of all offsets of a partition, and of some behind its end."""
    (partition,) = partitions_under(folder)
    case = case_in(partition)
    explainer = OffsetExplainer(case)
    return [explainer.story(offset) for offset in range(case.log_end_offset + BEYOND)]


def story(folder: Path, offset: int, *, at: int | None = None) -> OffsetStory:
    """Return the story of an offset in the one partition of a log directory."""
    return OffsetExplainer(case_of(folder), at).story(offset)


def test_every_offset_is_as_live_consumers_found_it() -> None:
    compared = 0
    for one in UNCHANGED:
        everything, committed = one.offsets("read_uncommitted"), one.offsets("read_committed")
        for said in every_story(one.folder):
            where = one.name, said.offset, said.fate
            if said.fate is Fate.NOT_ON_HAND:
                assert (said.read_uncommitted, said.read_committed) == (None, None), where
                assert said.offset < said.bounds.log_start_offset, where
                continue
            assert said.read_uncommitted == (said.offset in everything), where
            assert said.read_committed == (said.offset in committed), where
            assert said.read_uncommitted != (said.fate in NO_RECORD), where
            compared += 1
    assert (len(UNCHANGED) >= LEAST_PARTITIONS, compared >= LEAST_OFFSETS) == (True, True)


def test_verdicts_lie_between_the_offsets_that_the_brokers_told() -> None:
    for one in UNCHANGED:
        earliest, latest = one.truth["earliest"], one.truth["latest"]
        stable = max(earliest, one.truth["latest_read_committed"])
        for said in every_story(one.folder):
            where = one.name, said.offset, said.fate
            assert (said.fate is Fate.DELETED) == (said.offset < earliest), where
            assert (said.fate is Fate.BEYOND_END) == (said.offset >= latest), where
            if said.fate in (Fate.UNDECIDED, Fate.HELD_BACK):
                assert said.offset >= stable, where
            if said.fate is Fate.VISIBLE:
                assert said.offset < stable, where


@pytest.mark.parametrize("scenario", CLEANED_SINCE)
def test_what_was_consumed_and_is_gone_was_compacted(scenario: str) -> None:
    (one,) = (each for each in CONSUMED if each.name.startswith(f"{scenario}/broker-1/cleaning-0"))
    committed, gone = one.offsets("read_committed"), 0
    for said in every_story(one.folder):
        if said.offset < one.truth["latest"] and said.fate is not Fate.CONTROL:
            assert said.fate is (Fate.VISIBLE if said.read_committed else Fate.COMPACTED)
            assert said.offset in committed or not said.read_committed
            gone += said.offset in committed and said.fate is Fate.COMPACTED
    assert gone


def test_what_a_forgetful_broker_gave_away_is_undecided_by_its_log() -> None:
    (one,) = (each for each in CONSUMED if each.name == FORGOT)
    told = {said.offset: said.fate for said in every_story(one.folder)}
    given_away = [offset for offset in one.offsets("read_committed") if told[offset] is not Fate.VISIBLE]
    assert given_away
    assert {told[offset] for offset in given_away} <= {Fate.UNDECIDED, Fate.HELD_BACK}


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_stories_do_not_depend_on_where_chunks_end(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    names = (
        "compaction/broker-1/compact-transactional-0",
        "legacy-magic-1/broker-0/",
        "transactions-v2/broker-1/segments-0",
    )
    folders = [one.folder for one in CONSUMED if one.name.startswith(names)]
    assert len(folders) >= len(names)
    whole = [_told(folder) for folder in folders]
    monkeypatch.setattr(batch_reader, "CHUNK_ROWS", rows)
    assert [_told(folder) for folder in folders] == whole


def test_batches_out_of_order_are_found_as_a_broker_finds_them(tmp_path: Path) -> None:
    """It gives a consumer the first batch that ends at the offset or behind it."""
    folder = forge(tmp_path, "plain @0-2; plain @3-5; plain @6-8; plain @9-11; plain @12-14")
    swap(file_of(folder), 3, 9)
    fates = [story(tmp_path, offset).fate for offset in (1, 4, 7, 10, 13)]
    assert fates == [Fate.VISIBLE, Fate.LOST, Fate.LOST, Fate.VISIBLE, Fate.VISIBLE]


def test_records_tell_where_a_compressed_entry_of_the_old_formats_begins() -> None:
    (partition,) = partitions_under(SAMPLES / "damaged" / "legacy" / "magic-0-gzip-0")
    explainer = OffsetExplainer(case_in(partition))
    missing, first = explainer.story(2), explainer.story(3)
    assert (missing.fate, missing.batch, missing.hole) == (Fate.LOST, None, Hole(2, 2, 0, is_between_segments=False))
    assert first.batch is not None
    assert (first.fate, first.batch.base_offset, first.batch.header.count) == (Fate.VISIBLE, 3, 3)


def _told(folder: Path) -> list[tuple[object, ...]]:
    stories = every_story.__wrapped__(folder)
    return [(one.offset, one.fate, one.exactness, one.why, one.hole, one.batch) for one in stories]


def test_stories_in_any_order_are_the_same() -> None:
    (partition,) = partitions_under(SAMPLES / "transactions-v2" / "broker-1" / "segments-0")
    case = case_in(partition)
    explainer, offsets = OffsetExplainer(case), range(case.log_end_offset)
    upwards = [(explainer.story(offset).fate, explainer.story(offset).batch) for offset in offsets]
    downwards = [(explainer.story(offset).fate, explainer.story(offset).batch) for offset in reversed(offsets)]
    assert downwards[::-1] == upwards


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
    log = "D 1 0 0-0 @0-0 T; gone plain @1-1; D 1 0 1-1 @2-2 T; M 1 0 A 1 @3; gone plain @4-4; plain @5-5"
    forge(tmp_path, {0: log, 6: "plain @6-6"}, compacted=True)
    (around,) = story(tmp_path, 1).around
    assert (around["first_offset"], around["marker_offset"]) == (0, 3)
    assert story(tmp_path, 4).around == ()


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


OPEN = "plain @0-0; D 1 0 0-0 @1-1 T; D 2 0 0-0 @2-2 T; M 2 0 A 1 @3; D 3 0 0-0 @4-4 T; M 3 0 C 1 @5; plain @6-6"


def test_what_waits_behind_an_open_transaction(tmp_path: Path) -> None:
    forge(tmp_path, OPEN)
    said = {offset: story(tmp_path, offset) for offset in range(7)}
    assert [one.fate for one in said.values()] == [
        *(Fate.VISIBLE, Fate.UNDECIDED, Fate.ABORTED, Fate.CONTROL),
        *(Fate.HELD_BACK, Fate.CONTROL, Fate.HELD_BACK),
    ]
    assert {one.bounds.last_stable_offset for one in said.values()} == {1}
    assert "producer 1 from offset 1" in said[6].why
    assert said[2].indexed is True
    assert said[4].indexed is False


def test_a_high_watermark_hides_what_is_behind_it(tmp_path: Path) -> None:
    forge(tmp_path, OPEN)
    assert [story(tmp_path, offset, at=4).fate for offset in (2, 3, 4, 6)] == [
        *(Fate.ABORTED, Fate.CONTROL, Fate.NOT_REPLICATED, Fate.NOT_REPLICATED),
    ]
    # The marker at offset 3 is not replicated while the high watermark is 3.
    assert story(tmp_path, 2, at=3).fate is Fate.UNDECIDED
    assert story(tmp_path, 6, at=4).read_uncommitted is False


def test_without_the_head_it_is_not_known_what_was_open(tmp_path: Path) -> None:
    forge(tmp_path, {10: "plain @10-12"}, snapshots={10: None, 13: None})
    said = story(tmp_path, 11)
    assert (said.fate, said.exactness) == (Fate.VISIBLE, APPROXIMATE)


ABORTED = "D 1 0 0-1 @0-1 T; M 1 0 A 1 @2; D 1 0 2-2 @3-3 T; M 1 0 C 1 @4"


def test_the_index_names_what_was_aborted(tmp_path: Path) -> None:
    forge(tmp_path, ABORTED)
    said = story(tmp_path, 1)
    assert (said.fate, said.indexed, said.read_committed) == (Fate.ABORTED, True, False)
    assert said.entry is not None
    assert (said.entry.first_offset, said.entry.last_offset, said.entry.position) == (0, 2, 0)


def test_without_its_entry_consumers_are_given_what_was_aborted(tmp_path: Path) -> None:
    forge(tmp_path, ABORTED, txnindex={0: None})
    said = story(tmp_path, 1)
    assert (said.fate, said.indexed) == (Fate.ABORTED, False)
    assert (said.read_committed, said.is_shown_by_index) == (True, True)


def test_what_is_behind_the_last_stable_offset_nobody_is_given_for_lack_of_an_entry(tmp_path: Path) -> None:
    forge(tmp_path, OPEN, txnindex={0: None})
    said = story(tmp_path, 2)
    assert (said.fate, said.indexed, said.read_committed) == (Fate.ABORTED, False, False)


def test_an_index_that_was_not_copied_says_nothing(tmp_path: Path) -> None:
    folder = forge(tmp_path, ABORTED, txnindex={0: None})
    for kind in ("index", "timeindex"):
        file_of(folder, 0, kind).unlink()
    said = story(tmp_path, 1)
    assert (said.indexed, said.read_committed) == (None, False)


def test_a_false_entry_hides_what_was_committed(tmp_path: Path) -> None:
    forge(tmp_path, ABORTED, txnindex={0: [(1, 0, 2, 3), (1, 3, 4, 5)]})
    said = story(tmp_path, 3)
    assert (said.fate, said.indexed) == (Fate.VISIBLE, True)
    assert (said.read_uncommitted, said.read_committed, said.is_hidden_by_index) == (True, False, True)


def test_batches_of_the_same_sequences_are_named() -> None:
    folder = SAMPLES / "duplicates" / "broker-1" / "expired-0"
    (partition,) = partitions_under(folder)
    explainer = OffsetExplainer(case_in(partition))
    assert [one.base_offset for one in explainer.story(13).same_sequence] == [3]
    assert [one.base_offset for one in explainer.story(4).same_sequence] == [12]
    assert explainer.story(0).same_sequence == ()


def test_the_snapshot_next_behind_tells_of_the_producer(tmp_path: Path) -> None:
    forge(tmp_path, {0: "D 1 0 0-1 @0-1 T", 2: "M 1 0 C 1 @2; D 2 0 0-0 @3-3 N"})
    path, state = story(tmp_path, 0).snapshot or ("", None)
    assert path.endswith("00000000000000000002.snapshot")
    assert state is not None
    assert int(state["current_txn_first_offset"]) == 0
    assert (story(tmp_path, 3).snapshot or ("", None))[0].endswith("00000000000000000004.snapshot")


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
