"""The report of a store with a million rows is small and opens quickly."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kforensics.report_html.report_page import report_page
from kforensics.report_html.store_reader import open_store
from tests.report_html.opened import opened
from tests.report_html.stores import forged

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROWS = {
    "findings": 250_000,
    "transactions": 250_000,
    "producers": 150_000,
    "partitions": 100_000,
    "lso_history": 100_000,
    "distributed_transactions": 50_000,
    "lost_records": 50_000,
    "files": 50_000,
}
MOST_BYTES = 10_000_000
# Far more than needed, for a machine under load.
LOAD_SECONDS = 20


@pytest.mark.browser
def test_the_report_of_a_million_rows_is_small_and_opens_quickly(browser: Browser, tmp_path: Path) -> None:
    assert sum(ROWS.values()) == 1_000_000
    store = forged(tmp_path, ROWS, parts=4)
    start = time.perf_counter()
    _, page = report_page(open_store(str(store)))
    made = time.perf_counter() - start
    report = tmp_path / "report.html"
    report.write_text(page, encoding="utf-8")
    size = report.stat().st_size
    assert size < MOST_BYTES
    start = time.perf_counter()
    with opened(browser, report) as shown:
        loaded = time.perf_counter() - start
        assert loaded < LOAD_SECONDS
        shown.open("findings")
        status = shown.table("findings").locator("[role=status]").inner_text()
        assert status.startswith("25 of ")
        assert status.endswith(" more are in the store")
        shown.draw()
        assert (shown.messages, shown.requests) == ([], [])
    print(f"\na report of 1,000,000 rows: made in {made:.1f} s, {size / 1e6:.1f} MB, opened in {loaded:.1f} s")  # noqa: T201  # shown by pytest -s


@pytest.mark.slow
def test_the_size_of_a_report_is_limited(tmp_path: Path) -> None:
    """The worst case: every table has too many rows, and every text is too long."""
    store = forged(tmp_path, dict.fromkeys(ROWS, 1100), lambda _column, row: f"{row}" + "<" * 2000)
    _, page = report_page(open_store(str(store)))
    assert len(page.encode()) < MOST_BYTES
