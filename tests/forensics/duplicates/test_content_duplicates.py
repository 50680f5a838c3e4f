"""Content duplicates, against a simple definition on random logs and against the records of live consumers."""

from __future__ import annotations

import json
import tempfile
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kforensics.forensics.duplicates.content_duplicates import content_duplicates
from kforensics.forensics.duplicates.duplicate_rows import (
    DUPLICATE,
    DuplicateArray,
    DuplicateLevel,
    DuplicateReason,
    DuplicateView,
)
from kforensics.forensics.duplicates.record_reader import HiddenTransactionArray, RecordReader
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch, Damage, Record
from kforensics.parsers.kernels.library import load_kernels
from kforensics.parsers.kernels.policy import KernelPolicy, no_kernels
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import read_records
from lab.places import SAMPLES
from tests.forensics.duplicate_logs import (
    WINDOW_MS,
    WINDOW_OFFSETS,
    Log,
    as_if_it_did_not_recur,
    expected_pairs,
    hidden_rows,
    pairs_of_rows,
    partition_of,
    random_log,
)
from tests.parsers.builders import GZIP, batch_of, compressed
from tests.parsers.builders import record as built_record

TINY = 1 << 10


def compiled_kernels(_size: int) -> Any:
    """Return the kernels whatever the size."""
    return load_kernels()


def duplicates(
    paths: Sequence[str],
    hidden: HiddenTransactionArray | None = None,
    *,
    memory: int = 1 << 24,
    kernels: KernelPolicy = compiled_kernels,
) -> DuplicateArray:
    """Return all content duplicates of a partition."""
    reader = RecordReader(paths, hidden_rows([]) if hidden is None else hidden, kernels=kernels, workers=0)
    damage: list[tuple[int, Damage]] = []
    rows = content_duplicates(reader, lambda segment, row: damage.append((segment, row)), memory=memory)
    return np.concatenate([np.empty(0, DUPLICATE), *rows])


@pytest.mark.parametrize("seed", range(40))
def test_pairs_are_those_of_the_definition(tmp_path: Path, seed: int) -> None:
    log = random_log(seed)
    rows = duplicates(log.save(tmp_path), log.hidden)
    offsets = [record.offset for record in log.records]
    expected = dict(expected_pairs(log.records))
    pairs = [as_if_it_did_not_recur(pair, log.records) for pair in pairs_of_rows(rows, offsets)]
    assert len(pairs) == len(set(pairs))
    assert set(pairs) <= set(expected)
    assert {pair for pair, is_conclusive in expected.items() if is_conclusive} <= set(pairs)
    for row in rows:
        of_row = pairs_of_rows(np.array([row]), offsets)
        is_conclusive = [expected[as_if_it_did_not_recur(pair, log.records)] for pair in of_row]
        assert any(is_conclusive), "a row has a conclusive pair"
    assert rows["second_offset"].tolist() == sorted(rows["second_offset"].tolist())


@pytest.mark.parametrize("seed", range(12))
def test_little_memory_and_pure_python_give_the_same_result(tmp_path: Path, seed: int) -> None:
    """With a kilobyte, everything goes through files, and nearly all hashes share their first bits."""
    log = random_log(seed, batches=200)
    rows = duplicates(log.save(tmp_path), log.hidden)
    spilled = duplicates(log.save(tmp_path), log.hidden, memory=TINY)
    assert len(rows) > 20
    assert sorted(spilled.tolist()) == sorted(rows.tolist())
    in_python = duplicates(log.save(tmp_path), log.hidden, kernels=no_kernels)
    assert in_python.tolist() == rows.tolist()


