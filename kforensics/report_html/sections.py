"""Renders the sections of a report; the worst findings of each code have evidence and remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kforensics.forensics.checks.all_checks import ALL_CHECKS
from kforensics.forensics.core.findings import Code, Severity
from kforensics.forensics.core.formatting import format_count, format_duration, format_size, format_time
from kforensics.render.markup import Markup, description_list, element, joined
from kforensics.report_html.charts import Figure
from kforensics.report_html.finding_groups import FindingGroup
from kforensics.report_html.page_rows import PageTable, page_value, topic_partition
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


# Evidence values shown of one finding, and characters of all groups together: groups beyond are only counted.
MAX_EVIDENCE, MAX_FINDINGS_CHARACTERS = 20, 1_500_000
INFO = str(Severity.INFO)
# A plain word, a shell variable, or printable ASCII in single quotes, in which a shell interprets nothing.
ESCAPED = r"(?:[ !#-&(-[\]-_a-z|~]|\\x[0-9a-f]{2})*"
QUOTED = rf"""(?:"\$[A-Z_]+"|'[ !#-&(-_a-z|~]*'|\$'{ESCAPED}')"""
WORD = rf"(?:[A-Za-z0-9_@%+=:,./-]+|(?:--[A-Za-z-]+=)?{QUOTED})"
COMMAND = re.compile(rf"(?:kafka-[a-z-]+\.sh|kforensics)(?: {WORD})+")
# Topic.LEGAL_CHARS. A folder may have any name, which a shell could interpret.
LEGAL_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def finding_blocks(groups: list[FindingGroup]) -> Markup:
    """Return a block for each group; informational findings are collapsed."""
    codes = {code.name: code for check in ALL_CHECKS for code in check.codes.values()}
    blocks, collapsed, size = list[Markup](), list[Markup](), 0
    for group in groups:
        block = _group(group, codes.get(group.code))
        if size + len(block) > MAX_FINDINGS_CHARACTERS:
            block = _group(replace(group, shown=()), codes.get(group.code))
        size += len(block)
        (collapsed if group.severity == INFO else blocks).append(block)
    if not collapsed:
        return joined(*blocks)
    count = sum(group.count for group in groups if group.severity == INFO)
    summary = f"{format_count(count, 'informational finding')} of {format_count(len(collapsed), 'code')}"
    return joined(*blocks, element("details", element("summary", summary), *collapsed))


def _group(group: FindingGroup, code: Code | None) -> Markup:
    badge = element("span", group.severity, class_=f"badge {group.severity}")
    count = element("span", format_count(group.count, "finding"), class_="occurrences")
    title = element("h3", badge, " ", element("code", group.code), " ", count)
    about = () if code is None else (element("p", code.meaning), *_background(code))
    # A remedy that all findings share is shown once.
    is_shared = len(group.shown) > 1 and len({row["remedy"] for row in group.shown}) == 1
    shared = _remedy(group.shown[0]) if is_shared else ()
    findings = element("ul", *(_finding(row, with_remedy=not is_shared) for row in group.shown), class_="findings")
    left = group.count - len(group.shown)
    more = (element("p", f"… and {left:,} more with this code", class_="more"),) if left else ()
    attributes = {"class_": f"group {group.severity}", "id": f"{group.severity}-{group.code}"}
    return element("section", title, *about, *shared, findings, *more, **attributes)


def _background(code: Code) -> Iterator[Markup]:
    if code.why or code.benign:
        texts = [("why it matters", code.why), ("benign causes", code.benign)]
        background = description_list((term, text) for term, text in texts if text)
        yield element("details", element("summary", "about this finding"), background)


def _finding(row: Mapping[str, Any], *, with_remedy: bool) -> Markup:
    broker = "" if row["broker_id"] is None else f" on broker {row['broker_id']}"
    name = f"{_text(topic_partition(row) or str(row['log_dir']))}{broker}"
    place = element("p", element("strong", name), class_="where")
    message = element("p", _text(row["message"]))
    return element("li", place, message, *(_remedy(row) if with_remedy else ()), _evidence(row))


def _remedy(row: Mapping[str, Any]) -> Iterator[Markup]:
    if row["severity"] == INFO or not row["remedy"]:
        return
    copy = element("button", "copy", type="button", class_="copy", hidden="")
    parts = (
        element("span", element("code", part), copy, class_="command") if is_command else part
        for part, is_command in split_commands(row["remedy"], row["topic"])
    )
    yield element("p", element("b", "Do: "), *parts, class_="remedy")


def split_commands(remedy: str, topic: str | None) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a remedy in order, each with whether it is a command to copy.

    >>> list(split_commands("List it with `kafka-topics.sh --list --topic a.b`; then wait.", "a.b"))
    [('List it with ', False), ('kafka-topics.sh --list --topic a.b', True), ('; then wait.', False)]

    Args:
        remedy: text of the remedy, with commands between backquotes.
        topic: topic that the remedy names; with a name that Kafka does not allow, no part is a command.
    """
    if topic is not None and not LEGAL_TOPIC.fullmatch(topic):
        yield remedy, False
        return
    for index, part in enumerate(remedy.split("`")):
        yield part, index % 2 == 1 and COMMAND.fullmatch(part) is not None


def _evidence(row: Mapping[str, Any]) -> Markup:
    return element("details", element("summary", "evidence"), description_list(_facts(row)))


def _facts(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    first, last = row["first_offset"], row["last_offset"]
    if first is not None:
        yield "offsets", f"{first}" if last in (None, first) else f"{first} to {last}"
    if row["producer_id"] is not None:
        epoch = "" if row["producer_epoch"] is None else f", epoch {row['producer_epoch']}"
        yield "producer", f"{row['producer_id']}{epoch}"
    if row["path"] is not None:
        path = _text(row["path"])
        yield "file", path if row["position"] is None else f"{path} byte {row['position']:#x}"
    yield "log directory", _text(row["log_dir"] or "unknown")
    for name, value in list(row["evidence"].items())[:MAX_EVIDENCE]:
        yield _text(name), _text(value if isinstance(value, str) else json.dumps(value))
    yield "exactness", row["exactness"] or "unknown"
    if row["benign"]:
        yield "benign causes", _text(row["benign"])
    if row["cause"]:
        yield "caused by", _text(row["cause"])


def _text(text: str) -> str:
    return str(page_value(text))
