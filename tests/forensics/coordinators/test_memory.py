"""What tasks hold of very many transactions: the markers of a partition, and the history of a coordinator."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.scale import data
from tests.forensics.large_logs import write_coordinator
from tests.memory import only_linux, run_measured

FEW, MANY = 250_000, 750_000
# Bytes of memory for each further transaction. A marker has 85 as a record, a transaction of a coordinator 84; packed
# they have about 50, and the peaks of two runs differ by 10.
MOST_BYTES = 70
RUNS = 2
STATE = """
import sys
from kforensics.analyses.partitions import investigate
(state,) = investigate([sys.argv[1]], as_of_ms=1_800_000_000_000, warn=print, note=print).states(print)
"""
MARKERS = """
from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
print(len(PartitionMarkers.of(state).markers))
"""
HISTORY = """
from kforensics.forensics.coordinators.transactions.history_replay import history_of
print(len(history_of(state).transactions))
"""


def _write_markers(folder: Path, count: int) -> None:
    data.write_transactions(folder, 1, count)


@only_linux
@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "program"), [(_write_markers, MARKERS), (write_coordinator, HISTORY)], ids=["markers", "history"]
)
def test_memory_grows_little_with_transactions(
    tmp_path: Path, write: Callable[[Path, int], None], program: str
) -> None:
    peaks = []
    for count in (FEW, MANY):
        folder = tmp_path / f"made-{count}"
        write(folder, count)
        runs = [run_measured((STATE + program).strip(), folder) for _ in range(RUNS)]
        assert {int(text) for text, _ in runs} == {count}
        peaks.append(min(peak for _, peak in runs))
    assert peaks[1] - peaks[0] < (MANY - FEW) * MOST_BYTES
