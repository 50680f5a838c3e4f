"""Stores are read batch by batch in a fixed order, including stores of other versions."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kforensics.errors import InputError
from kforensics.report_html import store_reader
from kforensics.report_html.report_page import report_page
from kforensics.report_html.store_reader import open_store
from tests.report_html.stores import forged


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
    assert list(open_store(str(folder)).batches("committed_offsets", ["lag"])) == []
    assert 'data-table="committed_offsets"' not in report_page(open_store(str(folder)))[1]


def test_a_file_that_is_not_parquet_is_an_input_error(tmp_path: Path) -> None:
    folder = forged(tmp_path, {})
    (folder / "lso" / "part-0.parquet").write_bytes(b"no parquet")
    with pytest.raises(InputError, match=r"cannot read .*lso/part-0.parquet"):
        list(open_store(str(folder)).batches("lso", ["exact"]))


def test_a_store_can_be_a_uri(tmp_path: Path) -> None:
    folder = forged(tmp_path, {})
    by_path, by_uri = (report_page(open_store(name))[1] for name in (str(folder), folder.as_uri()))
    assert by_uri == by_path
