"""The status of each offset: as live consumers saw it, and where a transaction or a high watermark hides it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kforensics.forensics.core.findings import Exactness
from kforensics.forensics.explain import lookup
from kforensics.forensics.explain.lookup import BatchLookup
from kforensics.forensics.explain.offset_explainer import OffsetExplainer
from kforensics.forensics.explain.offset_story import OffsetGap, OffsetStory, RecordStatus
from kforensics.parsers.columns import batch_reader
from tests.forensics.explain.stories import story
from tests.forensics.forge import file_of, forge, swap
from tests.forensics.partition_states import SAMPLES, partitions_under, state_of, state_under

# Offsets after the log end that are explained too.
BEYOND = 3
# Cleaned after the live consumers had read them.
CLEANED_SINCE = ("crash-while-cleaning", "crash-while-swapping")
LEAST_PARTITIONS, LEAST_OFFSETS = 205, 11_000
NO_RECORD = (
    RecordStatus.CONTROL,
    RecordStatus.DELETED,
    RecordStatus.COMPACTED,
    RecordStatus.NOT_ON_HAND,
    RecordStatus.BEYOND_END,
)


RUN_SAMPLES = (
    "transactions-v2",
    "compaction",
    "deletion",
    "damaged",
    "duplicates",
    "remote-storage",
    "unclean-election",
)


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
UNCHANGED = tuple(replica for replica in CONSUMED if replica.name.partition("/")[0] not in CLEANED_SINCE)


@cache
def every_story(folder: Path) -> list[OffsetStory]:
    """Return the explanations of all offsets of a partition, and of some after its end."""
    (partition,) = partitions_under(folder)
    state = state_of(partition)
    explainer = OffsetExplainer(state)
    return [explainer.story(offset) for offset in range(state.log_end_offset + BEYOND)]


def test_every_offset_is_as_live_consumers_saw_it() -> None:
    compared = 0
    for replica in UNCHANGED:
        everything, committed = replica.offsets("read_uncommitted"), replica.offsets("read_committed")
        for explained in every_story(replica.folder):
            where = replica.name, explained.offset, explained.status
            if explained.status is RecordStatus.NOT_ON_HAND:
                assert (explained.read_uncommitted, explained.read_committed) == (None, None), where
                assert explained.offset >= explained.bounds.log_start_offset, where  # in remote storage
                assert explained.offset in everything or explained.offset not in committed, where
                continue
            assert explained.read_uncommitted == (explained.offset in everything), where
            assert explained.read_committed == (explained.offset in committed), where
            assert explained.read_uncommitted != (explained.status in NO_RECORD), where
            compared += 1
    assert (len(UNCHANGED) >= LEAST_PARTITIONS, compared >= LEAST_OFFSETS) == (True, True)


def test_statuses_agree_with_the_offsets_that_the_brokers_reported() -> None:
    for replica in UNCHANGED:
        earliest, latest = replica.truth["earliest"], replica.truth["latest"]
        stable = max(earliest, replica.truth["latest_read_committed"])
        for explained in every_story(replica.folder):
            where = replica.name, explained.offset, explained.status
            assert (explained.status is RecordStatus.DELETED) == (explained.offset < earliest), where
            assert (explained.status is RecordStatus.BEYOND_END) == (explained.offset >= latest), where
            if explained.status in (RecordStatus.UNDECIDED, RecordStatus.HELD_BACK):
                assert explained.offset >= stable, where
            if explained.status is RecordStatus.VISIBLE:
                assert explained.offset < stable, where


@pytest.mark.parametrize("scenario", CLEANED_SINCE)
def test_consumed_records_that_are_missing_were_compacted(scenario: str) -> None:
    (replica,) = (consumed for consumed in CONSUMED if consumed.name.startswith(f"{scenario}/broker-1/cleaning-0"))
    committed, gone = replica.offsets("read_committed"), 0
    for explained in every_story(replica.folder):
        if explained.offset < replica.truth["latest"] and explained.status is not RecordStatus.CONTROL:
            assert explained.status is (RecordStatus.VISIBLE if explained.read_committed else RecordStatus.COMPACTED)
            assert explained.offset in committed or not explained.read_committed
            gone += explained.offset in committed and explained.status is RecordStatus.COMPACTED
    assert gone


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_stories_do_not_depend_on_where_chunks_end(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    names = (
        "compaction/broker-1/compact-transactional-0",
        "legacy-magic-1/broker-0/",
        "transactions-v2/broker-1/segments-0",
    )
    folders = [consumed.folder for consumed in CONSUMED if consumed.name.startswith(names)]
    assert len(folders) >= len(names)
    whole = [_comparable(folder) for folder in folders]
    monkeypatch.setattr(batch_reader, "CHUNK_ROWS", rows)
    assert [_comparable(folder) for folder in folders] == whole


def test_batches_out_of_order_are_found_as_a_broker_finds_them(tmp_path: Path) -> None:
    """A broker returns the first batch whose last offset is at or after the fetch offset."""
    folder = forge(tmp_path, "plain @0-2; plain @3-5; plain @6-8; plain @9-11; plain @12-14")
    swap(file_of(folder), 3, 9)
    statuses = [story(tmp_path, offset).status for offset in (1, 4, 7, 10, 13)]
    assert statuses == [
        RecordStatus.VISIBLE,
        RecordStatus.LOST,
        RecordStatus.LOST,
        RecordStatus.VISIBLE,
        RecordStatus.VISIBLE,
    ]


@pytest.mark.parametrize("rows", [1, 2])
def test_chunks_out_of_order_have_a_batch_for_every_offset(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = forge(tmp_path, "plain @0-2; plain @3-5; plain @6-8; plain @9-11; plain @12-14")
    swap(file_of(folder), 0, 9)
    monkeypatch.setattr(batch_reader, "CHUNK_ROWS", rows)
    state = state_under(tmp_path)
    batch_lookup = BatchLookup(state)
    for offset in range(state.log_end_offset):
        position, batches = batch_lookup.find(offset)
        assert batches.last_offset[position.after if position.spanning is None else position.spanning] >= offset


def test_the_first_offset_of_a_compressed_entry_of_an_old_format_is_in_its_records() -> None:
    (partition,) = partitions_under(SAMPLES / "damaged" / "legacy" / "magic-0-gzip-0")
    explainer = OffsetExplainer(state_of(partition))
    missing, first = explainer.story(2), explainer.story(3)
    assert (missing.status, missing.batch, missing.offset_gap) == (
        RecordStatus.LOST,
        None,
        OffsetGap(2, 2, 0, is_between_segments=False),
    )
    assert first.batch is not None
    assert (first.status, first.batch.base_offset, first.batch.header.count) == (RecordStatus.VISIBLE, 3, 3)


def _comparable(folder: Path) -> list[tuple[object, ...]]:
    stories = every_story.__wrapped__(folder)
    return [
        (result.offset, result.status, result.exactness, result.why, result.offset_gap, result.batch)
        for result in stories
    ]


def test_stories_in_any_order_are_the_same() -> None:
    (partition,) = partitions_under(SAMPLES / "transactions-v2" / "broker-1" / "segments-0")
    state = state_of(partition)
    explainer, offsets = OffsetExplainer(state), range(state.log_end_offset)
    upwards = [(explainer.story(offset).status, explainer.story(offset).batch) for offset in offsets]
    downwards = [(explainer.story(offset).status, explainer.story(offset).batch) for offset in reversed(offsets)]
    assert downwards[::-1] == upwards


OPEN = "plain @0-0; D 1 0 0-0 @1-1 T; D 2 0 0-0 @2-2 T; M 2 0 A 1 @3; D 3 0 0-0 @4-4 T; M 3 0 C 1 @5; plain @6-6"


def test_an_open_transaction_blocks_later_records(tmp_path: Path) -> None:
    forge(tmp_path, OPEN)
    explained = {offset: story(tmp_path, offset) for offset in range(7)}
    assert [result.status for result in explained.values()] == [
        *(RecordStatus.VISIBLE, RecordStatus.UNDECIDED, RecordStatus.ABORTED, RecordStatus.CONTROL),
        *(RecordStatus.HELD_BACK, RecordStatus.CONTROL, RecordStatus.HELD_BACK),
    ]
    assert {result.bounds.last_stable_offset for result in explained.values()} == {1}
    assert "producer 1 from offset 1" in explained[6].why
    assert explained[2].indexed is True
    assert explained[4].indexed is False


def test_a_high_watermark_hides_later_records(tmp_path: Path) -> None:
    forge(tmp_path, OPEN)
    assert [story(tmp_path, offset, high_watermark=4).status for offset in (2, 3, 4, 6)] == [
        *(RecordStatus.ABORTED, RecordStatus.CONTROL, RecordStatus.NOT_REPLICATED, RecordStatus.NOT_REPLICATED),
    ]
    # The marker at offset 3 is not replicated while the high watermark is 3.
    assert story(tmp_path, 2, high_watermark=3).status is RecordStatus.UNDECIDED
    assert story(tmp_path, 6, high_watermark=4).read_uncommitted is False


def test_without_the_start_of_the_log_visibility_is_approximate(tmp_path: Path) -> None:
    forge(tmp_path, {10: "plain @10-12"}, snapshots={10: None, 13: None})
    explained = story(tmp_path, 11)
    assert (explained.status, explained.exactness) == (RecordStatus.VISIBLE, Exactness.APPROXIMATE)


def test_after_a_snapshot_visibility_is_exact(tmp_path: Path) -> None:
    forge(tmp_path, {10: "plain @10-12", 13: "plain @13-15"}, snapshots={10: None})
    assert [story(tmp_path, 11, high_watermark=end).exactness for end in (12, None)] == [
        Exactness.APPROXIMATE,
        Exactness.EXACT,
    ]


@pytest.mark.parametrize("name", RUN_SAMPLES)
def test_the_offsets_of_a_run_have_the_story_that_each_of_them_has_alone(name: str) -> None:
    seen = 0
    for partition in partitions_under(SAMPLES / name):
        state = state_of(partition)
        one_by_one, end = OffsetExplainer(state), min(state.log_end_offset, 200) + BEYOND
        following = 0
        for run in OffsetExplainer(state).runs(0, end):
            assert run.first_offset == following
            following = run.last_offset + 1
            for offset in range(run.first_offset, following):
                assert _told(run.story) == _told(one_by_one.story(offset)), (partition.folder, offset)
                seen += 1
        assert following == end
    assert seen > 80


def _told(one: OffsetStory) -> tuple[object, ...]:
    """Return what a story says of delivery; whether an index lists deleted data does not matter."""
    indexed = None if one.status is RecordStatus.DELETED else one.indexed
    return one.status, one.exactness, one.why, one.read_uncommitted, one.read_committed, indexed


def test_the_runs_of_a_range_read_each_chunk_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of many offsets are explained in one pass over the log: a chunk is not read again for each batch."""
    monkeypatch.setattr(batch_reader, "CHUNK_ROWS", 4)
    batches = "; ".join(f"D 1 0 {n * 10}-{n * 10 + 9} @{n * 10}-{n * 10 + 9} N" for n in range(40))
    forge(tmp_path, batches)
    state = state_under(tmp_path)
    read: list[int] = []
    chunks = batch_reader.batch_chunks

    def counted(*values: Any, **options: Any) -> Iterator[Any]:
        read.append(options["start"])
        return chunks(*values, **options)

    monkeypatch.setattr(lookup, "batch_chunks", counted)
    (run,) = OffsetExplainer(state).runs(0, 400)
    assert (run.first_offset, run.last_offset) == (0, 399)
    assert read == [int(start) for start in state.log.chunk_starts["position"]]
    assert len(read) > 3
