"""A report in Chromium, with a log of its messages and requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

__all__ = ["Opened", "opened"]

WIDE, NARROW = (1280, 900), (380, 800)
# Logs policy violations, because the console does not always report them.
WATCH = "addEventListener('securitypolicyviolation', (event) => console.error('policy', event.violatedDirective))"


@dataclass
class Opened:
    """An open report.

    Attributes:
        page: the page.
        messages: console messages, dialogs and errors.
        requests: requested addresses, except that of the report.
    """

    page: Page
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def table(self, name: str) -> Locator:
        """Return the container of a table."""
        return self.page.locator(f"[data-table={name}]")

    def column(self, table: str, heading: str) -> list[str]:
        """Return the texts of a column, row by row."""
        place = self.table(table)
        headings = place.locator("thead th").all_inner_texts()
        at = [text.strip() for text in headings].index(heading) + 1
        return place.locator(f"tbody tr > :nth-child({at})").all_inner_texts()

    def open(self, *sections: str) -> None:
        """Open folded sections."""
        for name in sections:
            self.page.evaluate("(id) => (document.querySelector(`#${id} > details`).open = true)", name)

    def draw(self) -> None:
        """Open all sections and draw all charts, as before printing."""
        self.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        # Not by a function, which the page would have to compile against its policy.
        expect(self.page.locator("[data-chart][data-drawn]")).to_have_count(self.page.locator("[data-chart]").count())


@contextmanager
def opened(
    browser: Browser, report: Path, size: tuple[int, int] = WIDE, scheme: str = "light", **options: object
) -> Iterator[Opened]:
    """Open a report in a browser.

    Args:
        browser: the browser.
        report: the HTML file.
        size: width and height of the window.
        scheme: ``light`` or ``dark``.
        options: further options of the browser context.
    """
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, **options)  # type: ignore[arg-type]  # literals
    page = context.new_page()
    report_page = Opened(page)
    page.add_init_script(WATCH)
    page.on("console", lambda message: report_page.messages.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: report_page.messages.append(f"error: {error}"))
    page.on("dialog", lambda dialog: report_page.messages.append(f"dialog: {dialog.message}"))
    page.on("dialog", lambda dialog: dialog.dismiss())
    page.on("request", lambda request: report_page.requests.append(request.url))
    address = report.absolute().as_uri()
    page.goto(address)
    report_page.requests.remove(address)
    if options.get("java_script_enabled", True):
        page.wait_for_selector("html[data-ready]", state="attached")
    yield report_page
    context.close()
