"""Renders the sections of a report: the verdict, the cards of incidents, and folded sections with charts and tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kforensics.forensics.checks.all_checks import ALL_CHECKS
from kforensics.forensics.core.findings import Code, Severity
from kforensics.forensics.core.formatting import format_count, format_duration, format_size, format_time
from kforensics.render.markup import Markup, description_list, element, joined
from kforensics.report_html.charts import Figure
from kforensics.report_html.incident_cards import INFO, MAX_LONG_CHARACTERS, MEANINGS, incident_card, short_text
from kforensics.report_html.incident_rows import StoredIncident
from kforensics.report_html.page_rows import PageTable
from kforensics.report_html.store_reader import StoreReader
from kforensics.report_html.store_verdict import StoreVerdict

PARTITION_VERDICTS = (*(str(severity) for severity in sorted(Severity, reverse=True)), "clean", "unread")
# Part of the bar that a verdict has at least if any partition has it.
LEAST_SHARE = 0.02
# Sections whose charts have long labels.
WIDE_SECTIONS = ("timeline", "cluster", "damage")
# Lines shown below the verdict, and without a click; each partition that could not be read has one.
MAX_DETAILS, MAX_OPEN_DETAILS = 20, 4
# Characters of all cards together, beyond which cards show no findings; cards that are open at first; and cards
# that are not folded together.
MAX_CARD_CHARACTERS, OPEN_CARDS, MAX_CARDS = 300_000, 1, 12


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
    Section("timeline", "Timeline", (), "Nothing in the store has a time."),
    Section("lso", "Last stable offset", ("lso",), "No transaction blocks the last stable offset of a partition."),
    Section("transactions", "Transactions", ("transactions",), "No transactions."),
    Section("producers", "Producers", ("producers",), "No idempotent producers."),
    Section("batches", "Batches", (), "No batches are counted by producer, codec and size."),
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


def verdict_header(verdict: StoreVerdict, incidents: Sequence[StoredIncident] | None) -> Markup:
    """Return the verdict, as in the text report, the worst incident in one sentence, and the partitions by verdict.

    Args:
        verdict: the verdict.
        incidents: the incidents, worst first; None if the store has none because an older version wrote it.
    """
    sentence = element("p", verdict.sentence, class_=f"verdict {verdict.name}")
    summary = element("p", *_summary(verdict, incidents), class_="lead")
    lines = [element("p", short_text(line.strip()), class_="detail") for line in verdict.details[:MAX_DETAILS]]
    if len(verdict.details) > MAX_DETAILS:
        more = f"… and {len(verdict.details) - MAX_DETAILS:,} more lines; see the table of partitions"
        lines.append(element("p", more, class_="detail"))
    if len(lines) > MAX_OPEN_DETAILS:
        names = element("summary", "what could not be read")
        lines[1:] = [element("details", names, *lines[1:])]
    shares = _bar([(name, verdict.partitions.get(name, 0)) for name in PARTITION_VERDICTS])
    return joined(sentence, summary, *lines, shares)


def _summary(verdict: StoreVerdict, incidents: Sequence[StoredIncident] | None) -> Iterator[str]:
    """Yield sentences for readers who do not know Kafka's files: how many incidents, and what the worst one did."""
    if incidents is None:
        yield "This store has no table of incidents; an older version of kforensics wrote it. Run the audit again."
        return
    if not incidents:
        yield "Nothing was found." if verdict.is_complete else "Nothing was found in what could be read."
        return
    row = incidents[0].row
    if row["severity"] == INFO:
        yield "Nothing needs to be done: everything that was found is informational."
        return
    urgent = sum(count for severity, count in verdict.incidents_by_severity.items() if severity != INFO)
    where = format_count(row["partition_count"], "partition")
    yield f"{format_count(urgent, 'incident')} {'needs' if urgent == 1 else 'need'} action."
    yield f" The worst: {short_text(MEANINGS.get(row['kind'], row['kind']))}, in {where}"
    if row["since"] is not None:
        yield from (" since ", element("span", format_time(row["since"]), class_="time"))
    yield f". {short_text(row['impact'] or '')}".rstrip()


def _bar(counts: Sequence[tuple[str, int]]) -> Markup:
    """Return a stacked bar as SVG, because the page's policy forbids inline styles; the smallest share is visible."""
    rectangles, x = [], 0
    least = sum(count for _, count in counts) * LEAST_SHARE
    for name, count in counts:
        if count:
            width = max(count, math.ceil(least))
            rectangles.append(element("rect", x=f"{x}", width=f"{width}", height="1", class_=name))
            x += width
    return element(
        "svg",
        *rectangles,
        viewBox=f"0 0 {max(x, 1)} 1",
        preserveAspectRatio="none",
        class_="shares",
        aria_hidden="true",
    )


