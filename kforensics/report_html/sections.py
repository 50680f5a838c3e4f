"""Renders the sections of a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.formatting import format_count, format_duration, format_size, format_time
from kforensics.render.markup import Markup, description_list, element, joined
from kforensics.report_html.charts import Figure
from kforensics.report_html.finding_groups import FindingGroup
from kforensics.report_html.findings_section import finding_blocks
from kforensics.report_html.page_rows import PageTable, page_value
from kforensics.report_html.store_reader import StoreReader
from kforensics.report_html.store_verdict import StoreVerdict

PARTITION_VERDICTS = (*(str(severity) for severity in sorted(Severity, reverse=True)), "clean", "unread")
# Sections whose charts have long labels.
WIDE_SECTIONS = ("cluster", "damage")
# Characters shown of the command and of the other values of the manifest.
MAX_FACT_CHARACTERS = 4000
# Lines shown below the verdict; each partition that could not be read has one.
MAX_DETAILS = 20


@dataclass(frozen=True, slots=True)
class Section:
    """A section with charts and tables.

    Attributes:
        name: fragment identifier.
        title: heading.
        tables: names of its tables.
        empty: text if none of the tables has rows.
    """

    name: str
    title: str
    tables: tuple[str, ...]
    empty: str


SECTIONS = (
    Section("partitions", "Partitions", ("partitions",), "No partitions."),
    Section("lso", "Last stable offset", ("lso",), "No transaction blocks the last stable offset of a partition."),
    Section("transactions", "Transactions", ("transactions",), "No transactions."),
    Section("producers", "Producers", ("producers",), "No idempotent producers."),
    Section(
        "cluster",
        "Coordinators",
        ("distributed_transactions", "transactional_ids", "committed_offsets"),
        "No logs of transaction coordinators or group coordinators.",
    ),
    Section(
        "replicas",
        "Replicas",
        ("replica_differences", "lost_records", "leader_epoch_lineage"),
        "No differences between the audited replicas.",
    ),
    Section("duplicates", "Duplicates", ("duplicates",), ""),
    Section("damage", "Damage", ("damage",), "All bytes of all logs could be decoded."),
)


def verdict_header(verdict: StoreVerdict) -> Markup:
    """Return the verdict, as in the text report, and a bar of the partitions by verdict."""
    sentence = element("p", verdict.sentence, class_=f"verdict {verdict.name}")
    lines = [element("p", str(page_value(line.strip()))) for line in verdict.details[:MAX_DETAILS]]
    if len(verdict.details) > MAX_DETAILS:
        more = f"… and {len(verdict.details) - MAX_DETAILS:,} more lines; see the table of partitions"
        lines.append(element("p", more))
    return joined(sentence, *lines, _bar([(name, verdict.partitions.get(name, 0)) for name in PARTITION_VERDICTS]))


def _bar(counts: Sequence[tuple[str, int]]) -> Markup:
    """Return a stacked bar as SVG, because the page's policy forbids inline styles."""
    rectangles, x = [], 0
    for name, count in counts:
        if count:
            rectangles.append(element("rect", x=f"{x}", width=f"{count}", height="1", class_=name))
            x += count
    return element(
        "svg",
        *rectangles,
        viewBox=f"0 0 {max(x, 1)} 1",
        preserveAspectRatio="none",
        class_="shares",
        aria_hidden="true",
    )


def findings_section(groups: Sequence[FindingGroup]) -> Markup:
    """Return the section with the worst findings in full and the table of findings."""
    blocks = finding_blocks(list(groups)) if groups else element("p", "No findings.", class_="empty")
    tables = [table_placeholder("findings")] if groups else []
    return _section("findings", "Findings, worst first", blocks, *tables)


def data_sections(
    store: StoreReader, tables: Mapping[str, PageTable], figures: Sequence[Figure]
) -> Iterator[tuple[str, str, Markup]]:
    """Yield name, title and content of the sections with charts and tables."""
    for section in SECTIONS:
        names = [name for name in section.tables if tables[name]["total"]]
        empty = [] if names else [element("p", _empty_text(section, store), class_="empty")]
        charts = [_figure(figure) for figure in figures if figure.section == section.name]
        parts = (*empty, *charts, *map(table_placeholder, names))
        yield section.name, section.title, _section(section.name, section.title, *parts)


def _empty_text(section: Section, store: StoreReader) -> str:
    if section.name != "duplicates":
        return section.empty
    if store.manifest.get("options", {}).get("records"):
        return "No duplicate records."
    return "The audit did not search for duplicate records; it does so with --records."


def _section(name: str, title: str, *parts: Markup) -> Markup:
    heading = element("h2", title, id=f"{name}-title")
    return element("section", heading, *parts, id=name, aria_labelledby=f"{name}-title")


def table_placeholder(name: str) -> Markup:
    """Return the element in which the script shows a table."""
    return element("div", class_="table", data_table=name)


def _figure(figure: Figure) -> Markup:
    caption = element("figcaption", element("b", figure.title), element("span", " ".join(figure.notes)))
    chart = element("div", class_="chart", data_chart=figure.name, role="img", aria_label=figure.title)
    width = "wide" if figure.section in WIDE_SECTIONS else "narrow"
    scroll = element("div", chart, class_=f"scroll {width}", tabindex="0", role="group", aria_label=figure.title)
    return element("figure", caption, scroll)


def provenance_section(store: StoreReader, verdict: StoreVerdict) -> Markup:
    """Return the section about the audit itself: command, options, inputs and store."""
    manifest = store.manifest
    options = [f"{name} {value}" for name, value in manifest.get("options", {}).items() if value not in (None, False)]
    durations = [
        f"{name} {format_duration(round(seconds * 1000))}" for name, seconds in manifest.get("seconds", {}).items()
    ]
    facts = [
        ("kforensics", str(manifest["version"])),
        ("command", " ".join(map(str, manifest["command"]))),
        ("evaluated as of", f"{format_time(manifest['as_of_ms'])} ({manifest['as_of_ms']} ms)"),
        ("options", ", ".join(options) or "none"),
        ("inputs", _inputs(store)),
        ("complete", "yes" if verdict.is_complete else "no, not all inputs could be read"),
        ("time taken", ", ".join(durations)),
        ("rows in the store", ", ".join(f"{name} {count:,}" for name, count in manifest["rows"].items())),
        ("SHA-256 of manifest.json", store.fingerprint),
    ]
    descriptions = description_list((term, text[:MAX_FACT_CHARACTERS]) for term, text in facts)
    return _section("provenance", "Provenance", descriptions, table_placeholder("inputs"))


def _inputs(store: StoreReader) -> str:
    inputs: Any = store.manifest["inputs"]
    if not isinstance(inputs, list):
        return f"{format_count(store.count('files'), 'file')}, in the tables {', '.join(inputs['tables'])} of the store"
    size = sum(file["size"] or 0 for file in inputs)
    return f"{format_count(len(inputs), 'file')}, {format_size(size)}"