@pytest.mark.parametrize("seed", range(12))
def test_huge_batches_are_divided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Whole batches are recognized all the same; the beginnings of huge ones are not looked at."""
    for module in ("content_duplicates", "content_pairs"):
        monkeypatch.setattr(f"kforensics.forensics.duplicates.{module}.LARGEST_UNDIVIDED", 1)
    log = random_log(seed, batches=200)
    rows = duplicates(log.save(tmp_path), log.hidden)
    assert sorted(duplicates(log.save(tmp_path), log.hidden, memory=TINY).tolist()) == sorted(rows.tolist())


@pytest.mark.parametrize("seed", range(12))
def test_batches_may_be_spread_over_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    log = random_log(seed, batches=200)
    rows = duplicates(log.save(tmp_path), log.hidden)
    monkeypatch.setattr("kforensics.parsers.columns.hash_columns.PYTHON_CHUNK_ROWS", 1 + seed % 2)
    spread = duplicates(log.save(tmp_path), log.hidden, kernels=no_kernels)
    assert spread.tolist() == rows.tolist()
    spilled = duplicates(log.save(tmp_path), log.hidden, kernels=no_kernels, memory=TINY)
    assert sorted(spilled.tolist()) == sorted(rows.tolist())


@pytest.mark.parametrize("seed", range(8))
def test_entries_may_be_paired_in_small_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    log = random_log(seed, batches=200)
    rows = duplicates(log.save(tmp_path), log.hidden)
    monkeypatch.setattr("kforensics.forensics.duplicates.content_pairs.PAIRED_ROWS", 1 + seed)
    in_parts = duplicates(log.save(tmp_path), log.hidden)
    assert sorted(in_parts.tolist()) == sorted(rows.tolist())


def test_memory_does_not_grow_with_the_number_of_equal_records(tmp_path: Path) -> None:
    """One batch of 150,000 empty records: all of them are paired, nothing is conclusive."""
    count, path = 150_000, tmp_path / f"{0:020}.log"
    rows = built_record(0, None, b"") * count
    path.write_bytes(batch_of(compressed(GZIP, rows), attributes=GZIP, count=count, last_offset_delta=count - 1))
    duplicates([str(path)], memory=TINY)  # what is loaded once does not count
    tracemalloc.start()
    try:
        found = len(duplicates([str(path)], memory=1 << 20))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == 0
    assert peak < 100 << 20


def test_segments_are_one_log(tmp_path: Path) -> None:
    log = random_log(3)
    whole = duplicates(log.save(tmp_path), log.hidden)
    positions = [row.position for row in walk(open_source(log.save(tmp_path)[0])) if isinstance(row, Batch)]
    cut = positions[len(positions) // 2]
    parts = duplicates(log.save(tmp_path, [cut]), log.hidden)
    for side in ("first", "second"):
        position = parts[f"{side}_position"] + np.where(parts[f"{side}_segment"] == 1, cut, 0)
        assert position.tolist() == whole[f"{side}_position"].tolist()
    assert parts["second_offset"].tolist() == whole["second_offset"].tolist()
    assert set(parts["second_segment"].tolist()) == {0, 1}


@pytest.mark.slow
def test_a_restore_is_one_row(tmp_path: Path) -> None:
    """Thousands of records, including tombstones, written again by another producer in other batches."""
    log = Log()
    contents = [(b"key-%d" % n, b"value-%d" % n if n % 5 else None) for n in range(3000)]
    for start in range(0, 3000, 30):
        log.write(contents[start : start + 30], producer=(1, 0, start), timestamp=start)
    for start in range(0, 3000, 50):
        log.write(contents[start : start + 50], producer=(2, 0, start), timestamp=9999 + start)
    for memory in (1 << 24, TINY):
        (row,) = duplicates(log.save(tmp_path), memory=memory)
        assert (row["level"], row["why"], row["records"]) == (
            DuplicateLevel.CONTENT,
            DuplicateReason.OTHER_PRODUCER,
            3000,
        )
        assert (row["first_offset"], row["first_last_offset"]) == (0, 2999)
        assert (row["second_offset"], row["second_last_offset"]) == (3000, 5999)
        assert (row["first_timestamp"], row["second_timestamp"]) == (0, 9999)


@pytest.mark.parametrize(
    ("gap", "delay", "reason"),
    [
        (1, 0, DuplicateReason.RETRY_SAME_TIME),
        (1, 1, DuplicateReason.NO_PRODUCER),
        (WINDOW_OFFSETS - 3, 0, DuplicateReason.RETRY_SAME_TIME),
        (WINDOW_OFFSETS - 2, 0, DuplicateReason.NO_PRODUCER),
    ],
)
def test_a_retry_has_the_same_timestamp_and_is_near(
    tmp_path: Path, gap: int, delay: int, reason: DuplicateReason
) -> None:
    log = Log()
    log.write([(b"k", b"1"), (b"k", b"2")], timestamp=50)
    log.skip(gap)
    log.write([(b"k", b"1"), (b"k", b"2")], timestamp=50 + delay)
    (row,) = duplicates(log.save(tmp_path))
    assert (row["why"], row["records"]) == (reason, 2)
    assert row["level"] == (
        DuplicateLevel.CONTENT if reason is DuplicateReason.NO_PRODUCER else DuplicateLevel.CONTENT_RETRY
    )


@pytest.mark.parametrize(
    ("values", "delay", "reason"),
    [
        ([b"1", b"2"], WINDOW_MS - 1, DuplicateReason.RETRY_WHOLE_BATCH),
        ([b"1", b"2"], WINDOW_MS, DuplicateReason.NO_PRODUCER),
        ([b"1", b"2", b"3"], 5, DuplicateReason.NO_PRODUCER),
    ],
)
def test_with_append_times_whole_batches_are_compared(
    tmp_path: Path, values: list[bytes], delay: int, reason: DuplicateReason
) -> None:
    log = Log()
    log.write([(b"k", b"1"), (b"k", b"2")], timestamp=50, has_create_time=False)
    log.write([(b"between", b"")], timestamp=51, has_create_time=False)
    log.write([(b"k", value) for value in values], timestamp=50 + delay, has_create_time=False)
    (row,) = duplicates(log.save(tmp_path))
    assert (row["why"], row["records"]) == (reason, 2)


def test_with_append_times_a_part_of_the_next_batch_is_no_retry(tmp_path: Path) -> None:
    log = Log()
    log.write([(b"k", b"1"), (b"k", b"2")], timestamp=50, has_create_time=False)
    log.write([(b"k", b"1"), (b"k", b"2"), (b"k", b"3")], timestamp=60, has_create_time=False)
    (row,) = duplicates(log.save(tmp_path))
    assert (row["level"], row["why"]) == (DuplicateLevel.CONTENT, DuplicateReason.NO_PRODUCER)


@pytest.mark.parametrize(
    ("sent", "again", "delay", "between", "retried"),
    [
        ([b"1"], [b"1", b"2"], 0, 0, 1),
        ([b"1"], [b"1", b"2"], 1, 0, 0),  # sent later: an event that occurred twice
        ([b"1"], [b"1", b"2"], 0, 1, 0),  # twice in a millisecond
        ([b"1", b"2"], [b"1", b"2", b"3"], 0, 1, 2),
        ([b"1", b"2"], [b"1", b"3"], 0, 0, 0),  # a part of the earlier batch
        ([b"1", b"2"], [b"3", b"1", b"2"], 0, 0, 0),  # not at the beginning
    ],
)
def test_records_that_are_sent_again_in_front_of_others_are_a_retry(  # noqa: PLR0917
    tmp_path: Path, sent: list[bytes], again: list[bytes], delay: int, between: int, retried: int
) -> None:
    """As librdkafka does: what was not acknowledged goes back to the front of its queue."""
    log = Log()
    log.write([(b"k", value) for value in sent], timestamp=50)
    for _ in range(between):
        log.write([(b"between", b"")], timestamp=50)
    log.write([(b"k", value) for value in again], timestamp=50 + delay)
    rows = duplicates(log.save(tmp_path))
    retries = rows[rows["level"] == DuplicateLevel.CONTENT_RETRY]
    assert int(retries["records"].sum()) == retried


def test_several_batches_that_are_sent_again_as_one_are_a_retry(tmp_path: Path) -> None:
    log = Log()
    for value in (b"1", b"2", b"3"):
        log.write([(b"k", value)], timestamp=50)
    log.write([(b"k", value) for value in (b"1", b"2", b"3", b"4")], timestamp=50)
    (row,) = duplicates(log.save(tmp_path))
    assert (row["level"], row["why"], row["records"]) == (
        DuplicateLevel.CONTENT_RETRY,
        DuplicateReason.RETRY_SAME_TIME,
        3,
    )


def test_different_records_again_and_again_without_others_in_between_are_retries(tmp_path: Path) -> None:
    """Some clients never give up; the timestamps show that it is the same batch, unless they are no clock's."""
    for timestamp, level in ((1001, DuplicateLevel.CONTENT_RETRY), (1000, DuplicateLevel.CONTENT)):
        log = Log()
        for _ in range(24):
            log.write([(b"k", b"1"), (b"k", b"2")], timestamp=timestamp)
        assert set(duplicates(log.save(tmp_path))["level"].tolist()) == {level}


