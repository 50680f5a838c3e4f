"""Rows are converted to JSON of limited size that is safe in a page."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics import report_html
from kforensics.forensics.core.tables import STORED
from kforensics.report_html.page_rows import (
    MAX_PAGE_ROWS,
    MAX_TABLE_CHARACTERS,
    make_page_table,
    page_json,
    page_table,
    page_value,
)
from kforensics.report_html.report_tables import REPORT_TABLES, column_kind
from kforensics.report_html.store_reader import open_store
from tests.api.views.page import HOSTILE
from tests.report_html.stores import forged


@given(st.recursive(st.one_of(st.none(), st.text(), st.integers()), lambda inner: st.lists(inner, max_size=4)))
def test_json_is_equal_and_has_no_character_special_to_html(value: Any) -> None:
    text = page_json(value)
    assert json.loads(text) == value
    assert not set(text) & set("<>&\u2028\u2029")
    assert text.isascii()


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_untrusted_text_is_printable(text: str) -> None:
    assert page_value(text).isprintable()
    assert page_value(text.encode()).isprintable()


def test_numbers_stay_exact() -> None:
    assert page_value((1 << 53) + 1) == "9007199254740993"
    assert page_value(-(1 << 53)) == -(1 << 53)
    assert page_value(float("nan")) is None
    assert page_value(True) is True


def test_long_text_is_truncated() -> None:
    assert len(page_value("x" * 10_000)) < 500


def test_the_size_of_a_table_is_limited() -> None:
    long = make_page_table("long", [], (["<" * 300] * 4 for _ in range(5000)), lambda: 5000)
    assert len(page_json(long["rows"])) <= MAX_TABLE_CHARACTERS + 2 * MAX_PAGE_ROWS
    many = make_page_table("many", [], ([1] for _ in range(5000)), lambda: 5000)
    assert (len(many["rows"]), many["total"]) == (MAX_PAGE_ROWS, 5000)


@pytest.mark.parametrize("name", REPORT_TABLES)
def test_every_table_has_its_rows_in_its_columns(name: str, tmp_path: Path) -> None:
    report_table = REPORT_TABLES[name]
    table = page_table(open_store(str(forged(tmp_path, {name: 2500}, parts=3))), report_table)
    assert table["total"] in (2500, 1250)  # half of them, if the table shows only rows that differ
    assert len(table["rows"]) == MAX_PAGE_ROWS
    assert all(len(row) == len(table["columns"]) for row in table["rows"])
    first = dict(zip((column["name"] for column in table["columns"]), table["rows"][0], strict=True))
    assert str(first["topic-partition"]).startswith("topic ")
    assert str(first["log_dir"]).startswith("log_dir ")


def test_the_page_can_format_every_kind_of_column() -> None:
    script = files(report_html).joinpath("report.js").read_text(encoding="utf-8")
    kinds = {column_kind(column) for table in STORED.values() for column in table.columns}
    listed = script.split("const FORMATTERS = {")[1].split("};")[0]
    names = {line.strip().partition(":")[0].rstrip(",") for line in listed.splitlines()}
    assert kinds <= names
