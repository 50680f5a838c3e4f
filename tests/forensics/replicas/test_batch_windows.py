"""Several logs read in windows of offsets, independent of their chunks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from kforensics.forensics.replicas.batch_windows import aligned_windows, batch_windows
from kforensics.parsers.columns import batch_reader
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.kernels.library import load_kernels
from kforensics.parsers.kernels.policy import KernelPolicy, no_kernels
from kforensics.parsers.log.batches import walk
from tests.forensics.forge import forge, swap
from tests.forensics.partition_states import SAMPLES, partitions_under

EMPTY = np.empty(0, "i8")


def _chunks(numbers: list[int], dice: Random) -> Iterator[Any]:
    """Yield ascending numbers in chunks of random length, also empty ones."""
    while numbers:
        count = dice.randrange(4)
        yield np.array(numbers[:count], "i8")
        numbers = numbers[count:]


@pytest.mark.parametrize("seed", range(50))
def test_windows_contain_the_same_range_of_every_sequence(seed: int) -> None:
    dice = Random(seed)  # noqa: S311 - dice for a test
    sequences = [sorted(dice.sample(range(40), dice.randrange(15))) for _ in range(3)]
    highest, seen = -1, [EMPTY] * 3
    for window in aligned_windows([_chunks(one, dice) for one in sequences], lambda part: part, EMPTY):
        numbers = np.concatenate(window)
        assert len(numbers)
        assert numbers.min() > highest
        highest = numbers.max()
        seen = [np.concatenate(both) for both in zip(seen, window, strict=True)]
    assert [one.tolist() for one in seen] == sequences


@pytest.mark.parametrize("policy", [no_kernels, lambda _size: load_kernels()], ids=["python", "kernels"])
@pytest.mark.parametrize(
    "name", ["replication/broker-1/replicated-0", "legacy-magic-1", "compaction/broker-1/compact-0"]
)
def test_the_stored_checksums_come_with_the_batches(name: str, policy: KernelPolicy) -> None:
    """For every message format."""
    for partition in partitions_under(SAMPLES / name):
        checksums = [crc for (window,) in batch_windows([partition], policy) for crc in window.crc.tolist()]
        assert checksums == [crc for segment in partition.segments for crc in _checksums(segment.path)]


def _checksums(path: str) -> Iterator[int]:
    with open_source(path) as source:
        yield from (batch.crc for batch in walk(source) if isinstance(batch, Batch))


@pytest.mark.parametrize("rows", [1, 2, 1 << 16])
def test_batches_out_of_order_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(batch_reader, "CHUNK_ROWS", rows)
    folder = forge(tmp_path, "plain @0; plain @1; plain @2; plain @3")
    swap(folder / f"{0:020}.log", 1, 2)
    windows = batch_windows(partitions_under(tmp_path), no_kernels)
    offsets = [offset for (window,) in windows for offset in window.columns.base_offset]
    assert offsets == [0, 2, 3]
