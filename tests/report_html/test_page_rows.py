"""Rows become JSON that a page can hold, of bounded size."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics import reporting
from kforensics.forensics.core.tables import RESULTS
from kforensics.parsers.tables.schemas import TABLES
from kforensics.report_html.page_rows import CHARACTERS, ROWS, as_json, sheet, sheet_of, value_of
from kforensics.report_html.report_columns import SHOWN_TABLES, kind_of
from kforensics.report_html.stored_evidence import open_store
from tests.api.views.page import HOSTILE
from tests.report_html.stores import forged


@given(st.recursive(st.one_of(st.none(), st.text(), st.integers()), lambda inner: st.lists(inner, max_size=4)))
def test_json_says_the_same_and_has_no_sign_that_html_knows(value: Any) -> None:
    text = as_json(value)
    assert json.loads(text) == value
    assert not set(text) & set("<>&\u2028\u2029")
    assert text.isascii()


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_text_of_strangers_is_printable(text: str) -> None:
    assert value_of(text).isprintable()
    assert value_of(text.encode()).isprintable()


def test_numbers_stay_exact() -> None:
    assert value_of((1 << 53) + 1) == "9007199254740993"
    assert value_of(-(1 << 53)) == -(1 << 53)
    assert value_of(float("nan")) is None
    assert value_of(True) is True


def test_long_text_is_cut() -> None:
    assert len(value_of("x" * 10_000)) < 500


def test_a_table_holds_no_more_than_a_page_can() -> None:
    long = sheet_of("long", [], (["<" * 300] * 4 for _ in range(5000)), lambda: 5000)
    assert len(as_json(long["rows"])) <= CHARACTERS + 2 * ROWS
    many = sheet_of("many", [], ([1] for _ in range(5000)), lambda: 5000)
    assert (len(many["rows"]), many["total"]) == (ROWS, 5000)


@pytest.mark.parametrize("name", SHOWN_TABLES)
def test_every_table_has_its_rows_in_its_columns(name: str, tmp_path: Path) -> None:
    shown = SHOWN_TABLES[name]
    found = sheet(open_store(str(forged(tmp_path, {name: 2500}, parts=3))), shown)
    assert found["total"] in (2500, 1250)  # every second one, where only those are shown that differ
    assert len(found["rows"]) == ROWS
    assert all(len(row) == len(found["columns"]) for row in found["rows"])
    first = dict(zip((column["name"] for column in found["columns"]), found["rows"][0], strict=True))
    assert str(first["topic-partition"]).startswith("topic ")
    assert str(first["log_dir"]).startswith("log_dir ")


def test_every_column_has_a_kind_that_the_page_can_write() -> None:
    script = files(reporting).joinpath("report.js").read_text(encoding="utf-8")
    kinds = {kind_of(column) for table in ({**TABLES, **RESULTS}).values() for column in table.columns}
    listed = script.split("const WRITTEN = {")[1].split("};")[0]
    names = {line.strip().partition(":")[0].rstrip(",") for line in listed.splitlines()}
    assert kinds <= names
