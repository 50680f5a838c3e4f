"""The shared parts of charts."""

import doctest
import json
from itertools import pairwise

import pyarrow as pa
import pytest

from kforensics.plots import chart
from kforensics.plots.chart import (
    MAX_TAIL_CHARACTERS,
    MAX_TEXT_CHARACTERS,
    PartitionFilter,
    column_numbers,
    safe_tail,
    safe_text,
    time_axis,
    to_table,
)
from tests.api.views.page import HOSTILE


@pytest.mark.parametrize("text", [*HOSTILE.values(), "x" * 1000, "<" * 1000])
def test_texts_are_short_and_safe(text: str) -> None:
    for made, longest in ((safe_text(text), MAX_TEXT_CHARACTERS), (safe_tail(text), MAX_TAIL_CHARACTERS)):
        assert made.isprintable()
        assert not set("<>&") & set(made)
        assert len(made) <= longest + 1
        assert safe_text(made) == made


def test_the_end_of_a_text_is_kept() -> None:
    assert safe_tail("x" * 80 + "-7") == "…" + "x" * 58 + "-7"
    assert (safe_tail("orders-7"), safe_text("orders-7")) == ("orders-7", "orders-7")


def test_nulls_are_replaced_by_a_number() -> None:
    table = pa.table({"a": pa.chunked_array([[1, None], [3]], pa.int32())})
    assert column_numbers(table, "a").tolist() == [1, -1, 3]
    assert to_table(table) is table


def test_a_partition_filter_applies_every_field() -> None:
    table = pa.table({"log_dir": ["/a", "/b", "/a"], "topic": ["t", "t", "u"], "partition": [0, 0, 1]})
    assert PartitionFilter("t", 0, "/b").select(table).num_rows == 1
    assert PartitionFilter(topic="u").select(table)["partition"].to_pylist() == [1]
    assert PartitionFilter("t").title("Sizes", PartitionFilter("u").select(table)) == "Sizes: u-1"


def test_doctests() -> None:
    assert doctest.testmod(chart).failed == 0


@pytest.mark.parametrize("duration", [0, 1, 7, 130, 999, 4_000, 59_999, 3_600_000, 86_400_000 * 3, 86_400_000 * 4000])
def test_a_time_axis_has_at_least_four_ticks_around_all_times(duration: int) -> None:
    """One tick, or none, was drawn for short times."""
    start = 1_795_262_719_100
    axis = time_axis("written", [start + duration, start])
    spec = axis["axis"].to_dict()
    ticks = json.loads(spec["values"]["expr"])
    assert 4 <= len(ticks) <= 12
    assert len({after - before for before, after in pairwise(ticks)}) == 1
    assert ticks[0] <= start
    assert start + duration <= ticks[-1]
    assert "%Y-%m-%d" in spec["labelExpr"]
