"""What the data source plans: few tasks for many files, many for one, and none for what cannot be wanted."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kforensics.errors import InputError
from kforensics.parsers.files.source import BytesSource
from kforensics.spark.source.input_slices import Work, works_of
from kforensics.spark.source.source_options import wanted_of
from kforensics.spark.source.source_reading import Head
from tests.forensics.forge import cut, file_of, forge, patch, swap
from tests.spark.source_tables import planned, read, read_of

SEGMENTS = (0, 60, 120, 180)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a partition of four segments, with an index entry for each batch."""
    log = {
        start: "; ".join(f"plain @{offset}-{offset + 5}" for offset in range(start, start + 60, 6))
        for start in SEGMENTS
    }
    return forge(tmp_path, log)


def _names(works: list[Work]) -> list[int]:
    return [int(Path(part.file.path).stem) for work in works for part in work.slices]


def _bytes(works: list[Work]) -> int:
    return sum(part.size for work in works for part in work.slices)


def test_a_thousand_tiny_files_are_a_few_tasks(tmp_path: Path) -> None:
    for number in range(1000):
        (tmp_path / f"{number:020}.log").touch()
    _, works = planned("batches", tmp_path)
    assert len(works) == 8
    assert sum(len(work.slices) for work in works) == 1000
    _, of_files = planned("files", tmp_path)
    assert len(of_files) == 1


def test_slices_of_a_segment_follow_one_another(folder: Path) -> None:
    _, works = planned("records", folder, split_size=1)
    assert len(works) == 40
    for segment in SEGMENTS:
        slices = [part for work in works for part in work.slices if part.file.base_offset == segment]
        assert (slices[0].start, slices[-1].stop) == (0, None)
        assert [part.start for part in slices[1:]] == [part.stop for part in slices[:-1]]


def test_a_segment_without_index_is_not_cut(folder: Path) -> None:
    for segment in SEGMENTS:
        file_of(folder, segment, "index").unlink()
    assert _names(planned("records", folder, split_size=1)[1]) == list(SEGMENTS)


@pytest.mark.parametrize(
    ("options", "segments"),
    [
        ({"start_offset": 120}, [120, 180]),
        ({"start_offset": 119}, [60, 120, 180]),
        ({"end_offset": 60}, [0]),
        ({"end_offset": 61}, [0, 60]),
        ({"start_offset": 70, "end_offset": 71}, [60]),
        ({"start_offset": 500}, [180]),
    ],
)
def test_segments_without_wanted_offsets_are_not_read(
    folder: Path, options: dict[str, int], segments: list[int]
) -> None:
    """Shown by removing them after planning."""
    expected = read("records", folder).to_pylist()
    wanted, works = planned("records", folder, **options)
    assert _names(works) == segments
    for segment in set(SEGMENTS) - set(segments):
        file_of(folder, segment).unlink()
    first, end = options.get("start_offset", 0), options.get("end_offset", 1000)
    assert read_of(wanted, works).to_pylist() == [row for row in expected if first <= row["offset"] < end]


def test_splits_without_wanted_offsets_are_not_read(folder: Path) -> None:
    wanted, works = planned("batches", folder, split_size=1, start_offset=80, end_offset=90)
    assert [batch["base_offset"] for batch in read_of(wanted, works).to_pylist()] == [78, 84]
    assert len(works) == 2
    assert _bytes(works) < _bytes(planned("batches", folder)[1]) / 10


def test_times_leave_out_nothing_for_they_need_not_ascend(folder: Path) -> None:
    wanted, works = planned("records", folder, start_time=10**15)
    assert _names(works) == list(SEGMENTS)
    assert read_of(wanted, works).num_rows == 0


def _another_offset_first(folder: Path) -> None:
    # No checksum covers the base offset, which comes first.
    log = file_of(folder, 60)
    log.write_bytes((1).to_bytes(8, "big") + log.read_bytes()[8:])


