"""Writes a report as one HTML file that loads nothing and in which data from the store stays inert."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from kforensics.errors import MissingExtraError
from kforensics.render.markup import Markup, element, joined
from kforensics.render.output import check_output, open_output
from kforensics.report_html.charts import Figure, report_figures
from kforensics.report_html.finding_groups import finding_groups
from kforensics.report_html.page_rows import inputs_table, page_json, page_table
from kforensics.report_html.report_tables import REPORT_TABLES
from kforensics.report_html.sections import data_sections, findings_section, provenance_section, verdict_header
from kforensics.report_html.store_reader import StoreReader, open_store
from kforensics.report_html.store_verdict import StoreVerdict, store_verdict

__all__ = ["report_page", "write_report"]

LANGUAGE = "en"
VIEWPORT = "width=device-width, initial-scale=1"


def write_report(store: str, output: Path, bootstrap_server: str | None = None) -> StoreVerdict:
    """Write the report of a store and return its verdict.

    Args:
        store: folder of the store, a path or a URI.
        output: HTML file to write; it is created completely or not at all.
        bootstrap_server: addresses of brokers for the commands in remedies, None if they are unknown.

    Raises:
        InputError: the store cannot be read.
        UsageError: the folder is not an evidence store, or the file cannot be written or would be in the store.
    """
    check_output(output, (store,))
    verdict, page = report_page(open_store(store), bootstrap_server)
    with open_output(output) as out:
        out.write(page.encode())
    return verdict


def report_page(store: StoreReader, bootstrap_server: str | None = None) -> tuple[StoreVerdict, str]:
    """Return the verdict of a store and its report as HTML; equal stores give equal bytes.

    Args:
        store: the store.
        bootstrap_server: addresses of brokers for the commands in remedies, None if they are unknown.

    Raises:
        InputError: a table of the store cannot be read.
    """
    verdict = store_verdict(store)
    tables = {name: page_table(store, table) for name, table in REPORT_TABLES.items()}
    tables["inputs"] = inputs_table(store)
    figures, library, notices = _charts(store)
    groups = [group.for_brokers(bootstrap_server) for group in finding_groups(store, verdict.findings_by_code)]
    sections = [
        ("findings", "Findings", findings_section(groups)),
        *data_sections(store, tables, figures),
        ("provenance", "Provenance", provenance_section(store, verdict)),
    ]
    links = (element("li", element("a", title, href=f"#{name}")) for name, title, _ in sections)
    body = joined(
        element("a", "Skip to the findings", href="#findings", class_="skip"),
        element("header", element("h1", "kforensics report"), verdict_header(verdict), *notices),
        element("noscript", element("p", "The tables and charts need JavaScript. The findings are shown without it.")),
        element("nav", element("ul", *links), aria_label="Sections"),
        element("main", *(content for _, _, content in sections)),
    )
    data = {"tables": tables, "charts": {figure.name: figure.spec for figure in figures}}
    return verdict, _document(f"kforensics: {verdict.name}", body, data, library)


def _charts(store: StoreReader) -> tuple[Sequence[Figure], str, Sequence[Markup]]:
    """Return the charts, the JavaScript that draws them, and a notice if they are omitted."""
    try:
        figures = report_figures(store)
        if not figures:
            return (), "", ()
        from kforensics.plots.html_page import libraries  # reports without charts do not need Altair

        return figures, libraries(), ()
    except MissingExtraError as error:
        return (), "", (element("p", f"Charts are left out: {error}", class_="notice"),)


def _document(title: str, body: Markup, data: Mapping[str, Any], library: str) -> str:
    style, script = _resource("report.css"), _resource("report.js")
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
    # The policy comes first, because browsers apply it only to what follows.
    head = (
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content=VIEWPORT),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(style)),
    )
    embedded = element("script", Markup(page_json(data)), type="application/json", id="data")
    running = (element("script", Markup(text)) for text in scripts)
    page = element("html", element("head", *head), element("body", body, embedded, *running), lang=LANGUAGE)
    return f"<!DOCTYPE html>\n{page}\n"


def _resource(name: str) -> str:
    return files("kforensics.report_html").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
