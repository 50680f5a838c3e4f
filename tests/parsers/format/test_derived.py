"""Struct format, field offsets and NumPy type agree with the layout they are derived from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from construct import Int8sb, Int16ul, Int32ub, Int64sb, Struct
from hypothesis import given
from hypothesis import strategies as st

from kforensics.parsers.format import layouts
from kforensics.parsers.format.derived import FixedLayout, fixed_layout
from kforensics.parsers.format.layouts import BATCH_HEADER, RECORD

FIXED = [name for name in layouts.__all__ if name not in ("RECORD", "RECORD_HEADER")]


@pytest.mark.parametrize("name", FIXED)
def test_numpy_type_has_the_offsets_of_the_layout(name: str) -> None:
    derived = fixed_layout(getattr(layouts, name))
    dtype = derived.dtype
    assert dtype.names == derived.names
    assert dtype.itemsize == derived.size == derived.layout.sizeof()
    assert {field: place[1] for field, place in (dtype.fields or {}).items()} == derived.offsets


@pytest.mark.parametrize("name", FIXED)
@given(data=st.data())
def test_all_forms_read_the_same_numbers(name: str, data: st.DataObject) -> None:
    derived = fixed_layout(getattr(layouts, name))
    raw = data.draw(st.binary(min_size=derived.size, max_size=derived.size))
    parsed = derived.layout.parse(raw)
    expected = tuple(parsed[field] for field in derived.names)
    assert derived.unpack_from(raw) == expected
    assert np.frombuffer(raw, derived.dtype)[0].item() == expected
    alone = [derived.reader(field).unpack_from(raw, derived.offsets[field])[0] for field in derived.names]
    assert tuple(alone) == expected


def test_the_end_of_a_field_is_the_start_of_the_next() -> None:
    derived = fixed_layout(BATCH_HEADER)
    ends = [derived.end_of(name) for name in derived.names]
    assert ends == [*list(derived.offsets.values())[1:], derived.size]


@pytest.mark.parametrize(
    "layout",
    [RECORD, Struct("small_end" / Int16ul), Struct("nested" / Struct("inner" / Int8sb))],
    ids=["varints", "little-endian", "nested"],
)
def test_a_layout_that_is_not_fixed_is_refused(layout: Any) -> None:
    with pytest.raises(TypeError, match="not a fixed-width big-endian integer"):
        FixedLayout(layout)


def test_sign_and_width_come_from_the_layout() -> None:
    dtype = FixedLayout(Struct("a" / Int8sb, "b" / Int32ub, "c" / Int64sb)).dtype
    assert [dtype[name].str for name in "abc"] == ["|i1", ">u4", ">i8"]
