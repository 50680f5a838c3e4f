"""Batch columns: pure Python and the kernels read the same, and both agree with the walk over the log."""

from __future__ import annotations

import pickle
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kforensics.parsers.columns.batch_columns import (
    EMPTY_CONTROL_BATCH,
    NO_CONTROL,
    UNKNOWN_CONTROL,
    BatchColumns,
    concat_batches,
)
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch, Damage
from kforensics.parsers.kernels.library import load_kernels
from kforensics.parsers.kernels.policy import KernelPolicy, no_kernels
from kforensics.parsers.log.batches import walk
from lab.places import SAMPLES

LOGS = sorted(SAMPLES.rglob("*.log"))


@pytest.fixture(scope="module")
def compiled() -> KernelPolicy:
    """Return a policy that chooses kernels for every size."""
    kernels = load_kernels()
    assert kernels is not None
    return lambda _size: kernels


def _read(path: Path, choice: KernelPolicy, **more: Any) -> tuple[BatchColumns, list[Damage]]:
    damage: list[Damage] = []
    with open_source(path) as source:
        return concat_batches(list(batch_chunks(source, 7, damage.append, choice, **more))), damage


def _assert_same(left: BatchColumns, right: BatchColumns) -> None:
    for field in fields(BatchColumns):
        column, expected = getattr(left, field.name), getattr(right, field.name)
        assert column.dtype == expected.dtype, field.name
        np.testing.assert_array_equal(column, expected, field.name)


def test_kernels_and_pure_python_read_every_sample_alike(compiled: KernelPolicy) -> None:
    """The samples include damaged logs. The number of batches shows that kernels were tested at all."""
    compared = 0
    for path in LOGS:
        (expected, expected_damage), (batches, damage) = _read(path, no_kernels), _read(path, compiled)
        _assert_same(expected, batches)
        assert damage == expected_damage
        compared += len(expected)
    assert compared > 5000


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_columns_agree_with_the_walk(compiled: KernelPolicy, workers: int) -> None:
    (path,) = SAMPLES.glob("transactions-v2/broker-1/segments-0/00000000000000000000.log")
    columns, _ = _read(path, compiled, workers=workers)
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
        assert getattr(columns, name).tolist() == [getattr(batch, name) for batch in batches]
    assert set(columns.segment.tolist()) == {7}
    assert (columns.control != NO_CONTROL).tolist() == [batch.is_control for batch in batches]


def test_only_the_batches_of_a_range_are_read(compiled: KernelPolicy) -> None:
    (path,) = SAMPLES.glob("transactions-v2/broker-1/segments-0/00000000000000000000.log")
    whole, _ = _read(path, no_kernels)
    start, stop = int(whole.position[2]), int(whole.position[5])
    for choice in (no_kernels, compiled):
        part, damage = _read(path, choice, start=start, stop=stop)
        _assert_same(part, whole[2:5])
        assert damage == []


def test_unusual_control_batches_are_distinguished() -> None:
    """A control record that no broker could replay is UNKNOWN_CONTROL, a batch without records EMPTY_CONTROL_BATCH."""
    controls_by_log = {
        path.parent.name: _read(path, no_kernels)[0].control.tolist()
        for path in sorted((SAMPLES / "damaged" / "controls").glob("*/*.log"))
    }
    assert any(UNKNOWN_CONTROL in controls for controls in controls_by_log.values())
    assert EMPTY_CONTROL_BATCH in controls_by_log["control-batch-empty-0"]


def test_compressed_legacy_entries_have_no_first_offset() -> None:
    (path, *_) = sorted(SAMPLES.glob("legacy-magic-0/broker-0/compact-gzip-0/*.log"))
    batches, _ = _read(path, no_kernels)
    assert not batches.exact.all()
    inexact = batches[~batches.exact]
    assert inexact.base_offset.tolist() == inexact.last_offset.tolist()


def test_an_empty_log_has_empty_columns(tmp_path: Path) -> None:
    empty = tmp_path / "00000000000000000000.log"
    empty.write_bytes(b"")
    columns, damage = _read(empty, no_kernels)
    assert (len(columns), damage) == (0, [])
    assert [len(getattr(columns, field.name)) for field in fields(BatchColumns)] == [0] * len(fields(BatchColumns))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_unpickled_columns_are_equal_and_writable(count: int) -> None:
    (path,) = SAMPLES.glob("transactions-v2/broker-1/segments-0/00000000000000000000.log")
    columns = _read(path, no_kernels)[0][:count]
    unpickled = pickle.loads(pickle.dumps(columns))  # noqa: S301  # it was made in the line above
    assert len(unpickled) == count
    _assert_same(columns, unpickled)
    unpickled.segment[:] = 9
    assert set(columns.segment.tolist()) <= {7}
