"""Content duplicates: against the plainest definition on random logs, and against what live consumers received."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kforensics.forensics.core.record_types import Records
from kforensics.forensics.duplicates.content import content_duplicates
from kforensics.forensics.duplicates.content_entries import Reading
from kforensics.forensics.duplicates.duplicate_rows import DUPLICATE, Level, View, Why
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch, Damage, Record
from kforensics.parsers.kernels.library import kernels
from kforensics.parsers.kernels.policy import Choice, no_kernels
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import records_of
from lab.places import SAMPLES
from tests.forensics.duplicate_logs import (
    WINDOW_MS,
    WINDOW_OFFSETS,
    Log,
    expected_pairs,
    found_pairs,
    intervals,
    partition_of,
    random_log,
)

TINY = 1 << 10


def compiled_kernels(_size: int) -> Any:
    """Return the kernels whatever the size."""
    return kernels()


def duplicates(
    paths: Sequence[str], hidden: Records | None = None, *, memory: int = 1 << 24, choice: Choice = compiled_kernels
) -> Records:
    """Return all rows of a partition."""
    reading = Reading(paths, intervals([]) if hidden is None else hidden, kernels=choice, workers=0)
    damage: list[tuple[int, Damage]] = []
    rows = content_duplicates(reading, lambda segment, row: damage.append((segment, row)), memory=memory)
    return np.concatenate([np.empty(0, DUPLICATE), *rows])


@pytest.mark.parametrize("seed", range(40))
def test_pairs_are_those_of_the_definition(tmp_path: Path, seed: int) -> None:
    log = random_log(seed)
    rows = duplicates(log.save(tmp_path), log.hidden)
    offsets = [one.offset for one in log.records]
    expected = dict(expected_pairs(log.records))
    found = found_pairs(rows, offsets)
    assert len(found) == len(set(found))
    assert set(found) <= set(expected)
    assert {pair for pair, tells in expected.items() if tells} <= set(found)
    for row in rows:
        assert any(expected[pair] for pair in found_pairs(np.array([row]), offsets)), "a row says something"
    assert rows["second_offset"].tolist() == sorted(rows["second_offset"].tolist())


@pytest.mark.parametrize("seed", range(12))
def test_a_tiny_budget_and_plain_python_change_nothing(tmp_path: Path, seed: int) -> None:
    """With a kilobyte everything goes through files, and nearly all hashes begin alike."""
    log = random_log(seed, batches=200)
    rows = duplicates(log.save(tmp_path), log.hidden)
    spilled = duplicates(log.save(tmp_path), log.hidden, memory=TINY)
    assert len(rows) > 20
    assert sorted(spilled.tolist()) == sorted(rows.tolist())
    plain = duplicates(log.save(tmp_path), log.hidden, choice=no_kernels)
    assert plain.tolist() == rows.tolist()


def test_segments_are_one_log(tmp_path: Path) -> None:
    log = random_log(3)
    whole = duplicates(log.save(tmp_path), log.hidden)
    positions = [row.position for row in walk(open_source(log.save(tmp_path)[0])) if isinstance(row, Batch)]
    cut = positions[len(positions) // 2]
    parts = duplicates(log.save(tmp_path, [cut]), log.hidden)
    for side in ("first", "second"):
        at = parts[f"{side}_position"] + np.where(parts[f"{side}_segment"] == 1, cut, 0)
        assert at.tolist() == whole[f"{side}_position"].tolist()
    assert parts["second_offset"].tolist() == whole["second_offset"].tolist()
    assert set(parts["second_segment"].tolist()) == {0, 1}


def test_a_restore_is_one_row(tmp_path: Path) -> None:
    """Thousands of records, tombstones among them, written again by another producer in other batches."""
    log = Log()
    contents = [(b"key-%d" % n, b"value-%d" % n if n % 5 else None) for n in range(3000)]
    for at in range(0, 3000, 30):
        log.write(contents[at : at + 30], producer=(1, 0, at), timestamp=at)
    for at in range(0, 3000, 50):
        log.write(contents[at : at + 50], producer=(2, 0, at), timestamp=9999 + at)
    for memory in (1 << 24, TINY):
        (row,) = duplicates(log.save(tmp_path), memory=memory)
        assert (row["level"], row["why"], row["records"]) == (Level.CONTENT, Why.OTHER_PRODUCER, 3000)
        assert (row["first_offset"], row["first_last_offset"]) == (0, 2999)
        assert (row["second_offset"], row["second_last_offset"]) == (3000, 5999)
        assert (row["first_timestamp"], row["second_timestamp"]) == (0, 9999)


@pytest.mark.parametrize(
    ("apart", "later", "why"),
    [
        (1, 0, Why.RETRY_SAME_TIME),
        (1, 1, Why.NO_PRODUCER),
        (WINDOW_OFFSETS - 3, 0, Why.RETRY_SAME_TIME),
        (WINDOW_OFFSETS - 2, 0, Why.NO_PRODUCER),
    ],
)
def test_a_retry_has_the_same_timestamp_and_comes_soon(tmp_path: Path, apart: int, later: int, why: Why) -> None:
    log = Log()
    log.write([(b"k", b"1"), (b"k", b"2")], timestamp=50)
    log.skip(apart)
    log.write([(b"k", b"1"), (b"k", b"2")], timestamp=50 + later)
    (row,) = duplicates(log.save(tmp_path))
    assert (row["why"], row["records"]) == (why, 2)
    assert row["level"] == (Level.CONTENT if why is Why.NO_PRODUCER else Level.CONTENT_RETRY)


@pytest.mark.parametrize(
    ("again", "later", "why"),
    [
        ([b"1", b"2"], WINDOW_MS - 1, Why.RETRY_WHOLE_BATCH),
        ([b"1", b"2"], WINDOW_MS, Why.NO_PRODUCER),
        ([b"1", b"2", b"3"], 5, Why.NO_PRODUCER),
    ],
)
def test_with_append_times_whole_batches_are_compared(tmp_path: Path, again: list[bytes], later: int, why: Why) -> None:
    log = Log()
    log.write([(b"k", b"1"), (b"k", b"2")], timestamp=50, is_stamped=False)
    log.write([(b"between", b"")], timestamp=51, is_stamped=False)
    log.write([(b"k", value) for value in again], timestamp=50 + later, is_stamped=False)
    (row,) = duplicates(log.save(tmp_path))
    assert (row["why"], row["records"]) == (why, 2)


def test_with_append_times_the_next_batch_may_be_cut_otherwise(tmp_path: Path) -> None:
    log = Log()
    log.write([(b"k", b"1"), (b"k", b"2")], timestamp=50, is_stamped=False)
    log.write([(b"k", b"1"), (b"k", b"2"), (b"k", b"3")], timestamp=60, is_stamped=False)
    (row,) = duplicates(log.save(tmp_path))
    assert (row["level"], row["why"]) == (Level.CONTENT_RETRY, Why.RETRY_NEXT_BATCH)


def test_tombstones_and_empty_values_alone_say_nothing(tmp_path: Path) -> None:
    log = Log()
    for number in range(3):
        log.write([(b"k", None)], producer=(number, 0, 0), timestamp=number)
        log.write([(b"k", b"")], producer=(number, 0, 1), timestamp=number)
        log.write([(None, None)], producer=(number, 0, 2), timestamp=7)
    assert len(duplicates(log.save(tmp_path))) == 0
    log.write([(b"k", None)], producer=(9, 0, 0), timestamp=2)
    assert [row["second_offset"] for row in duplicates(log.save(tmp_path))] == [9], "its timestamp is the same too"


def test_headers_are_part_of_what_is_compared(sample_logs: Path) -> None:
    """Records of one key and value whose headers differ are no duplicates; 'zstd 0' is not 'none 0'."""
    assert len(duplicates([str(sample_logs / "records/broker-1/headers-0/00000000000000000000.log")])) == 0


def test_records_written_twice_by_real_clients(sample_logs: Path) -> None:
    """Four records sent again without idempotence, three after a restart with it: see the scenario ``records``."""
    rows = duplicates([str(sample_logs / "records/broker-1/twice-0/00000000000000000000.log")])
    assert rows[["level", "why", "view", "records", "first_offset", "second_offset"]].tolist() == [
        (Level.CONTENT_RETRY, Why.RETRY_SAME_TIME, View.COMMITTED, 4, 0, 4),
        (Level.CONTENT, Why.OTHER_PRODUCER, View.COMMITTED, 3, 8, 11),
    ]


def _partitions() -> Iterator[Any]:
    for path in sorted(SAMPLES.glob("*/truth.json")):
        for topic, partitions in json.loads(path.read_text(encoding="utf-8"))["topics"].items():
            for number, said in partitions.items():
                # What the leader said holds for replicas that were in sync.
                folders = (path.parent / f"broker-{broker}" / f"{topic}-{number}" for broker in said.get("isr", ()))
                for folder in (folder for folder in folders if "read_uncommitted" in said and folder.is_dir()):
                    yield pytest.param(folder, said, id=folder.relative_to(SAMPLES).as_posix())


@pytest.mark.parametrize(("folder", "said"), list(_partitions()))
def test_later_copies_are_those_a_live_consumer_received_twice(folder: Path, said: dict[str, Any]) -> None:
    """For both isolation levels, from the consumer's own records: offsets whose content it had before."""
    partition = partition_of([str(path) for path in sorted(folder.glob("*.log"))])
    offsets = _data_offsets(partition.paths)
    pairs = found_pairs(partition.duplicates(compiled_kernels), offsets)
    for level, views in (("read_uncommitted", set(View)), ("read_committed", {View.COMMITTED})):
        of_view = {(first, second) for first, second, _, view in pairs if view in views}
        known = {second for first, second in of_view if said["earliest"] <= first and second < said["latest"]}
        expected, empty = _received_twice([record for record in said[level] if record["offset"] in set(offsets)])
        assert known - empty == expected, level


