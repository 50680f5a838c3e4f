"""Stores are read batch by batch in a fixed order, including stores of other versions."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.errors import InputError
from kforensics.report_html import store_reader
from kforensics.report_html.report_page import report_page
from kforensics.report_html.store_reader import SortKey, count_values, first_rows, open_store, sort_rows
from tests.report_html.stores import forged, write_manifest


@pytest.mark.parametrize("parts", [1, 3])
def test_rows_come_in_the_order_of_the_files(parts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_reader, "BATCH_ROWS", 7)
    store = open_store(str(forged(tmp_path, {"transactions": 100}, parts=parts)))
    rows = [row for batch in store.batches("transactions", ["records", "topic"]) for row in batch.to_pylist()]
    assert [row["records"] for row in rows] == list(range(1, 101))
    assert [*rows[0]] == ["records", "topic"]
    assert store.count("transactions") == 100


def test_a_missing_column_is_null(tmp_path: Path) -> None:
    folder = forged(tmp_path, {})
    path = folder / "lso" / "part-0.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["hidden_bytes"]), path)
    (batch,) = open_store(str(folder)).batches("lso", ["hidden_bytes", "exact"])
    assert batch.to_pydict() == {"hidden_bytes": [None] * 3, "exact": [True, False, True]}
    report_page(open_store(str(folder)))


def test_a_missing_table_is_empty(tmp_path: Path) -> None:
    folder = forged(tmp_path, {})
    shutil.rmtree(folder / "committed_offsets")
    write_manifest(folder, rows={})  # as an older version writes it
    assert list(open_store(str(folder)).batches("committed_offsets", ["lag"])) == []
    assert 'data-table="committed_offsets"' not in report_page(open_store(str(folder)))[1]


def test_a_file_that_is_not_parquet_is_an_input_error(tmp_path: Path) -> None:
    folder = forged(tmp_path, {})
    (folder / "lso" / "part-0.parquet").write_bytes(b"no parquet")
    with pytest.raises(InputError, match=r"cannot read .*lso/part-0.parquet"):
        list(open_store(str(folder)).batches("lso", ["exact"]))


def test_a_column_whose_name_is_not_utf8_is_an_input_error(tmp_path: Path) -> None:
    folder = forged(tmp_path, {})
    path = folder / "lso" / "part-0.parquet"
    data = path.read_bytes()
    path.write_bytes(data.replace(b"exact", b"ex\xffct"))
    assert path.read_bytes() != data
    with pytest.raises(InputError, match=r"cannot read .*lso/part-0.parquet"):
        list(open_store(str(folder)).batches("lso", ["exact"]))


def test_a_store_can_be_a_uri(tmp_path: Path) -> None:
    folder = forged(tmp_path, {})
    by_path, by_uri = (report_page(open_store(name))[1] for name in (str(folder), folder.as_uri()))
    assert by_uri == by_path


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
