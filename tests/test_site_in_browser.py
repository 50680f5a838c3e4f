"""The site in a headless Chromium: no page is wider than a phone, and text is readable in light and in dark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.command import ROOT
from tests.once import once
from tests.report_html.test_in_browser import CONTRAST, CONTRASTS
from tests.thorough import some

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.repository]

PHONE, SCREEN = (390, 844), (1280, 900)
# Elements that reach beyond the window, except those inside of one that scrolls by itself.
BEYOND = """() => {
  const scrolls = (node) => node !== document.body
    && (getComputedStyle(node).overflowX !== "visible" || scrolls(node.parentElement));
  return [...document.querySelectorAll("body *")]
    .filter((node) => node.offsetParent && node.getBoundingClientRect().right > innerWidth + 1)
    .filter((node) => !scrolls(node.parentElement))
    .map((node) => `${node.tagName} ${node.textContent.slice(0, 40)}`);
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site."""
    pytest.importorskip("material", reason="the site is built with MkDocs, which `make site` installs")
    return once(tmp_path_factory, "site", _build)


def _build(folder: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr


def pages(site: Path) -> list[Path]:
    """Return the pages; that of errors has absolute addresses, for a server."""
    found = [page for page in sorted(site.glob("*.html")) if page.name != "404.html"]
    assert len(found) > 30
    return found


def test_no_page_scrolls_sideways_on_a_phone(site: Path, browser: Browser) -> None:
    page, wide = browser.new_page(viewport={"width": PHONE[0], "height": PHONE[1]}), {}
    for path in some(pages(site), 3):
        page.goto(path.as_uri())
        beyond = page.evaluate(BEYOND)
        if beyond or page.evaluate("document.documentElement.scrollWidth") > PHONE[0]:
            wide[path.name] = beyond
    assert wide == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable(site: Path, browser: Browser, scheme: str) -> None:
    """The contrast is that of AA, also of links, code and what is in menus."""
    size = {"width": SCREEN[0], "height": SCREEN[1]}
    page = browser.new_page(viewport=size, color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]  # literals
    weak: dict[str, list[object]] = {}
    for path in some(pages(site), 3, 1 if scheme == "light" else 2):
        page.goto(path.as_uri())
        assert (
            page.locator("body").get_attribute("data-md-color-scheme") == {"light": "default", "dark": "slate"}[scheme]
        )
        found = [row for row in page.evaluate(CONTRASTS) if row[0] < CONTRAST]
        weak |= {path.name: found} if found else {}
    assert weak == {}


def test_the_first_page_shows_its_pictures(site: Path, browser: Browser) -> None:
    page, requested = browser.new_page(), []
    page.on("request", lambda request: requested.append(request.url))
    page.goto((site / "index.html").as_uri())
    loaded = page.evaluate("[...document.querySelectorAll('.pictures img')].map((image) => image.naturalWidth)")
    assert len(loaded) == 2
    assert min(loaded) > 0
    assert [address for address in requested if not address.startswith(site.as_uri())] == []
    page.click(".pictures a")
    page.wait_for_selector("html[data-ready]", state="attached")
