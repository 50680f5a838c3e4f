"""A report as Chromium shows it, with everything noted that it should not do."""

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
# Fires where a policy forbids something, which the console does not always say.
WATCH = "addEventListener('securitypolicyviolation', (event) => console.error('policy', event.violatedDirective))"


@dataclass
class Opened:
    """An open report.

    Attributes:
        page: the page.
        said: what went to the console, and errors.
        asked: addresses that were asked for, its own left out.
    """

    page: Page
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def table(self, name: str) -> Locator:
        """Return the place of a table."""
        return self.page.locator(f"[data-table={name}]")

    def column(self, table: str, heading: str) -> list[str]:
        """Return what a table shows in a column, row by row."""
        place = self.table(table)
        headings = place.locator("thead th").all_inner_texts()
        at = [text.strip() for text in headings].index(heading) + 1
        return place.locator(f"tbody tr > :nth-child({at})").all_inner_texts()

    def draw(self) -> None:
        """Have all charts drawn, as for paper."""
        self.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        # Not by a function: the page would have to compile it, which its policy forbids.
        expect(self.page.locator("[data-chart][data-drawn]")).to_have_count(self.page.locator("[data-chart]").count())


@contextmanager
def opened(
    browser: Browser, report: Path, size: tuple[int, int] = WIDE, scheme: str = "light", **options: object
) -> Iterator[Opened]:
    """Open a report, and close it again.

    Args:
        browser: in which.
        report: the file.
        size: of the window.
        scheme: ``light`` or ``dark``.
        options: of the context besides.
    """
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, **options)  # type: ignore[arg-type]  # literals
    page = context.new_page()
    found = Opened(page)
    page.add_init_script(WATCH)
    page.on("console", lambda message: found.said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: found.said.append(f"error: {error}"))
    page.on("dialog", lambda dialog: found.said.append(f"dialog: {dialog.message}"))
    page.on("dialog", lambda dialog: dialog.dismiss())
    page.on("request", lambda request: found.asked.append(request.url))
    address = report.absolute().as_uri()
    page.goto(address)
    found.asked.remove(address)
    yield found
    context.close()
