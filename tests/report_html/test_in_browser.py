"""The report in a headless Chromium: quiet, offline, usable by mouse and keyboard, and readable at any width."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kforensics
from tests.api.views.page import HOSTILE
from tests.report_html.opened import NARROW, WIDE, opened
from tests.report_html.stores import forged, write_manifest

pytestmark = pytest.mark.browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Contrast of WCAG 2.1, level AA, for text of any size.
CONTRAST = 4.5
# Returns the contrast of every element with text of its own, and the start of the text.
CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data; };
  const linear = (c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const shares = [0.2126, 0.7152, 0.0722];
  const light = (color) => shares.reduce((sum, share, at) => sum + linear(color[at] / 255) * share, 0);
  const back = (node) => {
    for (; node; node = node.parentElement) {
      const color = getComputedStyle(node).backgroundColor;
      if (rgb(color)[3] > 0) return color;
    }
    throw new Error("the page has no background");
  };
  const own = (node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
  const seen = new Map();
  for (const node of document.querySelectorAll("body *:not(script):not(noscript):not(svg *)")) {
    if (!own(node) || !node.offsetParent) continue;
    const pair = [getComputedStyle(node).color, back(node)];
    if (seen.has(pair.join())) continue;
    const [a, b] = pair.map((color) => light(rgb(color)));
    seen.set(pair.join(), [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), node.textContent.slice(0, 30), ...pair]);
  }
  return [...seen.values()];
}"""


