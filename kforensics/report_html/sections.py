"""What stands in a report, section by section."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kforensics.forensics.core.findings import Severity
from kforensics.render.formatting import amount, moment, size_text
from kforensics.report_html.charts import Figure
from kforensics.report_html.chosen_findings import Group
from kforensics.report_html.elements import Markup, items, joined, tag
from kforensics.report_html.findings_section import group_list
from kforensics.report_html.page_rows import Sheet, value_of
from kforensics.report_html.stored_evidence import Store
from kforensics.report_html.verdict import Verdict

__all__ = ["Section", "findings_section", "head", "plain_sections", "provenance", "table_place"]

SEVERITIES = [str(severity) for severity in sorted(Severity, reverse=True)]
VERDICTS = (*SEVERITIES, "clean", "unread")
# Sections whose charts have names of any length beside them.
WIDE = ("cluster", "damage")
# Characters of a command, and of what else the manifest says, that are shown.
LONGEST = 4000
# Lines below the verdict, of which each partition that could not be read has one.
SHOWN_LINES = 20


@dataclass(frozen=True, slots=True)
class Section:
    """A section.

    Attributes:
        name: by which it is linked to.
        title: its heading.
        tables: those it shows.
        empty: what to say if none of them has rows.
    """

    name: str
    title: str
    tables: tuple[str, ...]
    empty: str


SECTIONS = (
    Section("partitions", "Partitions", ("partitions",), "There was no partition."),
    Section(
        "lso",
        "Who holds the last stable offset",
        ("lso",),
        "Nothing holds back the last stable offset of any partition.",
    ),
    Section("transactions", "Transactions", ("transactions",), "No partition has a transaction."),
    Section("producers", "Producers", ("producers",), "No partition has an idempotent producer."),
    Section(
        "cluster",
        "Coordinators",
        ("distributed_transactions", "transactional_ids", "committed_offsets"),
        "Nothing of a transaction coordinator or a group coordinator is in the store.",
    ),
    Section(
        "replicas",
        "Replicas",
        ("replica_differences", "lost_records", "leader_epoch_lineage"),
        "No two replicas differ, as far as there were several of a partition.",
    ),
    Section("duplicates", "Written twice", ("duplicates",), ""),
    Section("damage", "Damage", ("damage",), "All bytes of all logs could be read."),
)


def head(verdict: Verdict) -> Markup:
    """Return the verdict, as the audit said it, and how many partitions are how bad."""
    sentence = tag("p", verdict.sentence, class_=f"verdict {verdict.word}")
    lines = [tag("p", str(value_of(line.strip()))) for line in verdict.details[:SHOWN_LINES]]
    if len(verdict.details) > SHOWN_LINES:
        lines.append(tag("p", f"… and {len(verdict.details) - SHOWN_LINES:,} more lines; see the table of partitions"))
    return joined(sentence, *lines, _bar([(word, verdict.partitions.get(word, 0)) for word in VERDICTS]))


def _bar(counts: Sequence[tuple[str, int]]) -> Markup:
    """Return partitions as a bar, cut by their verdicts; as a drawing, for the page allows no style of an element."""
    parts, at = [], 0
    for word, count in counts:
        if count:
            parts.append(tag("rect", x=f"{at}", width=f"{count}", height="1", class_=word))
            at += count
    return tag(
        "svg", *parts, viewBox=f"0 0 {max(at, 1)} 1", preserveAspectRatio="none", class_="shares", aria_hidden="true"
    )


def findings_section(groups: Sequence[Group]) -> Markup:
    """Return the findings told in full, and the table of all codes."""
    told = group_list(list(groups)) if groups else tag("p", "Nothing was found.", class_="empty")
    return _section("findings", "What was found, the worst first", told, *([table_place("findings")] if groups else []))


def plain_sections(
    store: Store, sheets: Mapping[str, Sheet], drawn: Sequence[Figure]
) -> Iterator[tuple[str, str, Markup]]:
    """Yield name, title and content of the sections that are charts and tables."""
    for section in SECTIONS:
        names = [name for name in section.tables if sheets[name]["total"]]
        here = [_figure(figure) for figure in drawn if figure.section == section.name]
        said = [] if names else [tag("p", _empty(section, store), class_="empty")]
        parts = (*said, *here, *map(table_place, names))
        yield section.name, section.title, _section(section.name, section.title, *parts)


def _empty(section: Section, store: Store) -> str:
    if section.name != "duplicates":
        return section.empty
    if store.manifest.get("options", {}).get("records"):
        return "No record is there twice."
    return "The audit did not look for records that are there twice; with --records it does."


def _section(name: str, title: str, *parts: Markup) -> Markup:
    return tag("section", tag("h2", title, id=f"{name}-title"), *parts, id=name, aria_labelledby=f"{name}-title")


def table_place(name: str) -> Markup:
    """Return where a table is to be shown."""
    return tag("div", class_="table", data_table=name)


def _figure(figure: Figure) -> Markup:
    caption = tag("figcaption", tag("b", figure.title), tag("span", " ".join(figure.notes)))
    chart = tag("div", class_="chart", data_chart=figure.name, role="img", aria_label=figure.title)
    width = "wide" if figure.section in WIDE else "narrow"
    place = tag("div", chart, class_=f"scroll {width}", tabindex="0", role="group", aria_label=figure.title)
    return tag("figure", caption, place)


def provenance(store: Store, verdict: Verdict) -> Markup:
    """Return where all this comes from: what was run, on what, when, and what is in the store."""
    said = store.manifest
    options = ", ".join(
        f"{name} {value}" for name, value in said.get("options", {}).items() if value not in (None, False)
    )
    facts = [
        ("kforensics", str(said["version"])),
        ("command", " ".join(map(str, said["command"]))[:LONGEST]),
        ("judged as of", f"{moment(said['as_of_ms'])} UTC ({said['as_of_ms']} ms)"),
        ("options", options or "none"),
        ("inputs", _inputs(store)),
        ("could all be read", "yes" if verdict.is_whole else "no"),
        ("time taken", ", ".join(f"{name} {seconds} s" for name, seconds in said.get("seconds", {}).items())),
        ("rows in the store", ", ".join(f"{name} {count:,}" for name, count in said["rows"].items())),
        ("SHA-256 of manifest.json", store.fingerprint),
    ]
    return _section(
        "provenance", "Provenance", items((term, text[:LONGEST]) for term, text in facts), table_place("inputs")
    )


def _inputs(store: Store) -> str:
    found: Any = store.manifest["inputs"]
    if not isinstance(found, list):
        return f"{amount(store.count('files'), 'file')}, in the tables {', '.join(found['tables'])} of the store"
    size = sum(one["size"] or 0 for one in found)
    return f"{amount(len(found), 'file')}, {size_text(size)}"
