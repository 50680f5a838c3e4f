"""What became of each offset: as live consumers saw it, and where a transaction or a high watermark hides it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kforensics.forensics.core.findings import Exactness
from kforensics.forensics.explain.lookup import BatchLookup
from kforensics.forensics.explain.offset_explainer import OffsetExplainer
from kforensics.forensics.explain.offset_story import Fate, Hole, OffsetStory
from kforensics.parsers.columns import batch_reader
from tests.forensics.cases import SAMPLES, case_in, case_of, partitions_under
from tests.forensics.explain.telling import story
from tests.forensics.forge import file_of, forge, swap

# Offsets behind the log end that are asked for too.
BEYOND = 3
# Cleaned after the live consumers had read them.
CLEANED_SINCE = ("crash-while-cleaning", "crash-while-swapping")
# A broker that had forgotten an open transaction gave its consumers what nobody had decided.
FORGOT = "state-lost-after-stop/broker-1/open-0"
LEAST_PARTITIONS, LEAST_OFFSETS = 205, 11_000
NO_RECORD = (Fate.CONTROL, Fate.DELETED, Fate.COMPACTED, Fate.NOT_ON_HAND, Fate.BEYOND_END)


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


@pytest.mark.parametrize("rows", [1, 2])
def test_chunks_out_of_order_have_a_batch_for_every_offset(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = forge(tmp_path, "plain @0-2; plain @3-5; plain @6-8; plain @9-11; plain @12-14")
    swap(file_of(folder), 0, 9)
    monkeypatch.setattr(batch_reader, "CHUNK_ROWS", rows)
    case = case_of(tmp_path)
    lookup = BatchLookup(case)
    for offset in range(case.log_end_offset):
        found, batches = lookup.find(offset)
        assert batches.last_offset[found.after if found.at is None else found.at] >= offset


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
    assert (said.fate, said.exactness) == (Fate.VISIBLE, Exactness.APPROXIMATE)


def test_from_a_snapshot_on_it_is_known_what_was_open(tmp_path: Path) -> None:
    forge(tmp_path, {10: "plain @10-12", 13: "plain @13-15"}, snapshots={10: None})
    assert [story(tmp_path, 11, at=at).exactness for at in (12, None)] == [Exactness.APPROXIMATE, Exactness.EXACT]
