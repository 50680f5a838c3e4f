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
from tests.report_html.opened import NARROW, WIDE, Opened, opened
from tests.report_html.stores import forged, write_manifest
from tests.thorough import some

pytestmark = pytest.mark.browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FloatRect, Locator

# Contrast of WCAG 2.1, level AA, for text of any size.
CONTRAST = 4.5
# Of the incident whose transaction hangs.
HANGS = "hangs: no coordinator will end it (hanging-0"
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


@pytest.mark.parametrize(
    ("size", "scheme"), some([(WIDE, "light"), (NARROW, "light"), (WIDE, "dark"), (NARROW, "dark")], 3), ids=str
)
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
        shown.open("transactions")
        for _ in range(2):
            shown.table("transactions").locator("thead th button", has_text="topic-partition").click()
        names = shown.column("transactions", "topic-partition")
        assert names[:3] == ["topic 24-25", "topic 23-24", "topic 22-23"]
        assert names[-1] == "topic 0-1"


def test_a_table_filters_by_terms(browser: Browser, report: Path) -> None:
    with opened(browser, report) as shown:
        place = shown.table("partitions")
        status = place.locator("[role=status]")
        place.get_by_role("button", name="Show all").click()
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
        shown.open("transactions")
        assert place.locator("tbody tr").count() == 25
        assert place.locator("[role=status]").inner_text() == "25 of 1,000 rows shown; 500 more are in the store"
        query = 'kforensics query STORE "SELECT * FROM transactions"'
        assert place.locator(".rest").inner_text() == f"All 1,500 rows: {query}"
        place.get_by_role("button", name="Show more").click()
        assert place.locator("tbody tr").count() == 225


def test_everything_is_reachable_by_keyboard(browser: Browser, report: Path) -> None:
    with opened(browser, report) as shown:
        page = shown.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the incidents"
        assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
        page.keyboard.press("Enter")
        assert page.url.endswith("#incidents")
        page.keyboard.press("Tab")
        inside = "document.getElementById('incidents').contains(document.activeElement)"
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
        button = shown.page.locator(".card.critical .command", has_text="find-hanging").locator("button").first
        _hanging(shown)
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
        controls = "nav, #filters, .tools, button.copy, [data-table] > button"
        assert shown.page.locator(controls).locator("visible=true").count() == 0
        assert shown.page.locator("[data-chart] svg").first.is_visible()
        assert shown.page.get_by_text("hangs: no coordinator will end it").first.is_visible()
        assert shown.table("transactions").locator("tbody tr").first.is_visible()
        shown.page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert not shown.table("transactions").locator("tbody tr").first.is_visible()


def _hanging(shown: Opened) -> Locator:
    """Return the card of the transaction that hangs, open."""
    card = shown.page.locator("article", has_text=HANGS)
    if not card.locator(".what").is_visible():
        card.locator("summary").first.click()
    return card


def test_without_scripts_the_findings_can_be_read(browser: Browser, report: Path) -> None:
    with opened(browser, report, java_script_enabled=False) as shown:
        card = _hanging(shown)
        text = shown.page.locator("body").inner_text()
        assert "The tables and charts need JavaScript" in text
        assert "CRITICAL, " in text
        assert "Never abort it while the coordinator still owes a marker" in text
        card.locator("summary", has_text="findings").click()
        assert "LSO stuck at 3 (log end 9, 6 offsets hidden)" in shown.page.locator("body").inner_text()
        assert not shown.page.locator("button.copy").first.is_visible()


def test_healthy_and_internal_rows_are_folded(browser: Browser, report: Path) -> None:
    with opened(browser, report) as shown:
        place = shown.table("partitions")
        verdicts = set(shown.column("partitions", "verdict"))
        assert "critical" in verdicts
        assert "clean" not in verdicts
        status = place.locator("[role=status]")
        folded = int(re.findall(r"; ([0-9]+) healthy ones folded", status.inner_text())[0])
        rows = place.locator("tbody tr").count()
        place.get_by_role("button", name=f"Show all {rows + folded}").focus()
        shown.page.keyboard.press("Enter")
        assert place.locator("tbody tr").count() == min(rows + folded, 25)
        assert "folded" not in status.inner_text()
        shown.open("producers")
        assert not [name for name in shown.column("producers", "topic-partition") if name.startswith("__")]


