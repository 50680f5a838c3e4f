"""Reports in a headless Chromium, examined by axe-core: nothing serious, in light and in dark."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

import kforensics
from tests.command import SAMPLES
from tests.report_html.opened import NARROW, WIDE, opened
from tests.report_html.stores import AS_OF_MS, forged
from tests.thorough import some

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

SERIOUS = ("serious", "critical")


@pytest.fixture(scope="session")
def axe() -> str:
    """Return the script of axe-core, which axe-playwright-python brings along."""
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def report(request: pytest.FixtureRequest, store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the report of a store with many incidents, of a healthy one, and of one with 1,000 partitions."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "healthy":
        store = folder / "store"
        kforensics.audit(SAMPLES / "compaction", output=store, as_of=AS_OF_MS)
    elif request.param == "thousand":
        store = forged(folder, {"partitions": 1000, "findings": 1500, "incidents": 30})
    return kforensics.report(store, folder / "report.html")


def _violations(axe: str, browser: Browser, report: Path, size: tuple[int, int], scheme: str) -> list[Any]:
    """Return what axe-core finds in a report with all sections open and all charts drawn."""
    with opened(browser, report, size, scheme) as shown:
        shown.draw()
        # By the developer tools, to which the page's policy does not apply.
        shown.page.evaluate(axe)
        found: dict[str, Any] = shown.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        assert len(found["passes"]) > 20
        assert found["testEngine"]["name"] == "axe-core"
        return list(found["violations"])


@pytest.mark.parametrize(
    ("report", "size", "scheme"),
    some(
        [
            ("incidents", NARROW, "light"),
            ("incidents", WIDE, "light"),
            ("thousand", WIDE, "dark"),
            ("healthy", WIDE, "light"),
        ],
        2,
    ),
    indirect=["report"],
    ids=str,
)
def test_axe_finds_nothing_serious(
    browser: Browser, axe: str, report: Path, size: tuple[int, int], scheme: str
) -> None:
    violations = _violations(axe, browser, report, size, scheme)
    serious = [
        (violation["id"], violation["help"], [node["html"][:120] for node in violation["nodes"][:3]])
        for violation in violations
        if violation["impact"] in SERIOUS
    ]
    assert serious == []


@pytest.mark.parametrize("report", ["healthy"], indirect=True)
def test_axe_finds_buttons_and_links_without_a_name(browser: Browser, axe: str, report: Path, tmp_path: Path) -> None:
    """So that a report in which it finds nothing is one that it has examined."""
    page = report.read_text(encoding="utf-8").replace("<main>", '<main><p><a href="#x"></a><button></button></p>', 1)
    broken = tmp_path / "broken.html"
    broken.write_text(page, encoding="utf-8")
    violations = _violations(axe, browser, broken, WIDE, "light")
    assert {"button-name", "link-name"} <= {violation["id"] for violation in violations}