def test_a_part_of_a_batch_is_no_retry_whatever_its_timestamp(tmp_path: Path) -> None:
    log = Log()
    log.write([(b"k", b"1"), (b"k", b"2")], timestamp=50)
    log.write([(b"k", b"1"), (b"k", b"3")], timestamp=50)
    (row,) = duplicates(log.save(tmp_path))
    assert (row["level"], row["why"]) == (DuplicateLevel.CONTENT, DuplicateReason.NO_PRODUCER)


@pytest.mark.parametrize("has_create_time", [True, False])
def test_without_timestamps_nothing_is_a_retry(tmp_path: Path, has_create_time: bool) -> None:
    log = Log()
    for number in range(4):
        log.write([(b"k", b"1"), (b"k", b"2")], timestamp=-1, has_create_time=has_create_time)
        log.write([(b"k", b"other %d" % number)], timestamp=-1, has_create_time=has_create_time)
    rows = duplicates(log.save(tmp_path))
    assert set(rows["level"].tolist()) == {DuplicateLevel.CONTENT}
    assert set(rows["why"].tolist()) == {DuplicateReason.NO_TIME}
    assert rows["second_offset"].tolist() == [3, 6, 9]


@pytest.mark.parametrize("times", [2, 3, 8])
@pytest.mark.parametrize("memory", [1 << 24, TINY])
def test_two_equal_heartbeats_in_a_batch_again_and_again_are_no_retry(tmp_path: Path, times: int, memory: int) -> None:
    log = Log()
    for number in range(times):
        log.write([(b"k", b"alive"), (b"k", b"alive")], timestamp=1000 + 15_500 * number, has_create_time=False)
    rows = duplicates(log.save(tmp_path), memory=memory)
    pairs = pairs_of_rows(rows, range(2 * times))
    reason = DuplicateReason.PERIODIC if times > 2 else DuplicateReason.RETRY_WHOLE_BATCH
    # The second heartbeat of the first batch repeats the first one.
    assert pairs[0] == (0, 1, DuplicateReason.NO_PRODUCER, DuplicateView.COMMITTED)
    assert pairs[1:] == [(n - 2, n, reason, DuplicateView.COMMITTED) for n in range(2, 2 * times)]
    assert rows["first_offset"].tolist() == [0, *range(0, 2 * times - 2, 2)]


