"""Rows in the order in which they were added, in memory or in a file."""

from __future__ import annotations

import multiprocessing
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

from kforensics.errors import UsageError
from kforensics.forensics.core.spill_file import SpilledRows

ROW = np.dtype([("number", "i8"), ("kind", "i1")])


def rows_of(start: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Return numbered rows."""
    rows = np.zeros(count, ROW)
    rows["number"] = np.arange(start, start + count)
    return rows


def spilled_rows(room: int, *counts: int) -> SpilledRows:
    """Return rows that were added in parts of these sizes."""
    spilled, start = SpilledRows(ROW, room * ROW.itemsize), 0
    for count in counts:
        spilled.add(rows_of(start, count))
        start += count
    return spilled


@pytest.mark.parametrize("room", [1, 3, 10, 100])
@pytest.mark.parametrize("counts", [(), (0,), (4,), (1, 0, 2, 7), (10, 1, 10), (25, 3)])
def test_rows_keep_their_order_and_can_be_read_again(room: int, counts: tuple[int, ...]) -> None:
    spilled = spilled_rows(room, *counts)
    assert len(spilled) == sum(counts)
    for _ in range(2):
        parts = list(spilled)
        assert [number for part in parts for number in part["number"].tolist()] == list(range(sum(counts)))
        assert all(0 < len(part) <= room for part in parts)
    spilled.add(rows_of(sum(counts), 2))
    assert sum(map(len, spilled)) == len(spilled) == sum(counts) + 2


def _send_numbers(connection: Connection, spilled: SpilledRows) -> None:
    connection.send([number for part in spilled for number in part["number"].tolist()])


def test_another_process_reads_the_rows() -> None:
    """Those in the file and those in memory; the memory is that of the rows that are not in the file."""
    spilled = spilled_rows(4, 9, 3)
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_send_numbers, args=(theirs, spilled))
    process.start()
    assert ours.recv() == list(range(12))
    process.join()


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(UsageError, match="TMPDIR"):
        spilled_rows(2, 3)
