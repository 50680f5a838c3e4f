"""The recipes for catalogs on the page on Spark: a table of the store has the same rows in each of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import kforensics
from tests.command import SAMPLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of an audit."""
    folder = tmp_path_factory.mktemp("audit") / "store"
    kforensics.audit(SAMPLES / "transactions-v2", output=folder, as_of="2026-11-21T12:30")
    return folder


def recipe(page: str, word: str) -> str:
    """Return the code of the section that has a word."""
    (section,) = re.findall(r"^## The store in a catalog\n(.*?)(?=^## )", page, re.MULTILINE | re.DOTALL)
    (code,) = (block for block in re.findall(r"^```py\n(.*?)^```$", section, re.MULTILINE | re.DOTALL) if word in block)
    return str(code)


def run_recipe(page: str, word: str, **names: Any) -> dict[str, Any]:
    """Run a recipe, and return its variables."""
    exec(compile(recipe(page, word), "docs/spark.md", "exec"), names)  # noqa: S102  # it is ours
    return names


def content(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def files_under(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.spark
def test_in_the_catalog_of_spark(spark: SparkSession, page: str, store: Path, tmp_path: Path) -> None:
    before = files_under(store)
    run_recipe(page, "createTable", spark=spark, store=store)
    try:
        for name in ("findings", "partitions"):
            expected = ds.dataset(store / name).to_table()
            assert content(spark.table(f"audit_{name}").toArrow()) == content(expected)
            assert expected.num_rows
    finally:
        for name in ("findings", "partitions"):
            spark.sql(f"DROP TABLE IF EXISTS audit_{name}")
    assert files_under(store) == before


def test_as_an_iceberg_table(page: str, store: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyiceberg", reason="pyiceberg is not installed: pip install 'pyiceberg[sql-sqlite]'")
    before = files_under(store)
    table = run_recipe(page, "pyiceberg", store=store, warehouse=tmp_path)["table"]
    assert content(table.scan().to_arrow()) == content(ds.dataset(store / "findings").to_table())
    assert files_under(store) == before


def test_as_a_delta_table(page: str, store: Path, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed: pip install deltalake")
    before = files_under(store)
    run_recipe(page, "deltalake", store=store, copy=tmp_path)
    found = deltalake.DeltaTable(str(tmp_path / "findings")).to_pyarrow_table()
    assert content(found) == content(ds.dataset(store / "findings").to_table())
    assert files_under(store) == before