def incidents_section(incidents: Sequence[StoredIncident], total: int) -> Markup:
    """Return a card for each incident, worst first; informational ones are folded.

    Args:
        incidents: the first incidents of the store.
        total: number of incidents in the store.
    """
    cards, lesser, minor, size = list[Markup](), list[Markup](), list[Markup](), 0
    for index, incident in enumerate(incidents):
        card = incident_card(incident, is_open=index < OPEN_CARDS, has_findings=True)
        if size + len(card) > MAX_CARD_CHARACTERS:
            card = incident_card(incident, is_open=False, has_findings=False)
        size += len(card)
        (minor if incident.row["severity"] == INFO else cards if len(cards) < MAX_CARDS else lesser).append(card)
    for group, what in ((lesser, "more incident"), (minor, "informational incident")):
        if group:
            cards.append(element("details", element("summary", format_count(len(group), what)), *group, class_="minor"))
    if more := total - len(incidents):
        query = element("code", 'kforensics query STORE "SELECT * FROM incidents"')
        cards.append(element("p", f"… and {more:,} more, in the table incidents of the store: ", query, class_="more"))
    empty = () if total else (element("p", "No incidents.", class_="empty"),)
    return _section("incidents", "Incidents, worst first", *cards, *empty)


def findings_section(codes: Mapping[tuple[Severity, str], int], count: int) -> Markup:
    """Return the section with the table of findings and what each code means.

    Args:
        codes: number of findings by severity and code.
        count: number of rows of the table of findings.
    """
    if not codes:
        return _section("findings", "Findings", element("p", "No findings.", class_="empty"))
    known = {code.name: code for check in ALL_CHECKS for code in check.codes.values()}
    ordered = sorted(codes.items(), key=lambda item: (-item[0][0], item[0][1]))
    names = dict.fromkeys(name for (_, name), _ in ordered)
    blocks = (_code(name, known.get(name), {s: n for (s, code), n in ordered if code == name}) for name in names)
    legend = element("details", element("summary", "What the codes mean"), *blocks, class_="codes")
    return _folded("findings", "Findings", format_count(count, "row"), table_placeholder("findings"), legend)


def _code(name: str, code: Code | None, counts: Mapping[Severity, int]) -> Markup:
    badges = (
        element("span", f"{count:,} {severity}", class_=f"badge {severity}") for severity, count in counts.items()
    )
    title = element("h3", element("code", name), " ", *badges)
    about = () if code is None else (element("p", code.meaning), *_background(code))
    return element("div", title, *about, id=f"code-{name}", class_="code")


def _background(code: Code) -> Iterator[Markup]:
    texts = [("why it matters", code.why), ("benign causes", code.benign)]
    if any(text for _, text in texts):
        yield description_list((term, text) for term, text in texts if text)


def data_sections(
    store: StoreReader, tables: Mapping[str, PageTable], figures: Sequence[Figure]
) -> Iterator[tuple[str, str, Markup]]:
    """Yield name, title and content of the sections with charts and tables."""
    for section in SECTIONS:
        names = [name for name in section.tables if tables[name]["total"]]
        charts = [_figure(figure) for figure in figures if figure.section == section.name]
        parts = (*charts, *map(table_placeholder, names))
        if not parts:
            empty = element("p", _empty_text(section, store), class_="empty")
            yield section.name, section.title, _section(section.name, section.title, empty)
        elif section.name == "partitions":
            yield section.name, section.title, _section(section.name, section.title, *parts)
        else:
            sizes = [format_count(sum(tables[name]["total"] for name in names), "row")] if names else []
            extent = ", ".join(sizes + ([format_count(len(charts), "chart")] if charts else []))
            yield section.name, section.title, _folded(section.name, section.title, extent, *parts)


def _empty_text(section: Section, store: StoreReader) -> str:
    if section.name != "duplicates":
        return section.empty
    if store.manifest.get("options", {}).get("records"):
        return "No duplicate records."
    return "The audit did not search for duplicate records; it does so with --records."


def _section(name: str, title: str, *parts: Markup) -> Markup:
    heading = element("h2", title, id=f"{name}-title")
    return element("section", heading, *parts, id=name, aria_labelledby=f"{name}-title")


def _folded(name: str, title: str, extent: str, *parts: Markup) -> Markup:
    """Return a section that opens on a click, on a link to it and for printing."""
    heading = element("h2", title, id=f"{name}-title")
    summary = element("summary", heading, element("span", extent, class_="extent"))
    details = element("details", summary, *parts)
    return element("section", details, id=name, class_="folded", aria_labelledby=f"{name}-title")


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
    descriptions = description_list((term, text[:MAX_LONG_CHARACTERS]) for term, text in facts)
    inputs = table_placeholder("inputs")
    return _folded("provenance", "Provenance", f"kforensics {manifest['version']}", descriptions, inputs)


def _inputs(store: StoreReader) -> str:
    inputs: Any = store.manifest["inputs"]
    if not isinstance(inputs, list):
        return f"{format_count(store.count('files'), 'file')}, in the tables {', '.join(inputs['tables'])} of the store"
    size = sum(file["size"] or 0 for file in inputs)
    return f"{format_count(len(inputs), 'file')}, {format_size(size)}"
