"""Batches as columns: what plain Python and the kernels read is the same, and it is what the walk says."""

from __future__ import annotations

import pickle
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kforensics.parsers.columns.batch_columns import NO_CONTROL, SHELL, UNKNOWN_CONTROL, BatchColumns, joined
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch, Damage
from kforensics.parsers.kernels.library import kernels
from kforensics.parsers.kernels.policy import Choice, no_kernels
from kforensics.parsers.log.batches import walk
from lab.places import SAMPLES

LOGS = sorted(SAMPLES.rglob("*.log"))


@pytest.fixture(scope="module")
def compiled() -> Choice:
    """Return the kernels for a log of every size."""
    found = kernels()
    assert found is not None
    return lambda _size: found


def _read(path: Path, choice: Choice, **more: Any) -> tuple[BatchColumns, list[Damage]]:
    damage: list[Damage] = []
    with open_source(path) as source:
        return joined(list(batch_chunks(source, 7, damage.append, choice, **more))), damage


def _assert_same(left: BatchColumns, right: BatchColumns) -> None:
    for field in fields(BatchColumns):
        one, other = getattr(left, field.name), getattr(right, field.name)
        assert one.dtype == other.dtype, field.name
        np.testing.assert_array_equal(one, other, field.name)


def test_kernels_and_plain_python_read_the_same_of_every_sample(compiled: Choice) -> None:
    """Damaged logs are among them; a kernel that took none would prove nothing."""
    taken = 0
    for path in LOGS:
        (plain, damage), (fast, also) = _read(path, no_kernels), _read(path, compiled)
        _assert_same(plain, fast)
        assert damage == also
        taken += len(plain)
    assert taken > 5000


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_columns_are_those_of_the_walk(compiled: Choice, workers: int) -> None:
    (path,) = SAMPLES.glob("transactions-v2/broker-1/segments-0/00000000000000000000.log")
    found, _ = _read(path, compiled, workers=workers)
    with open_source(path) as source:
        batches = [row for row in walk(source) if isinstance(row, Batch)]
    for name in (
        "position",
        "size",
        "base_offset",
        "last_offset",
        "count",
        "producer_id",
        "base_sequence",
        "attributes",
    ):
        assert getattr(found, name).tolist() == [getattr(batch, name) for batch in batches]
    assert set(found.segment.tolist()) == {7}
    assert (found.control != NO_CONTROL).tolist() == [batch.is_control for batch in batches]


def test_a_range_is_read_alone(compiled: Choice) -> None:
    (path,) = SAMPLES.glob("transactions-v2/broker-1/segments-0/00000000000000000000.log")
    whole, _ = _read(path, no_kernels)
    start, stop = int(whole.position[2]), int(whole.position[5])
    for choice in (no_kernels, compiled):
        part, damage = _read(path, choice, start=start, stop=stop)
        _assert_same(part, whole[2:5])
        assert damage == []


def test_strange_control_batches_are_told_apart() -> None:
    """What no broker could replay is UNKNOWN_CONTROL, an emptied batch is SHELL."""
    found = {
        path.parent.name: _read(path, no_kernels)[0].control.tolist()
        for path in sorted((SAMPLES / "damaged" / "controls").glob("*/*.log"))
    }
    assert any(UNKNOWN_CONTROL in controls for controls in found.values())
    assert SHELL in found["control-batch-empty-0"]


def test_compressed_entries_of_old_formats_do_not_tell_their_first_offset() -> None:
    (path, *_) = sorted(SAMPLES.glob("legacy-magic-0/broker-0/compact-gzip-0/*.log"))
    found, _ = _read(path, no_kernels)
    assert not found.exact.all()
    inexact = found[~found.exact]
    assert inexact.base_offset.tolist() == inexact.last_offset.tolist()


def test_no_batches_are_columns_too(tmp_path: Path) -> None:
    empty = tmp_path / "00000000000000000000.log"
    empty.write_bytes(b"")
    found, damage = _read(empty, no_kernels)
    assert (len(found), damage) == (0, [])
    assert [len(getattr(found, field.name)) for field in fields(BatchColumns)] == [0] * len(fields(BatchColumns))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_what_was_pickled_is_the_same_and_can_be_written_to(count: int) -> None:
    (path,) = SAMPLES.glob("transactions-v2/broker-1/segments-0/00000000000000000000.log")
    some = _read(path, no_kernels)[0][:count]
    arrived = pickle.loads(pickle.dumps(some))  # noqa: S301  # it was made in the line above
    assert len(arrived) == count
    _assert_same(some, arrived)
    arrived.segment[:] = 9
    assert set(some.segment.tolist()) <= {7}