@pytest.mark.parametrize(("times", "level"), [(3, DuplicateLevel.CONTENT_RETRY), (4, DuplicateLevel.CONTENT)])
def test_two_retries_of_different_records_are_retries_and_more_are_not(
    tmp_path: Path, times: int, level: DuplicateLevel
) -> None:
    log = Log()
    for number in range(times):
        log.write([(b"k", b"1"), (b"k", b"2")], timestamp=1000 + number, has_create_time=False)
        log.write([(b"k", b"between %d" % number)], timestamp=1000 + number, has_create_time=False)
    assert set(duplicates(log.save(tmp_path))["level"].tolist()) == {level}


@pytest.mark.parametrize(("copies", "level"), [(11, DuplicateLevel.CONTENT_RETRY), (12, DuplicateLevel.CONTENT)])
def test_more_retries_count_with_equal_timestamps_of_the_producer(
    tmp_path: Path, copies: int, level: DuplicateLevel
) -> None:
    log = Log()
    for _ in range(copies):
        log.write([(b"k", b"1")], timestamp=1000)
    assert set(duplicates(log.save(tmp_path))["level"].tolist()) == {level}


def test_one_equal_record_with_append_time_is_a_retry_only_directly_after(tmp_path: Path) -> None:
    log = Log()
    for value in (b"1", b"2", b"1", b"3", b"3"):
        log.write([(b"k", value)], timestamp=1000, has_create_time=False)
    rows = duplicates(log.save(tmp_path))
    assert rows[["first_offset", "second_offset", "level"]].tolist() == [
        (0, 2, DuplicateLevel.CONTENT),
        (3, 4, DuplicateLevel.CONTENT_RETRY),
    ]


