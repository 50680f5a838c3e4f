"""What all charts share."""

import doctest

import pyarrow as pa
import pytest

from kforensics.plots import chart
from kforensics.plots.chart import LONGEST, TAIL, array, harmless, table_of, tail
from kforensics.plots.one_partition import Wanted
from tests.api.views.page import HOSTILE


@pytest.mark.parametrize("text", [*HOSTILE.values(), "x" * 1000, "<" * 1000])
def test_texts_are_short_and_harmless_and_stay_so(text: str) -> None:
    for made, longest in ((harmless(text), LONGEST), (tail(text), TAIL)):
        assert made.isprintable()
        assert not set("<>&") & set(made)
        assert len(made) <= longest + 1
        assert harmless(made) == made


def test_the_end_of_a_text_tells_it_from_others() -> None:
    assert tail("x" * 80 + "-7") == "…" + "x" * 58 + "-7"
    assert (tail("orders-7"), harmless("orders-7")) == ("orders-7", "orders-7")


def test_nulls_become_a_number() -> None:
    table = pa.table({"a": pa.chunked_array([[1, None], [3]], pa.int32())})
    assert array(table, "a").tolist() == [1, -1, 3]
    assert table_of(table) is table


def test_a_partition_is_picked_by_all_that_is_named() -> None:
    table = pa.table({"log_dir": ["/a", "/b", "/a"], "topic": ["t", "t", "u"], "partition": [0, 0, 1]})
    assert Wanted("t", 0, "/b").of(table).num_rows == 1
    assert Wanted(topic="u").of(table)["partition"].to_pylist() == [1]
    assert Wanted("t").title("Sizes", Wanted("u").of(table)) == "Sizes: u-1"


def test_examples() -> None:
    assert doctest.testmod(chart).failed == 0
