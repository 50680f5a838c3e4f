"""The text of one partition: the order of its producers, and the memory of very many."""

from __future__ import annotations

import tracemalloc
from contextlib import closing
from pathlib import Path

import numpy as np

from kforensics.forensics.partition.partition_rows import ProducerTable
from kforensics.render.partition_text import producer_lines
from kforensics.render.ranked_text import RankedText
from kforensics.render.screen import Screen
from tests.forensics.forge import forge, snapshot_entries
from tests.forensics.partition_states import state_under

LOG = "D 1 0 0-4 @0-4 N; D 2 0 0-0 @5-5 T; D 3 0 0-0 @6-6 N; D 4 0 0-0 @7-7 T"


def _lines(folder: Path, copies: int = 1) -> list[str]:
    state = state_under(folder)
    rows = ProducerTable.of(state, state.producers, state.log_end_offset).rows()
    rows = rows.taken(np.tile(np.arange(len(rows)), copies))
    with closing(RankedText(Screen(), "nothing")) as text:
        return [str(line) for line in producer_lines(state, rows, shown=text)]


def test_producers_that_differ_from_the_snapshot_are_first_then_those_with_open_transactions(tmp_path: Path) -> None:
    known = [entry for entry in snapshot_entries({0: LOG}, 8) if entry.producer_id != 3]
    forge(tmp_path, LOG, snapshots={8: known})
    assert [line.split()[0] for line in _lines(tmp_path)[-4:]] == ["3", "2", "4", "1"]


def test_very_many_producers_take_little_memory(tmp_path: Path) -> None:
    """The rows themselves have about 400 bytes; a dictionary for each made it 1,100."""
    forge(tmp_path, LOG)
    peaks = []
    for copies in (10, 10_000):
        tracemalloc.start()
        assert len(_lines(tmp_path, copies)) == 24
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (peaks[1] - peaks[0]) / 40_000 < 600