def _broken_checksum_first(folder: Path) -> None:
    patch(file_of(folder, 60), 60, fix_crc=False, max_timestamp=1)


def _other_names(folder: Path) -> None:
    first, second = file_of(folder, 0), file_of(folder, 120)
    first.rename(folder / "x")
    second.rename(first)
    (folder / "x").rename(second)


def _swapped(folder: Path) -> None:
    swap(file_of(folder, 60), 60, 66)


def _nothing_but_a_torn_batch(folder: Path) -> None:
    cut(file_of(folder, 60), 50)


DOUBTS = [_another_offset_first, _broken_checksum_first, _other_names]


@pytest.mark.parametrize("spoil", DOUBTS, ids=lambda spoil: spoil.__name__.strip("_"))
def test_where_offsets_are_in_doubt_all_is_read(folder: Path, spoil: Callable[[Path], None]) -> None:
    spoil(folder)
    assert _names(planned("records", folder, start_offset=1, end_offset=20)[1]) == list(SEGMENTS)


@pytest.mark.parametrize(
    "spoil", [*DOUBTS, _swapped, _nothing_but_a_torn_batch], ids=lambda spoil: spoil.__name__.strip("_")
)
@pytest.mark.parametrize("split_size", [1, 1 << 30])
def test_whatever_is_wrong_wanted_records_are_found(
    folder: Path, spoil: Callable[[Path], None], split_size: int
) -> None:
    spoil(folder)
    expected = [row for row in read("records", folder).to_pylist() if 1 <= row["offset"] < 20]
    assert len(expected) >= 18
    assert read("records", folder, start_offset=1, end_offset=20, split_size=split_size).to_pylist() == expected


def test_partitions_are_looked_at_one_by_one(folder: Path) -> None:
    """Doubt about one leaves the other as it is."""
    forge(folder.parent, {0: "plain @0-9", 10: "plain @10-19"}, topic="sound")
    _broken_checksum_first(folder)
    _, works = planned("records", folder.parent, start_offset=10, end_offset=12)
    assert _names(works) == [10, *SEGMENTS]


def test_nothing_at_all_is_an_error_but_for_damage(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(InputError, match="there is no such file"):
        planned("batches", missing)
    assert read("damage", missing)["reason"].to_pylist() == ["unreadable"]
    for table in ("batches", "damage", "files"):
        assert read(table, tmp_path).num_rows == 0


def test_a_head_ends_at_the_given_size() -> None:
    source = BytesSource(b"0123456789")
    head = Head(source, 6)
    assert (head.path, head.size) == (source.path, 6)
    assert [head.read(0, 4), head.read(4, 4), head.read(6, 4), head.read(9, 1)] == [b"0123", b"45", b"", b""]
    target = bytearray(4)
    assert [head.read_into(position, memoryview(target)) for position in (0, 4, 6, 9)] == [4, 2, 0, 0]
    assert bytes(target) == b"4523"
    assert head.next_data(2) == 2
    head.close()
    assert source.read(9, 1) == b"9"


def test_planning_keeps_a_few_bytes_of_each_file(tmp_path: Path) -> None:
    """A driver may have millions of files: their work is packed as they are listed, that of each task on its own."""
    for partition in range(40):
        folder = tmp_path / f"orders-{partition}"
        folder.mkdir()
        for number in range(50):
            (folder / f"{number:020}.log").touch()
    works = works_of(wanted_of({"table": "batches", "path": str(tmp_path), "split_size": str(50 << 20)}))
    first = next(works)
    shutil.rmtree(tmp_path / "orders-9")  # the last one by name; it has not been listed yet
    packed = [first.to_bytes(), *(work.to_bytes() for work in works)]
    assert [len(Work.from_bytes(each).slices) for each in packed] == [50] * 39
    assert sum(map(len, packed)) / (39 * 50) < 15
    assert Work.from_bytes(first.to_bytes()) == first