@pytest.fixture(scope="module")
def report(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the report of the sample."""
    return kforensics.report(store, tmp_path_factory.mktemp("written") / "report.html")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_it_opens_quietly_and_fits(
    browser: Browser, report: Path, size: tuple[int, int], scheme: str, tmp_path: Path
) -> None:
    with opened(browser, report, size, scheme) as shown:
        shown.draw()
        page = shown.page
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        assert page.locator("[data-chart] svg").count() == page.locator("[data-chart]").count() > 5
        assert page.locator("[data-chart] svg .mark-rule line, [data-chart] svg .mark-rect path").count() > 20
        assert [ratio for ratio in page.evaluate(CONTRASTS) if ratio[0] < CONTRAST] == []
        picture = tmp_path / "page.png"
        page.screenshot(path=picture)
        assert picture.stat().st_size > 20_000
        assert page.evaluate("getComputedStyle(document.body).colorScheme || 'light dark'")
        assert (shown.messages, shown.requests) == ([], [])


def test_a_table_sorts_by_a_click_and_by_the_keyboard(browser: Browser, report: Path) -> None:
    with opened(browser, report) as shown:
        heading = shown.table("partitions").locator("thead th", has_text="log end offset")
        button = heading.locator("button")
        assert heading.get_attribute("aria-sort") is None
        button.click()
        ascending = [int(text) for text in shown.column("partitions", "log end offset") if text]
        assert ascending == sorted(ascending)
        assert heading.get_attribute("aria-sort") == "ascending"
        button.focus()
        shown.page.keyboard.press("Enter")
        descending = [int(text) for text in shown.column("partitions", "log end offset") if text]
        assert descending == sorted(descending, reverse=True)
        assert descending[0] > ascending[0]
        assert heading.get_attribute("aria-sort") == "descending"
        other = shown.table("partitions").locator("thead th", has_text="verdict")
        other.locator("button").click()
        assert (other.get_attribute("aria-sort"), heading.get_attribute("aria-sort")) == ("ascending", None)
        assert shown.messages == []


def test_names_sort_by_number_and_nulls_stay_last(browser: Browser, tmp_path: Path) -> None:
    store = forged(tmp_path, {"transactions": 25})
    with opened(browser, kforensics.report(store, tmp_path / "report.html")) as shown:
        for _ in range(2):
            shown.table("transactions").locator("thead th button", has_text="topic-partition").click()
        names = shown.column("transactions", "topic-partition")
        assert names[:3] == ["topic 24-25", "topic 23-24", "topic 22-23"]
        assert names[-1] == "topic 0-1"


def test_a_table_filters_by_terms(browser: Browser, report: Path) -> None:
    with opened(browser, report) as shown:
        place = shown.table("partitions")
        status = place.locator("[role=status]")
        total = int(re.findall(r"of ([0-9,]+) rows", status.inner_text())[0].replace(",", ""))
        place.get_by_label("Filter").fill("CRITICAL open")
        place.locator("tbody tr", has_text="hanging-0").wait_for(state="detached")
        names, verdicts = (shown.column("partitions", heading) for heading in ("topic-partition", "verdict"))
        assert names == ["open-0"]
        assert verdicts == ["critical"]
        assert status.inner_text() == "1 of 1 matching rows shown"
        place.get_by_label("Filter").fill("nothing has this")
        place.locator("tbody tr").wait_for(state="detached")
        place.get_by_label("Filter").fill("")
        place.locator("tbody tr", has_text="hanging-0").wait_for()
        assert f"of {total} rows" in status.inner_text()


def test_more_rows_are_shown_on_request(browser: Browser, tmp_path: Path) -> None:
    store = forged(tmp_path, {"transactions": 1500})
    with opened(browser, kforensics.report(store, tmp_path / "report.html")) as shown:
        place = shown.table("transactions")
        assert place.locator("tbody tr").count() == 25
        assert place.locator("[role=status]").inner_text() == "25 of 1,000 rows shown; 500 more are in the store"
        place.get_by_role("button", name="Show more").click()
        assert place.locator("tbody tr").count() == 225


def test_everything_is_reachable_by_keyboard(browser: Browser, report: Path) -> None:
    with opened(browser, report) as shown:
        page = shown.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the findings"
        assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
        page.keyboard.press("Enter")
        assert page.url.endswith("#findings")
        page.keyboard.press("Tab")
        inside = "document.getElementById('findings').contains(document.activeElement)"
        assert page.evaluate(inside)
        count = page.locator("a, button:visible, summary:visible, input:visible, [tabindex='0']").count()
        steps = []
        for _ in range(count + 5):
            page.keyboard.press("Tab")
            steps.append(page.evaluate("document.activeElement.closest('section[id]:not(.group)')?.id"))
            assert page.evaluate(
                "document.activeElement === document.body || getComputedStyle(document.activeElement).outlineStyle"
            ) in (True, "solid")
            if steps[-1] == "provenance" and len(set(steps)) > 8:
                break
        assert steps[-1] == "provenance"


def test_a_command_is_copied(browser: Browser, report: Path) -> None:
    with opened(browser, report, permissions=["clipboard-read", "clipboard-write"]) as shown:
        button = shown.page.get_by_role("button", name="copy this command").first
        command = button.locator("xpath=preceding-sibling::code").inner_text()
        button.focus()
        shown.page.keyboard.press("Enter")
        shown.page.locator("button.copy", has_text="copied").wait_for()
        assert shown.page.evaluate("navigator.clipboard.readText()") == command
        assert command.startswith('kafka-transactions.sh --bootstrap-server "$BOOTSTRAP" ')


def test_printing_shows_charts_and_no_controls(browser: Browser, report: Path) -> None:
    with opened(browser, report) as shown:
        shown.page.emulate_media(media="print")
        shown.draw()
        controls = "nav, .tools, button.copy, [data-table] > button"
        assert shown.page.locator(controls).locator("visible=true").count() == 0
        assert shown.page.locator("[data-chart] svg").first.is_visible()
        assert shown.page.get_by_text("LSO stuck at 3 (log end 9, 6 offsets hidden)").first.is_visible()


def test_without_scripts_the_findings_can_be_read(browser: Browser, report: Path) -> None:
    with opened(browser, report, java_script_enabled=False) as shown:
        text = shown.page.locator("body").inner_text()
        assert "The tables and charts need JavaScript" in text
        assert "CRITICAL: " in text
        assert "Do: No coordinator waits for it" in text
        assert not shown.page.locator("button.copy").first.is_visible()


def _all_at_once(column: str, row: int) -> str:
    text = " ".join(HOSTILE.values())
    return json.dumps({text: text}) if column == "evidence" else f"{text}{row}"


def _one_each(column: str, row: int) -> str:
    text = [*HOSTILE.values()][row % len(HOSTILE)]
    return json.dumps({text: text}) if column == "evidence" else text


@pytest.mark.parametrize("texts", [_all_at_once, _one_each])
def test_untrusted_text_has_no_effect(browser: Browser, texts: Callable[[str, int], str], tmp_path: Path) -> None:
    """In every column of every table: as text in the page, in tables that are sorted and filtered, and in charts."""
    many = ("findings", "transactions", "distributed_transactions", "damage")
    store = forged(tmp_path, dict.fromkeys(many, 40), texts)
    counts = json.loads((store / "manifest.json").read_text("utf-8"))["rows"]
    hostile = " ".join(HOSTILE.values())
    write_manifest(store, rows=counts, command=["audit", hostile], options={hostile: hostile})
    with opened(browser, kforensics.report(store, tmp_path / "report.html")) as shown:
        page = shown.page
        shown.draw()
        for button in page.locator("thead th:first-child button").all():
            button.click()
        for field in page.locator("input[type=search]").all():
            field.fill("<script>")
        for mark in page.locator("[data-chart] svg [role=graphics-symbol]").all()[:40]:
            mark.dispatch_event("pointermove")
            mark.dispatch_event("mousemove")
        assert page.locator("#vg-tooltip-element").inner_text()
        page.wait_for_timeout(200)
        assert (
            page.locator(
                "img, iframe, object, embed, form:not(.vega-bindings), link, [onerror], [onload], [onmouseover]"
            ).count()
            == 0
        )
        assert page.locator("script").count() == 3
        assert page.evaluate("[...document.querySelectorAll('a')].every((a) => a.getAttribute('href').startsWith('#'))")
        assert (shown.messages, shown.requests) == ([], [])


def test_the_policy_blocks_injected_markup(browser: Browser, report: Path, tmp_path: Path) -> None:
    """In a page with injected markup, the script does not run and the image does not load."""
    evil = (
        "<script>document.title = 'broken'</script><img src='https://example.org/x.png' onerror='document.title = 1'>"
    )
    broken = tmp_path / "broken.html"
    broken.write_text(report.read_text(encoding="utf-8").replace("<main>", f"<main>{evil}"), encoding="utf-8")
    with opened(browser, broken) as shown:
        shown.page.wait_for_timeout(200)
        assert shown.page.title().startswith("kforensics: ")
        assert [message for message in shown.messages if "script-src" in message]
        assert [message for message in shown.messages if "img-src" in message or "default-src" in message]
