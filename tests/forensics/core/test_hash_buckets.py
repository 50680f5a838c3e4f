from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kforensics.errors import UsageError
from kforensics.forensics.core.hash_buckets import HashBuckets
from kforensics.parsers.format.array_types import StructArray

BUCKETS = 8
ROW = np.dtype([("key", "i8"), ("turn", "i4")])


def _bucket_of(rows: StructArray) -> StructArray:
    bucket: StructArray = rows["key"] % BUCKETS
    return bucket


def _parts() -> Iterator[StructArray]:
    dice, turn = np.random.default_rng(1), 0
    for size in (0, 7, 100, 1, 40, 300, 3):
        rows = np.empty(size, ROW)
        rows["key"], rows["turn"] = dice.integers(0, 50, size), np.arange(turn, turn + size)
        turn += size
        yield rows


@pytest.mark.parametrize("room", [1, 20 * ROW.itemsize, 1 << 20])
def test_rows_come_back_by_bucket_in_the_order_they_came(room: int) -> None:
    with HashBuckets(ROW, room, BUCKETS, _bucket_of) as spill:
        for part in _parts():
            spill.add(part)
        assert spill.rows == 451
        assert spill.spilled == (room < 1 << 20)
        buckets = [np.concatenate([np.empty(0, ROW), *bucket]) for bucket in spill.buckets()]
    expected = np.concatenate(list(_parts()))
    assert Counter(row for bucket in buckets for row in bucket.tolist()) == Counter(expected.tolist())
    for bucket in buckets:
        assert bucket["turn"].tolist() == sorted(bucket["turn"].tolist())
        assert len(set(_bucket_of(bucket).tolist())) == 1 or not spill.spilled


def test_parts_of_a_bucket_are_no_larger_than_the_room() -> None:
    room = 50
    with HashBuckets(ROW, room * ROW.itemsize, 2, lambda rows: rows["key"] % 2) as spill:
        for part in _parts():
            spill.add(part[:40])
        sizes = [len(part) for bucket in spill.buckets() for part in bucket]
    assert len(sizes) > 2
    assert max(sizes) <= room


def test_nothing_added_is_nothing() -> None:
    with HashBuckets("u8", 100, BUCKETS, _bucket_of) as spill:
        assert list(spill.buckets()) == []


def test_the_file_has_no_name_and_goes_with_the_spill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with HashBuckets(ROW, 1, BUCKETS, _bucket_of) as spill:
        spill.add(next(part for part in _parts() if len(part)))
        file = spill._file
        assert spill.spilled
        assert list(tmp_path.iterdir()) == []
    assert file is not None
    with pytest.raises(ValueError, match="closed file"):
        file.read(0, 1)


def test_a_missing_folder_for_temporary_files_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error names the variable to set; the result is not silently empty."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with HashBuckets(ROW, 1, BUCKETS, _bucket_of) as spill, pytest.raises(UsageError, match="TMPDIR"):
        spill.add(np.zeros(5, ROW))