def _received_twice(records: Sequence[dict[str, Any]]) -> tuple[set[int], set[int]]:
    """Return the offsets of records that a consumer had received before, and those of them that have no value."""
    seen: set[str] = set()
    full: set[int] = set()
    empty: set[int] = set()
    for record in records:
        content = json.dumps([record["key"], record["value"], record["headers"]])
        if content in seen:
            (full if record["value"] else empty).add(record["offset"])
        seen.add(content)
    return full, empty


def _data_offsets(paths: Sequence[str]) -> list[int]:
    """Return the offsets of all data records on hand; of a tiered log the consumer received more."""
    found: list[int] = []
    for path in paths:
        with open_source(path) as source:
            for batch in walk(source):
                if isinstance(batch, Batch) and not batch.is_control:
                    found += [row.offset for row in records_of(source, batch) if isinstance(row, Record)]
    return found


def test_samples_hold_records_that_are_there_twice() -> None:
    """A sample that gets lost must not make the test above pass."""
    found = [duplicates([str(path) for path in sorted(one.values[0].glob("*.log"))]) for one in _partitions()]
    assert len(found) >= 170
    assert sum(int(rows["records"].sum()) for rows in found) >= 370


@pytest.mark.parametrize("while_reading", [True, False])
def test_an_interrupted_run_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, while_reading: bool
) -> None:
    """While it runs there are files without a name in the temporary folder; ended at any point, nothing is left."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    log = random_log(1, batches=200)
    log.data += b"what is no batch at all" if while_reading else b""
    rows = content_duplicates(Reading(log.save(tmp_path), log.hidden, kernels=no_kernels), _interrupt, memory=TINY)
    if while_reading:
        with pytest.raises(KeyboardInterrupt):
            next(rows)
    else:
        next(rows)
        assert _open_files(folder) == 2
        assert list(folder.iterdir()) == []
        rows.close()  # type: ignore[attr-defined]  # it is a generator
    assert list(folder.iterdir()) == []
    assert _open_files(folder) == 0


def _interrupt(_segment: int, _damage: Damage) -> None:
    raise KeyboardInterrupt


def _open_files(folder: Path) -> int:
    """Count the descriptors of this process that lead to files, deleted ones too, in a folder."""
    links = list(Path("/proc/self/fd").iterdir())
    return sum(str(link.readlink()).startswith(str(folder)) for link in links if link.is_symlink())


def test_hidden_transactions_are_those_of_their_producer_alone(tmp_path: Path) -> None:
    """An aborted copy is there for who reads everything; a later one of another producer for both."""
    log = Log()
    log.write([(b"k", b"v")], producer=(1, 0, 0), is_hidden=True)
    log.write([(b"k", b"v")], producer=(2, 0, 0))
    log.write([(b"k", b"v")], producer=(3, 0, 0))
    rows = duplicates(log.save(tmp_path), intervals([(1, 0, 1), (3, 5, -1)]))
    assert rows[["first_offset", "second_offset", "view"]].tolist() == [(0, 1, View.RAW), (1, 2, View.COMMITTED)]


def test_behind_the_last_stable_offset_copies_are_raw(tmp_path: Path) -> None:
    log = Log()
    for number in range(3):
        log.write([(b"k", b"v")], producer=(number, 0, 0))
    reading = Reading(log.save(tmp_path), intervals([]), last_stable_offset=2, kernels=no_kernels)
    (rows,) = content_duplicates(reading, _interrupt)
    assert rows[["second_offset", "view"]].tolist() == [(1, View.COMMITTED), (2, View.RAW)]