def test_equal_records_of_a_producer_are_cut_where_they_would_reach_themselves(tmp_path: Path) -> None:
    log = Log()
    for number in range(4):
        log.write([(b"k", b"%d" % n) for n in range(3)], producer=(1, 0, 3 * number), timestamp=number)
    for memory in (1 << 24, TINY):
        rows = duplicates(log.save(tmp_path), memory=memory)
        assert rows[["first_offset", "second_offset", "records"]].tolist() == [(0, 3, 3), (3, 6, 3), (6, 9, 3)]


def test_tombstones_and_empty_values_alone_are_not_conclusive(tmp_path: Path) -> None:
    log = Log()
    for number in range(3):
        log.write([(b"k", None)], producer=(number, 0, 0), timestamp=number)
        log.write([(b"k", b"")], producer=(number, 0, 1), timestamp=number)
        log.write([(None, None)], producer=(number, 0, 2), timestamp=7)
    assert len(duplicates(log.save(tmp_path))) == 0
    log.write([(b"k", None)], producer=(9, 0, 0), timestamp=2)
    assert [row["second_offset"] for row in duplicates(log.save(tmp_path))] == [9], "it has the same timestamp as well"


def test_headers_are_compared(sample_logs: Path) -> None:
    """Records of equal key and value are not duplicates if their headers differ: 'zstd 0' is not 'none 0'."""
    assert len(duplicates([str(sample_logs / "records/broker-1/headers-0/00000000000000000000.log")])) == 0


def test_duplicates_of_real_clients(sample_logs: Path) -> None:
    """Four records are retried without idempotence, three are sent again after a restart (scenario ``records``)."""
    rows = duplicates([str(sample_logs / "records/broker-1/twice-0/00000000000000000000.log")])
    assert rows[["level", "why", "view", "records", "first_offset", "second_offset"]].tolist() == [
        (DuplicateLevel.CONTENT_RETRY, DuplicateReason.RETRY_SAME_TIME, DuplicateView.COMMITTED, 4, 0, 4),
        (DuplicateLevel.CONTENT, DuplicateReason.OTHER_PRODUCER, DuplicateView.COMMITTED, 3, 8, 11),
    ]


def _partitions() -> Iterator[Any]:
    for path in sorted(SAMPLES.glob("*/truth.json")):
        for topic, partitions in json.loads(path.read_text(encoding="utf-8"))["topics"].items():
            for number, reported in partitions.items():
                # The report of the leader is valid for replicas that were in sync.
                folders = (path.parent / f"broker-{broker}" / f"{topic}-{number}" for broker in reported.get("isr", ()))
                for folder in (folder for folder in folders if "read_uncommitted" in reported and folder.is_dir()):
                    yield pytest.param(folder, reported, id=folder.relative_to(SAMPLES).as_posix())


