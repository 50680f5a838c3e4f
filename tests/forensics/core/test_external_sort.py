"""Records come back in order, whatever they came in and however little may be held; nothing is left of the files."""

from __future__ import annotations

import gc
import multiprocessing
import pickle
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.errors import UsageError
from kforensics.forensics.core.external_sort import ExternalSort, SortedRows
from kforensics.parsers.format.array_types import StructArray

ROW = np.dtype([("key", "i8"), ("turn", "i4")])
ROOM = 40 * ROW.itemsize
SIZE = 8


def parts_of(keys: Sequence[int], sizes: Sequence[int]) -> list[StructArray]:
    """Return rows with these keys, numbered, in parts of these sizes over and over."""
    rows = np.empty(len(keys), ROW)
    rows["key"], rows["turn"] = keys, np.arange(len(keys))
    parts: list[StructArray] = []
    at = 0
    while at < len(rows):
        size = sizes[len(parts) % len(sizes)]
        parts.append(rows[at : at + size])
        at += size
    return parts


def sorted_of(parts: Sequence[StructArray], room: int = ROOM, size: int = SIZE) -> SortedRows:
    """Return the parts in order."""
    sorting = ExternalSort(ROW, itemgetter("key"), room, size)
    for part in parts:
        sorting.add(part)
    return sorting.finish()


def rows_of(found: SortedRows) -> list[Any]:
    """Return all rows as they come."""
    return [row for rows in found for row in rows.tolist()]


def check(keys: Sequence[int], sizes: Sequence[int], room: int, size: int = SIZE) -> SortedRows:
    """Compare with what Python's sorting says, and return the ranges."""
    found = sorted_of(parts_of(keys, sizes), room, size)
    expected = sorted(zip(keys, range(len(keys)), strict=True))
    assert rows_of(found) == expected
    assert rows_of(found) == expected, "a second time"
    assert len(found) == len(keys)
    assert found.last_keys.tolist() == [int(rows["key"][-1]) for rows in found]
    return found


@given(
    st.lists(st.integers(0, 60), max_size=300) | st.lists(st.integers(0, 3), max_size=60),
    st.lists(st.integers(1, 70), min_size=1, max_size=5),
    st.integers(1, 60),
    st.integers(1, 9),
)
def test_any_order_comes_out_sorted_and_stable(keys: list[int], sizes: list[int], room: int, size: int) -> None:
    found = check(keys, sizes, room * ROW.itemsize, size)
    assert found.is_in_memory == (len(keys) <= max(room, 4))


@given(st.lists(st.integers(-30, 30), max_size=400), st.lists(st.integers(1, 50), min_size=1, max_size=4))
def test_what_is_nearly_in_order_is_never_written_twice(shifts: list[int], sizes: list[int]) -> None:
    """What comes late by less than the newest half of the room stays in memory until it has its place."""
    keys = [10 * at + shift for at, shift in enumerate(shifts)]
    sorting = ExternalSort(ROW, itemgetter("key"), ROOM, SIZE)
    for part in parts_of(keys, sizes):
        sorting.add(part)
    assert not sorting._late
    assert rows_of(sorting.finish()) == sorted(zip(keys, range(len(keys)), strict=True))


def test_backwards_is_the_worst() -> None:
    found = check(range(1000, 0, -1), [7, 50], ROOM)
    assert found.page_count >= 1000 // SIZE
    assert max(len(rows) for rows in found) <= SIZE + ROOM // ROW.itemsize


def test_nothing_has_no_ranges() -> None:
    found = sorted_of([])
    assert (len(found), found.page_count, list(found)) == (0, 0, [])


def test_the_file_lies_where_temporary_files_lie_and_has_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = check(range(1000), [10], ROOM)
    assert found._file is not None
    file = found._file._file
    assert (list(tmp_path.iterdir()), file.closed) == ([], False)
    del found
    gc.collect()
    assert file.closed


def test_a_missing_folder_for_temporary_files_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(UsageError, match="No such file or directory; set the environment variable TMPDIR"):
        check(range(1000), [10], ROOM)


def test_a_full_disk_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full").open("wb", buffering=0)  # noqa: SIM115  # the sort closes it
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: full)
    with pytest.raises(UsageError, match="No space left on device"):
        check(range(1000), [10], ROOM)


def made_elsewhere(room: int) -> SortedRows:
    """Return sorted rows, in a process of their own."""
    return sorted_of(parts_of(range(500, 0, -1), [20]), room)


@pytest.mark.parametrize("room", [ROOM, 1 << 20], ids=["file", "memory"])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_sent_as_file(method: str, room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows go to another process as their file; the name is short because a path to a socket may have 107 bytes."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with multiprocessing.get_context(method).Pool(1) as pool:
        found = pool.apply(made_elsewhere, (room,))
        # Python itself has a socket there as long as the process lives.
        assert list(tmp_path.glob("kforensics-*")) == []
    assert found.is_in_memory == (room > ROOM)
    assert [key for key, _ in rows_of(found)] == list(range(1, 501))


def test_a_spill_file_is_not_serialized_row_by_row() -> None:
    found = sorted_of(parts_of(range(20_000), [100]))
    assert len(pickle.dumps(found)) < 20_000 * ROW.itemsize // 2
