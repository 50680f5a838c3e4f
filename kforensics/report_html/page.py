"""A report as one HTML file that needs no network and that nothing in a store can act on."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from kforensics.errors import MissingExtraError
from kforensics.report_html.charts import Figure, figures
from kforensics.report_html.chosen_findings import groups
from kforensics.report_html.elements import Markup, joined, tag
from kforensics.report_html.inputs import inputs_sheet
from kforensics.report_html.page_rows import as_json, sheet
from kforensics.report_html.report_columns import SHOWN_TABLES
from kforensics.report_html.sections import findings_section, head, plain_sections, provenance
from kforensics.report_html.stored_evidence import Store
from kforensics.report_html.verdict import Verdict, verdict_of

__all__ = ["report_page"]

LANGUAGE = "en"
VIEWPORT = "width=device-width, initial-scale=1"


def report_page(store: Store) -> tuple[Verdict, str]:
    """Return the verdict of a store, and the report as HTML; the same store gives the same bytes.

    Args:
        store: what to report on.

    Raises:
        InputError: a table of it cannot be read.
    """
    verdict = verdict_of(store)
    sheets = {name: sheet(store, shown) for name, shown in SHOWN_TABLES.items()} | {"inputs": inputs_sheet(store)}
    drawn, library, lacking = _charts(store)
    found = groups(store, verdict.codes)
    plain = list(plain_sections(store, sheets, drawn))
    sections = [("findings", "Findings", findings_section(found)), *plain]
    sections.append(("provenance", "Provenance", provenance(store, verdict)))
    links = (tag("li", tag("a", title, href=f"#{name}")) for name, title, _ in sections)
    body = joined(
        tag("a", "Skip to the findings", href="#findings", class_="skip"),
        tag("header", tag("h1", "kforensics report"), head(verdict), *lacking),
        tag("noscript", tag("p", "The tables and charts need JavaScript; what was found is told without.")),
        tag("nav", tag("ul", *links), aria_label="Sections"),
        tag("main", *(content for _, _, content in sections)),
    )
    data = {"tables": sheets, "charts": {figure.name: figure.spec for figure in drawn}}
    return verdict, _document(f"kforensics: {verdict.word}", body, data, library)


def _charts(store: Store) -> tuple[Sequence[Figure], str, Sequence[Markup]]:
    """Return charts, the library that draws them, and what to say where there is none."""
    try:
        drawn = figures(store)
        if not drawn:
            return (), "", ()
        from kforensics.plots.page import libraries  # as the charts themselves

        return drawn, libraries(), ()
    except MissingExtraError as error:
        return (), "", (tag("p", f"Charts are left out: {error}", class_="lacking"),)


def _document(title: str, body: Markup, data: Mapping[str, Any], library: str) -> str:
    style, script = _ours("report.css"), _ours("report.js")
    scripts = [text for text in (library, script) if text]
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, scripts))}",
            f"style-src {_hash(style)}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    # Browsers heed a policy from where it stands on, so it comes first.
    top = (
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content=VIEWPORT),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(style)),
    )
    embedded = tag("script", Markup(as_json(data)), type="application/json", id="data")
    running = (tag("script", Markup(text)) for text in scripts)
    page = tag("html", tag("head", *top), tag("body", body, embedded, *running), lang=LANGUAGE)
    return f"<!DOCTYPE html>\n{page}\n"


def _ours(name: str) -> str:
    return files("kforensics.report_html").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
