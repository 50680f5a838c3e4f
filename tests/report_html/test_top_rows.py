"""The first rows equal those of a full sort, however the rows are divided into batches."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.report_html.top_rows import SortKey, count_values, first_rows, sort_rows

WORDS = ("critical", "error", "clean")
ROWS = st.lists(
    st.tuples(st.sampled_from([*WORDS, "else", None]), st.one_of(st.none(), st.integers(0, 5))), max_size=40
)


def _batches(rows: list[tuple[str | None, int | None]], cut: int) -> list[pa.RecordBatch]:
    table = pa.table(
        {
            "word": pa.array([word for word, _ in rows], "string"),
            "number": pa.array([number for _, number in rows], "int64"),
            "nth": pa.array(range(len(rows)), "int64"),
        }
    )
    parts: list[pa.RecordBatch] = table.to_batches(cut)
    return parts


@given(rows=ROWS, cut=st.integers(1, 9), limit=st.integers(1, 12))
def test_first_rows_are_those_of_a_full_sort(rows: list[tuple[str | None, int | None]], cut: int, limit: int) -> None:
    order = (SortKey("word", ranking=WORDS), SortKey("number", descending=True))
    first = first_rows(_batches(rows, cut), order, limit)
    rank = {word: nth for nth, word in enumerate(WORDS)}

    def key(nth: int) -> tuple[int, bool, int]:
        word, number = rows[nth]
        return rank.get(word or "", len(WORDS)), number is None, -(number or 0)

    expected = sorted(range(len(rows)), key=key)[:limit]
    assert ([] if first is None else first["nth"].to_pylist()) == expected


def test_no_batches_have_no_rows() -> None:
    assert first_rows([], (SortKey("word"),), 5) is None


def test_the_order_leaves_the_columns_as_they_were() -> None:
    table = pa.Table.from_batches(_batches([("clean", 1), ("critical", 2)], 9))
    assert sort_rows(table, (SortKey("word", ranking=WORDS),)).to_pylist() == [
        {"word": "critical", "number": 2, "nth": 1},
        {"word": "clean", "number": 1, "nth": 0},
    ]


@pytest.mark.parametrize("cut", [1, 2, 9])
def test_counts_are_those_of_all_batches(cut: int) -> None:
    rows: list[tuple[str | None, int | None]] = [("a", 1), ("b", 1), ("a", 2), ("a", 1), (None, 1)]
    assert count_values(_batches(rows, cut), ["word", "number"]) == {
        ("a", 1): 2,
        ("a", 2): 1,
        ("b", 1): 1,
        (None, 1): 1,
    }
