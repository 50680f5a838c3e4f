"""Writes a report as one HTML file that loads nothing and in which data from the store stays inert."""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from kforensics.errors import MissingExtraError
from kforensics.render.markup import Markup, element, joined
from kforensics.render.output import check_output, open_output
from kforensics.render.redaction import Redaction
from kforensics.render.streams import ProgressMeter
from kforensics.report_html.charts import Figure, report_figures
from kforensics.report_html.incident_rows import (
    BlockingTransactions,
    IncidentsByFinding,
    StoredIncident,
    stored_incidents,
)
from kforensics.report_html.page_rows import DerivedColumn, PageTable, inputs_table, page_json, page_table, page_value
from kforensics.report_html.report_tables import REPORT_TABLES
from kforensics.report_html.sections import (
    data_sections,
    findings_section,
    incidents_section,
    provenance_section,
    verdict_header,
)
from kforensics.report_html.store_reader import StoreReader, open_store, redacted_store
from kforensics.report_html.store_verdict import StoreVerdict, store_verdict

__all__ = ["report_page", "write_report"]

LANGUAGE = "en"
VIEWPORT = "width=device-width, initial-scale=1"
NO_SCRIPT = element(
    "noscript", element("p", "The tables and charts need JavaScript. The incidents and their findings do not.")
)
INCIDENT_COLUMN = {
    "name": "incident",
    "kind": "incident",
    "doc": "its incident; empty if the store does not show which of several it is",
}
TRANSACTIONAL_ID_COLUMN = {
    "name": "transactional_id",
    "kind": "text",
    "doc": "transactional id of the blocking transaction, from the log of its coordinator",
}
STATE_COLUMN = {
    "name": "coordinator_state",
    "kind": "text",
    "doc": "last state of that transactional id in the log of its coordinator",
}


def write_report(
    store: str,
    output: Path | None,
    bootstrap_server: str | None = None,
    meter: ProgressMeter | None = None,
    redaction: Redaction | None = None,
) -> StoreVerdict:
    """Write the report of a store and return its verdict.

    Args:
        store: folder of the store, a path or a URI.
        output: HTML file to write; it is created completely or not at all. None for standard output.
        bootstrap_server: addresses of brokers for the commands in remedies, None if they are unknown.
        meter: shows how far the tables have been read; None for nothing.
        redaction: redacts the page, None if nothing does.

    Raises:
        InputError: the store cannot be read.
        UsageError: the folder is not an evidence store, or the file cannot be written or would be in the store.
    """
    check_output(output, (store,))
    reader = open_store(store, meter)
    if redaction is not None:
        reader, bootstrap_server = redacted_store(reader, redaction), redaction.addresses(bootstrap_server)
    verdict, page = report_page(reader, bootstrap_server)
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
    incidents = stored_incidents(store, bootstrap_server)
    tables = _tables(store, incidents)
    figures, library, notices = _charts(store)
    cards = () if incidents is None else (incidents_section(incidents, store.count("incidents")),)
    sections = [
        *(("incidents", "Incidents", card) for card in cards),
        ("findings", "Findings", findings_section(verdict.findings_by_code, tables["findings"]["total"])),
        *data_sections(store, tables, figures),
        ("provenance", "Provenance", provenance_section(store, verdict)),
    ]
    links = (element("li", element("a", title, href=f"#{name}")) for name, title, _ in sections)
    body = joined(
        element("a", f"Skip to the {sections[0][0]}", href=f"#{sections[0][0]}", class_="skip"),
        element("header", element("h1", "kforensics report"), verdict_header(verdict, incidents), *notices, NO_SCRIPT),
        element("nav", element("ul", *links), aria_label="Sections"),
        element("div", id="filters", role="search", aria_label="Filter the report", hidden=""),
        element("main", *(content for _, _, content in sections)),
    )
    data = {
        "tables": tables,
        "charts": {figure.name: figure.spec for figure in figures},
        "incidents": [_filter_choice(incident) for incident in incidents or ()],
    }
    return verdict, _document(f"kforensics: {verdict.name}", body, data, library)


def _tables(store: StoreReader, incidents: list[StoredIncident] | None) -> dict[str, PageTable]:
    """Return the tables of the page; findings name their incidents, and the LSO the transaction that blocks it."""
    by_finding = IncidentsByFinding.of(incidents or [], store.count("incidents"))
    blocking = BlockingTransactions.of(store)
    derived: dict[str, tuple[DerivedColumn, ...]] = {
        "findings": () if incidents is None else ((INCIDENT_COLUMN, by_finding.incident_of),),
        "lso": (
            (TRANSACTIONAL_ID_COLUMN, blocking.transactional_id),
            (STATE_COLUMN, blocking.state),
        ),
    }
    tables = {name: page_table(store, table, derived.get(name, ())) for name, table in REPORT_TABLES.items()}
    return {**tables, "inputs": inputs_table(store)}


def _filter_choice(incident: StoredIncident) -> dict[str, Any]:
    """Return by what the page filters an incident, and its name among the choices."""
    row = incident.row
    topics = None if incident.topics is None else [page_value(topic) for topic in incident.topics]
    return {"id": incident.name, "kind": page_value(row["kind"]), "severity": row["severity"], "topics": topics}


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
    embedded = [_packed("data", page_json(data)), *([_packed("library", library)] if library else [])]
    running = element("script", Markup(script))
    page = element("html", element("head", *head), element("body", body, *embedded, running), lang=LANGUAGE)
    return f"<!DOCTYPE html>\n{page}\n"


def _packed(name: str, text: str) -> Markup:
    """Return text in a block that no browser runs, compressed to a quarter; the script of the page reads it."""
    packed = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    return element("script", Markup(packed), type="application/gzip", id=name)


def _resource(name: str) -> str:
    return files("kforensics.report_html").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
