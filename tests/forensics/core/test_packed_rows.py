"""Packed rows are read like the array that they were made of."""

from __future__ import annotations

import numpy as np
import pytest

from kforensics.forensics.core.packed_rows import (
    BLOCK,
    PackedRows,
    RowPacker,
    Side,
    as_array,
    column_at,
    pieces,
    search_column,
    with_column,
)
from kforensics.forensics.core.record_arrays import fields_of, take_rows
from kforensics.parsers.format.array_types import IntArray, StructArray

ROW = np.dtype(
    [
        ("constant", "i8"),
        ("ascending", "i8"),
        ("small", "i4"),
        ("epoch", "i2"),
        ("flag", "?"),
        ("wide", "i8"),
        ("sentinel", "i8"),
    ]
)
LOWEST = int(np.iinfo("i8").min)


def rows_of(count: int, first: int = 0) -> StructArray:
    """Return rows with every kind of column: equal, close together, and far apart."""
    numbers = np.arange(first, first + count)
    rows = np.zeros(count, ROW)
    rows["constant"] = -7
    rows["ascending"] = 1_795_000_000_000 + numbers * 25
    rows["small"] = numbers % 200 - 100
    rows["epoch"] = np.where(numbers % 3, -1, np.iinfo("i2").max)
    rows["flag"] = numbers % 2
    rows["wide"] = numbers * 0x1234567890123
    rows["sentinel"] = np.where(numbers % 50_000 == 1, LOWEST, numbers)
    return rows


def packed(*parts: StructArray) -> PackedRows:
    packer = RowPacker(ROW)
    for part in parts:
        packer.add(part)
    return packer.packed()


PARTS = [rows_of(10), rows_of(0), rows_of(3 * BLOCK + 17, 10), rows_of(5, 3 * BLOCK + 27), rows_of(BLOCK, 7)]
EVERY = np.concatenate(PARTS)


def test_columns_and_rows_are_those_of_the_array() -> None:
    rows = packed(*PARTS)
    assert len(rows) == len(EVERY)
    for name in ROW.names or ():
        assert (rows[name].dtype, rows[name].tolist()) == (ROW[name], EVERY[name].tolist())
    assert take_rows(rows, np.arange(len(EVERY))).tobytes() == EVERY.tobytes()
    assert rows[-1].tolist() == EVERY[-1].tolist()


@pytest.mark.parametrize(
    "indexes",
    [
        np.array([], "i8"),
        np.array([5]),
        np.arange(BLOCK - 3, 2 * BLOCK + 40),
        np.arange(len(EVERY))[::-1],
        np.random.default_rng(3).integers(0, len(EVERY), 5000),
        np.arange(len(EVERY)) % 7 == 0,
    ],
    ids=["none", "one", "ascending", "descending", "any", "mask"],
)
def test_some_rows_in_any_order(indexes: IntArray) -> None:
    rows, names = packed(*PARTS), ("ascending", "flag")
    assert rows[indexes].tobytes() == EVERY[indexes].tobytes()
    where = np.flatnonzero(indexes) if indexes.dtype == bool else indexes
    assert fields_of(rows, where, names).tobytes() == fields_of(EVERY, where, names).tobytes()
    assert column_at(rows, "wide", where).tolist() == EVERY["wide"][where].tolist()


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (3, 9), (9, 2 * BLOCK), (BLOCK + 1, len(EVERY)), (7, 3)])
def test_a_slice_is_a_part(start: int, stop: int) -> None:
    part = packed(*PARTS)[start:stop]
    expected = EVERY[start:stop]
    assert len(part) == len(expected)
    assert [part[name].tolist() for name in ROW.names or ()] == [expected[name].tolist() for name in ROW.names or ()]
    assert part[2:][np.arange(len(expected[2:]))].tobytes() == expected[2:].tobytes()
    if len(expected):
        with pytest.raises(IndexError, match="no index"):
            part[np.array([len(expected)])]
        with pytest.raises(IndexError, match="no index"):
            part[np.array([-1])]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("count", [0, 1, 3 * BLOCK + 17])
def test_a_sorted_column_is_searched(count: int, side: Side) -> None:
    """Some values are equal, also across the ends of blocks, and some are outside."""
    every = rows_of(count)
    every["ascending"] = np.arange(count) // 3
    wanted = np.random.default_rng(5).integers(-2, count // 3 + 3, 1000)
    expected = np.searchsorted(every["ascending"], wanted, side).tolist()
    for rows in (packed(every), every):
        assert search_column(rows, "ascending", wanted, side).tolist() == expected
    with pytest.raises(ValueError, match="no blocks of its own"):
        packed(*PARTS)[1:].searchsorted("ascending", wanted)


def test_another_column_is_set_piece_by_piece() -> None:
    changed = EVERY.copy()
    changed["small"] = EVERY["wide"] % 1000
    for rows in (packed(*PARTS), EVERY.copy()):
        result = with_column(rows, "small", lambda part: (part["wide"] % 1000).astype("i4"))
        assert as_array(result).tobytes() == changed.tobytes()
        assert b"".join(as_array(piece).tobytes() for piece in pieces(result)) == changed.tobytes()
        assert max(map(len, pieces(result))) == BLOCK


def test_packed_rows_are_added_with_another_constant() -> None:
    packer = RowPacker(ROW)
    packer.add(packed(*PARTS), constant=3, small=4)
    packer.add(PARTS[0], constant=5)
    rows = packer.packed()
    expected = np.concatenate([EVERY, PARTS[0]])
    expected["constant"][: len(EVERY)], expected["small"][: len(EVERY)] = 3, 4
    expected["constant"][len(EVERY) :] = 5
    assert rows[np.arange(len(expected))].tobytes() == expected.tobytes()
    assert PARTS[0]["constant"].tolist() == [-7] * 10, "rows with another constant are copied"


def test_few_rows_stay_an_array() -> None:
    packer = RowPacker(ROW)
    assert len(packer.rows()) == 0
    packer.add(PARTS[0])
    packer.add(PARTS[3])
    rows = packer.rows()
    assert isinstance(rows, np.ndarray)
    assert rows.tobytes() == np.concatenate([PARTS[0], PARTS[3]]).tobytes()
    packer.add(PARTS[2])
    assert isinstance(packer.rows(), PackedRows)


def test_many_small_parts_make_few_blocks() -> None:
    packer = RowPacker(ROW)
    for first in range(0, 4 * BLOCK, 100):
        packer.add(packed(rows_of(100, first)))
    assert len(list(packer.packed().blocks())) <= 5


def test_a_block_keeps_distances_in_the_smallest_type() -> None:
    blocks = [block for block, _ in packed(rows_of(4 * BLOCK)).blocks()]
    types = {
        name: {c.distances.dtype.str[1:] for c in (b[name] for b in blocks) if c.distances is not None}
        for name in blocks[0]
    }
    assert types == {
        "constant": set(),
        "ascending": {"u4"},
        "small": {"u1"},
        "epoch": {"i2"},
        "flag": {"b1"},
        "wide": {"i8"},
        "sentinel": {"i8", "u2"},
    }