def test_the_page_is_filtered_by_topic_severity_and_incident(browser: Browser, report: Path) -> None:
    with opened(browser, report) as shown:
        page = shown.page
        shown.open("findings")
        cards = page.locator("article:not([hidden])")
        total = cards.count()
        page.get_by_label("topic", exact=True).select_option("hanging")
        assert 0 < cards.count() < total
        assert set(shown.column("findings", "topic-partition")) == {"hanging-0"}
        assert shown.column("partitions", "topic-partition") == ["hanging-0"]
        assert re.match(rf"[0-9]+ of {total} incidents, ", page.locator("#filters [role=status]").inner_text())
        page.get_by_role("button", name="Clear").click()
        assert cards.count() == total
        page.get_by_label("severity", exact=True).select_option("error")
        assert set(shown.column("findings", "severity")) == {"error"}
        assert set(cards.locator(".badge").first.all_inner_texts()) == {"ERROR"}
        page.get_by_label("severity", exact=True).select_option("")
        name = page.locator("article", has_text=HANGS).get_attribute("id") or ""
        page.get_by_label("incident", exact=True).select_option(name.removeprefix("incident-"))
        assert [card.get_attribute("id") for card in cards.all()] == [name]
        links = shown.table("findings").locator("tbody a")
        assert {link.get_attribute("href") for link in links.all()} == {f"#{name}"}
        assert links.count() == shown.table("findings").locator("tbody tr").count() > 1
        assert (shown.messages, shown.requests) == ([], [])


def test_a_card_leads_to_its_findings_and_a_finding_to_its_card(browser: Browser, report: Path) -> None:
    with opened(browser, report) as shown:
        page = shown.page
        card = _hanging(shown)
        assert not shown.table("findings").is_visible()
        card.get_by_role("link", name="in the table of findings").click()
        rows = shown.table("findings").locator("tbody tr")
        rows.first.wait_for(state="visible")
        assert page.url.endswith("#findings")
        card.locator("summary").first.click()
        assert not card.locator(".what").is_visible()
        rows.first.get_by_role("link").click()
        card.locator(".what").wait_for(state="visible")
        code = card.locator(".findings a").first
        card.locator("summary", has_text="findings").click()
        code.click()
        meaning = page.locator(code.get_attribute("href") or "")
        meaning.wait_for(state="visible")


@pytest.mark.parametrize("size", [WIDE, NARROW, (360, 700), (1600, 900)], ids=lambda size: f"{size[0]}")
def test_the_navigation_shows_the_section(browser: Browser, report: Path, size: tuple[int, int]) -> None:
    with opened(browser, report, size) as shown:
        page = shown.page
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        current = page.locator("nav [aria-current]")
        for name in ("Transactions", "Provenance", "Partitions"):
            page.locator("nav a", has_text=name).click()
            page.locator("nav [aria-current]", has_text=name).wait_for()
            assert current.count() == 1
            assert page.locator(f"#{name.lower()} [data-table]").first.is_visible()
            assert 0 <= _box(current)["x"] < size[0]
        assert page.locator("main").count() == page.locator("header").count() == page.locator("nav").count() == 1
        assert page.locator("[role=search]").is_visible()


def _box(place: Locator) -> FloatRect:
    box = place.bounding_box()
    assert box is not None
    return box


def test_heads_stay_and_cut_columns_are_hinted(browser: Browser, tmp_path: Path) -> None:
    store = forged(tmp_path, {"findings": 300})
    with opened(browser, kforensics.report(store, tmp_path / "report.html")) as shown:
        shown.open("findings")
        place = shown.table("findings")
        place.get_by_role("button", name="Show more").click()
        hint, head = place.locator(".hint"), place.locator("thead th").nth(1)
        assert hint.is_visible()
        top = _box(head)["y"]
        place.locator(".scroll").evaluate("(node) => node.scrollTo(0, 900)")
        assert 0 <= top - _box(head)["y"] < 60  # only the caption leaves
        place.locator(".scroll").evaluate("(node) => node.scrollTo(9999, 900)")
        hint.wait_for(state="hidden")


def test_a_lot_of_partitions_fits_on_two_screens(browser: Browser, tmp_path: Path) -> None:
    """One incident and 37 partitions."""
    store = forged(tmp_path, {"partitions": 37, "incidents": 1})
    with opened(browser, kforensics.report(store, tmp_path / "report.html")) as shown:
        assert shown.page.evaluate("document.documentElement.scrollHeight") <= 2 * WIDE[1]


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
        for choice in page.locator("select").all():
            choice.select_option(index=1)
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
        assert page.locator("script").count() == 4  # one more runs the library that a block of the page has
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