@pytest.mark.parametrize(("folder", "reported"), list(_partitions()))
def test_later_copies_are_those_that_a_live_consumer_received(folder: Path, reported: dict[str, Any]) -> None:
    """At both isolation levels: the offsets of records whose content the consumer had received before."""
    partition = partition_of([str(path) for path in sorted(folder.glob("*.log"))])
    offsets = _data_offsets(partition.paths)
    pairs = pairs_of_rows(partition.duplicates(compiled_kernels), offsets)
    for level, views in (("read_uncommitted", set(DuplicateView)), ("read_committed", {DuplicateView.COMMITTED})):
        of_view = {(first, second) for first, second, _, view in pairs if view in views}
        known = {second for first, second in of_view if reported["earliest"] <= first and second < reported["latest"]}
        expected, empty = _received_twice([record for record in reported[level] if record["offset"] in set(offsets)])
        assert known - empty == expected, level


def _received_twice(records: Sequence[dict[str, Any]]) -> tuple[set[int], set[int]]:
    """Return the offsets of records whose content a consumer had received before: with a value, and without."""
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
    """Return the offsets of all data records in the files; from a tiered log, the consumer received more."""
    offsets: list[int] = []
    for path in paths:
        with open_source(path) as source:
            for batch in walk(source):
                if isinstance(batch, Batch) and not batch.is_control:
                    offsets += [row.offset for row in read_records(source, batch) if isinstance(row, Record)]
    return offsets


def test_samples_contain_duplicates() -> None:
    """A lost sample must not make the test of later copies pass."""
    folders = [sample.values[0] for sample in _partitions()]
    found_rows = [duplicates([str(path) for path in sorted(folder.glob("*.log"))]) for folder in folders]
    assert len(found_rows) >= 170
    assert sum(int(rows["records"].sum()) for rows in found_rows) >= 370


@pytest.mark.parametrize("while_reading", [True, False])
def test_an_interrupted_search_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, while_reading: bool
) -> None:
    """The search uses unnamed files in the temporary folder. Wherever it ends, none is left."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    log = random_log(1, batches=200)
    log.data += b"not a valid batch at all" if while_reading else b""
    rows = content_duplicates(RecordReader(log.save(tmp_path), log.hidden, kernels=no_kernels), _interrupt, memory=TINY)
    if while_reading:
        with pytest.raises(KeyboardInterrupt):
            next(rows)
    else:
        next(rows)
        assert _open_files(folder) == 1  # the duplicates; those of entries and pairs are closed
        assert list(folder.iterdir()) == []
        rows.close()  # type: ignore[attr-defined]  # it is a generator
    assert list(folder.iterdir()) == []
    assert _open_files(folder) == 0


def _interrupt(_segment: int, _damage: Damage) -> None:
    raise KeyboardInterrupt


def _open_files(folder: Path) -> int:
    """Count the open file descriptors of this process for files in a folder, including deleted files."""
    links = list(Path("/proc/self/fd").iterdir())
    return sum(str(link.readlink()).startswith(str(folder)) for link in links if link.is_symlink())


def test_a_hidden_transaction_hides_only_its_own_producer(tmp_path: Path) -> None:
    """An aborted copy is only in the raw view; a later copy of another producer is in both views."""
    log = Log()
    log.write([(b"k", b"v")], producer=(1, 0, 0), is_hidden=True)
    log.write([(b"k", b"v")], producer=(2, 0, 0))
    log.write([(b"k", b"v")], producer=(3, 0, 0))
    rows = duplicates(log.save(tmp_path), hidden_rows([(1, 0, 1), (3, 5, -1)]))
    assert rows[["first_offset", "second_offset", "view"]].tolist() == [
        (0, 1, DuplicateView.RAW),
        (1, 2, DuplicateView.COMMITTED),
    ]


def test_copies_from_the_last_stable_offset_on_are_raw(tmp_path: Path) -> None:
    log = Log()
    for number in range(3):
        log.write([(b"k", b"v")], producer=(number, 0, 0))
    reader = RecordReader(log.save(tmp_path), hidden_rows([]), last_stable_offset=2, kernels=no_kernels)
    (rows,) = content_duplicates(reader, _interrupt)
    assert rows[["second_offset", "view"]].tolist() == [(1, DuplicateView.COMMITTED), (2, DuplicateView.RAW)]
