"""Several logs read in step: windows of offsets that hold what each of them has there, whatever it came in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from kforensics.forensics.replicas.side_by_side import in_step, windows
from kforensics.parsers.columns import batch_reader
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.kernels.library import kernels
from kforensics.parsers.kernels.policy import Choice, no_kernels
from kforensics.parsers.log.batches import walk
from tests.forensics.cases import SAMPLES, partitions_under
from tests.forensics.forge import forge, swap

NOTHING = np.empty(0, "i8")


def _parts(numbers: list[int], dice: Random) -> Iterator[Any]:
    """Yield rising numbers in parts of any length, empty ones too."""
    while numbers:
        count = dice.randrange(4)
        yield np.array(numbers[:count], "i8")
        numbers = numbers[count:]


@pytest.mark.parametrize("seed", range(50))
def test_windows_hold_the_same_range_of_every_sequence(seed: int) -> None:
    dice = Random(seed)  # noqa: S311 - dice for a test
    sequences = [sorted(dice.sample(range(40), dice.randrange(15))) for _ in range(3)]
    highest, seen = -1, [NOTHING] * 3
    for window in in_step([_parts(one, dice) for one in sequences], lambda part: part, NOTHING):
        held = np.concatenate(window)
        assert len(held)
        assert held.min() > highest
        highest = held.max()
        seen = [np.concatenate(both) for both in zip(seen, window, strict=True)]
    assert [one.tolist() for one in seen] == sequences


@pytest.mark.parametrize("choice", [no_kernels, lambda _size: kernels()], ids=["plain", "kernels"])
@pytest.mark.parametrize(
    "name", ["replication/broker-1/replicated-0", "legacy-magic-1", "compaction/broker-1/compact-0"]
)
def test_the_stored_checksums_come_with_the_batches(name: str, choice: Choice) -> None:
    """Of every message format."""
    for partition in partitions_under(SAMPLES / name):
        found = [crc for (window,) in windows([partition], choice) for crc in window.crc.tolist()]
        assert found == [crc for segment in partition.segments for crc in _checksums(segment.path)]


def _checksums(path: str) -> Iterator[int]:
    with open_source(path) as source:
        yield from (batch.crc for batch in walk(source) if isinstance(batch, Batch))


@pytest.mark.parametrize("rows", [1, 2, 1 << 16])
def test_batches_that_stand_where_they_do_not_belong_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(batch_reader, "CHUNK_ROWS", rows)
    folder = forge(tmp_path, "plain @0; plain @1; plain @2; plain @3")
    swap(folder / f"{0:020}.log", 1, 2)
    found = [at for (window,) in windows(partitions_under(tmp_path), no_kernels) for at in window.columns.base_offset]
    assert found == [0, 2, 3]
